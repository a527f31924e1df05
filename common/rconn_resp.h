/*
 * rconn_resp.h - Redis's protocol as bytes: commands are written by hand (ten lines, and no
 * allocation), replies are read by hiredis's redisReader with a bound it lacks. Plain code.
 */
#ifndef REDISQ_RCONN_RESP_H
#define REDISQ_RCONN_RESP_H

#include "buf.h"

/* Room for the text of an error. */
#define RCONN_WHY_MAX 400
/* A reply with a longer array than this is a protocol error: the reader allocates what an array's
 * header says before it has seen an element. */
#define RESP_ARRAY_MAX (1024 * 1024)

struct redisReader;
struct redisReply;
struct rconn_arg;

/* Appends one command: *n, then $len and the bytes of each argument. */
void resp_add(struct buf *out, int argc, const struct rconn_arg *argv);
/* A reader that refuses absurd arrays; its replies lie in its rconn_arena (privdata). */
struct redisReader *resp_reader_new(void);
/* NULL is fine. */
void resp_reader_free(struct redisReader *r);
/* The text of an error reply for people: one line, and without the arguments that Redis repeats
 * after an unknown command; `secret` (may be NULL) becomes ***. */
void resp_error_text(const struct redisReply *r, const char *secret, char out[RCONN_WHY_MAX]);

#endif
