/*
 * fake_pipe.c - the pipe handler of the integration tests: one process, many tasks, and whatever
 * bad manners a test asks for. Its journal has the form of fake_handler.c's.
 *
 *   fake-pipe JOURNAL|- [KNOB=VALUE]...
 *
 * Of the process (arguments):
 *   slots=N             what it says; 0: leaves the member out
 *   ready_after=MS      never_ready=1     close_early=3 (fd 3 before ready)
 *   start_exit=N        start_signal=N    instead of becoming ready; with start_file=FILE only
 * while FILE exists start_say=TEXT      a line on fd 3 before ready ('~' stands for a blank)
 *   pour=BYTES          to stdout before ready, and before anything is read
 *   ignore_cancel=1     ignore_drain=1    ignore_eof=1   ignore_term=1
 *   leave_after=N       exit 0 after N answers
 *   hoard=N             no answer before N tasks are there; then the newest first
 *   keep=BYTES          memory it takes at each task
 * A payload that begins with "do " says more ('~' stands for a blank in texts); arguments are the
 * defaults:
 *   sleep=MS gate=FILE  how long it takes
 *   answer=done|retry|snooze|dead|none   error=TEXT delay=MS result=JSON blob=BYTES (a result)
 *   until=N             answer= applies only while the attempt is < N, then done
 *   until_run=N         exit=, signal= only while deliveries < N
 *   exit=N signal=N     of the process, instead of an answer
 *   twice=1 early=1     answers twice; answers before it has slept
 *   stranger=ID         answers for that id, too    line=TEXT   any line on fd 3
 *   noline=TEXT         the same without a line end, and then exit 0
 *   close=N             closes that fd              deaf=1      reads stdin no more
 *   out=BYTES err=BYTES say=TEXT cry=TEXT           to stdout and stderr
 *   progress=JSON checkpoint=JSON                   save=DIR: the task's line as DIR/<id>.<attempt>
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define MAX_TASKS 20000

struct knobs {
	long slots, ready_after, never_ready, close_early, start_exit, start_signal, pour,
		ignore_cancel, ignore_drain, ignore_eof, ignore_term, leave_after, hoard, keep,
		sleep_ms, delay, blob, until, until_run, exit_code, signo, twice, early, close_fd,
		deaf, out, err;
	const char *start_file, *start_say, *gate, *answer, *error, *result, *stranger, *line,
		*noline, *say, *cry, *progress, *checkpoint, *save;
};

struct work {
	char *id;
	char *text; /* the knobs' */
	int attempt;
	int deliveries;
	int64_t until_ns;
	struct knobs k;
};

static struct knobs defaults = {
	.slots = 1, .exit_code = -1, .until = 1 << 30, .until_run = 1 << 30, .close_fd = -1};
static struct work works[MAX_TASKS];
static int n_works;
static int journal_fd = -1;
static long n_answers;
static int is_deaf, is_draining, is_eof;
static const char *journal;
static char *volatile hoarded;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "fake-pipe: %s: %s\n", what, strerror(errno));
	_exit(111);
}

static void put(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR)
			return; /* the worker is gone, or a test has closed it */
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
}

static void put_text(int fd, const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);
	char *line = malloc(n + m + 1);

	if (!line)
		die("malloc");
	for (size_t i = 0; i < n; i++)
		line[i] = text[i] == '~' ? ' ' : text[i];
	memcpy(line + n, end, m);
	put(fd, line, n + m);
	free(line);
}

static void pour(int fd, long bytes)
{
	char chunk[6400];

	for (size_t i = 0; i < sizeof(chunk); i++)
		chunk[i] = i % 100 == 99 ? '\n' : 'x';
	for (; bytes > 0; bytes -= (long)sizeof(chunk))
		put(fd, chunk, bytes < (long)sizeof(chunk) ? (size_t)bytes : sizeof(chunk));
}

/* ------------------------------------------------------------------ journal */

/* JOURNAL.count: how many tasks run now, in all processes; of the killed ones too. */
static int count(int by)
{
	char path[4096];
	int32_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "%s.count", journal);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || flock(fd, LOCK_EX))
		die(path);
	if (pread(fd, &n, sizeof(n), 0) < 0)
		die(path);
	n += by;
	if (pwrite(fd, &n, sizeof(n), 0) < 0)
		die(path);
	close(fd);
	return n;
}

static void event(const char *ev, const struct work *w, long value)
{
	char line[2048];
	int n;

	if (journal_fd < 0)
		return;
	n = snprintf(
		line, sizeof(line),
		"{\"ev\":\"%s\",\"t\":%lld,\"pid\":%d,\"ppid\":%d,\"id\":\"%.900s\",\"attempt\":%d,"
		"\"beside\":%ld,\"value\":%ld,\"child\":\"%s\"}\n",
		ev, (long long)now_ns(), (int)getpid(), (int)getppid(), w ? w->id : "",
		w ? w->attempt : 0, value, value,
		getenv("REDISQ_CHILD") ? getenv("REDISQ_CHILD") : "");
	if (write(journal_fd, line, (size_t)n) != n)
		die("journal");
}

/* ------------------------------------------------------------------ knobs */

