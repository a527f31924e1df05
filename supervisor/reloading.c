/*
 * reloading.c - carrying out a reload: read and validate everything first, then let each queue
 * start, roll or leave, and see the end of it. On any error nothing changes.
 */
#include <errno.h>

#include "conf_read.h"
#include "log.h"
#include "reload.h"
#include "supervisor.h"

static void set_result(struct supervisor *sv, const char *error)
{
	struct last_reload *l = &sv->last_reload;

	l->known = true;
	l->ok = error == NULL;
	l->rolled = l->ok;
	free(l->error);
	l->error = error ? xstrdup(error) : NULL;
	if (error)
		log_error("reload failed: %s", error);
	else
		log_info("reload done, generation %lld", (long long)sv->gen->number);
	house_changed(&sv->house);
}

/* Nothing has changed. While an earlier reload is under way its end must not hide that. */
static void refuse(struct supervisor *sv, const char *why)
{
	set_result(sv, why);
	if (!sv->reloading)
		return;
	free(sv->refused_reload);
	sv->refused_reload = xstrdup(why);
}

/* "a\nb\n" -> "a; b" for one line of text. */
static void join_lines(struct buf *text)
{
	struct buf out = BUF_INIT;

	while (text->len && text->data[text->len - 1] == '\n')
		buf_truncate(text, text->len - 1);
	for (size_t i = 0; i < text->len; i++) {
		if (text->data[i] == '\n')
			buf_adds(&out, "; ");
		else
			buf_addc(&out, text->data[i]);
	}
	buf_release(text);
	*text = out;
}

/* The new configuration, checked; NULL with the reasons. */
static struct conf *load(struct supervisor *sv, struct buf *errs)
{
	int code = 0;
	struct conf *conf = options_load(sv->options, sv->house.env, sv->redis_url, errs, &code);

	if (conf && conf_check_machine(conf, errs) < 0) {
		conf_free(conf);
		conf = NULL;
	}
	join_lines(errs);
	return conf;
}

static void say_boot_keys(const struct reload_plan *plan)
{
	for (size_t i = 0; i < plan->boot.n; i++)
		log_warning("%s differs; it needs a new supervisor, the old value stays",
			    plan->boot.v[i]);
}

static void take_live_keys(struct supervisor *sv)
{
	const struct conf_supervisor *sup = conf_supervisor(sv->gen->conf);
	struct logsink_conf logs = {
		.dir = sv->log_dir,
		.files = sv->log_files,
		.to_stdout = sv->log_stdout,
		.format = (enum conf_log_format)sup->log_format,
		.max_size = sup->log_max_size,
		.keep = sup->log_keep,
		.line_max = (size_t)sup->log_line_max,
	};

	log_set_level((enum log_level)sup->log_level);
	logsink_configure(sv->logs, &logs);
	supervisor_arm_tick(sv);
}

static void start_queue(struct supervisor *sv, const char *queue)
{
	struct fleet *f = supervisor_fleet(sv, queue);

	if (f) {
		/* Removed and back before its workers had left. */
		fleet_stay(f);
		fleet_roll_all(f, sv->gen);
		return;
	}
	f = fleet_new(&sv->house, queue, sv->gen);
	f->quiet = sv->quiet;
	list_append(&sv->fleets, &f->link);
	log_info("queue %s is new: starting its workers", queue);
}

/* By scale, TTIN or TTOU, which hold until the end: say so to whoever has edited the file. */
static void say_override(const struct fleet *f, const struct generation *gen)
{
	int workers = conf_queue(gen->conf, f->queue)->workers;

	if (f->workers_set >= 0 && f->workers_set != workers)
		log_warning("queue %s keeps %d worker%s, as scaled by hand; the configuration's %d "
			    "holds again after: redisqctl scale %s %d, or a new start",
			    f->queue, f->workers_set, f->workers_set == 1 ? "" : "s", workers,
			    f->queue, workers);
}

