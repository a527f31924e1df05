/* redis.c - see redis.h. */
#include "clock.h"
#include "cluster.h"
#include "keys.h"
#include "redis.h"

#define LOADING_MS 30000
/* A failover, or a slot that moves: for so long it is worth waiting. */
#define CLUSTER_MS 5000
#define AGAIN_MS 100

struct link {
	struct rconn *conn;
	bool is_down; /* a try has failed since redis_ready() began to wait */
	bool was_ready;
	char why[400];
};

/* What is known of a queue that was asked about; and which link is asked about it. */
struct served {
	struct link *link; /* borrowed */
	bool is_known;     /* Redis has answered what it is */
	bool is_mixed;     /* it is a stream, and was served as a list */
	bool on_list;      /* the queue is one: */
	bool is_loaded;    /* and Redis knows the script that asks it; else it is sent each time */
	struct keys keys;
	char *group; /* owned */
};

struct redis {
	struct ev_loop *loop;          /* owned */
	const struct conf_redis *conf; /* borrowed */
	struct link **links; /* owned, each too: the first leads to any node of a cluster */
	size_t n_links;
	const char *from;       /* borrowed from the target; NULL = the url is this program's own */
	struct served **served; /* owned, each too */
	size_t n_served;
	const struct served *now; /* whom it is about; NULL: no queue yet */
	bool is_hasty;
};

static struct link *link_now(const struct redis *r)
{
	return r->now ? r->now->link : r->links[0];
}

static void on_ready(void *arg)
{
	struct link *l = arg;

	l->is_down = false;
	l->was_ready = true;
}

static void on_down(void *arg, const char *why)
{
	struct link *l = arg;

	l->is_down = true;
	snprintf(l->why, sizeof(l->why), "%s", why);
}

/* `key` NULL: any node will do. */
static struct link *make_link(struct redis *r, const char *key)
{
	static const struct rconn_events events = {.on_ready = on_ready, .on_down = on_down};
	struct link *l = xcalloc(1, sizeof(*l));

	l->conn = rconn_new(r->loop, r->conf, "redisqctl", &events, l);
	if (key)
		rconn_set_key(l->conn, key);
	rconn_start(l->conn);
	r->links = xrealloc(r->links, (r->n_links + 1) * sizeof(*r->links));
	r->links[r->n_links++] = l;
	return l;
}

/* Not the first. */
static void close_link(struct redis *r, struct link *l)
{
	size_t i = 1;

	while (i < r->n_links && r->links[i] != l)
		i++;
	r->links[i] = r->links[--r->n_links];
	rconn_close(l->conn);
	free(l);
}

static void free_served(struct served *s)
{
	keys_release(&s->keys);
	free(s->group);
	free(s);
}

/* The one that leads to where the keys of this stream are: a single server has all of them. */
static struct link *link_of(struct redis *r, const char *stream)
{
	return rconn_is_cluster(r->links[0]->conn) ? make_link(r, stream) : r->links[0];
}

/* What a cluster says while a slot moves or a failover goes on: it will pass. */
static bool is_passing(const struct redis *r, const struct link *l, const char *why)
{
	static const char *const words[] = {"MOVED ",           "ASK ",
					    "TRYAGAIN",         "CLUSTERDOWN",
					    "is being moved",   "could not be used",
					    "non local key in", "EXECABORT"};

	for (size_t i = 0; rconn_is_cluster(l->conn) && !r->is_hasty && i < ARRAY_LEN(words); i++)
		if (strstr(why, words[i]))
			return true;
	return false;
}

