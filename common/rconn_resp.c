/* rconn_resp.c - see rconn_resp.h. */
#include <hiredis/hiredis.h>

#include "rconn.h"
#include "rconn_resp.h"

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

/* hiredis 1.0 changed the type of the length. */
#if HIREDIS_MAJOR >= 1
typedef size_t array_len;
#else
typedef int array_len;
#endif

static void *(*create_array)(const redisReadTask *, array_len);
static redisReplyObjectFunctions bounded;

static void *create_bounded_array(const redisReadTask *task, array_len n)
{
	return (size_t)n > RESP_ARRAY_MAX ? NULL : create_array(task, n);
}

struct redisReader *resp_reader_new(void)
{
	redisReader *r = redisReaderCreate();

	INVARIANT(r != NULL);
	if (!create_array) {
		bounded = *r->fn;
		create_array = bounded.createArray;
		bounded.createArray = create_bounded_array;
	}
	r->fn = &bounded;
	return r;
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
