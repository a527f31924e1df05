/*
 * ownership.pml - who owns an entry: the protocol of worker/protocol.txt, sections 5 to 7, as the
 * scripts, the worker and the supervisor's hand-over orders are built. `make model` checks it; this
 * comment is its manual.
 *
 * The world. Two worker slots, their consumer names, one Redis, NE tasks. A worker has one slot of
 * credit and two links: `fetch` with at most one read, which waits in Redis until there is an
 * entry, and `cmd` with at most one other request. A request and its answer are two messages, and
 * anything may happen between any two steps. Faults, at most F of them, at any time:
 *   death   of a worker, by its task (charged) or by our own kill at a limit (not charged)
 *   stall   SIGSTOP, swap, a suspended machine: for longer than the lease, if that is worse
 *   cut     both links are lost. What was sent may be lost, or may reach Redis at any later time;
 *           so may what a dead worker had sent
 * Then the supervisor's order: hand over, a second look, remove the consumer; any living worker
 * does it, two may at once, an answer may be lost, and every step is repeated until it is answered.
 *
 * Time is left out; what it decides may happen at any moment at which it is possible:
 *   - an entry goes stale, a claim runs out, as soon as no living, unstalled worker with fresh
 *     evidence stands behind it (renewals are frequent: while one does, they do not);
 *   - a stall or a cut ends all evidence. An answer is evidence if there was none of them since its
 *     question was SENT. That an answer travels for much less than a lease is assumed;
 *   - that a stale entry is taken only when its owner's claim is gone, or after three leases, is a
 *     delay and no promise: left out. So are errors of Redis, foreign consumers and :names, the
 *     repaying of suspicions, and how many crashes are too many (suspects.pml has that).
 *
 * What is checked, in every state that can be reached:
 *   owner     a script changes an entry only for the incarnation that got it last (`truth`); what goes
 *             the short way may end another's, but only if a stall, a cut or a death came between
 *             its sending and its arrival
 *   counted   each task is counted as done once, whoever did it and however often
 *   once      two handlers never run one task while both their workers have evidence for it; nor
 *             does one run beside the handler of a dead worker
 *   table     no worker starts an id that it already has
 *   charge    never more crashes are charged than there were deaths while running (id, token)
 *   place     no entry goes with a consumer that is removed
 *   prompt    what a dead worker had is taken or released when the order about it is done: no task
 *             of a worker that died under a supervisor has to wait for a lease
 *   orders    an order that finds the name in other hands finds nothing left to charge
 *   bound     without faults no more is pending for a worker than it has credit for
 *   end       when nothing can happen any more, every task is done (no deadlock)
 * and, as progress: there is no way to go on for ever (pan -l finds any cycle). Both together:
 * every task is done in the end, whatever happens.
 *
 * Rules. 1 = as built; with 0 one of the above must break, and test/model/run shows that it does:
 *   TOKEN     scripts compare the delivery count, not only the name
 *   KEEPCOUNT release and hand-over leave the delivery count as it is (no RETRYCOUNT)
 *   CLAIM     a name has one incarnation: claim record, fenced renew, take, hand-over, removal
 *   EMPTY     a name is taken only when nothing is pending under it, but for the next two rules
 *   PROVEN    a name that is claimed, or has pending entries, is taken only from a former life of
 *             the same process (here: of the same slot), which is over for sure
 *   BILLED    what that life left is charged before it is let go of (as a suspicion)
 *   WHOLE     and only if nothing of it was released: an order about an earlier life may have done
 *             it, and its own must find what it is to charge
 *   SENT      evidence counts from when the question was sent, not from its answer
 *   FIRST     after a stall or a cut even an idle worker renews before it reads or takes
 *   LISTED    a renewal keeps only what is listed as running
 *   EXTRA     what is pending under the own name and not in the table is taken or released only
 *             when no unanswered read can have brought it
 *   TABLE     an id in the own table is not started again (it takes EXTRA = 0 to need it)
 *   STALE     only released and stale entries are taken
 *   PAIRS     a crash is charged only to an (id, token) that the dead worker was running
 *   ONCE      and only once under each token
 *   REAPED    a dead worker's handlers are killed and reaped before the order goes out
 *   GUARD     a consumer is removed only when nothing is pending for it
 *   KILLED    CLIENT KILL of a dead worker's links goes in front of the hand-over
 *   SECOND    a second look, later than any read that was sent before the death
 *   TOMBSTONE the hand-over leaves dead:<nonce> in the claim: a late renewal is fenced
 *   HEARD     where it finds another life's tombstone, it goes on if what was listed is there still
 *   ONEWRITE  settlement and next read are one write on one link: Redis keeps their order
 *   FRESH     what is simply done, in its first delivery, goes the short way, where nobody looks whose
 *             it is, but only with evidence for it and for the name
 *   COUNTED   and what it counts is what it found pending: others may have done the task before
 * SLOW = 0 assumes that what a dead worker had sent reaches Redis while its tombstone stands, and a
 * read before the second look; 1 leaves out the latter, 2 both, and does not check `prompt`. RETRY
 * and RELEASE are how many retries and releases there may be. With SHORT_WAY = 0 nothing goes the
 * short way; with 1 all that may does.
 *
 * To look at a counterexample: test/model/run keeps its trail; the command is in its last lines.
 */
