/*
 * control.h - the control socket: a unix stream socket on which redisqctl asks and is answered, in
 * JSON lines (control.txt is the contract). It owns the socket, its clients and their buffers; it
 * knows no supervisor: each request goes to one callback, which answers now or later.
 *
 * Invariants: nothing here blocks; a client has one request in work at a time, what it sends
 * meanwhile waits, also while it does not read its answers; one that has hung up is freed at once,
 * whatever it still waits for; every buffer and the number of clients are bounded; only the own
 * user and root are let in (mode 0600, and SO_PEERCRED).
 */
#ifndef REDISQ_CONTROL_H
#define REDISQ_CONTROL_H

#include <ev.h>
#include <jansson.h>

#include "base.h"
#include "err.h"

#define CONTROL_CLIENTS_MAX 64
#define CONTROL_REQUEST_MAX (64 * 1024)
#define CONTROL_ANSWER_MAX (16 * 1024 * 1024)

struct control;
struct control_call; /* one request being answered; alive until control_done() or control_fail() */

/*
 * Called for each request (a JSON object with a "verb"). Answer exactly once, now or later, by
 * control_done() or control_fail(). `call` stays valid until then, also if the client goes away
 * (the answer then goes nowhere). `verb` and `request` are valid during the call only.
 */
typedef void control_request_fn(void *arg, struct control_call *call, const char *verb,
				json_t *request);

/*
 * Listens on `path` (0600). A stale socket there is replaced, one that somebody listens at is not.
 * NULL with `e` when that cannot be: exit code 73 for somebody else's, otherwise 78. `arg` is
 * borrowed.
 */
struct control *control_open(struct ev_loop *loop, const char *path, control_request_fn *fn,
			     void *arg, struct err *e);
/*
 * Unlinks the socket if it is still ours, answers what is still unanswered with an error, flushes
 * for at most 200 ms, frees all. Calls of before are not to be used any more. NULL is fine.
 */
void control_close(struct control *c);
/*
 * Re-creates the socket when somebody removed or replaced it; true = did. Where another supervisor
 * listens there now, that is said once and it is left alone.
 */
bool control_check(struct control *c);

/* False: the client has hung up; whatever waits for its sake can be let go of. */
bool control_is_heard(const struct control_call *call);
/* A progress line for the one who waits; dropped where that one does not read. */
void control_say(struct control_call *call, const char *fmt, ...) ATTR_PRINTF(2, 3);
/* Ends the call; steals the reference to `result`, NULL = {}. */
void control_done(struct control_call *call, json_t *result);
/* Ends the call; the text is "what; what to do", `exit_code` is what redisqctl exits with. */
void control_fail(struct control_call *call, int exit_code, const char *fmt, ...) ATTR_PRINTF(3, 4);

#endif
