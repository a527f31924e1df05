/* main.c - redisqctl: the table of verbs, help, exit codes. */
#include <signal.h>

#include "base.h"
#include "ctl.h"
#include "fds.h"
#include "log.h"
#include "out.h"
#include "suggest.h"

/* Names up to NULL: the verb and what people used to PM2 type. */
static const struct verb {
	const char *names[4];
	ctl_verb_fn *run;
	size_t min, max; /* arguments */
	const char *usage;
	uint32_t takes; /* OPT_BIT()s */
} verbs[] = {
	{{"status", "list", "ls", 0},
	 verb_status,
	 0,
	 0,
	 "status [--json] [--watch]",
	 OPT_BIT(OPT_WATCH) | OPT_BIT(OPT_JSON)},
	{{"jlist", "prettylist"}, verb_jlist, 0, 0, "jlist", OPT_BIT(OPT_JSON)},
	{{"monit"}, verb_monit, 0, 0, "monit", OPT_BIT(OPT_WATCH)},
	{{"describe", "desc"},
	 verb_describe,
	 1,
	 1,
	 "describe [QUEUE/]N [--json]",
	 OPT_BIT(OPT_JSON)},
	{{"logs", "log"},
	 verb_logs,
	 0,
	 1,
	 "logs [-f] [-n LINES] [--task ID] [[QUEUE/]N]",
	 OPT_BIT(OPT_FOLLOW) | OPT_BIT(OPT_N_LINES) | OPT_BIT(OPT_TASK)},
	{{"reload"}, verb_reload, 0, 0, "reload [--no-wait]", OPT_BIT(OPT_NO_WAIT)},
	{{"stop"}, verb_stop, 0, 1, "stop [QUEUE|[QUEUE/]N]", OPT_BIT(OPT_NO_WAIT)},
	{{"start"}, verb_start, 0, 1, "start [QUEUE|[QUEUE/]N]", OPT_BIT(OPT_NO_WAIT)},
	{{"restart"}, verb_restart, 1, 1, "restart QUEUE|[QUEUE/]N", OPT_BIT(OPT_NO_WAIT)},
	{{"scale"}, verb_scale, 1, 2, "scale [QUEUE] N|+N|-N", OPT_BIT(OPT_NO_WAIT)},
	{{"quiet"}, verb_quiet, 0, 0, "quiet", OPT_BIT(OPT_NO_WAIT)},
	{{"resume"}, verb_resume, 0, 0, "resume", OPT_BIT(OPT_NO_WAIT)},
	{{"reopen-logs", "reloadLogs"}, verb_reopen, 0, 0, "reopen-logs", OPT_BIT(OPT_NO_WAIT)},
	{{"kill"}, verb_kill, 0, 0, "kill [--fast]", OPT_BIT(OPT_FAST) | OPT_BIT(OPT_NO_WAIT)},
	{{"ping"}, verb_ping, 0, 0, "ping", 0},
	{{"startup"}, verb_startup, 0, 1, "startup", 0},
	{{"push"},
	 verb_push,
	 1,
	 2,
	 "push QUEUE [--field K=V]... [--key KEY|--partition I] [--wait] [PAYLOAD|-|--lines]",
	 OPT_BIT(OPT_FIELD) | OPT_BIT(OPT_KEY) | OPT_BIT(OPT_PARTITION) | OPT_BIT(OPT_WAIT) |
		 OPT_BIT(OPT_LINES)},
	{{"stats", 0},
	 verb_stats,
	 0,
	 1,
	 "stats [QUEUE] [--partitions] [--json]",
	 OPT_BIT(OPT_PARTITIONS) | OPT_BIT(OPT_JSON)},
	{{"audit"}, verb_audit, 1, 1, "audit QUEUE", 0},
	{{"doctor"}, verb_doctor, 0, 1, "doctor [QUEUE] [--json]", OPT_BIT(OPT_JSON)},
	{{"show"}, verb_show, 1, 2, "show QUEUE ID [--json]", OPT_BIT(OPT_JSON)},
	{{"pending"},
	 verb_pending,
	 1,
	 1,
	 "pending QUEUE [-n N] [--json]",
	 OPT_BIT(OPT_N_LINES) | OPT_BIT(OPT_JSON)},
	{{"dead"},
	 verb_dead,
	 2,
	 SIZE_MAX,
	 "dead list|show|retry|drop QUEUE [ID...|--all]",
	 OPT_BIT(OPT_N_LINES) | OPT_BIT(OPT_ALL) | OPT_BIT(OPT_JSON)},
	{{"held"},
	 verb_held,
	 2,
	 SIZE_MAX,
	 "held list|show|release|drop QUEUE [ID...|--all]",
	 OPT_BIT(OPT_N_LINES) | OPT_BIT(OPT_ALL) | OPT_BIT(OPT_JSON)},
	{{"flush"}, verb_flush, 0, SIZE_MAX, "flush", OPT_BIT(OPT_ALL)},
};

