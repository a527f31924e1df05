/* options.c - see options.h. */
#include <errno.h>

#include "options.h"
#include "suggest.h"

static const struct spec {
	const char *name;
	enum option_id id;
	bool has_value;
} specs[] = {
	{"-c", OPT_CONF, true},
	{"--config", OPT_CONF, true},
	{"-s", OPT_SET, true},
	{"--set", OPT_SET, true},
	{"--field", OPT_FIELD, true},
	{"--task", OPT_TASK, true},
	{"-n", OPT_N_LINES, true},
	{"--lines", OPT_LINES, false},
	{"--json", OPT_JSON, false},
	{"--watch", OPT_WATCH, false},
	{"-w", OPT_WATCH, false},
	{"-f", OPT_FOLLOW, false},
	{"--follow", OPT_FOLLOW, false},
	{"--no-wait", OPT_NO_WAIT, false},
	{"--wait", OPT_WAIT, false},
	{"--all", OPT_ALL, false},
	{"--fast", OPT_FAST, false},
	{"-h", OPT_HELP, false},
	{"--help", OPT_HELP, false},
	{"--version", OPT_VERSION, false},
	{"--key", OPT_KEY, true},
	{"--partition", OPT_PARTITION, true},
	{"--partitions", OPT_PARTITIONS, false},
};

static const struct spec *find(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(specs); i++)
		if (strlen(specs[i].name) == len && memcmp(specs[i].name, name, len) == 0)
			return &specs[i];
	return NULL;
}

/* "-1" is one worker less, "-" is stdin: arguments, no options. */
static bool is_option(const char *arg)
{
	if (arg[0] != '-' || arg[1] == '\0')
		return false;
	return !(arg[1] >= '0' && arg[1] <= '9');
}

static int set_number(struct options *o, const char *value, struct err *e)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (errno || *end || end == value || n < 0 || n > 1000000)
		return err_set(e, EXIT_USAGE, "-n %s: not a number of lines; say -n 100", value);
	o->n_lines = n;
	return 0;
}

static int set_partition(struct options *o, const char *value, struct err *e)
{
	size_t n_digits = strspn(value, "0123456789");

	if (n_digits == 0 || n_digits > 4 || value[n_digits])
		return err_set(e, EXIT_USAGE,
			       "--partition %s: not a number; they are counted from 0", value);
	o->partition = (int)strtol(value, NULL, 10);
	return 0;
}

static int apply(struct options *o, enum option_id id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_CONF:
		o->conf_file = value;
		break;
	case OPT_SET:
		o->sets[o->n_sets++] = value;
		break;
	case OPT_FIELD:
		if (!strchr(value, '='))
			return err_set(e, EXIT_USAGE, "--field %s: no '='; say --field name=value",
				       value);
		o->fields[o->n_fields++] = value;
		break;
	case OPT_TASK:
		o->task = value;
		break;
	case OPT_KEY:
		o->key = value;
		break;
	case OPT_PARTITION:
		return set_partition(o, value, e);
	case OPT_PARTITIONS:
		o->partitions = true;
		break;
	case OPT_N_LINES:
		return set_number(o, value, e);
	case OPT_LINES:
		o->by_line = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	case OPT_WATCH:
		o->watch = true;
		break;
	case OPT_FOLLOW:
		o->follow = true;
		break;
	case OPT_NO_WAIT:
		o->no_wait = true;
		break;
	case OPT_WAIT:
		o->wait = true;
		break;
	case OPT_ALL:
		o->all = true;
		break;
	case OPT_FAST:
		o->fast = true;
		break;
	case OPT_HELP:
		o->help = true;
		break;
	case OPT_VERSION:
		o->version = true;
		break;
	}
	return 0;
}

/* pm2's habit: logs --lines 100. Elsewhere --lines has no value. */
static bool takes_value(const struct options *o, const struct spec *spec)
{
	return spec->has_value ||
	       (spec->id == OPT_LINES && o->verb && strcmp(o->verb, "logs") == 0);
}

static int unknown(const char *arg, size_t len, struct err *e)
{
	char *name = xmemdup0(arg, len);
	struct suggest near = {0};

	for (size_t i = 0; len > 2 && i < ARRAY_LEN(specs); i++)
		suggest_try(&near, name, specs[i].name);
	free(name);
	if (near.word)
		return err_set(e, EXIT_USAGE, "unknown option %.*s; did you mean %s?",
			       (int)suggest_shown(arg), arg, near.word);
	return err_set(e, EXIT_USAGE, "unknown option %.*s; see redisqctl --help",
		       (int)suggest_shown(arg), arg);
}

/* The option argv[i], perhaps with its value in argv[i + 1]; returns the index of the last one. */
static int take_option(struct options *o, int argc, char **argv, int i, struct err *e)
{
	const char *arg = argv[i];
	bool is_long = arg[1] == '-';
	const char *equals = is_long ? strchr(arg, '=') : NULL;
	size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
	const struct spec *spec = find(arg, len);
	const char *value = equals ? equals + 1 : NULL;
	enum option_id id;

	if (!spec && !is_long && len > 2) { /* -n100 */
		spec = find(arg, 2);
		if (spec && spec->has_value)
			value = arg + 2;
		else
			spec = NULL;
	}
	if (!spec)
		return unknown(arg, len, e);
	id = spec->id;
	if (takes_value(o, spec)) {
		if (id == OPT_LINES)
			id = OPT_N_LINES;
		if (!value && ++i >= argc)
			return err_set(e, EXIT_USAGE, "%s needs a value; see redisqctl --help",
				       arg);
		if (!value)
			value = argv[i];
	} else if (value) {
		return err_set(e, EXIT_USAGE, "%.*s takes no value", (int)len, arg);
	}
	o->said[id] = spec->name;
	return apply(o, id, value ? value : "", e) == 0 ? i : -1;
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
	size_t n = (size_t)argc + 1;
	bool is_over = false;

	memset(o, 0, sizeof(*o));
	o->n_lines = -1;
	o->partition = -1;
	o->sets = xcalloc(n, sizeof(*o->sets));
	o->fields = xcalloc(n, sizeof(*o->fields));
	o->args = xcalloc(n, sizeof(*o->args));
	for (int i = 1; i < argc; i++) {
		if (!is_over && strcmp(argv[i], "--") == 0) {
			is_over = true;
		} else if (!is_over && is_option(argv[i])) {
			i = take_option(o, argc, argv, i, e);
			if (i < 0)
				return -1;
		} else if (!o->verb) {
			o->verb = argv[i];
		} else {
			o->args[o->n_args++] = argv[i];
		}
	}
	return 0;
}

int options_check(const struct options *o, const char *verb, uint32_t takes, struct err *e)
{
	takes |= OPT_BIT(OPT_CONF) | OPT_BIT(OPT_SET) | OPT_BIT(OPT_HELP) | OPT_BIT(OPT_VERSION);
	for (unsigned id = 0; id < OPT_N; id++) {
		if (!o->said[id] || (takes & OPT_BIT(id)))
			continue;
		if (id == OPT_PARTITION)
			return err_set(e, EXIT_USAGE,
				       "%s takes no --partition; one partition by itself is called "
				       "QUEUE:%d",
				       verb, o->partition);
		return err_set(e, EXIT_USAGE, "%s takes no %s; see redisqctl --help", verb,
			       o->said[id]);
	}
	return 0;
}

void options_release(struct options *o)
{
	free(o->sets);
	free(o->fields);
	free(o->args);
	memset(o, 0, sizeof(*o));
}
