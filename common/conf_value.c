/* conf_value.c - see conf_value.h: text, lists, and the dispatch by type. */
#include "conf_number.h"
#include "conf_value.h"
#include "conf_words.h"
#include "suggest.h"

/* What an unquoted character would have a shell do. A backslash is one of them. */
#define SHELL_CHARS "|><&;$`\\"
/* Values such as http://x/?a=1&b=2 are common in env; only what looks like expansion is not. */
#define EXPANSION_CHARS "$`\\"

static bool has_string_field(enum conf_type t)
{
	return t == CONF_STR || t == CONF_PATH || t == CONF_SECRET;
}

static enum conf_parsed parse_string(const struct conf_row *row, const char *text, char **field,
				     struct err *e)
{
	if (!text[0] && row->def[0]) {
		err_set(e, EXIT_CONFIG, "empty; leave the key out for its default %s", row->def);
		return CONF_BAD;
	}
	free(*field);
	*field = text[0] ? xstrdup(text) : NULL;
	return CONF_PARSED;
}

/* The n-th of the words with '|' between; its length in *len, NULL when there are fewer. */
static const char *nth_word(const char *words, int n, size_t *len)
{
	for (;; n--) {
		*len = strcspn(words, "|");
		if (n == 0)
			return words;
		if (!words[*len])
			return NULL;
		words += *len + 1;
	}
}

static enum conf_parsed parse_enum(const struct conf_row *row, const char *text, int *field,
				   struct err *e)
{
	struct suggest near = {0};
	const char *word;
	char copy[64], best[64] = "";
	size_t len;

	for (int i = 0; (word = nth_word(row->unit, i, &len)); i++) {
		if (strlen(text) == len && memcmp(word, text, len) == 0) {
			*field = i;
			return CONF_PARSED;
		}
		snprintf(copy, sizeof(copy), "%.*s", (int)len, word);
		near.word = NULL;
		suggest_try(&near, text, copy);
		if (near.word && !best[0])
			snprintf(best, sizeof(best), "; did you mean %.40s?", copy);
	}
	err_set(e, EXIT_CONFIG, "not one of %s%s", row->unit, best);
	return CONF_BAD;
}

/* ------------------------------------------------------------------ handler = KIND WORDS... */

static const char *const kind_words[CONF_HANDLER_N_KINDS] = {
	[CONF_HANDLER_NONE] = "",
	[CONF_HANDLER_EXEC] = "exec",
	[CONF_HANDLER_PIPE] = "pipe",
	[CONF_HANDLER_SO] = "so",
};

const char *conf_handler_word(enum conf_handler_kind kind)
{
	return kind_words[kind];
}

enum conf_handler_kind conf_handler_kind(const char *word, size_t len)
{
	for (int i = CONF_HANDLER_NONE + 1; i < CONF_HANDLER_N_KINDS; i++)
		if (strlen(kind_words[i]) == len && memcmp(word, kind_words[i], len) == 0)
			return (enum conf_handler_kind)i;
	return CONF_HANDLER_NONE;
}

/* "'|' means nothing without a shell; write exec sh -c 'cat | wc -l'". */
static void say_shell(enum conf_handler_kind kind, const char *command, char bad, struct err *e)
{
	struct buf quoted = BUF_INIT;

	conf_words_quote_sh(command, &quoted);
	if (kind == CONF_HANDLER_SO)
		err_set(e, EXIT_CONFIG, "a %c outside quotes; put the path in quotes: so %s", bad,
			quoted.data);
	else if (bad == '\\')
		err_set(e, EXIT_CONFIG,
			"a \\ outside quotes; put the word in '...', or for a shell write "
			"%s sh -c %s",
			kind_words[kind], quoted.data);
	else
		err_set(e, EXIT_CONFIG,
			"no shell runs this, so '%c' would do nothing; write "
			"%s sh -c %s",
			bad, kind_words[kind], quoted.data);
	buf_release(&quoted);
}

static enum conf_parsed say_open_quote(char bad, struct err *e)
{
	err_set(e, EXIT_CONFIG, "a %c that is never closed; add the closing one", bad);
	return CONF_BAD;
}

/* What follows the kind must be. */
static const char *form_of(enum conf_handler_kind kind)
{
	return kind == CONF_HANDLER_SO ? "PATH" : "PROGRAM ARG...";
}

