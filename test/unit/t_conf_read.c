/* t_conf_read.c - files, the environment and -s: every class of message, and what must survive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf_doc.h"
#include "conf_read.h"
#include "conf_row.h"

/* One message per line: `errs` must be exactly `want`. */
static void test_messages(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"", ""},
		{"\n# c\n; c\n   # indented comments are harmless\n\r\n", ""},
		{"\xef\xbb\xbf[redis]\n", ""},
		{"[redis]\r\nurl = redis://h\r\n", ""},
		{"[redis]\nurl=redis://h", ""},
		{"[ redis ]\n\n[queue \t a b ]\n", ""},
		{"[queue a]b]\n[queue a[b]\n[queue ;x]\n[queue #]\n", ""},
		{"x = 1\ny = 2\n",
		 "f:1: a key before any section; write [supervisor], [redis] or [queue NAME] above "
		 "it\n"},
		{"[redis]\n url = x\n",
		 "f:2: indented: would continue the value before; begin it in the first column\n"},
		{"[redis]\n\turl = x\n  [queue q]\n",
		 "f:2: indented: would continue the value before; begin it in the first column\n"
		 "f:3: indented: would continue the value before; begin it in the first column\n"},
		{"[redis]\nurl\n",
		 "f:2: no = in this line; write key = value, or # in front of a comment\n"},
		{"[redis]\nurl: redis://h\n",
		 "f:2: no = in this line; write key = value, or # in front of a comment\n"},
		{"[redis]\nulr = redis://h\n",
		 "f:2: [redis] ulr: unknown key; did you mean url?\n"},
		{"[redis]\n= x\n", "f:2: [redis] : unknown key; redisq.ini(5) lists them\n"},
		/* What stands in the place of a name may have a secret in it. */
		{"[redis]\npassword SECRET = x\n",
		 "f:2: [redis] password...: unknown key; did you mean password?\n"},
		{"[redis]\nurl redis://:SECRET@h/?db=1\n",
		 "f:2: [redis] url...: unknown key; did you mean url?\n"},
		{"[redis://:SECRET@h]\nx = y\n",
		 "f:1: a url for a section; write [redis], and url = ... below it\n"},
		{"[redis]\ntimeout = 5s\n",
		 "f:2: [redis] timeout: unknown key; redisq.ini(5) lists them\n"},
		{"[redsi]\nurl = x\nfoo = y\n",
		 "f:1: unknown section [redsi]; did you mean [redis]?\n"},
		{"[queues x]\n", "f:1: unknown section [queues x]; did you mean [queue NAME]?\n"},
		{"[web]\n",
		 "f:1: unknown section [web]; there are [supervisor], [redis] and [queue NAME]\n"},
		{"[]\n",
		 "f:1: unknown section []; there are [supervisor], [redis] and [queue NAME]\n"},
		{"[queue]\n",
		 "f:1: [queue] needs a name; write [queue NAME], NAME being the stream's key\n"},
		{"[queue  ]\n",
		 "f:1: [queue] needs a name; write [queue NAME], NAME being the stream's key\n"},
		{"[redis\n",
		 "f:1: a section without its ]; write [supervisor], [redis] or [queue NAME]\n"},
		{"[redis] # c\n", "f:1: text after the ]; a comment needs a line of its own\n"},
		{"[queue a}b]\nlease = 9s\n", "f:1: queue name \"a}b\": a '}' without a {tag} "
					      "before it keeps its keys out of one "
					      "hash slot; choose another name\n"},
		{"[redis]\n[supervisor]\n[redis]\nurl = nope\n",
		 "f:3: duplicate section [redis]; put its keys at line 1\n"},
		{"[queue a]\n[queue b]\n[queue a]\n",
		 "f:3: duplicate section [queue a]; put its keys at line 1\n"},
		{"[redis]\nurl = redis://a\n\nurl = redis://b\n",
		 "f:4: duplicate key url; the first is at line 2, remove one\n"},
		{"[queue a]\nlease = 9s\n[queue b]\nlease = 9s\n", ""},
		{"[queue a]\ntimeout = 1800\n",
		 "f:2: [queue a] timeout = 1800: has no unit; write 1800s or 30m\n"},
		{"[supervisor]\nworkers = 4 # four\n", "f:2: [supervisor] workers = 4 # four: not "
						       "a number; write one such as 4, or max\n"},
		{"[queue a]\nmax_attempts = 0\n\nlease = 1ms\nstart = 1\n",
		 "f:2: [queue a] max_attempts = 0: out of range; write 1 to 100000\n"
		 "f:4: [queue a] lease = 1ms: out of range; write 1s or more\n"
		 "f:5: [queue a] start = 1: not one of auto|0|$; did you mean 0?\n"},
		{"[queue a]\nconcurrency = four\n",
		 "f:2: [queue a] concurrency = four: not a number; write one such as 4\n"},
		{"[redis]\nurl = redis://h\xff\n",
		 "f:2: the byte 0xff is not UTF-8; save the file as UTF-8\n"},
		{"[redis]\n# \xed\xa0\xc0\n",
		 "f:2: the byte 0xed is not UTF-8; save the file as UTF-8\n"},
		{"[redis]\n# \xe2\x82",
		 "f:2: the byte 0xe2 is not UTF-8; save the file as UTF-8\n"},
		{"\xff\xfe[\n", "f:1: the byte 0xff is not UTF-8; save the file as UTF-8\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *c = conf_new();
		struct buf errs = BUF_INIT;
		int rc = conf_read_text(c, "f", slice_str(cases[i].text), &errs);

		assert_string_equal(errs.data, cases[i].want);
		assert_int_equal(rc, cases[i].want[0] ? -1 : 0);
		buf_release(&errs);
		conf_free(c);
	}
}

