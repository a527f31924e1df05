/*
 * fuzz_answer.c - any bytes on a handler's fd 3, then any exit: no crash; a line that is refused
 * says why and changes nothing; what remains fits in one log line. And jtext.h against jansson: the
 * two agree on what is an object, and on the text of a string.
 */
#include <jansson.h>

#include "jtext.h"
#include "worker/exec_exit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* jansson refuses numbers that it cannot represent, too, and lets a NUL pass after a number. */
static void check_json(struct slice line)
{
	struct jtext_members all;
	struct slice key, value;
	bool ours = jtext_object(line, &all);
	json_error_t e;
	json_t *theirs;

	if (line.len > 0 && memchr(line.data, '\0', line.len)) {
		INVARIANT(!ours);
		return;
	}
	theirs = json_loadb(line.data, line.len, 0, &e);
	INVARIANT(!theirs || !json_is_object(theirs) || ours);
	INVARIANT(!ours || theirs || json_error_code(&e) == json_error_numeric_overflow);
	while (theirs && ours && jtext_member(&all, &key, &value)) {
		char name[256];
		size_t n = jtext_text(key, name, sizeof(name));
		const json_t *v = n < sizeof(name) ? json_object_get(theirs, name) : NULL;

		INVARIANT(jtext_value(value) == value.len);
		INVARIANT(n >= sizeof(name) || v);
	}
	json_decref(theirs);
}

static void check_line(struct answer *a, struct slice line)
{
	struct answer before = *a;
	char why[128] = "";

	check_json(line);
	if (answer_line(a, line, why) < 0) {
		INVARIANT(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
		INVARIANT(a->type == before.type && a->delay_ms == before.delay_ms);
		INVARIANT(strcmp(a->error, before.error) == 0);
	}
	INVARIANT(a->type <= ANSWER_CHECKPOINT && a->delay_ms >= -1);
	INVARIANT(a->slots >= 1 && a->slots <= ANSWER_SLOTS_MAX);
	INVARIANT(memchr(a->id, '\0', sizeof(a->id)) != NULL);
	INVARIANT(memchr(a->error, '\0', sizeof(a->error)) != NULL);
	INVARIANT(strpbrk(a->error, "\r\n") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data;
	const char *end = at + size;
	struct child_exit x = {.signaled = false};
	struct outcome o;
	struct answer a;

	if (size < 2)
		return 0;
	x.signaled = (*at & 1) != 0;
	x.core = (*at & 2) != 0;
	x.code = x.signaled ? (at[1] & 63) + 1 : (unsigned char)at[1];
	answer_init(&a);
	for (const char *p = at + 2; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *stop = nl ? nl : end;

		check_line(&a, slice_of(p, (size_t)(stop - p)));
		p = stop + 1;
	}
	if (!answer_is_end(&a))
		answer_init(&a);
	for (int stop = EXEC_NOT_STOPPED; stop <= EXEC_STOP_CANCEL; stop++) {
		outcome_init(&o);
		exec_outcome(&o, &x, &a, (enum exec_stop)stop, 1000);
		INVARIANT(o.error[0] != '\0' && strpbrk(o.error, "\r\n") == NULL);
		INVARIANT((o.signal > 0) == x.signaled && (o.exit_code >= 0) != x.signaled);
		outcome_release(&o);
	}
	return 0;
}
