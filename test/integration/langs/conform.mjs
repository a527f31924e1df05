/* Does what test_languages.py asks for, in JavaScript. */
const redisq = await import(`${process.env.HANDLERS}/node/redisq.mjs`);

await redisq.run(async (task) => {
  if (Buffer.isBuffer(task.payload)) return { bytes: task.payload.length, last: task.payload.at(-1) };
  const { do: what, text } = task.json();
  switch (what) {
    case 'echo':
      return { id: task.id, queue: task.queue, attempt: task.attempt, saved: task.saved ?? null, field: task.fields.colour, text };
    case 'nothing':
      return;
    case 'fail':
      throw new Error('it failed');
    case 'dead':
      throw new redisq.Dead('no such user');
    case 'retry':
      throw new redisq.Retry('busy', 5000);
    case 'snooze':
      throw new redisq.Snooze(60000);
    case 'wait':
      return new Promise((_, reject) => task.signal.addEventListener('abort', () => reject(task.signal.reason)));
    case 'note':
      task.checkpoint({ job: 7 });
      task.progress('half');
      return { saved: task.saved };
    case 'print':
      process.stdout.write('x'.repeat(99) + '\n');
      process.stdout.write('{"type":"dead"}\n'.repeat(10000));
  }
  return 'printed';
}, { slots: 4 });
