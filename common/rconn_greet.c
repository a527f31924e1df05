/* rconn_greet.c - see rconn_greet.h. */
#include <hiredis/hiredis.h>

#include "rconn.h"
#include "rconn_greet.h"

static const char *const step_names[] = {
	[GREET_AUTH] = "AUTH",     [GREET_ROLE] = "ROLE",
	[GREET_SELECT] = "SELECT", [GREET_SETNAME] = "CLIENT SETNAME",
	[GREET_ID] = "CLIENT ID",  [GREET_INFO] = "INFO server",
	[GREET_PING] = "PING",     [GREET_NODES] = "CLUSTER SLOTS",
	[GREET_KEY] = "EXISTS",
};

/* Goes away by itself. */
static const char *const temporary[] = {
	"LOADING", "MASTERDOWN", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "ERR max number of clients",
};
/* Needs a person. */
static const char *const denied[] = {"NOAUTH", "WRONGPASS", "DENIED", "ERR invalid password"};

static void add_words(struct buf *out, int argc, const char *const *words)
{
	struct rconn_arg argv[4];

	INVARIANT(argc <= (int)ARRAY_LEN(argv));
	for (int i = 0; i < argc; i++)
		argv[i] = (struct rconn_arg){words[i], strlen(words[i])};
	resp_add(out, argc, argv);
}

static void add_step(struct greet *g, enum greet_step step)
{
	INVARIANT(g->n < GREET_N_STEPS);
	g->steps[g->n++] = step;
}

static void add_auth(struct greet *g, const struct redis_addr *a, struct buf *out)
{
	const char *password = a->password ? a->password : "";

	if (!a->username && !a->password)
		return;
	add_step(g, GREET_AUTH);
	if (a->username)
		add_words(out, 3, (const char *const[]){"AUTH", a->username, password});
	else
		add_words(out, 2, (const char *const[]){"AUTH", password});
}

void greet_begin(struct greet *g, const struct redis_addr *a, const char *name, const char *key,
		 struct buf *out)
{
	char db[16];

	memset(g, 0, sizeof(*g));
	g->password = a->password && *a->password ? a->password : NULL;
	add_auth(g, a, out);
	if (a->sentinels) {
		add_step(g, GREET_ROLE);
		add_words(out, 1, (const char *const[]){"ROLE"});
	}
	if (a->db) {
		snprintf(db, sizeof(db), "%d", a->db);
		add_step(g, GREET_SELECT);
		add_words(out, 2, (const char *const[]){"SELECT", db});
	}
	add_step(g, GREET_SETNAME);
	add_words(out, 3, (const char *const[]){"CLIENT", "SETNAME", name});
	add_step(g, GREET_ID);
	add_words(out, 2, (const char *const[]){"CLIENT", "ID"});
	add_step(g, GREET_INFO);
	add_words(out, 2, (const char *const[]){"INFO", "server"});
	add_step(g, GREET_PING);
	add_words(out, 1, (const char *const[]){"PING"});
	if (!a->cluster)
		return;
	add_step(g, GREET_NODES);
	add_words(out, 2, (const char *const[]){"CLUSTER", "SLOTS"});
	if (key) {
		add_step(g, GREET_KEY);
		add_words(out, 2, (const char *const[]){"EXISTS", key});
	}
}

static bool begins_with_one_of(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(text, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

static enum greet_verdict judge_error(struct greet *g, enum greet_step step, const redisReply *r,
				      char why[RCONN_WHY_MAX])
{
	char text[RCONN_WHY_MAX];
	bool needed = step == GREET_AUTH || step == GREET_ROLE || step == GREET_SELECT;
	bool for_now = begins_with_one_of(r->str, temporary, ARRAY_LEN(temporary));

	if (step == GREET_KEY &&
	    (strncmp(r->str, "MOVED ", 6) == 0 || strncmp(r->str, "ASK ", 4) == 0)) {
		resp_error_text(r, NULL, why);
		return GREET_MOVED;
	}
	if (!needed && !for_now && !begins_with_one_of(r->str, denied, ARRAY_LEN(denied)))
		return GREET_MORE; /* refused, and we can live without it */
	resp_error_text(r, g->password, text);
	snprintf(why, RCONN_WHY_MAX, "%.*s: %.200s", (int)strlen(step_names[step]),
		 step_names[step], text);
	if (step == GREET_SELECT && strstr(r->str, "cluster mode"))
		return GREET_NO_DB;
	return for_now ? GREET_WAIT : GREET_DENIED;
}

/* What Sentinel says may be old. */
static enum greet_verdict judge_role(const redisReply *r, char why[RCONN_WHY_MAX])
{
	const redisReply *word = r->type == REDIS_REPLY_ARRAY && r->elements ? r->element[0] : NULL;

	if (!word || word->type != REDIS_REPLY_STRING) {
		snprintf(why, RCONN_WHY_MAX, "ROLE: answered in a shape that is not understood");
		return GREET_WAIT;
	}
	if (strcmp(word->str, "master") == 0)
		return GREET_MORE;
	snprintf(why, RCONN_WHY_MAX, "it is no master: ROLE answers \"%.20s\"", word->str);
	return GREET_WAIT;
}

static void take_run_id(struct greet *g, const redisReply *r)
{
	static const char key[] = "run_id:";
	const char *p = r->type == REDIS_REPLY_STRING ? strstr(r->str, key) : NULL;

	if (!p)
		return;
	p += sizeof(key) - 1;
	snprintf(g->run_id, sizeof(g->run_id), "%.*s",
		 (int)min_i64((int64_t)strcspn(p, "\r\n"), (int64_t)sizeof(g->run_id) - 1), p);
}

enum greet_verdict greet_reply(struct greet *g, const struct redisReply *r, char why[RCONN_WHY_MAX])
{
	enum greet_verdict v = GREET_MORE;
	enum greet_step step;

	INVARIANT(g->at < g->n);
	step = g->steps[g->at++];
	if (r->type == REDIS_REPLY_ERROR) {
		v = judge_error(g, step, r, why);
	} else if (step == GREET_ROLE) {
		v = judge_role(r, why);
	} else if (step == GREET_ID && r->type == REDIS_REPLY_INTEGER) {
		g->client_id = r->integer;
	} else if (step == GREET_INFO) {
		take_run_id(g, r);
	}
	return v == GREET_MORE && g->at == g->n ? GREET_DONE : v;
}

enum greet_step greet_next(const struct greet *g)
{
	INVARIANT(g->at < g->n);
	return g->steps[g->at];
}

const char *greet_waiting_for(const struct greet *g)
{
	return step_names[g->steps[g->at < g->n ? g->at : g->n - 1]];
}