#ifndef F
#define F 1
#endif
#ifndef NE
#define NE 1
#endif
#ifndef RETRY
#define RETRY 0
#endif
#ifndef RELEASE
#define RELEASE 0
#endif
#ifndef SHORT_WAY
#define SHORT_WAY 1
#endif
#ifndef SLOW
#define SLOW 0
#endif
#ifndef TOKEN
#define TOKEN 1
#endif
#ifndef KEEPCOUNT
#define KEEPCOUNT 1
#endif
#ifndef CLAIM
#define CLAIM 1
#endif
#ifndef EMPTY
#define EMPTY 1
#endif
#ifndef PROVEN
#define PROVEN 1
#endif
#ifndef BILLED
#define BILLED 1
#endif
#ifndef WHOLE
#define WHOLE 1
#endif
#ifndef HEARD
#define HEARD 1
#endif
#ifndef SENT
#define SENT 1
#endif
#ifndef FIRST
#define FIRST 1
#endif
#ifndef LISTED
#define LISTED 1
#endif
#ifndef EXTRA
#define EXTRA 1
#endif
#ifndef TABLE
#define TABLE 1
#endif
#ifndef STALE
#define STALE 1
#endif
#ifndef PAIRS
#define PAIRS 1
#endif
#ifndef ONCE
#define ONCE 1
#endif
#ifndef REAPED
#define REAPED 1
#endif
#ifndef GUARD
#define GUARD 1
#endif
#ifndef KILLED
#define KILLED 1
#endif
#ifndef SECOND
#define SECOND 1
#endif
#ifndef TOMBSTONE
#define TOMBSTONE 1
#endif
#ifndef ONEWRITE
#define ONEWRITE 1
#endif
#ifndef FRESH
#define FRESH 1
#endif
#ifndef COUNTED
#define COUNTED 1
#endif

#define NAMES 3
#define NOBODY NAMES
#define TOMB 32 /* claim = TOMB + i: "dead:" and the nonce of incarnation i */

/* Where an entry is; requests; answers. */
mtype = { WAITING, PENDING, DELAYED, OVER };
mtype = { READ, TAKE, RENEW, DONE, SHORT, LATER, LETGO, HAND, REMOVE };
mtype = { GOT, OK, NO, FENCED };

/* ------------------------------------------------------------------ Redis */
mtype at[NE] = WAITING;
byte id[NE];    /* of the entry that carries task k now: k + NE * its generation */
byte owner[NE] = NOBODY;
byte token[NE];
byte idle[NE];  /* 0 fresh, 1 stale, 2 released */
byte charged[NE]; /* token under which the last crash was charged */
byte claim[NAMES]; /* nonce = number of the incarnation; 0 = no record */
byte process[NAMES]; /* slot + 1 of the one that had it last, as its record and :names say; 0 = gone */

/* Ghosts: seen by no program, only by the checks. */
byte truth[NE]; /* the incarnation that got it last */
byte crashes[NE], deaths[NE];
byte orphan;    /* id whose handler outlived its worker */
byte n_done[NE]; /* as :counters has it */

