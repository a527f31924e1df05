/* verb_other.c - verbs that change neither supervisor nor Redis. */
#include <unistd.h>

#include "ctl.h"
#include "out.h"

/* etc/redisq-supervisor.service, made a C string at build time. */
static const char unit[] =
#include "service.inc"
	;

/* The directory this program lies in; "/usr/local/bin" if that cannot be told. */
static char *program_dir(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (n > 0) {
		path[n] = '\0';
		slash = strrchr(path, '/');
		if (slash && slash != path) {
			*slash = '\0';
			return xstrdup(path);
		}
	}
	return xstrdup("/usr/local/bin");
}

int verb_startup(struct ctl *c ATTR_UNUSED, struct err *e ATTR_UNUSED)
{
	static const char mark[] = "@PREFIX@/bin";
	struct buf out = BUF_INIT;
	const char *p = unit;
	const char *at;
	char *dir = program_dir();

	while ((at = strstr(p, mark)) != NULL) {
		buf_add(&out, p, (size_t)(at - p));
		buf_adds(&out, dir);
		p = at + strlen(mark);
	}
	buf_adds(&out, p);
	out_write(&out);
	if (out_is_tty())
		fprintf(stderr, "\nAs root: redisqctl startup > /etc/systemd/system/"
				"redisq-supervisor.service && systemctl enable --now "
				"redisq-supervisor\n");
	buf_release(&out);
	free(dir);
	return 0;
}

/* The tasks of a queue that has partitions are not under its name: where they are. Nothing for any
 * other queue, or where no configuration can be had. */
static void add_streams(struct ctl *c, struct buf *out)
{
	struct err ignored = {0};
	struct parts p = {0};

	if (c->options->n_args > 0 &&
	    target_parts(&c->target, c->options->args[0], &p, &ignored) == 0 && p.is_spread)
		buf_addf(out, "; %s has partitions: DEL %s, and so on to %s, one by one",
			 parts_name(&p), p.v[0].name, p.v[p.n - 1].name);
	parts_release(&p);
	free(c->target.note); /* whether it is configured does not matter here */
	c->target.note = NULL;
}

/* PM2's flush empties log files; elsewhere it empties a queue. Neither by accident. */
int verb_flush(struct ctl *c, struct err *e)
{
	struct buf streams = BUF_INIT;

	add_streams(c, &streams);
	err_set(e, EXIT_USAGE,
		"flush could mean two things, so it does neither; logs: they rotate by "
		"themselves (log_max_size, log_keep), remove old ones with rm; tasks: "
		"redisqctl dead drop QUEUE --all, or redis-cli DEL QUEUE%.200s",
		streams.len ? streams.data : "");
	buf_release(&streams);
	return -1;
}
