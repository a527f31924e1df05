/* findings.c - see findings.h. */
#include "entry.h"
#include "findings.h"
#include "out.h"
#include "table.h"

struct finding {
	const char *queue; /* borrowed, NULL = of Redis */
	const char *check; /* static */
	enum finding_state state;
	char *text;       /* owned */
	char *what_to_do; /* owned, NULL = nothing */
};

struct findings {
	struct finding *v; /* owned */
	size_t n;
	const char *queue; /* borrowed */
};

static const struct {
	const char *word;
	const char *mark;
	enum out_colour colour;
} states[] = {
	[FINDING_FINE] = {"fine", "ok", OUT_GREEN},
	[FINDING_NOTE] = {"note", "--", OUT_PLAIN},
	[FINDING_BAD] = {"bad", "!!", OUT_RED},
	[FINDING_UNKNOWN] = {"unknown", "?", OUT_YELLOW},
};

struct findings *findings_new(void)
{
	return xcalloc(1, sizeof(struct findings));
}

void findings_free(struct findings *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].text);
		free(f->v[i].what_to_do);
	}
	free(f->v);
	free(f);
}

void findings_about(struct findings *f, const char *queue)
{
	f->queue = queue;
}

ATTR_PRINTF(5, 0)
static struct finding *add(struct findings *f, const char *check, enum finding_state state,
			   const char *front, const char *fmt, va_list ap)
{
	struct buf text = BUF_INIT;
	struct finding *one;

	buf_adds(&text, front);
	buf_vaddf(&text, fmt, ap);
	f->v = xrealloc(f->v, (f->n + 1) * sizeof(*f->v));
	one = &f->v[f->n++];
	*one = (struct finding){.queue = f->queue, .check = check, .state = state};
	one->text = buf_detach(&text);
	return one;
}

void finding_fine(struct findings *f, const char *check, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(f, check, FINDING_FINE, "", fmt, ap);
	va_end(ap);
}

void finding_note(struct findings *f, const char *check, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(f, check, FINDING_NOTE, "", fmt, ap);
	va_end(ap);
}

void finding_bad(struct findings *f, const char *check, const char *what_to_do, const char *fmt,
		 ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(f, check, FINDING_BAD, "", fmt, ap)->what_to_do = xstrdup(what_to_do);
	va_end(ap);
}

void finding_unknown(struct findings *f, const char *check, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(f, check, FINDING_UNKNOWN, "not known: ", fmt, ap);
	va_end(ap);
}

size_t findings_n_bad(const struct findings *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += f->v[i].state == FINDING_BAD;
	return n;
}

void findings_print(const struct findings *f, struct buf *out)
{
	struct table *t = table_new("of check finding");
	struct buf line = BUF_INIT;
	struct buf before = BUF_INIT;
	struct buf after = BUF_INIT;

	out_colour(&after, OUT_PLAIN);
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->v[i];

		buf_clear(&line);
		out_bytes(&line, slice_str(one->queue ? one->queue : "Redis"), 40);
		table_cell(t, line.data);
		table_cell(t, one->check);
		buf_clear(&line);
		buf_addf(&line, "%-2s ", states[one->state].mark);
		out_bytes(&line, slice_str(one->text), SIZE_MAX);
		if (one->what_to_do) {
			buf_adds(&line, "; ");
			out_bytes(&line, slice_str(one->what_to_do), SIZE_MAX);
		}
		table_cell(t, line.data);
		buf_clear(&before);
		out_colour(&before, states[one->state].colour);
		if (before.len && one->state != FINDING_NOTE)
			table_paint(t, before.data, after.data);
	}
	table_print(t, 0, out);
	table_free(t);
	buf_release(&line);
	buf_release(&before);
	buf_release(&after);
}

json_t *findings_json(const struct findings *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->v[i];
		json_t *o = json_object();

		json_object_set_new(o, "queue",
				    one->queue ? entry_string(slice_str(one->queue)) : json_null());
		json_object_set_new(o, "check", json_string(one->check));
		json_object_set_new(o, "state", json_string(states[one->state].word));
		json_object_set_new(o, "text", entry_string(slice_str(one->text)));
		json_object_set_new(o, "do",
				    one->what_to_do ? entry_string(slice_str(one->what_to_do))
						    : json_null());
		json_array_append_new(list, o);
	}
	return list;
}
