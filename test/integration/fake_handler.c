/*
 * fake_handler.c - the handler of the integration tests: does what each task tells it, and keeps a
 * journal from which a test sees what ran when, how often and beside how many others.
 *
 *   fake-handler JOURNAL [KNOB=VALUE]...
 *
 * A payload that begins with "do " adds knobs (words, blanks between); they beat the arguments.
 *   sleep=MS          work that long (goes on after signals)
 *   gate=FILE         work until FILE exists
 *   exit=N            exit status            signal=N    kill itself by signal N
 *   parent=N          kill its worker by signal N
 *   until=N           exit= and signal= only while REDISQ_ATTEMPT < N
 *   until_run=N       the same while REDISQ_DELIVERIES < N
 *   hang=MS           as sleep=, while exit= applies
 *   ignore_term=1     SIGTERM only writes a journal line
 *   group=MS          a child in the same process group that sleeps that long
 *   setsid=MS         a grandchild in its own session that sleeps that long
 *   out=BYTES err=BYTES chunk=BYTES   that many bytes, lines of 99 x, written chunk by chunk
 *   say=TEXT tail=TEXT   TEXT to stdout with and without a newline; cry=TEXT to stderr
 *   fd3=TEXT          a line on fd 3 ('~' stands for a blank)
 *   ckpt=1            a checkpoint at once: how often the task was delivered
 *   save=DIR          the bytes of stdin as DIR/<id>.<attempt>
 *   eof=no            do not read stdin
 *
 * The journal gets one JSON line per event, appended by one write(2): start (with "beside" = how
 * many handlers of this journal were alive then, itself included, and the environment), child, term
 * and end. JOURNAL.alive is the register of the living, under a lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_ALIVE 1024

struct knobs {
	long sleep_ms, exit_code, signo, parent_signo, until, until_run, hang_ms, ignore_term,
		group_ms, setsid_ms, out, err, chunk, ckpt;
	const char *gate, *say, *tail, *cry, *fd3, *save;
	int no_read;
};

struct alive {
	int32_t pid[MAX_ALIVE];
	uint64_t started[MAX_ALIVE]; /* as the kernel says */
};

static int journal_fd;
static volatile sig_atomic_t got_term;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "fake-handler: %s: %s\n", what, strerror(errno));
	_exit(111);
}

static const char *env(const char *name)
{
	const char *v = getenv(name);

	return v ? v : "";
}

static void note(const char *line, size_t len)
{
	if (write(journal_fd, line, len) != (ssize_t)len)
		die("journal");
}

static void event(const char *ev, long value)
{
	char line[256];
	int n = snprintf(line, sizeof(line),
			 "{\"ev\":\"%s\",\"t\":%lld,\"pid\":%d,\"id\":\"%s\",\"value\":%ld}\n", ev,
			 (long long)now_ns(), (int)getpid(), env("REDISQ_ID"), value);

	note(line, (size_t)n);
}

/* Appends text as the inside of a JSON string; bytes that are not ASCII as '?'. */
static size_t quote(char *out, size_t at, size_t cap, const char *text)
{
	for (; *text && at + 8 < cap; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			out[at++] = '\\';
		out[at++] = c < 0x20 || c > 0x7e ? '?' : (char)c;
	}
	return at;
}

static int wanted(const char *var)
{
	static const char *const prefixes[] = {"REDIS",  "TEST_",       "PYTHON",
					       "QUEUE_", "TRACEPARENT", "PWD"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(var, prefixes[i], strlen(prefixes[i])))
			return 1;
	return 0;
}

