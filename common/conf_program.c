/* conf_program.c - see conf_program.h. */
#include <errno.h>
#include <unistd.h>

#include "conf_program.h"
#include "readfile.h"
#include "spawn.h"

#define HEAD_MAX 256 /* what the kernel reads of a #! line */

/* The first word of `line` (up to `len`), and what follows it in `rest`. Owned. */
static char *first_word(const char *line, size_t len, struct slice *rest)
{
	size_t at = 0, n;

	while (at < len && (line[at] == ' ' || line[at] == '\t'))
		at++;
	for (n = at; n < len && line[n] != ' ' && line[n] != '\t';)
		n++;
	*rest = slice_of(line + n, len - n);
	return xmemdup0(line + at, n - at);
}

/* #!/usr/bin/env NAME: NAME is looked up on PATH, at each start. */
static void doubt_env(const char *file, struct slice rest, const char *path_var, struct buf *out)
{
	char *name = first_word(rest.data, rest.len, &rest);
	char *found;

	/* With options (-S) the rest is a command line: not ours to read. */
	if (name[0] && name[0] != '-' && !strchr(name, '=')) {
		found = spawn_find(name, path_var);
		if (!found)
			buf_addf(out,
				 "%s begins with #!/usr/bin/env %s, and %s is not on PATH (%s); "
				 "install it or give its full path",
				 file, name, name, path_var ? path_var : "unset");
		free(found);
	}
	free(name);
}

static void doubt_interpreter(const char *file, struct slice line, const char *path_var,
			      struct buf *out)
{
	struct slice rest;
	char *program;
	const char *base;

	if (line.len > 0 && line.data[line.len - 1] == '\r') {
		buf_addf(out,
			 "%s: its #! line ends in a carriage return, which becomes part of the "
			 "interpreter's name; remove it: sed -i 's/\\r$//' %s",
			 file, file);
		return;
	}
	program = first_word(line.data, line.len, &rest);
	base = strrchr(program, '/');
	if (!program[0])
		buf_addf(out, "%s: its #! line names no interpreter; write #!/bin/sh or the like",
			 file);
	else if (access(program, X_OK) < 0)
		buf_addf(out, "%s begins with #!%s, and %s: %s; install it or change that line",
			 file, program, program, strerror(errno));
	else if (base && strcmp(base, "/env") == 0)
		doubt_env(file, rest, path_var, out);
	free(program);
}

void conf_program_doubt(const char *file, const char *path_var, struct buf *out)
{
	struct buf head = BUF_INIT;
	const char *end;

	if (readfile(file, HEAD_MAX, &head) < 0)
		goto out; /* may be run and not read: then it is a program */
	if (head.len >= 4 && memcmp(head.data, "\177ELF", 4) == 0)
		goto out;
	if (head.len >= 2 && head.data[0] == '#' && head.data[1] == '!') {
		end = memchr(head.data, '\n', head.len);
		doubt_interpreter(
			file,
			slice_of(head.data + 2, (end ? (size_t)(end - head.data) : head.len) - 2),
			path_var, out);
		goto out;
	}
	buf_addf(out,
		 "%s is neither a program nor a script with a #! line; write #!/bin/sh, or what "
		 "it is written in, as its first line",
		 file);
out:
	buf_release(&head);
}

static bool ends_as_scripts_do(const char *word)
{
	static const char *const ends[] = {".py", ".js", ".mjs", ".rb", ".php", ".sh"};
	const char *dot = strrchr(word, '.');

	for (size_t i = 0; dot && i < ARRAY_LEN(ends); i++)
		if (dot > word && strcmp(dot, ends[i]) == 0)
			return true;
	return false;
}

static bool looks_like_script(const struct strv *argv, size_t i)
{
	const char *word = argv->v[i];

	/* sh -c 'cat /x', --config=/x, https://host/x, *.py */
	if (word[0] == '-' || strstr(word, "://") || strpbrk(word, " \t\n;|&<>$`'\"(){}*?=,"))
		return false;
	if (ends_as_scripts_do(word))
		return true;
	/* --out /tmp/x need not be there yet. */
	return strchr(word, '/') && (i == 1 || argv->v[i - 1][0] != '-');
}

char *conf_program_missing(const struct strv *argv, size_t i, const char *cwd)
{
	const char *word = argv->v[i];
	char *path;

	if (!looks_like_script(argv, i))
		return NULL;
	path = word[0] != '/' && cwd ? xasprintf("%s/%s", cwd, word) : xstrdup(word);
	if (access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return path;
	free(path);
	return NULL;
}