int redis_ready(struct redis *r, struct err *e)
{
	int64_t now = clock_mono_ms();
	int64_t until = now + LOADING_MS, cluster_until = now + CLUSTER_MS;
	struct link *l = link_now(r);

	ev_now_update(r->loop); /* this program may have waited for its stdin */
	/* Whose links come up beside each other (redis_link_all()) have failed beside each other.
	 */
	if (!r->is_hasty || l->was_ready)
		l->is_down = false;
	while (!rconn_is_ready(l->conn)) {
		if (!l->is_down)
			ev_run(r->loop, EVRUN_ONCE);
		if (l->is_down && !r->is_hasty && strstr(l->why, "LOADING") &&
		    clock_mono_ms() < until)
			l->is_down = false; /* a server that starts: it will be there soon */
		if (l->is_down && is_passing(r, l, l->why) && clock_mono_ms() < cluster_until)
			l->is_down = false;
		if (l->is_down)
			return err_set(
				e, rconn_needs_other_url(l->conn) ? EXIT_CONFIG : EXIT_UNREACHABLE,
				"Redis at %s (from %s): %s%s", rconn_where(l->conn),
				r->from ? r->from : "the supervisor", l->why,
				strchr(l->why, ';') ? "" /* says what to do itself */
						    : "; is it running, is that the url?");
	}
	return 0;
}

struct redis *redis_open(struct target *t, struct err *e)
{
	const struct conf *c = target_conf(t, e);
	struct redis *r;

	if (!c)
		return NULL;
	r = xcalloc(1, sizeof(*r));
	r->loop = ev_loop_new(EVFLAG_AUTO);
	INVARIANT(r->loop);
	r->from = t->redis_from;
	r->conf = conf_redis(c);
	make_link(r, NULL);
	if (redis_ready(r, e) == 0)
		return r;
	redis_close(r);
	return NULL;
}

void redis_close(struct redis *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_served; i++)
		free_served(r->served[i]);
	free(r->served);
	for (size_t i = 0; i < r->n_links; i++)
		rconn_close(r->links[i]->conn);
	ev_run(r->loop, EVRUN_NOWAIT);
	ev_loop_destroy(r->loop);
	for (size_t i = 0; i < r->n_links; i++)
		free(r->links[i]);
	free(r->links);
	free(r);
}

const char *redis_where(const struct redis *r)
{
	return rconn_where(link_now(r)->conn);
}

const char *redis_why(const struct redis *r)
{
	return link_now(r)->why;
}

/* ------------------------------------------------------------------ one answer */

struct answer {
	bool is_there;
	redisReply *reply; /* owned; NULL: the link was lost */
};

static void on_answer(void *arg, const redisReply *reply)
{
	struct answer *a = arg;

	a->is_there = true;
	a->reply = reply ? redis_copy(reply) : NULL;
}

static redisReply *wait_for(struct redis *r, struct answer *a, struct err *e)
{
	while (!a->is_there)
		ev_run(r->loop, EVRUN_ONCE);
	if (a->reply)
		return a->reply;
	ev_run(r->loop, EVRUN_NOWAIT); /* on_down comes after the callbacks */
	err_set(e, EXIT_UNREACHABLE, "Redis at %s: %s; whether it was done is unknown",
		redis_where(r), redis_why(r)[0] ? redis_why(r) : "the connection was lost");
	return NULL;
}

/* ------------------------------------------------------------------ lists */

#define LIST_MORE (KEYS_OF_LIST + SCRIPT_LIST_ARGS)

/* `argv`, the first `n_keys` of which are KEYS, with what scripts are told about a list besides;
 * `front` places are left free. Owned. */
static struct rconn_arg *about_list(const struct redis *r, int front, int n_keys, int argc,
				    const struct rconn_arg *argv)
{
	size_t n = (size_t)front + (size_t)argc + LIST_MORE;
	struct rconn_arg *all = xcalloc(n, sizeof(*all));
	struct rconn_arg *to = all + front;
	const char *more[KEYS_OF_LIST];

	keys_of_list(&r->now->keys, more);
	for (int i = 0; i < n_keys; i++)
		*to++ = argv[i];
	for (int i = 0; i < KEYS_OF_LIST; i++)
		*to++ = ARG(more[i]);
	for (int i = n_keys; i < argc; i++)
		*to++ = argv[i];
	*to++ = ARG(r->now->keys.stream);
	*to++ = ARG(r->now->keys.prefix);
	*to++ = ARG(r->now->group);
	return all;
}

