/* answer.c - see answer.h. */
#include <jansson.h>

#include "answer.h"

#define DELAY_MAX_MS (366LL * 24 * 3600 * 1000)

static const struct {
	const char *word;
	enum answer_type type;
} types[] = {
	{"done", ANSWER_DONE},
	{"retry", ANSWER_RETRY},
	{"snooze", ANSWER_SNOOZE},
	{"dead", ANSWER_DEAD},
};

void answer_init(struct answer *a)
{
	*a = (struct answer){.type = ANSWER_NONE, .delay_ms = -1};
}

static int take(struct answer *a, const json_t *line, char why[128])
{
	const char *word = json_string_value(json_object_get(line, "type"));
	const json_t *delay = json_object_get(line, "delay_ms");
	const json_t *error = json_object_get(line, "error");
	enum answer_type type = ANSWER_NONE;

	if (!word) {
		snprintf(why, 128, "no \"type\"");
		return -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(word, types[i].word) == 0)
			type = types[i].type;
	if (type == ANSWER_NONE)
		return 0;
	if (delay && (!json_is_number(delay) || json_number_value(delay) < 0 ||
		      json_number_value(delay) > (double)DELAY_MAX_MS)) {
		snprintf(why, 128, "\"delay_ms\" is not a number of milliseconds up to a year");
		return -1;
	}
	a->type = type;
	a->delay_ms = delay ? (int64_t)json_number_value(delay) : -1;
	snprintf(a->error, sizeof(a->error), "%s",
		 json_is_string(error) ? json_string_value(error) : "");
	for (char *p = a->error; *p; p++)
		if (*p == '\n' || *p == '\r')
			*p = ' ';
	return 0;
}

int answer_line(struct answer *a, struct slice text, char why[128])
{
	json_error_t e;
	json_t *line;
	int r;

	while (text.len > 0 && (text.data[text.len - 1] == '\r' || text.data[text.len - 1] == ' '))
		text.len--;
	if (text.len == 0)
		return 0;
	line = json_loadb(text.data, text.len, 0, &e);
	if (!line) {
		snprintf(why, 128, "not JSON: %.100s", e.text);
		return -1;
	}
	r = take(a, line, why);
	json_decref(line);
	return r;
}
