/* identity.c - see identity.h. */
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include "buf.h"
#include "identity.h"

static int find_user(struct identity *id, const char *name, struct err *e)
{
	char room[4096];
	struct passwd pw, *found = NULL;

	if (getpwnam_r(name, &pw, room, sizeof(room), &found) != 0 || !found)
		return err_set(e, EXIT_CONFIG, "[supervisor] user: there is no user %s", name);
	id->uid = found->pw_uid;
	id->gid = found->pw_gid;
	id->user = xstrdup(name);
	return 0;
}

static int find_group(struct identity *id, const char *name, struct err *e)
{
	char room[16384];
	struct group gr, *found = NULL;

	if (getgrnam_r(name, &gr, room, sizeof(room), &found) != 0 || !found)
		return err_set(e, EXIT_CONFIG, "[supervisor] group: there is no group %s", name);
	id->gid = found->gr_gid;
	return 0;
}

int identity_resolve(struct identity *id, const struct conf_supervisor *sup, bool *warning,
		     struct err *e)
{
	*id = (struct identity){.uid = getuid(), .gid = getgid()};
	*warning = false;
	if (!sup->user && !sup->group)
		return 0;
	if (sup->user && find_user(id, sup->user, e) < 0)
		return -1;
	if (sup->group && find_group(id, sup->group, e) < 0)
		return -1;
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
