/* options.c - see options.h. */
#include <errno.h>
#include <getopt.h>
#include <unistd.h>

#include "conf_read.h"
#include "options.h"
#include "paths.h"

static const char help_text[] =
	"usage: redisq-supervisor [-n N|max] [-j N] [-c FILE] [-s KEY=VALUE]... [-q QUEUE]\n"
	"                         [-k KIND] [-e] [-D] [-t] [-- HANDLER ARG...]\n"
	"\n"
	"Runs HANDLER for each task of a Redis stream, in N worker processes per queue.\n"
	"At most workers x concurrency tasks run at once.\n"
	"\n"
	"  -n, --workers N|max    worker processes per queue (max: one per CPU); also -i\n"
	"  -j, --concurrency N    tasks at once in one worker\n"
	"  -c, --config FILE      configuration; see redisq.ini(5)\n"
	"  -s, --set KEY=VALUE    one key: redis.url=..., queue.timeout=1h, \"queue "
	"NAME.lease=90s\"\n"
	"  -q, --queue QUEUE      the stream to serve; with -c: serve only this one of the file\n"
	"  -k, --kind KIND        how HANDLER is run: exec, once per task, the payload on stdin; "
	"pipe,\n"
	"                         once for many tasks, JSON lines; so, a library: its path\n"
	"  -e, --private-redis    start a private redis-server for this supervisor\n"
	"  -D, --daemon           go to the background when the control socket answers\n"
	"  -t, --test             check the configuration and exit\n"
	"      --print-config     print every key, its value and where it comes from\n"
	"  -h, --help, --version\n"
	"\n"
	"signals: HUP reload - TERM, INT drain and exit; again, or QUIT: give tasks back and exit\n"
	"         USR1 reopen logs - TTIN/TTOU one worker more/fewer - TSTP quiet - CONT resume\n"
	"exit:    0 - 1 something was killed at a limit - 64 usage - 70 crash loop - 73 already\n"
	"         running - 78 configuration\n"
	"See redisqctl --help for status, logs, reload, push.\n";

static const char hint_text[] =
	"redisq-supervisor: nothing says what to run; give -c FILE, or try it without any file:\n"
	"\n"
	"  redisq-supervisor -n 4 -e -q demo -- sh -c 'sleep 1; echo \"hello $(cat)\"'\n"
	"  seq 32 | redisqctl push demo --lines      # in another terminal\n"
	"  redisqctl status\n"
	"-e starts a private redis-server; without it Redis at 127.0.0.1:6379 is used. See "
	"--help.\n";

void options_help(struct buf *out)
{
	buf_adds(out, help_text);
}

void options_hint(struct buf *out)
{
	buf_adds(out, hint_text);
}

enum { OPT_PRINT = 256, OPT_VERSION };

