/*
 * buf.h - a growing byte buffer, and a borrowed view of bytes.
 *
 * `data` is never NULL and always followed by a NUL that does not count, so a buffer that holds
 * text can be used as a C string; bytes with NULs inside are as welcome. Growth aborts when memory
 * is out (a queue worker without memory has nothing better to do than to die and be replaced);
 * what bounds the growth is the caller's business.
 */
#ifndef REDISQ_BUF_H
#define REDISQ_BUF_H

#include <stdarg.h>

#include "base.h"

/* Bytes that somebody else owns. Not NUL-terminated. */
struct slice {
	const char *data; /* borrowed */
	size_t len;
};

struct buf {
	char *data; /* owned, or the shared empty string */
	size_t len;
	size_t cap; /* 0 while nothing is allocated */
};

extern char buf_empty[1];

#define BUF_INIT \
	{ \
		.data = buf_empty, .len = 0, .cap = 0 \
	}

void buf_init(struct buf *b);
/* Frees the bytes and leaves an empty buffer that can be used again. */
void buf_release(struct buf *b);
/* Empties it but keeps the allocation. */
void buf_clear(struct buf *b);
/* Makes room for `more` further bytes (and the NUL); returns where they go. */
char *buf_reserve(struct buf *b, size_t more);
/* After writing `n` bytes where buf_reserve() said. */
void buf_commit(struct buf *b, size_t n);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_adds(struct buf *b, const char *text);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) ATTR_PRINTF(2, 3);
void buf_vaddf(struct buf *b, const char *fmt, va_list ap) ATTR_PRINTF(2, 0);
/* Drops the first `n` bytes. */
void buf_consume(struct buf *b, size_t n);
/* Cuts to `len` bytes (no more than there are). */
void buf_truncate(struct buf *b, size_t len);
/* Hands the bytes over as a heap string the caller frees; the buffer is empty afterwards. */
char *buf_detach(struct buf *b);

struct slice slice_of(const void *data, size_t len);
struct slice slice_str(const char *text);
/* As a NUL-terminated text in `out`, cut to what fits. */
void slice_text(struct slice s, char *out, size_t size);
bool slice_eq(struct slice a, struct slice b);
bool slice_eq_str(struct slice a, const char *text);

/* malloc family that aborts instead of returning NULL. */
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xmemdup0(const void *data, size_t len);
/* A new heap string; never NULL. */
char *xasprintf(const char *fmt, ...) ATTR_PRINTF(1, 2);

#endif
