/* kind.c - see kind.h. */
#include <stddef.h>

#include "kind.h"

#define THE_QUEUE 0
#define LAST_ID 7
#define DELAYED 8
#define BIT(row) (UINT32_C(1) << (row))

/* NULL: that kind has no such key. */
static const struct {
	size_t key; /* where in struct keys */
	const char *of_stream;
	const char *of_list;
} rows[KIND_KEYS] = {
	[THE_QUEUE] = {offsetof(struct keys, stream), "stream", "list"},
	{offsetof(struct keys, dead), "stream", "zset"},
	{offsetof(struct keys, held), "stream", "zset"},
	{offsetof(struct keys, tasks), NULL, "hash"},
	{offsetof(struct keys, owners), NULL, "hash"},
	{offsetof(struct keys, pending), NULL, "zset"},
	{offsetof(struct keys, arrived), NULL, "list"},
	[LAST_ID] = {offsetof(struct keys, last_id), NULL, "string"},
	[DELAYED] = {offsetof(struct keys, delayed), "zset", "zset"},
};

const char *kind_key(const struct keys *k, size_t row)
{
	char *const *key = (char *const *)(const void *)((const char *)k + rows[row].key);

	return *key;
}

static bool is_type(struct slice type, const char *word)
{
	return word && slice_eq_str(type, word);
}

void kind_note(struct kind_found *f, size_t row, struct slice type)
{
	bool of_stream = is_type(type, rows[row].of_stream);
	bool of_list = is_type(type, rows[row].of_list);

	if (row == DELAYED)
		f->has_delayed = of_list;
	else if (of_stream)
		f->of_stream |= BIT(row);
	else if (of_list)
		f->of_list |= BIT(row);
	else if (row == THE_QUEUE && type.len && !slice_eq_str(type, "none"))
		slice_text(type, f->other, sizeof(f->other));
}

/* q was served as a list ({q}:dead, {q}:last_id): by all but the queue itself. */
static void add_served(uint32_t bits, const char *kind, const struct keys *k, struct buf *out)
{
	const char *before = "(";

	buf_addf(out, "%s was served as a %s ", k->stream, kind);
	for (size_t row = 1; row < KIND_KEYS; row++) {
		if (!(bits & BIT(row)))
			continue;
		buf_addf(out, "%s%s", before, kind_key(k, row));
		before = ", ";
	}
	buf_addc(out, ')');
}

#define AS_BEFORE "to change it, empty it first: see backend in redisq.ini(5)"

bool kind_conflict(const struct kind_found *f, bool as_list, const struct keys *k, struct buf *what,
		   struct buf *cure)
{
	const char *kind = as_list ? "list" : "stream";
	const char *other = as_list ? "stream" : "list";
	uint32_t theirs = as_list ? f->of_stream : f->of_list;
	uint32_t ours = as_list ? f->of_list : f->of_stream;
	uint32_t beside = theirs & ~BIT(THE_QUEUE);
	bool is_theirs = theirs & BIT(THE_QUEUE);
	bool is_ours = ours & BIT(THE_QUEUE);

	if (f->other[0]) {
		buf_addf(what, "%s is a %s, not a %s", k->stream, f->other, kind);
		buf_adds(cure, "choose another queue name");
		return true;
	}
	if (!theirs)
		return false;
	if (is_theirs)
		buf_addf(what, "%s is a %s, not a %s", k->stream, other, kind);
	else
		add_served(beside, other, k, what);

	if (is_theirs && !beside && ours)
		/* It is what it is to be, and somebody has added to it in the other way. */
		buf_addf(cure, "producers must %s: move what they added away, RENAME %s %saside",
			 as_list ? "LPUSH, not XADD" : "XADD, not LPUSH", k->stream, k->prefix);
	else if (is_theirs && !beside && !as_list)
		buf_adds(cure, "set backend = list; or producers must XADD, not LPUSH");
	else if (beside == BIT(LAST_ID) && is_ours)
		buf_addf(cure, "stop its workers and DEL %s %s", k->last_id, k->counters);
	else if (beside == BIT(LAST_ID) && !is_theirs && !f->has_delayed)
		/* All that a list leaves behind when it is empty. */
		buf_addf(cure,
			 "set backend = list; or, as it is empty, stop its workers and DEL %s %s",
			 k->last_id, k->counters);
	else if (is_ours)
		buf_addf(cure, "RENAME %s %saside and set backend = %s; " AS_BEFORE, k->stream,
			 k->prefix, other);
	else
		buf_addf(cure, "set backend = %s; " AS_BEFORE, other);
	return true;
}
