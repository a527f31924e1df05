/* t_redis_url.c - urls of Redis taken apart; no message shows a password. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "redis_url.h"

static void test_right(void **state)
{
	static const struct {
		const char *url;
		enum redis_transport transport;
		const char *host;
		int port, db;
		const char *username, *password, *text;
	} cases[] = {
		{"redis://127.0.0.1:6379/0", REDIS_TCP, "127.0.0.1", 6379, 0, NULL, NULL,
		 "redis://127.0.0.1:6379/0"},
		{"redis://h", REDIS_TCP, "h", 6379, 0, NULL, NULL, "redis://h:6379/0"},
		{"redis://h/", REDIS_TCP, "h", 6379, 0, NULL, NULL, "redis://h:6379/0"},
		{"redis://", REDIS_TCP, "127.0.0.1", 6379, 0, NULL, NULL,
		 "redis://127.0.0.1:6379/0"},
		{"redis://:7000/12", REDIS_TCP, "127.0.0.1", 7000, 12, NULL, NULL,
		 "redis://127.0.0.1:7000/12"},
		{"REDIS://h:1/3", REDIS_TCP, "h", 1, 3, NULL, NULL, "redis://h:1/3"},
		{"redis://h?db=4", REDIS_TCP, "h", 6379, 4, NULL, NULL, "redis://h:6379/4"},
		{"redis://h/?db=4", REDIS_TCP, "h", 6379, 4, NULL, NULL, "redis://h:6379/4"},
		{"redis://:pw@h", REDIS_TCP, "h", 6379, 0, NULL, "pw", "redis://h:6379/0"},
		{"redis://me:pw@h:1", REDIS_TCP, "h", 1, 0, "me", "pw", "redis://h:1/0"},
		{"redis://me:@h", REDIS_TCP, "h", 6379, 0, "me", "", "redis://h:6379/0"},
		{"redis://:@h", REDIS_TCP, "h", 6379, 0, NULL, NULL, "redis://h:6379/0"},
		{"redis://m%40e:p%2Fw%25%3a@h", REDIS_TCP, "h", 6379, 0, "m@e",
		 "p/w%:", "redis://h:6379/0"},
		{"redis://:a@b:c#;d@h", REDIS_TCP, "h", 6379, 0, NULL, "a@b:c#;d",
		 "redis://h:6379/0"},
		{"redis://[::1]", REDIS_TCP, "::1", 6379, 0, NULL, NULL, "redis://[::1]:6379/0"},
		{"redis://[::1]:7/2", REDIS_TCP, "::1", 7, 2, NULL, NULL, "redis://[::1]:7/2"},
		{"redis://:x@[fe80::1]:65535/2", REDIS_TCP, "fe80::1", 65535, 2, NULL, "x",
		 "redis://[fe80::1]:65535/2"},
		{"rediss://h", REDIS_TCP, "h", 6379, 0, NULL, NULL, "rediss://h:6379/0"},
		{"RedisS://me:pw@h:7/2", REDIS_TCP, "h", 7, 2, "me", "pw", "rediss://h:7/2"},
		{"rediss://[::1]", REDIS_TCP, "::1", 6379, 0, NULL, NULL, "rediss://[::1]:6379/0"},
		{"unix:///run/redis.sock", REDIS_UNIX, "/run/redis.sock", 0, 0, NULL, NULL,
		 "unix:///run/redis.sock?db=0"},
		{"unix:///a%20b/r?db=9", REDIS_UNIX, "/a b/r", 0, 9, NULL, NULL,
		 "unix:///a b/r?db=9"},
		{"unix://me:pw@/r@x", REDIS_UNIX, "/r@x", 0, 0, "me", "pw", "unix:///r@x?db=0"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct redis_addr a;
		struct err e = {0};
		struct buf text = BUF_INIT;

		if (redis_url_parse(cases[i].url, &a, &e) < 0)
			fail_msg("%s: %s", cases[i].url, e.text);
		assert_int_equal(a.transport, cases[i].transport);
		assert_int_equal(a.tls, strncasecmp(cases[i].url, "rediss", 6) == 0);
		assert_int_equal(redis_url_is_tls(cases[i].url), a.tls);
		assert_string_equal(a.host, cases[i].host);
		assert_int_equal(a.port, cases[i].port);
		assert_int_equal(a.db, cases[i].db);
		assert_string_equal(a.username ? a.username : "-",
				    cases[i].username ? cases[i].username : "-");
		assert_string_equal(a.password ? a.password : "-",
				    cases[i].password ? cases[i].password : "-");
		redis_addr_text(&a, &text);
		assert_string_equal(text.data, cases[i].text);
		buf_release(&text);
		redis_addr_release(&a);
		redis_addr_release(&a);
	}
}

#define LONG_PATH \
	"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
	"aaaaaaaaaaaaaaaaaaaaaaa"

static void test_wrong(void **state)
{
	static const struct {
		const char *url, *says;
	} cases[] = {
		{"", "none of redis://"},
		{"h:6379", "none of redis://"},
		{"http://h", "none of redis://"},
		{"rediss+unix:///x",
		 "none of redis://, rediss:// (TLS), unix://, sentinel:// and cluster://"},
		{"rediss://SECRET@h", "write rediss://:PASSWORD@host"},
		{"redis+sentinel://h", "sentinel://[user:password@]host:26379,host:26379/mymaster"},
		{"sentinel://", "no Sentinel in the url"},
		{"sentinel:///mymaster", "no Sentinel in the url"},
		{"sentinel://a,/mymaster", "beside a comma"},
		{"sentinel://,a/mymaster", "no Sentinel in"},
		{"sentinel://a,,b/mymaster", "beside a comma"},
		{"sentinel://a", "does not name the master"},
		{"sentinel://a/", "does not name the master"},
		{"sentinel://a?db=1", "does not name the master"},
		{"sentinel://a//1", "does not name the master"},
		{"sentinel://a:0/m", "1 to 65535"},
		{"sentinel://a,b:x/m", "1 to 65535"},
		{"sentinel://a,::1/m", "several colons"},
		{"sentinel://a,[::1/m", "has no ]"},
		{"sentinel://a/m%zz", "%25"},
		{"sentinel://a/m%0a", "control character"},
		{"sentinel://a/m/x", "not a number; write sentinel://"},
		{"sentinels://a/m/x", "not a number; write sentinels://"},
		{"sentinels://a", "write sentinels://"},
		{"sentinel://a/m/1/2", "not a number"},
		{"sentinel://SECRET@a/m", ":PASSWORD@host"},
		{"sentinel://:SECRET/SECRET@a/m", "%2F"},
		{"sentinel://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q/m", "more than 16"},
		{"redis-cluster://h", "cluster://[user:password@]host:6379,host:6379"},
		{"redis://a:1,b:2/0", "for Sentinel write sentinel://"},
		{"redis://a:1,b:2/0", "for Cluster cluster://"},
		{"cluster://", "no node in the url"},
		{"cluster:///0", "no node in the url"},
		{"cluster://a,", "beside a comma"},
		{"cluster://a/1", "has no database 1, only 0"},
		{"cluster://a?db=3", "has no database 3"},
		{"clusters://a,b/2", "has no database 2"},
		/* What to write is of the same kind: it was redis:// for all. */
		{"cluster://a:1/mymaster",
		 "not a number; write cluster://[user:password@]host:6379,"},
		{"clusters://a/m", "not a number; write clusters://"},
		{"cluster://a,b:x", "1 to 65535; write cluster://[user:password@]host:6379,"},
		{"cluster://a,::1",
		 "several colons; write an IPv6 address as cluster://[::1]:6379"},
		{"cluster://a,[::1", "write cluster://[::1]:6379"},
		{"cluster://SECRET@a,b",
		 "cluster://:PASSWORD@host or cluster://USER:PASSWORD@host"},
		{"clusters://a/2", "only 0; write clusters://"},
		{"unix:///s?db=x", "not a number; write unix:///path?db=0"},
		{"rediss://h:0", "write rediss://[user:password@]host[:port][/db]"},
		{"cluster://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "more than 16 nodes"},
		{"redis://SECRET@h", "redis://:PASSWORD@host or redis://USER:PASSWORD@host"},
		{"redis://:SECRET/SECRET@h", "%2F"},
		{"redis://:SECRET?SECRET@h", "%2F"},
		{"redis://u:SEC%RET@h", "%25"},
		{"redis://u:SECRET%00@h", "%25"},
		{"redis://u%zz:SECRET@h", "%25"},
		{"redis://u:SEC RET@h", "%20"},
		{"redis://u:SECRET\n@h", "%0A"},
		{"redis://h:0", "1 to 65535"},
		{"redis://h:65536", "1 to 65535"},
		{"redis://h:99999999999999999999", "1 to 65535"},
		{"redis://h:", "1 to 65535"},
		{"redis://h:6379x", "1 to 65535"},
		{"redis://:SECRET", "1 to 65535"}, /* a password without its host */
		{"redis://::1", "redis://[::1]:6379"},
		{"redis://[::1", "redis://[::1]:6379"},
		{"redis://[::1]x", "redis://[::1]:6379"},
		{"redis://h/x", "not a number"},
		{"redis://h/-1", "not a number"},
		{"redis://h/1/2", "not a number"},
		{"redis://h/99999999999", "not a number"},
		{"redis://h?db=x", "not a number"},
		{"redis://h/1?db=2", "parameters"},
		{"redis://h?timeout=3", "parameters"},
		{"redis://h?db=1&x=2", "parameters"},
		{"unix://run/redis.sock", "unix:///run/redis.sock"},
		{"unix://", "unix:///run/redis.sock"},
		{"unix:///", "unix:///run/redis.sock"},
		{"unix://" LONG_PATH, "unix sockets allow 107"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct redis_addr a;
		struct err e = {0};

		if (redis_url_parse(cases[i].url, &a, &e) == 0)
			fail_msg("%s was taken", cases[i].url);
		if (!strstr(e.text, cases[i].says))
			fail_msg("%s: says \"%s\", not \"%s\"", cases[i].url, e.text,
				 cases[i].says);
		assert_null(strstr(e.text, "SEC"));
		assert_int_equal(e.code, EXIT_CONFIG);
		assert_null(a.host);
		assert_null(a.sentinels);
		assert_null(a.cluster);
	}
}

