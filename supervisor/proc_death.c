/*
 * proc_death.c - the burial of a worker, in the order that proc.h tells, and the words about it.
 */
#include <errno.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "proc.h"
#include "sig.h"

#define LOOK_AGAIN_S 0.02

const char *exit_cause_word(enum exit_cause c)
{
#define CAUSE_WORD(name, word) [CAUSE_##name] = word,
	static const char *const words[] = {EXIT_CAUSES(CAUSE_WORD)};
#undef CAUSE_WORD

	return words[c];
}

static void note_group(struct proc *p, pid_t pgid)
{
	/* A number of old may be ours by now. */
	if (pgid > 1 && pgid != getpgrp())
		groups_add(&p->groups, pgid);
}

/* The handler groups on the board: of tasks, and of processes kept for further ones. */
static void note_groups(struct proc *p)
{
	struct board *b = p->board;

	p->groups.session = p->pid;
	for (uint32_t i = 0; i < b->n_tasks; i++) {
		struct board_task t;

		if (board_read_task(b, i, &t))
			note_group(p, t.pgid);
	}
	for (uint32_t i = 0; i < b->n_groups; i++)
		note_group(p, board_group(b, i));
}

static void kill_groups(struct proc *p)
{
	/* Its own group and session first: a handler between fork and setpgid is in there. */
	kill(-p->pid, SIGKILL);
	groups_kill(&p->groups);
	children_sweep(&p->house->children);
}

static struct last_exit judge(struct proc *p)
{
	struct last_exit how = {.known = true, .cause = CAUSE_EXIT};
	bool oom = p->corpse.signaled && p->corpse.code == SIGKILL && !p->kill_sent &&
		   oom_watch_explains(&p->house->oom);

	if (p->corpse.signaled)
		how.signal = p->corpse.code;
	else
		how.code = p->corpse.code;
	if (p->abort_sent)
		how.cause = CAUSE_STUCK;
	else if (p->kill_sent)
		how.cause = CAUSE_KILLED;
	else if (oom)
		how.cause = CAUSE_OOM;
	else if (p->corpse.signaled)
		how.cause = CAUSE_SIGNAL;
	return how;
}

/* "exit 3", "signal 9 SIGKILL (out of memory)" */
static void describe(const struct last_exit *how, bool core, struct buf *out)
{
	char name[16];

	if (how->signal)
		buf_addf(out, "signal %d %s%s", how->signal, sig_name(how->signal, name),
			 core ? ", core dumped" : "");
	else
		buf_addf(out, "exit %d", how->code);
	if (how->cause == CAUSE_OOM)
		buf_adds(out, " (out of memory)");
	if (how->cause == CAUSE_STUCK)
		buf_adds(out, " (it was stuck)");
	if (how->cause == CAUSE_KILLED)
		buf_adds(out, " (killed at a limit)");
}

/*
 * It said what it had to say before it ended with that status. A library in it may end it, too, and
 * with any status: that is a death like others, whoever it was that called exit().
 */
static bool in_good_order(const struct proc *p, const struct last_exit *how)
{
	if (how->cause != CAUSE_EXIT)
		return false;
	return how->code == 0 ? !board_has_name(p->board)
			      : how->code == EXIT_CONFIG && (p->refused || !p->was_ready);
}

/* Whether what it ran is charged with a crash: not when it left by itself, or we made it leave. */
static bool crashed(const struct proc *p, const struct last_exit *how)
{
	switch (how->cause) {
	case CAUSE_SIGNAL:
	case CAUSE_OOM:
	case CAUSE_STUCK:
		return true;
	case CAUSE_EXIT:
		return p->want && !in_good_order(p, how);
	case CAUSE_KILLED:
	case CAUSE_SPAWN:
	case CAUSE_N:
		break;
	}
	return false;
}

/* Of a board that need not be in order. */
static void copy_text(char *to, size_t size, const char *from, size_t from_size)
{
	slice_text(slice_of(from, strnlen(from, from_size)), to, size);
}

/* Under which name, and over which links, it served partition `i` of so many. */
static void write_name(struct board *b, int i, int n_partitions, struct obituary *who)
{
	struct board_name *n = &b->names[i];

	who->partition = i;
	who->n_partitions = n_partitions;
	who->consumer = xmemdup0(n->consumer, strnlen(n->consumer, sizeof(n->consumer)));
	copy_text(who->nonce, sizeof(who->nonce), n->nonce, sizeof(n->nonce));
	copy_text(who->run_id, sizeof(who->run_id), n->run_id, sizeof(n->run_id));
	for (size_t k = 0; k < ARRAY_LEN(who->client_id); k++)
		who->client_id[k] = atomic_load(&n->client_id[k]);
}

/* Adds what it ran to the obituaries of its partitions; returns how many there are in all: a crash
 * may be the fault of any of them. */
static int write_tasks(struct board *b, struct obituary *who, int n_who)
{
	int n = 0;

	for (uint32_t i = 0; i < b->n_tasks; i++) {
		struct board_task t;

		if (!board_read_task(b, i, &t))
			continue;
		n++;
		for (int k = 0; k < n_who; k++)
			if (who[k].partition == t.partition)
				obituary_add(&who[k], t.id, t.token);
	}
	return n;
}

/*
 * What others need to know to have its tasks, for each partition in which it had a name: owned, as
 * their array; returns how many. One that left in good order has settled or released all, and says
 * no name any more.
 */