static enum conf_parsed split_command(enum conf_handler_kind kind, const char *command,
				      struct strv *argv, struct err *e)
{
	const char *word = kind_words[kind];
	char bad = 0;

	if (!command[0]) {
		err_set(e, EXIT_CONFIG, "%s what? write %s %s", word, word, form_of(kind));
		return CONF_BAD;
	}
	switch (conf_words_split(command, SHELL_CHARS, argv, &bad)) {
	case CONF_WORDS_OK:
		break;
	case CONF_WORDS_OPEN_QUOTE:
		return say_open_quote(bad, e);
	case CONF_WORDS_SHELL:
		say_shell(kind, command, bad, e);
		return CONF_BAD;
	}
	if (!argv->v[0][0]) {
		err_set(e, EXIT_CONFIG, "the program's name is empty; write %s %s", word,
			form_of(kind));
		return CONF_BAD;
	}
	if (kind == CONF_HANDLER_SO && argv->n > 1) {
		err_set(e, EXIT_CONFIG,
			"a library takes no words; write so PATH, in '...' if it has blanks");
		return CONF_BAD;
	}
	return CONF_PARSED;
}

static enum conf_parsed parse_handler(const char *text, struct conf_handler *field, struct err *e)
{
	size_t n = strcspn(text, " \t");
	enum conf_handler_kind kind = conf_handler_kind(text, n);
	struct strv argv = {0};

	if (!text[0]) {
		strv_release(&field->argv);
		field->kind = CONF_HANDLER_NONE;
		return CONF_PARSED;
	}
	if (kind == CONF_HANDLER_NONE) {
		err_set(e, EXIT_CONFIG, "does not begin with its kind; write exec %.300s", text);
		return CONF_BAD;
	}
	if (split_command(kind, text + n + strspn(text + n, " \t"), &argv, e) != CONF_PARSED) {
		strv_release(&argv);
		return CONF_BAD;
	}
	strv_release(&field->argv);
	field->kind = kind;
	field->argv = argv;
	return CONF_PARSED;
}

/* ------------------------------------------------------------------ env = NAME=VALUE ... */

static bool is_assignment(const char *word)
{
	size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	return n > 0 && word[n] == '=' && !(word[0] >= '0' && word[0] <= '9');
}

static enum conf_parsed parse_envlist(const char *text, struct strv *field, struct err *e)
{
	struct strv list = {0};
	char bad = 0;

	switch (conf_words_split(text, EXPANSION_CHARS, &list, &bad)) {
	case CONF_WORDS_OK:
		break;
	case CONF_WORDS_OPEN_QUOTE:
		strv_release(&list);
		return say_open_quote(bad, e);
	case CONF_WORDS_SHELL:
		strv_release(&list);
		err_set(e, EXIT_CONFIG,
			"nothing is expanded here; put the value with '%c' in '...'", bad);
		return CONF_BAD;
	}
	for (size_t i = 0; i < list.n; i++)
		if (!is_assignment(list.v[i])) {
			/* Not shown: what follows a blank in a value may be half a secret. */
			err_set(e, EXIT_CONFIG,
				"word %zu is not NAME=VALUE; quote a value that has "
				"blanks: NAME='two words'",
				i + 1);
			strv_release(&list);
			return CONF_BAD;
		}
	strv_release(field);
	*field = list;
	return CONF_PARSED;
}

enum conf_parsed conf_value_parse(const struct conf_row *row, const char *text, void *field,
				  struct err *e)
{
	switch (row->type) {
	case CONF_STR:
	case CONF_PATH:
	case CONF_SECRET:
		return parse_string(row, text, field, e);
	case CONF_INT:
	case CONF_INTDEF:
	case CONF_PERCENT:
	case CONF_WORKERS:
	case CONF_DUR:
	case CONF_AUTODUR:
	case CONF_SIZE:
		return conf_number_parse(row, text, field, e);
	case CONF_ENUM:
		return parse_enum(row, text, field, e);
	case CONF_HANDLER:
		return parse_handler(text, field, e);
	case CONF_ENVLIST:
		return parse_envlist(text, field, e);
	}
	invariant_failed(__FILE__, __LINE__, "a type of the table");
}

