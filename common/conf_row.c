/* conf_row.c - see conf_row.h: the rows of conf.def. */
#include "conf_row.h"
#include "suggest.h"

#define IN_SUPERVISOR struct conf_supervisor
#define IN_REDIS struct conf_redis
#define IN_QUEUE struct conf_queue

#define CONF(section_, key_, type_, def_, min_, max_, unit_, env_, reload_, doc_) \
	{.section = CONF_##section_, \
	 .type = CONF_##type_, \
	 .reload = CONF_##reload_, \
	 .key = #key_, \
	 .def = def_, \
	 .unit = unit_, \
	 .env = env_, \
	 .doc = doc_, \
	 .min = min_, \
	 .max = max_, \
	 .offset = offsetof(IN_##section_, key_)},

const struct conf_row conf_rows[] = {
#include "conf.def"
};
#undef CONF

const size_t conf_n_rows = ARRAY_LEN(conf_rows);
_Static_assert(ARRAY_LEN(conf_rows) <= CONF_ROWS_MAX, "raise CONF_ROWS_MAX");

const struct conf_row *conf_row(enum conf_section s, const char *key)
{
	for (size_t i = 0; i < conf_n_rows; i++)
		if (conf_rows[i].section == s && strcmp(conf_rows[i].key, key) == 0)
			return &conf_rows[i];
	return NULL;
}

const char *conf_section_word(enum conf_section s)
{
	static const char *const words[CONF_N_SECTIONS] = {"supervisor", "redis", "queue"};

	return words[s];
}

size_t conf_section_size(enum conf_section s)
{
	static const size_t sizes[CONF_N_SECTIONS] = {sizeof(struct conf_supervisor),
						      sizeof(struct conf_redis),
						      sizeof(struct conf_queue)};

	return sizes[s];
}

const char *conf_row_suggest(enum conf_section s, const char *key)
{
	struct suggest near = {0};

	for (size_t i = 0; i < conf_n_rows; i++)
		if (conf_rows[i].section == s)
			suggest_try(&near, key, conf_rows[i].key);
	return near.word;
}

void *conf_field(const struct conf_row *row, void *section_struct)
{
	return (char *)section_struct + row->offset;
}

const void *conf_cfield(const struct conf_row *row, const void *section_struct)
{
	return (const char *)section_struct + row->offset;
}

#define NAME_LEN_MAX 64

int conf_check_name(const char *name, struct err *e)
{
	size_t good = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				   "._-");

	if (name[good] || name[0] == '.' || good > NAME_LEN_MAX)
		return err_set(e, EXIT_CONFIG,
			       "cannot be a directory; use at most %d of A-Z a-z 0-9 . _ -",
			       NAME_LEN_MAX);
	return 0;
}

int conf_check_consumer(const char *pattern, struct err *e)
{
	bool has_pid = false;

	for (const char *p = pattern; *p; p++) {
		if (*p == ' ')
			return err_set(e, EXIT_CONFIG, "has a blank; consumer names are one word");
		if (*p != '%')
			continue;
		p++;
		if (*p != 'p' && *p != 'h' && *p != '%')
			return err_set(e, EXIT_CONFIG,
				       "a %% that is not %%p, %%h or %%%%; write %%%% for one %%");
		has_pid |= *p == 'p';
	}
	if (!has_pid)
		return err_set(e, EXIT_CONFIG,
			       "has no %%p; without the pid two workers would share a name; write "
			       "worker_%%p");
	if (strlen(pattern) > 96)
		return err_set(e, EXIT_CONFIG, "longer than 96 bytes; shorten it");
	return 0;
}
