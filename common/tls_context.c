/* tls_context.c - see tls_context.h. */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "paths.h"
#include "tls_context.h"

/* What a file was when it was read; all zero = it was not there, or no such key is set. */
struct stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
	uint64_t entries; /* of a directory: a hash of what it has */
};

enum { CA_FILE, CA_DIR, CERT_FILE, KEY_FILE, N_FILES };

/* The process's one. `settings` are of the configuration, which must outlive the links. */
static struct {
	const struct tls_module *module; /* never unloaded: OpenSSL leaves things behind */
	struct tls_context *context;     /* owned; NULL = none could be made yet */
	struct tls_settings settings;
	struct stamp stamps[N_FILES]; /* of the last attempt to read them */
} tls;

static struct tls_settings settings_of(const struct conf_redis *r)
{
	return (struct tls_settings){
		.ca_file = r->tls_ca_file,
		.ca_dir = r->tls_ca_dir,
		.cert_file = r->tls_cert_file,
		.key_file = r->tls_key_file,
		.verify = r->tls_verify == CONF_TLS_VERIFY_YES,
	};
}

/* ------------------------------------------------------------------ the module */

static const struct tls_module *load(char why[TLS_WHY_MAX])
{
	char *path = paths_beside(TLS_MODULE_FILE, R_OK);
	const struct tls_module *m = NULL;
	void *dl;

	if (!path) {
		snprintf(why, TLS_WHY_MAX,
			 "rediss:// needs " TLS_MODULE_FILE ", which is neither beside this "
			 "program nor in ../lib/redisq/; install libssl-dev and run make again");
		return NULL;
	}
	dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!dl) {
		snprintf(why, TLS_WHY_MAX, "%s; install libssl3, or build it again", dlerror());
		free(path);
		return NULL;
	}
	m = dlsym(dl, TLS_MODULE_SYMBOL);
	if (!m || m->abi != TLS_MODULE_ABI || m->io_size != sizeof(struct rconn_io)) {
		snprintf(why, TLS_WHY_MAX,
			 "%s is of another version than this program; install both anew", path);
		dlclose(dl);
		m = NULL;
	}
	free(path);
	return m;
}

/* ------------------------------------------------------------------ the files */

/* FNV-1a. */
static uint64_t hash(uint64_t h, const void *data, size_t len)
{
	for (const unsigned char *p = data; len > 0; len--)
		h = (h ^ *p++) * UINT64_C(0x100000001b3);
	return h;
}

/* "5ed36f99.0": OpenSSL opens no others. */
static bool is_ca_name(const char *name)
{
	for (int i = 0; i < 8; i++)
		if (!isxdigit((unsigned char)name[i]))
			return false;
	return name[8] == '.';
}

/* The directory's own time does not tell that a file in it, or where a link leads, was written
 * anew. The sum, for the order of what is read is of no account. */
static uint64_t hash_entries(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	uint64_t sum = 0;
	struct stat st;

	while (dir && (entry = readdir(dir)) != NULL) {
		uint64_t h = UINT64_C(0xcbf29ce484222325);

		if (!is_ca_name(entry->d_name) || fstatat(dirfd(dir), entry->d_name, &st, 0) != 0)
			continue;
		h = hash(h, entry->d_name, strlen(entry->d_name));
		h = hash(h, &st.st_dev, sizeof(st.st_dev));
		h = hash(h, &st.st_ino, sizeof(st.st_ino));
		h = hash(h, &st.st_size, sizeof(st.st_size));
		sum += hash(h, &st.st_mtim, sizeof(st.st_mtim));
	}
	if (dir)
		closedir(dir);
	return sum;
}

static struct stamp stamp_of(const char *path)
{
	struct stat st;
	struct stamp s;

	memset(&s, 0, sizeof(s)); /* compared as bytes */
	if (!path || stat(path, &st) < 0)
		return s;
	s.dev = st.st_dev;
	s.ino = st.st_ino;
	s.size = st.st_size;
	s.changed = st.st_mtim;
	return s;
}

