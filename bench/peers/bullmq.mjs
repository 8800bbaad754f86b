// BullMQ on Redis (append-only file, synced every second): one worker, 100 jobs at a time.
import { Queue, Worker } from "bullmq";
import { BATCH, Latencies, countdown, plan, single, tell, timed } from "./common.mjs";

const { hostname: host, port } = new URL(plan.redis);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const options = { removeOnComplete: true, removeOnFail: true };
const queue = new Queue("noop", { connection, defaultJobOptions: options });
const payload = { n: 1 };

const bulk = await timed(async () => {
  for (let n = 0; n < plan.jobs; n += BATCH) {
    const size = Math.min(BATCH, plan.jobs - n);
    await queue.addBulk(Array.from({ length: size }, () => ({ name: "noop", data: payload })));
  }
});
tell("bulk", plan.jobs, bulk);

async function drain(jobs) {
  const count = countdown(jobs);
  const worker = new Worker("noop", async () => {}, { connection, concurrency: 100 });
  worker.on("completed", () => count.one());
  await count.all;
  await worker.close();
}

const burn = await timed(() => drain(plan.jobs));
tell("burn", plan.jobs, burn);

let peak = Infinity;
for (const [clients, jobs] of plan.single) {
  peak = await single(() => queue.add("noop", payload), clients, jobs);
  await drain(jobs);
}

const latencies = new Latencies();
const rate = Math.min(peak, plan.jobs / burn) / 2;
const worker = new Worker("noop", async (job) => latencies.started(job.data.at), { connection, concurrency: 100 });
await worker.waitUntilReady();
await latencies.measure((at) => queue.add("noop", { at }), rate, plan.latency_seconds);
await worker.close();
await queue.close();
process.exit(0);
