/*
 * fake_worker.c - stands in for redisq-worker where the supervisor is under test: it speaks the
 * channel (common/chan.h) and keeps the board, but has no Redis and no handler.
 *
 * Knobs are NAME=VALUE lines in the file that FAKE_WORKER_KNOBS names, read at start, so that a
 * test can change what the next worker does; NAME@SLOT=VALUE is for that slot only.
 *
 *   ready_ms=N       say ready after N ms (0); -1 = never
 *   ready_file=PATH  ... and not before this file is there
 *   consuming_file=PATH  it takes no task, says its board, before this file is there
 *   wait=TEXT        say redis-wait TEXT instead of ready
 *   refuse=TEXT      say refused TEXT and exit 78
 *   die_ms=N         die after N ms; die_code=N, die_signal=N say how (exit 1)
 *   die_ready=1      die as soon as it has said ready
 *   die_credit=N     die when it has credit for N tasks: it has taken the slot then
 *   hang_ms=N        the loop stands still from then on
 *   stick=PATH       looks at PATH when it is ready and its tasks run, and may not come back
 *   ignore_drain=1   goes on as if nothing had been said
 *   tasks=N          N tasks "run" as soon as there is credit; task_ms=N how long each (0 = for
 *                    ever: until stop or the drain's limit); task_gate=PATH: until this file is
 *                    there, too
 *   fail=TEXT        the tasks fail at once: its breaker opens, it says TEXT, and runs no more
 *   broken=TEXT      its breaker is open before it is ready
 *   named=1          its name is on the board, so that others are told to have what it had pending
 *   handler=1        each task is a process of its own group; setsid=1: it leaves a grandchild in
 *                    a session of its own; handler_stick=PATH: it looks at PATH
 *   pgid=N           the group on the board is N, whoever that is now
 *   exit=N           exit status when it leaves (0)
 *   alloc=N          touch N MiB
 *   log=TEXT         one line to the log frames, and to the raw stderr
 *
 * FAKE_WORKER_JOURNAL: a file to which "PID SLOT MS WORD..." is appended for what it hears, when it
 * has started, and when it has said ready; MS is of the monotonic clock.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "scoreboard.h"

enum { FD_FRAMES = 1, FD_CHANNEL = 3, FD_CONF = 4, FD_BOARD = 5 };

static struct {
	const char *slot;
	struct buf knobs;
	struct board *board;
	int journal;
	int64_t credit, running, started_ms, task_end_ms;
	int64_t drain_until_ms; /* 0 = no limit */
	bool draining, leaving, ready, broken;
} me;

/* The value of a knob, the slot's own first; a heap string or NULL. */
static char *knob_text(const char *name)
{
	char *own = xasprintf("\n%s@%s=", name, me.slot);
	char *all = xasprintf("\n%s=", name);
	const char *at = strstr(me.knobs.data, own);
	size_t skip = strlen(own);

	if (!at) {
		at = strstr(me.knobs.data, all);
		skip = strlen(all);
	}
	free(own);
	free(all);
	return at ? xmemdup0(at + skip, strcspn(at + skip, "\n")) : NULL;
}

static int64_t knob(const char *name, int64_t otherwise)
{
	char *text = knob_text(name);
	int64_t n = text ? strtoll(text, NULL, 10) : otherwise;

	free(text);
	return n;
}

/* No such knob, or the file that it names is there. */
static bool is_there(const char *name)
{
	char *path = knob_text(name);
	bool there = !path || access(path, F_OK) == 0;

	free(path);
	return there;
}

static void read_knobs(void)
{
	const char *path = getenv("FAKE_WORKER_KNOBS");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n;

	buf_addc(&me.knobs, '\n');
	if (fd < 0)
		return;
	n = read(fd, buf_reserve(&me.knobs, 65536), 65536);
	if (n > 0)
		buf_commit(&me.knobs, (size_t)n);
	close(fd);
}

static void put(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) < 0 && errno != EPIPE)
		_exit(90);
}

