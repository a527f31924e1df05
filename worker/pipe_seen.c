/* pipe_seen.c - see pipe_seen.h. */
#include "pipe_seen.h"

/* FNV-1a, and its bits mixed: each quarter of the result is a place of its own. */
uint64_t pipe_hash(const char *id, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)id[i]) * 0x100000001b3u;
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdu;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 33;
}

static unsigned place(uint64_t hash, int i)
{
	return (unsigned)(hash >> (16 * i)) & (PIPE_SEEN_BITS - 1);
}

void pipe_seen_add(struct pipe_seen *s, uint64_t hash)
{
	for (int i = 0; i < 4; i++) {
		unsigned at = place(hash, i);

		s->words[at / 64] |= (uint64_t)1 << at % 64;
	}
}

bool pipe_seen_has(const struct pipe_seen *s, uint64_t hash)
{
	for (int i = 0; i < 4; i++) {
		unsigned at = place(hash, i);

		if (!(s->words[at / 64] & (uint64_t)1 << at % 64))
			return false;
	}
	return true;
}
