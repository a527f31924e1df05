/* redis.c - see redis.h. */
#include "clock.h"
#include "keys.h"
#include "redis.h"

#define LOADING_MS 30000

struct redis {
	struct ev_loop *loop; /* owned */
	struct rconn *link;
	const char *from; /* borrowed from the target; NULL = the url is this program's own */
	bool is_down;     /* a try has failed since redis_ready() began to wait */
	char why[400];

	bool on_list;   /* the queue is one: */
	bool is_loaded; /* and Redis knows the script that asks it; else it is sent each time */
	struct keys keys;
	char *group; /* owned */
};

static void on_ready(void *arg)
{
	struct redis *r = arg;

	r->is_down = false;
}

static void on_down(void *arg, const char *why)
{
	struct redis *r = arg;

	r->is_down = true;
	snprintf(r->why, sizeof(r->why), "%s", why);
}

int redis_ready(struct redis *r, struct err *e)
{
	int64_t until = clock_mono_ms() + LOADING_MS;

	ev_now_update(r->loop); /* this program may have waited for its stdin */
	r->is_down = false;
	while (!rconn_is_ready(r->link)) {
		ev_run(r->loop, EVRUN_ONCE);
		if (r->is_down && strstr(r->why, "LOADING") && clock_mono_ms() < until)
			r->is_down = false; /* a server that starts: it will be there soon */
		if (r->is_down)
			return err_set(e, EXIT_UNREACHABLE, "Redis at %s (from %s): %s%s",
				       rconn_where(r->link), r->from ? r->from : "the supervisor",
				       r->why,
				       strchr(r->why, ';') ? "" /* says what to do itself */
							   : "; is it running, is that the url?");
	}
	return 0;
}

struct redis *redis_open(struct target *t, struct err *e)
{
	static const struct rconn_events events = {.on_ready = on_ready, .on_down = on_down};
	const struct conf *c = target_conf(t, e);
	struct redis *r;

	if (!c)
		return NULL;
	r = xcalloc(1, sizeof(*r));
	r->loop = ev_loop_new(EVFLAG_AUTO);
	INVARIANT(r->loop);
	r->from = t->redis_from;
	r->link = rconn_new(r->loop, conf_redis(c), "redisqctl", &events, r);
	rconn_start(r->link);
	if (redis_ready(r, e) == 0)
		return r;
	redis_close(r);
	return NULL;
}

void redis_close(struct redis *r)
{
	if (!r)
		return;
	keys_release(&r->keys);
	free(r->group);
	rconn_close(r->link);
	ev_run(r->loop, EVRUN_NOWAIT);
	ev_loop_destroy(r->loop);
	free(r);
}

const char *redis_where(const struct redis *r)
{
	return rconn_where(r->link);
}

const char *redis_why(const struct redis *r)
{
	return r->why;
}

/* ------------------------------------------------------------------ one answer */

static redisReply *copy_reply(const redisReply *from)
{
	redisReply *to = xcalloc(1, sizeof(*to));

	to->type = from->type;
	to->integer = from->integer;
	if (from->str) {
		to->str = xmemdup0(from->str, from->len);
		to->len = from->len;
	}
	if (from->elements) {
		to->elements = from->elements;
		to->element = xcalloc(from->elements, sizeof(redisReply *));
		for (size_t i = 0; i < from->elements; i++)
			to->element[i] = copy_reply(from->element[i]);
	}
	return to;
}

void redis_free(redisReply *reply)
{
	if (!reply)
		return;
	for (size_t i = 0; i < reply->elements; i++)
		redis_free(reply->element[i]);
	free(reply->element);
	free(reply->str);
	free(reply);
}

struct answer {
	bool is_there;
	redisReply *reply; /* owned; NULL: the link was lost */
};

static void on_answer(void *arg, const redisReply *reply)
{
	struct answer *a = arg;

	a->is_there = true;
	a->reply = reply ? copy_reply(reply) : NULL;
}

static redisReply *wait_for(struct redis *r, struct answer *a, struct err *e)
{
	while (!a->is_there)
		ev_run(r->loop, EVRUN_ONCE);
	if (a->reply)
		return a->reply;
	ev_run(r->loop, EVRUN_NOWAIT); /* on_down comes after the callbacks */
	err_set(e, EXIT_UNREACHABLE, "Redis at %s: %s; whether it was done is unknown",
		rconn_where(r->link), r->why[0] ? r->why : "the connection was lost");
	return NULL;
}

