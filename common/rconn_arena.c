/* rconn_arena.c - see rconn_arena.h. */
#include <hiredis/hiredis.h>

#include "buf.h"
#include "rconn_arena.h"

/* Holds an ordinary reply whole. What a larger one needs beyond it is given back. */
#define BLOCK_BYTES ((size_t)64 * 1024)
#define ALIGN (sizeof(void *))

struct block {
	struct block *below; /* owned */
	size_t size;
	char bytes[];
};

struct rconn_arena {
	struct block *top; /* owned; the last of them is of BLOCK_BYTES and stays */
	size_t used;       /* of the top one */
	size_t array_max;
	bool is_looked_at;
	bool is_orphan; /* the reader is gone */
};

static struct block *new_block(struct block *below, size_t size)
{
	struct block *b = xrealloc(NULL, sizeof(*b) + size);

	b->below = below;
	b->size = size;
	return b;
}

static void *lay_down(struct rconn_arena *a, size_t n)
{
	char *at;

	n = (n + ALIGN - 1) & ~(ALIGN - 1);
	if (n > a->top->size - a->used) {
		a->top = new_block(a->top, n > BLOCK_BYTES ? n : BLOCK_BYTES);
		a->used = 0;
	}
	at = a->top->bytes + a->used;
	a->used += n;
	return at;
}

/* ------------------------------------------------------------------ called by the reader */

static redisReply *new_reply(const redisReadTask *task)
{
	redisReply *r = lay_down(task->privdata, sizeof(*r));

	memset(r, 0, sizeof(*r));
	r->type = task->type;
	if (task->parent)
		((redisReply *)task->parent->obj)->element[task->idx] = r;
	return r;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
	redisReply *r = new_reply(task);

	r->str = lay_down(task->privdata, len + 1);
	memcpy(r->str, text, len);
	r->str[len] = '\0';
	r->len = len;
	return r;
}

/* hiredis 1.0 changed the type of the length. */
#if HIREDIS_MAJOR >= 1
typedef size_t array_len;
#else
typedef int array_len;
#endif

static void *create_array(const redisReadTask *task, array_len n)
{
	struct rconn_arena *a = task->privdata;
	size_t bytes = (size_t)n * sizeof(redisReply *);
	redisReply *r;

	if ((size_t)n > a->array_max)
		return NULL;
	r = new_reply(task);
	r->element = lay_down(a, bytes);
	memset(r->element, 0, bytes);
	r->elements = (size_t)n;
	return r;
}

static void *create_integer(const redisReadTask *task, long long n)
{
	redisReply *r = new_reply(task);

	r->integer = n;
	return r;
}

static void *create_nil(const redisReadTask *task)
{
	redisReply *r = new_reply(task);

	r->type = REDIS_REPLY_NIL; /* the task is of what might have been */
	return r;
}

static void forget_nothing(void *reply ATTR_UNUSED)
{
	/* The arena does. */
}

static redisReplyObjectFunctions functions = {
	.createString = create_string,
	.createArray = create_array,
	.createInteger = create_integer,
	.createNil = create_nil,
	.freeObject = forget_nothing,
};

/* ------------------------------------------------------------------ life */

struct rconn_arena *rconn_arena_new(size_t array_max)
{
	struct rconn_arena *a = xcalloc(1, sizeof(*a));

	a->array_max = array_max;
	a->top = new_block(NULL, BLOCK_BYTES);
	return a;
}

void rconn_arena_serve(struct rconn_arena *a, struct redisReader *r)
{
	r->fn = &functions;
	r->privdata = a;
}

static void drop_top(struct rconn_arena *a)
{
	struct block *b = a->top;

	a->top = b->below;
	free(b);
}

void rconn_arena_look(struct rconn_arena *a)
{
	a->is_looked_at = true;
}

void rconn_arena_done(struct rconn_arena *a)
{
	a->is_looked_at = false;
	if (a->is_orphan) {
		rconn_arena_free(a);
		return;
	}
	while (a->top->below)
		drop_top(a);
	a->used = 0;
}

void rconn_arena_free(struct rconn_arena *a)
{
	if (!a)
		return;
	a->is_orphan = true;
	if (a->is_looked_at)
		return;
	while (a->top)
		drop_top(a);
	free(a);
}
