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
		{"rediss+unix:///x", "none of redis://, rediss:// (TLS) and unix://"},
		{"rediss://SECRET@h", "redis://:PASSWORD@host"},
		{"redis+sentinel://h", "Sentinel is not supported"},
		{"redis-cluster://h", "Redis Cluster is not supported"},
		{"redis://a:1,b:2/0", "Sentinel and Cluster are not supported"},
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
		{"redis://::1", "redis://[::1]:6379/0"},
		{"redis://[::1", "redis://[::1]:6379/0"},
		{"redis://[::1]x", "redis://[::1]:6379/0"},
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
	}
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
		cmocka_unit_test(test_right),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_password_file_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
