/*
 * users.h - who the users and groups of this machine are, however long their entries: a group of
 * a thousand members does not fit into any buffer chosen beforehand.
 */
#ifndef REDISQ_USERS_H
#define REDISQ_USERS_H

#include "base.h"

/* False: there is no such user (or nobody who knows could be asked). */
bool users_find(const char *name, uid_t *uid, gid_t *gid) ATTR_MUST_CHECK;
bool users_find_group(const char *name, gid_t *gid) ATTR_MUST_CHECK;
/* The home directory of `uid`. Owned by the caller; NULL = unknown. */
char *users_home(uid_t uid);

#endif
