/* redis_kind.c - is what lies in the keys of a queue of its kind (kind.h)? See redis.h. */
#include "redis.h"

int redis_look_at_kind(struct redis *r, struct kind_found *found, struct err *e)
{
	*found = (struct kind_found){0};
	for (size_t row = 0; row < KIND_KEYS; row++) {
		const struct rconn_arg argv[] = {ARG("TYPE"), ARG(kind_key(redis_keys(r), row))};
		redisReply *type = redis_try(r, e, ARRAY_LEN(argv), argv);

		if (!type)
			return -1;
		if (type->type == REDIS_REPLY_STATUS)
			kind_note(found, row, redis_text(type));
		redis_free(type);
	}
	return 0;
}

bool redis_say_kind(struct redis *r, bool as_list, struct err *e)
{
	struct kind_found found;
	struct err none = {0};
	struct buf what = BUF_INIT, cure = BUF_INIT;
	bool is_said = redis_look_at_kind(r, &found, &none) == 0 && !found.other[0] &&
		       kind_conflict(&found, as_list, redis_keys(r), &what, &cure);

	if (is_said)
		err_set(e, EXIT_FORCED, "%s; %s", what.data, cure.data);
	buf_release(&what);
	buf_release(&cure);
	return is_said;
}
