/*
 * identity.h - [supervisor] user and group: as whom workers and the private Redis run.
 */
#ifndef REDISQ_IDENTITY_H
#define REDISQ_IDENTITY_H

#include "conf.h"

struct identity {
	bool change; /* there is something to change to */
	uid_t uid;
	gid_t gid;
	char *user; /* owned: for supplementary groups, NULL = none */
};

/* -1: an unknown user or group. Not as root: no change; `warning` is set where that matters. */
int identity_resolve(struct identity *id, const struct conf_supervisor *sup, bool *warning,
		     struct err *e) ATTR_MUST_CHECK;
void identity_release(struct identity *id);

#endif
