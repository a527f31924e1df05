/* findings.c - see findings.h. */
#include "entry.h"
#include "findings.h"
#include "out.h"
#include "partition.h"
#include "table.h"

#define SHOWN 4     /* runs of partitions of one finding */
#define ALIKE_MAX 3 /* that are told one by one */

struct finding {
	const char *queue; /* borrowed, NULL = of Redis */
	const char *check; /* static */
	uint64_t parts;    /* a bit each; 0 = of the queue as a whole */
	bool is_all;       /* that is all of them */
	enum finding_state state;
	char *text;       /* owned */
	char *what_to_do; /* owned, NULL = nothing */
};

struct findings {
	struct finding *v; /* owned */
	size_t n;
	const char *queue; /* borrowed */
	uint64_t part;     /* its bit, or 0 */
};

_Static_assert(PARTITIONS_MAX <= 64, "a bit each");

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

static void release(struct finding *one)
{
	free(one->text);
	free(one->what_to_do);
}

void findings_free(struct findings *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++)
		release(&f->v[i]);
	free(f->v);
	free(f);
}

void findings_about(struct findings *f, const char *queue)
{
	f->queue = queue;
	f->part = 0;
}

void findings_about_partition(struct findings *f, int partition)
{
	f->part = partition == PARTS_ANY ? 0 : UINT64_C(1) << partition;
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
	*one = (struct finding){
		.queue = f->queue, .check = check, .parts = f->part, .state = state};
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

/* ------------------------------------------------------------------ folding */

size_t findings_n(const struct findings *f)
{
	return f->n;
}

/* The same, but for numbers and names in its text. */
static bool is_alike(const struct finding *a, const struct finding *b)
{
	const char *do_a = a->what_to_do ? a->what_to_do : "";
	const char *do_b = b->what_to_do ? b->what_to_do : "";

	return a->state == b->state && strcmp(a->check, b->check) == 0 && strcmp(do_a, do_b) == 0;
}

static bool is_same(const struct finding *a, const struct finding *b)
{
	return is_alike(a, b) && strcmp(a->text, b->text) == 0;
}

/* What is as f->v[i], by `is_one`, becomes part of it; how many that were. */
static size_t join(struct findings *f, size_t i,
		   bool (*is_one)(const struct finding *, const struct finding *))
{
	size_t n = i + 1;
	size_t was = f->n;

	for (size_t k = i + 1; k < f->n; k++) {
		if (is_one(&f->v[i], &f->v[k])) {
			f->v[i].parts |= f->v[k].parts;
			release(&f->v[k]);
		} else {
			f->v[n++] = f->v[k];
		}
	}
	f->n = n;
	return was - n;
}

static size_t n_alike(const struct findings *f, size_t i)
{
	size_t n = 0;

	for (size_t k = i; k < f->n; k++)
		n += is_alike(&f->v[i], &f->v[k]);
	return n;
}

/* Each of few that are alike has its numbers told; of many the first. */
static void join_alike(struct findings *f, size_t from)
{
	for (size_t i = from; i < f->n; i++) {
		char *text = f->v[i].text;
		size_t n;

		if (f->v[i].state == FINDING_FINE || n_alike(f, i) <= ALIKE_MAX)
			continue;
		n = join(f, i, is_alike);
		f->v[i].text = xasprintf("%s (and the like %zu times)", text, n);
		free(text);
	}
}

/* Which partitions a check is fine in. */
static uint64_t fine_parts(const struct findings *f, size_t from, const char *check)
{
	uint64_t parts = 0;

	for (size_t i = from; i < f->n; i++)
		if (f->v[i].state == FINDING_FINE && strcmp(f->v[i].check, check) == 0)
			parts |= f->v[i].parts;
	return parts;
}

/* Fine in several ways: that it is fine is what there is to say. */
static void join_fine(struct findings *f, size_t from, uint64_t all)
{
	size_t n = from;

	for (size_t i = from; i < f->n; i++) {
		struct finding one = f->v[i];
		bool is_first = true;

		for (size_t k = from; k < n; k++)
			is_first &= f->v[k].state != FINDING_FINE ||
				    strcmp(f->v[k].check, one.check) != 0;
		if (one.state == FINDING_FINE && one.parts != all) {
			if (!is_first || fine_parts(f, i, one.check) != all) {
				release(&one);
				continue;
			}
			free(one.text);
			one.text = xasprintf("in each of the %d partitions",
					     __builtin_popcountll(all));
			one.parts = all;
		}
		f->v[n++] = one;
	}
	f->n = n;
}

/* The checks in the order in which they first came. */
static void group_checks(struct findings *f, size_t from)
{
	for (size_t i = from; i < f->n; i++) {
		size_t to = i + 1;

		for (size_t k = i + 1; k < f->n; k++) {
			struct finding one = f->v[k];

			if (strcmp(one.check, f->v[i].check) != 0)
				continue;
			memmove(&f->v[to + 1], &f->v[to], (k - to) * sizeof(one));
			f->v[to++] = one;
		}
		i = to - 1;
	}
}

void findings_fold(struct findings *f, size_t from, size_t n, uint64_t asked)
{
	for (size_t i = from; i < f->n; i++)
		join(f, i, is_same);
	join_alike(f, from);
	join_fine(f, from, asked);
	group_checks(f, from);
	for (size_t i = from; i < f->n; i++)
		f->v[i].is_all = f->v[i].parts == UINT64_MAX >> (64 - n);
}

/* ------------------------------------------------------------------ telling */

/* "jobs", "jobs:3", "jobs:0,2-7": what it is of. */
static void say_of(const struct finding *one, struct buf *out)
{
	int n = 0;

	out_bytes(out, slice_str(one->queue ? one->queue : "Redis"), 40);
	for (int i = 0, end; i < PARTITIONS_MAX && !one->is_all; i = end + 1) {
		for (end = i; end < PARTITIONS_MAX && (one->parts >> end & 1);)
			end++;
		if (end == i)
			continue;
		if (n == SHOWN)
			buf_adds(out, ",...");
		else if (n < SHOWN && end == i + 1)
			buf_addf(out, "%c%d", n ? ',' : ':', i);
		else if (n < SHOWN)
			buf_addf(out, "%c%d-%d", n ? ',' : ':', i, end - 1);
		n++;
	}
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
		say_of(one, &line);
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

static json_t *parts_json(uint64_t parts)
{
	json_t *list = json_array();

	for (int i = 0; i < PARTITIONS_MAX; i++)
		if (parts >> i & 1)
			json_array_append_new(list, json_integer(i));
	return list;
}

json_t *findings_json(const struct findings *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->v[i];
		json_t *o = json_object();

		json_object_set_new(o, "queue",
				    one->queue ? entry_string(slice_str(one->queue)) : json_null());
		if (one->parts)
			json_object_set_new(o, "partitions", parts_json(one->parts));
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
