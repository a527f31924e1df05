/* answer.c - see answer.h. */
#include "answer.h"
#include "jtext.h"

#define DELAY_MAX_MS (366LL * 24 * 3600 * 1000)

static const struct {
	const char *word;
	enum answer_type type;
} types[] = {
	{"done", ANSWER_DONE},
	{"retry", ANSWER_RETRY},
	{"snooze", ANSWER_SNOOZE},
	{"dead", ANSWER_DEAD},
	{"ready", ANSWER_READY},
	{"progress", ANSWER_PROGRESS},
	{"checkpoint", ANSWER_CHECKPOINT},
};

/* The members we know, as written; .data NULL where a line has none. */
struct members {
	struct slice type, id, slots, delay_ms, error, result, value;
};

void answer_init(struct answer *a)
{
	a->type = ANSWER_NONE;
	a->slots = 1;
	a->delay_ms = -1;
	a->value = slice_of(NULL, 0);
	a->has_id = false;
	a->id_len = 0;
	a->id[0] = '\0';
	a->error[0] = '\0';
}

bool answer_is_end(const struct answer *a)
{
	return a->type >= ANSWER_DONE && a->type <= ANSWER_DEAD;
}

static int wrong(char why[128], const char *text)
{
	snprintf(why, 128, "%s", text);
	return -1;
}

/* Of several members with one name the last counts. */
static bool collect(struct slice line, struct members *m)
{
	const struct {
		const char *name;
		struct slice *at;
	} known[] = {
		{"type", &m->type},         {"id", &m->id},         {"slots", &m->slots},
		{"error", &m->error},       {"result", &m->result}, {"value", &m->value},
		{"delay_ms", &m->delay_ms},
	};
	struct jtext_members all;
	struct slice key, value;

	*m = (struct members){.type = {NULL, 0}};
	if (!jtext_object(line, &all))
		return false;
	while (jtext_member(&all, &key, &value))
		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			if (jtext_is(key, known[i].name))
				*known[i].at = value;
	return true;
}

static enum answer_type type_of(struct slice word)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (jtext_is(word, types[i].word))
			return types[i].type;
	return ANSWER_NONE;
}

/* A number from `low` to `high`; false: it is none. */
static bool number(struct slice value, double low, double high, double *n)
{
	return jtext_number(value, n) && *n >= low && *n <= high;
}

static void take_error(struct answer *a, struct slice error)
{
	if (!jtext_is_string(error))
		return;
	jtext_text(error, a->error, sizeof(a->error));
	blank_controls(a->error);
}

int answer_line(struct answer *a, struct slice line, char why[128])
{
	struct members m;
	enum answer_type type;
	double slots = 1, delay = -1;

	while (line.len > 0 && (line.data[line.len - 1] == '\r' || line.data[line.len - 1] == ' '))
		line.len--;
	if (line.len == 0) {
		answer_init(a);
		return 0;
	}
	if (!collect(line, &m))
		return wrong(why, "not a JSON object");
	if (!jtext_is_string(m.type))
		return wrong(why, "no \"type\"");
	type = type_of(m.type);
	if (type == ANSWER_NONE) {
		answer_init(a);
		return 0;
	}
	if (m.id.data && !jtext_is_string(m.id))
		return wrong(why, "\"id\" is not a string");
	if (type == ANSWER_READY && m.slots.data && !number(m.slots, 1, ANSWER_SLOTS_MAX, &slots))
		return wrong(why, "\"slots\" is not a number from 1 to 10000");
	if (m.delay_ms.data && type != ANSWER_PROGRESS && type != ANSWER_CHECKPOINT &&
	    !number(m.delay_ms, 0, (double)DELAY_MAX_MS, &delay))
		return wrong(why, "\"delay_ms\" is not a number of milliseconds up to a year");
	answer_init(a);
	a->type = type;
	a->slots = (int)slots;
	a->delay_ms = (int64_t)delay;
	a->value = type == ANSWER_DONE ? m.result : m.value;
	if (m.id.data) {
		a->has_id = true;
		a->id_len = jtext_text(m.id, a->id, sizeof(a->id));
	}
	take_error(a, m.error);
	return 0;
}