/* As rconn_send(); a stream command goes to the script that does it with lists. */
static int send_words(struct redis *r, int argc, const struct rconn_arg *argv, rconn_reply_fn *fn,
		      void *arg)
{
	const int front = 4;
	char n_keys[12];
	struct rconn *conn = link_now(r)->conn;
	struct rconn_arg *all;
	bool is_loaded;
	int rc;

	if (!redis_on_list(r) || argv[0].data[0] != 'X')
		return rconn_send(conn, argc, argv, 0, fn, arg);
	is_loaded = r->now->is_loaded;
	all = about_list(r, front, 0, argc, argv);
	snprintf(n_keys, sizeof(n_keys), "%d", 1 + KEYS_OF_LIST);
	all[0] = is_loaded ? ARG("EVALSHA") : ARG("EVAL");
	all[1] = ARG(is_loaded ? script_sha1(SCRIPT_LIST_ASK) : script_text(SCRIPT_LIST_ASK));
	all[2] = ARG(n_keys);
	all[3] = ARG(r->now->keys.stream);
	rc = rconn_send(conn, front + argc + LIST_MORE, all, 0, fn, arg);
	free(all);
	return rc;
}

const struct keys *redis_keys(const struct redis *r)
{
	return &r->now->keys;
}

bool redis_on_list(const struct redis *r)
{
	return r->now && r->now->on_list;
}

bool redis_is_mixed(const struct redis *r)
{
	return r->now && r->now->is_mixed;
}

void redis_be_hasty(struct redis *r, bool is_hasty)
{
	r->is_hasty = is_hasty;
}

bool redis_is_cluster(const struct redis *r)
{
	return rconn_is_cluster(r->links[0]->conn);
}

/* ------------------------------------------------------------------ asking */

/* One question, in any of its forms. */
struct question {
	int (*send)(struct redis *r, const struct question *q, struct answer *a);
	int argc;
	const struct rconn_arg *argv;
	/* Of a script. */
	enum script_id id;
	int n_keys;
	/* Of a transaction. */
	const char *const (*commands)[REDIS_MULTI_WORDS];
	size_t n;
};

/* Owned; NULL with `e`. What a cluster refuses for now was not done, and is asked again. */
static redisReply *ask(struct redis *r, const struct question *q, struct err *e)
{
	int64_t until = clock_mono_ms() + CLUSTER_MS;

	for (;;) {
		struct answer a = {0};
		redisReply *reply;

		if (redis_ready(r, e) != 0)
			return NULL;
		if (q->send(r, q, &a) != 0) {
			err_set(e, EXIT_UNREACHABLE,
				"Redis at %s: the connection was lost; try again", redis_where(r));
			return NULL;
		}
		reply = wait_for(r, &a, e);
		if (!reply || reply->type != REDIS_REPLY_ERROR ||
		    !is_passing(r, link_now(r), reply->str) || clock_mono_ms() >= until)
			return reply;
		redis_free(reply);
		redis_pause(r, AGAIN_MS);
	}
}

static int ask_words(struct redis *r, const struct question *q, struct answer *a)
{
	return send_words(r, q->argc, q->argv, on_answer, a);
}

redisReply *redis_try(struct redis *r, struct err *e, int argc, const struct rconn_arg *argv)
{
	return ask(r, &(struct question){.send = ask_words, .argc = argc, .argv = argv}, e);
}

/* An error reply becomes `e`. */
static redisReply *no_error(struct redis *r, redisReply *reply, const char *what, struct err *e)
{
	if (!reply || reply->type != REDIS_REPLY_ERROR)
		return reply;
	if (!r->now || !strstr(reply->str, "WRONGTYPE") || !redis_say_kind(r, redis_on_list(r), e))
		err_set(e, EXIT_FORCED, "Redis refuses %s: %s", what, reply->str);
	redis_free(reply);
	return NULL;
}

