/*
 * spawnloop.c - the ceiling of exec handlers: posix_spawn (vfork-like in glibc) and wait, nothing
 * else, so many at once.
 *
 *   spawnloop N AT_ONCE PROGRAM     "ready", waits for a line, runs PROGRAM N times, "done"
 */
#include <spawn.h>
#include <sys/wait.h>

#include "bench.h"

extern char **environ;

int main(int argc, char **argv)
{
	char *child_argv[] = {argc == 4 ? argv[3] : NULL, NULL};
	long left, at_once;
	long running = 0;

	if (argc != 4)
		die("usage: spawnloop N AT_ONCE PROGRAM");
	left = number(argv[1], 1, 100000000);
	at_once = number(argv[2], 1, 4096);
	wait_for_go();
	while (left > 0 || running > 0) {
		pid_t pid;
		int status;

		while (left > 0 && running < at_once) {
			int error = posix_spawn(&pid, argv[3], NULL, NULL, child_argv, environ);

			if (error)
				die("%s: %s", argv[3], strerror(error));
			left--;
			running++;
		}
		if (waitpid(-1, &status, 0) < 0 || status != 0)
			die("%s failed", argv[3]);
		running--;
	}
	puts("done");
	return 0;
}
