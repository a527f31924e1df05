/* partition.c - see partition.h. */
#include "partition.h"
#include "crc16.h"
#include "keys.h"

char *partition_stream(const char *queue, int i, int n)
{
	return n <= 1 ? xstrdup(queue) : xasprintf("%s:%d", queue, i);
}

int partition_check(const char *queue, int n, struct err *e)
{
	if (n > 1 && keys_has_tag(queue))
		return err_set(
			e, EXIT_CONFIG,
			"the {tag} in \"%s\" puts all partitions into one hash slot; choose a "
			"name without, or partitions = 1",
			queue);
	return 0;
}

bool partition_is_of(const char *name, const char *queue, int n)
{
	for (int i = 0; n > 1 && i < n; i++) {
		char *stream = partition_stream(queue, i, n);
		bool same = strcmp(name, stream) == 0;

		free(stream);
		if (same)
			return true;
	}
	return false;
}

static size_t n_digits(struct slice s, size_t from)
{
	size_t n = 0;

	while (from + n < s.len && s.data[from + n] >= '0' && s.data[from + n] <= '9')
		n++;
	return n;
}

/* A number that has 64 bits. */
static bool is_number(const char *digits, size_t n)
{
	static const char max[] = "18446744073709551615";

	return n > 0 &&
	       (n < sizeof(max) - 1 || (n == sizeof(max) - 1 && memcmp(digits, max, n) <= 0));
}

bool partition_is_entry_id(struct slice id)
{
	size_t ms = n_digits(id, 0);

	return ms + 1 < id.len && id.data[ms] == '-' && is_number(id.data, ms) &&
	       n_digits(id, ms + 1) == id.len - ms - 1 &&
	       is_number(id.data + ms + 1, id.len - ms - 1);
}

void partition_id_prefix(int i, int n, struct slice id, char out[PARTITION_PREFIX_MAX])
{
	out[0] = '\0';
	if (n > 1 && partition_is_entry_id(id))
		snprintf(out, PARTITION_PREFIX_MAX, "%d:", i);
}

int partition_of(const char *key, size_t len, int n)
{
	return n <= 1 ? 0 : (int)(crc16(key, len) % (unsigned)n);
}
