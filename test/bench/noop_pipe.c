/*
 * noop_pipe.c - a pipe handler that does nothing: as many answers in one write as tasks came in
 * one read. It looks for the id and the payload of a task without parsing the JSON.
 *
 *   noop_pipe SLOTS
 */
#include "latency.h"

#define IN_MAX (4 << 20)
#define ANSWER_MAX 128

static char in[IN_MAX];
static char out[IN_MAX];

/* The string after `key` in the line; NULL when it is not there. */
static const char *value_of(const char *line, const char *key, size_t *len)
{
	const char *at = strstr(line, key);

	if (!at)
		return NULL;
	at += strlen(key);
	*len = strcspn(at, "\"");
	return at;
}

static void write_out(size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(3, out + at, len - at);

		if (n < 0)
			die("fd 3: %s", strerror(errno));
		at += (size_t)n;
	}
}

static size_t answer(const char *line, int latency, size_t at)
{
	size_t len;
	const char *id = value_of(line, "\"id\":\"", &len);

	if (!id)
		return at; /* drain: the end of stdin follows */
	if (latency >= 0) {
		size_t n;
		const char *payload = value_of(line, "\"payload\":\"", &n);

		if (payload)
			latency_write(latency, now_ns(), payload, n);
	}
	if (at + len + ANSWER_MAX > sizeof(out)) {
		write_out(at);
		at = 0;
	}
	return at + (size_t)snprintf(out + at, sizeof(out) - at,
				     "{\"type\":\"done\",\"id\":\"%.*s\"}\n", (int)len, id);
}

int main(int argc, char **argv)
{
	int latency = latency_open();
	size_t have = 0;

	if (argc != 2)
		die("usage: noop_pipe SLOTS");
	write_out((size_t)snprintf(out, sizeof(out), "{\"type\":\"ready\",\"slots\":%ld}\n",
				   number(argv[1], 1, 4096)));
	for (;;) {
		ssize_t n = read(STDIN_FILENO, in + have, sizeof(in) - have);
		char *line = in;
		size_t answers = 0;
		char *end;

		if (n <= 0)
			return n < 0;
		have += (size_t)n;
		while ((end = memchr(line, '\n', have - (size_t)(line - in)))) {
			*end = '\0';
			answers = answer(line, latency, answers);
			line = end + 1;
		}
		write_out(answers);
		have -= (size_t)(line - in);
		memmove(in, line, have);
		if (have == sizeof(in))
			die("a line of %zu bytes", have);
	}
}
