/* so_lib.c - see so_lib.h. */
#include <dlfcn.h>

#include "buf.h"
#include "so_lib.h"

const char *so_lib_fault(const struct redisq_handler *api, char out[128])
{
	if (!api)
		return "it exports no redisq_handler; see redisq_handler.h";
	if (api->abi != REDISQ_ABI) {
		snprintf(out, 128,
			 "built for version %u of redisq_handler.h, this worker has %d; build it "
			 "again",
			 (unsigned)api->abi, REDISQ_ABI);
		return out;
	}
	if (!REDISQ_HAS(api, handle) || !api->handle)
		return "its redisq_handler is not filled in: size and handle are needed";
	return NULL;
}

/* Of dlerror() only what is wrong: it begins with the path, which is said anyway. */
static const char *load_error(const char *path)
{
	const char *text = dlerror();
	size_t n = strlen(path);

	if (!text)
		return "cannot be loaded";
	return strncmp(text, path, n) == 0 && text[n] == ':' ? text + n + 2 : text;
}

static int load(struct so_lib *l, const char *path, struct err *e)
{
	char text[128];
	const char *fault;

	l->dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!l->dl) {
		err_set(e, EXIT_CONFIG, "%s: %s", path, load_error(path));
		return -1;
	}
	l->api = dlsym(l->dl, "redisq_handler");
	fault = so_lib_fault(l->api, text);
	if (!fault)
		return 0;
	err_set(e, EXIT_CONFIG, "%s: %s", path, fault);
	dlclose(l->dl);
	*l = (struct so_lib){0};
	return -1;
}

static int init(struct so_lib *l, const char *path, const struct redisq_host *host, struct err *e)
{
	char why[REDISQ_ERROR_MAX] = "";
	int r = l->api->init ? l->api->init(host, why) : 0;

	if (r == 0)
		return 0;
	why[sizeof(why) - 1] = '\0';
	err_set(e, EXIT_CONFIG, "%s: its init() says %d%s%s", path, r, why[0] ? ": " : "", why);
	dlclose(l->dl);
	*l = (struct so_lib){0};
	return -1;
}

int so_lib_open(struct so_lib *l, const char *path, const struct redisq_host *host, struct err *e)
{
	char *full = strchr(path, '/') ? xstrdup(path) : xasprintf("./%s", path);
	int r = 0;

	if (!l->api && (load(l, full, e) < 0 || init(l, full, host, e) < 0))
		r = -1;
	free(full);
	return r;
}

void so_lib_close(struct so_lib *l)
{
	if (l->api && l->api->fini)
		l->api->fini();
	*l = (struct so_lib){0};
}
