// Measures no-op jobs per second of one worker process against a real server on SQLite, and how much later than the
// raw API a waiting submitter has its result. Run after `npm run build`: node bench/throughput.mjs [JOBS] [CONCURRENCY]
import { createWorker } from "nagaya";
import { startHouse } from "nagaya/testing";

const jobs = Number(process.argv[2] ?? 100_000);
const concurrency = Number(process.argv[3] ?? 500);

const house = await startHouse();
const client = house.client();
try {
  const begin = performance.now();
  for (let left = jobs; left > 0; left -= 10_000) {
    const batch = Array.from({ length: Math.min(left, 10_000) }, () => {
      return { kind: "noop", payload: { n: left }, options: { queue: "noop" } };
    });
    await client.enqueueMany(batch);
  }
  const enqueued = (performance.now() - begin) / 1_000;
  console.log(`enqueue: ${Math.round(jobs / enqueued)} jobs/s`);

  let done = 0;
  let finish;
  const all = new Promise((resolve) => (finish = resolve));
  const worker = createWorker({
    client,
    concurrency,
    queues: ["noop"],
    handlers: { noop: () => null },
    observe: (event) => {
      if (event.type === "reported" && ++done === jobs) finish();
    },
  });
  const start = performance.now();
  const cpu = process.cpuUsage();
  worker.start();
  await all;
  const took = (performance.now() - start) / 1_000;
  const used = process.cpuUsage(cpu);
  await worker.stop();
  console.log(`work: ${Math.round(jobs / took)} jobs/s, concurrency ${concurrency}, ${((used.user + used.system) / 1e6 / took).toFixed(2)} cores`);
  console.log(JSON.stringify(worker.stats()));
  await latency(client);
} finally {
  await house.stop();
}

async function latency(client) {
  const ended = new Map();
  const worker = createWorker({
    client,
    queues: ["echo"],
    handlers: { echo: (payload) => payload },
    observe: (event) => {
      if (event.type === "reported") ended.set(event.job, performance.now());
    },
  });
  worker.start();
  const [viaClient, viaApi] = [[], []];
  for (let round = 0; round < 200; round += 1) {
    let at = performance.now();
    const job = await client.enqueue("echo", round, { queue: "echo" });
    await job.wait();
    viaClient.push(performance.now() - at);
    at = performance.now();
    const answer = await fetch(`${client.url}/v1/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ queue: "echo", kind: "echo", payload: round }),
    });
    const { id } = await answer.json();
    await (await fetch(`${client.url}/v1/jobs/${id}?wait=30s`)).json();
    viaApi.push(performance.now() - at);
  }
  await worker.stop();
  const middle = (all) => all.sort((a, b) => a - b)[all.length / 2].toFixed(2);
  console.log(`enqueue and wait, median: ${middle(viaClient)} ms; the same calls by fetch: ${middle(viaApi)} ms`);
}
