/*
 * redis_url.h - where Redis is and who we are there: the url and the keys of [redis] taken apart.
 * Plain code, but for the reading of password_file.
 */
#ifndef REDISQ_REDIS_URL_H
#define REDISQ_REDIS_URL_H

#include "conf.h"

enum redis_transport { REDIS_TCP, REDIS_UNIX };

struct redis_addr {
	enum redis_transport transport;
	bool tls;   /* TCP: rediss:// */
	char *host; /* owned; TCP: name or address without brackets. UNIX: the socket's path */
	int port;
	int db;
	char *username; /* owned, NULL = none */
	char *password; /* owned, NULL = none; from password_file, password or the url */
};

/* Takes `url` apart (syntax only). Errors say what is wrong and show a right one. */
int redis_url_parse(const char *url, struct redis_addr *out, struct err *e) ATTR_MUST_CHECK;
/* As redis_url_parse(), for a whole [redis] section: username and password beat the url's. */
int redis_addr_resolve(const struct conf_redis *r, struct redis_addr *out,
		       struct err *e) ATTR_MUST_CHECK;
/* Is it a right one, and TLS? */
bool redis_url_is_tls(const char *url);
void redis_addr_release(struct redis_addr *a);
/* For people: "redis://10.0.0.5:6379/0", without user and password. */
void redis_addr_text(const struct redis_addr *a, struct buf *out);

#endif
