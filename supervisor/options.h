/*
 * options.h - the command line of redisq-supervisor, and the configuration that it, the file and
 * the environment make together. Parsing is pure; options_load() reads files and is called again
 * at each reload, so that what the command line says survives a HUP.
 */
#ifndef REDISQ_OPTIONS_H
#define REDISQ_OPTIONS_H

#include "conf.h"

enum options_action {
	OPTIONS_RUN,
	OPTIONS_HELP,
	OPTIONS_VERSION,
	OPTIONS_TEST,  /* -t */
	OPTIONS_PRINT, /* --print-config */
};

struct options {
	enum options_action action;
	const char *file;            /* -c; all strings are borrowed from argv */
	const char *workers;         /* -n */
	const char *concurrency;     /* -j */
	const char *queue;           /* -q */
	enum conf_handler_kind kind; /* -k */
	char **handler;              /* after --, NULL = none */
	int handler_argc;
	const char **assignments; /* owned array: -s, in order */
	size_t n_assignments;
	bool private_redis; /* -e */
	bool daemon;        /* -D */
	char *found;        /* owned: the file read without -c, NULL = none */
};

/* 0, or -1 with a usage error (EXIT_USAGE). `o` is to be released either way. */
int options_parse(struct options *o, int argc, char **argv, struct err *e) ATTR_MUST_CHECK;
void options_release(struct options *o);
void options_help(struct buf *out);
/* What to type when nothing says what to run: six lines. */
void options_hint(struct buf *out);

/*
 * Decides which file is read: -c, or the default one, or ./redisq.ini (not as root). -1: neither a
 * file nor -q (EXIT_USAGE, the text is options_hint()'s business), or -c names no file.
 */
int options_find_file(struct options *o, struct err *e) ATTR_MUST_CHECK;
/* The file in use; NULL = none. */
const char *options_file(const struct options *o);

/*
 * A finished configuration from file, environment and command line; `url` (NULL: not known yet) is
 * where the private Redis of -e listens and beats all. NULL with every error found in `errs` (one a
 * line), the first one's exit code in `code`.
 */
struct conf *options_load(const struct options *o, char *const *env, const char *url,
			  struct buf *errs, int *code);

#endif
