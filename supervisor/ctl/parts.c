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

	*p = (struct parts){.queue = q, .is_spread = n > 1};
	p->v = xcalloc(n, sizeof(*p->v));
	for (size_t i = 0; i < n; i++)
		add(p, q, partition_stream(q->name, (int)i, (int)n));
}

void parts_init_one(struct parts *p, const struct conf_queue *q, const char *name)
{
	*p = (struct parts){.queue = q};
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
	return p->is_spread ? xasprintf("%zu/%s", i, id) : xstrdup(id);
}

int parts_read_id(const struct parts *p, const char *text, const char **id)
{
	size_t n_digits = strspn(text, "0123456789");
	bool is_number = n_digits == 1 || (n_digits == 2 && text[0] != '0');

	*id = text;
	if (!p->is_spread || !is_number || text[n_digits] != '/' || !text[n_digits + 1] ||
	    strtoul(text, NULL, 10) >= p->n)
		return PARTS_ANY;
	*id = text + n_digits + 1;
	return (int)strtoul(text, NULL, 10);
}
