/* line.c - see line.h. */
#include "line.h"

void line_init(struct line *l, size_t max)
{
	INVARIANT(max > 0);
	buf_init(&l->carry);
	l->max = max;
}

void line_release(struct line *l)
{
	buf_release(&l->carry);
}

/*
 * Gives out what is carried plus `data` (together one line, or a piece of one). Without a carry
 * the bytes are passed on where they lie.
 */
static void give(struct line *l, const char *data, size_t len, bool more, line_fn *fn, void *arg)
{
	if (l->carry.len == 0) {
		fn(arg, slice_of(data, len), more);
		return;
	}
	buf_add(&l->carry, data, len);
	fn(arg, slice_of(l->carry.data, l->carry.len), more);
	buf_clear(&l->carry);
}

void line_feed(struct line *l, const char *data, size_t len, line_fn *fn, void *arg)
{
	while (len > 0) {
		size_t room = l->max - l->carry.len;
		size_t look = len <= room ? len : room + 1; /* a '\n' may follow a full line */
		const char *nl = memchr(data, '\n', look);
		size_t n;

		if (nl) {
			n = (size_t)(nl - data);
			give(l, data, n, false, fn, arg);
			n++;
		} else if (len > room) {
			n = room;
			give(l, data, n, true, fn, arg);
		} else {
			buf_add(&l->carry, data, len);
			return;
		}
		data += n;
		len -= n;
	}
}

void line_flush(struct line *l, line_fn *fn, void *arg)
{
	if (l->carry.len == 0)
		return;
	fn(arg, slice_of(l->carry.data, l->carry.len), false);
	buf_clear(&l->carry);
}
