/* reply.c - see reply.h. */
#include <errno.h>
#include <hiredis/hiredis.h>

#include "reply.h"

static bool begins_with(const redisReply *r, const char *word)
{
	return strncmp(r->str, word, strlen(word)) == 0;
}

static bool contains(const redisReply *r, const char *word)
{
	return strstr(r->str, word) != NULL;
}

static bool says_any(const redisReply *r, const char *const *words,
		     bool (*says)(const redisReply *r, const char *word))
{
	for (; *words; words++)
		if (says(r, *words))
			return true;
	return false;
}

static const struct {
	enum reply_kind kind;
	const char *const words[12];
} kinds[] = {
	{REPLY_REDIRECT, {"READONLY", "UNBLOCKED force unblock", NULL}},
	{REPLY_MOVED, {"MOVED ", NULL}},
	{REPLY_MOVING,
	 {"ASK ", "TRYAGAIN", "CLUSTERDOWN", "access a non local key in a cluster node",
	  "while the cluster is down", NULL}},
	{REPLY_NOGROUP, {"NOGROUP", NULL}},
	{REPLY_AGAIN, {"UNBLOCKED the stream key no longer exists", NULL}},
	{REPLY_WAIT,
	 {"LOADING", "BUSY ", "MASTERDOWN", "NOREPLICAS", "MISCONF", "max number of clients",
	  "UNBLOCKED", "UNKILLABLE", NULL}},
	{REPLY_OOM, {"OOM ", NULL}},
	{REPLY_DENIED,
	 {"NOAUTH", "WRONGPASS", "NOPERM", "can't run this command",
	  "can't access at least one of the keys", "ACL fail", NULL}},
	{REPLY_WRONGTYPE, {"WRONGTYPE", "CROSSSLOT", NULL}},
	{REPLY_BUSYGROUP, {"BUSYGROUP", NULL}},
	{REPLY_UNKNOWN,
	 {"ERR unknown command", "ERR Unknown subcommand", "ERR unknown subcommand",
	  "unknown command", "Unknown subcommand", "unknown subcommand", "Unknown Redis command",
	  NULL}},
};

enum reply_kind reply_kind(const struct redisReply *r)
{
	if (!r)
		return REPLY_LOST;
	if (r->type != REDIS_REPLY_ERROR)
		return REPLY_OK;
	/* The code is in front; the text behind it may quote keys with any name. Only errors inside
	 * scripts of 6.x have it somewhere in the text. */
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (says_any(r, kinds[i].words, begins_with))
			return kinds[i].kind;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (says_any(r, kinds[i].words, contains))
			return kinds[i].kind;
	return REPLY_BAD;
}

const char *reply_error_text(const struct redisReply *r)
{
	return r && r->type == REDIS_REPLY_ERROR ? r->str : "no answer";
}

bool reply_is_string(const struct redisReply *r)
{
	return r && r->type == REDIS_REPLY_STRING;
}

struct slice reply_slice(const struct redisReply *r)
{
	if (!r || (r->type != REDIS_REPLY_STRING && r->type != REDIS_REPLY_STATUS))
		return slice_of("", 0);
	return slice_of(r->str, r->len);
}

int64_t reply_int(const struct redisReply *r, int64_t otherwise)
{
	char *end;
	long long n;

	if (!r)
		return otherwise;
	if (r->type == REDIS_REPLY_INTEGER)
		return r->integer;
	if (r->type != REDIS_REPLY_STRING || r->len == 0)
		return otherwise;
	if (strspn(r->str, "-0123456789") != r->len)
		return otherwise;
	errno = 0;
	n = strtoll(r->str, &end, 10);
	return *end || end == r->str || errno ? otherwise : n;
}

size_t reply_len(const struct redisReply *r)
{
	return r && r->type == REDIS_REPLY_ARRAY ? r->elements : 0;
}

const struct redisReply *reply_at(const struct redisReply *r, size_t i)
{
	return i < reply_len(r) ? r->element[i] : NULL;
}

int reply_entries(const struct redisReply *r, reply_entry_fn *fn, void *arg)
{
	const struct redisReply *list;

	if (!r || r->type == REDIS_REPLY_NIL || (r->type == REDIS_REPLY_ARRAY && r->elements == 0))
		return 0;
	if (reply_len(r) != 1 || reply_len(r->element[0]) != 2)
		return -1;
	list = r->element[0]->element[1];
	if (list->type != REDIS_REPLY_ARRAY)
		return list->type == REDIS_REPLY_NIL ? 0 : -1;
	for (size_t i = 0; i < list->elements; i++) {
		const struct redisReply *e = list->element[i];

		if (reply_len(e) != 2 || reply_slice(e->element[0]).len == 0)
			return -1;
	}
	for (size_t i = 0; i < list->elements; i++) {
		const struct redisReply *e = list->element[i];
		const struct redisReply *fields = e->element[1];

		fn(arg, reply_slice(e->element[0]),
		   fields->type == REDIS_REPLY_ARRAY ? fields : NULL);
	}
	return (int)list->elements;
}

int reply_fields(const struct redisReply *fields,
		 void (*fn)(void *arg, struct slice name, struct slice value), void *arg)
{
	size_t n = reply_len(fields);

	if (!fields || fields->type != REDIS_REPLY_ARRAY || n % 2 != 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (fields->element[i]->type != REDIS_REPLY_STRING)
			return -1;
	for (size_t i = 0; i < n; i += 2)
		fn(arg, reply_slice(fields->element[i]), reply_slice(fields->element[i + 1]));
	return 0;
}
