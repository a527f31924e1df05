/* info.c - see info.h. */
#include "info.h"

struct slice info_value(struct slice info, const char *key)
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

int64_t info_int(struct slice info, const char *key, int64_t otherwise)
{
	struct slice v = info_value(info, key);
	char text[24];
	char *end;
	long long n;

	if (v.len == 0 || v.len >= sizeof(text))
		return otherwise;
	snprintf(text, sizeof(text), "%.*s", (int)v.len, v.data);
	n = strtoll(text, &end, 10);
	return *end || end == text ? otherwise : n;
}

bool info_evicts(struct slice info, char policy[INFO_POLICY_MAX])
{
	struct slice limit = info_value(info, "maxmemory:");
	struct slice name = info_value(info, "maxmemory_policy:");

	snprintf(policy, INFO_POLICY_MAX, "%.*s", (int)name.len, name.data);
	return limit.len > 0 && limit.data[0] != '0' && name.len > 0 &&
	       !slice_eq_str(name, "noeviction");
}
