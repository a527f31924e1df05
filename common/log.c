/* log.c - see log.h. */
#include <errno.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "log.h"

static void write_stderr(void *arg, enum log_level level, const char *text, size_t len);

static struct {
	enum log_level level;
	log_writer_fn *write;
	void *arg; /* borrowed */
} the = {.level = LOG_INFO, .write = write_stderr};

const char *log_level_word(enum log_level level)
{
	static const char *const words[] = {"error", "warning", "info", "debug"};

	return words[level];
}

static void write_stderr(void *arg ATTR_UNUSED, enum log_level level, const char *text, size_t len)
{
	struct buf line = BUF_INIT;
	char stamp[CLOCK_STAMP_LEN + 1];

	clock_stamp(clock_wall_ms(), stamp);
	buf_addf(&line, "%s %s ", stamp, log_level_word(level));
	buf_add(&line, text, len);
	buf_addc(&line, '\n');
	if (write(STDERR_FILENO, line.data, line.len) < 0) {
		/* nobody left to tell */
	}
	buf_release(&line);
}

void log_set_level(enum log_level level)
{
	the.level = level;
}

bool log_enabled(enum log_level level)
{
	return level <= the.level;
}

void log_set_writer(log_writer_fn *fn, void *arg)
{
	the.write = fn ? fn : write_stderr;
	the.arg = fn ? arg : NULL;
}

static void say(enum log_level level, const char *fmt, va_list ap) ATTR_PRINTF(2, 0);
static void say(enum log_level level, const char *fmt, va_list ap)
{
	struct buf text = BUF_INIT;
	int saved = errno;

	if (log_enabled(level)) {
		buf_vaddf(&text, fmt, ap);
		blank_controls(text.data);
		the.write(the.arg, level, text.data, text.len);
		buf_release(&text);
	}
	errno = saved;
}

void log_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(LOG_ERROR, fmt, ap);
	va_end(ap);
}

void log_warning(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(LOG_WARNING, fmt, ap);
	va_end(ap);
}

void log_info(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(LOG_INFO, fmt, ap);
	va_end(ap);
}

void log_debug(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(LOG_DEBUG, fmt, ap);
	va_end(ap);
}

void log_state(const char *what, const char *from, const char *to, const char *why)
{
	log_debug("%s: %s -> %s (%s)", what, from, to, why);
}

void log_limited(struct log_limit *l, int64_t now_ms, enum log_level level, const char *fmt, ...)
{
	struct buf text = BUF_INIT;
	va_list ap;

	if (now_ms < l->next_ms) {
		l->left_out++;
		return;
	}
	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	if (l->left_out)
		buf_addf(&text, " (and %u like it left out)", l->left_out);
	l->left_out = 0;
	l->next_ms = now_ms + l->every_ms;
	switch (level) {
	case LOG_ERROR:
		log_error("%s", text.data);
		break;
	case LOG_WARNING:
		log_warning("%s", text.data);
		break;
	case LOG_INFO:
		log_info("%s", text.data);
		break;
	case LOG_DEBUG:
		log_debug("%s", text.data);
		break;
	}
	buf_release(&text);
}
