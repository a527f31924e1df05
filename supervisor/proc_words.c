/* proc_words.c - what the worker says on the channel (common/chan.h has the words). */
#include "log.h"
#include "proc.h"

static void keep_text(char **place, const char *text)
{
	free(*place);
	*place = text ? xstrdup(text) : NULL;
}

static void on_ready(struct proc *p, const char *rest)
{
	char name[PROC_NAME_MAX];

	keep_text(&p->consumer, rest);
	keep_text(&p->note, NULL);
	p->redis_wait = false;
	if (p->state == PROC_STARTING)
		log_info("worker %d of %s is ready as %s", (int)p->pid, proc_name(p, name), rest);
	proc_step(p, PROC_EV_IS_READY);
}

static void on_redis_wait(struct proc *p, const char *rest)
{
	char name[PROC_NAME_MAX];

	if (!p->note || strcmp(p->note, rest) != 0)
		log_warning("worker %d of %s waits for Redis: %s", (int)p->pid, proc_name(p, name),
			    rest);
	keep_text(&p->note, rest);
	p->redis_wait = true;
	proc_step(p, PROC_EV_REDIS_WAIT);
}

static void on_hindered(struct proc *p, const char *rest)
{
	char name[PROC_NAME_MAX];

	house_changed(p->house);
	if (*rest)
		log_warning("worker %d of %s fetches nothing: %s", (int)p->pid, proc_name(p, name),
			    rest);
	keep_text(&p->note, *rest ? rest : NULL);
}

static void on_redis_at(struct proc *p, const char *rest)
{
	keep_text(&p->redis, rest);
}

static void on_freed(struct proc *p, const char *rest)
{
	int64_t n = chan_number(rest);

	if (n > 0)
		p->events->on_freed(p->arg, p, n);
	house_changed(p->house);
}

static void on_refused(struct proc *p, const char *rest)
{
	keep_text(&p->refused, *rest ? rest : "no reason given");
}

static void on_breaker(struct proc *p, const char *rest)
{
	char name[PROC_NAME_MAX];

	house_changed(p->house);
	if (strncmp(rest, "open", 4) != 0) {
		keep_text(&p->breaker, NULL);
		return;
	}
	rest += strspn(rest + 4, " ") + 4;
	log_warning("worker %d of %s fetches nothing: %s", (int)p->pid, proc_name(p, name), rest);
	keep_text(&p->breaker, *rest ? rest : "the handler is broken");
}

static void on_started(struct proc *p, const char *rest ATTR_UNUSED)
{
	p->started = true;
	house_changed(p->house);
}

static void on_works(struct proc *p, const char *rest ATTR_UNUSED)
{
	p->works = true;
	house_changed(p->house);
}

static void on_released(struct proc *p, const char *rest ATTR_UNUSED)
{
	p->events->on_released(p->arg, p);
}

static void on_handed(struct proc *p, const char *rest)
{
	const char *moved = rest + strcspn(rest, " ");

	p->events->on_handed(p->arg, p, chan_number(rest), chan_number(moved + strspn(moved, " ")));
}

static void on_swept(struct proc *p, const char *rest)
{
	p->events->on_swept(p->arg, p, chan_number(rest));
}

static void on_again(struct proc *p, const char *rest)
{
	const char *id = rest + strcspn(rest, " ");
	int64_t partition = chan_number(rest);

	if (partition >= 0 && partition < PARTITIONS_MAX)
		p->events->on_again(p->arg, p, (int)partition, id + strspn(id, " "));
}

static void on_suspects(struct proc *p, const char *rest ATTR_UNUSED)
{
	p->events->on_suspects(p->arg, p);
}

static void on_cleared(struct proc *p, const char *rest ATTR_UNUSED)
{
	p->events->on_cleared(p->arg, p);
}

static void on_replace(struct proc *p, const char *rest)
{
	char name[PROC_NAME_MAX];

	log_warning("worker %d of %s has to be replaced: %s", (int)p->pid, proc_name(p, name),
		    rest);
	p->events->on_replace(p->arg, p);
}

void proc_on_word(void *arg, const char *word, const char *rest)
{
	static const struct {
		const char *word;
		void (*fn)(struct proc *p, const char *rest);
	} words[] = {
		{"ready", on_ready},       {"redis-wait", on_redis_wait}, {"freed", on_freed},
		{"refused", on_refused},   {"breaker", on_breaker},       {"released", on_released},
		{"started", on_started},   {"works", on_works},           {"handed", on_handed},
		{"swept", on_swept},       {"again", on_again},           {"cleared", on_cleared},
		{"suspects", on_suspects}, {"replace", on_replace},       {"redis-at", on_redis_at},
		{"hindered", on_hindered},
	};
	struct proc *p = arg;

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(words[i].word, word) == 0) {
			words[i].fn(p, rest);
			return;
		}
	}
	/* A newer worker may know more words than we do. */
	log_debug("worker %d says \"%s\", which means nothing here", (int)p->pid, word);
}

void proc_on_eof(void *arg)
{
	struct proc *p = arg;

	chan_free(p->chan);
	p->chan = NULL;
	proc_step(p, PROC_EV_CUT_OFF);
}