static void test_nul(void **state)
{
	static const char text[] = "[redis]\nurl = redis://h\0x\n";
	struct conf *c = conf_new();
	struct buf errs = BUF_INIT;

	(void)state;
	assert_int_equal(conf_read_text(c, "f", slice_of(text, sizeof(text) - 1), &errs), -1);
	assert_string_equal(errs.data, "f:2: a NUL byte; this is not a text file\n");
	buf_release(&errs);
	conf_free(c);
}

static void read_ok(struct conf *c, const char *text)
{
	struct buf errs = BUF_INIT;

	if (conf_read_text(c, "f", slice_str(text), &errs) < 0)
		fail_msg("%s", errs.data);
	buf_release(&errs);
}

/* What inih 55 by itself cuts, splits or strips. */
static void test_values_survive(void **state)
{
	struct conf *c = conf_new();
	struct buf text = BUF_INIT, errs = BUF_INIT;
	char name[300], comment[2000];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memset(comment, 'c', sizeof(comment) - 1);
	comment[sizeof(comment) - 1] = '\0';
	buf_addf(&text, "# %s workers = 9\n[redis]\npassword = a ; b # c\nusername =  x:y=z \n",
		 comment);
	buf_addf(&text, "[queue %s]\nhandler = exec a '%s' \";x ;y\"\ncwd = /\xc3\xbc ;\n", name,
		 comment);
	read_ok(c, text.data);
	assert_string_equal(conf_redis(c)->password, "a ; b # c");
	assert_string_equal(conf_redis(c)->username, "x:y=z");
	assert_int_equal(conf_supervisor(c)->workers, 4);
	assert_non_null(conf_queue(c, name));
	assert_string_equal(conf_queue(c, name)->handler.argv.v[1], comment);
	assert_string_equal(conf_queue(c, name)->handler.argv.v[2], ";x ;y");
	assert_string_equal(conf_queue(c, name)->cwd, "/\xc3\xbc ;");
	assert_string_equal(conf_where(c, CONF_QUEUE, name, "cwd"), "f:7");

	buf_clear(&text);
	buf_adds(&text, "[redis]\nusername = ");
	for (int i = 0; i < 20000; i++)
		buf_addc(&text, 'u');
	buf_adds(&text, "\npassword = still read\n");
	assert_int_equal(conf_read_text(c, "g", slice_of(text.data, text.len), &errs), -1);
	assert_string_equal(errs.data, "g:2: 20011 bytes long; at most 16384, shorten it\n");
	assert_string_equal(conf_redis(c)->password, "still read");
	buf_release(&text);
	buf_release(&errs);
	conf_free(c);
}

