/* doctor_server.c - what INFO, PING and TIME say of this Redis; see doctor.h. */
#include <inttypes.h>
#include <time.h>

#include "clock.h"
#include "doctor.h"
#include "info.h"
#include "out.h"
#include "redis_url.h"

#define N_PINGS 20
#define FAR_US 20000 /* a median round trip that costs throughput */
#define CLOCKS_APART_MS 2000
#define FULL_PERCENT 80 /* of memory */
#define CLIENTS_PERCENT 90
#define LAGGING_S 10

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ------------------------------------------------------------------ the way there */

static int compare_us(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a;
	int64_t y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int look_at_distance(struct doctor *d)
{
	int64_t us[N_PINGS];
	double median, least;
	int64_t middle_us;

	for (size_t i = 0; i < N_PINGS; i++) {
		int64_t sent = now_us();
		redisReply *r = DOCTOR_ASK(d, "PING"); /* one that is refused went as far */

		if (!r)
			return -1;
		us[i] = now_us() - sent;
		redis_free(r);
	}
	qsort(us, N_PINGS, sizeof(us[0]), compare_us);
	middle_us = us[N_PINGS / 2];
	least = (double)us[0] / 1000;
	median = (double)middle_us / 1000;
	if (middle_us >= FAR_US)
		finding_bad(d->f, "distance", "run the workers nearer to Redis",
			    "a round trip takes %.2f ms (best %.2f), and each batch of tasks needs "
			    "one",
			    median, least);
	else
		finding_fine(d->f, "distance", "a round trip takes %.2f ms (best %.2f)", median,
			     least);
	return 0;
}

static int look_at_clock(struct doctor *d)
{
	int64_t before = clock_wall_ms();
	redisReply *r = DOCTOR_ASK(d, "TIME");
	int64_t after = clock_wall_ms();
	int64_t apart;

	if (!r)
		return -1;
	if (r->elements != 2) {
		finding_unknown(d->f, "clock", "TIME answers %s",
				doctor_error(r) ? doctor_error(r) : "strangely");
		redis_free(r);
		return 0;
	}
	apart = redis_int(r->element[0], 0) * 1000 + redis_int(r->element[1], 0) / 1000 -
		(before + after) / 2;
	redis_free(r);
	if (apart > CLOCKS_APART_MS || apart < -CLOCKS_APART_MS)
		finding_bad(d->f, "clock", "run NTP on both",
			    "Redis is %" PRId64 " ms %s this machine; delays are counted by its "
			    "clock",
			    apart > 0 ? apart : -apart, apart > 0 ? "ahead of" : "behind");
	else
		finding_fine(d->f, "clock", "within %" PRId64 " ms of this machine's",
			     apart > 0 ? apart : -apart);
	return 0;
}

/* Where the url names Sentinels, or nodes: what the link has found. */
static bool find_place(const struct doctor *d, struct redis_addr *a)
{
	struct redis_addr found;

	if (redis_url_parse(redis_where(d->r), &found, NULL) != 0)
		return false;
	if (found.host)
		redis_addr_set_place(a, &(struct redis_place){found.host, found.port});
	redis_addr_release(&found);
	return a->host != NULL;
}

/* The only place that knows how the link is made. */
static void look_at_transport(struct doctor *d)
{
	struct redis_addr a;
	struct err ignored = {0};

	if (redis_addr_resolve(conf_redis(d->conf), &a, &ignored) != 0)
		return;
	if ((a.sentinels || a.cluster) && !find_place(d, &a)) {
		redis_addr_release(&a);
		return;
	}
	if (a.tls)
		finding_fine(d->f, "tls", "in use%s",
			     conf_redis(d->conf)->tls_verify == CONF_TLS_VERIFY_YES
				     ? ""
				     : ", the certificate is not verified");
	else if (a.transport == REDIS_UNIX)
		finding_fine(d->f, "tls", "not needed: a unix socket");
	else if (strncmp(a.host, "127.", 4) == 0 || strcmp(a.host, "::1") == 0 ||
		 strcmp(a.host, "localhost") == 0)
		finding_fine(d->f, "tls", "not needed: the same machine");
	else
		finding_note(d->f, "tls", "none: who is on the way can read it%s",
			     a.password ? ", and the password" : "");
	redis_addr_release(&a);
}

/* ------------------------------------------------------------------ INFO */

/* Is there a queue, or may there be one, that is a stream? */
static bool wants_streams(const struct conf *c)
{
	for (size_t i = 0; i < conf_n_queues(c); i++)
		if (conf_queue_at(c, i)->backend == CONF_BACKEND_STREAM)
			return true;
	return conf_n_queues(c) == 0;
}

/* User, password and TLS are to stay what they are. */
static void say_is_node(struct doctor *d, const char *software, struct slice version)
{
	const char *url = conf_redis(d->conf)->url;
	bool tls = redis_url_is_tls(url);
	const char *is = tls ? "rediss://" : "redis://",
		   *wanted = tls ? "clusters://" : "cluster://";
	struct buf cure = BUF_INIT;

	if (strncasecmp(url, is, strlen(is)) == 0)
		buf_addf(&cure, "write %s in place of %s in the url of [redis]", wanted, is);
	else /* unix:// */
		buf_addf(&cure, "write url = %sHOST:PORT in [redis]", wanted);
	finding_bad(d->f, "version", cure.data,
		    "%s %.*s is a node of a cluster: without %s workers cannot follow a queue "
		    "that moves to another",
		    software, (int)version.len, version.data, wanted);
	buf_release(&cure);
}

static void look_at_version(struct doctor *d, struct slice info)
{
	struct slice valkey = info_value(info, "valkey_version:");
	struct slice version = valkey.len ? valkey : info_value(info, "redis_version:");
	struct slice mode = info_value(info, valkey.len ? "server_mode:" : "redis_mode:");
	struct buf age = BUF_INIT;
	int major = version.len ? (int)strtol(version.data, NULL, 10) : 0;

	out_age(&age, info_int(info, "uptime_in_seconds:", 0) * 1000);
	if (version.len == 0)
		finding_unknown(d->f, "version", "INFO does not say");
	else if (major < 5 && wants_streams(d->conf))
		finding_bad(d->f, "version", "take Redis 5.0 or later, or set backend = list",
			    "%.*s has no streams", (int)version.len, version.data);
	else if (slice_eq_str(mode, "cluster") && !redis_is_cluster(d->r))
		say_is_node(d, valkey.len ? "Valkey" : "Redis", version);
	else
		finding_fine(d->f, "version", "%s %.*s at %s, up %s",
			     valkey.len ? "Valkey" : "Redis", (int)version.len, version.data,
			     redis_where(d->r), age.data);
	buf_release(&age);
}

static void look_at_memory(struct doctor *d, struct slice info)
{
	char policy[INFO_POLICY_MAX];
	int64_t used = info_int(info, "used_memory:", 0);
	int64_t limit = info_int(info, "maxmemory:", 0);
	struct buf text = BUF_INIT;

	out_size(&text, used);
	if (limit > 0) {
		buf_adds(&text, " of ");
		out_size(&text, limit);
	}
	if (info_evicts(info, policy))
		finding_bad(d->f, "eviction", "set maxmemory-policy to noeviction",
			    "maxmemory-policy is %s: a full Redis throws tasks away", policy);
	else if (!policy[0])
		finding_unknown(d->f, "eviction", "INFO does not say");
	else if (strcmp(policy, "noeviction") == 0)
		finding_fine(d->f, "eviction", "noeviction");
	else
		finding_fine(d->f, "eviction", "none without a limit (the policy would be %s)",
			     policy);
	if (limit > 0 && used / 100 >= limit / 10000 * FULL_PERCENT)
		finding_bad(d->f, "memory", "raise maxmemory, or find what grows: redisqctl stats",
			    "%s in use: at the limit nothing new is accepted", text.data);
	else
		finding_fine(d->f, "memory", "%s in use", text.data);
	buf_release(&text);
}

static void look_at_persistence(struct doctor *d, struct slice info)
{
	static const char turn_on[] = "set appendonly yes (and CONFIG SET appendonly yes now)";
	struct slice aof = info_value(info, "aof_enabled:");
	struct buf age = BUF_INIT;
	int64_t saved_s = info_int(info, "rdb_last_save_time:", 0);

	out_age(&age, max_i64(0, clock_wall_ms() - saved_s * 1000));
	if (aof.len == 0)
		finding_unknown(d->f, "persistence", "INFO does not say");
	else if (slice_eq_str(info_value(info, "aof_last_write_status:"), "err") &&
		 slice_eq_str(aof, "1"))
		finding_bad(d->f, "persistence", "look at Redis's log; is its disk full?",
			    "the last write of the AOF failed");
	else if (slice_eq_str(info_value(info, "rdb_last_bgsave_status:"), "err"))
		finding_bad(d->f, "persistence",
			    "look at Redis's log (disk full? memory for fork?); it may refuse "
			    "writes until one succeeds",
			    "the last save failed");
	else if (slice_eq_str(aof, "1"))
		finding_fine(d->f, "persistence", "AOF; last full save %s ago", age.data);
	else
		finding_bad(d->f, "persistence", turn_on,
			    "no AOF: a crash of Redis loses what came since its last save, %s ago",
			    age.data);
	buf_release(&age);
}

static void look_at_replicas(struct doctor *d, struct slice info)
{
	int64_t n = info_int(info, "connected_slaves:", 0);
	int n_behind = 0;

	if (slice_eq_str(info_value(info, "role:"), "slave")) {
		struct slice host = info_value(info, "master_host:");

		finding_bad(d->f, "replicas", "give its primary in redis.url",
			    "this is a replica of %.*s:%" PRId64 "%s: it takes no tasks",
			    (int)host.len, host.data, info_int(info, "master_port:", 0),
			    slice_eq_str(info_value(info, "master_link_status:"), "up")
				    ? ""
				    : ", which it cannot reach");
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		char key[32];
		struct slice line;
		const char *lag;
		char text[256];

		snprintf(key, sizeof(key), "slave%" PRId64 ":", i);
		line = info_value(info, key);
		snprintf(text, sizeof(text), "%.*s", (int)line.len, line.len ? line.data : "");
		lag = strstr(text, "lag=");
		n_behind += !strstr(text, "state=online") ||
			    (lag && strtol(lag + 4, NULL, 10) > LAGGING_S);
	}
	if (n_behind > 0)
		finding_bad(d->f, "replicas", "look at their logs",
			    "%d of %" PRId64 " replicas are behind: a failover to one loses tasks",
			    n_behind, n);
	else
		finding_fine(d->f, "replicas", "%" PRId64, n);
}

/* What INFO does not say before 6.2 CONFIG may. */
static int look_at_clients(struct doctor *d, struct slice info)
{
	int64_t n = info_int(info, "connected_clients:", 0);
	int64_t most = info_int(info, "maxclients:", 0);

	if (most == 0) {
		redisReply *r = DOCTOR_ASK(d, "CONFIG", "GET", "maxclients");

		if (!r)
			return -1;
		most = r->elements == 2 ? redis_int(r->element[1], 0) : 0;
		redis_free(r);
	}
	if (most == 0)
		finding_unknown(d->f, "clients",
				"%" PRId64 " are connected, neither INFO nor CONFIG "
				"tells how many may be",
				n);
	else if (n * 100 >= most * CLIENTS_PERCENT)
		finding_bad(d->f, "clients",
			    "raise maxclients, or find who holds them: CLIENT LIST",
			    "%" PRId64 " of at most %" PRId64 " connections are in use; a worker "
			    "needs two",
			    n, most);
	else
		finding_fine(d->f, "clients", "%" PRId64 " of at most %" PRId64 " connections", n,
			     most);
	return 0;
}

int doctor_server(struct doctor *d)
{
	redisReply *r = DOCTOR_ASK(d, "INFO");
	int rc = 0;

	if (!r)
		return -1;
	if (r->type != REDIS_REPLY_STRING) {
		finding_unknown(d->f, "INFO",
				"version, eviction, persistence, replicas and clients: %s",
				doctor_error(r) ? doctor_error(r) : "INFO answers strangely");
	} else {
		struct slice info = redis_text(r);

		look_at_version(d, info);
		look_at_memory(d, info);
		look_at_persistence(d, info);
		look_at_replicas(d, info);
		rc = look_at_clients(d, info);
	}
	redis_free(r);
	look_at_transport(d);
	if (rc == 0)
		rc = look_at_distance(d);
	return rc == 0 ? look_at_clock(d) : rc;
}
