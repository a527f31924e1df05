/*
 * sig.h - signals as events of the loop, and a clean slate for children.
 *
 * sig_block() first thing in main(), before any thread: the signals of interest stay blocked for
 * the process and are read from a signalfd with their siginfo, so that a signal the kernel made
 * for a background tty write (TTOU) can be told from one that somebody sent. SIGPIPE is ignored.
 * spawn.h undoes all of it in children.
 */
#ifndef REDISQ_SIG_H
#define REDISQ_SIG_H

#include <ev.h>
#include <signal.h>

#include "base.h"

/* `sent`: by kill(2) or sigqueue(3), not by the kernel. */
typedef void sig_fn(void *arg, int signo, bool sent);

struct sig_watch {
	struct ev_loop *loop; /* borrowed */
	ev_io io;
	int fd;
	sig_fn *fn;
	void *arg; /* borrowed */
};

/* Blocks these (a 0-terminated list) and ignores SIGPIPE. */
void sig_block(const int *signals);
/* Delivers the same list to `fn`; -1 with errno. */
int sig_watch_start(struct sig_watch *w, struct ev_loop *loop, const int *signals, sig_fn *fn,
		    void *arg) ATTR_MUST_CHECK;
void sig_watch_stop(struct sig_watch *w);
/* Ignored, as nohup and the shell's background jobs leave it; blocking it makes no difference. */
bool sig_is_ignored(int signo);
/* Those that are ignored or have a handler. Who starts many programs asks once (spawn.h, reset). */
void sig_not_default(sigset_t *out);
/* "SIGTERM", or "signal 77". */
const char *sig_name(int signo, char buf[16]);

#endif