static void test_files(void **state)
{
	char dir[] = "/tmp/t_conf_read.XXXXXX";
	struct conf *c = conf_new();
	struct buf errs = BUF_INIT;
	char *path, *fifo;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	path = xasprintf("%s/a.ini", dir);
	fifo = xasprintf("%s/fifo", dir);
	assert_int_equal(conf_read_file(c, path, &errs), -1);
	assert_non_null(strstr(errs.data, "a.ini: No such file or directory\n"));
	buf_clear(&errs);
	assert_int_equal(conf_read_file(c, dir, &errs), -1);
	assert_non_null(strstr(errs.data, "not a file but a directory"));
	buf_clear(&errs);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(conf_read_file(c, fifo, &errs), -1);
	assert_non_null(strstr(errs.data, "not a file"));
	buf_clear(&errs);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("[supervisor]\nworkers = 2\n", f);
	fclose(f);
	assert_int_equal(conf_read_file(c, path, &errs), 0);
	assert_int_equal(conf_supervisor(c)->workers, 2);
	assert_int_equal(truncate(path, 3 << 20), 0);
	assert_int_equal(conf_read_file(c, path, &errs), -1);
	assert_non_null(strstr(errs.data, "larger than 1 MiB"));
	unlink(path);
	unlink(fifo);
	rmdir(dir);
	free(path);
	free(fifo);
	buf_release(&errs);
	conf_free(c);
}

/* The sample file is a valid one that changes nothing, and so it stays with every ; removed. */
static void test_sample(void **state)
{
	struct conf *c = conf_new(), *plain = conf_new();
	struct buf sample = BUF_INIT, errs = BUF_INIT;
	char *p;

	(void)state;
	conf_doc_sample(&sample);
	read_ok(c, sample.data);
	assert_int_equal(conf_n_queues(c), 0);
	while ((p = strstr(sample.data, "\n;")) != NULL)
		p[1] = '\n';
	/* "handler =" stands twice then: the example and the row. */
	p = strstr(sample.data, "handler = exec");
	assert_non_null(p);
	*p = '#';
	if (conf_read_text(c, "s", slice_of(sample.data, sample.len), &errs) < 0)
		fail_msg("%s", errs.data);
	assert_int_equal(conf_n_queues(c), 1);
	assert_int_equal(conf_diff(plain, c, CONF_SUPERVISOR, NULL), CONF_SAME);
	assert_int_equal(conf_diff(plain, c, CONF_REDIS, NULL), CONF_SAME);
	buf_release(&sample);
	buf_release(&errs);
	conf_free(c);
	conf_free(plain);
}

/* What only shows at the end still says where. */
static void test_finish_says_where(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"[queue a]\nhandler = exec x\n[queue b]\n", "f:3: [queue b] has no handler; "},
		{"[queue a]\nhandler = exec x\nretry_delay = 16m\n", "f:3: [queue a] retry_delay"},
		{"[supervisor]\ngroup = x\n", "f:2: [supervisor] group"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *c = conf_new();
		struct buf errs = BUF_INIT;

		read_ok(c, cases[i].text);
		assert_int_equal(conf_finish(c, &errs), -1);
		if (strncmp(errs.data, cases[i].says, strlen(cases[i].says)) != 0)
			fail_msg("says \"%s\"", errs.data);
		buf_release(&errs);
		conf_free(c);
	}
}

