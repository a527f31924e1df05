// The two peers behind one set of words, each with its fastest settings (what it finished is not
// kept, no events):
//   peer.js bullmq|bee PORT add N BYTES      adds so many tasks, 1000 at a time
//   peer.js bullmq|bee PORT pace N GAP_MS    adds them one at a time; the payload is the moment
//   peer.js bullmq|bee PORT work CONCURRENCY "ready", waits for a line, works until stdin ends
// With BENCH_LATENCY a worker notes how late each task was started.
'use strict';
const fs = require('fs');

const QUEUE = 'q';
const [, , which, port, verb, ...args] = process.argv;
const redis = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
const latency = process.env.BENCH_LATENCY && fs.openSync(process.env.BENCH_LATENCY, 'a');

async function handle(job) {
  if (latency) {
    fs.writeSync(latency, (process.hrtime.bigint() - BigInt(job.data.payload)) + '\n');
  }
}

const bullmq = {
  open() {
    const { Queue } = require('bullmq');
    this.queue = new Queue(QUEUE, { connection: redis });
    return this.queue.waitUntilReady();
  },
  add(payload) {
    return this.queue.add('t', { payload }, { removeOnComplete: true });
  },
  addMany(n, payload) {
    const job = { name: 't', data: { payload }, opts: { removeOnComplete: true } };
    return this.queue.addBulk(Array(n).fill(job));
  },
  async prepare(concurrency) {
    const { Worker } = require('bullmq');
    this.worker = new Worker(QUEUE, handle, { connection: redis, concurrency, autorun: false });
    await this.worker.waitUntilReady();
  },
  work() {
    this.worker.run();
  },
};

const bee = {
  settings: { redis, getEvents: false, sendEvents: false, storeJobs: false,
              removeOnSuccess: true },
  open(isWorker = false) {
    const Queue = require('bee-queue');
    this.queue = new Queue(QUEUE, { ...this.settings, isWorker });
    return this.queue.ready();
  },
  add(payload) {
    return this.queue.createJob({ payload }).save();
  },
  addMany(n, payload) {
    return this.queue.saveAll(Array.from({ length: n }, () => this.queue.createJob({ payload })));
  },
  prepare(concurrency) {
    this.concurrency = concurrency;
    return this.open(true);
  },
  work() {
    this.queue.process(this.concurrency, handle);
  },
};

const verbs = {
  async add(peer, n, bytes) {
    await peer.open();
    for (let left = n; left > 0; left -= 1000) {
      await peer.addMany(Math.min(left, 1000), 'x'.repeat(bytes));
    }
    process.exit(0);
  },
  async pace(peer, n, gapMs) {
    await peer.open();
    for (let i = 0; i < n; i++) {
      await peer.add(String(process.hrtime.bigint()));
      await new Promise((next) => setTimeout(next, gapMs));
    }
    process.exit(0);
  },
  async work(peer, concurrency) {
    await peer.prepare(concurrency);
    process.stdin.once('data', () => peer.work());
    process.stdin.on('end', () => process.exit(0));
    console.log('ready');
  },
};

verbs[verb]({ bullmq, bee }[which], ...args.map(Number)).catch((error) => {
  console.error(error);
  process.exit(1);
});
