/* conf_number.c - see conf_number.h. */
#include <errno.h>
#include <limits.h>

#include "conf_number.h"

struct unit {
	const char *word;
	int64_t factor;
};

/* Largest first: a value names each at most once, in this order. */
static const struct unit duration_units[] = {
	{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit size_units[] = {
	{"T", 1LL << 40}, {"G", 1LL << 30}, {"M", 1LL << 20}, {"K", 1LL << 10}, {"B", 1}};

/* A whole decimal number at `text`; *end is what follows. False: none there. Saturates. */
static bool take_number(const char *text, int64_t *n, const char **end)
{
	const char *digits = text + (*text == '-' || *text == '+');
	char *stop;
	long long v;

	if (*digits < '0' || *digits > '9')
		return false;
	v = strtoll(text, &stop, 10); /* ERANGE saturates, and no range here reaches that far */
	*n = v;
	*end = stop;
	return true;
}

bool conf_is_number(const char *text)
{
	const char *end;
	int64_t n;

	return take_number(text, &n, &end) && !*end;
}

void conf_format_duration(int64_t ms, struct buf *out)
{
	if (ms == 0) {
		buf_adds(out, "0");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(duration_units); i++) {
		const struct unit *u = &duration_units[i];

		if (ms >= u->factor)
			buf_addf(out, "%lld%s", (long long)(ms / u->factor), u->word);
		ms %= u->factor;
	}
}

void conf_format_size(int64_t bytes, struct buf *out)
{
	size_t i = 0;

	if (bytes == 0) {
		buf_adds(out, "0");
		return;
	}
	while (bytes % size_units[i].factor != 0)
		i++;
	buf_addf(out, "%lld%s", (long long)(bytes / size_units[i].factor), size_units[i].word);
}

static const struct unit *find_unit(const struct unit *units, size_t n, const char *text)
{
	const struct unit *best = NULL;

	/* The longest match, so that "ms" is not read as minutes. */
	for (size_t i = 0; i < n; i++)
		if (strncmp(text, units[i].word, strlen(units[i].word)) == 0 &&
		    (!best || strlen(units[i].word) > strlen(best->word)))
			best = &units[i];
	return best;
}

/* Sums up NUMBER UNIT pairs. False: not of that form, or too large for 64 bits. */
static bool parse_units(const struct unit *units, size_t n, const char *text, int64_t *out)
{
	const struct unit *last = NULL;
	int64_t sum = 0;

	do {
		const struct unit *u;
		int64_t v;

		if (*text == '-' || *text == '+' || !take_number(text, &v, &text))
			return false;
		u = find_unit(units, n, text);
		if (!u || (last && u <= last))
			return false;
		if (v > (INT64_MAX - sum) / u->factor)
			return false;
		sum += v * u->factor;
		text += strlen(u->word);
		last = u;
	} while (*text);
	*out = sum;
	return true;
}

static void say_duration_unit(int64_t n, struct err *e)
{
	long long v = n;

	if (v > 0 && v % 3600 == 0)
		err_set(e, EXIT_CONFIG, "has no unit; write %llds or %lldh", v, v / 3600);
	else if (v > 0 && v % 60 == 0)
		err_set(e, EXIT_CONFIG, "has no unit; write %llds or %lldm", v, v / 60);
	else
		err_set(e, EXIT_CONFIG, "has no unit; write %llds or %lldms", v, v);
}

static void say_size_unit(int64_t n, struct err *e)
{
	long long v = n;

	if (v > 0 && v % (1 << 20) == 0)
		err_set(e, EXIT_CONFIG, "has no unit; write %lldB or %lldM", v, v >> 20);
	else if (v > 0 && v % (1 << 10) == 0)
		err_set(e, EXIT_CONFIG, "has no unit; write %lldB or %lldK", v, v >> 10);
	else
		err_set(e, EXIT_CONFIG, "has no unit; write %lldB, %lldK or %lldM", v, v, v);
}

static enum conf_parsed parse_with_unit(const struct conf_row *row, const char *text, int64_t *out,
					struct err *e)
{
	bool size = row->type == CONF_SIZE;
	const char *end;

	if (row->type == CONF_AUTODUR && strcmp(text, "auto") == 0) {
		*out = -1;
		return CONF_PARSED;
	}
	if (take_number(text, out, &end) && !*end) {
		if (*out == 0)
			return CONF_PARSED;
		if (*out < 0) {
			err_set(e, EXIT_CONFIG, "cannot be negative; write 0 or more");
			return CONF_BAD;
		}
		if (size)
			say_size_unit(*out, e);
		else
			say_duration_unit(*out, e);
		return CONF_BAD;
	}
	if (size ? parse_units(size_units, ARRAY_LEN(size_units), text, out)
		 : parse_units(duration_units, ARRAY_LEN(duration_units), text, out))
		return CONF_PARSED;
	err_set(e, EXIT_CONFIG, "%s",
		size ? "not a size; write one such as 64K, 10M or 1G"
		: row->type == CONF_AUTODUR
			? "not a duration; write auto, or one such as 250ms, 30s, 5m or 1h30m"
			: "not a duration; write one such as 250ms, 30s, 5m or 1h30m");
	return CONF_BAD;
}

static enum conf_parsed parse_integer(const struct conf_row *row, const char *text, int64_t *out,
				      struct err *e)
{
	const char *end;

	if (row->type == CONF_WORKERS && strcmp(text, "max") == 0) {
		*out = CONF_WORKERS_MAX;
		return CONF_PARSED;
	}
	if (row->type == CONF_WORKERS && !text[0] && !row->def[0]) {
		*out = CONF_WORKERS_UNSET;
		return CONF_PARSED;
	}
	if (take_number(text, out, &end)) {
		if (row->type == CONF_PERCENT ? strcmp(end, "%") == 0 || (*out == 0 && !*end)
					      : !*end)
			return CONF_PARSED;
		if (row->type == CONF_PERCENT && !*end) {
			err_set(e, EXIT_CONFIG, "has no unit; write %lld%%", (long long)*out);
			return CONF_BAD;
		}
	}
	if (row->type != CONF_PERCENT && take_number(text, out, &end) && *end == '.') {
		err_set(e, EXIT_CONFIG, "not a whole number; write one such as 4");
		return CONF_BAD;
	}
	err_set(e, EXIT_CONFIG, "%s",
		row->type == CONF_PERCENT   ? "not a percentage; write one such as 25%"
		: row->type == CONF_WORKERS ? "not a number; write one such as 4, or max"
					    : "not a number; write one such as 4");
	return CONF_BAD;
}

/* One end of the range in the row's own form. */
static void format_bound(const struct conf_row *row, int64_t v, struct buf *out)
{
	int narrow = v > INT_MAX ? INT_MAX : (int)v;

	if (row->type == CONF_DUR || row->type == CONF_AUTODUR || row->type == CONF_SIZE)
		conf_number_format(row, &v, out);
	else
		conf_number_format(row, &narrow, out);
}

static enum conf_parsed check_range(const struct conf_row *row, int64_t v, bool wide, struct err *e)
{
	int64_t max = row->max ? row->max : wide ? INT64_MAX : INT_MAX;
	struct buf lo = BUF_INIT, hi = BUF_INIT;

	if (v >= row->min && v <= max)
		return CONF_PARSED;
	format_bound(row, row->min, &lo);
	format_bound(row, max, &hi);
	if (row->max)
		err_set(e, EXIT_CONFIG, "out of range; write %s to %s", lo.data, hi.data);
	else if (v < row->min)
		err_set(e, EXIT_CONFIG, "out of range; write %s or more", lo.data);
	else
		err_set(e, EXIT_CONFIG, "out of range; write %s or less", hi.data);
	buf_release(&lo);
	buf_release(&hi);
	return v < row->min ? CONF_BELOW : CONF_BAD;
}

enum conf_parsed conf_number_parse(const struct conf_row *row, const char *text, void *field,
				   struct err *e)
{
	bool wide = row->type == CONF_DUR || row->type == CONF_AUTODUR || row->type == CONF_SIZE;
	enum conf_parsed rc;
	int64_t v = 0;

	rc = wide ? parse_with_unit(row, text, &v, e) : parse_integer(row, text, &v, e);
	/* The words (auto, max, nothing) are kept as negative numbers, outside every range. */
	if (rc == CONF_PARSED && strpbrk(text, "0123456789"))
		rc = check_range(row, v, wide, e);
	if (rc != CONF_PARSED)
		return rc;
	if (wide)
		*(int64_t *)field = v;
	else
		*(int *)field = (int)v;
	return CONF_PARSED;
}

void conf_number_format(const struct conf_row *row, const void *field, struct buf *out)
{
	bool wide = row->type == CONF_DUR || row->type == CONF_AUTODUR || row->type == CONF_SIZE;
	int64_t v = wide ? *(const int64_t *)field : *(const int *)field;

	if (row->type == CONF_AUTODUR && v == -1)
		buf_adds(out, "auto");
	else if (row->type == CONF_WORKERS && v == CONF_WORKERS_MAX)
		buf_adds(out, "max");
	else if (row->type == CONF_WORKERS && v == CONF_WORKERS_UNSET)
		return;
	else if (row->type == CONF_DUR || row->type == CONF_AUTODUR)
		conf_format_duration(v, out);
	else if (row->type == CONF_SIZE)
		conf_format_size(v, out);
	else
		buf_addf(out, row->type == CONF_PERCENT ? "%lld%%" : "%lld", (long long)v);
}
