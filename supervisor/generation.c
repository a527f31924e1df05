/* generation.c - see generation.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "generation.h"

static int write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* A sealed memory file with the text of the configuration; -1 with errno. */
static int snapshot(const struct conf *conf)
{
	struct buf text = BUF_INIT;
	int fd = memfd_create("redisq-conf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int saved;

	if (fd < 0)
		return -1;
	conf_write_snapshot(conf, &text);
	if (write_all(fd, text.data, text.len) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
		saved = errno;
		close(fd);
		errno = saved;
		fd = -1;
	}
	/* It holds passwords. */
	explicit_bzero(text.data, text.len);
	buf_release(&text);
	return fd;
}

struct generation *generation_new(struct conf *conf, int64_t number)
{
	int fd = snapshot(conf);
	struct generation *g;

	if (fd < 0) {
		int saved = errno;

		conf_free(conf);
		errno = saved;
		return NULL;
	}
	g = xcalloc(1, sizeof(*g));
	g->refs = 1;
	g->number = number;
	g->conf = conf;
	g->snapshot_fd = fd;
	return g;
}

struct generation *generation_get(struct generation *g)
{
	g->refs++;
	return g;
}

void generation_put(struct generation *g)
{
	if (!g || --g->refs > 0)
		return;
	close(g->snapshot_fd);
	conf_free(g->conf);
	free(g);
}

void generation_set(struct generation **place, struct generation *g)
{
	struct generation *was = *place;

	*place = generation_get(g);
	generation_put(was);
}
