/* users.c - see users.h. The library's functions say ERANGE when the room is too small. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>

#include "buf.h"
#include "users.h"

#define ROOM_START 1024
/* Hundreds of thousands of members: no entry is longer than that. */
#define ROOM_MAX (16 * 1024 * 1024)

/* Makes the room larger after ERANGE; false when that was not it. */
static bool grow(char **room, size_t *size, int error)
{
	if (error != ERANGE || *size >= ROOM_MAX)
		return false;
	*size *= 4;
	*room = xrealloc(*room, *size);
	return true;
}

/* By name, or by `uid` when that is NULL. The strings of `pw` live in `*room`, which is owned. */
static bool find_user(const char *name, uid_t uid, struct passwd *pw, char **room)
{
	size_t size = ROOM_START;
	struct passwd *found = NULL;
	int error;

	*room = xcalloc(1, size);
	do
		error = name ? getpwnam_r(name, pw, *room, size, &found)
			     : getpwuid_r(uid, pw, *room, size, &found);
	while (grow(room, &size, error));
	return error == 0 && found;
}

bool users_find(const char *name, uid_t *uid, gid_t *gid)
{
	struct passwd pw;
	char *room;
	bool found = find_user(name, 0, &pw, &room);

	if (found) {
		*uid = pw.pw_uid;
		*gid = pw.pw_gid;
	}
	free(room);
	return found;
}

char *users_home(uid_t uid)
{
	struct passwd pw;
	char *room;
	char *home = find_user(NULL, uid, &pw, &room) ? xstrdup(pw.pw_dir) : NULL;

	free(room);
	return home;
}

bool users_find_group(const char *name, gid_t *gid)
{
	size_t size = ROOM_START;
	char *room = xcalloc(1, size);
	struct group gr, *found = NULL;
	int error;

	do
		error = getgrnam_r(name, &gr, room, size, &found);
	while (grow(&room, &size, error));
	if (error == 0 && found)
		*gid = gr.gr_gid;
	free(room);
	return error == 0 && found;
}
