/* scoreboard.c - see scoreboard.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "scoreboard.h"

static size_t board_size(uint32_t n_tasks, uint32_t n_groups)
{
	return sizeof(struct board) + (size_t)n_tasks * sizeof(struct board_task) +
	       (size_t)n_groups * sizeof(_Atomic int32_t);
}

static struct board *map(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct board *board_create(uint32_t n_tasks, uint32_t n_groups, int *fd)
{
	struct board *b = NULL;

	*fd = memfd_create("redisq-board", MFD_CLOEXEC);
	if (*fd < 0)
		return NULL;
	if (ftruncate(*fd, (off_t)board_size(n_tasks, n_groups)) == 0)
		b = map(*fd, board_size(n_tasks, n_groups));
	if (!b) {
		int saved = errno;

		close(*fd);
		*fd = -1;
		errno = saved;
		return NULL;
	}
	b->magic = BOARD_MAGIC;
	b->n_tasks = n_tasks;
	b->n_groups = n_groups;
	return b;
}

struct board *board_attach(int fd)
{
	struct stat st;
	struct board *b;

	if (fstat(fd, &st) < 0)
		return NULL;
	if ((size_t)st.st_size < sizeof(struct board)) {
		errno = EINVAL;
		return NULL;
	}
	b = map(fd, (size_t)st.st_size);
	if (b && mprotect(b, BOARD_HEAD, PROT_READ) < 0) {
		int saved = errno;

		munmap(b, (size_t)st.st_size);
		errno = saved;
		return NULL;
	}
	if (b && (b->magic != BOARD_MAGIC ||
		  board_size(b->n_tasks, b->n_groups) != (size_t)st.st_size)) {
		munmap(b, (size_t)st.st_size);
		errno = EINVAL;
		return NULL;
	}
	return b;
}

void board_unmap(struct board *b)
{
	if (b)
		munmap(b, board_size(b->n_tasks, b->n_groups));
}

/* Odd while the row is being written. */
static void row_begin(struct board_task *t)
{
	atomic_fetch_add_explicit(&t->seq, 1, memory_order_acq_rel);
}

static void row_end(struct board_task *t)
{
	atomic_fetch_add_explicit(&t->seq, 1, memory_order_acq_rel);
}

void board_set_task(struct board *b, uint32_t i, const struct board_task *from)
{
	struct board_task *t = &b->tasks[i];

	INVARIANT(i < b->n_tasks);
	row_begin(t);
	memcpy(t->id, from->id, sizeof(t->id));
	t->token = from->token;
	t->attempt = from->attempt;
	t->started_ms = from->started_ms;
	t->pgid = from->pgid;
	t->partition = from->partition;
	row_end(t);
}

void board_clear_task(struct board *b, uint32_t i)
{
	struct board_task *t = &b->tasks[i];

	INVARIANT(i < b->n_tasks);
	row_begin(t);
	t->id[0] = '\0';
	t->pgid = 0;
	row_end(t);
}

void board_clear_names(struct board *b)
{
	for (size_t i = 0; i < ARRAY_LEN(b->names); i++)
		if (b->names[i].consumer[0]) /* else its page need not be there */
			b->names[i].consumer[0] = '\0';
}

bool board_has_name(const struct board *b)
{
	for (size_t i = 0; i < ARRAY_LEN(b->names); i++)
		if (b->names[i].consumer[0])
			return true;
	return false;
}

static _Atomic int32_t *group_at(struct board *b, uint32_t i)
{
	INVARIANT(i < b->n_groups);
	return (_Atomic int32_t *)(void *)&b->tasks[b->n_tasks] + i;
}

void board_set_group(struct board *b, uint32_t i, pid_t pgid)
{
	atomic_store(group_at(b, i), pgid);
}

pid_t board_group(struct board *b, uint32_t i)
{
	return atomic_load(group_at(b, i));
}

bool board_read_task(struct board *b, uint32_t i, struct board_task *out)
{
	struct board_task *t = &b->tasks[i];

	/* A writer that died in mid-row leaves it odd for good: take what is there after a while.
	 */
	for (int tries = 0; tries < 1000; tries++) {
		uint32_t before = atomic_load_explicit(&t->seq, memory_order_acquire);

		memcpy(out, t, sizeof(*out));
		atomic_thread_fence(memory_order_acquire);
		if ((before & 1) == 0 &&
		    before == atomic_load_explicit(&t->seq, memory_order_relaxed))
			break;
	}
	out->id[sizeof(out->id) - 1] = '\0';
	return out->id[0] != '\0';
}