redisReply *redis_ask_words(struct redis *r, struct err *e, const char *const *words)
{
	struct rconn_arg argv[REDIS_WORDS_MAX];
	int argc = 0;

	for (; words[argc]; argc++) {
		INVARIANT(argc < REDIS_WORDS_MAX);
		argv[argc] = ARG(words[argc]);
	}
	return no_error(r, redis_try(r, e, argc, argv), words[0], e);
}

static int ask_script(struct redis *r, const struct question *q, struct answer *a)
{
	struct rconn *c = link_now(r)->conn;

	return script_send(c, c, q->id, q->n_keys, q->argc, q->argv, 0, on_answer, a);
}

redisReply *redis_script(struct redis *r, struct err *e, enum script_id id, int n_keys, int argc,
			 const struct rconn_arg *argv)
{
	struct question q = {ask_script, argc, argv, .id = id, .n_keys = n_keys};
	struct rconn_arg *all = NULL;
	redisReply *reply;

	if (redis_on_list(r)) {
		q.argv = all = about_list(r, 0, n_keys, argc, argv);
		q.argc += LIST_MORE;
		q.n_keys += KEYS_OF_LIST;
		q.id = script_on_list(id);
	}
	reply = ask(r, &q, e);
	free(all);
	return no_error(r, reply, script_name(id), e);
}

/* What is wrong with one of them EXEC says, too. */
static void on_queued(void *arg ATTR_UNUSED, const redisReply *reply ATTR_UNUSED)
{
}

static int ask_multi(struct redis *r, const struct question *q, struct answer *a)
{
	struct rconn_arg argv[REDIS_MULTI_WORDS] = {ARG("MULTI")};

	for (size_t i = 0; i <= q->n; i++) {
		int argc = 1;

		if (i > 0)
			for (argc = 0; argc < REDIS_MULTI_WORDS && q->commands[i - 1][argc]; argc++)
				argv[argc] = ARG(q->commands[i - 1][argc]);
		if (send_words(r, argc, argv, on_queued, NULL) != 0)
			return -1;
	}
	argv[0] = ARG("EXEC");
	return rconn_send(link_now(r)->conn, 1, argv, 0, on_answer, a);
}

redisReply *redis_multi(struct redis *r, struct err *e,
			const char *const (*commands)[REDIS_MULTI_WORDS], size_t n)
{
	struct question q = {.send = ask_multi, .commands = commands, .n = n};

	return no_error(r, ask(r, &q, e), "EXEC", e);
}

/* ------------------------------------------------------------------ whose queue */

/* A node of a cluster, and the url is not cluster://. */
static int say_moved(const struct redis *r, const char *error, struct err *e)
{
	bool tls = strncmp(redis_where(r), "rediss", 6) == 0;
	struct buf why = BUF_INIT;

	cluster_advice(error, "host", tls, &why);
	err_set(e, EXIT_CONFIG, "Redis at %s: %s", redis_where(r), why.data);
	buf_release(&why);
	return -1;
}

/* A list that is none of ours is somebody else's: it is not to be touched as if it were. */
static int find_kind(struct redis *r, const struct conf_queue *q, struct served *s, bool *on_list,
		     struct err *e)
{
	const struct rconn_arg ask_type[] = {ARG("TYPE"), ARG(q->name)};
	const struct rconn_arg ask_ours[] = {ARG("EXISTS"), ARG(s->keys.last_id)};
	redisReply *type = redis_try(r, e, ARRAY_LEN(ask_type), ask_type);
	redisReply *ours = type ? redis_try(r, e, ARRAY_LEN(ask_ours), ask_ours) : NULL;
	int rc = ours ? 0 : -1;

