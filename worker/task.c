/* task.c - see task.h. */
#include "task.h"

/* The empty cell means "cannot happen". */
struct cell {
	bool ok;
	enum task_state next;
};

#define GO(state) \
	{ \
		.ok = true, .next = TASK_##state \
	}

static const struct cell table[TASK_N_STATES][TASK_N_EVENTS] = {
	[TASK_GONE] = {[TASK_ON_FETCH] = GO(FETCHED)},
	[TASK_FETCHED] = {[TASK_ON_START] = GO(RUNNING),
			  [TASK_ON_FINISH] = GO(SETTLING),
			  [TASK_ON_DISOWN] = GO(GONE)},
	[TASK_RUNNING] = {[TASK_ON_FINISH] = GO(SETTLING), [TASK_ON_DISOWN] = GO(GONE)},
	[TASK_SETTLING] = {[TASK_ON_SETTLE] = GO(GONE), [TASK_ON_DISOWN] = GO(GONE)},
};

bool task_event(struct task *t, enum task_event ev)
{
	const struct cell *c = &table[t->state][ev];

	if (!c->ok)
		return false;
	t->state = c->next;
	return true;
}

const char *task_state_word(enum task_state s)
{
	static const char *const words[] = {
#define X(name, word) word,
		TASK_STATES(X)
#undef X
	};

	return s < TASK_N_STATES ? words[s] : "?";
}

const char *task_event_word(enum task_event ev)
{
	static const char *const words[] = {
#define X(name, word) word,
		TASK_EVENTS(X)
#undef X
	};

	return ev < TASK_N_EVENTS ? words[ev] : "?";
}

void task_init(struct task *t)
{
	*t = (struct task){.state = TASK_GONE, .row = -1};
	buf_init(&t->bytes);
	buf_init(&t->checkpoint);
	buf_init(&t->progress);
	outcome_init(&t->outcome);
	list_init(&t->state_link);
	list_init(&t->link);
}

void task_release(struct task *t)
{
	buf_release(&t->bytes);
	buf_release(&t->checkpoint);
	buf_release(&t->progress);
	outcome_release(&t->outcome);
	free(t->fields);
	t->fields = NULL;
}

/* A payload larger than this is not kept allocated for the slot's next task. */
#define KEEP_BYTES 65536

void task_begin(struct task *t, struct queue *queue, struct slice id, uint64_t token)
{
	INVARIANT(list_empty(&t->link) && !t->run);
	if (t->bytes.cap > KEEP_BYTES)
		buf_release(&t->bytes);
	buf_clear(&t->bytes);
	buf_release(&t->checkpoint);
	buf_release(&t->progress);
	memset(t->notes, 0, sizeof(t->notes));
	t->progress_at_ms = 0;
	outcome_release(&t->outcome);
	outcome_init(&t->outcome);
	t->label[0] = '\0';
	t->n_fields = 0;
	slice_text(id, t->id, sizeof(t->id));
	t->queue = queue;
	t->partition = 0;
	t->n_partitions = 1;
	t->token = token;
	t->suspicion = SUSPECT_NONE;
	t->attempt = 1;
	t->snoozes = 0;
	t->deliveries = 0;
	t->result_ttl_ms = -1;
	t->enqueued_at_ms = entry_id_ms(t->id);
	t->place = LEDGER_HELD;
	t->wants_checkpoint = t->asked_checkpoint = false;
	t->lost = t->is_old = t->orphan = t->sent = t->resent = false;
	t->verdict = (struct verdict){.op = VERDICT_RELEASE};
}

/* The bytes may still move as they grow: only lengths are kept until task_parsed(). */
void task_add_field(struct task *t, struct slice name, struct slice value)
{
	if (t->n_fields == t->cap_fields) {
		t->cap_fields = t->cap_fields ? t->cap_fields * 2 : 8;
		t->fields = xrealloc(t->fields, t->cap_fields * sizeof(*t->fields));
	}
	buf_add(&t->bytes, name.data, name.len);
	buf_add(&t->bytes, value.data, value.len);
	t->fields[t->n_fields].name = slice_of(NULL, name.len);
	t->fields[t->n_fields].value = slice_of(NULL, value.len);
	t->n_fields++;
}

