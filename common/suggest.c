/* suggest.c - see suggest.h. */
#include "suggest.h"

/* Longer words are never looked up: nobody mistypes one into another. */
#define WORD_MAX 48

/* Edit distance where a swap of neighbours counts once. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2];

	for (size_t j = 0; j <= m; j++)
		last[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *spare = before;

		now[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[m];
}

static bool has_same_letters(const char *a, const char *b)
{
	int n[256] = {0};

	while (*a)
		n[(unsigned char)*a++]++;
	while (*b)
		n[(unsigned char)*b++]--;
	for (size_t i = 0; i < ARRAY_LEN(n); i++)
		if (n[i] != 0)
			return false;
	return true;
}

void suggest_try(struct suggest *s, const char *typed, const char *candidate)
{
	size_t n = strlen(typed), m = strlen(candidate);
	size_t d, near, rank;

	if (n == 0 || n > WORD_MAX || m > WORD_MAX)
		return;
	near = d = distance(typed, n, candidate, m);
	/* A word that begins with all that was typed is near, too: "retry_del". */
	if (n >= 4 && n < m && strncmp(typed, candidate, n) == 0 && d > n / 3)
		near = n / 3;
	if (near > (n < 4 ? 1 : n / 3))
		return;
	/* "stat" is stats, not start or status; so is "stast". */
	rank = (near * WORD_MAX + d) * 2 +
	       (strncmp(typed, candidate, n) != 0 && !has_same_letters(typed, candidate));
	if (!s->word || rank < s->rank) {
		s->word = candidate;
		s->rank = rank;
	}
}

size_t suggest_shown(const char *typed)
{
	size_t n = strcspn(typed, "=:/@ \t");

	return strncmp(typed + n, "://", 3) == 0 ? 0 : n;
}
