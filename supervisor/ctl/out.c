/* out.c - see out.h. */
#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "err.h"
#include "out.h"

void out_write(struct buf *b)
{
	size_t done = 0;

	while (done < b->len) {
		ssize_t n = write(STDOUT_FILENO, b->data + done, b->len - done);

		if (n >= 0) {
			done += (size_t)n;
		} else if (errno == EPIPE) {
			exit(EXIT_OK);
		} else if (errno != EINTR) {
			fprintf(stderr, "redisqctl: stdout: %s\n", strerror(errno));
			exit(EXIT_FORCED);
		}
	}
	buf_clear(b);
}

void out_print(const char *fmt, ...)
{
	struct buf b = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(&b, fmt, ap);
	va_end(ap);
	out_write(&b);
	buf_release(&b);
}

bool out_is_tty(void)
{
	return isatty(STDOUT_FILENO) == 1;
}

int out_width(void)
{
	struct winsize ws;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) != 0 || ws.ws_col == 0)
		return 80;
	return ws.ws_col;
}

void out_colour(struct buf *b, enum out_colour colour)
{
	static const char *const codes[] = {"0", "1", "2", "32", "33", "31"};
	const char *no_colour = getenv("NO_COLOR");

	if (out_is_tty() && !(no_colour && no_colour[0]))
		buf_addf(b, "\033[%sm", codes[colour]);
}

void out_age(struct buf *b, int64_t ms)
{
	long long s = ms / 1000;

	if (ms < 0)
		buf_adds(b, "-");
	else if (ms < 1000)
		buf_addf(b, "%dms", (int)ms);
	else if (s < 60)
		buf_addf(b, "%llds", s);
	else if (s < 3600)
		buf_addf(b, "%lldm%02llds", s / 60, s % 60);
	else if (s < 86400)
		buf_addf(b, "%lldh%02lldm", s / 3600, s / 60 % 60);
	else
		buf_addf(b, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

void out_size(struct buf *b, int64_t bytes)
{
	static const char units[] = "KMGTP";
	double n = (double)bytes;
	size_t i = 0;

	if (bytes < 1024) {
		buf_addf(b, "%lld", (long long)bytes);
		return;
	}
	for (n /= 1024; n >= 1000 && units[i + 1]; i++)
		n /= 1024;
	buf_addf(b, n < 10 ? "%.1f%c" : "%.0f%c", n, units[i]);
}

void out_bytes(struct buf *b, struct slice s, size_t max)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.data[i];

		if (i == max) {
			buf_addf(b, "... (%zu bytes)", s.len);
			return;
		}
		if (c == '\n')
			buf_adds(b, "\\n");
		else if (c == '\\')
			buf_adds(b, "\\\\");
		else if (c < 0x20 || c == 0x7f)
			buf_addf(b, "\\x%02x", c);
		else
			buf_addc(b, (char)c);
	}
}
