/* suspect.c - see suspect.h. */
#include "obituary.h"
#include "suspect.h"

#define RECORD_MAX 256

/* Twice silent: its hosts may have died of it. */
#define STALE_SUSPECT 2

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

enum suspicion suspect_judge(struct slice record, const struct conf_queue *q, char *cause,
			     size_t size)
{
	char text[RECORD_MAX];
	const char *why;
	char *end;
	long count;

	if (size > 0)
		cause[0] = '\0';
	if (record.len == 0)
		return SUSPECT_NONE;
	snprintf(text, sizeof(text), "%.*s", (int)min_i64((int64_t)record.len, RECORD_MAX - 1),
		 record.data);
	count = strtol(text, &end, 10);
	why = *end == ':' ? strchr(end + 1, ':') : NULL;
	if (!why || count <= 0)
		return SUSPECT_NONE; /* cleared, or not a record of ours */
	why++;
	if (begins(why, OBITUARY_COMPANY))
		return SUSPECT_ALONE;
	if (begins(why, OBITUARY_BESIDE))
		return SUSPECT_APART;
	if (!begins(why, OBITUARY_ALONE))
		return strcmp(why, "stale") == 0 && count >= STALE_SUSPECT ? SUSPECT_ALONE
									   : SUSPECT_NONE;
	snprintf(cause, size, "%s, crash %ld", why + strlen(OBITUARY_ALONE), count);
	if (q->on_crash != CONF_FOLLOW_RETRY || count >= q->max_crashes)
		return SUSPECT_GUILTY;
	return SUSPECT_ALONE;
}
