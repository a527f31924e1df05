/* logformat.c - see logformat.h. */
#include <jansson.h>

#include "logformat.h"

/* As clock_stamp(), but this file reads no clock and includes none. */
static void add_stamp(struct buf *out, int64_t wall_ms)
{
	time_t s = (time_t)(wall_ms / 1000);
	struct tm tm;

	gmtime_r(&s, &tm);
	buf_addf(out, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1,
		 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(wall_ms % 1000));
}

static bool is_worker_itself(struct slice id)
{
	return id.len == 0 || (id.len == 1 && id.data[0] == '-');
}

void logformat_text(struct buf *out, const struct logline *l, bool with_queue)
{
	add_stamp(out, l->wall_ms);
	if (with_queue)
		buf_addf(out, " %s/%u %d %c [", l->queue, l->slot, (int)l->pid, l->stream);
	else
		buf_addf(out, " %u %d %c [", l->slot, (int)l->pid, l->stream);
	if (is_worker_itself(l->id))
		buf_addc(out, '-');
	else
		buf_add(out, l->id.data, l->id.len);
	buf_addc(out, ']');
	/* An empty line has its blank, too: what follows "] " is the text, always. */
	buf_addc(out, ' ');
	buf_add(out, l->text.data, l->text.len);
	buf_addc(out, '\n');
}

/* Length of the well-formed UTF-8 sequence at `p` (RFC 3629: no surrogates, shortest form); 0. */
static size_t utf8_len(const unsigned char *p, size_t left)
{
	size_t n = p[0] < 0x80   ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;

	if (n == 0 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static void add_json_string(struct buf *out, struct slice s)
{
	const unsigned char *p = (const unsigned char *)s.data;

	buf_addc(out, '"');
	for (size_t i = 0; i < s.len;) {
		size_t n = utf8_len(p + i, s.len - i);

		if (n == 0) {
			buf_adds(out, "\xef\xbf\xbd");
			n = 1;
		} else if (p[i] == '"' || p[i] == '\\') {
			buf_addc(out, '\\');
			buf_addc(out, (char)p[i]);
		} else if (p[i] == '\t') {
			buf_adds(out, "\\t");
		} else if (p[i] == '\r') {
			buf_adds(out, "\\r");
		} else if (p[i] < 0x20 || p[i] == 0x7f) {
			buf_addf(out, "\\u%04x", p[i]);
		} else {
			buf_add(out, p + i, n);
		}
		i += n;
	}
	buf_addc(out, '"');
}

/* A JSON object, strictly: only then its bytes can be put into our line as they are. */
static bool is_json_object(struct slice s)
{
	size_t i = 0;
	json_t *v;
	bool is_object;

	while (i < s.len && (s.data[i] == ' ' || s.data[i] == '\t'))
		i++;
	if (i == s.len || s.data[i] != '{')
		return false;
	v = json_loadb(s.data, s.len, JSON_ALLOW_NUL, NULL);
	is_object = json_is_object(v);
	json_decref(v);
	return is_object;
}

void logformat_json(struct buf *out, const struct logline *l)
{
	buf_adds(out, "{\"ts\":\"");
	add_stamp(out, l->wall_ms);
	buf_addf(out, "\",\"slot\":%u,\"pid\":%d,\"queue\":", l->slot, (int)l->pid);
	add_json_string(out, slice_str(l->queue));
	buf_addf(out, ",\"stream\":\"%c\",\"id\":", l->stream);
	if (is_worker_itself(l->id))
		buf_adds(out, "null");
	else
		add_json_string(out, l->id);
	if (is_json_object(l->text)) {
		buf_adds(out, ",\"data\":");
		buf_add(out, l->text.data, l->text.len);
	} else {
		buf_adds(out, ",\"line\":");
		add_json_string(out, l->text);
	}
	buf_adds(out, "}\n");
}

void logformat_own_text(struct buf *out, int64_t wall_ms, const char *level, struct slice text)
{
	add_stamp(out, wall_ms);
	buf_addf(out, " %s ", level);
	buf_add(out, text.data, text.len);
	buf_addc(out, '\n');
}

void logformat_own_json(struct buf *out, int64_t wall_ms, const char *level, struct slice text)
{
	buf_adds(out, "{\"ts\":\"");
	add_stamp(out, wall_ms);
	buf_addf(out, "\",\"level\":\"%s\",\"line\":", level);
	add_json_string(out, text);
	buf_adds(out, "}\n");
}

bool logformat_parse_frame(struct slice frame, char *stream, struct slice *id, struct slice *text)
{
	const char *blank;
	size_t id_len;

	if (frame.len < 4 || (frame.data[0] != 'O' && frame.data[0] != 'E') || frame.data[1] != ' ')
		return false;
	blank = memchr(frame.data + 2, ' ', frame.len - 2);
	if (!blank || blank == frame.data + 2)
		return false;
	id_len = (size_t)(blank - (frame.data + 2));
	*stream = frame.data[0];
	*id = slice_of(frame.data + 2, id_len);
	*text = slice_of(blank + 1, frame.len - id_len - 3);
	return true;
}
