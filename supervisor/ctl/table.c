/* table.c - see table.h. */
#include "table.h"

#define CUT "…" /* in the place of the last character that there is room for */

struct cell {
	char *text;   /* owned */
	char *before; /* owned, NULL = none */
	char *after;  /* owned, NULL = none */
};

struct table {
	size_t n_columns;
	bool right[TABLE_COLUMNS_MAX];
	struct cell *cells; /* owned; the heading is the first row */
	size_t n_cells;
};

static struct cell *add_cell(struct table *t)
{
	struct cell *c;

	t->cells = xrealloc(t->cells, (t->n_cells + 1) * sizeof(*t->cells));
	c = &t->cells[t->n_cells++];
	memset(c, 0, sizeof(*c));
	return c;
}

struct table *table_new(const char *spec)
{
	struct table *t = xcalloc(1, sizeof(*t));

	while (*spec) {
		size_t len = strcspn(spec, " ");
		bool right = *spec == '>';
		char *word = xmemdup0(spec + right, len - right);

		INVARIANT(t->n_columns < TABLE_COLUMNS_MAX);
		for (char *p = word; *p; p++)
			if (*p == '~')
				*p = ' ';
		t->right[t->n_columns++] = right;
		add_cell(t)->text = word;
		spec += len;
		spec += strspn(spec, " ");
	}
	return t;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_cells; i++) {
		free(t->cells[i].text);
		free(t->cells[i].before);
		free(t->cells[i].after);
	}
	free(t->cells);
	free(t);
}

void table_cell(struct table *t, const char *text)
{
	struct cell *c = add_cell(t);

	c->text = xstrdup(text);
	blank_controls(c->text);
}

void table_cellf(struct table *t, const char *fmt, ...)
{
	struct buf b = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(&b, fmt, ap);
	va_end(ap);
	add_cell(t)->text = buf_detach(&b);
}

void table_paint(struct table *t, const char *before, const char *after)
{
	struct cell *c = &t->cells[t->n_cells - 1];

	c->before = xstrdup(before);
	c->after = xstrdup(after);
}

size_t table_n_rows(const struct table *t)
{
	return t->n_cells / t->n_columns - 1;
}

/* Every byte that does not continue a UTF-8 sequence begins a character. */
static size_t n_chars(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* Bytes of the first `n` characters. */
static size_t prefix(const char *s, size_t n)
{
	size_t i = 0;

	for (; s[i]; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80 && n-- == 0)
			break;
	return i;
}

static void add_blanks(struct buf *out, size_t n)
{
	while (n-- > 0)
		buf_addc(out, ' ');
}

static void print_cell(const struct table *t, const struct cell *c, size_t column, size_t width,
		       struct buf *out)
{
	size_t n = n_chars(c->text);
	size_t pad = n < width ? width - n : 0;
	bool is_last = column + 1 == t->n_columns;

	if (t->right[column])
		add_blanks(out, pad);
	if (c->before)
		buf_adds(out, c->before);
	buf_add(out, c->text, prefix(c->text, n > width ? width - 1 : width));
	if (n > width)
		buf_adds(out, CUT);
	if (c->after)
		buf_adds(out, c->after);
	if (!t->right[column] && !is_last)
		add_blanks(out, pad);
}

void table_print(const struct table *t, int width, struct buf *out)
{
	size_t widths[TABLE_COLUMNS_MAX] = {0};
	size_t last = t->n_columns - 1;
	size_t used = 0;

	for (size_t i = 0; i < t->n_cells; i++) {
		size_t n = n_chars(t->cells[i].text);

		if (n > widths[i % t->n_columns])
			widths[i % t->n_columns] = n;
	}
	for (size_t i = 0; i < last; i++)
		used += widths[i] + 2;
	if (width > 0 && used + widths[last] > (size_t)width)
		widths[last] = used + 8 < (size_t)width ? (size_t)width - used : 8;
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t column = i % t->n_columns;

		if (column > 0)
			buf_adds(out, "  ");
		print_cell(t, &t->cells[i], column, widths[column], out);
		if (column == last) {
			while (out->len && out->data[out->len - 1] == ' ')
				buf_truncate(out, out->len - 1);
			buf_addc(out, '\n');
		}
	}
}
