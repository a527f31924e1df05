/* task_index.c - see task_index.h. */
#include "task.h"
#include "task_index.h"

/* FNV-1a: ids are a few digits that differ in their last ones. */
static size_t hash(const char *id)
{
	uint64_t h = 14695981039346656037u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 1099511628211u;
	return (size_t)(h ^ h >> 32);
}

void task_index_init(struct task_index *ix, size_t max)
{
	size_t n = 4;

	while (n < 2 * max)
		n *= 2;
	*ix = (struct task_index){.place = xcalloc(n, sizeof(struct task *)), .mask = n - 1};
}

void task_index_release(struct task_index *ix)
{
	free(ix->place);
	*ix = (struct task_index){.place = NULL};
}

/* Where it is, or the empty place where it would be. */
static size_t look_up(const struct task_index *ix, const struct queue *q, const char *id)
{
	size_t i = hash(id) & ix->mask;

	for (const struct task *t; (t = ix->place[i]); i = (i + 1) & ix->mask)
		if (t->queue == q && strcmp(t->id, id) == 0)
			break;
	return i;
}

void task_index_add(struct task_index *ix, struct task *t)
{
	size_t i = look_up(ix, t->queue, t->id);

	INVARIANT(!ix->place[i]);
	INVARIANT(2 * ix->n <= ix->mask);
	ix->place[i] = t;
	ix->n++;
}

void task_index_drop(struct task_index *ix, const struct task *t)
{
	size_t hole = look_up(ix, t->queue, t->id);

	INVARIANT(ix->place[hole] == t);
	ix->place[hole] = NULL;
	ix->n--;
	/* Whoever comes behind and would be looked for from the hole or before it, moves there. */
	for (size_t i = (hole + 1) & ix->mask; ix->place[i]; i = (i + 1) & ix->mask) {
		size_t home = hash(ix->place[i]->id) & ix->mask;

		if (((i - home) & ix->mask) < ((i - hole) & ix->mask))
			continue;
		ix->place[hole] = ix->place[i];
		ix->place[i] = NULL;
		hole = i;
	}
}

struct task *task_index_find(const struct task_index *ix, const struct queue *q, const char *id)
{
	return ix->place[look_up(ix, q, id)];
}
