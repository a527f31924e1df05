/* conf_check_tls.c - see conf_check_tls.h. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf_check_tls.h"
#include "paths.h"
#include "readfile.h"
#include "redis_url.h"
#include "tls_module.h"

#define PEM_MAX (4 * 1024 * 1024)

static void complain(struct buf *errs, const struct conf *c, const char *key, const char *fmt, ...)
	ATTR_PRINTF(4, 5);
static void complain(struct buf *errs, const struct conf *c, const char *key, const char *fmt, ...)
{
	va_list ap;

	buf_addf(errs, "%s: [redis] %s: ", conf_where(c, CONF_REDIS, NULL, key), key);
	va_start(ap, fmt);
	buf_vaddf(errs, fmt, ap);
	va_end(ap);
	buf_addc(errs, '\n');
}

/* True when it was one of `kind`, else said what is wrong. */
static bool is_kind(const struct conf *c, const char *key, const char *path, mode_t kind,
		    const char *word, struct buf *errs)
{
	struct stat st;

	if (stat(path, &st) < 0)
		complain(errs, c, key, "%s: %s; give a path that is there", path, strerror(errno));
	else if ((st.st_mode & S_IFMT) != kind)
		complain(errs, c, key, "%s is not a %s; give one", path, word);
	else
		return true;
	return false;
}

/* A PEM file with `mark` in one of its headers. */
static void check_pem(const struct conf *c, const char *key, const char *path, const char *mark,
		      struct buf *errs)
{
	struct buf text = BUF_INIT;

	if (!path || !is_kind(c, key, path, S_IFREG, "file", errs))
		return;
	if (readfile(path, PEM_MAX, &text) < 0)
		complain(errs, c, key, "%s: %s; let this user read it", path, strerror(errno));
	else if (!memmem(text.data, text.len, mark, strlen(mark)))
		complain(errs, c, key, "%s: there is no \"%s\" in it; it must be a PEM file", path,
			 mark);
	/* A private key has been in here. */
	explicit_bzero(text.data, text.len);
	buf_release(&text);
}

static void check_dir(const struct conf *c, const char *path, struct buf *errs)
{
	static const char key[] = "tls_ca_dir";

	if (path && is_kind(c, key, path, S_IFDIR, "directory", errs) &&
	    access(path, R_OK | X_OK) < 0)
		complain(errs, c, key, "%s: %s; let this user read it", path, strerror(errno));
}

/* Somebody may believe that this is TLS. */
static void warn_plain(struct conf *c)
{
	const struct conf_redis *r = conf_redis(c);
	const char *key = r->tls_ca_file     ? "tls_ca_file"
			  : r->tls_ca_dir    ? "tls_ca_dir"
			  : r->tls_cert_file ? "tls_cert_file"
					     : NULL;

	if (key)
		conf_warn(c,
			  "%s: [redis] %s has no effect: the url is not rediss://, so "
			  "nothing is encrypted; write rediss://",
			  conf_where(c, CONF_REDIS, NULL, key), key);
}

static void check_module(const struct conf *c, struct buf *errs)
{
	char *path = paths_beside(TLS_MODULE_FILE, R_OK);

	if (!path)
		complain(errs, c, "url",
			 "rediss:// needs " TLS_MODULE_FILE
			 ", which is neither beside this program "
			 "nor in ../lib/redisq/; install libssl-dev and run make again");
	free(path);
}

void conf_check_tls(struct conf *c, struct buf *errs)
{
	const struct conf_redis *r = conf_redis(c);

	if (!r->url || !redis_url_is_tls(r->url)) {
		warn_plain(c);
		return;
	}
	check_module(c, errs);
	check_pem(c, "tls_ca_file", r->tls_ca_file, "CERTIFICATE-----", errs);
	check_dir(c, r->tls_ca_dir, errs);
	check_pem(c, "tls_cert_file", r->tls_cert_file, "CERTIFICATE-----", errs);
	check_pem(c, "tls_key_file", r->tls_key_file, "PRIVATE KEY-----", errs);
	if (r->tls_verify == CONF_TLS_VERIFY_NO)
		conf_warn(c,
			  "%s: [redis] tls_verify = no: nothing proves that it is Redis that "
			  "answers; set tls_ca_file instead",
			  conf_where(c, CONF_REDIS, NULL, "tls_verify"));
}