static void say(const char *text)
{
	put(FD_CHANNEL, text);
	put(FD_CHANNEL, "\n");
}

static void note(const char *text)
{
	char *line;

	if (me.journal < 0)
		return;
	line = xasprintf("%d %s %lld %s\n", (int)getpid(), me.slot, (long long)clock_mono_ms(),
			 text);
	put(me.journal, line);
	free(line);
}

static void leave(int code)
{
	if (code == 0 && me.board)
		board_clear_names(me.board); /* in good order */
	_exit(code);
}

static pid_t start_handler(void)
{
	bool wide = knob("setsid", 0) != 0;
	char *path = knob_text("handler_stick");
	pid_t pid = fork();

	if (pid != 0) {
		setpgid(pid, pid);
		free(path);
		return pid;
	}
	setpgid(0, 0);
	if (path && access(path, F_OK) == 0)
		note("there");
	if (wide && fork() == 0)
		setsid();
	for (;;)
		pause();
}

static void start_tasks(void)
{
	int64_t wanted = knob("tasks", 0);

	while (!me.draining && !me.broken && me.running < wanted && me.running < me.credit) {
		struct board_task t = {.token = 1, .attempt = 1, .started_ms = clock_boot_ms()};
		uint32_t row = (uint32_t)me.running;

		snprintf(t.id, sizeof(t.id), "%d-%u", (int)getpid(), row);
		t.pgid = knob("handler", 0) ? start_handler() : (pid_t)knob("pgid", 0);
		board_set_task(me.board, row, &t);
		me.running++;
		if (knob("task_ms", 0) || !is_there("task_gate"))
			me.task_end_ms = clock_mono_ms() + knob("task_ms", 0);
	}
	atomic_store(&me.board->running, (int32_t)me.running);
}

static void say_broken(const char *knob)
{
	char *text = knob_text(knob), *line;

	if (!text)
		return;
	line = xasprintf("breaker open %s", text);
	say(line);
	free(line);
	free(text);
	me.broken = true;
}

static void end_tasks(void)
{
	char *line = knob_text("fail");

	for (int64_t i = 0; i < me.running; i++) {
		struct board_task t;

		if (board_read_task(me.board, (uint32_t)i, &t) && t.pgid > 1) {
			kill(-t.pgid, SIGKILL);
			waitpid(t.pgid, NULL, 0);
		}
		board_clear_task(me.board, (uint32_t)i);
	}
	atomic_fetch_add(line ? &me.board->failed : &me.board->done, me.running);
	if (me.running > 0 && line)
		say_broken("fail");
	else if (me.running > 0)
		say("works");
	free(line);
	me.running = 0;
	me.task_end_ms = 0;
	atomic_store(&me.board->running, 0);
	if (!me.draining)
		return;
	line = xasprintf("freed %lld", (long long)me.credit);
	say(line);
	free(line);
	leave((int)knob("exit", 0));
}

/* Credit no task needs any more goes back at once, as the real worker does it. */
static void free_unused(void)
{
	char *line;

	if (me.credit <= me.running)
		return;
	line = xasprintf("freed %lld", (long long)(me.credit - me.running));
	me.credit = me.running;
	say(line);
	free(line);
}

static void hear(char *line)
{
	char *rest = strchr(line, ' ');
	int64_t n = rest ? strtoll(rest, NULL, 10) : 0;

	note(line);
	if (strncmp(line, "credit", 6) == 0) {
		me.credit += n;
	} else if (strncmp(line, "drain", 5) == 0 && !knob("ignore_drain", 0)) {
		me.draining = true;
		me.drain_until_ms = n ? clock_mono_ms() + n : 0;
		if (me.running == 0)
			end_tasks();
		free_unused();
	} else if (strcmp(line, "stop") == 0 && !knob("ignore_drain", 0)) {
		me.draining = true;
		end_tasks();
	}
}

