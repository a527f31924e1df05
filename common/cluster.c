/* cluster.c - see cluster.h. */
#include "cluster.h"
#include "crc16.h"

#define HOST_MAX 255

int cluster_slot(const char *key)
{
	const char *open = strchr(key, '{');
	const char *close = open ? strchr(open + 1, '}') : NULL;

	if (close && close > open + 1)
		return (int)(crc16(open + 1, (size_t)(close - open) - 1) % CLUSTER_SLOTS);
	return (int)(crc16(key, strlen(key)) % CLUSTER_SLOTS);
}

const char *cluster_host(const char *said, size_t len, const char *same_host)
{
	if (len == 0)
		return same_host;
	if (len > HOST_MAX || (len == 1 && said[0] == '?'))
		return NULL;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)said[i] <= ' ' || (unsigned char)said[i] >= 0x7f)
			return NULL;
	return said;
}

/* The whole of the text up to `end`; -1 if it is no number up to `max`. */
static int number(const char *text, const char *end, int max)
{
	int n = 0;

	if (text == end)
		return -1;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		n = n * 10 + (*text - '0');
		if (n > max)
			return -1;
	}
	return n;
}

/* "3999 host:port"; an IPv6 address has no brackets. */
static bool parse(const char *text, const char *same_host, struct redis_place *place, int *slot)
{
	const char *blank = strchr(text, ' ');
	const char *end = text + strcspn(text, "\r\n");
	const char *colon = memrchr(text, ':', (size_t)(end - text));
	const char *host;
	int port;

	if (!blank || !colon || colon <= blank)
		return false;
	*slot = number(text, blank, CLUSTER_SLOTS - 1);
	port = number(colon + 1, end, 65535);
	host = cluster_host(blank + 1, (size_t)(colon - blank) - 1, same_host);
	if (*slot < 0 || port < 1 || !host)
		return false;
	place->host =
		host == same_host ? xstrdup(host) : xmemdup0(host, (size_t)(colon - blank) - 1);
	place->port = port;
	return true;
}

enum cluster_says cluster_says(const char *error, const char *same_host, struct redis_place *place,
			       int *slot)
{
	if (strncmp(error, "MOVED ", 6) == 0 && parse(error + 6, same_host, place, slot))
		return CLUSTER_MOVED;
	if (strncmp(error, "ASK ", 4) == 0 && parse(error + 4, same_host, place, slot))
		return CLUSTER_ASK;
	return CLUSTER_OTHER;
}

void cluster_advice(const char *error, const char *same_host, bool tls, struct buf *out)
{
	const char *scheme = tls ? "clusters://" : "cluster://";
	struct redis_place place = {0};
	int slot;

	if (cluster_says(error, same_host, &place, &slot) != CLUSTER_MOVED) {
		buf_addf(out, "this Redis is a node of a cluster; write url = %shost:port", scheme);
		return;
	}
	buf_addf(out,
		 "this Redis is a node of a cluster, and the queue's slot %d is at another; write "
		 "url = %s",
		 slot, scheme);
	redis_place_text(&place, out);
	free(place.host);
}

void cluster_advice_db(const struct redis_addr *a, struct buf *out)
{
	struct redis_place place = {a->host, a->port};

	buf_addf(out, "this Redis is a node of a cluster, which has no database %d; write url = %s",
		 a->db, a->tls ? "clusters://" : "cluster://");
	if (a->transport == REDIS_TCP && a->host)
		redis_place_text(&place, out);
	else
		buf_adds(out, "host:port");
}