void conf_value_init(const struct conf_row *row, void *field)
{
	struct err e = {0};

	/* Of zero bytes every type makes an empty value, so that parsing may release it. */
	if (has_string_field(row->type))
		*(char **)field = row->def[0] ? xstrdup(row->def) : NULL;
	else if (row->type == CONF_HANDLER)
		*(struct conf_handler *)field = (struct conf_handler){0};
	else if (row->type == CONF_ENVLIST)
		*(struct strv *)field = (struct strv){0};
	else
		INVARIANT(conf_value_parse(row, row->def, field, &e) == CONF_PARSED);
}

void conf_value_format(const struct conf_row *row, const void *field, struct buf *out)
{
	const struct conf_handler *h;
	const char *word;
	size_t len;

	switch (row->type) {
	case CONF_STR:
	case CONF_PATH:
	case CONF_SECRET:
		if (*(char *const *)field)
			buf_adds(out, *(char *const *)field);
		return;
	case CONF_INT:
	case CONF_INTDEF:
	case CONF_PERCENT:
	case CONF_WORKERS:
	case CONF_DUR:
	case CONF_AUTODUR:
	case CONF_SIZE:
		conf_number_format(row, field, out);
		return;
	case CONF_ENUM:
		word = nth_word(row->unit, *(const int *)field, &len);
		INVARIANT(word != NULL);
		buf_add(out, word, len);
		return;
	case CONF_HANDLER:
		h = field;
		if (h->kind == CONF_HANDLER_NONE)
			return;
		buf_addf(out, "%s ", kind_words[h->kind]);
		conf_words_join(&h->argv, out);
		return;
	case CONF_ENVLIST:
		conf_words_join(field, out);
		return;
	}
}

static bool strv_equal(const struct strv *a, const struct strv *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return false;
	return true;
}

bool conf_value_equal(const struct conf_row *row, const void *a, const void *b)
{
	const struct conf_handler *ha = a, *hb = b;
	const char *sa, *sb;

	switch (row->type) {
	case CONF_STR:
	case CONF_PATH:
	case CONF_SECRET:
		sa = *(char *const *)a;
		sb = *(char *const *)b;
		return sa && sb ? strcmp(sa, sb) == 0 : sa == sb;
	case CONF_INT:
	case CONF_INTDEF:
	case CONF_PERCENT:
	case CONF_WORKERS:
	case CONF_ENUM:
		return *(const int *)a == *(const int *)b;
	case CONF_DUR:
	case CONF_AUTODUR:
	case CONF_SIZE:
		return *(const int64_t *)a == *(const int64_t *)b;
	case CONF_HANDLER:
		return ha->kind == hb->kind && strv_equal(&ha->argv, &hb->argv);
	case CONF_ENVLIST:
		return strv_equal(a, b);
	}
	invariant_failed(__FILE__, __LINE__, "a type of the table");
}

static void strv_copy(struct strv *to, const struct strv *from)
{
	struct strv copy = {0};

	for (size_t i = 0; i < from->n; i++)
		strv_add(&copy, from->v[i]);
	strv_release(to);
	*to = copy;
}

void conf_value_copy(const struct conf_row *row, void *to, const void *from)
{
	char *copy;

	switch (row->type) {
	case CONF_STR:
	case CONF_PATH:
	case CONF_SECRET:
		copy = *(char *const *)from ? xstrdup(*(char *const *)from) : NULL;
		free(*(char **)to);
		*(char **)to = copy;
		return;
	case CONF_INT:
	case CONF_INTDEF:
	case CONF_PERCENT:
	case CONF_WORKERS:
	case CONF_ENUM:
		*(int *)to = *(const int *)from;
		return;
	case CONF_DUR:
	case CONF_AUTODUR:
	case CONF_SIZE:
		*(int64_t *)to = *(const int64_t *)from;
		return;
	case CONF_HANDLER:
		strv_copy(&((struct conf_handler *)to)->argv,
			  &((const struct conf_handler *)from)->argv);
		((struct conf_handler *)to)->kind = ((const struct conf_handler *)from)->kind;
		return;
	case CONF_ENVLIST:
		strv_copy(to, from);
		return;
	}
}

void conf_value_release(const struct conf_row *row, void *field)
{
	if (has_string_field(row->type)) {
		free(*(char **)field);
		*(char **)field = NULL;
	} else if (row->type == CONF_HANDLER) {
		strv_release(&((struct conf_handler *)field)->argv);
		((struct conf_handler *)field)->kind = CONF_HANDLER_NONE;
	} else if (row->type == CONF_ENVLIST) {
		strv_release(field);
	}
}
