/* rconn_sentinel_pick.c - see rconn_sentinel_pick.h. */
#include <hiredis/hiredis.h>

#include "rconn_sentinel_pick.h"

#define HOST_MAX 255

void sentinel_pick_init(struct sentinel_pick *p, size_t n)
{
	INVARIANT(n > 0);
	*p = (struct sentinel_pick){.n = n};
}

void sentinel_pick_begin(struct sentinel_pick *p)
{
	p->n_asked = 0;
	p->fault = SENTINEL_SILENT;
	p->why[0] = '\0';
}

bool sentinel_pick_whom(struct sentinel_pick *p, size_t *index)
{
	*index = p->front;
	return p->n_asked < p->n;
}

void sentinel_pick_no_answer(struct sentinel_pick *p, enum sentinel_fault fault, const char *fmt,
			     ...)
{
	va_list ap;

	p->n_asked++;
	sentinel_pick_rotate(p);
	if (p->why[0] && fault < p->fault)
		return;
	p->fault = fault;
	va_start(ap, fmt);
	vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
}

void sentinel_pick_rotate(struct sentinel_pick *p)
{
	p->front = (p->front + 1) % p->n;
}

/* A whole number that a port can be; -1 if not. */
static int port_of(const redisReply *r)
{
	char *end;
	long n;

	if (r->type != REDIS_REPLY_STRING || r->len == 0 || r->len > 5)
		return -1;
	n = strtol(r->str, &end, 10);
	return *end || n < 1 || n > 65535 ? -1 : (int)n;
}

static bool is_host(const redisReply *r)
{
	if (r->type != REDIS_REPLY_STRING || r->len == 0 || r->len > HOST_MAX)
		return false;
	for (size_t i = 0; i < r->len; i++)
		if ((unsigned char)r->str[i] <= ' ' || (unsigned char)r->str[i] >= 0x7f)
			return false;
	return true;
}

int sentinel_answer(const struct redisReply *r, const char *master, struct redis_place *out,
		    enum sentinel_fault *fault, char why[160])
{
	bool is_list = r->type == REDIS_REPLY_ARRAY;

	if (is_list && r->elements == 2 && is_host(r->element[0]) && port_of(r->element[1]) > 0) {
		out->host = xmemdup0(r->element[0]->str, r->element[0]->len);
		out->port = port_of(r->element[1]);
		return 0;
	}
	*fault = SENTINEL_REFUSES;
	if (r->type == REDIS_REPLY_NIL || (is_list && r->elements == 0)) {
		*fault = SENTINEL_UNAWARE;
		snprintf(why, 160,
			 "knows no master \"%.60s\"; write the name that is in sentinel.conf",
			 master);
	} else if (r->type != REDIS_REPLY_ERROR) {
		snprintf(why, 160, "answers in a shape that is not understood");
	} else if (strncmp(r->str, "NOAUTH", 6) == 0) {
		snprintf(why, 160, "wants a password; set sentinel_password");
	} else if (strstr(r->str, "unknown command")) {
		snprintf(why, 160, "is no Sentinel; is that the port of a Redis server?");
	} else {
		snprintf(why, 160, "%.150s", r->str);
	}
	return -1;
}
