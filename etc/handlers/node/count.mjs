/*
 * An example: counts to {"to": N}, a step every 100 ms, and goes on where it was if it is killed.
 *
 *   redisq-supervisor -e -q count -k pipe -- node etc/handlers/node/count.mjs
 *   redisqctl push count '{"to": 50}'
 */
import { setTimeout as sleep } from 'node:timers/promises';

import * as redisq from './redisq.mjs';

await redisq.run(async (task) => {
  const { to } = task.json();
  if (!Number.isInteger(to)) throw new redisq.Dead('say {"to": N}');
  for (let n = task.saved ?? 0; n < to; n++) {
    await sleep(100, undefined, { signal: task.signal });
    task.checkpoint(n + 1);
    task.progress(`${n + 1} of ${to}`);
  }
  console.log(`counted to ${to} in attempt ${task.attempt}`);
  return { counted: to };
}, { slots: 16 });
