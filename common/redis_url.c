/*
 * redis_url.c - see redis_url.h. No message here repeats what stands before the '@', nor anything
 * that may turn out to be a piece of a password.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "percent.h"
#include "redis_url.h"

#define UNIX_PATH_MAX 107
#define DEFAULT_PORT 6379
#define SENTINEL_PORT 26379
#define PASSWORD_FILE_MAX 4096

#define REST "[user:password@]host[:port][/db]"
#define SENTINEL_REST "[user:password@]host:26379,host:26379/mymaster[/db]"
#define CLUSTER_REST "[user:password@]host:6379,host:6379"
#define EXAMPLE "redis://" REST
#define SENTINEL_EXAMPLE "sentinel://" SENTINEL_REST
#define CLUSTER_EXAMPLE "cluster://" CLUSTER_REST

/* What a right one of this kind begins with, and goes on with. */
static const char *scheme_of(const struct redis_addr *a)
{
	if (a->transport == REDIS_UNIX)
		return "unix://";
	if (a->sentinels)
		return a->tls ? "sentinels://" : "sentinel://";
	if (a->cluster)
		return a->tls ? "clusters://" : "cluster://";
	return a->tls ? "rediss://" : "redis://";
}

static const char *rest_of(const struct redis_addr *a)
{
	if (a->transport == REDIS_UNIX)
		return "/path?db=0";
	return a->sentinels ? SENTINEL_REST : a->cluster ? CLUSTER_REST : REST;
}

/* Percent-decodes; NULL: a bad or NUL escape. Owned. */
static char *decode(const char *text, size_t len)
{
	struct buf out = BUF_INIT;

	if (percent_decode(slice_of(text, len), &out))
		return buf_detach(&out);
	buf_release(&out);
	return NULL;
}

static int say_escape(struct err *e)
{
	return err_set(e, EXIT_CONFIG,
		       "a %% that begins no %%XX escape in the url; write a plain %% as %%25");
}

/* A decimal number that is the whole of the text; -1 if not, or above `max`. */
static int number(const char *text, size_t len, int max)
{
	int n = 0;

	if (len == 0)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		n = n * 10 + (text[i] - '0');
		if (n > max)
			return -1;
	}
	return n;
}

static int parse_db(const char *text, size_t len, struct redis_addr *out, struct err *e)
{
	out->db = number(text, len, INT_MAX / 10 - 1);
	if (out->db < 0)
		return err_set(e, EXIT_CONFIG, "the url's database is not a number; write %s%s",
			       scheme_of(out), rest_of(out));
	return 0;
}

/* "user:password" or ":password"; one word alone could be either. */
static int parse_user(const char *text, size_t len, struct redis_addr *out, struct err *e)
{
	const char *colon = memchr(text, ':', len);
	size_t n;

	if (!colon) {
		if (len == 0)
			return 0;
		return err_set(e, EXIT_CONFIG,
			       "the one word before the @ could be a user or a password; write "
			       "%s:PASSWORD@host or %sUSER:PASSWORD@host",
			       scheme_of(out), scheme_of(out));
	}
	n = (size_t)(colon - text);
	if (n > 0) {
		out->username = decode(text, n);
		if (!out->username)
			return say_escape(e);
	}
	if (n > 0 || len > 1) {
		out->password = decode(colon + 1, len - n - 1);
		if (!out->password)
			return say_escape(e);
	}
	return 0;
}

/* host, host:port, [v6], [v6]:port; nothing = this machine. out->port is the default until then.
 * `a`: what kind of url it is. */
static int parse_place(const char *text, size_t len, const struct redis_addr *a,
		       struct redis_place *out, struct err *e)
{
	const char *port = NULL;
	size_t host_len = len;

	if (len > 0 && text[0] == '[') {
		const char *close = memchr(text, ']', len);
		size_t used = close ? (size_t)(close - text) + 1 : 0;

		if (!close || (used < len && text[used] != ':'))
			return err_set(e, EXIT_CONFIG,
				       "the url's [ has no ] or text after it; write %s[::1]:%d",
				       scheme_of(a), out->port);
		if (used < len)
			port = text + used + 1;
		text++;
		host_len = used - 2;
		len -= 1; /* of what `port` is measured against */
	} else {
		const char *colon = memchr(text, ':', len);

		if (colon && memchr(colon + 1, ':', len - (size_t)(colon - text) - 1))
			return err_set(e, EXIT_CONFIG,
				       "the url's host has several colons; write an IPv6 address "
				       "as %s[::1]:%d",
				       scheme_of(a), out->port);
		if (colon) {
			port = colon + 1;
			host_len = (size_t)(colon - text);
		}
	}
	out->host = host_len ? decode(text, host_len) : xstrdup("127.0.0.1");
	if (!out->host)
		return say_escape(e);
	if (port) {
		out->port = number(port, len - (size_t)(port - text), 65535);
		if (out->port < 1)
			return err_set(e, EXIT_CONFIG,
				       "the url's port is not 1 to 65535; write %s%s (a / ? or @ "
				       "in a password is written %%2F %%3F %%40)",
				       scheme_of(a), rest_of(a));
	}
	return 0;
}

