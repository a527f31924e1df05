/* identity.c - see identity.h. */
#include <unistd.h>

#include "buf.h"
#include "identity.h"
#include "users.h"

int identity_resolve(struct identity *id, const struct conf_supervisor *sup, bool *warning,
		     struct err *e)
{
	*id = (struct identity){.uid = getuid(), .gid = getgid()};
	*warning = false;
	if (!sup->user && !sup->group)
		return 0;
	if (sup->user && !users_find(sup->user, &id->uid, &id->gid))
		return err_set(e, EXIT_CONFIG, "[supervisor] user: there is no user %s", sup->user);
	if (sup->group && !users_find_group(sup->group, &id->gid))
		return err_set(e, EXIT_CONFIG, "[supervisor] group: there is no group %s",
			       sup->group);
	id->user = sup->user ? xstrdup(sup->user) : NULL;
	if (geteuid() != 0) {
		*warning = id->uid != geteuid() || id->gid != getegid();
		return 0;
	}
	id->change = true;
	return 0;
}

void identity_release(struct identity *id)
{
	free(id->user);
	id->user = NULL;
}
