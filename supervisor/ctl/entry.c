/* entry.c - see entry.h. */
#include "entry.h"
#include "out.h"

struct id {
	unsigned long long ms, seq;
};

static struct id parse_id(const char *text)
{
	char *end;
	struct id id = {.ms = strtoull(text, &end, 10)};

	if (*end == '-')
		id.seq = strtoull(end + 1, NULL, 10);
	return id;
}

int entry_id_compare(const char *a, const char *b)
{
	struct id x = parse_id(a);
	struct id y = parse_id(b);

	if (x.ms != y.ms)
		return x.ms < y.ms ? -1 : 1;
	return x.seq < y.seq ? -1 : x.seq > y.seq;
}

void entry_next_id(const char *id, char out[ENTRY_ID_MAX])
{
	struct id x = parse_id(id);

	if (x.seq == UINT64_MAX)
		snprintf(out, ENTRY_ID_MAX, "%llu-0", x.ms + 1);
	else
		snprintf(out, ENTRY_ID_MAX, "%llu-%llu", x.ms, x.seq + 1);
}

static int compare_rows(const void *x, const void *y)
{
	const struct entry_row *a = x, *b = y;
	int order = entry_id_compare(redis_text(a->reply->element[0]).data,
				     redis_text(b->reply->element[0]).data);

	return order ? order : (a->part > b->part) - (a->part < b->part);
}

void entry_sort(struct entry_row *rows, size_t n)
{
	if (n > 1)
		qsort(rows, n, sizeof(*rows), compare_rows);
}

static bool is_reserved(struct slice name)
{
	return name.len > 7 && memcmp(name.data, "redisq.", 7) == 0;
}

struct slice entry_field(const redisReply *fields, const char *name)
{
	struct slice found = slice_str("");

	for (size_t i = 0; fields && i + 1 < fields->elements; i += 2)
		if (slice_eq_str(redis_text(fields->element[i]), name))
			found = redis_text(fields->element[i + 1]);
	return found;
}

void entry_print(struct buf *out, const redisReply *fields, size_t max)
{
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; fields && i + 1 < fields->elements; i += 2) {
			struct slice name = redis_text(fields->element[i]);
			struct slice value = redis_text(fields->element[i + 1]);
			size_t begin = out->len + 2;

			if (is_reserved(name) != (pass == 1))
				continue;
			buf_adds(out, "  ");
			out_bytes(out, name, 64);
			while (out->len - begin < 19)
				buf_addc(out, ' ');
			buf_addc(out, ' ');
			out_bytes(out, value, max ? max : value.len);
			buf_addc(out, '\n');
		}
	}
}

static char *base64(struct slice s)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = (const unsigned char *)s.data;
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < s.len; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16;

		if (i + 1 < s.len)
			v |= (uint32_t)p[i + 1] << 8;
		if (i + 2 < s.len)
			v |= p[i + 2];
		buf_addc(&out, digits[v >> 18]);
		buf_addc(&out, digits[v >> 12 & 63]);
		buf_addc(&out, i + 1 < s.len ? digits[v >> 6 & 63] : '=');
		buf_addc(&out, i + 2 < s.len ? digits[v & 63] : '=');
	}
	return buf_detach(&out);
}

json_t *entry_string(struct slice s)
{
	json_t *v = json_stringn(s.data, s.len);
	struct buf clean = BUF_INIT;

	if (v)
		return v;
	for (size_t i = 0; i < s.len; i++) {
		if ((unsigned char)s.data[i] < 0x80)
			buf_addc(&clean, s.data[i]);
		else
			buf_adds(&clean, "\xef\xbf\xbd");
	}
	v = json_stringn(clean.data, clean.len);
	buf_release(&clean);
	return v;
}

json_t *entry_said(struct slice s)
{
	json_t *value = json_loadb(s.data, s.len, JSON_DECODE_ANY, NULL);

	return value ? value : entry_string(s);
}

void entry_print_said(struct buf *out, struct slice s, size_t max)
{
	json_t *json = json_loadb(s.data, s.len, JSON_DECODE_ANY, NULL);

	if (json_is_string(json))
		s = slice_of(json_string_value(json), json_string_length(json));
	out_bytes(out, s, max);
	json_decref(json);
}

void entry_json(const redisReply *fields, json_t *text, json_t *b64)
{
	for (size_t i = 0; fields && i + 1 < fields->elements; i += 2) {
		struct slice name = redis_text(fields->element[i]);
		struct slice value = redis_text(fields->element[i + 1]);
		json_t *key = entry_string(name);
		json_t *v = json_stringn(value.data, value.len);

		json_object_del(text, json_string_value(key));
		json_object_del(b64, json_string_value(key));
		if (v) {
			json_object_set_new(text, json_string_value(key), v);
		} else {
			char *coded = base64(value);

			json_object_set_new(b64, json_string_value(key), json_string(coded));
			free(coded);
		}
		json_decref(key);
	}
}