static void note_start(int beside)
{
	extern char **environ;
	static char line[65536];
	char cwd[4096] = "";
	size_t at;

	if (!getcwd(cwd, sizeof(cwd)))
		cwd[0] = 0;
	at = (size_t)snprintf(line, sizeof(line),
			      "{\"ev\":\"start\",\"t\":%lld,\"pid\":%d,\"ppid\":%d,\"pgid\":%d,"
			      "\"id\":\"%s\",\"attempt\":%d,\"beside\":%d,\"cwd\":\"",
			      (long long)now_ns(), (int)getpid(), (int)getppid(), (int)getpgrp(),
			      env("REDISQ_ID"), atoi(env("REDISQ_ATTEMPT")), beside);
	at = quote(line, at, sizeof(line) - 32, cwd);
	at += (size_t)snprintf(line + at, sizeof(line) - at, "\",\"env\":{");
	for (char **e = environ; *e; e++) {
		const char *eq = strchr(*e, '=');
		char name[128];

		if (!eq || !wanted(*e) || (size_t)(eq - *e) >= sizeof(name) || strlen(eq) > 4096 ||
		    at + 16384 > sizeof(line))
			continue;
		memcpy(name, *e, (size_t)(eq - *e));
		name[eq - *e] = 0;
		at += (size_t)snprintf(line + at, sizeof(line) - at, "%s\"%s\":\"",
				       line[at - 1] == '{' ? "" : ",", name);
		at = quote(line, at, sizeof(line) - 32, eq + 1);
		line[at++] = '"';
	}
	at += (size_t)snprintf(line + at, sizeof(line) - at, "}}\n");
	note(line, at);
}

/* When it was started, in clock ticks since boot; 0 unless it is alive and no zombie. With it a pid
 * that was a killed handler's, and is another process's now, does not count. */
static unsigned long long started(pid_t pid)
{
	char path[64], stat[512];
	int fd;
	ssize_t n;
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	stat[n] = 0;
	p = strrchr(stat, ')');
	if (!p || p[2] == 'Z' || p[2] == 'X')
		return 0;
	for (int field = 3; p && field <= 22; field++) /* " S ppid ..." follows the name */
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

/* Enters or leaves the register; returns how many live, the caller included. */
static int enlist(const char *journal, int in)
{
	char path[4096];
	struct alive *a;
	int fd, n = 0, placed = 0;

	snprintf(path, sizeof(path), "%s.alive", journal);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || flock(fd, LOCK_EX) || ftruncate(fd, sizeof(*a)))
		die(path);
	a = mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (a == MAP_FAILED)
		die("mmap");
	for (int i = 0; i < MAX_ALIVE; i++) {
		if (a->pid[i] == getpid() || (a->pid[i] && started(a->pid[i]) != a->started[i]))
			a->pid[i] = 0;
		if (!a->pid[i] && in && !placed) {
			a->pid[i] = getpid();
			a->started[i] = started(getpid());
			placed = 1;
		}
		n += a->pid[i] != 0;
	}
	if (in)
		note_start(n);
	else
		event("end", 0);
	munmap(a, sizeof(*a));
	close(fd);
	return n;
}

static void on_term(int signo)
{
	(void)signo;
	got_term = 1;
}

static void work(const struct knobs *k)
{
	int64_t until = now_ns() + k->sleep_ms * 1000000;
	int told = 0;

	for (;;) {
		int64_t left = until - now_ns();
		struct timespec t = {0, 5000000};

		if (got_term && !told) {
			event("term", 0);
			told = 1;
		}
		if (k->gate ? access(k->gate, F_OK) == 0 : left <= 0)
			return;
		if (!k->gate) {
			t.tv_sec = left / 1000000000;
			t.tv_nsec = left % 1000000000;
		}
		nanosleep(&t, NULL);
	}
}

/* Returns when its "child" is in the journal: it may be swept away from then on. */
static void sleeper(long ms, int own_session)
{
	char end;
	int noted[2];
	pid_t pid;

	if (pipe(noted) < 0 || (pid = fork()) < 0)
		die("fork");
	if (pid == 0) {
		struct timespec t = {ms / 1000, ms % 1000 * 1000000};

		if (own_session && (fork() || setsid() < 0))
			_exit(0);
		event("child", getpid());
		close(noted[0]);
		close(noted[1]);
		while (nanosleep(&t, &t) && errno == EINTR)
			;
		_exit(0);
	}
	close(noted[1]);
	while (read(noted[0], &end, 1) < 0 && errno == EINTR)
		;
	close(noted[0]);
}

static void pour(int fd, long bytes, long chunk)
{
	char *data = malloc((size_t)bytes + 1);

	if (!data)
		die("malloc");
	for (long i = 0; i < bytes; i++)
		data[i] = i % 100 == 99 ? '\n' : 'x';
	for (long at = 0; at < bytes;) {
		size_t n = (size_t)(bytes - at < chunk ? bytes - at : chunk);
		ssize_t done = write(fd, data + at, n);

		if (done < 0)
			die("write");
		at += done;
	}
	free(data);
}

