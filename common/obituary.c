/* obituary.c - see obituary.h. */
#include <errno.h>
#include <inttypes.h>

#include "chan.h"
#include "obituary.h"
#include "percent.h"

/* " ID TOKEN" at its longest. */
#define PAIR_MAX (BOARD_ID_MAX + 21)

void obituary_init(struct obituary *o)
{
	*o = (struct obituary){.consumer = NULL};
}

void obituary_release(struct obituary *o)
{
	free(o->consumer);
	free(o->ran);
	obituary_init(o);
}

void obituary_add(struct obituary *o, const char *id, uint64_t token)
{
	struct obituary_task *t;

	/* Room for the next power of two. */
	if ((o->n_ran & (o->n_ran - 1)) == 0)
		o->ran = xrealloc(o->ran,
				  (size_t)max_i64(1, 2 * (int64_t)o->n_ran) * sizeof(*o->ran));
	t = &o->ran[o->n_ran++];
	snprintf(t->id, sizeof(t->id), "%s", id);
	t->token = token;
}

static bool is_entry_id(const char *id)
{
	size_t ms = strspn(id, "0123456789");
	size_t seq = id[ms] == '-' ? strspn(id + ms + 1, "0123456789") : 0;

	return ms > 0 && ms <= 19 && seq > 0 && seq <= 19 && id[ms + 1 + seq] == '\0';
}

/* Without leading zeros, as Redis writes them: the longer number is the larger one. */
static int compare_numbers(const char *a, size_t n_a, const char *b, size_t n_b)
{
	if (n_a != n_b)
		return n_a < n_b ? -1 : 1;
	return memcmp(a, b, n_a);
}

int obituary_compare_ids(const char *a, const char *b)
{
	size_t ms_a = strcspn(a, "-"), ms_b = strcspn(b, "-");
	int by_ms = compare_numbers(a, ms_a, b, ms_b);

	if (by_ms)
		return by_ms;
	a += ms_a;
	b += ms_b;
	return compare_numbers(a, strlen(a), b, strlen(b));
}

static int by_id(const void *a, const void *b)
{
	return obituary_compare_ids(((const struct obituary_task *)a)->id,
				    ((const struct obituary_task *)b)->id);
}

void obituary_sort(struct obituary *o)
{
	int kept = 0;

	for (int i = 0; i < o->n_ran; i++)
		if (is_entry_id(o->ran[i].id))
			o->ran[kept++] = o->ran[i];
	o->n_ran = kept;
	if (kept > 1)
		qsort(o->ran, (size_t)kept, sizeof(*o->ran), by_id);
}

/* A word that may be empty. */
static const char *or_dash(const char *text)
{
	return text[0] ? text : "-";
}

void obituary_write(const struct obituary *o, struct buf *lines)
{
	buf_addf(lines, "dead %" PRIu32 " %d %d ", o->order, o->partition, o->n_partitions);
	percent_encode(o->consumer, lines);
	buf_addf(lines, " %s %s %" PRId64 " %" PRId64 " %d %s\n", or_dash(o->nonce),
		 or_dash(o->run_id), o->client_id[0], o->client_id[1], o->charge, o->cause);
	for (int i = 0; i < o->n_ran;) {
		size_t start = lines->len;

		buf_addf(lines, "ran %" PRIu32, o->order);
		do {
			buf_addf(lines, " %s %" PRIu64, o->ran[i].id, o->ran[i].token);
			i++;
		} while (i < o->n_ran && lines->len - start + PAIR_MAX <= CHAN_LINE_MAX);
		buf_addc(lines, '\n');
	}
	buf_addf(lines, "handover %" PRIu32 "\n", o->order);
}

/* The next word of `*at`, which moves behind it; its length, 0 at the end. */
static size_t next_word(const char **at, const char **word)
{
	size_t n;

	*at += strspn(*at, " ");
	*word = *at;
	n = strcspn(*at, " ");
	*at += n;
	return n;
}

static bool copy_word(const char **at, char *out, size_t size)
{
	const char *word;
	size_t n = next_word(at, &word);

	if (n == 0 || n >= size)
		return false;
	memcpy(out, word, n);
	out[n] = '\0';
	if (strcmp(out, "-") == 0)
		out[0] = '\0';
	return true;
}

/* Decimal digits, at most `max`. */
static bool number(const char **at, uint64_t max, uint64_t *out)
{
	char text[24];
	char *end;

	if (!copy_word(at, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *out <= max;
}

bool obituary_read_dead(struct obituary *o, const char *rest)
{
	struct buf name = BUF_INIT;
	const char *word;
	uint64_t order, partition, n_partitions, charge, fetch_id, cmd_id;
	size_t n;
	bool fine;

	if (!number(&rest, UINT32_MAX, &order) || !number(&rest, PARTITIONS_MAX - 1, &partition) ||
	    !number(&rest, PARTITIONS_MAX, &n_partitions) || n_partitions == 0)
		return false;
	n = next_word(&rest, &word);
	fine = n > 0 && percent_decode(slice_of(word, n), &name) &&
	       copy_word(&rest, o->nonce, sizeof(o->nonce)) &&
	       copy_word(&rest, o->run_id, sizeof(o->run_id)) &&
	       number(&rest, INT64_MAX, &fetch_id) && number(&rest, INT64_MAX, &cmd_id) &&
	       number(&rest, 1, &charge);
	if (fine) {
		o->order = (uint32_t)order;
		o->partition = (int)partition;
		o->n_partitions = (int)n_partitions;
		o->client_id[0] = (int64_t)fetch_id;
		o->client_id[1] = (int64_t)cmd_id;
		o->charge = charge != 0;
		o->consumer = buf_detach(&name);
		rest += strspn(rest, " ");
		snprintf(o->cause, sizeof(o->cause), "%s", rest);
	}
	buf_release(&name);
	return fine;
}

bool obituary_read_ran(struct obituary *o, const char *rest)
{
	char id[BOARD_ID_MAX];
	int n_before = o->n_ran;
	uint64_t order;
	uint64_t token;

	if (!o->consumer || !number(&rest, UINT32_MAX, &order) || order != o->order)
		return false;
	do {
		if (!copy_word(&rest, id, sizeof(id)) || !id[0] ||
		    !number(&rest, INT64_MAX, &token)) {
			o->n_ran = n_before;
			return false;
		}
		obituary_add(o, id, token);
	} while (*rest);
	return true;
}
