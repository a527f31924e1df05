/*
 * cluster_fixture.h - one link and a cluster of fakes in one loop. clock_gettime() is our own here,
 * so that seconds of silence are over when the test says so.
 */
#ifndef REDISQ_CLUSTER_FIXTURE_H
#define REDISQ_CLUSTER_FIXTURE_H

#include <sys/syscall.h>
#include <time.h>

#include "fake_redis.h"
#include "link_fixture.h"

static int64_t ahead_s;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	long r = syscall(SYS_clock_gettime, id, ts);

	ts->tv_sec += ahead_s;
	return (int)r;
}

#define N_NODES 4

struct world {
	struct fixture x; /* its own fake is not used */
	struct fake nodes[N_NODES];
	char url[200];
	int owner;                   /* who has the key: the others say so */
	const char *exists[N_NODES]; /* what that one says of the key instead; "" = nothing */
	const char *slots;           /* what CLUSTER SLOTS answers */
	const char *echo;            /* what the next command is answered; NULL = its number */
	int n_greeted;
};

static struct world *world;

static inline void say_moved(struct fake *f, int to)
{
	char text[64];

	snprintf(text, sizeof(text), "-MOVED 5 127.0.0.1:%d\r\n", world->nodes[to].port);
	fake_say(f, text);
}

static inline void on_node(struct fake *f, redisReply *r)
{
	int i = (int)(f - world->nodes);
	const char *word = r->element[0]->str;
	char text[40];

	if (strcmp(word, "CLUSTER") == 0) {
		fake_say(f, world->slots);
		return;
	}
	if (strcmp(word, "EXISTS") == 0) {
		world->n_greeted++;
		if (world->exists[i])
			fake_say(f, world->exists[i]);
		else if (i == world->owner)
			fake_say(f, ":1\r\n");
		else
			say_moved(f, world->owner);
		return;
	}
	if (world->echo) {
		fake_say(f, world->echo);
		world->echo = NULL;
		return;
	}
	if (i != world->owner) {
		say_moved(f, world->owner);
		return;
	}
	snprintf(text, sizeof(text), ":%s\r\n", r->element[1]->str);
	fake_say(f, text);
}

static inline void write_url(struct world *w, const char *seeds)
{
	int len = snprintf(w->url, sizeof(w->url), "cluster://");

	for (; *seeds; seeds++)
		len += snprintf(w->url + len, sizeof(w->url) - (size_t)len, "127.0.0.1:%d%s",
				w->nodes[*seeds - '0'].port, seeds[1] ? "," : "");
	w->x.conf.url = w->url;
}

static inline int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	w->x.loop = ev_loop_new(EVFLAG_AUTO);
	w->x.conf.connect_timeout = w->x.conf.command_timeout = 5000;
	world = w;
	w->slots = "-ERR This instance has cluster support disabled\r\n";
	for (int i = 0; i < N_NODES; i++) {
		fake_init(&w->nodes[i], w->x.loop);
		fake_listen_tcp(&w->nodes[i]);
		w->nodes[i].on_command = on_node;
	}
	write_url(w, "012");
	*state = w;
	return 0;
}

static inline int teardown(void **state)
{
	struct world *w = *state;

	rconn_close(w->x.link);
	for (int i = 0; i < N_NODES; i++)
		if (w->nodes[i].listener >= 0)
			fake_release(&w->nodes[i]);
	ev_loop_destroy(w->x.loop);
	free(w);
	return 0;
}

static inline void kill_node(struct world *w, int i)
{
	fake_release(&w->nodes[i]);
	w->nodes[i].listener = -1;
}

static inline void start(struct world *w)
{
	const struct rconn_events events = {fixture_on_ready, fixture_on_down};

	w->x.link = rconn_new(w->x.loop, &w->x.conf, "me:cmd", &events, &w->x);
	rconn_set_key(w->x.link, "q");
	rconn_start(w->x.link);
}

static inline void ready(struct world *w, int at)
{
	char where[64];

	if (!w->x.link)
		start(w);
	assert_true(run_until(w->x.loop, &w->x.n_ready, w->x.n_ready + 1));
	snprintf(where, sizeof(where), "redis://127.0.0.1:%d/0", w->nodes[at].port);
	assert_string_equal(rconn_where(w->x.link), where);
}

static inline void later(struct world *w, int64_t seconds)
{
	ahead_s += seconds;
	ev_now_update(w->x.loop);
}

#endif