static void test_env(void **state)
{
	static char a[] = "REDISQ_QUEUE_TIMEOUT=5m", b[] = "REDISQ_SUPERVISOR_WORKERS=3",
		    d[] = "REDISQ_REDIS_PASSWORD=a ; b", f[] = "QUEUE_REDIS_READ_COUNT=5",
		    g[] = "REDISQ_QUEUE_READ_COUNT=6", h[] = "QUEUE_REDIS_CONCURRENCY=lots",
		    i[] = "REDIS_URL=redis://cache", j[] = "REDISQ_QUEUE_TIMEUOT=1s",
		    k[] = "REDISQ_SUPERVISOR_NAME=", l[] = "REDISQ_ID=1-0",
		    m[] = "REDISQ_SUPERVISOR_LOG_KEEP=x", n[] = "REDISQ_QUEUE_MAX_ATTEMPTS=0",
		    o[] = "REDISQUEUE=x", p[] = "REDISQ_WORKER=worker_7",
		    q[] = "REDISQ_WORKER_PROGRAM=/x";
	char *env[] = {a, b, d, f, g, h, i, j, k, l, m, n, o, p, q, NULL};
	struct conf *c = conf_new();
	struct buf errs = BUF_INIT;
	const char *const *w;

	(void)state;
	read_ok(c, "[redis]\nurl = redis://mine\n[supervisor]\nworkers = 8\n[queue q]\n"
		   "concurrency = 8\nread_count = 8\ntimeout = 8m\n");
	assert_int_equal(conf_read_env(c, env, &errs), -1);
	assert_string_equal(
		errs.data,
		"REDISQ_SUPERVISOR_LOG_KEEP: [supervisor] log_keep = x: not a number; write one "
		"such "
		"as 4\n"
		"REDISQ_QUEUE_MAX_ATTEMPTS: [queue] max_attempts = 0: out of range; write 1 to "
		"100000\n");
	assert_int_equal(conf_queue(c, "q")->timeout, 300000);
	assert_int_equal(conf_supervisor(c)->workers, 3);
	assert_string_equal(conf_redis(c)->password, "a ; b");
	assert_int_equal(conf_queue(c, "q")->read_count, 6);
	assert_int_equal(conf_queue(c, "q")->concurrency, 4);
	assert_string_equal(conf_redis(c)->url, "redis://mine");
	assert_string_equal(conf_supervisor(c)->name, "redisq");
	assert_string_equal(conf_where(c, CONF_QUEUE, "q", "timeout"), "REDISQ_QUEUE_TIMEOUT");
	assert_int_equal(conf_add_queue(c, "late", NULL), 0);
	assert_int_equal(conf_queue(c, "late")->timeout, 300000);
	w = conf_warnings(c);
	assert_string_equal(w[0], "QUEUE_REDIS_CONCURRENCY: [queue] concurrency = lots: not a "
				  "positive number; using 4, in place of 8 (f:6)");
	assert_string_equal(w[1], "REDISQ_QUEUE_TIMEUOT: unknown variable; did you mean "
				  "REDISQ_QUEUE_TIMEOUT?");
	assert_null(w[2]);
	buf_release(&errs);
	conf_free(c);
}

static void test_assignments(void **state)
{
	static const struct {
		const char *text, *want; /* "" = fine */
	} cases[] = {
		{"redis.url=redis://h", ""},
		{"redis.password=a=b.c", ""},
		{"queue.lease=9s", ""},
		{"queue a.b.lease=8s", ""},
		{"queue  a.b.lease=7s", ""},
		{"supervisor.workers=max", ""},
		{"queue.lease=", "-s queue.lease: [queue] lease = : not a duration"},
		{"queue b.lease=8s", "-s queue b.lease: no queue \"b\""},
		{"queue.laese=8s",
		 "-s queue.laese: [queue] laese: unknown key; did you mean lease?"},
		{"redis.password=SECRET\n",
		 "-s redis.password: [redis] password: has a line break"},
		{"password=SECRET", "-s password: not SECTION.KEY=VALUE"},
		{"redis.password", "-s redis.password: not SECTION.KEY=VALUE"},
		{".x=SECRET", "not SECTION.KEY=VALUE"},
		{"redis.=SECRET", "not SECTION.KEY=VALUE"},
		{"web.x=SECRET", "not SECTION.KEY=VALUE"},
		{"", "-s: not SECTION.KEY=VALUE"},
		/* Forms in which the value stands where the name should. */
		{"redis://:SECRET@host", "-s: not SECTION.KEY=VALUE"},
		{"redis://:SECRET@host.example?db=1", "-s: not SECTION.KEY=VALUE"},
		{"redis.url:redis://:SECRET@host", "-s redis.url: not SECTION.KEY=VALUE"},
		{"user:SECRET@host", "-s user: not SECTION.KEY=VALUE"},
		{"redis.password SECRET", "-s redis.password: not SECTION.KEY=VALUE"},
		{"redis.password SECRET=",
		 "-s redis.password: [redis] password...: unknown key; did you mean password?"},
		{"redis.pass/SECRET=x", "-s redis.pass: [redis] pass...: unknown key"},
		{"queue a.b.x:SECRET=x", "-s queue a.b.x: [queue a.b] x...: unknown key"},
	};
	struct conf *c = conf_new();

	(void)state;
	read_ok(c, "[queue a.b]\n[queue c]\n");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf errs = BUF_INIT;
		int rc = conf_read_assignment(c, cases[i].text, &errs);

		assert_int_equal(rc, cases[i].want[0] ? -1 : 0);
		if (!strstr(errs.data, cases[i].want))
			fail_msg("%s: says \"%s\"", cases[i].text, errs.data);
		assert_null(strstr(errs.data, "SECRET"));
		buf_release(&errs);
	}
	assert_string_equal(conf_redis(c)->password, "a=b.c");
	assert_int_equal(conf_queue(c, "a.b")->lease, 7000);
	assert_int_equal(conf_queue(c, "c")->lease, 9000);
	conf_free(c);
}

