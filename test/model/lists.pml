/*
 * lists.pml - how an item of a list becomes an entry: section 13 of worker/protocol.txt, as
 * worker/stream_list.c and list_fetch.lua are built. `make model` checks it.
 *
 * Only this is different where a queue is a list. From then on the same scripts run on the same
 * answers: _list.lua does XPENDING, XCLAIM, XACK and the others by :owners, where owner and token
 * stand, one script is one step as with a stream, and test/integration runs all that is said of the
 * scripts on both kinds. So ownership.pml holds for lists, too: a read there is a fetch here, but
 * that Redis refuses it when the name is another's, which no XREADGROUP can be; and the short way
 * here looks whose an entry is, which is one step less that might cross another.
 *
 * The world. Two workers with one slot each, two items, one Redis. A wait moves one item aside, at
 * any time while there is one; the fetch that follows makes an entry of it. A worker may die between
 * any two steps, at most F times, and what it had sent may reach Redis at any time later, or never.
 * Then its claim ends, what it had is released, and what lies aside goes back: in one step, since
 * ownership.pml has what may cross it. A new life follows.
 *
 * Checked: an item is in one place, always; nothing is given to the dead behind the end of their
 * claim, where only a lease would bring it back; when nothing can happen any more all is done.
 *
 * Rules. 1 = as built; with 0 something above breaks:
 *   LOOK      now and then a fetch takes all that lies aside, whoever moved it there
 *   FENCED    a fetch is refused when its claim is gone
 */
#ifndef LOOK
#define LOOK 1
#endif
#ifndef FENCED
#define FENCED 1
#endif
#ifndef F
#define F 2
#endif
#define NI 2
#define NOBODY 2

mtype = { WAITING, ASIDE, TAKEN, DONE };         /* an item, later an entry */
mtype = { IDLE, MOVING, MOVED, FETCHING, HAS, DEAD }; /* a worker */
mtype at[NI] = WAITING;
byte by[NI] = NOBODY;
mtype is[2] = IDLE;
byte late_moves;
bool late_fetch[2]; /* of the life before, its claim gone or not */
byte n_faults, n_given_back;
hidden byte k, got;

#define ANY(place) (at[0] == place || at[1] == place)

inline first(place)
{
	k = 0;
	do
	:: k < NI && at[k] != place -> k++
	:: else -> break
	od
}

inline give_back()
{
	k = 0;
	do
	:: k < NI -> at[k] = (at[k] == ASIDE -> WAITING : at[k]); k++
	:: else -> break
	od
}

/* One item for worker w: of those aside, else of the list. It is all that there is a slot for. */
inline fetch(w)
{
	got = NOBODY;
	if
	:: ANY(ASIDE) -> first(ASIDE); got = k
	:: !ANY(ASIDE) && ANY(WAITING) -> first(WAITING); got = k
	:: else
	fi;
	if
	:: got != NOBODY -> at[got] = TAKEN; by[got] = w
	:: else
	fi
}

proctype worker(byte w)
{
	do
	:: atomic { is[w] == IDLE && ANY(WAITING) -> is[w] = MOVING }
	/* The wait ends without an item, sooner or later; the next fetch may look at what lies there. */
	:: atomic { is[w] == IDLE && LOOK && ANY(ASIDE) && !ANY(WAITING) -> is[w] = FETCHING }
	:: atomic { is[w] == MOVING && ANY(WAITING) -> first(WAITING); at[k] = ASIDE; is[w] = MOVED }
	:: atomic { is[w] == MOVING && !ANY(WAITING) -> is[w] = IDLE }
	:: atomic { is[w] == MOVED -> is[w] = FETCHING }
	/* No slot any more: it goes back. */
	:: atomic { is[w] == MOVED && n_given_back < 1 -> n_given_back++; give_back(); is[w] = IDLE }
	:: atomic { is[w] == FETCHING ->
		fetch(w);
		is[w] = (got == NOBODY -> IDLE : HAS) }
	:: atomic { is[w] == HAS ->
		k = (by[0] == w && at[0] == TAKEN -> 0 : 1);
		assert(at[k] == TAKEN && by[k] == w);
		at[k] = DONE; by[k] = NOBODY; is[w] = IDLE }
	/* Death: what was under way may come late. */
	:: atomic { is[w] != DEAD && n_faults < F ->
		n_faults++;
		if
		:: is[w] == MOVING -> late_moves++
		:: is[w] == FETCHING && !late_fetch[w] -> late_fetch[w] = 1
		:: else
		fi;
		is[w] = DEAD }
	/* Its claim ends, and the next life begins. */
	:: atomic { is[w] == DEAD ->
		k = 0;
		do
		:: k < NI && at[k] == TAKEN && by[k] == w -> at[k] = WAITING; by[k] = NOBODY; k++
		:: k < NI && !(at[k] == TAKEN && by[k] == w) -> k++
		:: k == NI -> break
		od;
		give_back();
		is[w] = IDLE }
	od
}

/* What the dead had sent. */
proctype network()
{
	byte w;
	do
	:: atomic { late_moves > 0 && ANY(WAITING) -> first(WAITING); at[k] = ASIDE; late_moves-- }
	:: atomic { late_moves > 0 -> late_moves-- }
	:: atomic { late_fetch[0] || late_fetch[1] ->
		w = (late_fetch[0] -> 0 : 1);
		late_fetch[w] = 0;
		if
		:: is[w] == DEAD -> fetch(w) /* its claim stands: it is released with the rest */
		:: is[w] != DEAD && !FENCED -> fetch(w); assert(got == NOBODY)
		:: else
		fi;
		w = 0 }
	:: atomic { late_fetch[0] -> late_fetch[0] = 0 }
	:: atomic { late_fetch[1] -> late_fetch[1] = 0 }
	od
}

init
{
	atomic { run worker(0); run worker(1); run network() };
	timeout -> assert(at[0] == DONE && at[1] == DONE)
}
