/*
 * worker_breaker.c - carries out what breaker.h decides: stops the fetching, says so, tries again.
 */
#include "clock.h"
#include "log.h"
#include "worker_parts.h"

static void arm_probe(struct worker *w)
{
	worker_arm(w, &w->probe, max_i64(w->breaker.probe_at_ms - clock_mono_ms(), 1));
}

static void breaker_opened(struct worker *w, bool first, const char *why)
{
	if (first) {
		log_error("%s; fetching nothing, next try in %.1f s", why,
			  (double)(w->breaker.probe_at_ms - clock_mono_ms()) / 1000.0);
		if (w->chan)
			chan_say(w->chan, "breaker open %s", why);
		partitions_hold(w);
	}
	if (w->phase == WORKER_RUNNING && w->breaker.state == BREAKER_OPEN)
		arm_probe(w);
}

/* Said once: a new generation is on trial until then. */
static void say_works(struct worker *w)
{
	if (!w->said_works && w->chan)
		chan_say(w->chan, "works");
	w->said_works = true;
}

static void close_breaker(struct worker *w, bool is_old)
{
	say_works(w);
	if (!breaker_worked(&w->breaker, is_old))
		return;
	log_info("the handler works again: fetching");
	partitions_scan(w); /* what was given back meanwhile waits for nothing more */
	if (w->chan)
		chan_say(w->chan, "breaker closed");
}

void worker_handler_missing(struct worker *w, const char *what)
{
	char why[sizeof(((struct err *)NULL)->text) + 32];

	snprintf(why, sizeof(why), "the handler is broken: %s", what);
	breaker_opened(w, breaker_missing(&w->breaker, clock_mono_ms()), why);
}

/* One that fits neither a broken handler nor a good one: charged, or it would go round for ever. */
bool worker_judge_blamed(struct worker *w, struct task *t)
{
	struct outcome *o = &t->outcome;
	char said[OUTCOME_ERROR_MAX];

	if (o->kind != OUTCOME_BROKEN || o->exit_code < 0 ||
	    !breaker_is_to_blame(&w->breaker, t->label))
		return false;
	snprintf(said, sizeof(said), "%s", o->error);
	o->kind = OUTCOME_FAILED;
	snprintf(o->error, sizeof(o->error),
		 "%.100s again, while the handler works for other tasks", said);
	return true;
}

void worker_tell_breaker(struct worker *w, const struct task *t)
{
	const struct outcome *o = &t->outcome;
	char why[OUTCOME_ERROR_MAX + 64];

	switch (o->kind) {
	case OUTCOME_BROKEN:
	case OUTCOME_UNSTARTED:
		snprintf(why, sizeof(why), "%s%s",
			 o->kind == OUTCOME_BROKEN ? "the handler is broken: " : "", o->error);
		breaker_opened(w,
			       breaker_broken(&w->breaker, t->partition, t->id, t->label, t->is_old,
					      clock_mono_ms()),
			       why);
		break;
	case OUTCOME_STOPPED:
	case OUTCOME_OVERSIZED:
	case OUTCOME_GUILTY:
		break;
	case OUTCOME_FAILED:
	case OUTCOME_CRASHED:
		if (o->in_company)
			break; /* one death, not one for each */
		if (clock_boot_ms() - t->started_ms < BREAKER_FAST_MS) {
			snprintf(why, sizeof(why),
				 "%d task%s in a row failed at once, the last with: %s",
				 w->qc->breaker_failures, w->qc->breaker_failures == 1 ? "" : "s",
				 o->error);
			breaker_opened(w,
				       breaker_failed_fast(&w->breaker, t->is_old, clock_mono_ms()),
				       why);
			break;
		}
		close_breaker(w, t->is_old);
		break;
	case OUTCOME_DONE:
	case OUTCOME_SNOOZED:
	case OUTCOME_REJECTED:
	case OUTCOME_TIMED_OUT:
		close_breaker(w, t->is_old);
		break;
	}
}

static void on_probe(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct worker *w = t->data;
	struct err e;

	if (w->hops->check(w->handler, &e) < 0) {
		/* Still plainly missing: no task needs to be touched to find out. */
		worker_handler_missing(w, e.text);
		return;
	}
	if (breaker_tick(&w->breaker, clock_mono_ms())) {
		for (int i = 0; i < w->tasks.n_rows; i++)
			w->tasks.rows[i].is_old = true; /* task_begin() makes it young again */
		partitions_probe(w);
	} else if (w->breaker.state == BREAKER_OPEN) {
		arm_probe(w);
	}
}

void worker_breaker_init(struct worker *w)
{
	breaker_init(&w->breaker, w->qc->breaker_delay, w->qc->breaker_failures);
	ev_init(&w->probe, on_probe);
	w->probe.data = w;
}
