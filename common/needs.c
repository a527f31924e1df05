/* needs.c - see needs.h. */
#include "needs.h"

#define PROBE ".redisq-probe"

static const struct need needs[] = {
#define NEED(acl, who, key, without, ...) \
	{acl, NEED_##who, NEED_##key, without, {__VA_ARGS__}, false, false},
#define LIST_NEED(acl, who, key, without, ...) \
	{acl, NEED_##who, NEED_##key, without, {__VA_ARGS__}, true, false},
#define LIST_PUSH(acl, who, key, without, ...) \
	{acl, NEED_##who, NEED_##key, without, {__VA_ARGS__}, true, true},
#include "needs.def"
#undef LIST_PUSH
#undef LIST_NEED
#undef NEED
};

size_t needs_count(void)
{
	return ARRAY_LEN(needs);
}

const struct need *needs_at(size_t i)
{
	INVARIANT(i < ARRAY_LEN(needs));
	return &needs[i];
}

bool needs_is_for(const struct need *n, bool on_list)
{
	/* What a stream command does, a script does with lists. */
	return on_list ? n->list_only || n->acl[0] != 'x' : !n->list_only;
}

static const char *of_nobody(const char *prefix, struct buf *store)
{
	buf_clear(store);
	buf_addf(store, "%s" PROBE, prefix);
	return store->data;
}

const char *needs_key(const struct need *n, const struct keys *k, struct buf *store)
{
	switch (n->key) {
	case NEED_NONE:
		break;
	case NEED_STREAM:
		return k->stream;
	case NEED_DELAYED:
		return k->delayed;
	case NEED_BODIES:
		return k->bodies;
	case NEED_DEAD:
		return k->dead;
	case NEED_HELD:
		return k->held;
	case NEED_COUNTERS:
		return k->counters;
	case NEED_CKPT:
		return k->ckpt;
	case NEED_PROGRESS:
		return k->progress;
	case NEED_CRASH:
		return k->crash;
	case NEED_NAMES:
		return k->names;
	case NEED_CLAIM:
		return of_nobody(k->claim, store);
	case NEED_RESULT:
		return of_nobody(k->result, store);
	case NEED_FAILED:
		return of_nobody(k->failed, store);
	case NEED_TASKS:
		return k->tasks;
	case NEED_OWNERS:
		return k->owners;
	case NEED_PENDING:
		return k->pending;
	case NEED_LETTERS:
		return k->letters;
	case NEED_LAST_ID:
		return k->last_id;
	case NEED_PROCESSING:
		return of_nobody(k->processing, store);
	}
	return "";
}

int needs_words(const struct need *n, const struct keys *k, const char *group, struct buf *store,
		const char *words[NEED_WORDS_MAX])
{
	int argc = 0;

	for (; n->words[argc]; argc++) {
		const char *word = n->words[argc];

		if (strcmp(word, "$key") == 0)
			word = needs_key(n, k, store);
		else if (strcmp(word, "$group") == 0)
			word = group;
		else if (strcmp(word, "$probe") == 0)
			word = PROBE;
		words[argc] = word;
	}
	return argc;
}

bool needs_is_multi(const struct need *n)
{
	return strcmp(n->acl, "multi") == 0;
}

static bool says(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strstr(text, *words))
			return true;
	return false;
}

enum need_answer needs_judge(const char *error)
{
	/* 6.0 to 8.0: "... no permissions to run the 'xack' command", "... to access one of the
	 * keys",
	 * "... to access a key". */
	static const char *const denied[] = {"NOPERM", "no permissions", NULL};
	static const char *const unknown[] = {"unknown command", "nknown subcommand",
					      "nknown Redis command", "unknown sub command", NULL};
	static const char *const later[] = {"NOAUTH",      "LOADING", "BUSY ", "MASTERDOWN",
					    "max number",  "MOVED ",  "ASK ",  "TRYAGAIN",
					    "CLUSTERDOWN", NULL};

	if (!error)
		return NEED_HAVE;
	if (says(error, denied))
		return strstr(error, "to access") ? NEED_NO_KEY : NEED_NO_COMMAND;
	if (says(error, unknown))
		return NEED_UNKNOWN;
	/* What it objects to is what the form is made to be refused for: it may be used. */
	return says(error, later) ? NEED_NOT_TOLD : NEED_HAVE;
}

/* ------------------------------------------------------------------ what is missing */

/* Is `word` one of the words of `list`, which `separator` sets apart? */
static bool has_word(const struct buf *list, const char *word, const char *separator)
{
	size_t len = strlen(word);
	size_t gap = strlen(separator);

	for (const char *p = list->data; (p = strstr(p, word)) != NULL; p += len) {
		bool begins = p == list->data || strncmp(p - gap, separator, gap) == 0;
		bool ends = p[len] == '\0' || strncmp(p + len, separator, gap) == 0;

		if (begins && ends)
			return true;
	}
	return false;
}

static void add_word(struct buf *list, const char *word, const char *separator)
{
	if (!has_word(list, word, separator))
		buf_addf(list, "%s%s", list->len ? separator : "", word);
}

void needs_missing_add(struct needs_missing *m, const struct need *n, enum need_answer answer,
		       const struct keys *k)
{
	struct buf store = BUF_INIT;
	struct buf word = BUF_INIT;
	const char *key = needs_key(n, k, &store);

	m->n++;
	if (answer == NEED_NO_KEY) {
		add_word(&m->keys, key, ", ");
		/* All keys but the stream's begin with one prefix. */
		if (n->key == NEED_STREAM)
			buf_addf(&word, "~%s", key);
		else
			buf_addf(&word, "~%.*s*", (int)(strlen(k->claim) - strlen("consumer:")),
				 k->claim);
	} else {
		/* A command is missing for all keys alike: the first one is named. */
		buf_addf(&word, "+%s", n->acl);
		if (!has_word(&m->tried, word.data, " "))
			buf_addf(&m->commands, "%s%s%s%s", m->commands.len ? ", " : "", n->acl,
				 *key ? " on " : "", key);
		add_word(&m->tried, word.data, " ");
	}
	if (answer != NEED_UNKNOWN)
		add_word(&m->grants, word.data, " ");
	buf_release(&word);
	buf_release(&store);
}

void needs_missing_text(const struct needs_missing *m, struct buf *out)
{
	if (m->commands.len)
		buf_addf(out, "may not use %s", m->commands.data);
	if (m->keys.len)
		buf_addf(out, "%shas no access to %s", m->commands.len ? ", and " : "",
			 m->keys.data);
}

void needs_missing_cure(const struct needs_missing *m, struct buf *out)
{
	if (m->grants.len)
		buf_addf(out, "grant it: ACL SETUSER ... %s", m->grants.data);
	else
		buf_adds(out, "this Redis is too old, or has renamed them");
}

void needs_missing_release(struct needs_missing *m)
{
	buf_release(&m->commands);
	buf_release(&m->keys);
	buf_release(&m->grants);
	buf_release(&m->tried);
}
