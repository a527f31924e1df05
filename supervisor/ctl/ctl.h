/*
 * ctl.h - what the verbs of redisqctl share: the context, and one function per verb.
 *
 * A verb returns 0, or -1 with `e`: what to print ("" = all is said) and the exit code.
 */
#ifndef REDISQ_CTL_H
#define REDISQ_CTL_H

#include "options.h"
#include "target.h"

struct ctl {
	const struct options *options; /* borrowed */
	struct target target;
};

typedef int ctl_verb_fn(struct ctl *c, struct err *e);

/* verb_status.c */
ctl_verb_fn verb_status, verb_jlist, verb_monit, verb_describe;
/* verb_process.c */
ctl_verb_fn verb_ping, verb_reload, verb_stop, verb_start, verb_restart, verb_scale, verb_reopen,
	verb_quiet, verb_resume, verb_kill;
/* verb_logs.c */
ctl_verb_fn verb_logs;
/* verb_push.c */
ctl_verb_fn verb_push;
/* verb_audit.c */
ctl_verb_fn verb_audit;
/* verb_doctor.c */
ctl_verb_fn verb_doctor;
/* verb_stats.c */
ctl_verb_fn verb_stats;
/* verb_show.c: show QUEUE ID, and show SLOT through verb_describe() */
ctl_verb_fn verb_show;
/* verb_pending.c */
ctl_verb_fn verb_pending;
/* verb_letters.c */
ctl_verb_fn verb_dead, verb_held;
/* verb_other.c */
ctl_verb_fn verb_startup, verb_flush;

#endif
