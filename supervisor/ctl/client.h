/*
 * client.h - redisqctl's side of the control socket (control.txt), synchronous.
 */
#ifndef REDISQ_CTL_CLIENT_H
#define REDISQ_CTL_CLIENT_H

#include <jansson.h>

#include "buf.h"
#include "conf.h"
#include "err.h"

struct client;

/* A progress line. */
typedef void client_say_fn(void *arg, const char *text);

/* The first of `paths` where somebody answers; NULL with `e` (exit 69) listing every one tried. */
struct client *client_open(const struct strv *paths, struct err *e);
void client_close(struct client *c);
/* Where it answered. Borrowed. */
const char *client_path(const struct client *c);
/*
 * Asks (steals `request`) and waits for the answer: an owned object, or NULL with `e`, whose code
 * is the exit code the supervisor gave. `timeout_ms`: longest silence, -1 = none. `say` may be
 * NULL.
 */
json_t *client_ask(struct client *c, json_t *request, int timeout_ms, client_say_fn *say, void *arg,
		   struct err *e);

#endif