/* What a url says that names several servers; "-" = nothing. */
struct several {
	const char *places;
	int db;
	const char *username, *password, *text;
};

static void parse_several(const char *url, const char *scheme, struct redis_addr *a)
{
	struct err e = {0};

	if (redis_url_parse(url, a, &e) < 0)
		fail_msg("%s: %s", url, e.text);
	assert_int_equal(a->transport, REDIS_TCP);
	assert_int_equal(a->tls, strncmp(url, scheme, strlen(scheme)) == 0);
	assert_null(a->host);
}

static void expect_several(const struct redis_addr *a, const struct redis_place *v, size_t n,
			   const struct several *want)
{
	struct buf text = BUF_INIT;

	assert_int_equal(a->db, want->db);
	assert_string_equal(a->username ? a->username : "-", want->username);
	assert_string_equal(a->password ? a->password : "-", want->password);
	for (size_t k = 0; k < n; k++) {
		buf_adds(&text, k ? " " : "");
		redis_place_text(&v[k], &text);
	}
	assert_string_equal(text.data, want->places);
	buf_clear(&text);
	redis_addr_text(a, &text);
	if (want->text)
		assert_string_equal(text.data, want->text);
	buf_release(&text);
}

static void test_sentinels(void **state)
{
	static const struct {
		const char *url, *master;
		struct several want;
	} cases[] = {
		{"sentinel://a/m", "m", {"a:26379", 0, "-", "-", "sentinel://a:26379/m/0"}},
		{"sentinel://a:1,b,[::1]:3/m/2",
		 "m",
		 {"a:1 b:26379 [::1]:3", 2, "-", "-", "sentinel://a:1,b:26379,[::1]:3/m/2"}},
		{"Sentinel://me:p,w@a/m?db=3",
		 "m",
		 {"a:26379", 3, "me", "p,w", "sentinel://a:26379/m/3"}},
		{"sentinel://:p%40@10.0.0.9:5/my%20m%2f/",
		 "my m/",
		 {"10.0.0.9:5", 0, "-", "p@", "sentinel://10.0.0.9:5/my m//0"}},
		{"sentinels://a/m", "m", {"a:26379", 0, "-", "-", "sentinels://a:26379/m/0"}},
		{"sentinel://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,:7/m",
		 "m",
		 {"a:26379 b:26379 c:26379 d:26379 e:26379 f:26379 g:26379 h:26379 i:26379 "
		  "j:26379 k:26379 l:26379 m:26379 n:26379 o:26379 127.0.0.1:7",
		  0, "-", "-", NULL}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct redis_addr a;

		parse_several(cases[i].url, "sentinels", &a);
		assert_string_equal(a.sentinels->master, cases[i].master);
		expect_several(&a, a.sentinels->v, a.sentinels->n, &cases[i].want);
		redis_addr_release(&a);
	}
}

static void test_cluster(void **state)
{
	static const struct {
		const char *url;
		struct several want;
	} cases[] = {
		{"cluster://a", {"a:6379", 0, "-", "-", "cluster://a:6379/0"}},
		{"cluster://a:1,b,[::1]:3/",
		 {"a:1 b:6379 [::1]:3", 0, "-", "-", "cluster://a:1,b:6379,[::1]:3/0"}},
		{"Cluster://me:p,w@a,:7/0",
		 {"a:6379 127.0.0.1:7", 0, "me", "p,w", "cluster://a:6379,127.0.0.1:7/0"}},
		{"clusters://:p%40@a?db=0", {"a:6379", 0, "-", "p@", "clusters://a:6379/0"}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf text = BUF_INIT;
		struct redis_addr a;

		parse_several(cases[i].url, "clusters", &a);
		assert_null(a.sentinels);
		expect_several(&a, a.cluster->v, a.cluster->n, &cases[i].want);
		redis_addr_set_place(&a, &(struct redis_place){(char[]){"10.0.0.5"}, 7});
		redis_addr_text(&a, &text);
		assert_string_equal(text.data,
				    a.tls ? "rediss://10.0.0.5:7/0" : "redis://10.0.0.5:7/0");
		buf_release(&text);
		redis_addr_release(&a);
	}
}

/* What was told last is what is shown and connected to. */
static void test_master(void **state)
{
	char v4[] = "10.0.0.5", v6[] = "::1";
	struct redis_addr a;
	struct buf text = BUF_INIT;

	(void)state;
	assert_int_equal(redis_url_parse("sentinels://a/m/3", &a, NULL), 0);
	redis_addr_set_place(&a, &(struct redis_place){v4, 6379});
	redis_addr_text(&a, &text);
	assert_string_equal(text.data, "rediss://10.0.0.5:6379/3");
	redis_addr_set_place(&a, &(struct redis_place){v6, 7});
	buf_clear(&text);
	redis_addr_text(&a, &text);
	assert_string_equal(text.data, "rediss://[::1]:7/3");
	buf_release(&text);
	redis_addr_release(&a);
}

/* The url's user and the keys username and password are for Redis; Sentinel has its own, or none.
 */
static void test_whose_password(void **state)
{
	static char url[] = "sentinel://ann:sesame@a/m", bob[] = "bob", s1[] = "s1", x[] = "x";
	struct conf_redis r = {.url = url};
	struct redis_addr a;
	struct err e = {0};

	(void)state;
	assert_int_equal(redis_addr_resolve(&r, &a, &e), 0);
	assert_string_equal(a.password, "sesame");
	assert_null(a.sentinels->username);
	assert_null(a.sentinels->password);
	redis_addr_release(&a);
	r.sentinel_username = bob;
	r.sentinel_password = s1;
	r.password = x;
	assert_int_equal(redis_addr_resolve(&r, &a, &e), 0);
	assert_string_equal(a.username, "ann");
	assert_string_equal(a.password, "x");
	assert_string_equal(a.sentinels->username, "bob");
	assert_string_equal(a.sentinels->password, "s1");
	redis_addr_release(&a);
}

/* A file in a directory of its own with this content; owned path. */
static char *file_with(const char *content, size_t len)
{
	char *path = xstrdup("/tmp/t_redis_url.XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, len), len);
	close(fd);
	return path;
}

static void test_resolve(void **state)
{
	static char url[] = "redis://u:p@h", plain[] = "redis://h", me[] = "me", pw[] = "sesame";
	static const struct {
		char *url, *username, *password;
		const char *file, *want_user, *want_password; /* want_password NULL: an error */
	} cases[] = {
		{url, NULL, NULL, NULL, "u", "p"},
		{url, me, NULL, NULL, "me", "p"},
		{url, NULL, pw, NULL, "u", "sesame"},
		{plain, NULL, pw, NULL, "-", "sesame"},
		{plain, me, NULL, NULL, NULL, NULL},
		{plain, NULL, NULL, "from file\r\nsecond\n", "-", "from file"},
		{plain, me, NULL, "x", "me", "x"},
		{url, NULL, NULL, " ; # \n", "u", " ; # "},
		{plain, NULL, NULL, "", NULL, NULL},
		{plain, NULL, NULL, "\nlate", NULL, NULL},
		{NULL, NULL, NULL, NULL, NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf_redis r = {.url = cases[i].url,
				       .username = cases[i].username,
				       .password = cases[i].password};
		struct redis_addr a = {0};
		struct err e = {0};
		int rc;

		if (cases[i].file)
			r.password_file = file_with(cases[i].file, strlen(cases[i].file));
		rc = redis_addr_resolve(&r, &a, &e);
		if (!cases[i].want_password) {
			assert_int_equal(rc, -1);
			assert_non_null(strchr(e.text, ';'));
		} else {
			if (rc < 0)
				fail_msg("%zu: %s", i, e.text);
			assert_string_equal(a.username ? a.username : "-", cases[i].want_user);
			assert_string_equal(a.password, cases[i].want_password);
			redis_addr_release(&a);
		}
		if (r.password_file)
			unlink(r.password_file);
		free(r.password_file);
	}
}

static void test_password_file_bounds(void **state)
{
	static char plain[] = "redis://h", missing[] = "/nonexistent/pw";
	struct conf_redis r = {.url = plain, .password_file = missing};
	struct redis_addr a;
	struct err e = {0};
	char big[6000];

	(void)state;
	assert_int_equal(redis_addr_resolve(&r, &a, &e), -1);
	assert_non_null(strstr(e.text, "/nonexistent/pw: No such file"));
	memset(big, 'x', sizeof(big));
	r.password_file = file_with(big, sizeof(big)); /* no end in sight */
	assert_int_equal(redis_addr_resolve(&r, &a, &e), -1);
	assert_null(strstr(e.text, "xxx"));
	unlink(r.password_file);
	free(r.password_file);
	r.password_file = file_with("a\0b\n", 4);
	assert_int_equal(redis_addr_resolve(&r, &a, &e), -1);
	unlink(r.password_file);
	free(r.password_file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_right),     cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_sentinels), cmocka_unit_test(test_cluster),
		cmocka_unit_test(test_master),    cmocka_unit_test(test_whose_password),
		cmocka_unit_test(test_resolve),   cmocka_unit_test(test_password_file_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