static void turn(struct knobs *k, char *word)
{
	char *v = strchr(word, '=');
	static const struct {
		const char *name;
		size_t at;
	} numbers[] =
		{
#define N(name, field) {name, offsetof(struct knobs, field)}
			N("slots", slots),
			N("ready_after", ready_after),
			N("never_ready", never_ready),
			N("close_early", close_early),
			N("start_exit", start_exit),
			N("start_signal", start_signal),
			N("pour", pour),
			N("ignore_cancel", ignore_cancel),
			N("ignore_drain", ignore_drain),
			N("ignore_eof", ignore_eof),
			N("ignore_term", ignore_term),
			N("leave_after", leave_after),
			N("hoard", hoard),
			N("keep", keep),
			N("sleep", sleep_ms),
			N("delay", delay),
			N("blob", blob),
			N("until", until),
			N("until_run", until_run),
			N("exit", exit_code),
			N("signal", signo),
			N("twice", twice),
			N("early", early),
			N("close", close_fd),
			N("deaf", deaf),
			N("out", out),
			N("err", err),
		},
	  texts[] = {
		  N("start_file", start_file),
		  N("start_say", start_say),
		  N("gate", gate),
		  N("answer", answer),
		  N("error", error),
		  N("result", result),
		  N("stranger", stranger),
		  N("line", line),
		  N("noline", noline),
		  N("say", say),
		  N("cry", cry),
		  N("progress", progress),
		  N("checkpoint", checkpoint),
		  N("save", save),
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
}

/* ------------------------------------------------------------------ answers */

static void say(json_t *line)
{
	char *text = json_dumps(line, JSON_COMPACT);

	if (!text)
		die("json");
	put(3, text, strlen(text));
	put(3, "\n", 1);
	free(text);
	json_decref(line);
}

static void say_of(const char *type, const char *id, const char *key, json_t *value)
{
	json_t *line = json_pack("{s:s,s:s}", "type", type, "id", id);

	if (value)
		json_object_set_new(line, key, value);
	say(line);
}

static json_t *blob(long bytes)
{
	char *data = malloc((size_t)bytes + 1);
	json_t *text;

	if (!data)
		die("malloc");
	memset(data, 'b', (size_t)bytes);
	text = json_stringn(data, (size_t)bytes);
	free(data);
	return text;
}

static json_t *parse(const char *text)
{
	return json_loads(text, JSON_DECODE_ANY, NULL);
}

static void answer(struct work *w)
{
	const struct knobs *k = &w->k;
	const char *type = k->answer && w->attempt < k->until ? k->answer : "done";
	json_t *line;

	if (!strcmp(type, "none"))
		return;
	line = json_pack("{s:s,s:s}", "type", type, "id", w->id);
	if (k->error)
		json_object_set_new(line, "error", json_string(k->error));
	if (k->delay)
		json_object_set_new(line, "delay_ms", json_integer(k->delay));
	if (k->result)
		json_object_set_new(line, "result", parse(k->result));
	if (k->blob)
		json_object_set_new(line, "result", blob(k->blob));
	if (k->twice)
		say(json_incref(line));
	say(line);
}

/* The end of a task; the process may end with it. */
static void finish(int i)
{
	struct work *w = &works[i];
	int fails = w->attempt < w->k.until && w->deliveries < w->k.until_run;

	if (journal_fd >= 0)
		event("end", w, count(-1));
	if (fails && w->k.signo) {
		signal((int)w->k.signo, SIG_DFL);
		raise((int)w->k.signo);
	}
	if (fails && w->k.exit_code >= 0)
		_exit((int)w->k.exit_code);
	if (!w->k.early)
		answer(w);
	free(w->id);
	free(w->text);
	*w = works[--n_works];
	if (++n_answers == defaults.leave_after)
		_exit(0);
}

/* ------------------------------------------------------------------ lines from the worker */

static void save(const struct work *w, const char *line, size_t len)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.%d", w->k.save, w->id, w->attempt);
	f = fopen(path, "w");
	if (!f || fwrite(line, 1, len, f) != len || fclose(f))
		die(path);
}

/* What is said, written and closed before the work begins. */
static void begin(struct work *w)
{
	const struct knobs *k = &w->k;

	if (k->say)
		put_text(1, k->say, "\n");
	if (k->cry)
		put_text(2, k->cry, "\n");
	pour(1, k->out);
	pour(2, k->err);
	if (k->progress)
		say_of("progress", w->id, "value", parse(k->progress));
	if (k->checkpoint)
		say_of("checkpoint", w->id, "value", parse(k->checkpoint));
	if (k->stranger)
		say_of("done", k->stranger, NULL, NULL);
	if (k->line)
		put_text(3, k->line, "\n");
	if (k->noline) {
		put_text(3, k->noline, "");
		_exit(0);
	}
	if (k->close_fd >= 0)
		close((int)k->close_fd);
	is_deaf |= k->deaf && w->attempt < k->until;
	if (k->keep) {
		char *kept = malloc((size_t)k->keep);

		if (!kept)
			die("malloc");
		memset(kept, 1, (size_t)k->keep); /* for ever: that is its bad manners */
		hoarded = kept;
	}
	if (k->early)
		answer(w);
}

