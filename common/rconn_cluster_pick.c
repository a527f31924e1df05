/* rconn_cluster_pick.c - see rconn_cluster_pick.h. */
#include <hiredis/hiredis.h>

#include "cluster.h"
#include "rconn_cluster_pick.h"

#define AGREE 2

static int find(const struct cluster_pick *p, const char *host, size_t len, int port)
{
	for (int i = 0; i < p->n; i++) {
		const struct redis_place *known = &p->nodes[i].place;

		if (known->port == port && strlen(known->host) == len &&
		    memcmp(known->host, host, len) == 0)
			return i;
	}
	return -1;
}

static void forget(struct cluster_pick *p, int gone)
{
	int *const indexes[] = {&p->at, &p->owner, &p->told, &p->next, &p->shunned};

	free(p->nodes[gone].place.host);
	p->n--;
	memmove(&p->nodes[gone], &p->nodes[gone + 1], (size_t)(p->n - gone) * sizeof(p->nodes[0]));
	for (size_t i = 0; i < ARRAY_LEN(indexes); i++)
		if (*indexes[i] > gone)
			--*indexes[i];
}

static bool is_needed(const struct cluster_pick *p, int i)
{
	return p->nodes[i].is_seed || i == p->at || i == p->owner || i == p->told ||
	       i == p->shunned;
}

/* The index of that node, which is known from now on; -1: there is no room. */
static int know(struct cluster_pick *p, const char *host, size_t len, int port)
{
	int i = find(p, host, len, port);

	if (i >= 0)
		return i;
	if (p->n == CLUSTER_NODES_MAX)
		return -1;
	p->nodes[p->n] = (struct cluster_node){.place = {xmemdup0(host, len), port}};
	return p->n++;
}

/* The same, for one that must have room: seeds and those in use are few. */
static int know_surely(struct cluster_pick *p, const struct redis_place *place)
{
	_Static_assert(CLUSTER_NODES_MAX > REDIS_PLACES_MAX + 4, "there is always one to forget");

	for (int i = p->n; p->n == CLUSTER_NODES_MAX && i-- > 0;)
		if (!is_needed(p, i))
			forget(p, i);
	return know(p, place->host, strlen(place->host), place->port);
}

void cluster_pick_init(struct cluster_pick *p, const struct redis_cluster *seeds)
{
	memset(p, 0, sizeof(*p));
	p->at = p->owner = p->told = p->shunned = -1;
	for (size_t i = 0; i < seeds->n; i++)
		p->nodes[know_surely(p, &seeds->v[i])].is_seed = true;
	INVARIANT(p->n > 0);
}

void cluster_pick_init_others(struct cluster_pick *p, const struct cluster_pick *of)
{
	INVARIANT(of->n > 1);
	*p = *of;
	for (int i = 0; i < p->n; i++)
		p->nodes[i].place.host = xstrdup(of->nodes[i].place.host);
	p->shunned = of->at;
	p->at = p->owner = p->told = -1;
}

void cluster_pick_release(struct cluster_pick *p)
{
	for (int i = 0; i < p->n; i++)
		free(p->nodes[i].place.host);
	p->n = 0;
}

void cluster_pick_begin(struct cluster_pick *p)
{
	p->n_visits = p->n_in_vain = 0;
	p->told = -1;
	for (int i = 0; i < p->n; i++)
		p->nodes[i].been = i == p->shunned;
}

/* The next one of the ring that was not visited in this try, -1 = none. */
static int in_turn(const struct cluster_pick *p)
{
	for (int k = 0; k < p->n; k++) {
		int i = (p->next + k) % p->n;

		if (!p->nodes[i].been)
			return i;
	}
	return -1;
}

static int choose(const struct cluster_pick *p)
{
	if (p->n_visits >= CLUSTER_VISITS_MAX)
		return -1;
	if (p->told >= 0)
		return p->told;
	if (p->owner >= 0 && !p->nodes[p->owner].been)
		return p->owner;
	return in_turn(p);
}

bool cluster_pick_has_more(const struct cluster_pick *p)
{
	return choose(p) >= 0;
}

const struct redis_place *cluster_pick_whom(struct cluster_pick *p)
{
	int i = choose(p);

	if (i < 0)
		return NULL;
	if (i != p->told && i != p->owner)
		p->next = (i + 1) % p->n;
	p->told = -1;
	p->at = i;
	p->n_visits++;
	p->nodes[i].been = true;
	return &p->nodes[i].place;
}

bool cluster_pick_moved(struct cluster_pick *p, const struct redis_place *place)
{
	int i = know_surely(p, place);

	p->owner = i;
	p->told = p->nodes[i].been ? -1 : i;
	/* With many workers every further question is many: two who agree will be right. */
	if (p->told < 0 && ++p->n_in_vain == AGREE)
		p->n_visits = CLUSTER_VISITS_MAX;
	return p->told >= 0;
}

void cluster_pick_found(struct cluster_pick *p, const struct redis_place *place)
{
	int i = know_surely(p, place);

	p->owner = i;
	if (i == p->at)
		return;
	p->told = i;
	if (p->n_visits == CLUSTER_VISITS_MAX)
		p->n_visits--;
}

void cluster_pick_proven(struct cluster_pick *p)
{
	p->owner = p->at;
}

void cluster_pick_stay(struct cluster_pick *p)
{
	p->owner = p->at;
	p->told = -1;
	p->n_visits = CLUSTER_VISITS_MAX;
}

/* {host, port, ...}; nil is a host that is not said. */
static void learn_node(struct cluster_pick *p, const redisReply *r, const char *same_host)
{
	const redisReply *name =
		r->type == REDIS_REPLY_ARRAY && r->elements >= 2 ? r->element[0] : NULL;
	const char *host = NULL;
	int i;

	if (name && name->type == REDIS_REPLY_NIL)
		host = same_host;
	else if (name && name->type == REDIS_REPLY_STRING)
		host = cluster_host(name->str, name->len, same_host);
	if (!host || r->element[1]->type != REDIS_REPLY_INTEGER || r->element[1]->integer < 1 ||
	    r->element[1]->integer > 65535)
		return;
	i = know(p, host, host == same_host ? strlen(host) : name->len,
		 (int)r->element[1]->integer);
	if (i >= 0)
		p->nodes[i].is_told = true;
}

void cluster_pick_learn(struct cluster_pick *p, const struct redisReply *slots,
			const char *same_host)
{
	if (slots->type != REDIS_REPLY_ARRAY || slots->elements == 0)
		return;
	for (int i = 0; i < p->n; i++)
		p->nodes[i].is_told = false;
	for (size_t i = 0; i < slots->elements; i++) {
		const redisReply *range = slots->element[i];

		for (size_t k = 2; range->type == REDIS_REPLY_ARRAY && k < range->elements; k++)
			learn_node(p, range->element[k], same_host);
	}
	for (int i = p->n; i-- > 0;)
		if (!p->nodes[i].is_told && !is_needed(p, i))
			forget(p, i);
}