/* ------------------------------------------------------------------ the workers */
byte n_lives, n_faults, n_retries, n_releases;
bool up[2], stalled[2];
byte name[2], life[2]; /* consumer, nonce */
bool named[2];  /* has evidence for its name */
byte has[2], tok[2]; /* the task in its table: id and token; 0 = none */
bool sure[2];   /* has evidence for the task: its handler may run */
mtype fate[2];  /* what its handler's end means; 0 = it runs */
bool renewed[2]; /* once while it runs, or while a read's answer is under way, is enough */
bool resent[2]; /* it was settled over a link that was lost */
bool reading[2]; /* a read is unanswered */
mtype asked[2]; /* the request that is unanswered on cmd; 0 = none */
bool late_read[2], late_cmd[2]; /* stalled since that was sent */
byte doing[2];  /* HAND, REMOVE: 4 * order + step; RENEW: what it listed; LETGO: 1 = an extra */

/* What the supervisor wants done about the worker that died in slot w. */
typedef order {
	byte step; /* 0 none, 1 hand over, 2 the second look, 3 remove the consumer */
	byte name, life, ran, tok;
	bool charge
};
order orders[2];

/* request, name, nonce, id, token, and: TAKE the owner seen; HAND charge; READ of an old link;
 * LETGO of something that was never in the table */
chan fetch[2] = [1] of { mtype, byte, byte, byte, byte, byte };
chan cmd[2] = [1] of { mtype, byte, byte, byte, byte, byte };
chan late = [3] of { mtype, byte, byte, byte, byte, byte };
chan brought[2] = [1] of { mtype, byte, byte }; /* answers on fetch: GOT id token */
chan answer[2] = [1] of { mtype, byte, byte };  /* and on cmd; RENEW: with what else is pending */

/* Scratch, set anew in every step. */
hidden mtype verb, res;
hidden byte who, nonce, ent, count, more, task, new_id, new_tok;
hidden byte tardy; /* a stall or the end of its link has come since this was sent */
#define MESSAGE verb,who,nonce,ent,count,more
#define REPLY res,new_id,new_tok

/* ------------------------------------------------------------------ words */
#define LIVE(w) (up[w] && !stalled[w])
#define UNDER(k, nm) (at[k] == PENDING && owner[k] == nm)
#define MINE(k) (at[k] == PENDING && id[k] == ent && owner[k] == who && \
	(!TOKEN || token[k] == count))
#define TAKEABLE(k, w) (at[k] == PENDING && (idle[k] > 0 || !STALE) && has[w] != id[k])
#define LOST_REPLY(k, w) (LISTED && UNDER(k, name[w]) && idle[k] < 2 && has[w] != id[k])
#if NE == 1
#define SOME_WAITING (at[0] == WAITING)
#define NONE_UNDER(nm) (!UNDER(0, nm))
#define HIDDEN(k) (UNDER(k, who) && truth[k] == nonce && idle[k] < 2)
#define NONE_HIDDEN (!HIDDEN(0))
#define SOME_TAKEABLE(w) TAKEABLE(0, w)
#define SOME_LOST_REPLY(w) LOST_REPLY(0, w)
#define ALL_OVER (at[0] == OVER)
#define ALL_COUNTED (n_done[0] == 1)
#else
#define SOME_WAITING (at[0] == WAITING || at[1] == WAITING)
#define NONE_UNDER(nm) (!UNDER(0, nm) && !UNDER(1, nm))
#define HIDDEN(k) (UNDER(k, who) && truth[k] == nonce && idle[k] < 2)
#define NONE_HIDDEN (!HIDDEN(0) && !HIDDEN(1))
#define SOME_TAKEABLE(w) (TAKEABLE(0, w) || TAKEABLE(1, w))
#define SOME_LOST_REPLY(w) (LOST_REPLY(0, w) || LOST_REPLY(1, w))
#define ALL_OVER (at[0] == OVER && at[1] == OVER)
#define ALL_COUNTED (n_done[0] == 1 && n_done[1] == 1)
#endif
/* Another incarnation has the name. */
#define ALIEN (CLAIM && claim[who] != 0 && claim[who] != nonce)
#define NOT_HIS (CLAIM && claim[who] != 0 && claim[who] != nonce && claim[who] != TOMB + nonce)
#define RAN_BY_THE_DEAD (ent && more && UNDER(task, who) && id[task] == ent && \
	token[task] == count && charged[task] != count)
