/* keys.c - see keys.h. */
#include "keys.h"

/* The part of a key that decides its slot is between the first '{' and the next '}', if any. */
bool keys_has_tag(const char *name)
{
	const char *open = strchr(name, '{');
	const char *close = open ? strchr(open + 1, '}') : NULL;

	return close && close > open + 1;
}

int keys_check_name(const char *queue, struct err *e)
{
	if (!queue[0])
		return err_set(e, EXIT_CONFIG, "a queue needs a name; it is the stream's key");
	for (const unsigned char *p = (const unsigned char *)queue; *p; p++)
		if (*p < 0x20 || *p == 0x7f)
			return err_set(e, EXIT_CONFIG,
				       "queue name has the byte 0x%02x; use printable ones", *p);
	if (!keys_has_tag(queue) && strchr(queue, '}'))
		return err_set(
			e, EXIT_CONFIG,
			"queue name \"%s\": a '}' without a {tag} before it keeps its keys out "
			"of one hash slot; choose another name",
			queue);
	return 0;
}

static char *aux(const char *queue, const char *suffix)
{
	return keys_has_tag(queue) ? xasprintf("%s:%s", queue, suffix)
				   : xasprintf("{%s}:%s", queue, suffix);
}

void keys_init(struct keys *k, const char *queue)
{
	k->stream = xstrdup(queue);
	k->prefix = aux(queue, "");
	k->delayed = aux(queue, "delayed");
	k->bodies = aux(queue, "bodies");
	k->dead = aux(queue, "dead");
	k->held = aux(queue, "held");
	k->counters = aux(queue, "counters");
	k->ckpt = aux(queue, "ckpt");
	k->progress = aux(queue, "progress");
	k->crash = aux(queue, "crash");
	k->names = aux(queue, "names");
	k->tasks = aux(queue, "tasks");
	k->owners = aux(queue, "owners");
	k->pending = aux(queue, "pending");
	k->letters = aux(queue, "letters");
	k->processing = aux(queue, "processing:");
	k->last_id = aux(queue, "last_id");
	k->arrived = aux(queue, "arrived");
	k->claim = aux(queue, "consumer:");
	k->result = aux(queue, "result:");
	k->failed = aux(queue, "failed:");
}

void keys_of_list(const struct keys *k, const char *out[KEYS_OF_LIST])
{
	const char *const all[KEYS_OF_LIST] = {k->tasks,   k->owners,  k->pending,   k->letters,
					       k->last_id, k->arrived, k->names,     k->bodies,
					       k->dead,    k->held,    k->processing};

	memcpy(out, all, sizeof(all));
}

void keys_release(struct keys *k)
{
	char **all[] = {&k->stream,    &k->delayed, &k->bodies,   &k->dead,    &k->held,
			&k->counters,  &k->ckpt,    &k->progress, &k->crash,   &k->names,
			&k->claim,     &k->result,  &k->failed,   &k->prefix,  &k->arrived,
			&k->last_id,   &k->tasks,   &k->owners,   &k->pending, &k->letters,
			&k->processing};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		free(*all[i]);
		*all[i] = NULL;
	}
}
