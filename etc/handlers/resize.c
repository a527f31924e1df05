/*
 * resize.c - a library handler that does something: halves a grey picture (PGM, P5) and leaves the
 * small one as the result of the task.
 *
 *	cc -O2 -fPIC -shared -I worker -o resize.so etc/handlers/resize.c
 *	redisq-supervisor -e -q pictures -s queue.result_ttl=1h -k so -- ./resize.so
 *	printf 'P5 4 4 255\n0123456789abcdef' | redisqctl push pictures --wait -
 *
 * (-I worker in the source tree; installed, the header is found without it.)
 */
#include <redisq_handler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE_MAX 20000

struct picture {
	unsigned width, height;
	const unsigned char *pixels;
};

static int parse(const struct redisq_task *t, struct picture *p)
{
	char head[64];
	size_t n = t->payload_len < sizeof(head) - 1 ? t->payload_len : sizeof(head) - 1;
	int used = 0;

	memcpy(head, t->payload, n);
	head[n] = '\0';
	if (sscanf(head, "P5 %u %u 255%n", &p->width, &p->height, &used) != 2 || used == 0)
		return -1;
	if (p->width < 2 || p->height < 2 || p->width > SIDE_MAX || p->height > SIDE_MAX)
		return -1;
	p->pixels = (const unsigned char *)t->payload + used + 1;
	return t->payload_len - (size_t)used - 1 < (size_t)p->width * p->height ? -1 : 0;
}

static void halve_row(const struct picture *p, unsigned y, unsigned char *out)
{
	const unsigned char *a = p->pixels + (size_t)2 * y * p->width, *b = a + p->width;

	for (unsigned x = 0; x < p->width / 2; x++)
		out[x] = (unsigned char)((a[2 * x] + a[2 * x + 1] + b[2 * x] + b[2 * x + 1]) / 4);
}

static int handle(const struct redisq_task *t, struct redisq_result *r)
{
	struct picture p;
	unsigned char *out;
	int n, code = 0;

	if (parse(t, &p) < 0) {
		snprintf(r->error, sizeof(r->error), "not a grey picture (PGM, P5)");
		return 65; /* it will not be one the next time either: a dead letter */
	}
	out = malloc(64 + (size_t)(p.width / 2) * (p.height / 2));
	if (!out)
		return 75; /* not now */
	n = sprintf((char *)out, "P5 %u %u 255\n", p.width / 2, p.height / 2);
	for (unsigned y = 0; y < p.height / 2 && code == 0; y++) {
		halve_row(&p, y, out + n + (size_t)y * (p.width / 2));
		code = redisq_cancelled(t);
	}
	if (code == 0 &&
	    redisq_set_result(t, out, (size_t)n + (size_t)(p.width / 2) * (p.height / 2)) < 0) {
		snprintf(r->error, sizeof(r->error), "the small one is too large for a result");
		code = 65;
	}
	free(out);
	return code;
}

REDISQ_EXPORT const struct redisq_handler redisq_handler = {
	REDISQ_ABI, sizeof(struct redisq_handler), "resize", NULL, NULL, handle};
