/*
 * script.h - the Lua scripts of common/scripts, run over a link: EVALSHA, and EVAL when Redis does
 * not know the script (a new server, SCRIPT FLUSH). The list is made from the files at build time
 * by common/scripts/embed: common/scripts/claim.lua is SCRIPT_CLAIM, and SCRIPT_LIST_CLAIM for a
 * queue that is a list: the same script, with the stream commands done by common/scripts/_list.lua.
 */
#ifndef REDISQ_SCRIPT_H
#define REDISQ_SCRIPT_H

#include "rconn.h"

#define SCRIPT(id, name, sha1, text) SCRIPT_##id,
enum script_id {
#include "scripts.inc"
	N_SCRIPTS
};
#undef SCRIPT

/* SCRIPT_CLAIM -> SCRIPT_LIST_CLAIM; what is for lists only stays what it is. */
enum script_id script_on_list(enum script_id id);
/* The same KEYS, and behind them those of keys_of_list() and <processing> of consumers; the same
 * arguments, and these three behind them: the queue's name, what its other keys begin with, and the
 * consumer group. */
#define SCRIPT_LIST_ARGS 3

/* "claim". Static. */
const char *script_name(enum script_id id);
/* 40 hexadecimal digits. Static. */
const char *script_sha1(enum script_id id);
/* What is sent to Redis. Static. */
const char *script_text(enum script_id id);

/* Tells Redis all scripts for queues of this kind, so that none has to be sent twice later; errors
 * are of no consequence. */
void script_load_all(struct rconn *c, bool on_lists);

/*
 * As rconn_send(): the first `n_keys` of `argc` arguments are the script's KEYS. The arguments are
 * copied (one allocation, freed after the reply), because a NOSCRIPT answer has them sent again.
 * That second sending is behind all that was sent in between, which may be a read that blocks: it
 * goes over `detour` instead, if that is ready. `detour` (not NULL, may be `c`) must be closed
 * after `c` if it is another link. `fn` (not NULL) is called once, like any other reply function,
 * and never sees NOSCRIPT. -1 when the link is not ready.
 */
int script_send(struct rconn *c, struct rconn *detour, enum script_id id, int n_keys, int argc,
		const struct rconn_arg *keys_and_args, int64_t extra_ms, rconn_reply_fn *fn,
		void *arg) ATTR_MUST_CHECK;

#endif
