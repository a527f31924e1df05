/* program.c - see program.h. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"
#include "spawn.h"

/* A name with a '/' is looked at from cwd when it is started: so here. */
static int check_path(const struct conf_queue *q, const char *program, struct err *e)
{
	char *path = program[0] == '/' || !q->cwd ? xstrdup(program)
						  : xasprintf("%s/%s", q->cwd, program);
	struct stat st;
	int r = 0;

	if (stat(path, &st) < 0)
		r = err_set(e, EXIT_CONFIG, "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
		r = err_set(e, EXIT_CONFIG, "%s: not an executable file", path);
	free(path);
	return r;
}

int program_check(const struct conf_queue *q, const struct strv *env, struct err *e)
{
	const char *program = q->handler.argv.v[0];
	const char *path = NULL;
	char *found;

	if (strchr(program, '/'))
		return check_path(q, program, e);
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], "PATH=", 5) == 0)
			path = env->v[i] + 5;
	found = spawn_find(program, path);
	if (!found)
		return err_set(e, EXIT_CONFIG, "%s: %s", program, strerror(errno));
	free(found);
	return 0;
}
