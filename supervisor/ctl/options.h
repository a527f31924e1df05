/*
 * options.h - the command line of redisqctl, taken apart. Options are understood before and after
 * the verb, up to "--". Pure: no file, no environment.
 */
#ifndef REDISQ_CTL_OPTIONS_H
#define REDISQ_CTL_OPTIONS_H

#include "buf.h"
#include "err.h"

/* What an option says; -n and, of logs, --lines N are the same. */
enum option_id {
	OPT_CONF,
	OPT_SET,
	OPT_FIELD,
	OPT_TASK,
	OPT_KEY,
	OPT_PARTITION,
	OPT_PARTITIONS,
	OPT_N_LINES,
	OPT_LINES,
	OPT_JSON,
	OPT_WATCH,
	OPT_FOLLOW,
	OPT_NO_WAIT,
	OPT_WAIT,
	OPT_ALL,
	OPT_FAST,
	OPT_HELP,
	OPT_VERSION
};

#define OPT_N (OPT_VERSION + 1)
#define OPT_BIT(id) (1u << (id))

struct options {
	const char *conf_file; /* -c; all strings are borrowed from argv */
	const char **sets;     /* -s KEY=VALUE; this array and the others are owned */
	size_t n_sets;
	const char **fields; /* --field K=V */
	size_t n_fields;
	const char **args; /* what follows the verb and is no option */
	size_t n_args;
	const char *verb; /* NULL = none */
	const char *task; /* --task ID */
	const char *key;  /* --key KEY */
	int64_t n_lines;  /* -n, -1 = not said */
	int partition;    /* --partition I, -1 = not said */
	bool partitions;  /* --partitions */
	bool json, watch, follow, no_wait, wait, by_line, all, fast, help, version;
	const char *said[OPT_N]; /* each as it was written, "-w"; NULL = it was not */
};

/* -1 with `e` (exit code 64): an option that is none, or lacks its value. */
int options_parse(struct options *o, int argc, char **argv, struct err *e) ATTR_MUST_CHECK;
void options_release(struct options *o);

/* Does `verb` (for the message) take all that was said? `takes`: OPT_BIT()s, beside those that any
 * verb does. An option that would be left out of account may have been what mattered most: -1 with
 * `e` (64). */
int options_check(const struct options *o, const char *verb, uint32_t takes,
		  struct err *e) ATTR_MUST_CHECK;

#endif
