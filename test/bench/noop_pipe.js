// A pipe handler that does nothing, in Node: noop_pipe.js SLOTS. As many answers in one write as
// tasks came in one read. With BENCH_LATENCY it notes how late each task was started.
'use strict';
const fs = require('fs');

const latency = process.env.BENCH_LATENCY && fs.openSync(process.env.BENCH_LATENCY, 'a');
let rest = '';

function run(task) {
  if (latency) {
    fs.writeSync(latency, (process.hrtime.bigint() - BigInt(task.payload)) + '\n');
  }
}

process.stdin.setEncoding('utf8');
process.stdin.on('data', (chunk) => {
  const lines = (rest + chunk).split('\n');
  let answers = '';
  rest = lines.pop();
  for (const line of lines) {
    const message = JSON.parse(line);
    if (message.type !== 'task') continue;
    run(message);
    answers += `{"type":"done","id":"${message.id}"}\n`;
  }
  if (answers) fs.writeSync(3, answers);
});
fs.writeSync(3, `{"type":"ready","slots":${Number(process.argv[2])}}\n`);