	if (ours && type->type == REDIS_REPLY_ERROR && strncmp(type->str, "MOVED ", 6) == 0)
		rc = say_moved(r, type->str, e);
	/* What is refused is not told: then it is what the configuration says. */
	*on_list = q->backend == CONF_BACKEND_LIST;
	if (ours && type->type == REDIS_REPLY_STATUS && strcmp(type->str, "stream") == 0) {
		*on_list = false;
		s->is_mixed = redis_int(ours, 0) > 0;
	} else if (ours) {
		*on_list |= redis_int(ours, 0) > 0;
	}
	redis_free(type);
	redis_free(ours);
	return rc;
}

static struct served *find_served(const struct redis *r, const char *stream)
{
	for (size_t i = 0; i < r->n_served; i++)
		if (strcmp(r->served[i]->keys.stream, stream) == 0)
			return r->served[i];
	return NULL;
}

static struct served *add_served(struct redis *r, const struct conf_queue *q)
{
	struct served *s = xcalloc(1, sizeof(*s));

	s->link = link_of(r, q->name);
	keys_init(&s->keys, q->name);
	s->group = xstrdup(q->group);
	r->served = xrealloc(r->served, (r->n_served + 1) * sizeof(*r->served));
	r->served[r->n_served++] = s;
	return s;
}

void redis_link_all(struct redis *r, const struct parts *p)
{
	for (size_t i = 0; i < p->n && p->is_spread; i++)
		if (!find_served(r, p->v[i].name))
			add_served(r, &p->v[i]);
}

int redis_serve(struct redis *r, const struct conf_queue *q, struct err *e)
{
	struct served *s = find_served(r, q->name);
	redisReply *loaded;
	bool on_list;

	if (!s)
		s = add_served(r, q);
	r->now = s;
	if (s->is_known)
		return 0;
	if (find_kind(r, q, s, &on_list, e) != 0)
		return -1;
	if (on_list) {
		const struct rconn_arg load[] = {ARG("SCRIPT"), ARG("LOAD"),
						 ARG(script_text(SCRIPT_LIST_ASK))};

		loaded = redis_try(r, e, ARRAY_LEN(load), load);
		if (!loaded)
			return -1;
		s->is_loaded = loaded->type == REDIS_REPLY_STRING;
		redis_free(loaded);
		s->on_list = true;
	}
	s->is_known = true;
	return 0;
}

void redis_forget(struct redis *r, const char *stream)
{
	struct served *s = find_served(r, stream);
	size_t i = 0;

	if (!s)
		return;
	if (r->now == s)
		r->now = NULL;
	while (i < r->n_served && r->served[i] != s)
		i++;
	r->served[i] = r->served[--r->n_served];
	if (s->link != r->links[0]) /* else it is everybody's */
		close_link(r, s->link);
	free_served(s);
}

/* ------------------------------------------------------------------ many at once */

int redis_send(struct redis *r, struct err *e, int argc, const struct rconn_arg *argv,
	       rconn_reply_fn *fn, void *arg)
{
	if (!rconn_is_ready(link_now(r)->conn) && redis_ready(r, e) != 0)
		return -1;
	if (send_words(r, argc, argv, fn, arg) != 0)
		return err_set(e, EXIT_UNREACHABLE, "Redis at %s: the connection was lost: %s",
			       redis_where(r), redis_why(r));
	return 0;
}

static size_t n_pending(const struct redis *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_links; i++)
		n += rconn_n_pending(r->links[i]->conn);
	return n;
}

void redis_wait(struct redis *r, size_t n)
{
	while (n_pending(r) > n)
		ev_run(r->loop, EVRUN_ONCE);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *t ATTR_UNUSED, int revents ATTR_UNUSED)
{
	ev_break(loop, EVBREAK_ALL);
}

void redis_pause(struct redis *r, int64_t ms)
{
	ev_timer over;

	ev_now_update(r->loop);
	ev_timer_init(&over, on_pause_over, (double)ms / 1000.0, 0.0);
	ev_timer_start(r->loop, &over);
	ev_run(r->loop, 0);
	ev_timer_stop(r->loop, &over);
}