#define LEFT(k) (ent && more && UNDER(k, who) && id[k] == ent && token[k] == count)
#if NE == 1
#define SOME_LEFT LEFT(0)
#define NONE_RELEASED(nm) (!(UNDER(0, nm) && idle[0] == 2))
#else
#define SOME_LEFT (LEFT(0) || LEFT(1))
#define NONE_RELEASED(nm) (!(UNDER(0, nm) && idle[0] == 2) && !(UNDER(1, nm) && idle[1] == 2))
#endif
/* Another life's tombstone, and nothing was left to charge under it. */
#define NOT_HEARD (NOT_HIS && !(HEARD && claim[who] > TOMB && SOME_LEFT))
#define FORMER(nm, w) (CLAIM && EMPTY && !FREE(nm) && claim[nm] < TOMB && \
	(PROVEN -> process[nm] == w + 1 : process[nm] != 0) && (!WHOLE || NONE_RELEASED(nm)))
#define FREE(nm) ((!CLAIM || claim[nm] == 0) && (!EMPTY || NONE_UNDER(nm)))
#define SETTLING(w) \
	(asked[w] == DONE || asked[w] == SHORT || asked[w] == LATER || asked[w] == LETGO)
#define PROVED(w) (named[w] || !FIRST)
#define EVIDENCE(was_late) (!(SENT && was_late))
/* Done in its first delivery, and not settled before over a link that was lost. */
#define PLAIN(w) (SHORT_WAY && fate[w] == DONE && tok[w] == 1 && has[w] < 2 * NE && !resent[w])
/* Its handler runs, and its worker would start and settle it. */
#define RUNS(w) (has[w] && sure[w] && !fate[w])
#define BOTH (RUNS(0) && RUNS(1) && has[0] == has[1])
#define BESIDE_ORPHAN (orphan && ((RUNS(0) && has[0] == orphan) || (RUNS(1) && has[1] == orphan)))

/* Somebody renews entry k, or is about to hear that it has it. */
#define KEPT(k, w) (LIVE(w) && ( \
	(has[w] == id[k] && (!TOKEN || tok[w] == token[k]) && name[w] == owner[k] && \
	 (sure[w] || (asked[w] == RENEW && !late_cmd[w] && answer[w]?[OK,_,_]))) || \
	(!late_read[w] && brought[w]?[GOT,eval(id[k]),eval(token[k])]) || \
	(!late_cmd[w] && answer[w]?[GOT,eval(id[k]),eval(token[k])]) || \
	(!LISTED && name[w] == owner[k])))
#define CLAIMED(nm, w) (LIVE(w) && claim[nm] == life[w] && (named[w] || \
	(asked[w] == RENEW && !late_cmd[w] && (answer[w]?[OK,_,_] || answer[w]?[NO,_,_]))))

/* ------------------------------------------------------------------ the scripts */
/* XREADGROUP: nothing can fence it, it goes to whoever has the name. */
inline do_read()
{
	task = (at[0] == WAITING -> 0 : NE - 1);
	if
	:: at[task] == WAITING ->
		assert(F > 0 || NONE_UNDER(who)); /* bound */
		at[task] = PENDING; owner[task] = who; token[task] = 1; idle[task] = 0; truth[task] = nonce;
		res = GOT; new_id = id[task]; new_tok = 1
	:: else
	fi
}

inline do_take()
{
	if
	:: CLAIM && claim[who] != nonce -> res = FENCED
	:: else ->
		if
		:: at[task] == PENDING && id[task] == ent && owner[task] == more &&
		   (!TOKEN || token[task] == count) &&
		   (owner[task] == who || idle[task] > 0 || !STALE) ->
			owner[task] = who; token[task]++; idle[task] = 0; truth[task] = nonce;
			res = GOT; new_id = ent; new_tok = token[task]
		:: else
		fi
	fi
}

