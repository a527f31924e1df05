/* group.c - see group.h. */
#include <inttypes.h>

#include "group.h"
#include "reply.h"

/* A value of one group's flat map. */
static const struct redisReply *value(const struct redisReply *group, const char *name)
{
	for (size_t i = 0; i + 1 < reply_len(group); i += 2)
		if (slice_eq_str(reply_slice(reply_at(group, i)), name))
			return reply_at(group, i + 1);
	return NULL;
}

struct group_answer group_decide(const struct redisReply *groups, const struct conf_queue *c,
				 int64_t n_entries, struct buf *why)
{
	const struct redisReply *other = NULL;
	struct slice other_name;
	bool ours = false;
	bool keeps = c->on_done == CONF_DONE_ACK;

	for (size_t i = 0; i < reply_len(groups); i++) {
		const struct redisReply *g = reply_at(groups, i);

		if (slice_eq_str(reply_slice(value(g, "name")), c->group))
			ours = true;
		else
			other = g;
	}
	if (other && !keeps) {
		other_name = reply_slice(value(other, "name"));
		if (ours)
			buf_addf(why,
				 "stream \"%s\" also has the group \"%.*s\", and done entries "
				 "would be "
				 "deleted from under it; set on_done = ack",
				 c->name, (int)other_name.len, other_name.data);
		else
			buf_addf(why,
				 "stream already has %" PRId64
				 " entries and group \"%.*s\" (pending %" PRId64
				 "); set group=%.*s to continue there, or start = $ or 0 with "
				 "on_done = "
				 "ack",
				 n_entries, (int)other_name.len, other_name.data,
				 reply_int(value(other, "pending"), 0), (int)other_name.len,
				 other_name.data);
		return (struct group_answer){.what = GROUP_REFUSE};
	}
	if (ours)
		return (struct group_answer){.what = GROUP_USE};
	if (other && c->start == CONF_START_AUTO) {
		other_name = reply_slice(value(other, "name"));
		buf_addf(
			why,
			"stream already has %" PRId64
			" entries and group \"%.*s\" (pending %" PRId64
			"); set group=%.*s to continue there, or start = $ (only new entries) or 0 "
			"(all)",
			n_entries, (int)other_name.len, other_name.data,
			reply_int(value(other, "pending"), 0), (int)other_name.len,
			other_name.data);
		return (struct group_answer){.what = GROUP_REFUSE};
	}
	return (struct group_answer){.what = GROUP_CREATE, .at_end = c->start == CONF_START_END};
}