static void hear_all(void)
{
	static struct buf in = BUF_INIT;
	ssize_t n = read(FD_CHANNEL, buf_reserve(&in, 4096), 4096);
	char *end;

	if (n <= 0) {
		note("eof");
		leave(0);
	}
	buf_commit(&in, (size_t)n);
	while ((end = memchr(in.data, '\n', in.len)) != NULL) {
		*end = '\0';
		hear(in.data);
		buf_consume(&in, (size_t)(end + 1 - in.data));
	}
}

static void begin(void)
{
	char *text;

	if ((text = knob_text("log")) != NULL) {
		char *line = xasprintf("O - %s\n", text);

		put(FD_FRAMES, line);
		free(line);
		line = xasprintf("%s\n", text);
		put(STDERR_FILENO, line);
		free(line);
		free(text);
	}
	if (knob("alloc", 0)) {
		size_t size = (size_t)knob("alloc", 0) << 20;
		volatile char *room = malloc(size);

		for (size_t i = 0; room && i < size; i += 4096)
			room[i] = 1;
	}
	if ((text = knob_text("refuse")) != NULL) {
		char *line = xasprintf("refused %s", text);

		say(line);
		leave(78);
	}
	if ((text = knob_text("wait")) != NULL) {
		char *line = xasprintf("redis-wait %s", text);

		say(line);
		free(line);
		free(text);
	}
}

static bool is_due(const char *name)
{
	int64_t ms = knob(name, -1);

	return ms >= 0 && clock_mono_ms() - me.started_ms >= ms;
}

static bool may_be_ready(void)
{
	int64_t ms = knob("ready_ms", 0);
	char *wait = knob_text("wait");

	free(wait);
	return !wait && ms >= 0 && clock_mono_ms() - me.started_ms >= ms && is_there("ready_file");
}

static void be_ready(void)
{
	char *line = xasprintf("ready worker_%d", (int)getpid());

	me.ready = true;
	if (knob("named", 0)) {
		struct board_name *n = &me.board->names[0];

		snprintf(n->consumer, sizeof(n->consumer), "worker_%d", (int)getpid());
		snprintf(n->nonce, sizeof(n->nonce), "n%d", (int)getpid());
	}
	say_broken("broken");
	say(line);
	note("ready");
	free(line);
}

static void turn(void)
{
	int64_t now = clock_mono_ms();
	char *path;

	atomic_store(&me.board->heartbeat_ms, clock_boot_ms());
	if (!me.ready && may_be_ready()) {
		atomic_store(&me.board->consuming, is_there("consuming_file"));
		be_ready();
	}
	if (me.ready && is_there("consuming_file"))
		atomic_store(&me.board->consuming, 1);
	if (me.ready && knob("die_ready", 0))
		leave((int)knob("die_code", 1));
	if (is_due("die_ms") || (knob("die_credit", 0) && me.credit >= knob("die_credit", 0))) {
		if (knob("die_signal", 0))
			kill(getpid(), (int)knob("die_signal", 0));
		leave((int)knob("die_code", 1));
	}
	while (is_due("hang_ms"))
		pause();
	if (me.ready && me.running >= knob("tasks", 0) && (path = knob_text("stick")) != NULL) {
		note(access(path, F_OK) == 0 ? "there" : "not there");
		free(path);
	}
	if ((me.task_end_ms && now >= me.task_end_ms && is_there("task_gate")) ||
	    (me.drain_until_ms && now >= me.drain_until_ms))
		end_tasks();
	start_tasks();
}

int main(int argc, char **argv)
{
	const char *journal = getenv("FAKE_WORKER_JOURNAL");

	me.slot = "0";
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "--slot") == 0)
			me.slot = argv[i + 1];
	buf_init(&me.knobs);
	read_knobs();
	for (int fd = FD_CHANNEL; fd <= 6; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	me.journal = journal ? open(journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	me.started_ms = clock_mono_ms();
	me.board = board_attach(FD_BOARD);
	if (!me.board)
		return 91;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	note("started");
	begin();
	for (;;) {
		struct pollfd p = {.fd = FD_CHANNEL, .events = POLLIN};

		turn();
		if (poll(&p, 1, 10) == 1)
			hear_all();
	}
}