/* Answers OK or NO for what is listed (OK if nothing is), and one of what else is pending. */
inline do_renew()
{
	if
	:: ALIEN -> res = FENCED
	:: else ->
		if :: claim[who] == 0 -> claim[who] = nonce :: else fi;
		res = OK;
		if
		:: ent != 0 && MINE(task) -> assert(truth[task] == nonce); idle[task] = 0
		:: ent != 0 && !MINE(task) -> res = NO
		:: else
		fi;
		task = 0;
		do
		:: task < NE && UNDER(task, who) && id[task] != ent ->
			if
			:: !LISTED -> idle[task] = 0 /* and so never idle for long */
			:: else -> new_id = id[task]; new_tok = token[task]
			fi;
			task++
		:: task < NE && !(UNDER(task, who) && id[task] != ent) -> task++
		:: task == NE -> break
		od
	fi
}

inline lower() { if :: !KEEPCOUNT && token[task] > 0 -> token[task]-- :: else fi }

inline finish()
{
	at[task] = OVER; owner[task] = NOBODY; idle[task] = 0;
	n_done[task]++;
	assert(n_done[task] == 1) /* counted */
}

inline do_settle()
{
	if
	:: MINE(task) ->
		assert(truth[task] == nonce || more); /* owner */
		res = OK;
		if
		:: verb == DONE -> finish()
		:: verb == LATER -> at[task] = DELAYED; owner[task] = NOBODY; idle[task] = 0
		:: verb == LETGO -> idle[task] = 2; lower()
		fi
	:: else
	fi
}

/* Looks neither at the owner nor at the token: what is done is done. */
inline do_short()
{
	if
	:: at[task] == PENDING && id[task] == ent ->
		assert(truth[task] == nonce || tardy); /* owner */
		res = OK; finish()
	:: else ->
		n_done[task] = n_done[task] + !COUNTED;
		assert(n_done[task] <= 1) /* counted */
	fi
}

/* A read that it had sent over the links it died with does not come any more. */
inline kill_links()
{
	if
	:: KILLED && late??[READ,_,eval(nonce),_,_,0] -> late??READ,_,eval(nonce),_,_,0
	:: else
	fi
}

inline do_hand()
{
	kill_links();
	if
	:: NOT_HEARD -> /* the name lives again: so there was nothing left under it */
		assert(!RAN_BY_THE_DEAD); /* orders */
		res = NO
	:: else ->
		if :: TOMBSTONE -> claim[who] = TOMB + nonce :: else fi;
		task = 0;
		do
		:: task < NE && UNDER(task, who) ->
			if
			:: more && (!PAIRS || (id[task] == ent && token[task] == count)) &&
			   (!ONCE || charged[task] != token[task]) ->
				charged[task] = token[task];
				crashes[task]++;
				assert(crashes[task] <= deaths[task]) /* charge */
			:: else -> lower()
			fi;
			idle[task] = 2; task++
		:: task < NE && !UNDER(task, who) -> task++
		:: task == NE -> break
		od;
		res = OK
	fi
}

inline do_remove()
{
	if
	:: NOT_HIS -> res = NO
	:: else ->
		assert(NONE_HIDDEN || SLOW == 2); /* prompt */
		assert(NONE_UNDER(who) || GUARD); /* place */
		if :: NONE_UNDER(who) -> claim[who] = 0; process[who] = 0 :: else fi;
		res = OK
	fi
}

inline execute()
{
	res = NO; new_id = 0; new_tok = 0; task = ent % NE;
	if
	:: verb == READ -> do_read()
	:: verb == TAKE -> do_take()
	:: verb == RENEW -> do_renew()
	:: verb == DONE || verb == LATER || verb == LETGO -> do_settle()
	:: verb == SHORT -> do_short()
	:: verb == HAND -> do_hand()
	:: verb == REMOVE -> do_remove()
	fi
}

