/* rconn_resp.c - see rconn_resp.h. */
#include <hiredis/hiredis.h>

#include "rconn.h"
#include "rconn_resp.h"
#include "rconn_arena.h"

/* "$123\r\n", by hand: this is on the path of every argument of every command. */
static char *put_header(char *p, char kind, size_t n)
{
	char digits[20];
	size_t i = 0;

	*p++ = kind;
	do
		digits[i++] = (char)('0' + n % 10);
	while (n /= 10);
	while (i)
		*p++ = digits[--i];
	*p++ = '\r';
	*p++ = '\n';
	return p;
}

#define HEADER_MAX 24

void resp_add(struct buf *out, int argc, const struct rconn_arg *argv)
{
	size_t need = HEADER_MAX;
	char *start, *p;

	for (int i = 0; i < argc; i++)
		need += HEADER_MAX + argv[i].len + 2;
	start = p = buf_reserve(out, need);
	p = put_header(p, '*', (size_t)argc);
	for (int i = 0; i < argc; i++) {
		p = put_header(p, '$', argv[i].len);
		if (argv[i].len)
			memcpy(p, argv[i].data, argv[i].len);
		p += argv[i].len;
		*p++ = '\r';
		*p++ = '\n';
	}
	buf_commit(out, (size_t)(p - start));
}

struct redisReader *resp_reader_new(void)
{
	redisReader *r = redisReaderCreate();

	INVARIANT(r != NULL);
	rconn_arena_serve(rconn_arena_new(RESP_ARRAY_MAX), r);
	return r;
}

void resp_reader_free(struct redisReader *r)
{
	struct rconn_arena *a = r ? r->privdata : NULL;

	if (r)
		redisReaderFree(r);
	rconn_arena_free(a);
}

void resp_error_text(const struct redisReply *r, const char *secret, char out[RCONN_WHY_MAX])
{
	size_t len = strcspn(r->str, "\r\n");
	const char *repeated = strstr(r->str, ", with args beginning with");
	size_t n_secret = secret ? strlen(secret) : 0;
	size_t at = 0;

	if (repeated && (size_t)(repeated - r->str) < len)
		len = (size_t)(repeated - r->str);
	for (size_t i = 0; i < len && at < RCONN_WHY_MAX - 4;) {
		if (n_secret && n_secret <= len - i && memcmp(r->str + i, secret, n_secret) == 0) {
			memcpy(out + at, "***", 3);
			at += 3;
			i += n_secret;
		} else {
			out[at++] = r->str[i++];
		}
	}
	out[at] = '\0';
}
