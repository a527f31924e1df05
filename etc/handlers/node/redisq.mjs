/*
 * redisq: task handlers in JavaScript. One file, no dependencies, Node.js 16 or later; copy it.
 *
 *   import * as redisq from './redisq.mjs';
 *
 *   await redisq.run(async (task) => {
 *     const { user } = task.json();
 *     if (!user) throw new redisq.Dead('no user');   // never to be tried again
 *     return { greeted: user };                      // done; the value is the result
 *   }, { slots: 16 });
 *
 *   [queue mail]
 *   handler = pipe node mail.mjs                     # one child serves 16 tasks at once
 *   handler = exec node mail.mjs                     # the same file, one process per task
 *
 * How a task ends: the function returns (or its promise is fulfilled) = done. It throws `Dead` =
 * dead letter at once; `Snooze` = not now, no attempt charged; `Retry` = failed, and may say when to
 * try again; anything else = failed attempt with the error's text; the stack goes to the log.
 *
 * Cancelling (timeout, drain limit, lost lease): `task.signal` is an AbortSignal; hand it to fetch,
 * timers and the like. What is not over within kill_grace is killed.
 *
 * stdout and stderr are logs. fd 3 is the way to the worker; npm, npx and sudo close it: start node
 * itself.
 */
import fs from 'node:fs';
import net from 'node:net';

/* The task can never work: a dead letter at once. */
export class Dead extends Error {}

/* A failed attempt that may say when to try again. */
export class Retry extends Error {
  constructor(message = '', delayMs) {
    super(message);
    this.delayMs = delayMs;
  }
}

/* Not now: tried again later, no attempt charged. */
export class Snooze extends Error {
  constructor(delayMs) {
    super('snoozed');
    this.delayMs = delayMs;
  }
}

/*
 * One task. `payload` and the values of `fields` are strings, or Buffers where they are not UTF-8.
 *
 *   id            the same in all attempts; with `queue` the idempotency key
 *   attempt       from 1, of maxAttempts
 *   deliveries    all hands it went through, this one included
 *   enqueuedAtMs, deadlineMs   Unix time; deadlineMs is undefined without a timeout
 *   saved         the last checkpoint(), of an earlier attempt too; undefined without one
 *   signal        an AbortSignal: aborted when the task is to stop
 */
export class Task {
  #say;
  #abort;

  constructor(say, line) {
    this.#say = say;
    this.id = line.id;
    this.queue = line.queue;
    this.attempt = line.attempt;
    this.maxAttempts = line.max_attempts;
    this.deliveries = line.deliveries;
    this.enqueuedAtMs = line.enqueued_at_ms;
    this.deadlineMs = line.deadline_ms;
    this.payload = line.payload_b64 === undefined ? line.payload : Buffer.from(line.payload_b64, 'base64');
    this.fields = line.fields ?? {};
    for (const name in line.fields_b64) this.fields[name] = Buffer.from(line.fields_b64[name], 'base64');
    this.saved = line.checkpoint;
  }

  /* Made when asked for: most handlers never do, and it costs more than all the rest. */
  get signal() {
    this.#abort ??= new AbortController();
    return this.#abort.signal;
  }

  /* For run(). */
  cancel(reason) {
    this.signal;
    this.#abort.abort(new Error(`cancelled: ${reason}`));
  }

  /* The payload as JSON; throws Dead if it is none. */
  json() {
    try {
      return JSON.parse(this.payload);
    } catch (e) {
      throw new Dead(`the payload is not JSON: ${e.message}`);
    }
  }

  /* Keeps any JSON value (up to 64 KiB) with the task: the next attempt has it as `saved`, also
   * after a crash. */
  checkpoint(value) {
    this.saved = value;
    this.#say({ type: 'checkpoint', id: this.id, value });
  }

  /* Any JSON value for `redisqctl show`: 40, "3 of 7", {...}. */
  progress(value) {
    this.#say({ type: 'progress', id: this.id, value });
  }
}

function ending(task, error) {
  const line = { type: 'retry', id: task.id, error: String(error?.message || error) };
  if (error instanceof Dead) {
    line.type = 'dead';
  } else if (error instanceof Snooze) {
    line.type = 'snooze';
    delete line.error;
  } else if (!(error instanceof Retry)) {
    console.error(error);
  }
  if (Number.isFinite(error?.delayMs)) line.delay_ms = error.delayMs;
  return line;
}

