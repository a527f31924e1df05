/* fields.c - see fields.h. */
#include <jansson.h>

#include "fields.h"

void base64_add(struct buf *out, struct slice in)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = (const unsigned char *)in.data;

	for (size_t i = 0; i < in.len; i += 3) {
		size_t n = in.len - i < 3 ? in.len - i : 3;
		unsigned v = (unsigned)p[i] << 16;

		if (n > 1)
			v |= (unsigned)p[i + 1] << 8;
		if (n > 2)
			v |= p[i + 2];
		buf_addc(out, digits[v >> 18]);
		buf_addc(out, digits[v >> 12 & 63]);
		buf_addc(out, n > 1 ? digits[v >> 6 & 63] : '=');
		buf_addc(out, n > 2 ? digits[v & 63] : '=');
	}
}

/* A name that JSON can carry. */
static char *json_name(struct slice name)
{
	struct buf out = BUF_INIT;
	json_t *probe = json_stringn(name.data, name.len);
	bool fine = probe != NULL && memchr(name.data, '\0', name.len) == NULL;

	json_decref(probe);
	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.data[i];

		if (!fine && (c >= 0x80 || c == 0))
			buf_addf(&out, "%%%02X", c);
		else
			buf_addc(&out, (char)c);
	}
	return buf_detach(&out);
}

static int append(const char *data, size_t len, void *arg)
{
	buf_add(arg, data, len);
	return 0;
}

void fields_json(const struct task *t, const char *except, struct buf *out)
{
	json_t *all = json_object();
	json_t *binary = json_object();

	for (size_t i = 0; i < t->n_fields; i++) {
		const struct field *f = &t->fields[i];
		char *name;
		json_t *value;

		if (except && slice_eq_str(f->name, except))
			continue;
		name = json_name(f->name);
		value = json_stringn(f->value.data, f->value.len);
		json_object_del(all, name);
		json_object_del(binary, name);
		if (value) {
			json_object_set_new(all, name, value);
		} else {
			struct buf b64 = BUF_INIT;

			base64_add(&b64, f->value);
			json_object_set_new(binary, name, json_stringn(b64.data, b64.len));
			buf_release(&b64);
		}
		free(name);
	}
	if (json_object_size(binary) > 0)
		json_object_set(all, "fields_b64", binary);
	json_dump_callback(all, append, out, JSON_COMPACT);
	json_decref(binary);
	json_decref(all);
}
