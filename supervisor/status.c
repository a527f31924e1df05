/* status.c - the object of status --json; its keys are a contract, keys may be added. */
#include <unistd.h>

#include "clock.h"
#include "supervisor.h"

static json_t *text_or_null(const char *text)
{
	json_t *s = text ? json_string(text) : NULL;

	/* Not UTF-8: better nothing than no status at all. */
	return s ? s : json_null();
}

static json_t *exit_json(const struct last_exit *x)
{
	if (!x->known)
		return json_null();
	return json_pack("{s:s, s:o, s:o}", "cause", exit_cause_word(x->cause), "signal",
			 x->signal ? json_integer(x->signal) : json_null(), "code",
			 x->signal ? json_null() : json_integer(x->code));
}

static json_t *tasks_json(const struct proc *p)
{
	json_t *list = json_array();
	int64_t now = clock_boot_ms();

	for (uint32_t i = 0; p->board && i < p->board->n_tasks; i++) {
		struct board_task t;
		json_t *o;

		if (!board_read_task(p->board, i, &t))
			continue;
		o = json_pack("{s:o, s:i, s:I}", "id", text_or_null(t.id), "attempt",
			      (int)t.attempt, "age_ms", (json_int_t)max_i64(0, now - t.started_ms));
		/* Two of them may give out the same id. */
		if (proc_conf(p)->partitions > 1)
			json_object_set_new(o, "partition", json_integer(t.partition));
		json_array_append_new(list, o);
	}
	return list;
}

/* The processes that its handler keeps for further tasks. */
static json_t *children_json(const struct proc *p)
{
	json_t *list = json_array();

	for (uint32_t i = 0; p->board && i < p->board->n_groups; i++)
		if (board_group(p->board, i) > 0)
			json_array_append_new(list, json_integer(board_group(p->board, i)));
	return list;
}

static void add_tally(json_t *o, const struct tally *t)
{
	json_object_set_new(o, "done", json_integer(t->done));
	json_object_set_new(o, "failed", json_integer(t->failed));
	json_object_set_new(o, "lost_leases", json_integer(t->lost_leases));
	json_object_set_new(o, "log_dropped", json_integer(t->log_dropped));
}

/* `past`: counted by earlier workers of the slot, which this row speaks for. */
static void add_board(json_t *o, const struct proc *p, const struct tally *past)
{
	const struct board *b = p->board;
	struct tally sum = *past;

	tally_add_board(&sum, b);
	json_object_set_new(
		o, "consuming",
		json_boolean(b && p->was_ready && !p->refused && atomic_load(&b->consuming) != 0));
	json_object_set_new(o, "running", json_integer(b ? atomic_load(&b->running) : 0));
	add_tally(o, &sum);
}

/* What a person should know about the worker first. */
static const char *note_of(const struct slot *s, const struct proc *p)
{
	if (p->refused)
		return p->refused;
	if (p->note)
		return p->note;
	if (p != s->current)
		return NULL;
	if (!s->lock_error && s->lock_awaited_ms > 0)
		return "waits until a worker of an earlier supervisor has left";
	return s->lock_error;
}

/* `past` as in add_board(). */
static json_t *worker_json(const struct slot *s, struct proc *p, const struct tally *past)
{
	json_t *o = json_object();
	bool alive = proc_has_process(p);

	json_object_set_new(o, "slot", json_integer(s->index));
	json_object_set_new(o, "pid", alive ? json_integer(p->pid) : json_null());
	json_object_set_new(o, "consumer", text_or_null(p->consumer));
	json_object_set_new(o, "state", json_string(proc_state_word(p->state)));
	add_board(o, p, past);
	json_object_set_new(o, "restarts", json_integer(s->restarts));
	json_object_set_new(o, "uptime_ms",
			    json_integer(alive ? clock_mono_ms() - p->started_ms : 0));
	json_object_set_new(o, "rss_bytes", json_integer(proc_measure_rss(p)));
	json_object_set_new(o, "last_exit", exit_json(&s->last_exit));
	json_object_set_new(o, "tasks", tasks_json(p));
	/* Beyond the contract. */
	json_object_set_new(o, "children", children_json(p));
	json_object_set_new(o, "generation", json_integer(p->gen->number));
	json_object_set_new(o, "credit", json_integer(p->credit.held));
	json_object_set_new(o, "note", text_or_null(note_of(s, p)));
	json_object_set_new(o, "redis", text_or_null(p->redis));
	json_object_set_new(o, "breaker", text_or_null(p->breaker));
	json_object_set_new(o, "works", json_boolean(p->works));
	json_object_set_new(o, "quarantine", json_boolean(p == s->fleet->quarantine));
	return o;
}