static int parse_host(const char *text, size_t len, struct redis_addr *out, struct err *e)
{
	struct redis_place place = {.port = out->port};
	int rc;

	if (memchr(text, ',', len))
		return err_set(e, EXIT_CONFIG,
			       "several hosts in the url; for Sentinel write %s, for Cluster %s",
			       SENTINEL_EXAMPLE, CLUSTER_EXAMPLE);
	rc = parse_place(text, len, out, &place, e);
	out->host = place.host;
	out->port = place.port;
	return rc;
}

/* Several of them, and what they are called. */
struct list_of {
	const char *what;
	int port;
};

/* host[:port],host[:port] */
static int parse_places(const char *text, size_t len, const struct list_of *of,
			const struct redis_addr *a, struct redis_place v[REDIS_PLACES_MAX],
			size_t *n_places, struct err *e)
{
	const char *end = text + len;

	for (;;) {
		const char *comma = memchr(text, ',', (size_t)(end - text));
		size_t n = (size_t)((comma ? comma : end) - text);

		if (n == 0)
			return err_set(e, EXIT_CONFIG, "no %s %s the url; write %s%s", of->what,
				       *n_places ? "beside a comma in" : "in", scheme_of(a),
				       rest_of(a));
		if (*n_places == REDIS_PLACES_MAX)
			return err_set(e, EXIT_CONFIG,
				       "more than %d %ss in the url; some of them are enough",
				       REDIS_PLACES_MAX, of->what);
		v[*n_places].port = of->port;
		if (parse_place(text, n, a, &v[(*n_places)++], e) < 0)
			return -1;
		if (!comma)
			return 0;
		text = comma + 1;
	}
}

/* The master's name, and what is left of the text. */
static int parse_master(const char **tail, const struct redis_addr *a, struct redis_sentinels *out,
			struct err *e)
{
	const char *name = *tail + (**tail == '/');
	size_t n = strcspn(name, "/?");

	if (n == 0)
		return err_set(e, EXIT_CONFIG,
			       "the url does not name the master that Sentinel watches; write %s%s",
			       scheme_of(a), rest_of(a));
	out->master = decode(name, n);
	*tail = name + n;
	if (!out->master)
		return say_escape(e);
	for (const unsigned char *p = (const unsigned char *)out->master; *p; p++)
		if (*p < ' ' || *p == 0x7f) /* it goes to the logs */
			return err_set(e, EXIT_CONFIG,
				       "a control character in the master's name in the url; write "
				       "the name that is in sentinel.conf");
	return 0;
}

/* ?db=N, the only parameter there is. */
static int parse_query(const char *query, struct redis_addr *out, struct err *e)
{
	if (strncmp(query, "db=", 3) != 0 || strchr(query, '&'))
		return err_set(e, EXIT_CONFIG,
			       "the url has parameters other than ?db=N; use the keys of [redis]");
	return parse_db(query + 3, strlen(query + 3), out, e);
}

/* What stands between the user and the database; `*tail` begins behind the hosts. */
static int parse_hosts(const char *text, const char **tail, struct redis_addr *out, struct err *e)
{
	static const struct list_of sentinels = {"Sentinel", SENTINEL_PORT};
	static const struct list_of nodes = {"node", DEFAULT_PORT};
	size_t len = (size_t)(*tail - text);
	struct redis_sentinels *s = out->sentinels;

	if (s)
		return parse_places(text, len, &sentinels, out, s->v, &s->n, e) < 0
			       ? -1
			       : parse_master(tail, out, s, e);
	if (out->cluster)
		return parse_places(text, len, &nodes, out, out->cluster->v, &out->cluster->n, e);
	return parse_host(text, len, out, e);
}

