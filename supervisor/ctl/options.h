/*
 * options.h - the command line of redisqctl, taken apart. Options are understood before and after
 * the verb, up to "--". Pure: no file, no environment.
 */
#ifndef REDISQ_CTL_OPTIONS_H
#define REDISQ_CTL_OPTIONS_H

#include "buf.h"
#include "err.h"

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
};

/* -1 with `e` (exit code 64): an option that is none, or lacks its value. */
int options_parse(struct options *o, int argc, char **argv, struct err *e) ATTR_MUST_CHECK;
void options_release(struct options *o);

#endif