static int64_t number(struct slice s, int64_t otherwise)
{
	char text[24];
	char *end;
	long long n;

	if (s.len == 0 || s.len >= sizeof(text))
		return otherwise;
	memcpy(text, s.data, s.len);
	text[s.len] = '\0';
	if (strspn(text, "-0123456789") != s.len)
		return otherwise;
	n = strtoll(text, &end, 10);
	return *end || end == text ? otherwise : n;
}

static int bounded(int64_t n, int64_t low)
{
	return (int)min_i64(max_i64(n, low), 1000000000);
}

/*
 * The producer's id stands in log lines and in an environment: what would break those is written
 * as %XX, and the rest is cut off. Empty when nothing is left.
 */
static void set_label(struct task *t, struct slice id)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n;

	partition_id_prefix(t->partition, t->n_partitions, id, t->label);
	n = strlen(t->label);
	for (size_t i = 0; i < id.len && n < TASK_LABEL_MAX; i++) {
		unsigned char c = (unsigned char)id.data[i];
		const char as[3] = {'%', hex[c >> 4], hex[c & 15]};
		bool plain = c > ' ' && c != 0x7f;

		for (size_t k = 0; k < (plain ? 1 : sizeof(as)) && n < TASK_LABEL_MAX; k++)
			t->label[n++] = plain ? (char)c : as[k];
	}
	t->label[n] = '\0';
}

/* True when it was one of the reserved fields, which are not the user's. */
static bool reserved(struct task *t, const struct field *f)
{
	if (f->name.len < 8 || memcmp(f->name.data, "redisq.", 7) != 0)
		return false;
	if (slice_eq_str(f->name, "redisq.id")) {
		set_label(t, f->value);
	} else if (slice_eq_str(f->name, "redisq.attempt")) {
		t->attempt = bounded(number(f->value, 1), 1);
	} else if (slice_eq_str(f->name, "redisq.snoozes")) {
		t->snoozes = bounded(number(f->value, 0), 0);
	} else if (slice_eq_str(f->name, "redisq.deliveries")) {
		t->deliveries = bounded(number(f->value, 0), 0);
	} else if (slice_eq_str(f->name, "redisq.enqueued_at")) {
		t->enqueued_at_ms = max_i64(number(f->value, t->enqueued_at_ms), 0);
	} else if (slice_eq_str(f->name, "redisq.result_ttl")) {
		t->result_ttl_ms = min_i64(max_i64(number(f->value, -1), -1), TASK_RESULT_TTL_MAX);
	} else {
		return false;
	}
	return true;
}

void task_parsed(struct task *t)
{
	const char *at = t->bytes.data;
	size_t kept = 0;

	for (size_t i = 0; i < t->n_fields; i++) {
		struct field f = t->fields[i];

		f.name.data = at;
		f.value.data = at + f.name.len;
		at += f.name.len + f.value.len;
		if (!reserved(t, &f))
			t->fields[kept++] = f;
	}
	t->n_fields = kept;
	t->deliveries += (int64_t)t->token;
	if (!t->label[0])
		set_label(t, slice_str(t->id));
}

int task_note(struct task *t, enum task_note what, struct slice value)
{
	struct buf *b = what == NOTE_CHECKPOINT ? &t->checkpoint : &t->progress;

	if (value.len > (what == NOTE_CHECKPOINT ? TASK_CHECKPOINT_MAX : TASK_PROGRESS_MAX))
		return -1;
	buf_clear(b);
	buf_add(b, value.data, value.len);
	t->notes[what].said++;
	return 0;
}

bool task_ran_before(const struct task *t)
{
	return t->attempt > 1 || t->snoozes > 0 || t->deliveries > 1;
}

size_t task_size(const struct task *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_fields; i++)
		n += t->fields[i].name.len + t->fields[i].value.len;
	return n;
}

const struct field *task_field(const struct task *t, const char *name)
{
	for (size_t i = t->n_fields; i-- > 0;)
		if (slice_eq_str(t->fields[i].name, name))
			return &t->fields[i];
	return NULL;
}

int64_t entry_id_ms(const char *id)
{
	char *end;
	long long n = strtoll(id, &end, 10);

	return end != id && *end == '-' && n > 0 ? n : 0;
}
