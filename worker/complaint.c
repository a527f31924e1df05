/* complaint.c - see complaint.h. */
#include "complaint.h"
#include "clock.h"
#include "log.h"

/* FNV-1a of all but the numbers: of ports, times, partitions. */
static uint64_t kind_of(const char *text)
{
	uint64_t h = 14695981039346656037u;

	for (const char *p = text; *p; p++)
		if (*p < '0' || *p > '9')
			h = (h ^ (unsigned char)*p) * 1099511628211u;
	return h;
}

/* Is it among what was said last? */
static bool is_known(const struct complaint *c, const char *text)
{
	uint64_t kind = kind_of(text);

	for (unsigned i = 0; i < COMPLAINTS_KEPT; i++)
		if (c->said[i] == kind)
			return true;
	return false;
}

static void say(struct complaint *c, int64_t now)
{
	/* Nothing was wrong for long: it begins anew. */
	if (now - c->due_ms > COMPLAINT_EVERY_MAX_MS)
		memset(c->said, 0, sizeof(c->said));
	if (is_known(c, c->text)) {
		c->every_ms = min_i64(2 * c->every_ms, COMPLAINT_EVERY_MAX_MS);
	} else {
		c->said[c->n_said++ % COMPLAINTS_KEPT] = kind_of(c->text);
		c->every_ms = COMPLAINT_EVERY_MS;
	}
	if (c->n_left_out)
		log_warning("%s (and %u more)", c->text, c->n_left_out);
	else
		log_warning("%s", c->text);
	c->text[0] = '\0';
	c->n_left_out = 0;
	c->due_ms = now + c->every_ms;
}

int64_t complaint_due(struct complaint *c, int64_t now)
{
	if (!c->text[0])
		return INT64_MAX;
	if (now < c->due_ms)
		return c->due_ms;
	say(c, now);
	return INT64_MAX;
}

void complaint_add(struct complaint *c, const char *text)
{
	int64_t now = clock_boot_ms();

	if (c->text[0])
		c->n_left_out++;
	snprintf(c->text, sizeof(c->text), "%s", text);
	/* What is new does not wait for long. */
	if (c->due_ms > now + COMPLAINT_EVERY_MS && !is_known(c, text))
		c->due_ms = now + COMPLAINT_EVERY_MS;
	complaint_due(c, now);
}

void complaint_end(struct complaint *c)
{
	c->due_ms = 0;
	complaint_due(c, clock_boot_ms());
}
