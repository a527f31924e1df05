/*
 * paths.h - where files are when the configuration does not say: one sub-directory NAME in each
 * tree, by who runs it.
 *
 *             root                  others
 *   config    /etc/redisq/NAME.ini  $XDG_CONFIG_HOME/redisq/NAME.ini  (~/.config)
 *   run       /run/NAME             $XDG_RUNTIME_DIR/NAME, else /tmp/redisq-<uid>/NAME
 *   state     /var/lib/NAME         $XDG_STATE_HOME/NAME              (~/.local/state)
 *   log       /var/log/NAME         $XDG_STATE_HOME/NAME/log
 *
 * systemd's RUNTIME_DIRECTORY, STATE_DIRECTORY and LOGS_DIRECTORY are taken as they are (the first
 * of a list) and beat all of it. The resolving functions touch nothing; paths_make() is for the
 * supervisor, paths_check_run() for everyone about to trust what lies in the run directory.
 */
#ifndef REDISQ_PATHS_H
#define REDISQ_PATHS_H

#include "err.h"

/* Who asks. paths_self() fills it for this process. */
struct paths_who {
	uid_t uid;        /* effective */
	char *const *env; /* borrowed; as environ */
};

struct paths_who paths_self(void);

/* All owned by the caller (free). */
char *paths_config_file(const struct paths_who *who, const char *name);
char *paths_run_dir(const struct paths_who *who, const char *name);
char *paths_state_dir(const struct paths_who *who, const char *name);
char *paths_log_dir(const struct paths_who *who, const char *name);
/* In the run directory. */
char *paths_pid_file(const struct paths_who *who, const char *name);
char *paths_control_socket(const struct paths_who *who, const char *name);

/* Longest path a unix socket can have (sun_path less its NUL). */
#define PATHS_SOCKET_MAX 107

/*
 * Makes `dir` and its missing parents, each new one with `mode`. One that is there already is
 * accepted as it is, except under /tmp/redisq-<uid>, where paths_check_run() must hold.
 */
int paths_make(const struct paths_who *who, const char *dir, mode_t mode,
	       struct err *e) ATTR_MUST_CHECK;
/* paths_make() for the directory that `file` lies in. */
int paths_make_parent(const struct paths_who *who, const char *file, mode_t mode,
		      struct err *e) ATTR_MUST_CHECK;
/*
 * -1 when `path` lies under /tmp/redisq-<uid> and that directory is not ours alone (a symbolic
 * link, another's, open to others): somebody may have put it there to be talked to. A directory
 * that is not there is no error.
 */
int paths_check_run(const struct paths_who *who, const char *path, struct err *e) ATTR_MUST_CHECK;

/* The file `name` beside this program, else in ../lib/redisq/ from there, that this user may R_OK
 * or X_OK. Owned; NULL: in neither. Looked for each time: a deploy may have moved it. */
char *paths_beside(const char *name, int how);

/* `path`, with the present directory in front if it is relative. Owned; NULL with errno. */
char *paths_absolute(const char *path);

#endif