static int parse_tcp(const char *rest, struct redis_addr *out, struct err *e)
{
	size_t auth_len = strcspn(rest, "/?");
	const char *tail = rest + auth_len, *at = memrchr(rest, '@', auth_len);
	const char *host = at ? at + 1 : rest;

	/* Else the first piece of a password would be taken for the host. */
	if (strchr(tail, '@'))
		return err_set(
			e, EXIT_CONFIG,
			"an @ after a / or ? in the url; in a password write / as %%2F, ? as "
			"%%3F, @ as %%40");
	if (at && parse_user(rest, (size_t)(at - rest), out, e) < 0)
		return -1;
	if (parse_hosts(host, &tail, out, e) < 0)
		return -1;
	if (tail[0] == '/') {
		size_t n = strcspn(++tail, "?");

		if (n > 0 && parse_db(tail, n, out, e) < 0)
			return -1;
		if (n > 0 && tail[n])
			return err_set(e, EXIT_CONFIG,
				       "the url has parameters after the database; use the keys of "
				       "[redis]");
		tail += n;
	}
	return tail[0] == '?' ? parse_query(tail + 1, out, e) : 0;
}

static int parse_unix(const char *rest, struct redis_addr *out, struct err *e)
{
	size_t path_len = strcspn(rest, "?");
	const char *slash = memchr(rest, '/', path_len);

	out->transport = REDIS_UNIX;
	if (slash && slash > rest && slash[-1] == '@') {
		if (parse_user(rest, (size_t)(slash - rest) - 1, out, e) < 0)
			return -1;
		path_len -= (size_t)(slash - rest);
		rest = slash;
	}
	out->port = 0;
	if (rest[0] != '/' || path_len < 2)
		return err_set(e, EXIT_CONFIG,
			       "the url's path is not absolute; write unix:///run/redis.sock?db=0");
	out->host = decode(rest, path_len);
	if (!out->host)
		return say_escape(e);
	if (strlen(out->host) > UNIX_PATH_MAX)
		return err_set(e, EXIT_CONFIG,
			       "the url's socket path has %zu bytes; unix sockets allow %d",
			       strlen(out->host), UNIX_PATH_MAX);
	return rest[path_len] == '?' ? parse_query(rest + path_len + 1, out, e) : 0;
}

static bool has_scheme(const char *url, const char *scheme)
{
	return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

static int say_scheme(const char *url, struct err *e)
{
	if (strcasestr(url, "sentinel"))
		return err_set(e, EXIT_CONFIG, "for Sentinel write %s, or sentinels:// for TLS",
			       SENTINEL_EXAMPLE);
	if (strcasestr(url, "cluster"))
		return err_set(e, EXIT_CONFIG, "for Cluster write %s, or clusters:// for TLS",
			       CLUSTER_EXAMPLE);
	return err_set(e, EXIT_CONFIG,
		       "the url begins with none of redis://, rediss:// (TLS), unix://, "
		       "sentinel:// and cluster://; write %s or unix:///path",
		       EXAMPLE);
}

static int check_cluster(const struct redis_addr *a, struct err *e)
{
	if (a->cluster && a->db)
		return err_set(e, EXIT_CONFIG,
			       "a Redis Cluster has no database %d, only 0; write %s%s", a->db,
			       scheme_of(a), rest_of(a));
	return 0;
}

int redis_url_parse(const char *url, struct redis_addr *out, struct err *e)
{
	static const struct {
		const char *scheme;
		bool tls, sentinel, cluster;
		int (*parse)(const char *rest, struct redis_addr *out, struct err *e);
	} schemes[] = {
		{"redis://", false, false, false, parse_tcp},
		{"rediss://", true, false, false, parse_tcp},
		{"sentinel://", false, true, false, parse_tcp},
		{"sentinels://", true, true, false, parse_tcp},
		{"cluster://", false, false, true, parse_tcp},
		{"clusters://", true, false, true, parse_tcp},
		{"unix://", false, false, false, parse_unix},
	};

	*out = (struct redis_addr){.transport = REDIS_TCP, .port = DEFAULT_PORT};
	for (const unsigned char *p = (const unsigned char *)url; *p; p++)
		if (*p <= 0x20 || *p == 0x7f)
			return err_set(
				e, EXIT_CONFIG,
				"a blank or control character in the url; write it as %%%02X", *p);
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		if (!has_scheme(url, schemes[i].scheme))
			continue;
		out->tls = schemes[i].tls;
		if (schemes[i].sentinel)
			out->sentinels = xcalloc(1, sizeof(*out->sentinels));
		if (schemes[i].cluster)
			out->cluster = xcalloc(1, sizeof(*out->cluster));
		if (schemes[i].parse(url + strlen(schemes[i].scheme), out, e) == 0 &&
		    check_cluster(out, e) == 0)
			return 0;
		redis_addr_release(out);
		return -1;
	}
	return say_scheme(url, e);
}

bool redis_url_is_tls(const char *url)
{
	struct redis_addr addr;
	bool tls;

	if (redis_url_parse(url, &addr, NULL) < 0)
		return false;
	tls = addr.tls;
	redis_addr_release(&addr);
	return tls;
}