active proctype redis()
{
	do
	:: atomic { len(answer[0]) == 0 && len(cmd[0]) > 0 ->
		cmd[0]?MESSAGE; tardy = late_cmd[0]; execute(); answer[0]!REPLY }
	:: atomic { len(answer[1]) == 0 && len(cmd[1]) > 0 ->
		cmd[1]?MESSAGE; tardy = late_cmd[1]; execute(); answer[1]!REPLY }
	/* Blocks until there is something; behind the settlement that was written before it. */
	:: atomic { SOME_WAITING && !(ONEWRITE && len(cmd[0]) > 0 && SETTLING(0)) &&
		fetch[0]?[READ,_,_,_,_,_] -> fetch[0]?MESSAGE; execute(); brought[0]!REPLY }
	:: atomic { SOME_WAITING && !(ONEWRITE && len(cmd[1]) > 0 && SETTLING(1)) &&
		fetch[1]?[READ,_,_,_,_,_] -> fetch[1]?MESSAGE; execute(); brought[1]!REPLY }
	/* Nobody hears the answers to these. */
	:: atomic { late?MESSAGE -> tardy = 1; execute() }
	od
}

/* ------------------------------------------------------------------ a worker */
inline ask(what, what_id, what_token, what_more)
{
	asked[w] = what; late_cmd[w] = 0;
	cmd[w]!what,name[w],life[w],what_id,what_token,what_more
}

inline drop_task() { has[w] = 0; tok[w] = 0; sure[w] = 0; fate[w] = 0; renewed[w] = 0; resent[w] = 0 }

/* Its links are gone: what was sent may be lost or come late, answers are lost. */
inline drop_links(old)
{
	if
	:: fetch[w]?[READ,_,_,_,_,_] ->
		fetch[w]?MESSAGE; if :: late!verb,who,nonce,ent,count,old :: true fi
	:: else
	fi;
	if :: asked[w] == SHORT -> resent[w] = 1 :: else fi;
	if
	:: len(cmd[w]) > 0 -> cmd[w]?MESSAGE; if :: late!MESSAGE :: true fi
	:: else
	fi;
	if :: len(brought[w]) > 0 -> brought[w]?_,_,_ :: else fi;
	if :: len(answer[w]) > 0 -> answer[w]?_,_,_ :: else fi;
	reading[w] = 0; asked[w] = 0; doing[w] = 0; late_read[w] = 0; late_cmd[w] = 0
}

inline adopt(was_late)
{
	if
	:: has[w] == new_id -> assert(TABLE)
	:: else -> assert(!has[w]); has[w] = new_id; fate[w] = 0; renewed[w] = 0
	fi;
	tok[w] = new_tok;
	sure[w] = EVIDENCE(was_late)
}

/* Something came back with a renewal: taken, or released where the credit is spent. */
inline extra()
{
	if
	:: new_id != has[w] && !(EXTRA && brought[w]?[GOT,eval(new_id),eval(new_tok)]) ->
		if
		:: !has[w] -> ask(TAKE, new_id, new_tok, name[w])
		:: reading[w] || has[w] -> ask(LETGO, new_id, new_tok, 1); doing[w] = 1
		fi
	:: else
	fi
}

inline hear()
{
	verb = asked[w]; more = doing[w]; count = late_cmd[w];
	asked[w] = 0; doing[w] = 0; late_cmd[w] = 0;
	if
	:: verb == RENEW && res == FENCED ->
		drop_links(1); drop_task(); up[w] = 0; named[w] = 0
	:: verb == RENEW && res != FENCED ->
		named[w] = EVIDENCE(count);
		if
		:: has[w] && has[w] == more && res == OK -> sure[w] = EVIDENCE(count)
		:: has[w] && has[w] == more && res == NO -> drop_task()
		:: else
		fi;
		if :: new_id -> extra() :: else fi
	:: verb == TAKE && res == GOT -> adopt(count)
	:: verb == TAKE && res == FENCED -> named[w] = 0
	:: verb == TAKE && res == NO
	:: (verb == DONE || verb == SHORT || verb == LATER || verb == LETGO) && more == 0 ->
		drop_task()
	:: verb == LETGO && more == 1
	:: verb == HAND || verb == REMOVE ->
		task = more / 4;
		if
		:: orders[task].step == more % 4 ->
			if
			:: res == NO || verb == REMOVE -> /* the name lives again, or it is done */
				orders[task].step = 0; orders[task].name = 0; orders[task].life = 0;
				orders[task].ran = 0; orders[task].tok = 0; orders[task].charge = 0
			:: else -> orders[task].step = (orders[task].step == 1 && SECOND -> 2 : 3)
			fi
		:: else
		fi
	fi;
	assert(!BOTH && !BESIDE_ORPHAN) /* once */
}

