/* args.c - see args.h. */
#include <inttypes.h>

#include "args.h"

void args_init(struct args *a)
{
	*a = (struct args){.v = NULL};
	buf_init(&a->kept);
	buf_init(&a->adopted);
}

void args_release(struct args *a)
{
	free(a->v);
	buf_release(&a->kept);
	buf_release(&a->adopted);
	args_init(a);
}

static void add(struct args *a, const char *data, size_t len)
{
	if (a->n == a->cap) {
		a->cap = a->cap ? a->cap * 2 : 16;
		a->v = xrealloc(a->v, (size_t)a->cap * sizeof(*a->v));
	}
	a->v[a->n].data = data;
	a->v[a->n].len = len;
	a->n++;
}

void args_str(struct args *a, const char *text)
{
	add(a, text, strlen(text));
}

void args_slice(struct args *a, struct slice s)
{
	add(a, s.data ? s.data : "", s.len);
}

void args_int(struct args *a, int64_t n)
{
	add(a, NULL, a->kept.len);
	buf_addf(&a->kept, "%" PRId64, n);
	buf_addc(&a->kept, '\0');
}

void args_join(struct args *a, const char *front, const char *back)
{
	add(a, NULL, a->kept.len);
	buf_addf(&a->kept, "%s%s", front, back);
	buf_addc(&a->kept, '\0');
}

int args_reserve(struct args *a)
{
	add(a, NULL, 0);
	return a->n - 1;
}

void args_set_int(struct args *a, int place, int64_t n)
{
	a->v[place].len = a->kept.len;
	buf_addf(&a->kept, "%" PRId64, n);
	buf_addc(&a->kept, '\0');
}

void args_adopt(struct args *a, struct args *from)
{
	args_done(from); /* the texts it keeps need not be found again */
	free(a->v);
	a->v = from->v;
	a->n = from->n;
	a->cap = from->cap;
	INVARIANT(a->adopted.len == 0);
	buf_release(&a->adopted);
	a->adopted = from->kept;
	args_init(from);
}

const struct rconn_arg *args_done(struct args *a)
{
	for (int i = 0; i < a->n; i++) {
		if (a->v[i].data)
			continue;
		a->v[i].data = a->kept.data + a->v[i].len;
		a->v[i].len = strlen(a->v[i].data);
	}
	return a->v;
}
