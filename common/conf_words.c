/* conf_words.c - see conf_words.h. */
#include "conf_words.h"

void strv_add(struct strv *s, const char *text)
{
	s->v = xrealloc(s->v, (s->n + 2) * sizeof(*s->v));
	s->v[s->n++] = xstrdup(text);
	s->v[s->n] = NULL;
}

void strv_release(struct strv *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	s->v = NULL;
	s->n = 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The quoted part that begins at `p` goes to `word`; returns what follows, NULL: not closed. */
static const char *take_quoted(const char *p, struct buf *word)
{
	char quote = *p++;

	for (; *p != quote; p++) {
		if (!*p)
			return NULL;
		if (quote == '"' && *p == '\\' && (p[1] == '"' || p[1] == '\\'))
			p++;
		buf_addc(word, *p);
	}
	return p + 1;
}

enum conf_words_result conf_words_split(const char *text, const char *refuse, struct strv *out,
					char *bad)
{
	enum conf_words_result rc = CONF_WORDS_OK;
	struct buf word = BUF_INIT;
	const char *p = text;

	for (;;) {
		while (is_blank(*p))
			p++;
		if (!*p)
			break;
		buf_clear(&word);
		while (*p && !is_blank(*p)) {
			if (*p == '\'' || *p == '"') {
				*bad = *p;
				p = take_quoted(p, &word);
				if (!p) {
					rc = CONF_WORDS_OPEN_QUOTE;
					goto out;
				}
			} else if (strchr(refuse, *p)) {
				*bad = *p;
				rc = CONF_WORDS_SHELL;
				goto out;
			} else {
				buf_addc(&word, *p++);
			}
		}
		strv_add(out, word.data);
	}
out:
	buf_release(&word);
	return rc;
}

/* Characters that mean the same to us and to every shell, wherever they stand. */
static bool is_plain(const char *word)
{
	return word[0] && strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789_-+=./:,@%") == strlen(word);
}

void conf_words_join(const struct strv *words, struct buf *out)
{
	for (size_t i = 0; i < words->n; i++) {
		const char *w = words->v[i];

		if (i > 0)
			buf_addc(out, ' ');
		if (is_plain(w)) {
			buf_adds(out, w);
		} else if (!strchr(w, '\'')) {
			buf_addf(out, "'%s'", w);
		} else {
			buf_addc(out, '"');
			for (; *w; w++) {
				if (*w == '"' || *w == '\\')
					buf_addc(out, '\\');
				buf_addc(out, *w);
			}
			buf_addc(out, '"');
		}
	}
}

void conf_words_quote_sh(const char *word, struct buf *out)
{
	if (is_plain(word)) {
		buf_adds(out, word);
		return;
	}
	buf_addc(out, '\'');
	for (; *word; word++) {
		/* Both a shell and conf_words_split() read this as one quote. */
		if (*word == '\'')
			buf_adds(out, "'\"'\"'");
		else
			buf_addc(out, *word);
	}
	buf_addc(out, '\'');
}