static int write_obituaries(const struct proc *p, const struct last_exit *how,
			    struct obituary **all)
{
	struct board *b = p->board;
	struct buf cause = BUF_INIT;
	struct obituary *who = xcalloc(PARTITIONS_MAX, sizeof(*who));
	int n = 0, n_ran;

	for (int i = 0; i < PARTITIONS_MAX; i++) {
		if (!b->names[i].consumer[0])
			continue;
		obituary_init(&who[n]);
		write_name(b, i, proc_conf(p)->partitions, &who[n++]);
	}
	n_ran = write_tasks(b, who, n);
	buf_adds(&cause, n_ran > 1 ? OBITUARY_COMPANY : OBITUARY_ALONE);
	buf_adds(&cause, "worker ");
	describe(how, false, &cause);
	for (int i = 0; i < n; i++) {
		who[i].charge = crashed(p, how);
		snprintf(who[i].cause, sizeof(who[i].cause), "%s", cause.data);
	}
	buf_release(&cause);
	*all = who;
	return n;
}

static void announce(struct proc *p, const struct last_exit *how)
{
	double lived = (double)(clock_mono_ms() - p->started_ms) / 1000.0;
	bool asked = !p->want && how->signal == 0;
	struct buf text = BUF_INIT;
	char name[PROC_NAME_MAX];

	describe(how, p->corpse.core, &text);
	slotlog_say(p->log, p->pid, "worker %d %s: %s after %.1fs", (int)p->pid,
		    asked ? "left" : "died", text.data, lived);
	if (asked)
		log_info("worker %d of %s left: %s after %.1fs", (int)p->pid, proc_name(p, name),
			 text.data, lived);
	else
		log_warning("worker %d of %s died: %s after %.1fs%s%s", (int)p->pid,
			    proc_name(p, name), text.data, lived, p->refused ? ": refused: " : "",
			    p->refused ? p->refused : "");
	buf_release(&text);
}

/* Everything of this life goes; the proc is ready for the next. */
static void forget_life(struct proc *p)
{
	chan_free(p->chan);
	p->chan = NULL;
	board_unmap(p->board);
	p->board = NULL;
	close(p->pidfd);
	p->pidfd = -1;
	children_remove(&p->ref);
	p->pid = 0;
	p->redis_wait = false;
	p->rss_bytes = 0;
	free(p->consumer);
	free(p->note);
	free(p->redis);
	free(p->breaker);
	p->consumer = p->note = p->redis = p->breaker = NULL;
}

void proc_abandon(struct proc *p)
{
	char name[PROC_NAME_MAX];

	INVARIANT(p->undead);
	log_error("leaving worker %d of %s behind, which cannot be killed", (int)p->pid,
		  proc_name(p, name));
	p->house->forced = true;
	ev_io_stop(p->house->loop, &p->died);
	slotlog_drain(p->log, p->pid);
	forget_life(p);
	proc_step(p, PROC_EV_DIED_GONE);
}

static void finish(struct proc *p)
{
	struct child_exit ignored;
	struct last_exit how = judge(p);
	struct obituary *who;
	enum proc_event verdict;
	int n_who;

	list_remove(&p->bury_link);
	ev_timer_stop(p->house->loop, &p->bury_timer);
	if (child_reap(p->pid, &ignored) < 0)
		log_error("worker %d cannot be reaped: %s", (int)p->pid, strerror(errno));
	slotlog_drain(p->log, p->pid);
	announce(p, &how);
	n_who = write_obituaries(p, &how, &who);
	/* It ends with 1 when it had to signal handlers at the drain limit; one that never was
	 * ready has none, and its 1 is something else. */
	if (!p->want && (how.cause == CAUSE_KILLED || (p->was_ready && how.code == EXIT_FORCED)))
		p->house->forced = true;
	verdict = p->events->on_death(p->arg, p, &how, &p->groups, who, n_who);
	forget_life(p);
	groups_release(&p->groups);
	for (int i = 0; i < n_who; i++)
		obituary_release(&who[i]);
	free(who);
	proc_step(p, verdict);
}

void proc_bury(struct proc *p)
{
	struct ev_loop *loop = p->house->loop;

	if (list_empty(&p->bury_link)) {
		if (!child_is_dead(p->pid, &p->corpse))
			return;
		ev_io_stop(loop, &p->died);
		ev_timer_stop(loop, &p->timer);
		p->died_ms = clock_mono_ms();
		p->undead = false; /* it could be killed after all: the burial ends by itself */
		note_groups(p);
		kill_groups(p);
		list_append(&p->house->burying, &p->bury_link);
		p->bury_until = ev_now(loop) +
				(double)conf_supervisor(p->house->conf)->kill_timeout / 1000.0;
	}
	children_reap(&p->house->children);
	if (groups_gone(&p->groups) || ev_now(loop) >= p->bury_until) {
		finish(p);
		return;
	}
	if (!ev_is_active(&p->bury_timer)) {
		ev_timer_set(&p->bury_timer, LOOK_AGAIN_S, LOOK_AGAIN_S);
		ev_timer_start(loop, &p->bury_timer);
	}
}

void proc_bury_all(struct house *house)
{
	struct list *it, *next;

	list_each_safe (it, next, &house->burying)
		proc_bury(list_entry(it, struct proc, bury_link));
}
