/* complaint.c - see complaint.h. */
#include "complaint.h"
#include "clock.h"
#include "log.h"

#define EVERY_MS 1000

int64_t complaint_due(struct complaint *c, int64_t now)
{
	if (!c->text[0])
		return INT64_MAX;
	if (now < c->due_ms)
		return c->due_ms;
	if (c->n_left_out)
		log_warning("%s (and %u more)", c->text, c->n_left_out);
	else
		log_warning("%s", c->text);
	c->text[0] = '\0';
	c->n_left_out = 0;
	c->due_ms = now + EVERY_MS;
	return INT64_MAX;
}

void complaint_add(struct complaint *c, const char *text)
{
	if (c->text[0])
		c->n_left_out++;
	snprintf(c->text, sizeof(c->text), "%s", text);
	complaint_due(c, clock_boot_ms());
}

void complaint_end(struct complaint *c)
{
	c->due_ms = 0;
	complaint_due(c, clock_boot_ms());
}
