/*
 * conf_snapshot.h - the reading half of conf_write_snapshot(). Plain code; conf_read_snapshot()
 * brings the bytes.
 */
#ifndef REDISQ_CONF_SNAPSHOT_H
#define REDISQ_CONF_SNAPSHOT_H

#include "conf.h"

/*
 * Into a new configuration. Nothing is resolved or warned about again: what was written had been
 * finished. -1 with `e` for what conf_write_snapshot() of this version cannot have written.
 */
int conf_snapshot_parse(struct conf *c, struct slice text, struct err *e) ATTR_MUST_CHECK;

#endif
