// pg-boss: batches of 500 in four loops; for latency its own pollers at their shortest interval. With its NOTIFY
// it registers only some hundred jobs a second here, which makes latency worse.
import { PgBoss } from "pg-boss";
import { BATCH, Latencies, countdown, plan, seconds, single, tell, timed } from "./common.mjs";

const boss = new PgBoss({ connectionString: plan.url, max: 20, supervise: false, schedule: false });
boss.on("error", (error) => console.error(error.message));
await boss.start();
await boss.createQueue("noop");

const bulk = await timed(async () => {
  for (let n = 0; n < plan.jobs; n += BATCH) {
    const size = Math.min(BATCH, plan.jobs - n);
    await boss.insert("noop", Array.from({ length: size }, () => ({ data: { n: 1 } })));
  }
});
tell("bulk", plan.jobs, bulk);

// Four loops that fetch and complete as fast as the library can; its pollers wait half a second at least
// when a queue's counts are not kept, which nobody would call its speed.
async function drain(jobs) {
  const count = countdown(jobs);
  let open = true;
  const loop = async () => {
    while (open) {
      const some = await boss.fetch("noop", { batchSize: 500 });
      if (some.length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        continue;
      }
      await boss.complete("noop", some.map((job) => job.id));
      count.one(some.length);
    }
  };
  const loops = Array.from({ length: 4 }, loop);
  await count.all;
  open = false;
  await Promise.all(loops);
}

const burn = await timed(() => drain(plan.jobs));
tell("burn", plan.jobs, burn);

let peak = Infinity;
for (const [clients, jobs] of plan.single) {
  peak = await single(() => boss.send("noop", { n: 1 }), clients, jobs);
  await drain(jobs);
}

await boss.createQueue("timed");
const latencies = new Latencies();
const rate = Math.min(peak, plan.jobs / burn) / 2;
await boss.work("timed", { batchSize: 100, localConcurrency: 4, pollingIntervalSeconds: 0.5 }, async (jobs) => {
  for (const job of jobs) latencies.started(job.data.at);
});
await latencies.measure((at) => boss.send("timed", { at }), rate, plan.latency_seconds);
await boss.stop({ graceful: false });
process.exit(0);
