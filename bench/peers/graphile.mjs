// graphile-worker: local queue of 500, batched completion, the settings of its own performance test.
import { run, makeWorkerUtils, Logger } from "graphile-worker";
import { BATCH, Latencies, countdown, plan, seconds, single, tell, timed } from "./common.mjs";

const connectionString = plan.url;
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ connectionString, logger, maxPoolSize: 20 });
await utils.migrate();
const payload = { n: 1 };

let onJob = () => {};
const start = (localQueue) =>
  run({
    connectionString,
    logger,
    noHandleSignals: true,
    taskList: { noop: async (body) => onJob(body) },
    preset: {
      worker: {
        concurrentJobs: 24,
        maxPoolSize: 20,
        pollInterval: 2000,
        ...(localQueue ? { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {}),
      },
    },
  });
const left = async () =>
  utils.withPgClient(async (pg) => {
    const { rows } = await pg.query("select count(*)::int as n from graphile_worker._private_jobs");
    return rows[0].n;
  });
const drain = async () => {
  const runner = await start(true);
  while ((await left()) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
  await runner.stop();
};

const bulk = await timed(async () => {
  for (let n = 0; n < plan.jobs; n += BATCH) {
    const size = Math.min(BATCH, plan.jobs - n);
    await utils.addJobs(Array.from({ length: size }, () => ({ identifier: "noop", payload })));
  }
});
tell("bulk", plan.jobs, bulk);

const count = countdown(plan.jobs);
onJob = () => count.one();
const from = seconds();
let runner = await start(true);
await count.all;
while ((await left()) > 0) await new Promise((resolve) => setTimeout(resolve, 5));
const burn = seconds() - from;
tell("burn", plan.jobs, burn);
await runner.stop();
onJob = () => {};

let peak = Infinity;
for (const [clients, jobs] of plan.single) {
  peak = await single(() => utils.addJob("noop", payload), clients, jobs);
  await drain();
}

const rate = Math.min(peak, plan.jobs / burn) / 2;
const latencies = new Latencies();
onJob = (body) => body.at && latencies.started(body.at);
runner = await start(false);
await latencies.measure((at) => utils.addJob("noop", { at }), rate, plan.latency_seconds);
await runner.stop();
await utils.release();
process.exit(0);
