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
/* Needs a person, and what that one can do. The others are refusals only of what cannot be done
 * without. */
static const struct {
	const char *begins, *what_to_do;
	bool always;
} denied[] = {
	{"NOAUTH", "set password or password_file in [redis]", true},
	{"WRONGPASS", "check username, password or password_file in [redis]", true},
	{"ERR invalid password", "check password or password_file in [redis]", true},
	{"DENIED", "set a password there, or protected-mode no", true},
	{"ERR AUTH", "it has no password: leave it out", false},
	{"ERR Client sent AUTH", "it has no password: leave it out", false},
	{"ERR DB index", "take one that it has, 0 for instance", false},
	{"NOPERM", "its user needs that permission", false},
};

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

static bool is_temporary(const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(temporary); i++)
		if (strncmp(text, temporary[i], strlen(temporary[i])) == 0)
			return true;
	return false;
}

static int find_denied(const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(denied); i++)
		if (strncmp(text, denied[i].begins, strlen(denied[i].begins)) == 0)
			return (int)i;
	return -1;
}

static enum greet_verdict judge_error(struct greet *g, enum greet_step step, const redisReply *r,
				      char why[RCONN_WHY_MAX])
{
	char text[RCONN_WHY_MAX];
	bool needed = step == GREET_AUTH || step == GREET_ROLE || step == GREET_SELECT;
	bool for_now = is_temporary(r->str);
	int row = find_denied(r->str);

	if (step == GREET_KEY &&
	    (strncmp(r->str, "MOVED ", 6) == 0 || strncmp(r->str, "ASK ", 4) == 0)) {
		resp_error_text(r, NULL, why);
		return GREET_SENT_AWAY;
	}
	if (!needed && !for_now && (row < 0 || !denied[row].always))
		return GREET_MORE; /* refused, and we can live without it */
	resp_error_text(r, g->password, text);
	if (row >= 0 && text[0] && text[strlen(text) - 1] == '.')
		text[strlen(text) - 1] = '\0'; /* the sentence goes on */
	snprintf(why, RCONN_WHY_MAX, "%s: %.200s%s%s", step_names[step], text, row < 0 ? "" : "; ",
		 row < 0 ? "" : denied[row].what_to_do);
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
