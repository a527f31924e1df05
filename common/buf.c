/* buf.c - see buf.h. */
#include "buf.h"

char buf_empty[1] = "";

void invariant_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: invariant failed: %s\n", file, line, what);
	abort();
}

static void out_of_memory(void)
{
	fputs("out of memory\n", stderr);
	abort();
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *xrealloc(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		out_of_memory();
	return p;
}

char *xmemdup0(const void *data, size_t len)
{
	char *p = xcalloc(len + 1, 1);

	if (len)
		memcpy(p, data, len);
	return p;
}

char *xstrdup(const char *s)
{
	return xmemdup0(s, strlen(s));
}

char *xasprintf(const char *fmt, ...)
{
	struct buf b = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(&b, fmt, ap);
	va_end(ap);
	return buf_detach(&b);
}

void buf_init(struct buf *b)
{
	b->data = buf_empty;
	b->len = b->cap = 0;
}

void buf_release(struct buf *b)
{
	if (b->cap)
		free(b->data);
	buf_init(b);
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->cap)
		b->data[0] = '\0';
}

char *buf_reserve(struct buf *b, size_t more)
{
	size_t need = b->len + more + 1;

	if (need < more)
		out_of_memory();
	if (need > b->cap) {
		size_t cap = b->cap ? b->cap : 64;

		while (cap < need)
			cap += cap / 2 + 32;
		b->data = xrealloc(b->cap ? b->data : NULL, cap);
		b->cap = cap;
		b->data[b->len] = '\0';
	}
	return b->data + b->len;
}

void buf_commit(struct buf *b, size_t n)
{
	INVARIANT(n == 0 || b->len + n < b->cap);
	b->len += n;
	if (b->cap)
		b->data[b->len] = '\0';
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (!len)
		return;
	memcpy(buf_reserve(b, len), data, len);
	buf_commit(b, len);
}

void buf_adds(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void buf_addc(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	INVARIANT(n >= 0);
	vsnprintf(buf_reserve(b, (size_t)n), (size_t)n + 1, fmt, again);
	va_end(again);
	buf_commit(b, (size_t)n);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(b, fmt, ap);
	va_end(ap);
}

void buf_consume(struct buf *b, size_t n)
{
	INVARIANT(n <= b->len);
	if (!n)
		return;
	b->len -= n;
	memmove(b->data, b->data + n, b->len + 1);
}

void buf_truncate(struct buf *b, size_t len)
{
	INVARIANT(len <= b->len);
	b->len = len;
	if (b->cap)
		b->data[len] = '\0';
}

char *buf_detach(struct buf *b)
{
	char *p = b->cap ? b->data : xstrdup("");

	buf_init(b);
	return p;
}

struct slice slice_of(const void *data, size_t len)
{
	return (struct slice){.data = data, .len = len};
}

struct slice slice_str(const char *text)
{
	return slice_of(text, strlen(text));
}

void slice_text(struct slice s, char *out, size_t size)
{
	size_t n = s.len < size ? s.len : size - 1;

	if (n > 0)
		memcpy(out, s.data, n);
	out[n] = '\0';
}

bool slice_eq(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool slice_eq_str(struct slice a, const char *text)
{
	return slice_eq(a, slice_str(text));
}
