/*
 * conf_row.h - the configuration table as data, for the modules that walk it (conf*.c). Others
 * use the fields of conf.h.
 */
#ifndef REDISQ_CONF_ROW_H
#define REDISQ_CONF_ROW_H

#include "conf.h"

enum conf_type {
	CONF_STR,
	CONF_PATH,
	CONF_SECRET,
	CONF_INT,
	CONF_INTDEF,
	CONF_WORKERS,
	CONF_DUR,
	CONF_AUTODUR,
	CONF_SIZE,
	CONF_PERCENT,
	CONF_ENUM,
	CONF_HANDLER,
	CONF_ENVLIST
};

/* A WORKERS field before conf_resolve(): "max", and nothing said. */
#define CONF_WORKERS_MAX (-1)
#define CONF_WORKERS_UNSET (-2)

struct conf_row {
	enum conf_section section;
	enum conf_type type;
	enum conf_reload reload;
	const char *key;
	const char *def;  /* text form of the default */
	const char *unit; /* the words of an ENUM, '|' between */
	const char *env;  /* alias in the environment, or "" */
	const char *doc;
	int64_t min, max; /* both 0 = no bounds; max 0 = no upper one */
	size_t offset;    /* of the field in the section's struct */
};

#define CONF_ROWS_MAX 96

extern const struct conf_row conf_rows[];
extern const size_t conf_n_rows; /* <= CONF_ROWS_MAX */

/* NULL: no such key in that section. */
const struct conf_row *conf_row(enum conf_section s, const char *key);
/* "supervisor", "redis", "queue". */
const char *conf_section_word(enum conf_section s);
size_t conf_section_size(enum conf_section s);
/* The known key most like `key`, or NULL when none is near. */
const char *conf_row_suggest(enum conf_section s, const char *key);
/* The field of `row` in `section_struct`. */
void *conf_field(const struct conf_row *row, void *section_struct);
const void *conf_cfield(const struct conf_row *row, const void *section_struct);

/*
 * For the modules that complete a configuration (conf_finish, conf_snapshot): the struct of a
 * section to write into, NULL: no such queue. A [queue] without a name is the one that others are
 * copied from.
 */
void *conf_edit(struct conf *c, enum conf_section s, const char *queue);
void conf_edit_origin(struct conf *c, enum conf_section s, const char *queue, const char *key,
		      enum conf_origin origin, const char *where);
/* Where the header of a queue that exists stands ("redisq.ini:12"); NULL: in no file. */
void conf_set_queue_where(struct conf *c, const char *queue, const char *where);
const char *conf_queue_where(const struct conf *c, const char *queue);

/* The instance's name is a sub-directory: A-Z a-z 0-9 . _ -, not first a '.', at most 64. */
int conf_check_name(const char *name, struct err *e) ATTR_MUST_CHECK;
/* A consumer name's pattern: %p in it, else only %h and %%. */
int conf_check_consumer(const char *pattern, struct err *e) ATTR_MUST_CHECK;
/* Decimal digits, perhaps with a sign. */
bool conf_is_number(const char *text);

#endif