/* A slot without any proc: nothing was ever started, or a stop has ended it. */
static json_t *empty_slot_json(const struct slot *s)
{
	json_t *o = json_pack("{s:i, s:n, s:n, s:s, s:b, s:i, s:I, s:i, s:i, s:o, s:[]}", "slot",
			      (int)s->index, "pid", "consumer", "state", "stopped", "consuming", 0,
			      "running", 0, "restarts", (json_int_t)s->restarts, "uptime_ms", 0,
			      "rss_bytes", 0, "last_exit", exit_json(&s->last_exit), "tasks");

	add_tally(o, &s->past);
	return o;
}

/*
 * The row of the worker in charge counts for the workers before it, too, so that a slot's figures
 * never fall; what an old one that still drains has counted is in its own row until it is gone.
 */
static void add_slot(json_t *workers, const struct slot *s)
{
	static const struct tally nothing;
	struct list *it;

	if (s->current)
		json_array_append_new(workers, worker_json(s, s->current, &s->past));
	else
		json_array_append_new(workers, empty_slot_json(s));
	if (s->next)
		json_array_append_new(workers, worker_json(s, s->next, &nothing));
	list_each (it, &s->olds)
		json_array_append_new(workers,
				      worker_json(s, list_entry(it, struct proc, link), &nothing));
}

/* null when none is under way. */
static json_t *roll_json(const struct fleet *f)
{
	const struct slot *canary = fleet_canary(f);

	if (f->roll.phase == ROLL_IDLE)
		return json_null();
	return json_pack("{s:s, s:I, s:o}", "phase", roll_phase_word(f->roll.phase), "generation",
			 (json_int_t)f->roll.gen->number, "canary",
			 canary ? json_integer(canary->index) : json_null());
}

static json_t *fleet_json(const struct fleet *f)
{
	json_t *workers = json_array(), *o;
	struct tally sum = fleet_tally(f);

	for (size_t i = 0; i < f->n_slots; i++)
		add_slot(workers, f->slots[i]);
	o = json_pack("{s:o, s:s, s:i, s:i, s:I, s:o, s:I, s:b}", "name", text_or_null(f->queue),
		      "backend", fleet_backend(f), "concurrency", fleet_concurrency(f),
		      "workers_wanted", (int)fleet_wanted(f), "total_parallelism",
		      (json_int_t)fleet_parallelism(f), "workers", workers, "credit_out",
		      (json_int_t)f->credit.out, "leaving", f->leaving);
	if (o)
		add_tally(o, &sum);
	json_object_set_new(o, "partitions", json_integer(fleet_partitions(f)));
	json_object_set_new(o, "generation", json_integer(f->gen->number));
	json_object_set_new(o, "roll", roll_json(f));
	return o;
}

static json_t *reload_json(const struct last_reload *r)
{
	if (!r->known)
		return json_null();
	return json_pack("{s:b, s:o}", "ok", r->ok, "error", text_or_null(r->error));
}

json_t *supervisor_status(struct supervisor *sv)
{
	json_t *queues = json_array();
	struct list *it;

	list_each (it, &sv->fleets)
		json_array_append_new(queues, fleet_json(list_entry(it, struct fleet, link)));
	return json_pack("{s:{s:i, s:s, s:s, s:s, s:I, s:I, s:o, s:I, s:I}, s:o}", "supervisor",
			 "pid", (int)getpid(), "version", REDISQ_VERSION, "name",
			 conf_supervisor(sv->gen->conf)->name, "state", supervisor_mode_word(sv),
			 "uptime_ms", (json_int_t)(clock_mono_ms() - sv->started_ms), "generation",
			 (json_int_t)sv->gen->number, "last_reload", reload_json(&sv->last_reload),
			 "log_dropped", (json_int_t)logsink_dropped(sv->logs), "strays_killed",
			 (json_int_t)sv->house.children.n_killed, "queues", queues);
}
