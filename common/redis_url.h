/*
 * redis_url.h - where Redis is and who we are there: the url and the keys of [redis] taken apart.
 * Plain code, but for the reading of password_file.
 */
#ifndef REDISQ_REDIS_URL_H
#define REDISQ_REDIS_URL_H

#include "conf.h"

enum redis_transport { REDIS_TCP, REDIS_UNIX };

/* A server. */
struct redis_place {
	char *host; /* owned: name or address without brackets */
	int port;
};

#define REDIS_SENTINELS_MAX 16

/* Those who know where the master is. */
struct redis_sentinels {
	struct redis_place v[REDIS_SENTINELS_MAX];
	size_t n;
	char *master;   /* owned: its name */
	char *username; /* owned, NULL = none; for Sentinel itself, as password */
	char *password;
};

struct redis_addr {
	enum redis_transport transport;
	bool tls;   /* TCP: rediss://, sentinels:// */
	char *host; /* owned; TCP: name or address without brackets, NULL where Sentinel has to be
		     * asked. UNIX: the socket's path */
	int port;
	int db;
	char *username; /* owned, NULL = none */
	char *password; /* owned, NULL = none; from password_file, password or the url */
	struct redis_sentinels *sentinels; /* owned; NULL = the url says where Redis is */
};

/* Takes `url` apart (syntax only). Errors say what is wrong and show a right one. */
int redis_url_parse(const char *url, struct redis_addr *out, struct err *e) ATTR_MUST_CHECK;
/* As redis_url_parse(), for a whole [redis] section: username and password beat the url's, and
 * Sentinel's own are there. */
int redis_addr_resolve(const struct conf_redis *r, struct redis_addr *out,
		       struct err *e) ATTR_MUST_CHECK;
/* Is it a right one, and TLS? */
bool redis_url_is_tls(const char *url);
void redis_addr_release(struct redis_addr *a);
/* Takes the master's place, which Sentinel has told, for that of Redis. */
void redis_addr_set_master(struct redis_addr *a, const struct redis_place *master);
/* For people: "redis://10.0.0.5:6379/0", without user and password; while the master's place is not
 * known "sentinel://10.0.0.9:26379/mymaster/0". */
void redis_addr_text(const struct redis_addr *a, struct buf *out);
/* For people: "10.0.0.9:26379". */
void redis_place_text(const struct redis_place *p, struct buf *out);

#endif
