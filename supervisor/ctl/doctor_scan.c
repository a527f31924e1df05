/* doctor_scan.c - see doctor.h. */
#include "doctor.h"

#define SCAN_COUNT "1000"
#define SCAN_ROUNDS 100 /* a bound: some 100 000 keys */

/* A glob that finds `name`, whatever it holds. */
static void write_pattern(const char *name, bool anywhere, struct buf *out)
{
	buf_addc(out, '*');
	for (; *name; name++) {
		if (strchr("*?[]\\^", *name))
			buf_addc(out, '\\');
		buf_addc(out, *name);
	}
	if (anywhere)
		buf_addc(out, '*');
}

/* One page. Answers as doctor_scan(), SCANNED_SOME while there are more. */
static int scan_page(struct doctor *d, const char *pattern, char cursor[24], doctor_key_fn *fn,
		     void *arg, struct buf *why)
{
	redisReply *r = DOCTOR_ASK(d, "SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT);
	const redisReply *keys;
	int rc = 0;

	if (!r)
		return -1;
	if (r->elements != 2 || !r->element[0]->str) {
		buf_adds(why, doctor_error(r) ? doctor_error(r) : "SCAN answers strangely");
		redis_free(r);
		return SCANNED_NOTHING;
	}
	snprintf(cursor, 24, "%s", r->element[0]->str);
	keys = r->element[1];
	for (size_t i = 0; i < keys->elements && rc == 0; i++)
		if (keys->element[i]->str && strlen(keys->element[i]->str) == keys->element[i]->len)
			rc = fn(d, keys->element[i]->str, arg);
	redis_free(r);
	if (rc != 0)
		return -1;
	return strcmp(cursor, "0") == 0 ? SCANNED_ALL : SCANNED_SOME;
}

int doctor_scan(struct doctor *d, const char *name, bool anywhere, doctor_key_fn *fn, void *arg,
		struct buf *why)
{
	struct buf pattern = BUF_INIT;
	char cursor[24] = "0";
	int seen = SCANNED_SOME;

	write_pattern(name, anywhere, &pattern);
	for (int i = 0; i < SCAN_ROUNDS && seen == SCANNED_SOME; i++)
		seen = scan_page(d, pattern.data, cursor, fn, arg, why);
	buf_release(&pattern);
	return seen;
}