inline hand_over(o)
{
	task = orders[o].step;
	asked[w] = (task == 3 -> REMOVE : HAND); doing[w] = 4 * o + task; late_cmd[w] = 0;
	cmd[w]!asked[w],orders[o].name,orders[o].life,orders[o].ran,orders[o].tok,
		(task == 1 && orders[o].charge)
}
/* BLOCK + 1 s later no read of the dead is under way. */
#define DUE(o) (orders[o].step && (SLOW || orders[o].step != 2 || \
	!late??[READ,_,eval(orders[o].life),_,_,_]))

inline let_go(k)
{
	if
	:: UNDER(k, name[w]) ->
		if :: BILLED && idle[k] < 2 -> charged[k] = token[k] :: else fi;
		idle[k] = 2
	:: else
	fi
}

proctype worker(byte w)
{
	do
	/* A new life takes a name. The lowest that is free: as much reuse as there can be. */
	:: atomic { !up[w] && (FREE(0) || FREE(1) || FREE(2)) ->
		n_lives++; life[w] = n_lives;
		if
		:: FREE(0) -> name[w] = 0
		:: !FREE(0) && FREE(1) -> name[w] = 1
		:: !FREE(0) && !FREE(1) -> name[w] = 2
		fi;
		claim[name[w]] = life[w]; process[name[w]] = w + 1; up[w] = 1; named[w] = 1 }
	/* Or one of its process's own: what is left under it is let go of. */
	:: atomic { !up[w] && (FORMER(0, w) || FORMER(1, w) || FORMER(2, w)) ->
		n_lives++; life[w] = n_lives;
		if
		:: FORMER(0, w) -> name[w] = 0
		:: !FORMER(0, w) && FORMER(1, w) -> name[w] = 1
		:: !FORMER(0, w) && !FORMER(1, w) -> name[w] = 2
		fi;
		let_go(0); if :: NE > 1 -> let_go(NE - 1) :: else fi;
		claim[name[w]] = life[w]; process[name[w]] = w + 1; up[w] = 1; named[w] = 1 }
	:: atomic { LIVE(w) && !asked[w] && DUE(0) -> hand_over(0) }
	:: atomic { LIVE(w) && !asked[w] && DUE(1) -> hand_over(1) }
	/* Without evidence, and when there is something that it does not know of. */
	:: atomic { LIVE(w) && !asked[w] &&
		((!named[w] && (FIRST || has[w])) || (has[w] && !sure[w]) ||
		 (SOME_LOST_REPLY(w) && (!renewed[w] || len(brought[w]) == 0)) ||
		 (RUNS(w) && !renewed[w])) ->
		renewed[w] = (has[w] || len(brought[w]) > 0); ask(RENEW, has[w], tok[w], 0);
		doing[w] = has[w] }
	/* What was let go of comes before what is new. */
	:: atomic { LIVE(w) && !asked[w] && !has[w] && !reading[w] && PROVED(w) && SOME_TAKEABLE(w) ->
		if
		:: TAKEABLE(0, w) -> ask(TAKE, id[0], token[0], owner[0])
		:: TAKEABLE(NE - 1, w) -> ask(TAKE, id[NE - 1], token[NE - 1], owner[NE - 1])
		fi }
	/* CLIENT UNBLOCK. */
	:: atomic { LIVE(w) && reading[w] && PROVED(w) && !asked[w] && SOME_TAKEABLE(w) &&
		fetch[w]?[READ,_,_,_,_,_] -> fetch[w]?_,_,_,_,_,_; reading[w] = 0; late_read[w] = 0 }
	/* With a free slot, or one that the settlement in front of it frees. */
	:: atomic { LIVE(w) && !reading[w] && PROVED(w) && !SOME_TAKEABLE(w) && asked[w] != TAKE &&
		!ALL_OVER && (!has[w] || (NE > 1 && SETTLING(w) && !doing[w])) ->
		reading[w] = 1; late_read[w] = 0; fetch[w]!READ,name[w],life[w],0,0,0 }
	/* The handler ends. */
	:: atomic { LIVE(w) && RUNS(w) ->
		if
		:: fate[w] = DONE
		:: n_retries < RETRY -> n_retries++; fate[w] = LATER
		:: n_releases < RELEASE -> n_releases++; fate[w] = LETGO
		fi }
	:: atomic { LIVE(w) && !asked[w] && has[w] && sure[w] && fate[w] && PROVED(w) && !PLAIN(w) ->
		ask(fate[w], has[w], tok[w], 0) }
	:: atomic { LIVE(w) && !asked[w] && has[w] && PLAIN(w) &&
		((sure[w] && PROVED(w)) || !FRESH) -> ask(SHORT, has[w], tok[w], 0) }
	:: atomic { LIVE(w) && len(answer[w]) > 0 -> answer[w]?REPLY; hear() }
	:: atomic { LIVE(w) && len(brought[w]) > 0 && !(has[w] && SETTLING(w)) ->
		brought[w]?REPLY; count = late_read[w]; reading[w] = 0; late_read[w] = 0;
		if :: res == GOT -> adopt(count) :: else fi;
		assert(!BOTH && !BESIDE_ORPHAN) }
	od
}

