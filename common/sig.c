/*
 * sig.c - see sig.h. Owns the signalfd; the blocked mask and the ignored SIGPIPE are the
 * process's and stay as they are when a watch stops.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "sig.h"

/* Read in one go; equal signals have been merged by the kernel before. */
#define SIG_BATCH 8

static void make_set(sigset_t *set, const int *signals)
{
	sigemptyset(set);
	for (size_t i = 0; signals[i]; i++)
		sigaddset(set, signals[i]);
}

void sig_block(const int *signals)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t set;

	make_set(&set, signals);
	INVARIANT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	sigemptyset(&ignore.sa_mask);
	INVARIANT(sigaction(SIGPIPE, &ignore, NULL) == 0);
}

static void on_readable(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	struct sig_watch *w = container_of(io, struct sig_watch, io);
	struct signalfd_siginfo got[SIG_BATCH];
	ssize_t n = read(w->fd, got, sizeof(got));

	if (n < 0) {
		/* Only these are possible on a good signalfd: nothing there any more. */
		INVARIANT(errno == EAGAIN || errno == EINTR);
		return;
	}
	/* The callback may stop the watch. */
	for (size_t i = 0; i < (size_t)n / sizeof(got[0]) && w->fd >= 0; i++)
		w->fn(w->arg, (int)got[i].ssi_signo, got[i].ssi_code <= 0);
}

int sig_watch_start(struct sig_watch *w, struct ev_loop *loop, const int *signals, sig_fn *fn,
		    void *arg)
{
	sigset_t set;

	make_set(&set, signals);
	w->loop = loop;
	w->fn = fn;
	w->arg = arg;
	w->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (w->fd < 0)
		return -1;
	ev_io_init(&w->io, on_readable, w->fd, EV_READ);
	ev_io_start(loop, &w->io);
	return 0;
}

void sig_watch_stop(struct sig_watch *w)
{
	if (w->fd < 0)
		return;
	ev_io_stop(w->loop, &w->io);
	close(w->fd);
	w->fd = -1;
}

bool sig_is_ignored(int signo)
{
	struct sigaction now;

	return sigaction(signo, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void sig_not_default(sigset_t *out)
{
	struct sigaction now;

	sigemptyset(out);
	for (int s = 1; s < NSIG; s++)
		if (sigaction(s, NULL, &now) == 0 && now.sa_handler != SIG_DFL)
			sigaddset(out, s);
}

#define NAME(s) \
	{ \
		s, #s \
	}
static const struct {
	int signo;
	const char *name;
} names[] = {
	NAME(SIGHUP),    NAME(SIGINT),  NAME(SIGQUIT),  NAME(SIGILL),  NAME(SIGTRAP), NAME(SIGABRT),
	NAME(SIGBUS),    NAME(SIGFPE),  NAME(SIGKILL),  NAME(SIGUSR1), NAME(SIGSEGV), NAME(SIGUSR2),
	NAME(SIGPIPE),   NAME(SIGALRM), NAME(SIGTERM),  NAME(SIGCHLD), NAME(SIGCONT), NAME(SIGSTOP),
	NAME(SIGTSTP),   NAME(SIGTTIN), NAME(SIGTTOU),  NAME(SIGURG),  NAME(SIGXCPU), NAME(SIGXFSZ),
	NAME(SIGVTALRM), NAME(SIGPROF), NAME(SIGWINCH), NAME(SIGIO),   NAME(SIGPWR),  NAME(SIGSYS),
};
#undef NAME

const char *sig_name(int signo, char buf[16])
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (names[i].signo == signo)
			return names[i].name;
	snprintf(buf, 16, "signal %d", signo);
	return buf;
}
