/* proc.c - see proc.h: life cycle, timers and what is said to the worker. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "proc.h"
#include "readfile.h"

#define STATM_MAX 128

static void on_died(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	proc_bury(container_of(io, struct proc, died));
}

static void on_timer(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct proc *p = container_of(t, struct proc, timer);
	char name[PROC_NAME_MAX];

	/* When we stood still a limit is past before we have heard that it was kept: what was said
	 * until now is heard first, in one turn more of the loop. */
	if (!p->overdue) {
		p->overdue = true;
		ev_timer_set(t, 0., 0.);
		ev_timer_start(p->house->loop, t);
		return;
	}
	if (p->state == PROC_STARTING)
		log_warning("worker %d of %s was not ready within ready_timeout; killing it",
			    (int)p->pid, proc_name(p, name));
	if (p->state == PROC_DRAINING) {
		log_warning("worker %d of %s did not leave within its drain limit; killing it",
			    (int)p->pid, proc_name(p, name));
		p->house->forced = true;
	}
	if (p->state == PROC_KILLING && p->kill_sent && !p->undead) {
		log_error(
			"worker %d of %s cannot be killed: it waits in the kernel for a dead disk "
			"or server; its slot stays empty until it is gone",
			(int)p->pid, proc_name(p, name));
		p->undead = true;
	}
	proc_step(p, PROC_EV_TIMEOUT);
}

static void on_bury_timer(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	proc_bury(container_of(t, struct proc, bury_timer));
}

struct proc *proc_new(struct house *house, const char *queue, unsigned slot, struct slotlog *log,
		      int lock_fd, struct generation *gen, const struct proc_events *events,
		      void *arg)
{
	struct proc *p = xcalloc(1, sizeof(*p));

	list_init(&p->link);
	list_init(&p->bury_link);
	list_init(&p->ref.link);
	p->house = house;
	p->queue = queue;
	p->slot = slot;
	p->log = log;
	p->lock_fd = lock_fd;
	p->gen = generation_get(gen);
	p->events = events;
	p->arg = arg;
	p->pidfd = -1;
	p->state = PROC_STOPPED;
	ev_init(&p->died, on_died);
	/* After the channel in the same turn: its last words come first. */
	ev_set_priority(&p->died, -1);
	ev_init(&p->timer, on_timer);
	/* After both, see on_timer(). */
	ev_set_priority(&p->timer, -2);
	ev_init(&p->bury_timer, on_bury_timer);
	return p;
}

void proc_free(struct proc *p)
{
	INVARIANT(!proc_has_process(p));
	ev_timer_stop(p->house->loop, &p->timer);
	ev_timer_stop(p->house->loop, &p->bury_timer);
	list_remove(&p->link);
	list_remove(&p->bury_link);
	groups_release(&p->groups);
	generation_put(p->gen);
	free(p->consumer);
	free(p->note);
	free(p->redis);
	free(p->breaker);
	free(p->refused);
	free(p);
}

const struct conf_queue *proc_conf(const struct proc *p)
{
	const struct conf_queue *q = conf_queue(p->gen->conf, p->queue);

	INVARIANT(q != NULL);
	return q;
}

bool proc_has_process(const struct proc *p)
{
	return p->pid != 0;
}

const char *proc_name(const struct proc *p, char out[PROC_NAME_MAX])
{
	snprintf(out, PROC_NAME_MAX, "%s/%u", p->queue, p->slot);
	return out;
}

static void arm(struct proc *p, int64_t ms)
{
	struct ev_loop *loop = p->house->loop;

	ev_timer_stop(loop, &p->timer);
	p->overdue = false;
	if (ms <= 0)
		return;
	ev_now_update(loop);
	ev_timer_set(&p->timer, (double)ms / 1000.0, 0.);
	ev_timer_start(loop, &p->timer);
}

static void send_signal(struct proc *p, int signo)
{
	/* The pidfd names this process and no other, whatever became of the number. */
	if (syscall(SYS_pidfd_send_signal, p->pidfd, signo, NULL, 0) < 0 && errno != ESRCH)
		log_error("worker %d: cannot send signal %d: %s", (int)p->pid, signo,
			  strerror(errno));
}

/* Returns false when the start failed. */
static bool start_process(struct proc *p)
{
	struct err e = {0};

	free(p->refused);
	p->refused = NULL;
	p->was_ready = p->redis_wait = p->quiet = p->silent = false;
	p->started = p->works = false;
	p->abort_sent = p->kill_sent = p->undead = false;
	p->heartbeat = (struct heartbeat){0};
	p->started_ms = clock_mono_ms();
	if (proc_spawn(p, &e) < 0) {
		struct last_exit how = {.known = true, .cause = CAUSE_SPAWN, .code = errno};
		struct groups none = {0};
		char name[PROC_NAME_MAX];

		log_error("worker of %s did not start: %s", proc_name(p, name), e.text);
		slotlog_say(p->log, getpid(), "worker did not start: %s", e.text);
		proc_step(p, p->events->on_death(p->arg, p, &how, &none, NULL, 0));
		return false;
	}
	ev_io_set(&p->died, p->pidfd, EV_READ);
	ev_io_start(p->house->loop, &p->died);
	slotlog_say(p->log, p->pid, "worker %d started", (int)p->pid);
	return true;
}

