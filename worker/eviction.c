/* eviction.c - see eviction.h. */
#include "eviction.h"

/* What follows `key` at the beginning of a line, up to its end; empty when there is no such line.
 */
static struct slice value_of(struct slice info, const char *key)
{
	size_t n = strlen(key);

	while (info.len > 0) {
		const char *end = memchr(info.data, '\n', info.len);
		size_t len = end ? (size_t)(end - info.data) : info.len;

		if (len > n && memcmp(info.data, key, n) == 0) {
			struct slice value = slice_of(info.data + n, len - n);

			if (value.data[value.len - 1] == '\r')
				value.len--;
			return value;
		}
		len += end != NULL;
		info = slice_of(info.data + len, info.len - len);
	}
	return slice_of("", 0);
}

bool eviction_threatens(struct slice info, char policy[EVICTION_POLICY_MAX])
{
	struct slice limit = value_of(info, "maxmemory:");
	struct slice name = value_of(info, "maxmemory_policy:");

	snprintf(policy, EVICTION_POLICY_MAX, "%.*s", (int)name.len, name.data);
	return limit.len > 0 && limit.data[0] != '0' && name.len > 0 &&
	       !slice_eq_str(name, "noeviction");
}
