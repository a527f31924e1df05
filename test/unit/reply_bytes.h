/* reply_bytes.h - a redisReply made from the bytes Redis sends. */
#ifndef REDISQ_REPLY_BYTES_H
#define REDISQ_REPLY_BYTES_H

#include <hiredis/hiredis.h>

#include "base.h"

/* Frees with freeReplyObject(); fails the test when the bytes are not one whole reply. */
static inline redisReply *reply_of(const char *bytes, size_t len)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	assert_int_equal(redisReaderFeed(reader, bytes, len), REDIS_OK);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_non_null(reply);
	redisReaderFree(reader);
	return reply;
}

/* Of a string literal, which may hold NULs. */
#define REPLY(text) reply_of(text, sizeof(text) - 1)

#endif