/* Through a memfd whose offset is elsewhere, and stays there. */
static void test_snapshot_fd(void **state)
{
	struct conf *c = conf_new(), *back = conf_new();
	struct buf text = BUF_INIT, again = BUF_INIT, errs = BUF_INIT;
	int fd = memfd_create("t_conf_read", MFD_CLOEXEC);

	(void)state;
	read_ok(c, "[queue q]\nhandler = exec true\nenv = A=' '\n");
	conf_write_snapshot(c, &text);
	assert_int_equal(write(fd, text.data, text.len), text.len);
	assert_int_equal(lseek(fd, 5, SEEK_SET), 5);
	assert_int_equal(conf_read_snapshot(back, fd, &errs), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 5);
	conf_write_snapshot(back, &again);
	assert_string_equal(again.data, text.data);
	close(fd);
	assert_int_equal(conf_read_snapshot(back, fd, &errs), -1);
	assert_non_null(strstr(errs.data, "Bad file descriptor"));
	buf_release(&text);
	buf_release(&again);
	buf_release(&errs);
	conf_free(c);
	conf_free(back);
}

static void test_handler_env(void **state)
{
	static char path[] = "PATH=/bin", url[] = "REDIS_URL=redis://:SECRET@h",
		    ours[] = "REDISQ_REDIS_PASSWORD=SECRET", alias[] = "QUEUE_REDIS_CONCURRENCY=4",
		    near[] = "REDIS_URLS=kept", b[] = "B=base", odd[] = "no-equals-sign";
	char *base[] = {path, url, ours, alias, near, b, odd, NULL};
	char file[] = "/tmp/t_conf_env.XXXXXX";
	int fd = mkstemp(file);
	static const char content[] =
		"# comment\n\nB=file\nC=file\nexport D=\"two words\"\r\n  E='x'\n"
		"F=a#b ;c\nG=";
	static const char *const want[] = {"PATH=/bin",
					   "REDIS_URLS=kept",
					   "B=ini",
					   "no-equals-sign",
					   "C=file",
					   "D=two words",
					   "E=x",
					   "F=a#b ;c",
					   "G=",
					   "H=",
					   "PYTHONUNBUFFERED=1"};
	struct conf *c = conf_new();
	struct strv env;
	struct err e = {0};
	char *text = xasprintf("[queue q]\nenv = B=ini H=\nenv_file = %s\n", file);

	(void)state;
	assert_int_equal(write(fd, content, sizeof(content) - 1), sizeof(content) - 1);
	read_ok(c, text);
	if (conf_handler_env(conf_queue(c, "q"), base, &env, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(env.n, ARRAY_LEN(want));
	for (size_t i = 0; i < env.n; i++)
		assert_string_equal(env.v[i], want[i]);
	strv_release(&env);
	assert_int_equal(pwrite(fd, "junk line\n", 10, 0), 10);
	assert_int_equal(conf_handler_env(conf_queue(c, "q"), base, &env, &e), -1);
	assert_non_null(strstr(e.text, ":1: not NAME=VALUE"));
	assert_int_equal(env.n, 0);
	close(fd);
	unlink(file);
	assert_int_equal(conf_handler_env(conf_queue(c, "q"), base, &env, &e), -1);
	assert_non_null(strstr(e.text, "No such file"));
	free(text);
	conf_free(c);
}

static void test_python_stays(void **state)
{
	static char mine[] = "PYTHONUNBUFFERED=0";
	char *base[] = {mine, NULL};
	struct conf *c = conf_new();
	struct strv env;

	(void)state;
	read_ok(c, "[queue q]\n");
	assert_int_equal(conf_handler_env(conf_queue(c, "q"), base, &env, NULL), 0);
	assert_int_equal(env.n, 1);
	assert_string_equal(env.v[0], "PYTHONUNBUFFERED=0");
	strv_release(&env);
	conf_free(c);
}

/* -t: what the configuration names must be there. */
static void test_machine(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"handler = exec sh -c 'exit 0'", ""},
		{"handler = exec /bin/sh", ""},
		{"handler = exec no-such-program-here",
		 "f:2: [queue q] handler: no-such-program-here "
		 "is not on PATH"},
		{"handler = exec /no/such", "f:2: [queue q] handler: /no/such: No such file"},
		{"handler = exec /etc/passwd", "/etc/passwd is not executable; chmod +x it"},
		{"handler = exec /etc", "/etc is not a file"},
		{"handler = exec ./sh\ncwd = /bin", ""},
		{"handler = exec ./sh\ncwd = /etc", "/etc/./sh: No such file"},
		{"handler = exec sh\nenv = PATH=/no/such", "is not on PATH (/no/such)"},
		{"handler = exec sh\ncwd = /no/such", "f:3: [queue q] cwd: /no/such: No such file"},
		{"handler = exec sh\ncwd = /etc/passwd", "is not a directory"},
		{"handler = exec sh\nenv_file = /no/such",
		 "f:3: [queue q] env_file: env_file /no/such"},
		{"handler = exec sh\n[redis]\npassword_file = /no/such", "password_file /no/such"},
		{"handler = exec sh\n[redis]\nurl = rediss://h", ""},
		{"handler = exec sh\n[redis]\nurl = rediss://h\ntls_ca_file = /no/such",
		 "f:5: [redis] tls_ca_file: /no/such: No such file or directory; "},
		{"handler = exec sh\n[redis]\nurl = rediss://h\ntls_ca_file = /etc",
		 "f:5: [redis] tls_ca_file: /etc is not a file; "},
		{"handler = exec sh\n[redis]\nurl = rediss://h\ntls_ca_dir = /etc/passwd",
		 "f:5: [redis] tls_ca_dir: /etc/passwd is not a directory; "},
		{"handler = exec sh\n[redis]\nurl = rediss://h\ntls_cert_file = /etc/passwd\n"
		 "tls_key_file = /etc/passwd",
		 "f:6: [redis] tls_key_file: /etc/passwd: there is no \"PRIVATE KEY-----\" in "
		 "it; "},
		{"handler = exec sh\n[redis]\nurl = redis://h\ntls_ca_file = /no/such", ""},
		{"handler = exec sh\n[supervisor]\nuser = no-such-user-here",
		 "f:4: [supervisor] user = no-such-user-here: no such user"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *c = conf_new();
		struct buf errs = BUF_INIT;
		char *text = xasprintf("[queue q]\n%s\n", cases[i].text);

		read_ok(c, text);
		assert_int_equal(conf_check_machine(c, &errs), cases[i].says[0] ? -1 : 0);
		if (!strstr(errs.data, cases[i].says))
			fail_msg("%s: says \"%s\"", cases[i].text, errs.data);
		free(text);
		buf_release(&errs);
		conf_free(c);
	}
}

/* What is only doubtful is a warning: interpreters exit 1 or 2 without their script. */
static void test_machine_warns(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"handler = exec sh /no/such/x.sh",
		 "f:2: [queue q] handler: /no/such/x.sh is not "
		 "there; if it is a script, every task will fail"},
		{"handler = exec sh x.sh\ncwd = /etc", "/etc/x.sh is not there"},
		{"handler = exec sh -c 'exec /no/such'", NULL},
		{"handler = exec /bin/sh /etc/passwd", NULL},
		{"handler = exec sh\nworkers = 0", "f:3: [queue q] 0 workers: nothing will run"},
		{"handler = exec sh\n[redis]\nurl = rediss://h\ntls_verify = no",
		 "f:5: [redis] tls_verify = no: nothing proves"},
		{"handler = exec sh\n[redis]\nurl = rediss://h\ntls_verify = yes", NULL},
		{"handler = exec sh\n[redis]\nurl = redis://h\ntls_ca_dir = /etc",
		 "f:5: [redis] tls_ca_dir has no effect: the url is not rediss://"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *c = conf_new();
		struct buf errs = BUF_INIT;
		char *text = xasprintf("[queue q]\n%s\n", cases[i].text);

		read_ok(c, text);
		assert_int_equal(conf_check_machine(c, &errs), 0);
		if (!cases[i].says)
			assert_null(conf_warnings(c) ? conf_warnings(c)[0] : NULL);
		else if (!conf_warnings(c)[0] || !strstr(conf_warnings(c)[0], cases[i].says))
			fail_msg("%s: says \"%s\"", cases[i].text, conf_warnings(c)[0]);
		free(text);
		buf_release(&errs);
		conf_free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_values_survive),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_finish_says_where),
		cmocka_unit_test(test_env),
		cmocka_unit_test(test_assignments),
		cmocka_unit_test(test_snapshot_fd),
		cmocka_unit_test(test_handler_env),
		cmocka_unit_test(test_python_stays),
		cmocka_unit_test(test_machine),
		cmocka_unit_test(test_machine_warns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
