/*
 * base.h - the few macros every file may use. Floor 0: includes nothing of ours.
 */
#ifndef REDISQ_BASE_H
#define REDISQ_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "banned.h"

#define REDISQ_VERSION "0.1.0"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The struct that embeds `member` at `ptr`. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define ATTR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ATTR_MUST_CHECK __attribute__((warn_unused_result))
#define ATTR_NORETURN __attribute__((noreturn))
#define ATTR_UNUSED __attribute__((unused))

/*
 * A programming error, in release builds too: say where and abort. Never for
 * anything the outside world can cause.
 */
#define INVARIANT(cond) \
	do { \
		if (!(cond)) \
			invariant_failed(__FILE__, __LINE__, #cond); \
	} while (0)

void invariant_failed(const char *file, int line, const char *what) ATTR_NORETURN;

static inline int64_t min_i64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* In a text that is another's, control bytes become blanks: it is part of one line, and steers no
 * terminal. */
static inline void blank_controls(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
}

#endif
