/* parts.c - see parts.h. */
#include "parts.h"
#include "partition.h"

static void add(struct parts *p, const struct conf_queue *q, char *name)
{
	p->v[p->n] = *q;
	p->v[p->n++].name = name;
}

void parts_init(struct parts *p, const struct conf_queue *q)
{
	size_t n = q->partitions > 1 ? (size_t)q->partitions : 1;

	*p = (struct parts){.queue = q, .is_spread = n > 1, .number = -1};
	p->v = xcalloc(n, sizeof(*p->v));
	for (size_t i = 0; i < n; i++)
		add(p, q, partition_stream(q->name, (int)i, (int)n));
}

void parts_init_one(struct parts *p, const struct conf_queue *q, const char *name)
{
	*p = (struct parts){.queue = q, .number = (int)strtol(strrchr(name, ':') + 1, NULL, 10)};
	p->v = xcalloc(1, sizeof(*p->v));
	add(p, q, xstrdup(name));
}

void parts_release(struct parts *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].name);
	free(p->v);
	*p = (struct parts){0};
}

const char *parts_name(const struct parts *p)
{
	return p->is_spread ? p->queue->name : p->v[0].name;
}

/* ------------------------------------------------------------------ ids */

char *parts_id(const struct parts *p, size_t i, const char *id)
{
	return p->is_spread ? xasprintf("%zu:%s", i, id) : xstrdup(id);
}

char *parts_label(const struct parts *p, size_t i, const char *id)
{
	int number = p->is_spread ? (int)i : p->number;

	return number >= 0 && partition_is_entry_id(slice_str(id)) ? xasprintf("%d:%s", number, id)
								   : xstrdup(id);
}

int parts_read_id(const struct parts *p, const char *text, const char **id)
{
	size_t n_digits = strspn(text, "0123456789");
	bool is_number = n_digits == 1 || (n_digits == 2 && text[0] != '0');
	int number;

	*id = text;
	if (!is_number || text[n_digits] != ':' || !text[n_digits + 1])
		return PARTS_ANY;
	number = (int)strtol(text, NULL, 10);
	if (p->is_spread ? number >= (int)p->n : number != p->number)
		return PARTS_ANY;
	*id = text + n_digits + 1;
	return p->is_spread ? number : 0;
}

bool parts_may_be_chosen(const char *text, const char *id)
{
	return id != text && !partition_is_entry_id(slice_str(id));
}
