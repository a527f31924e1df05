/* client.c - see client.h. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"
#include "paths.h"

#define ANSWER_MAX (32 * 1024 * 1024)

struct client {
	int fd;
	char *path; /* owned */
	struct buf in;
};

/* A connected socket, or -1 with errno. */
static int dial(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	size_t len = strlen(path);
	int fd;

	if (len >= sizeof(sa.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(sa.sun_path, path, len + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) != 0) {
		int error = errno;

		close(fd);
		errno = error;
		fd = -1;
	}
	return fd;
}

/* Connected to a socket that is safe to talk to, or -1 and why not is added to `tried`. */
static int try_path(const char *path, struct buf *tried)
{
	struct paths_who who = paths_self();
	struct err unsafe;
	int fd;

	if (tried->len)
		buf_adds(tried, ", ");
	if (paths_check_run(&who, path, &unsafe) != 0) {
		buf_adds(tried, unsafe.text);
		return -1;
	}
	fd = dial(path);
	if (fd < 0)
		buf_addf(tried, "%s (%s)", path, strerror(errno));
	return fd;
}

struct client *client_open(const struct strv *paths, struct err *e)
{
	struct buf tried = BUF_INIT;
	struct client *c = NULL;
	int fd = -1;

	for (size_t i = 0; i < paths->n && fd < 0; i++) {
		fd = try_path(paths->v[i], &tried);
		if (fd < 0)
			continue;
		c = xcalloc(1, sizeof(*c));
		c->fd = fd;
		c->path = xstrdup(paths->v[i]);
		buf_init(&c->in);
	}
	if (!c)
		err_set(e, EXIT_UNREACHABLE,
			"no supervisor answers; is it running? Tried %s; -c FILE names another one",
			tried.data);
	buf_release(&tried);
	return c;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	close(c->fd);
	free(c->path);
	buf_release(&c->in);
	free(c);
}

const char *client_path(const struct client *c)
{
	return c->path;
}

static int lost(const struct client *c, const char *why, struct err *e)
{
	return err_set(e, EXIT_UNREACHABLE,
		       "the supervisor at %s went away: %s; see its log and redisqctl status",
		       c->path, why);
}

static int send_line(struct client *c, json_t *request, struct err *e)
{
	char *text = json_dumps(request, JSON_COMPACT);
	struct buf line = BUF_INIT;
	size_t done = 0;
	int rc = 0;

	json_decref(request);
	if (!text)
		return err_set(e, EXIT_USAGE, "an argument is not UTF-8");
	buf_adds(&line, text);
	buf_addc(&line, '\n');
	free(text);
	while (done < line.len && rc == 0) {
		ssize_t n = send(c->fd, line.data + done, line.len - done, MSG_NOSIGNAL);

		if (n >= 0)
			done += (size_t)n;
		else if (errno == EPIPE)
			break; /* hung up on: what it said before is to be read still */
		else if (errno != EINTR)
			rc = lost(c, strerror(errno), e);
	}
	buf_release(&line);
	return rc;
}

/* The next line as JSON, owned; NULL with `e`. */
static json_t *read_line(struct client *c, int timeout_ms, struct err *e)
{
	const char *nl;
	json_t *v;

	while (!(nl = memchr(c->in.data, '\n', c->in.len))) {
		struct pollfd p = {.fd = c->fd, .events = POLLIN};
		int ready = poll(&p, 1, timeout_ms);
		ssize_t n;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready == 0) {
			err_set(e, EXIT_UNREACHABLE,
				"the supervisor at %s says nothing for %d s; is it stopped?",
				c->path, timeout_ms / 1000);
			return NULL;
		}
		n = read(c->fd, buf_reserve(&c->in, 65536), 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || c->in.len > ANSWER_MAX) {
			lost(c, n < 0 ? strerror(errno) : "it hung up", e);
			return NULL;
		}
		buf_commit(&c->in, (size_t)n);
	}
	v = json_loadb(c->in.data, (size_t)(nl - c->in.data), 0, NULL);
	buf_consume(&c->in, (size_t)(nl + 1 - c->in.data));
	if (!v)
		lost(c, "its answer is not JSON", e);
	return v;
}

json_t *client_ask(struct client *c, json_t *request, int timeout_ms, client_say_fn *say, void *arg,
		   struct err *e)
{
	if (send_line(c, request, e) != 0)
		return NULL;
	for (;;) {
		json_t *line = read_line(c, timeout_ms, e);
		const char *text = json_string_value(json_object_get(line, "say"));
		json_t *result;

		if (!line)
			return NULL;
		if (text) {
			if (say)
				say(arg, text);
			json_decref(line);
			continue;
		}
		if (json_is_true(json_object_get(line, "ok"))) {
			result = json_incref(json_object_get(line, "result"));
			json_decref(line);
			return result ? result : json_object();
		}
		text = json_string_value(json_object_get(line, "error"));
		err_set(e, (int)json_integer_value(json_object_get(line, "exit")), "%s",
			text ? text : "refused without a reason");
		if (e->code == EXIT_OK)
			e->code = EXIT_FORCED;
		json_decref(line);
		return NULL;
	}
}
