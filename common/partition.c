/* partition.c - see partition.h. */
#include "partition.h"
#include "buf.h"
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

static unsigned crc16(const char *data, size_t len)
{
	unsigned crc = 0;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned)(unsigned char)data[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
	}
	return crc;
}

int partition_of(const char *key, size_t len, int n)
{
	return n <= 1 ? 0 : (int)(crc16(key, len) % (unsigned)n);
}