/* ------------------------------------------------------------------ lists */

/* `argv`, and behind it what scripts are told about a list; `front` places are left free. Owned. */
static struct rconn_arg *about_list(const struct redis *r, int front, int argc,
				    const struct rconn_arg *argv)
{
	size_t n = (size_t)front + (size_t)argc + SCRIPT_LIST_ARGS;
	struct rconn_arg *all = xcalloc(n, sizeof(*all));

	memcpy(all + front, argv, (size_t)argc * sizeof(*argv));
	all[front + argc] = ARG(r->keys.stream);
	all[front + argc + 1] = ARG(r->keys.prefix);
	all[front + argc + 2] = ARG(r->group);
	return all;
}

/* As rconn_send(); a stream command goes to the script that does it with lists. */
static int send_words(struct redis *r, int argc, const struct rconn_arg *argv, rconn_reply_fn *fn,
		      void *arg)
{
	const int front = 4;
	struct rconn_arg *all;
	int rc;

	if (!r->on_list || argv[0].data[0] != 'X')
		return rconn_send(r->link, argc, argv, 0, fn, arg);
	all = about_list(r, front, argc, argv);
	all[0] = r->is_loaded ? ARG("EVALSHA") : ARG("EVAL");
	all[1] = ARG(r->is_loaded ? script_sha1(SCRIPT_LIST_ASK) : script_text(SCRIPT_LIST_ASK));
	all[2] = ARG("1");
	all[3] = ARG(r->keys.stream);
	rc = rconn_send(r->link, front + argc + SCRIPT_LIST_ARGS, all, 0, fn, arg);
	free(all);
	return rc;
}

bool redis_on_list(const struct redis *r)
{
	return r->on_list;
}

/* ------------------------------------------------------------------ asking */

redisReply *redis_try(struct redis *r, struct err *e, int argc, const struct rconn_arg *argv)
{
	struct answer a = {0};

	if (redis_ready(r, e) != 0)
		return NULL;
	if (send_words(r, argc, argv, on_answer, &a) != 0) {
		err_set(e, EXIT_UNREACHABLE, "Redis at %s: the connection was lost; try again",
			rconn_where(r->link));
		return NULL;
	}
	return wait_for(r, &a, e);
}

/* An error reply becomes `e`. */
static redisReply *no_error(redisReply *reply, const char *what, struct err *e)
{
	if (!reply || reply->type != REDIS_REPLY_ERROR)
		return reply;
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
	return no_error(redis_try(r, e, argc, argv), words[0], e);
}

redisReply *redis_script(struct redis *r, struct err *e, enum script_id id, int n_keys, int argc,
			 const struct rconn_arg *argv)
{
	struct rconn_arg *all = NULL;
	struct answer a = {0};
	int rc;

	if (redis_ready(r, e) != 0)
		return NULL;
	if (r->on_list) {
		argv = all = about_list(r, 0, argc, argv);
		argc += SCRIPT_LIST_ARGS;
		id = script_on_list(id);
	}
	rc = script_send(r->link, r->link, id, n_keys, argc, argv, 0, on_answer, &a);
	free(all);
	if (rc != 0) {
		err_set(e, EXIT_UNREACHABLE, "Redis at %s: the connection was lost; try again",
			rconn_where(r->link));
		return NULL;
	}
	return no_error(wait_for(r, &a, e), script_name(id), e);
}

redisReply *redis_multi(struct redis *r, struct err *e,
			const char *const (*commands)[REDIS_MULTI_WORDS], size_t n)
{
	struct rconn_arg argv[REDIS_MULTI_WORDS];
	struct answer a = {0};

	if (redis_ready(r, e) != 0)
		return NULL;
	argv[0] = ARG("MULTI");
	for (size_t i = 0; i <= n; i++) {
		int argc = 1;

		if (i > 0)
			for (argc = 0; argc < REDIS_MULTI_WORDS && commands[i - 1][argc]; argc++)
				argv[argc] = ARG(commands[i - 1][argc]);
		if (send_words(r, argc, argv, NULL, NULL) != 0)
			return NULL;
	}
	argv[0] = ARG("EXEC");
	if (rconn_send(r->link, 1, argv, 0, on_answer, &a) != 0) {
		err_set(e, EXIT_UNREACHABLE, "Redis at %s: the connection was lost; try again",
			rconn_where(r->link));
		return NULL;
	}
	return no_error(wait_for(r, &a, e), "EXEC", e);
}

