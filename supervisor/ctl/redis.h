/*
 * redis.h - Redis for a program that asks one thing after another: rconn in a loop of its own, run
 * until the answer is there.
 *
 * Replies are copies the caller frees with redis_free(). A link that falls is an error for the call
 * that was under way (what became of it is unknown); that is not sent again by itself. What a
 * cluster refuses while a slot moves or a failover goes on is: nothing was done.
 */
#ifndef REDISQ_CTL_REDIS_H
#define REDISQ_CTL_REDIS_H

#include <hiredis/hiredis.h>

#include "kind.h"
#include "rconn.h"
#include "script.h"
#include "target.h"

#define ARG(text) ((struct rconn_arg){(text), strlen(text)})

struct redis;

/* Connected to the target's Redis, or NULL with `e` (exit 69, with the url and where it is from).
 */
struct redis *redis_open(struct target *t, struct err *e);
void redis_close(struct redis *r);
/*
 * What is asked from now on is about this queue, or partition of one (parts.h): in a cluster over a
 * link of its own, to the node that has it. If it is a list, by its configuration or by what lies
 * there, stream commands and scripts are done with lists (common/scripts/_list.lua), and answer as
 * with a stream. It is looked at once: to go back to one that was served before costs nothing. -1
 * with `e`: no answer.
 */
int redis_serve(struct redis *r, const struct conf_queue *q, struct err *e) ATTR_MUST_CHECK;
/* Begins the links to all of these partitions: what each of them needs to come up, and how long one
 * to a node that is away takes to fail, passes at the same time. */
void redis_link_all(struct redis *r, const struct parts *p);
/* Closes the link to this stream, if it has one of its own: redis_serve() would make it anew. What
 * is asked is about no queue then, if it was about this one. */
void redis_forget(struct redis *r, const char *stream);
bool redis_on_list(const struct redis *r);
/* It is a stream, and was served as a list. */
bool redis_is_mixed(const struct redis *r);
/* Of the queue that is asked about. Borrowed. */
const struct keys *redis_keys(const struct redis *r);
/* From now on what a cluster refuses for now is an answer like any other; or no more. */
void redis_be_hasty(struct redis *r, bool is_hasty);
/* Is the url cluster://? */
bool redis_is_cluster(const struct redis *r);
const char *redis_where(const struct redis *r);

/* Owned; an error reply is a reply. NULL with `e`: no answer. */
redisReply *redis_try(struct redis *r, struct err *e, int argc, const struct rconn_arg *argv);
/* The words after `e` are the command. An error reply is an error: NULL with `e` (exit 1). */
#define redis_ask(r, e, ...) redis_ask_words(r, e, (const char *const[]){__VA_ARGS__, NULL})
#define REDIS_WORDS_MAX 16
redisReply *redis_ask_words(struct redis *r, struct err *e, const char *const *words);
/* As redis_ask(), for a script. */
redisReply *redis_script(struct redis *r, struct err *e, enum script_id id, int n_keys, int argc,
			 const struct rconn_arg *argv);
/* `n` commands of words, each up to NULL, between MULTI and EXEC: the array of their replies. */
#define REDIS_MULTI_WORDS 8
redisReply *redis_multi(struct redis *r, struct err *e,
			const char *const (*commands)[REDIS_MULTI_WORDS], size_t n);

/* -1 with `e`: the link is down and does not come back at once. */
int redis_ready(struct redis *r, struct err *e) ATTR_MUST_CHECK;
/* For pipelining: sends without waiting; `fn` is called from redis_wait(). */
int redis_send(struct redis *r, struct err *e, int argc, const struct rconn_arg *argv,
	       rconn_reply_fn *fn, void *arg) ATTR_MUST_CHECK;
/* Runs until at most `n` commands, of all queues, wait for their reply. */
void redis_wait(struct redis *r, size_t n);
/* Does nothing for that long but keep the link. */
void redis_pause(struct redis *r, int64_t ms);
/* Why the link went down the last time; "" = never. */
const char *redis_why(const struct redis *r);

/* From here on redis_parts.c. Where no configuration has the queue: notes in `t` if it looks as if
 * it had partitions. */
void redis_note_parts(struct redis *r, struct target *t, const struct parts *p);
/* redis_open(), for the streams `p` of the queue `name`, and that; NULL with `e`. */
struct redis *redis_open_parts(struct target *t, const char *name, struct parts *p, struct err *e);

/* From here on redis_kind.c: of the queue that is asked about. What lies there; -1 with `e`. */
int redis_look_at_kind(struct redis *r, struct kind_found *found, struct err *e) ATTR_MUST_CHECK;
/* If something of the other kind lies there: what, and what to do, as an error (1). */
bool redis_say_kind(struct redis *r, bool as_list, struct err *e);

/* From here on redis_reply.c. A copy that redis_free() frees, as all replies above; it takes NULL.
 */
redisReply *redis_copy(const redisReply *reply);
void redis_free(redisReply *reply);
/* The value of `field` in a reply that is a list of names and values (XINFO), or NULL. */
const redisReply *redis_field(const redisReply *list, const char *field);
int64_t redis_int(const redisReply *reply, int64_t otherwise);
struct slice redis_text(const redisReply *reply);

#endif