static void put(int fd, const char *text, const char *end)
{
	dprintf(fd, "%s%s", text, end);
}

static void turn(struct knobs *k, char *word)
{
	char *v = strchr(word, '=');
	static const struct {
		const char *name;
		size_t at;
	} numbers[] =
		{
#define N(name, field) {name, offsetof(struct knobs, field)}
			N("sleep", sleep_ms), N("exit", exit_code),
			N("signal", signo),   N("parent", parent_signo),
			N("until", until),    N("until_run", until_run),
			N("hang", hang_ms),   N("ignore_term", ignore_term),
			N("group", group_ms), N("setsid", setsid_ms),
			N("ckpt", ckpt),      N("out", out),
			N("err", err),        N("chunk", chunk),
		},
	  texts[] = {
		  N("gate", gate), N("say", say), N("tail", tail),
		  N("cry", cry),   N("fd3", fd3), N("save", save),
#undef N
	  };

	if (!v)
		return;
	*v++ = 0;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!strcmp(word, numbers[i].name))
			*(long *)(void *)((char *)k + numbers[i].at) = atol(v);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(word, texts[i].name))
			*(const char **)(void *)((char *)k + texts[i].at) = v;
	if (!strcmp(word, "eof"))
		k->no_read = 1;
}

static char *slurp(size_t *len)
{
	size_t cap = 1 << 16;
	char *data = malloc(cap);

	*len = 0;
	for (;;) {
		ssize_t n;

		if (!data)
			die("malloc");
		n = read(0, data + *len, cap - *len - 1);
		if (n < 0)
			die("stdin");
		if (n == 0)
			break;
		*len += (size_t)n;
		if (cap - *len < 2)
			data = realloc(data, cap *= 2);
	}
	data[*len] = 0;
	return data;
}

static void save(const char *dir, const char *data, size_t len)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.%s", dir, env("REDISQ_ID"), env("REDISQ_ATTEMPT"));
	f = fopen(path, "w");
	if (!f || fwrite(data, 1, len, f) != len || fclose(f))
		die(path);
}

int main(int argc, char **argv)
{
	struct knobs k = {.chunk = 65536, .until = 1 << 30, .until_run = 1 << 30};
	struct sigaction sa = {.sa_handler = on_term};
	size_t len = 0;
	char *data = NULL;
	long fails;

	if (argc < 2)
		return 64;
	journal_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (journal_fd < 0)
		die(argv[1]);
	enlist(argv[1], 1);
	for (int i = 2; i < argc; i++)
		turn(&k, argv[i]);
	if (!k.no_read) {
		data = slurp(&len);
		if (k.save)
			save(k.save, data, len);
		if (!strncmp(data, "do ", 3))
			for (char *w = strtok(data + 3, " \n"); w; w = strtok(NULL, " \n"))
				turn(&k, w);
	}
	if (k.ckpt)
		dprintf(3, "{\"type\":\"checkpoint\",\"value\":%s}\n", env("REDISQ_DELIVERIES"));
	if (k.ignore_term)
		sigaction(SIGTERM, &sa, NULL);
	if (k.group_ms)
		sleeper(k.group_ms, 0);
	if (k.setsid_ms)
		sleeper(k.setsid_ms, 1);
	if (k.say)
		put(1, k.say, "\n");
	if (k.cry)
		put(2, k.cry, "\n");
	if (k.out)
		pour(1, k.out, k.chunk);
	if (k.err)
		pour(2, k.err, k.chunk);
	if (k.fd3) {
		char *text = strdup(k.fd3);

		for (char *p = text; p && *p; p++)
			if (*p == '~')
				*p = ' ';
		put(3, text ? text : "", "\n");
	}
	fails = atoi(env("REDISQ_ATTEMPT")) < k.until &&
		atoi(env("REDISQ_DELIVERIES")) < k.until_run;
	if (fails && k.hang_ms)
		k.sleep_ms = k.hang_ms;
	work(&k);
	if (k.tail)
		put(1, k.tail, "");
	enlist(argv[1], 0);
	if (fails && k.parent_signo) {
		kill(getppid(), (int)k.parent_signo);
		pause(); /* the group dies with the worker */
	}
	if (fails && k.signo) {
		signal((int)k.signo, SIG_DFL);
		raise((int)k.signo);
	}
	return fails ? (int)k.exit_code : 0;
}