/* ------------------------------------------------------------------ whose queue */

/* A list that is none of ours is somebody else's: it is not to be touched as if it were. */
static int find_kind(struct redis *r, const struct conf_queue *q, bool *on_list, struct err *e)
{
	const struct rconn_arg ask_type[] = {ARG("TYPE"), ARG(q->name)};
	const struct rconn_arg ask_ours[] = {ARG("EXISTS"), ARG(r->keys.last_id)};
	redisReply *type = redis_try(r, e, ARRAY_LEN(ask_type), ask_type);
	redisReply *ours = type ? redis_try(r, e, ARRAY_LEN(ask_ours), ask_ours) : NULL;
	int rc = ours ? 0 : -1;

	/* What is refused is not told: then it is what the configuration says. */
	*on_list = q->backend == CONF_BACKEND_LIST;
	if (ours && type->type == REDIS_REPLY_STATUS && strcmp(type->str, "stream") == 0)
		*on_list = false;
	else if (ours)
		*on_list |= redis_int(ours, 0) > 0;
	redis_free(type);
	redis_free(ours);
	return rc;
}

int redis_serve(struct redis *r, const struct conf_queue *q, struct err *e)
{
	redisReply *loaded;
	bool on_list;

	keys_release(&r->keys);
	free(r->group);
	keys_init(&r->keys, q->name);
	r->group = xstrdup(q->group);
	r->on_list = false;
	if (find_kind(r, q, &on_list, e) != 0)
		return -1;
	if (on_list) {
		const struct rconn_arg load[] = {ARG("SCRIPT"), ARG("LOAD"),
						 ARG(script_text(SCRIPT_LIST_ASK))};

		loaded = redis_try(r, e, ARRAY_LEN(load), load);
		if (!loaded)
			return -1;
		r->is_loaded = loaded->type == REDIS_REPLY_STRING;
		redis_free(loaded);
		r->on_list = true;
	}
	return 0;
}

struct redis *redis_open_queue(struct target *t, const struct conf_queue *q, struct err *e)
{
	struct redis *r = q ? redis_open(t, e) : NULL;

	if (r && redis_serve(r, q, e) != 0) {
		redis_close(r);
		r = NULL;
	}
	return r;
}

/* ------------------------------------------------------------------ many at once */

int redis_send(struct redis *r, struct err *e, int argc, const struct rconn_arg *argv,
	       rconn_reply_fn *fn, void *arg)
{
	if (!rconn_is_ready(r->link) && redis_ready(r, e) != 0)
		return -1;
	if (send_words(r, argc, argv, fn, arg) != 0)
		return err_set(e, EXIT_UNREACHABLE, "Redis at %s: the connection was lost: %s",
			       rconn_where(r->link), r->why);
	return 0;
}

void redis_wait(struct redis *r, size_t n)
{
	while (rconn_n_pending(r->link) > n)
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

/* ------------------------------------------------------------------ parts of replies */

const redisReply *redis_field(const redisReply *list, const char *field)
{
	for (size_t i = 0; list && i + 1 < list->elements; i += 2) {
		const redisReply *name = list->element[i];

		if (name->str && strcmp(name->str, field) == 0)
			return list->element[i + 1];
	}
	return NULL;
}

int64_t redis_int(const redisReply *reply, int64_t otherwise)
{
	if (!reply)
		return otherwise;
	if (reply->type == REDIS_REPLY_INTEGER)
		return reply->integer;
	if (reply->type == REDIS_REPLY_STRING && reply->len > 0)
		return strtoll(reply->str, NULL, 10);
	return otherwise;
}

struct slice redis_text(const redisReply *reply)
{
	if (!reply || !reply->str)
		return slice_str("");
	return slice_of(reply->str, reply->len);
}