static void take_stamps(const struct tls_settings *s, struct stamp out[N_FILES])
{
	out[CA_FILE] = stamp_of(s->ca_file);
	out[CA_DIR] = stamp_of(s->ca_dir);
	if (s->ca_dir)
		out[CA_DIR].entries = hash_entries(s->ca_dir);
	out[CERT_FILE] = stamp_of(s->cert_file);
	out[KEY_FILE] = stamp_of(s->key_file);
}

/* A FIFO would hold up the whole process. */
static bool is_kind(const char *path, mode_t kind, const char *key, const char *word,
		    char why[TLS_WHY_MAX])
{
	struct stat st;

	if (!path)
		return true;
	if (stat(path, &st) < 0 || access(path, R_OK) < 0)
		snprintf(why, TLS_WHY_MAX, "%s %.150s: %s; give a path that this user can read",
			 key, path, strerror(errno));
	else if ((st.st_mode & S_IFMT) != kind)
		snprintf(why, TLS_WHY_MAX, "%s %.150s is not a %s; give one", key, path, word);
	else
		return true;
	return false;
}

static struct tls_context *read_files(const struct tls_settings *s, char why[TLS_WHY_MAX])
{
	if (!is_kind(s->ca_file, S_IFREG, "tls_ca_file", "file", why) ||
	    !is_kind(s->ca_dir, S_IFDIR, "tls_ca_dir", "directory", why) ||
	    !is_kind(s->cert_file, S_IFREG, "tls_cert_file", "file", why) ||
	    !is_kind(s->key_file, S_IFREG, "tls_key_file", "file", why))
		return NULL;
	return tls.module->context_new(s, why);
}

static bool same_settings(const struct tls_settings *a, const struct tls_settings *b)
{
	return a->ca_file == b->ca_file && a->ca_dir == b->ca_dir && a->cert_file == b->cert_file &&
	       a->key_file == b->key_file && a->verify == b->verify;
}

static void forget(void)
{
	if (tls.context)
		tls.module->context_free(tls.context);
	tls.context = NULL;
}

static void take_over(struct tls_context *fresh, const struct tls_settings *s)
{
	if (tls.context)
		log_info("the certificates for TLS have changed and were read again");
	else if (!s->verify)
		log_warning(
			"tls_verify = no: nothing proves that it is Redis that answers; whoever "
			"is on the way can read and change everything");
	forget();
	tls.context = fresh;
}

const struct tls_module *tls_context_get(const struct conf_redis *r, struct tls_context **context,
					 char why[TLS_WHY_MAX])
{
	struct tls_settings s = settings_of(r);
	struct stamp stamps[N_FILES];
	struct tls_context *fresh;

	if (!tls.module)
		tls.module = load(why);
	if (!tls.module)
		return NULL;
	if (!same_settings(&tls.settings, &s))
		forget();
	take_stamps(&s, stamps);
	if (!tls.context || memcmp(stamps, tls.stamps, sizeof(stamps)) != 0) {
		fresh = read_files(&s, why);
		if (fresh)
			take_over(fresh, &s);
		else if (tls.context)
			log_warning("%s (going on with the certificates that were read before)",
				    why);
		tls.settings = s;
		memcpy(tls.stamps, stamps, sizeof(stamps));
	}
	*context = tls.context;
	return tls.context ? tls.module : NULL;
}

int tls_context_check(const struct conf_redis *r, struct err *e)
{
	struct tls_settings s = settings_of(r);
	struct tls_context *context = NULL;
	char why[TLS_WHY_MAX] = "";

	if (!tls.module)
		tls.module = load(why);
	if (tls.module)
		context = read_files(&s, why);
	if (!context)
		return err_set(e, EXIT_CONFIG, "%s", why);
	tls.module->context_free(context);
	return 0;
}
