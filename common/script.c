/* script.c - see script.h. Owns a call from its sending to its last reply. */
#include <hiredis/hiredis.h>

#include "script.h"

static const struct {
	const char *name;
	const char *sha1;
	const char *text;
	size_t text_len;
} scripts[] = {
#define SCRIPT(id, name, sha1, text) [SCRIPT_##id] = {name, sha1, text, sizeof(text) - 1},
#include "scripts.inc"
#undef SCRIPT
	[N_SCRIPTS] = {NULL, NULL, NULL, 0},
};

#define SHA1_LEN 40
/* Before the script's own arguments: the command, the script, the number of keys. */
#define N_FRONT 3

struct call {
	struct rconn *link;   /* borrowed: it calls back before it goes */
	struct rconn *detour; /* borrowed: for the second sending */
	enum script_id id;
	int64_t extra_ms;
	rconn_reply_fn *fn;
	void *arg; /* borrowed: the caller's */
	char n_keys[12];
	int argc;                /* of argv */
	struct rconn_arg argv[]; /* their bytes lie behind them in the same allocation */
};

/* Those of both kinds come first, then the same once more. */
#define N_BOTH ((int)SCRIPT_LIST_AUDIT - (int)SCRIPT_AUDIT)
_Static_assert(SCRIPT_AUDIT == 0 && SCRIPT_LIST_TAKE == SCRIPT_TAKE + N_BOTH,
	       "scripts.inc: first all for streams, then the same for lists");

enum script_id script_on_list(enum script_id id)
{
	return (int)id < N_BOTH ? (enum script_id)((int)id + N_BOTH) : id;
}

const char *script_name(enum script_id id)
{
	return scripts[id].name;
}

const char *script_sha1(enum script_id id)
{
	return scripts[id].sha1;
}

const char *script_text(enum script_id id)
{
	return scripts[id].text;
}

static struct call *new_call(enum script_id id, int n_keys, int argc, const struct rconn_arg *argv)
{
	size_t n_bytes = 0;
	struct call *call;
	char *bytes;

	for (int i = 0; i < argc; i++)
		n_bytes += argv[i].len;
	call = xcalloc(1,
		       sizeof(*call) + (size_t)(N_FRONT + argc) * sizeof(call->argv[0]) + n_bytes);
	bytes = (char *)&call->argv[N_FRONT + argc];
	snprintf(call->n_keys, sizeof(call->n_keys), "%d", n_keys);
	call->id = id;
	call->argc = N_FRONT + argc;
	call->argv[0] = (struct rconn_arg){"EVALSHA", 7};
	call->argv[1] = (struct rconn_arg){scripts[id].sha1, SHA1_LEN};
	call->argv[2] = (struct rconn_arg){call->n_keys, strlen(call->n_keys)};
	for (int i = 0; i < argc; i++) {
		call->argv[N_FRONT + i] = (struct rconn_arg){bytes, argv[i].len};
		if (argv[i].len)
			memcpy(bytes, argv[i].data, argv[i].len);
		bytes += argv[i].len;
	}
	return call;
}

static void finish(struct call *call, const redisReply *reply)
{
	rconn_reply_fn *fn = call->fn;
	void *arg = call->arg;

	free(call);
	fn(arg, reply);
}

static void on_eval_reply(void *arg, const redisReply *reply)
{
	finish(arg, reply);
}

static int send_again(struct call *call, struct rconn *c)
{
	return rconn_send(c, call->argc, call->argv, call->extra_ms, on_eval_reply, call);
}

static void on_reply(void *arg, const redisReply *reply)
{
	struct call *call = arg;

	if (reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		call->argv[0] = (struct rconn_arg){"EVAL", 4};
		call->argv[1] =
			(struct rconn_arg){scripts[call->id].text, scripts[call->id].text_len};
		if (send_again(call, call->detour) == 0 ||
		    (call->detour != call->link && send_again(call, call->link) == 0))
			return;
		reply = NULL; /* the link is going down: nothing was executed, nobody can say so */
	}
	finish(call, reply);
}

int script_send(struct rconn *c, struct rconn *detour, enum script_id id, int n_keys, int argc,
		const struct rconn_arg *keys_and_args, int64_t extra_ms, rconn_reply_fn *fn,
		void *arg)
{
	struct call *call;

	INVARIANT(fn && id < N_SCRIPTS && n_keys <= argc);
	if (!rconn_is_ready(c))
		return -1;
	call = new_call(id, n_keys, argc, keys_and_args);
	call->link = c;
	call->detour = detour;
	call->extra_ms = extra_ms;
	call->fn = fn;
	call->arg = arg;
	if (rconn_send(c, call->argc, call->argv, extra_ms, on_reply, call) == 0)
		return 0;
	free(call);
	return -1;
}

static void on_loaded(void *arg ATTR_UNUSED, const redisReply *reply ATTR_UNUSED)
{
	/* Refused or lost: then the script is sent when it is first needed. */
}

void script_load_all(struct rconn *c, bool on_lists)
{
	int end = on_lists ? N_SCRIPTS : N_BOTH;

	for (int i = on_lists ? N_BOTH : 0; i < end; i++) {
		const struct rconn_arg argv[] = {
			{"SCRIPT", 6}, {"LOAD", 4}, {scripts[i].text, scripts[i].text_len}};

		if (rconn_send(c, ARRAY_LEN(argv), argv, 0, on_loaded, NULL) < 0)
			return;
	}
}
