/* jtext.c - see jtext.h. */
#include "jtext.h"

/* ------------------------------------------------------------------ UTF-8 */

/* Length of the character at `p`, 0 when it is none: overlong, a surrogate, or cut off. */
static size_t utf8_char(const unsigned char *p, size_t left)
{
	static const struct {
		unsigned char from, to;  /* of the first byte */
		unsigned char low, high; /* of the second */
		unsigned char len;
	} forms[] = {
		{0x00, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		if (p[0] < forms[i].from || p[0] > forms[i].to)
			continue;
		if (forms[i].len > left)
			return 0;
		if (forms[i].len > 1 && (p[1] < forms[i].low || p[1] > forms[i].high))
			return 0;
		for (size_t k = 2; k < forms[i].len; k++)
			if ((p[k] & 0xc0) != 0x80)
				return 0;
		return forms[i].len;
	}
	return 0;
}

bool jtext_is_utf8(struct slice s)
{
	const unsigned char *p = (const unsigned char *)s.data;

	for (size_t at = 0; at < s.len;) {
		size_t n = p[at] < 0x80 ? 1 : utf8_char(p + at, s.len - at);

		if (n == 0)
			return false;
		at += n;
	}
	return true;
}

/* ------------------------------------------------------------------ writing */

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static void add_escaped(struct buf *out, unsigned char c)
{
	static const char from[] = "\"\\\b\f\n\r\t";
	static const char to[] = "\"\\bfnrt";
	const char *p = c ? strchr(from, c) : NULL;

	if (!p) {
		buf_addf(out, "\\u%04x", c);
		return;
	}
	buf_addc(out, '\\');
	buf_addc(out, to[p - from]);
}

bool jtext_add_string(struct buf *out, struct slice s)
{
	const unsigned char *p = (const unsigned char *)s.data;
	size_t before = out->len;

	buf_addc(out, '"');
	for (size_t at = 0; at < s.len;) {
		size_t n = 0;

		while (at + n < s.len && is_plain(p[at + n]))
			n++;
		if (n == 0 && p[at] >= 0x80) {
			n = utf8_char(p + at, s.len - at);
			if (n == 0) {
				buf_truncate(out, before);
				return false;
			}
		}
		if (n > 0) {
			buf_add(out, p + at, n);
			at += n;
		} else {
			add_escaped(out, p[at++]);
		}
	}
	buf_addc(out, '"');
	return true;
}

/* ------------------------------------------------------------------ the grammar */

/* What is left to read. Each of the functions below reads one thing at its front. */
struct cursor {
	const char *p;
	const char *end;
};

static bool take(struct cursor *c, char what)
{
	if (c->p == c->end || *c->p != what)
		return false;
	c->p++;
	return true;
}

static bool take_word(struct cursor *c, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
		return false;
	c->p += n;
	return true;
}

static void take_blanks(struct cursor *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
		c->p++;
}

static size_t take_digits(struct cursor *c)
{
	const char *from = c->p;

	while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
		c->p++;
	return (size_t)(c->p - from);
}

static bool take_number(struct cursor *c)
{
	take(c, '-');
	if (!take(c, '0') && take_digits(c) == 0)
		return false;
	if (take(c, '.') && take_digits(c) == 0)
		return false;
	if (take(c, 'e') || take(c, 'E')) {
		if (!take(c, '+'))
			take(c, '-');
		return take_digits(c) > 0;
	}
	return true;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The four digits after \u; -1 when they are none. */
static int take_hex4(struct cursor *c)
{
	int n = 0;

	if (c->end - c->p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex(c->p[i]);

		if (digit < 0)
			return -1;
		n = n * 16 + digit;
	}
	c->p += 4;
	return n;
}

/* What follows a backslash, as a code point; 0 when it is nothing that may be there. */
static uint32_t take_escape(struct cursor *c)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	const char *p;
	int high, low;

	if (c->p == c->end)
		return 0;
	if (*c->p != 'u') {
		p = *c->p ? strchr(from, *c->p) : NULL;
		c->p++;
		return p ? (uint32_t)to[p - from] : 0;
	}
	c->p++;
	high = take_hex4(c);
	if (high <= 0 || (high >= 0xdc00 && high <= 0xdfff))
		return 0;
	if (high < 0xd800 || high > 0xdbff)
		return (uint32_t)high;
	if (!take_word(c, "\\u"))
		return 0;
	low = take_hex4(c);
	if (low < 0xdc00 || low > 0xdfff)
		return 0;
	return 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

static bool take_string(struct cursor *c)
{
	if (!take(c, '"'))
		return false;
	while (c->p < c->end) {
		unsigned char b = (unsigned char)*c->p;
		size_t n;

		if (is_plain(b)) {
			c->p++;
		} else if (b == '"') {
			c->p++;
			return true;
		} else if (b == '\\') {
			c->p++;
			if (take_escape(c) == 0)
				return false;
		} else if (b < 0x20) {
			return false;
		} else {
			n = utf8_char((const unsigned char *)c->p, (size_t)(c->end - c->p));
			if (n == 0)
				return false;
			c->p += n;
		}
	}
	return false;
}

static bool take_value(struct cursor *c, int depth);

/* "[" or "{" and what is in it; members have a key in front. */
static bool take_container(struct cursor *c, bool members, int depth)
{
	char close = members ? '}' : ']';

	c->p++;
	take_blanks(c);
	if (take(c, close))
		return true;
	do {
		take_blanks(c);
		if (members) {
			if (!take_string(c))
				return false;
			take_blanks(c);
			if (!take(c, ':'))
				return false;
			take_blanks(c);
		}
		if (!take_value(c, depth - 1))
			return false;
		take_blanks(c);
	} while (take(c, ','));
	return take(c, close);
}

static bool take_value(struct cursor *c, int depth)
{
	if (c->p == c->end || depth == 0)
		return false;
	switch (*c->p) {
	case '"':
		return take_string(c);
	case '{':
		return take_container(c, true, depth);
	case '[':
		return take_container(c, false, depth);
	case 't':
		return take_word(c, "true");
	case 'f':
		return take_word(c, "false");
	case 'n':
		return take_word(c, "null");
	default:
		return take_number(c);
	}
}

/* ------------------------------------------------------------------ reading */

static struct cursor cursor_of(struct slice s)
{
	return (struct cursor){.p = s.data, .end = s.data + s.len};
}

size_t jtext_value(struct slice text)
{
	struct cursor c = cursor_of(text);

	return take_value(&c, JTEXT_DEPTH_MAX) ? (size_t)(c.p - text.data) : 0;
}

bool jtext_object(struct slice text, struct jtext_members *m)
{
	struct cursor c = cursor_of(text);
	const char *open;

	take_blanks(&c);
	open = c.p;
	if (c.p == c.end || *c.p != '{' || !take_value(&c, JTEXT_DEPTH_MAX))
		return false;
	take_blanks(&c);
	if (c.p != c.end)
		return false;
	*m = (struct jtext_members){.rest = slice_of(open + 1, (size_t)(c.end - open - 1))};
	return true;
}

bool jtext_member(struct jtext_members *m, struct slice *key, struct slice *value)
{
	struct cursor c = cursor_of(m->rest);

	take_blanks(&c);
	if (m->begun && !take(&c, ','))
		return false;
	take_blanks(&c);
	key->data = c.p;
	if (!take_string(&c))
		return false;
	key->len = (size_t)(c.p - key->data);
	take_blanks(&c);
	take(&c, ':');
	take_blanks(&c);
	value->data = c.p;
	if (!take_value(&c, JTEXT_DEPTH_MAX))
		return false;
	value->len = (size_t)(c.p - value->data);
	m->rest = slice_of(c.p, (size_t)(c.end - c.p));
	m->begun = true;
	return true;
}

bool jtext_is_string(struct slice value)
{
	return value.len >= 2 && value.data[0] == '"';
}

static size_t put_utf8(char out[4], uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* The next character of a string's inside, as bytes. */
static size_t next_char(struct cursor *c, char out[4])
{
	size_t n;

	if (*c->p == '\\') {
		c->p++;
		return put_utf8(out, take_escape(c));
	}
	n = (unsigned char)*c->p < 0x80
		    ? 1
		    : utf8_char((const unsigned char *)c->p, (size_t)(c->end - c->p));
	memcpy(out, c->p, n);
	c->p += n;
	return n;
}

size_t jtext_text(struct slice string, char *out, size_t size)
{
	struct cursor c = {string.data + 1, string.data + string.len - 1};
	size_t len = 0, kept = 0;
	bool full = false;

	while (c.p < c.end) {
		char bytes[4];
		size_t n = next_char(&c, bytes);

		full = full || kept + n + 1 > size;
		if (!full) {
			memcpy(out + kept, bytes, n);
			kept += n;
		}
		len += n;
	}
	if (size > 0)
		out[kept] = '\0';
	return len;
}

bool jtext_is(struct slice string, const char *text)
{
	size_t n = strlen(text);
	char decoded[64];

	if (!memchr(string.data, '\\', string.len))
		return string.len == n + 2 && memcmp(string.data + 1, text, n) == 0;
	return n < sizeof(decoded) && jtext_text(string, decoded, sizeof(decoded)) == n &&
	       memcmp(decoded, text, n) == 0;
}

/* A number longer than this means nothing to anybody here. */
#define NUMBER_MAX 64

bool jtext_number(struct slice value, double *n)
{
	char text[NUMBER_MAX];

	if (value.len == 0 || value.len >= sizeof(text) ||
	    (value.data[0] != '-' && !(value.data[0] >= '0' && value.data[0] <= '9')))
		return false;
	memcpy(text, value.data, value.len);
	text[value.len] = '\0';
	*n = strtod(text, NULL);
	return true;
}