/* The first line of the file, without its end. Owned; NULL with `e`. */
static char *read_password(const char *path, struct err *e)
{
	char text[PASSWORD_FILE_MAX + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = 0;
	ssize_t n = -1;

	if (fd >= 0) {
		do {
			n = read(fd, text + len, sizeof(text) - len);
			if (n > 0)
				len += (size_t)n;
		} while ((n > 0 && len < sizeof(text)) || (n < 0 && errno == EINTR));
	}
	if (n < 0) {
		err_set(e, EXIT_CONFIG, "password_file %s: %s; let this user read it", path,
			strerror(errno));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	close(fd);
	if (memchr(text, '\n', len))
		len = (size_t)((char *)memchr(text, '\n', len) - text);
	else if (len > PASSWORD_FILE_MAX)
		len = 0;
	if (len > 0 && text[len - 1] == '\r')
		len--;
	if (len == 0 || memchr(text, '\0', len)) {
		err_set(e, EXIT_CONFIG,
			"password_file %s: its first line is empty or no text of at most %d bytes; "
			"write the password there",
			path, PASSWORD_FILE_MAX);
		return NULL;
	}
	return xmemdup0(text, len);
}

int redis_addr_resolve(const struct conf_redis *r, struct redis_addr *out, struct err *e)
{
	char *password = NULL;

	if (!r->url)
		return err_set(e, EXIT_CONFIG, "[redis] url is empty; write %s", EXAMPLE);
	if (redis_url_parse(r->url, out, e) < 0)
		return -1;
	if (r->password_file) {
		password = read_password(r->password_file, e);
		if (!password) {
			redis_addr_release(out);
			return -1;
		}
	} else if (r->password) {
		password = xstrdup(r->password);
	}
	if (password) {
		free(out->password);
		out->password = password;
	}
	if (r->username) {
		free(out->username);
		out->username = xstrdup(r->username);
	}
	if (out->sentinels) {
		out->sentinels->username =
			r->sentinel_username ? xstrdup(r->sentinel_username) : NULL;
		out->sentinels->password =
			r->sentinel_password ? xstrdup(r->sentinel_password) : NULL;
	}
	if (r->sentinel_username && !r->sentinel_password) {
		redis_addr_release(out);
		return err_set(e, EXIT_CONFIG,
			       "[redis] sentinel_username without sentinel_password; set both");
	}
	if (out->username && !out->password) {
		redis_addr_release(out);
		return err_set(
			e, EXIT_CONFIG,
			"[redis] username without a password; set password or password_file");
	}
	return 0;
}

static void release_sentinels(struct redis_sentinels *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].host);
	free(s->master);
	free(s->username);
	free(s->password);
	free(s);
}

static void release_cluster(struct redis_cluster *c)
{
	for (size_t i = 0; c && i < c->n; i++)
		free(c->v[i].host);
	free(c);
}

void redis_addr_release(struct redis_addr *a)
{
	free(a->host);
	free(a->username);
	free(a->password);
	a->host = a->username = a->password = NULL;
	release_sentinels(a->sentinels);
	release_cluster(a->cluster);
	a->sentinels = NULL;
	a->cluster = NULL;
}

void redis_addr_set_place(struct redis_addr *a, const struct redis_place *place)
{
	char *host = xstrdup(place->host);

	free(a->host);
	a->host = host;
	a->port = place->port;
}

/* "a:1,b:2" */
static void add_places(const struct redis_place *v, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		buf_adds(out, i ? "," : "");
		redis_place_text(&v[i], out);
	}
}

void redis_place_text(const struct redis_place *p, struct buf *out)
{
	buf_addf(out, strchr(p->host, ':') ? "[%s]:%d" : "%s:%d", p->host, p->port);
}

void redis_addr_text(const struct redis_addr *a, struct buf *out)
{
	struct redis_place place = {a->host, a->port};

	if (a->transport == REDIS_UNIX) {
		buf_addf(out, "unix://%s?db=%d", a->host, a->db);
		return;
	}
	if (a->host) {
		buf_adds(out, a->tls ? "rediss://" : "redis://");
		redis_place_text(&place, out);
	} else if (a->sentinels) {
		buf_adds(out, scheme_of(a));
		add_places(a->sentinels->v, a->sentinels->n, out);
		buf_addf(out, "/%s", a->sentinels->master);
	} else {
		buf_adds(out, scheme_of(a));
		add_places(a->cluster->v, a->cluster->n, out);
	}
	buf_addf(out, "/%d", a->db);
}