static const struct option long_options[] = {
	{"workers", required_argument, NULL, 'n'},
	{"concurrency", required_argument, NULL, 'j'},
	{"config", required_argument, NULL, 'c'},
	{"set", required_argument, NULL, 's'},
	{"queue", required_argument, NULL, 'q'},
	{"kind", required_argument, NULL, 'k'},
	{"private-redis", no_argument, NULL, 'e'},
	{"daemon", no_argument, NULL, 'D'},
	{"test", no_argument, NULL, 't'},
	{"print-config", no_argument, NULL, OPT_PRINT},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static int take_kind(struct options *o, const char *word, struct err *e)
{
	o->kind = conf_handler_kind(word, strlen(word));
	if (o->kind == CONF_HANDLER_NONE)
		return err_set(e, EXIT_USAGE,
			       "-k %s: no such kind of handler; use exec, pipe or so", word);
	return 0;
}

static int take(struct options *o, int c, const char *what, struct err *e)
{
	switch (c) {
	case 'n':
	case 'i':
		o->workers = optarg;
		return 0;
	case 'j':
		o->concurrency = optarg;
		return 0;
	case 'c':
		o->file = optarg;
		return 0;
	case 'q':
		o->queue = optarg;
		return 0;
	case 'k':
		return take_kind(o, optarg, e);
	case 's':
		o->assignments =
			xrealloc(o->assignments, (o->n_assignments + 1) * sizeof(*o->assignments));
		o->assignments[o->n_assignments++] = optarg;
		return 0;
	case 'e':
		o->private_redis = true;
		return 0;
	case 'D':
		o->daemon = true;
		return 0;
	case 't':
		o->action = OPTIONS_TEST;
		return 0;
	case OPT_PRINT:
		o->action = OPTIONS_PRINT;
		return 0;
	case 'h':
		o->action = OPTIONS_HELP;
		return 0;
	case OPT_VERSION:
		o->action = OPTIONS_VERSION;
		return 0;
	case ':':
		return err_set(e, EXIT_USAGE, "%s needs a value; see --help", what);
	default:
		/* Behind a = there may be a secret. */
		return err_set(e, EXIT_USAGE, "%.*s: no such option; see --help",
			       (int)strcspn(what, "="), what);
	}
}

/* What goes together. */
static int check_together(const struct options *o, struct err *e)
{
	if (o->file && o->handler)
		return err_set(e, EXIT_USAGE,
			       "a handler after -- is for -q without a file; with -c, write "
			       "handler = %s ... in the file",
			       conf_handler_word(o->kind ? o->kind : CONF_HANDLER_EXEC));
	if (o->handler && !o->queue)
		return err_set(e, EXIT_USAGE, "a handler after -- needs -q QUEUE: whose tasks?");
	if (o->kind && !o->queue)
		return err_set(e, EXIT_USAGE, "-k goes with -q QUEUE -- HANDLER");
	return 0;
}

static int say_operand(const char *text, struct err *e)
{
	if (strstr(text, "://")) /* there may be a password in it */
		return err_set(e, EXIT_USAGE, "a url goes after -s redis.url=; see --help");
	return err_set(e, EXIT_USAGE,
		       "%s: not an option; the handler goes after --, as in -q QUEUE -- %s", text,
		       text);
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
	*o = (struct options){0};
	optind = 0; /* glibc: start anew, also for the next call */
	opterr = 0;
	for (;;) {
		int at = optind ? optind : 1;
		int c = getopt_long(argc, argv, "+:n:i:j:c:s:q:k:eDth", long_options, NULL);
		char letter[3] = {'-', (char)optopt, '\0'};
		const char *what = optopt > 0 && optopt < 256 ? letter : argv[at];

		if (c == -1)
			break;
		if (take(o, c, what, e) < 0)
			return -1;
		if (o->action == OPTIONS_HELP || o->action == OPTIONS_VERSION)
			return 0;
	}
	if (optind < argc) {
		if (strcmp(argv[optind - 1], "--") != 0)
			return say_operand(argv[optind], e);
		o->handler = argv + optind;
		o->handler_argc = argc - optind;
	} else if (optind > 1 && strcmp(argv[optind - 1], "--") == 0) {
		return err_set(e, EXIT_USAGE, "-- without a handler after it");
	}
	return check_together(o, e);
}

void options_release(struct options *o)
{
	free(o->assignments);
	free(o->found);
	*o = (struct options){0};
}

static bool is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

/* The instance's name decides the default file's. */
static const char *name_of(const struct options *o)
{
	static const char key[] = "supervisor.name=";
	const char *name = "redisq";

	for (size_t i = 0; i < o->n_assignments; i++)
		if (strncmp(o->assignments[i], key, sizeof(key) - 1) == 0)
			name = o->assignments[i] + sizeof(key) - 1;
	return name;
}

int options_find_file(struct options *o, struct err *e)
{
	struct paths_who who = paths_self();

	if (o->file) {
		if (access(o->file, F_OK) == 0)
			return 0;
		if (is_number(o->file))
			return err_set(e, EXIT_USAGE,
				       "-c takes a file; for tasks per worker use -j %s", o->file);
		return err_set(e, EXIT_CONFIG, "%s: %s; -c takes the configuration file", o->file,
			       strerror(errno));
	}
	if (o->queue)
		return 0;
	o->found = paths_config_file(&who, name_of(o));
	if (o->found && access(o->found, F_OK) == 0)
		return 0;
	free(o->found);
	o->found = NULL;
	if (geteuid() != 0 && access("redisq.ini", F_OK) == 0) {
		o->found = xstrdup("./redisq.ini");
		return 0;
	}
	return err_set(e, EXIT_USAGE, "nothing says what to run");
}

const char *options_file(const struct options *o)
{
	return o->file ? o->file : o->found;
}

static void note(struct buf *errs, int *code, const struct err *e, int as_code)
{
	buf_addf(errs, "%s\n", e->text);
	if (*code == 0)
		*code = as_code;
}

static void note_conf(int rc, int *code, int as_code)
{
	if (rc < 0 && *code == 0)
		*code = as_code;
}

static void set_flag(struct conf *c, enum conf_section s, const char *key, const char *value,
		     const char *flag, struct buf *errs, int *code)
{
	struct err e = {0};

	if (value && conf_set(c, s, NULL, key, value, CONF_FROM_FLAG, flag, &e) < 0)
		note(errs, code, &e, EXIT_USAGE);
}

static void choose_queue(const struct options *o, struct conf *c, struct buf *errs, int *code)
{
	struct err e = {0};

	if (!o->queue)
		return;
	if (options_file(o)) {
		if (conf_keep_queue(c, o->queue, &e) < 0)
			note(errs, code, &e, EXIT_CONFIG);
		return;
	}
	if (conf_add_queue(c, o->queue, &e) < 0) {
		note(errs, code, &e, EXIT_CONFIG);
		return;
	}
	if (o->handler &&
	    conf_set_handler_argv(c, o->queue, o->kind ? o->kind : CONF_HANDLER_EXEC,
				  o->handler_argc, o->handler, CONF_FROM_FLAG, "--", &e) < 0)
		note(errs, code, &e, EXIT_CONFIG);
}

/* It asks for no password, and would refuse one that is meant for another server. */
static void use_private_redis(struct conf *c, const char *url, struct buf *errs, int *code)
{
	static const char *const foreign[] = {"username", "password", "password_file"};

	for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
		set_flag(c, CONF_REDIS, foreign[i], "", "-e", errs, code);
	set_flag(c, CONF_REDIS, "url", url, "-e", errs, code);
}

struct conf *options_load(const struct options *o, char *const *env, const char *url,
			  struct buf *errs, int *code)
{
	struct conf *c = conf_new();

	*code = 0;
	if (options_file(o))
		note_conf(conf_read_file(c, options_file(o), errs), code, EXIT_CONFIG);
	choose_queue(o, c, errs, code);
	note_conf(conf_read_env(c, env, errs), code, EXIT_CONFIG);
	for (size_t i = 0; i < o->n_assignments; i++)
		note_conf(conf_read_assignment(c, o->assignments[i], errs), code,
			  conf_is_assignment(o->assignments[i]) ? EXIT_CONFIG : EXIT_USAGE);
	/* -n is for every queue, also where the file has another number for one. */
	set_flag(c, CONF_SUPERVISOR, "workers", o->workers, "-n", errs, code);
	if (*code == 0)
		set_flag(c, CONF_QUEUE, "workers", o->workers, "-n", errs, code);
	set_flag(c, CONF_QUEUE, "concurrency", o->concurrency, "-j", errs, code);
	if (o->private_redis)
		use_private_redis(c, url, errs, code);
	if (*code == 0)
		note_conf(conf_finish(c, errs), code, EXIT_CONFIG);
	if (*code != 0) {
		conf_free(c);
		return NULL;
	}
	return c;
}
