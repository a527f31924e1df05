/* main.c - redisq-supervisor: options, exit codes, and the supervisor between them. */
#include <unistd.h>

#include "conf_doc.h"
#include "conf_read.h"
#include "daemon.h"
#include "fds.h"
#include "redis_url.h"
#include "sig.h"
#include "supervisor.h"
#include "tls_context.h"

extern char **environ;

static void print(int fd, const struct buf *text)
{
	size_t at = 0;

	while (at < text->len) {
		ssize_t n = write(fd, text->data + at, text->len - at);

		if (n <= 0)
			return;
		at += (size_t)n;
	}
}

static int fail(const struct err *e)
{
	fprintf(stderr, "redisq-supervisor: %s\n", e->text);
	return e->code ? e->code : 1;
}

static int usage_hint(const struct options *o, const struct err *e)
{
	struct buf text = BUF_INIT;

	if (o->file || e->code != EXIT_USAGE)
		return fail(e);
	options_hint(&text);
	print(STDERR_FILENO, &text);
	buf_release(&text);
	return EXIT_USAGE;
}

static int show(void (*fill)(struct buf *out))
{
	struct buf text = BUF_INIT;

	fill(&text);
	print(STDOUT_FILENO, &text);
	buf_release(&text);
	return 0;
}

static void version(struct buf *out)
{
	buf_addf(out, "redisq-supervisor %s\n", REDISQ_VERSION);
}

static void print_warnings(const struct conf *c)
{
	for (const char *const *w = conf_warnings(c); w && *w; w++)
		fprintf(stderr, "warning: %s\n", *w);
}

static int print_config(const struct conf *c)
{
	struct buf text = BUF_INIT;

	print_warnings(c);
	conf_doc_print(c, &text);
	print(STDOUT_FILENO, &text);
	buf_release(&text);
	return 0;
}

/* Do key and certificates fit together? Loads OpenSSL, which a supervisor that stays never does. */
static int test_tls(const struct conf *c, struct buf *errs)
{
	const struct conf_redis *r = conf_redis(c);
	struct err e = {0};

	if (!redis_url_is_tls(r->url) || tls_context_check(r, &e) == 0)
		return 0;
	buf_addf(errs, "%s\n", e.text);
	return -1;
}

static int test_config(struct conf *c)
{
	struct buf errs = BUF_INIT;
	int rc = conf_check_machine(c, &errs);

	if (rc == 0)
		rc = test_tls(c, &errs);
	print_warnings(c);
	if (rc < 0) {
		print(STDERR_FILENO, &errs);
		rc = EXIT_CONFIG;
	} else {
		printf("configuration is fine: %zu queue%s\n", conf_n_queues(c),
		       conf_n_queues(c) == 1 ? "" : "s");
	}
	buf_release(&errs);
	return rc;
}

static int run(const struct options *o, struct conf *c)
{
	struct daemon daemon = {.fd = -1};
	struct buf errs = BUF_INIT;
	struct supervisor sv;
	struct err e = {0};

	if (conf_check_machine(c, &errs) < 0) {
		print(STDERR_FILENO, &errs);
		buf_release(&errs);
		conf_free(c);
		return EXIT_CONFIG;
	}
	buf_release(&errs);
	if (o->daemon && daemon_begin(&daemon, &e) < 0) {
		conf_free(c);
		return fail(&e);
	}
	if (supervisor_init(&sv, o, c, environ, &daemon, &e) < 0)
		return fail(&e);
	return supervisor_run(&sv);
}

int main(int argc, char **argv)
{
	struct options o;
	struct err e = {0};
	struct buf errs = BUF_INIT;
	struct conf *c;
	int code;

	if (fds_fill_standard() < 0) {
		perror("redisq-supervisor: /dev/null");
		return EXIT_CONFIG;
	}
	fds_raise_limit();
	sig_block(supervisor_signals);
	if (options_parse(&o, argc, argv, &e) < 0) {
		code = fail(&e);
		goto out;
	}
	if (o.action == OPTIONS_HELP || o.action == OPTIONS_VERSION) {
		code = show(o.action == OPTIONS_HELP ? options_help : version);
		goto out;
	}
	if (options_find_file(&o, &e) < 0) {
		code = usage_hint(&o, &e);
		goto out;
	}
	if (o.found)
		fprintf(stderr, "redisq-supervisor: reading %s\n", o.found);
	c = options_load(&o, environ, NULL, &errs, &code);
	if (!c) {
		print(STDERR_FILENO, &errs);
		goto out;
	}
	if (o.action == OPTIONS_RUN) {
		code = run(&o, c);
		goto out;
	}
	code = o.action == OPTIONS_TEST ? test_config(c) : print_config(c);
	conf_free(c);
out:
	buf_release(&errs);
	options_release(&o);
	return code;
}
