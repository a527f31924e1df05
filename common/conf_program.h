/*
 * conf_program.h - what a handler's words point to on this machine: a program that the kernel can
 * start, scripts that are there. An interpreter whose script is missing exits 1 or 2 like one that
 * ran and failed: nothing tells the two apart at run time, so this is looked at before.
 *
 * Doubts, not errors: a word that looks like a script need not be one, and binfmt_misc can start
 * files that are neither ELF nor begin with #!.
 */
#ifndef REDISQ_CONF_PROGRAM_H
#define REDISQ_CONF_PROGRAM_H

#include "conf.h"

/*
 * Appends "what; what to do" when the kernel will not start the file: neither ELF nor #!, or its
 * #! names an interpreter that is missing. `path_var` is the PATH it will have (NULL = unset), for
 * #!/usr/bin/env NAME. A file that cannot be read raises no doubt.
 */
void conf_program_doubt(const char *file, const char *path_var, struct buf *out);

/*
 * The word argv[i] (i >= 1) of a handler, when it looks like a script of its own that is not there:
 * the path that was looked at, owned. NULL: no doubt. A word looks like one when it ends as scripts
 * do (.py .js .mjs .rb .php .sh) or has a '/' and is not an option, an option's value, a URL or a
 * piece of shell. `cwd`: where relative ones are looked for, NULL = here.
 */
char *conf_program_missing(const struct strv *argv, size_t i, const char *cwd);

#endif