static void carry_out(struct proc *p, unsigned effects)
{
	const struct conf_supervisor *sup = conf_supervisor(p->house->conf);
	int64_t grace = proc_conf(p)->kill_grace;

	/* STABLE is the owner's: proc_step() tells it. */
	if (effects & PROC_DO_NO_TIMER)
		arm(p, 0);
	if ((effects & PROC_DO_SPAWN) && !start_process(p))
		return; /* another step was made in there */
	if ((effects & PROC_DO_SAY_DRAIN) && p->chan)
		chan_say(p->chan, "drain %lld", (long long)p->drain_ms);
	if ((effects & PROC_DO_SAY_STOP) && p->chan)
		chan_say(p->chan, "stop");
	if (effects & PROC_DO_ABORT) {
		p->abort_sent = true;
		send_signal(p, SIGABRT);
	}
	if (effects & PROC_DO_KILL) {
		p->kill_sent = true;
		send_signal(p, SIGKILL);
	}
	if (effects & PROC_DO_ARM_READY)
		arm(p, sup->ready_timeout);
	if (effects & PROC_DO_ARM_STABLE)
		arm(p, sup->stable_after);
	if (effects & PROC_DO_ARM_DRAIN)
		arm(p, p->drain_ms ? p->drain_ms + grace + sup->kill_timeout : 0);
	if (effects & PROC_DO_ARM_STOP)
		arm(p, grace + sup->kill_timeout);
	if (effects & PROC_DO_ARM_KILL)
		arm(p, sup->kill_timeout);
	if (effects & PROC_DO_ARM_BACKOFF)
		arm(p, max_i64(p->backoff_ms, 1));
}

void proc_step(struct proc *p, enum proc_event event)
{
	struct proc_step step;
	char name[PROC_NAME_MAX];
	enum proc_state was = p->state;

	if (!proc_fsm_step(was, event, &step)) {
		log_error("worker of %s: event \"%s\" in state %s cannot happen; please report it",
			  proc_name(p, name), proc_event_word(event), proc_state_word(was));
#ifdef REDISQ_TEST_BUILD
		abort();
#endif
		return;
	}
	p->state = step.next;
	house_changed(p->house);
	if (was != step.next)
		log_state(proc_name(p, name), proc_state_word(was), proc_state_word(step.next),
			  proc_event_word(event));
	if (event == PROC_EV_IS_READY && was == PROC_STARTING) {
		p->was_ready = true;
		p->house->ever_ready = true;
	}
	if (step.effects & PROC_DO_STABLE)
		p->events->on_stable(p->arg, p);
	carry_out(p, step.effects);
}

void proc_start(struct proc *p)
{
	p->want = true;
	proc_step(p, PROC_EV_START);
}

void proc_drain(struct proc *p, int64_t ms)
{
	p->want = false;
	p->drain_ms = ms;
	proc_step(p, PROC_EV_DRAIN);
}

void proc_stop(struct proc *p)
{
	p->want = false;
	proc_step(p, PROC_EV_STOP);
}

void proc_say_credit(struct proc *p, int64_t n)
{
	if (p->chan)
		chan_say(p->chan, "credit %lld", (long long)n);
}

void proc_say_quiet(struct proc *p, bool quiet)
{
	if (p->chan && p->quiet != quiet)
		chan_say(p->chan, quiet ? "quiet" : "resume");
	p->quiet = quiet;
}

void proc_say_quarantine(struct proc *p)
{
	if (p->chan)
		chan_say(p->chan, "quarantine");
}

void proc_say_ordinary(struct proc *p)
{
	if (p->chan)
		chan_say(p->chan, "ordinary");
}

void proc_say_scan(struct proc *p)
{
	if (p->chan)
		chan_say(p->chan, "scan");
}

void proc_say_order(struct proc *p, const struct obituary *who)
{
	struct buf lines = BUF_INIT;

	obituary_write(who, &lines);
	for (char *line = lines.data; p->chan && *line;) {
		char *end = strchr(line, '\n');

		*end = '\0';
		chan_say(p->chan, "%s", line);
		line = end + 1;
	}
	buf_release(&lines);
}

void proc_check_heartbeat(struct proc *p, int64_t now_ms)
{
	int64_t limit = conf_heartbeat_ms(p->gen->conf, proc_conf(p));
	int64_t beat;
	char name[PROC_NAME_MAX];

	if (!p->board || p->abort_sent || p->state == PROC_KILLING)
		return;
	/* 0 = not begun, which is ready_timeout's business. */
	beat = atomic_load_explicit(&p->board->heartbeat_ms, memory_order_relaxed);
	if (!heartbeat_is_stuck(&p->heartbeat, beat, p->house->watch_from_ms, now_ms, limit))
		return;
	log_error("worker %d of %s is stuck: no sign of its event loop for %.1fs; ending it",
		  (int)p->pid, proc_name(p, name), (double)(now_ms - beat) / 1000.0);
	slotlog_say(p->log, p->pid, "worker %d is stuck: its event loop stands still", (int)p->pid);
	proc_step(p, PROC_EV_STUCK);
}

int64_t proc_measure_rss(struct proc *p)
{
	struct buf text = BUF_INIT;
	char path[64], *at;

	p->rss_bytes = 0;
	if (!proc_has_process(p))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)p->pid);
	if (readfile(path, STATM_MAX, &text) == 0) {
		strtoll(text.data, &at, 10); /* size */
		p->rss_bytes = strtoll(at, NULL, 10) * sysconf(_SC_PAGESIZE);
	}
	buf_release(&text);
	return p->rss_bytes;
}

void proc_set_generation(struct proc *p, struct generation *gen)
{
	generation_set(&p->gen, gen);
}
