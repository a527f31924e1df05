/* spread.c - see spread.h. */
#include "partition.h"
#include "spread.h"

bool spread_add(struct spread *s, int node, int64_t from, int64_t to)
{
	if (from < 0 || to < from || to >= CLUSTER_SLOTS || node < 0 || node > CLUSTER_SLOTS)
		return false;
	for (int64_t slot = from; slot <= to; slot++)
		s->node_of[slot] = (int16_t)node;
	if (node >= s->n_nodes)
		s->n_nodes = node + 1;
	return true;
}

bool spread_is_lopsided(const int *n, int n_nodes, int n_parts)
{
	for (int i = 0; i < n_nodes && n_nodes > 1; i++)
		if (n[i] == 0 || 2 * n[i] * n_nodes > 3 * n_parts)
			return true;
	return false;
}

int spread_better(const struct spread *s, const char *queue, int n_parts)
{
	int *n = xcalloc((size_t)s->n_nodes + 1, sizeof(*n));
	int better = 0;

	/* The names of the first ones are the same, however many there are. */
	for (int i = 0; i < PARTITIONS_MAX && s->n_nodes > 1 && !better; i++) {
		char *stream = partition_stream(queue, i, PARTITIONS_MAX);
		int node = s->node_of[cluster_slot(stream)];

		if (node >= 0)
			n[node]++;
		if (i >= n_parts && !spread_is_lopsided(n, s->n_nodes, i + 1))
			better = i + 1;
		free(stream);
	}
	free(n);
	return better;
}
