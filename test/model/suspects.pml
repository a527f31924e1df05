/*
 * suspects.pml - who is to blame when a worker dies: the crash records of worker/suspect.c, the
 * hand-over's charge, the worker set aside, as built. `make model` checks it.
 *
 * The world. One Redis, two workers with two slots each, three tasks; task 0 is poison and kills
 * its worker whenever it pleases while it runs, the others are good. Scripts and hand-over are one
 * step each here: what may cross what is the matter of ownership.pml. Besides, STRAY workers are
 * killed for no fault of any task. A death charges everything that ran: "alone" if it was one
 * task, "company" else. Suspects (a record that is not cleared) are run by the worker set aside,
 * which takes one of them at a time and nothing else; guilty is who crashed alone and has MAX
 * crashes.
 *
 * Checked: a good task is never judged guilty (with a stray death it may be: one crash in company
 * and a stray one alone are two); when nothing can happen any more every good task is settled and
 * the poison one is buried. Progress: no cycle, so that state is always reached, and the poison one
 * kills only so many workers.
 *
 * Rules. 1 = as built; with 0 something above breaks:
 *   ASIDE     suspects run in the worker set aside only
 *   SINGLY    it runs one at a time
 *   COMPANY   max_crashes is applied only after a crash alone (it takes MAX = 1 to need it)
 *   CHARGE    a death is charged at all
 */
#ifndef STRAY
#define STRAY 0
#endif
#ifndef ASIDE
#define ASIDE 1
#endif
#ifndef SINGLY
#define SINGLY 1
#endif
#ifndef COMPANY
#define COMPANY 1
#endif
#ifndef CHARGE
#define CHARGE 1
#endif
#ifndef MAX
#define MAX 2 /* max_crashes; 1 is also what on_crash = dead means */
#endif
#define TASKS 3
#define POISON 0
#define NOBODY 2

mtype = { WAITING, RUNNING, DONE, BURIED };
mtype at[TASKS] = WAITING;
byte by[TASKS] = NOBODY;
byte crashes[TASKS]; /* the record's count, and whether its cause begins with "alone" */
bool alone[TASKS];
byte n_running[2];   /* of each worker */
bool aside[2];
byte n_strays;
hidden byte k;

#define SUSPECT(t) (crashes[t] > 0)
#define GUILTY(t) (crashes[t] >= MAX && (alone[t] || !COMPANY))
#define ROOM(w) (n_running[w] < (aside[w] && SINGLY -> 1 : 2))
/* is_for_us() of worker/stream_take.c, and the look again when it is to be started. */
#define FOR(w, t) (GUILTY(t) || !ASIDE || (SUSPECT(t) == aside[w]))

/* All that worker w ran is charged and released; the next life is not set aside. */
inline die(w)
{
	k = 0;
	do
	:: k < TASKS && at[k] == RUNNING && by[k] == w ->
		at[k] = WAITING; by[k] = NOBODY;
		if
		:: CHARGE && crashes[k] < MAX + 3 -> crashes[k]++; alone[k] = (n_running[w] == 1)
		:: else
		fi;
		k++
	:: k < TASKS && !(at[k] == RUNNING && by[k] == w) -> k++
	:: k == TASKS -> break
	od;
	n_running[w] = 0; aside[w] = 0
}

proctype task(byte t)
{
	byte w;
	do
	:: atomic { at[t] == WAITING && GUILTY(t) ->
		assert(t == POISON || STRAY > 0); at[t] = BURIED; crashes[t] = 0; alone[t] = 0 }
	:: atomic { at[t] == WAITING && !GUILTY(t) && ((ROOM(0) && FOR(0, t)) || (ROOM(1) && FOR(1, t))) ->
		if
		:: ROOM(0) && FOR(0, t) -> w = 0
		:: ROOM(1) && FOR(1, t) -> w = 1
		fi;
		at[t] = RUNNING; by[t] = w; n_running[w]++; w = 0 }
	/* Settled: its record goes. */
	:: atomic { at[t] == RUNNING && t != POISON ->
		at[t] = DONE; n_running[by[t]]--; by[t] = NOBODY; crashes[t] = 0; alone[t] = 0 }
	:: atomic { at[t] == RUNNING && t == POISON -> w = by[t]; die(w); w = 0 }
	od
}

#define ANY_SUSPECT ((at[0] == WAITING && SUSPECT(0) && !GUILTY(0)) || \
	(at[1] == WAITING && SUSPECT(1) && !GUILTY(1)) || \
	(at[2] == WAITING && SUSPECT(2) && !GUILTY(2)))

/* Set aside: one that runs nothing, if there is one; it ends what it runs first. Back, when no
 * suspect is left. */
proctype supervisor()
{
	do
	:: atomic { ASIDE && ANY_SUSPECT && !aside[0] && !aside[1] ->
		if
		:: n_running[0] <= n_running[1] -> aside[0] = 1
		:: n_running[1] <= n_running[0] -> aside[1] = 1
		fi }
	:: atomic { !ANY_SUSPECT && aside[0] && n_running[0] == 0 -> aside[0] = 0 }
	:: atomic { !ANY_SUSPECT && aside[1] && n_running[1] == 0 -> aside[1] = 0 }
	:: atomic { n_strays < STRAY && n_running[0] > 0 -> n_strays++; die(0) }
	:: atomic { n_strays < STRAY && n_running[1] > 0 -> n_strays++; die(1) }
	od
}

init
{
	atomic { run task(0); run task(1); run task(2); run supervisor() };
	timeout -> assert(at[0] == BURIED && at[1] != WAITING && at[1] != RUNNING &&
		at[2] != WAITING && at[2] != RUNNING)
}
