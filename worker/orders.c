/*
 * orders.c - who tells the worker what to do: the supervisor over the channel, or, when it runs
 * alone, its signals and itself. The words are those of common/chan.h.
 */
#include "log.h"
#include "worker.h"

static void on_credit(struct worker *w, const char *rest)
{
	int64_t n = chan_number(rest);

	if (n > 0)
		worker_grant(w, (int)min_i64(n, 1000000));
}

static void on_drain_word(struct worker *w, const char *rest)
{
	int64_t ms = chan_number(rest);

	worker_drain(w, ms > 0 ? ms : -1, "told to");
}

static void on_stop_word(struct worker *w, const char *rest ATTR_UNUSED)
{
	worker_stop_fast(w, "told to");
}

static void on_quiet_word(struct worker *w, const char *rest ATTR_UNUSED)
{
	worker_set_quiet(w, true);
}

static void on_resume_word(struct worker *w, const char *rest ATTR_UNUSED)
{
	worker_set_quiet(w, false);
}

static void on_quarantine_word(struct worker *w, const char *rest ATTR_UNUSED)
{
	if (w->partitions.n > 0)
		worker_set_quarantine(w);
}

static void on_ordinary_word(struct worker *w, const char *rest ATTR_UNUSED)
{
	worker_end_quarantine(w, "not set aside any more");
}

static void on_scan_word(struct worker *w, const char *rest ATTR_UNUSED)
{
	partitions_scan(w);
}

static void on_dead_word(struct worker *w, const char *rest)
{
	obituary_release(&w->order);
	if (!obituary_read_dead(&w->order, rest))
		log_error("the supervisor's order is not understood: dead %s", rest);
}

static void on_ran_word(struct worker *w, const char *rest)
{
	if (!obituary_read_ran(&w->order, rest))
		log_error("the supervisor's order is not understood: ran %s", rest);
}

static void on_handover_word(struct worker *w, const char *rest)
{
	/* Not carried out, it is not answered either, and the supervisor asks another. */
	if (w->order.consumer && chan_number(rest) == w->order.order)
		partitions_hand_over(w, &w->order);
}

static const struct {
	const char *word;
	void (*obey)(struct worker *w, const char *rest);
} words[] = {
	{"credit", on_credit},          {"drain", on_drain_word},
	{"stop", on_stop_word},         {"quiet", on_quiet_word},
	{"resume", on_resume_word},     {"scan", on_scan_word},
	{"dead", on_dead_word},         {"ran", on_ran_word},
	{"handover", on_handover_word}, {"quarantine", on_quarantine_word},
	{"ordinary", on_ordinary_word},
};

static void on_word(void *arg, const char *word, const char *rest)
{
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(word, words[i].word) == 0) {
			words[i].obey(arg, rest);
			return;
		}
	}
	log_debug("the supervisor said \"%s\", which this worker does not know", word);
}

/* The supervisor is gone: finish, and leave within the limit that it would have kept. */
static void on_eof(void *arg)
{
	struct worker *w = arg;

	chan_free(w->chan);
	w->chan = NULL;
	worker_drain(w, conf_supervisor(w->conf)->drain_timeout, "the supervisor is gone");
}

static const int signals_alone[] = {SIGTERM, SIGINT, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGHUP, 0};

/* A supervised worker is told by words; TERM (also PDEATHSIG's) is one more way to say drain. */
static void on_signal(void *arg, int signo, bool sent ATTR_UNUSED)
{
	struct worker *w = arg;
	int64_t limit = conf_supervisor(w->conf)->drain_timeout;

	switch (signo) {
	case SIGTERM:
	case SIGINT:
		if (w->alone && w->phase != WORKER_RUNNING)
			worker_stop_fast(w, "told twice");
		else if (w->alone || signo == SIGTERM)
			worker_drain(w, limit, sig_name(signo, (char[16]){0}));
		break;
	case SIGQUIT:
		worker_stop_fast(w, "SIGQUIT");
		break;
	case SIGTSTP:
		worker_set_quiet(w, true);
		break;
	case SIGCONT:
		worker_set_quiet(w, false);
		break;
	default:
		break; /* USR1, HUP: nothing to reopen or reload here */
	}
}

void orders_block_signals(void)
{
	sig_block(signals_alone);
}

void orders_open(struct worker *w, int chan_fd)
{
	if (sig_watch_start(&w->sig, w->loop, signals_alone, on_signal, w) < 0)
		log_error("signals cannot be watched: %m");
	w->alone = chan_fd < 0;
	if (w->alone)
		worker_grant(w, w->qc->concurrency);
	else
		w->chan = chan_new(w->loop, chan_fd, on_word, on_eof, w);
}

void orders_close(struct worker *w)
{
	if (w->chan) {
		chan_flush(w->chan, 500);
		chan_free(w->chan);
		w->chan = NULL;
	}
	obituary_release(&w->order);
	sig_watch_stop(&w->sig);
}
