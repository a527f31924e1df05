/* strays.c - see strays.h. */
#include "readfile.h"
#include "spawn.h"
#include "strays.h"

#define AGAIN_S 0.05
#define ENVIRON_MAX 131072

static int by_pid(const void *a, const void *b)
{
	const struct stray_run *x = a;
	const struct stray_run *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct stray_run *find(const struct strays *s, pid_t pid)
{
	struct stray_run key = {.pid = pid};

	return s->n_runs ? bsearch(&key, s->runs, s->n_runs, sizeof(key), by_pid) : NULL;
}

static bool is_known(void *arg, pid_t pid)
{
	return find(arg, pid) != NULL;
}

static bool has_label(const struct strays *s, const char *label)
{
	for (size_t i = 0; i < s->n_runs; i++)
		if (strcmp(s->runs[i].label, label) == 0)
			return true;
	return false;
}

/* True when the environment of `pid` says that it belongs to a run that still goes on. */
static bool belongs_to_a_run(void *arg, pid_t pid)
{
	const struct strays *s = arg;
	size_t n = strlen(s->variable);
	struct buf env = BUF_INIT;
	char path[32];
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	if (readfile(path, ENVIRON_MAX, &env) == 0)
		for (size_t at = 0; at < env.len && !found; at += strlen(env.data + at) + 1)
			if (strncmp(env.data + at, s->variable, n) == 0)
				found = has_label(s, env.data + at + n);
	buf_release(&env);
	return found;
}

static void look(struct strays *s)
{
	ev_prepare_stop(s->loop, &s->look);
	if (child_sweep_strays(is_known, belongs_to_a_run, s) == 0)
		return;
	ev_timer_stop(s->loop, &s->again);
	ev_timer_set(&s->again, AGAIN_S, 0.0);
	ev_timer_start(s->loop, &s->again);
}

static void on_turn(struct ev_loop *loop ATTR_UNUSED, ev_prepare *p, int revents ATTR_UNUSED)
{
	look(p->data);
}

static void on_again(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	look(t->data);
}

void strays_init(struct strays *s, struct ev_loop *loop, const char *variable)
{
	*s = (struct strays){.loop = loop, .variable = variable};
	ev_prepare_init(&s->look, on_turn);
	/* Before the worker's own turn, which settles. */
	ev_set_priority(&s->look, EV_MAXPRI);
	ev_init(&s->again, on_again);
	s->look.data = s->again.data = s;
}

void strays_release(struct strays *s)
{
	ev_prepare_stop(s->loop, &s->look);
	ev_timer_stop(s->loop, &s->again);
	free(s->runs);
	s->runs = NULL;
}

void strays_add(struct strays *s, pid_t pid, const char *label)
{
	size_t at = s->n_runs;

	if (s->n_runs == s->cap_runs) {
		s->cap_runs = s->cap_runs ? s->cap_runs * 2 : 16;
		s->runs = xrealloc(s->runs, s->cap_runs * sizeof(*s->runs));
	}
	/* New pids are mostly the highest. */
	while (at > 0 && s->runs[at - 1].pid > pid) {
		s->runs[at] = s->runs[at - 1];
		at--;
	}
	s->runs[at] = (struct stray_run){.pid = pid, .label = label};
	s->n_runs++;
}

void strays_remove(struct strays *s, pid_t pid)
{
	struct stray_run *r = find(s, pid);

	if (r) {
		size_t at = (size_t)(r - s->runs);

		memmove(r, r + 1, (s->n_runs - at - 1) * sizeof(*r));
		s->n_runs--;
	}
	ev_prepare_start(s->loop, &s->look);
}