static void on_task(json_t *task, const char *line, size_t len)
{
	const char *payload = json_string_value(json_object_get(task, "payload"));
	struct work *w = &works[n_works++];

	*w = (struct work){.k = defaults};
	w->id = strdup(json_string_value(json_object_get(task, "id")));
	w->attempt = (int)json_integer_value(json_object_get(task, "attempt"));
	w->deliveries = (int)json_integer_value(json_object_get(task, "deliveries"));
	w->text = strdup(payload ? payload : "");
	if (!w->id || !w->text)
		die("strdup");
	if (!strncmp(w->text, "do ", 3))
		for (char *word = strtok(w->text + 3, " \n"); word; word = strtok(NULL, " \n"))
			turn(&w->k, word);
	if (journal_fd >= 0)
		event("start", w, count(1));
	if (w->k.save)
		save(w, line, len);
	w->until_ns = now_ns() + w->k.sleep_ms * 1000000;
	begin(w);
}

static void on_cancel(json_t *line)
{
	const char *id = json_string_value(json_object_get(line, "id"));
	const char *reason = json_string_value(json_object_get(line, "reason"));

	for (int i = 0; i < n_works; i++) {
		struct work *w = &works[i];

		if (strcmp(w->id, id) != 0)
			continue;
		event(reason, w, 0);
		if (w->k.ignore_cancel)
			return;
		w->k = defaults;
		w->k.answer = "retry";
		w->k.error = "cancelled";
		w->k.exit_code = -1;
		w->until_ns = 0;
	}
}

static void on_line(const char *text, size_t len)
{
	json_error_t e;
	json_t *line = json_loadb(text, len, JSON_ALLOW_NUL, &e);
	const char *type = json_string_value(json_object_get(line, "type"));

	if (!type) {
		fprintf(stderr, "fake-pipe: not understood: %s: %.*s\n", e.text, (int)len, text);
		_exit(112);
	}
	if (!strcmp(type, "task")) {
		on_task(line, text, len);
	} else if (!strcmp(type, "cancel")) {
		on_cancel(line);
	} else if (!strcmp(type, "drain")) {
		event("drain", NULL, 0);
		is_draining = 1;
	}
	json_decref(line);
}

static void read_lines(void)
{
	static char *data;
	static size_t len, cap, done;
	ssize_t n;
	char *end;

	if (cap - len < 65536)
		data = realloc(data, cap = cap * 2 + 131072);
	if (!data)
		die("realloc");
	n = read(0, data + len, cap - len);
	if (n <= 0) {
		is_eof = 1;
		return;
	}
	len += (size_t)n;
	while (!is_deaf && (end = memchr(data + done, '\n', len - done))) {
		on_line(data + done, (size_t)(end - data) - done);
		done = (size_t)(end - data) + 1;
	}
	memmove(data, data + done, len - done);
	len -= done;
	done = 0;
}

/* ------------------------------------------------------------------ life */

static void nap(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static void become_ready(void)
{
	if (!defaults.start_file || access(defaults.start_file, F_OK) == 0) {
		if (defaults.start_signal)
			raise((int)defaults.start_signal);
		if (defaults.start_exit)
			_exit((int)defaults.start_exit);
	}
	if (defaults.start_say)
		put_text(3, defaults.start_say, "\n");
	if (defaults.close_early)
		close((int)defaults.close_early);
	pour(1, defaults.pour);
	nap(defaults.ready_after);
	if (!defaults.never_ready)
		say(defaults.slots
			    ? json_pack("{s:s,s:i}", "type", "ready", "slots", (int)defaults.slots)
			    : json_pack("{s:s}", "type", "ready"));
}

/* Ends what is due; how long until the next, -1 = nothing is due. */
static int work(void)
{
	int wait = -1;

	if (n_works < defaults.hoard)
		return -1;
	for (int i = n_works - 1; i >= 0; i--) {
		struct work *w = &works[i];
		int64_t left = (w->until_ns - now_ns() + 999999) / 1000000;

		if (w->until_ns && w->k.gate)
			left = access(w->k.gate, F_OK) == 0 ? 0 : 5;
		if (left <= 0)
			finish(i);
		else if (wait < 0 || left < wait)
			wait = (int)left;
	}
	return wait;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 64;
	journal = argv[1];
	if (strcmp(journal, "-") != 0) {
		journal_fd = open(journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
		if (journal_fd < 0)
			die(journal);
	}
	for (int i = 2; i < argc; i++)
		turn(&defaults, argv[i]);
	signal(SIGPIPE, SIG_IGN);
	if (defaults.ignore_term)
		signal(SIGTERM, SIG_IGN);
	event("child", NULL, getpid());
	become_ready();
	for (;;) {
		int wait = work();
		struct pollfd p = {.fd = is_deaf || is_eof ? -1 : 0, .events = POLLIN};

		if (n_works == 0 &&
		    ((is_draining && !defaults.ignore_drain) || (is_eof && !defaults.ignore_eof)))
			return 0;
		if (poll(&p, 1, wait) > 0)
			read_lines();
	}
}
