/* redis_reply.c - replies that outlive their callback, and their parts; see redis.h. */
#include "redis.h"

redisReply *redis_copy(const redisReply *from)
{
	redisReply *to = xcalloc(1, sizeof(*to));

	to->type = from->type;
	to->integer = from->integer;
	if (from->str) {
		to->str = xmemdup0(from->str, from->len);
		to->len = from->len;
	}
	if (from->elements) {
		to->elements = from->elements;
		to->element = xcalloc(from->elements, sizeof(redisReply *));
		for (size_t i = 0; i < from->elements; i++)
			to->element[i] = redis_copy(from->element[i]);
	}
	return to;
}

void redis_free(redisReply *reply)
{
	if (!reply)
		return;
	for (size_t i = 0; i < reply->elements; i++)
		redis_free(reply->element[i]);
	free(reply->element);
	free(reply->str);
	free(reply);
}

const redisReply *redis_field(const redisReply *list, const char *field)
{
	for (size_t i = 0; list && i + 1 < list->elements; i += 2) {
		const redisReply *name = list->element[i];

		if (name->str && strcmp(name->str, field) == 0)
			return list->element[i + 1];
	}
	return NULL;
}

int64_t redis_int(const redisReply *reply, int64_t otherwise)
{
	if (!reply)
		return otherwise;
	if (reply->type == REDIS_REPLY_INTEGER)
		return reply->integer;
	if (reply->type == REDIS_REPLY_STRING && reply->len > 0)
		return strtoll(reply->str, NULL, 10);
	return otherwise;
}

struct slice redis_text(const redisReply *reply)
{
	if (!reply || !reply->str)
		return slice_str("");
	return slice_of(reply->str, reply->len);
}