/* ------------------------------------------------------------------ faults, time */
inline die(by_task)
{
	orders[w].name = name[w]; orders[w].life = life[w];
	orders[w].ran = has[w]; orders[w].tok = tok[w];
	orders[w].charge = by_task; orders[w].step = 1;
	task = has[w] % NE;
	if
	:: by_task && has[w] && has[w] == id[task] && at[task] == PENDING && token[task] == tok[w] &&
	   truth[task] == life[w] -> deaths[task]++
	:: else
	fi;
	if :: !REAPED && RUNS(w) -> orphan = has[w] :: else fi;
	drop_links(0); drop_task(); up[w] = 0; stalled[w] = 0; named[w] = 0
}

inline suspend() { named[w] = 0; sure[w] = 0 }

proctype faults(byte w)
{
	do
	:: atomic { n_faults < F && up[w] && !orders[w].step -> n_faults++; die(1) }
	:: atomic { n_faults < F && up[w] && !orders[w].step -> n_faults++; die(0) }
	:: atomic { n_faults < F && LIVE(w) -> n_faults++; stalled[w] = 1; suspend();
		late_read[w] = reading[w]; late_cmd[w] = (asked[w] -> 1 : 0) }
	:: atomic { stalled[w] -> stalled[w] = 0 }
	:: atomic { n_faults < F && LIVE(w) && (reading[w] || asked[w]) -> n_faults++; suspend();
		drop_links(1) }
	od
}

proctype clock_of_entry(byte m)
{
	do
	:: atomic { at[m] == PENDING && idle[m] == 0 && !KEPT(m, 0) && !KEPT(m, 1) -> idle[m] = 1 }
	:: atomic { at[m] == DELAYED -> at[m] = WAITING; id[m] = id[m] + NE; token[m] = 0;
		charged[m] = 0 }
	:: atomic { m == 0 && orphan -> orphan = 0 }
	od
}

proctype clock_of_claim(byte m)
{
	do
	:: atomic { claim[m] && !CLAIMED(m, 0) && !CLAIMED(m, 1) &&
		(SLOW == 2 || claim[m] < TOMB || !late??[_,_,eval(claim[m] - TOMB),_,_,_]) ->
		claim[m] = 0 }
	od
}

init
{
	atomic {
		name[1] = 1; life[0] = 1; life[1] = 2; n_lives = 2;
		claim[0] = 1; claim[1] = 2;
		process[0] = 1; process[1] = 2;
		up[0] = 1; up[1] = 1; named[0] = 1; named[1] = 1;
		id[0] = NE; id[NE - 1] = 2 * NE - 1;
		run worker(0); run worker(1); run faults(0); run faults(1);
		run clock_of_entry(0);
		if :: NE > 1 -> run clock_of_entry(1) :: else fi;
		run clock_of_claim(0); run clock_of_claim(1); run clock_of_claim(2)
	};
	/* end: nothing can happen any more */
	timeout -> assert(ALL_OVER && ALL_COUNTED)
}