async function serve(handle, task, say) {
  let line;
  try {
    line = { type: 'done', id: task.id, result: (await handle(task)) ?? undefined };
    JSON.stringify(line); // a result that is no JSON is the handler's error
  } catch (e) {
    line = ending(task, e);
  }
  say(line);
}

/* Started once per task: the task is in the environment and on stdin. */
async function runOne(handle) {
  const env = process.env;
  const number = (name) => (env[name] === undefined ? undefined : Number(env[name]));
  const say = ({ id, ...line }) => fs.writeSync(Number(env.REDISQ_ANSWER_FD ?? 3), JSON.stringify(line) + '\n');
  const bytes = fs.readFileSync(0);
  const { fields_b64, ...fields } = JSON.parse(env.REDISQ_FIELDS ?? '{}');
  let saved = env.REDISQ_CHECKPOINT;
  try {
    if (saved !== undefined) saved = JSON.parse(saved);
  } catch {
    // a string comes without its quotes
  }
  const task = new Task(say, {
    id: env.REDISQ_ID, queue: env.REDISQ_QUEUE, attempt: number('REDISQ_ATTEMPT'),
    max_attempts: number('REDISQ_MAX_ATTEMPTS'), deliveries: number('REDISQ_DELIVERIES'),
    enqueued_at_ms: number('REDISQ_ENQUEUED_AT_MS'), deadline_ms: number('REDISQ_DEADLINE_MS'),
    fields, fields_b64, checkpoint: saved,
  });
  const text = bytes.toString();
  task.payload = Buffer.from(text).equals(bytes) ? text : bytes;
  process.on('SIGTERM', () => task.cancel('SIGTERM'));
  await serve(handle, task, say);
  process.exit(0);
}

/* Serves tasks until there are no more; resolves then. `slots`: how many at once in this process. */
export async function run(handle, { slots = 16 } = {}) {
  if (process.env.REDISQ_ID !== undefined) return runOne(handle);

  let answers;
  try {
    fs.fstatSync(3);
    answers = new net.Socket({ fd: 3, readable: false, writable: true });
  } catch {
    console.error('redisq: fd 3 is closed. Handlers are started by redisq-worker; npm, npx and sudo close it: start node itself');
    process.exit(1);
  }
  answers.on('error', () => process.exit(1)); // the worker is gone

  // What is said within one turn of the event loop goes out in one write.
  let pending = '';
  const flush = () => {
    answers.write(pending);
    pending = '';
  };
  const say = (line) => {
    if (pending === '') setImmediate(flush);
    pending += JSON.stringify(line) + '\n';
  };

  const running = new Map();
  let over = false;
  let finish;
  const end = new Promise((resolve) => (finish = resolve));
  const leave = () => {
    if (!over || running.size > 0) return;
    process.stdin.destroy();
    if (pending !== '') flush();
    answers.end(finish);
  };
  const onLine = (text) => {
    let line;
    try {
      line = JSON.parse(text);
    } catch (e) {
      console.error(`redisq: not JSON on stdin: ${e.message}`);
      return;
    }
    if (line.type === 'task') {
      const task = new Task(say, line);
      running.set(task.id, task);
      serve(handle, task, (last) => {
        running.delete(task.id);
        say(last);
        if (over) leave();
      });
    } else if (line.type === 'cancel') {
      running.get(line.id)?.cancel(line.reason ?? '');
    } else if (line.type === 'drain') {
      over = true;
      leave();
    }
  };

  // Lines of any length: chunks are only joined once their line has ended.
  let parts = [];
  process.stdin.setEncoding('utf8');
  process.stdin.on('data', (chunk) => {
    let from = 0;
    for (let at; (at = chunk.indexOf('\n', from)) >= 0; from = at + 1) {
      parts.push(chunk.slice(from, at));
      onLine(parts.length === 1 ? parts[0] : parts.join(''));
      parts = [];
    }
    if (from < chunk.length) parts.push(chunk.slice(from));
  });
  process.stdin.on('end', () => {
    over = true;
    leave();
  });
  say({ type: 'ready', slots });
  return end;
}