static void act(struct supervisor *sv, const struct reload_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++) {
		const struct reload_item *item = &plan->items[i];
		struct fleet *f = supervisor_fleet(sv, item->queue);

		switch (item->action) {
		case RELOAD_START:
			start_queue(sv, item->queue);
			break;
		case RELOAD_DRAIN:
			log_info("queue %s is gone from the configuration: draining it",
				 item->queue);
			if (f)
				fleet_leave(f, false);
			break;
		case RELOAD_ROLL:
			if (f)
				say_override(f, sv->gen);
			if (f)
				fleet_roll_all(f, sv->gen);
			else
				start_queue(sv, item->queue);
			break;
		}
	}
}

bool supervisor_reload(struct supervisor *sv)
{
	struct buf errs = BUF_INIT;
	struct reload_plan plan;
	struct generation *gen;
	struct conf *conf;

	if (sv->mode >= MODE_DRAINING) {
		log_warning("no reload: the supervisor is draining");
		return false;
	}
	conf = load(sv, &errs);
	if (!conf) {
		refuse(sv, errs.data);
		buf_release(&errs);
		return false;
	}
	buf_release(&errs);
	for (const char *const *w = conf_warnings(conf); w && *w; w++)
		log_warning("%s", *w);
	reload_plan_make(&plan, sv->gen->conf, conf);
	conf_keep_boot(conf, sv->gen->conf);
	gen = generation_new(conf, sv->gen->number + 1);
	if (!gen) {
		refuse(sv, strerror(errno));
		reload_plan_release(&plan);
		return false;
	}
	log_info("reload: generation %lld", (long long)gen->number);
	generation_put(sv->gen);
	sv->gen = gen;
	sv->house.conf = gen->conf;
	free(sv->refused_reload);
	sv->refused_reload = NULL;
	say_boot_keys(&plan);
	take_live_keys(sv);
	act(sv, &plan);
	reload_plan_release(&plan);
	sv->reloading = true;
	house_changed(&sv->house);
	return true;
}

/* Why a queue that was started anew will not be ready; NULL = not so. */
static char *why_not_ready(const struct fleet *f)
{
	const char *refused = fleet_refused(f);

	if (refused)
		return xasprintf("%s refused: %s", f->queue, refused);
	for (size_t i = 0; i < f->n_slots; i++) {
		const struct proc *p = f->slots[i]->current;

		if (!fleet_slot_wanted(f, f->slots[i]) || !p || p->state == PROC_READY)
			continue;
		if (p->redis_wait)
			return xasprintf("%s/%zu waits for Redis: %s", f->queue, i,
					 p->note ? p->note : "no reason given");
		return xasprintf("%s/%zu is not ready: %s", f->queue, i, proc_state_word(p->state));
	}
	return xasprintf("%s is not ready", f->queue);
}

void supervisor_reload_step(struct supervisor *sv)
{
	struct buf errors = BUF_INIT;
	struct list *it;
	bool rolled;

	/* One that was done and only watched may still have to go back. */
	list_each (it, &sv->fleets)
		sv->reloading |= list_entry(it, struct fleet, link)->roll.phase == ROLL_BACK;
	if (!sv->reloading)
		return;
	list_each (it, &sv->fleets) {
		const struct fleet *f = list_entry(it, struct fleet, link);

		if (f->leaving)
			continue;
		if (fleet_is_rolling(f) ||
		    (!fleet_is_ready(f) && !fleet_has_settled(f) && !f->roll.failed))
			goto out; /* not over yet */
		if (!f->roll.failed && fleet_is_ready(f))
			continue;
		char *why = f->roll.failed ? xstrdup(f->roll.failed) : why_not_ready(f);

		buf_addf(&errors, "%s%s", errors.len ? "; " : "", why);
		free(why);
	}
	sv->reloading = false;
	rolled = errors.len == 0;
	if (sv->refused_reload) {
		struct buf whole = BUF_INIT;

		buf_addf(&whole, "generation %lld %s%s; a later reload was refused: %s",
			 (long long)sv->gen->number, errors.len ? "failed: " : "done", errors.data,
			 sv->refused_reload);
		free(sv->refused_reload);
		sv->refused_reload = NULL;
		buf_release(&errors);
		errors = whole;
	}
	set_result(sv, errors.len ? errors.data : NULL);
	sv->last_reload.rolled = rolled;
out:
	buf_release(&errors);
}