static const char help[] =
	"Usage: redisqctl [-c FILE] [-s KEY=VALUE]... VERB...\n"
	"\n"
	"Processes (the running supervisor; SLOT is [QUEUE/]N)\n"
	"  status [--json] [--watch]       what runs where            (list, ls, jlist, monit)\n"
	"  describe SLOT                   all about one worker\n"
	"  logs [-f] [-n N] [--task ID] [SLOT]\n"
	"  reload                          new configuration and programs, no task lost\n"
	"  stop|start [QUEUE|SLOT]         workers; the supervisor lives on\n"
	"  restart QUEUE|SLOT              the new worker is ready before the old one leaves\n"
	"  scale [QUEUE] N|+N|-N           number of workers\n"
	"  quiet, resume                   fetch nothing new; fetch again\n"
	"  reopen-logs                     after logrotate             (reloadLogs)\n"
	"  kill [--fast]                   drain and end the supervisor\n"
	"  ping                            does it answer?\n"
	"  startup                         print a systemd unit\n"
	"\n"
	"Tasks (Redis itself; no supervisor needed)\n"
	"  push QUEUE [--field K=V]... [PAYLOAD|-|--lines]\n"
	"  push QUEUE --wait [PAYLOAD|-]   and print its result when it is done\n"
	"  push QUEUE --key KEY ...        to the partition of that key; or --partition I\n"
	"  stats [QUEUE] [--json]          how many are where; --partitions: in each\n"
	"  audit QUEUE                     does the account add up?\n"
	"  doctor [QUEUE] [--json]         what is wrong with Redis, and what to do\n"
	"  show QUEUE ID                   one task, wherever it is\n"
	"  pending QUEUE                   what runs, for whom, how far it is\n"
	"  dead list|show|retry|drop QUEUE [ID...|--all]\n"
	"  held list|show|release|drop QUEUE [ID...|--all]\n"
	"\n"
	"Options, before or after the verb\n"
	"  -c FILE        configuration of the supervisor meant, and of its Redis\n"
	"  -s KEY=VALUE   as the supervisor's: -s redis.url=redis://127.0.0.1:6379/0\n"
	"  --no-wait      do not wait until it is done\n"
	"  --json         for programs      -h, --help      --version\n"
	"\n"
	"Exit: 0 done, 1 not done or forced, 64 usage, 69 nobody answers, 78 configuration.\n";

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		for (size_t k = 0; k < ARRAY_LEN(verbs[i].names) && verbs[i].names[k]; k++)
			if (strcmp(verbs[i].names[k], name) == 0)
				return &verbs[i];
	return NULL;
}

static int usage(const struct options *o, struct err *e)
{
	struct suggest near = {0};

	if (!o->verb)
		return err_set(e, EXIT_USAGE, "what is to be done? See redisqctl --help");
	if (suggest_shown(o->verb) == 0) /* a url, which may hold a password */
		return err_set(e, EXIT_USAGE,
			       "the first word is no verb; a url goes behind -s redis.url=, see "
			       "redisqctl --help");
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		for (size_t k = 0; k < ARRAY_LEN(verbs[i].names) && verbs[i].names[k]; k++)
			suggest_try(&near, o->verb, verbs[i].names[k]);
	if (near.word)
		return err_set(e, EXIT_USAGE, "no verb \"%.*s\"; did you mean %s?",
			       (int)suggest_shown(o->verb), o->verb, near.word);
	return err_set(e, EXIT_USAGE, "no verb \"%.*s\"; see redisqctl --help",
		       (int)suggest_shown(o->verb), o->verb);
}

/* An error is one line; without one the note has a line of its own. */
static void tell_note(const char *note, int rc, struct err *e)
{
	size_t len = strlen(e->text);

	if (!note)
		return;
	if (rc != 0 && len > 0)
		snprintf(e->text + len, sizeof(e->text) - len, " (%s)", note);
	else
		fprintf(stderr, "redisqctl: %s\n", note);
}

static int run(const struct options *o, struct err *e)
{
	const struct verb *v = o->verb ? find_verb(o->verb) : NULL;
	struct ctl c = {.options = o};
	int rc;

	if (o->version) {
		out_print("redisqctl %s\n", REDISQ_VERSION);
		return 0;
	}
	if (o->help || (o->verb && strcmp(o->verb, "help") == 0)) {
		out_print("%s", help);
		return 0;
	}
	if (!v)
		return usage(o, e);
	if (o->n_args < v->min || o->n_args > v->max)
		return err_set(e, EXIT_USAGE, "usage: redisqctl %s", v->usage);
	if (options_check(o, o->verb, v->takes, e) != 0)
		return -1;
	rc = target_init(&c.target, o, e);
	if (rc == 0)
		rc = v->run(&c, e);
	tell_note(c.target.note, rc, e);
	target_release(&c.target);
	return rc;
}

int main(int argc, char **argv)
{
	struct options o;
	struct err e = {0};
	int rc;

	if (fds_fill_standard() < 0)
		return EXIT_CONFIG; /* and no stderr to say so */
	signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_ERROR);
	rc = options_parse(&o, argc, argv, &e);
	if (rc == 0)
		rc = run(&o, &e);
	blank_controls(e.text); /* it may quote what came from Redis */
	if (rc != 0 && e.text[0])
		fprintf(stderr, "redisqctl: %s\n", e.text);
	options_release(&o);
	return rc == 0 ? EXIT_OK : e.code;
}
