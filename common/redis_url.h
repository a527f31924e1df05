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

/* Of those that a url names. */
#define REDIS_PLACES_MAX 16

/* Those who know where the master is. */
struct redis_sentinels {
	struct redis_place v[REDIS_PLACES_MAX];
	size_t n;
	char *master;   /* owned: its name */
	char *username; /* owned, NULL = none; for Sentinel itself, as password */
	char *password;
};

/* Some nodes of a cluster: any of them tells which one has a key. */
struct redis_cluster {
	struct redis_place v[REDIS_PLACES_MAX];
	size_t n;
};

struct redis_addr {
	enum redis_transport transport;
	bool tls;   /* TCP: rediss://, sentinels://, clusters:// */
	char *host; /* owned; TCP: name or address without brackets, NULL where Sentinel or the
		     * cluster has to be asked. UNIX: the socket's path */
	int port;
	int db;
	char *username; /* owned, NULL = none */
	char *password; /* owned, NULL = none; from password_file, password or the url */
	/* Owned; both NULL = the url says where Redis is. */
	struct redis_sentinels *sentinels;
	struct redis_cluster *cluster;
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
/* Takes the place that Sentinel, or a node of the cluster, has told for that of Redis. */
void redis_addr_set_place(struct redis_addr *a, const struct redis_place *place);
/* For people: "redis://10.0.0.5:6379/0", without user and password; while the place is not known
 * "sentinel://10.0.0.9:26379/mymaster/0" or "cluster://10.0.0.5:6379,10.0.0.6:6379/0". */
void redis_addr_text(const struct redis_addr *a, struct buf *out);
/* For people: "10.0.0.9:26379". */
void redis_place_text(const struct redis_place *p, struct buf *out);

#endif
