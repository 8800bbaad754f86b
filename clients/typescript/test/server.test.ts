/** Against a real server; NAGAYA_BIN or PATH has it. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import {
  Attempt,
  Client,
  createWorker,
  currentAttempt,
  defineJob,
  Ids,
  JobCancelled,
  JobFailed,
  Permanent,
  ProblemError,
  pushEndpoint,
  RawJson,
  Snooze,
  StillRunning,
  Worker,
  type WorkerEvent,
} from "nagaya";
import { House, startHouse } from "nagaya/testing";

const PUSH_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
let house: House;
let client: Client;

before(async () => {
  house = await startHouse({ settings: { "jobs.push_secret": PUSH_SECRET, "jobs.result_max": "4kb" } });
  client = house.client();
});

after(async () => {
  await house.stop();
});

/** Runs a worker for as long as a test lasts. */
async function working<T>(worker: Worker, run: () => Promise<T>): Promise<T> {
  worker.start();
  try {
    return await run();
  } finally {
    await worker.stop();
  }
}

const limit = { timeout: "30s" } as const;

test("a job is enqueued, worked on and waited for, with types from end to end", async () => {
  const sum = defineJob<{ a: number; b: number }, number>({ kind: "sum", queue: "math", maxRetries: 2, tags: ["t"] });
  const worker = createWorker({ client, jobs: [sum.handler(({ a, b }) => a + b)] });
  await working(worker, async () => {
    const job = await client.enqueue(sum, { a: 1, b: 2 }, { priority: 3 });
    const result: number = await job.wait(limit);
    assert.equal(result, 3);
    const view = await job.read();
    assert.deepEqual([view.kind, view.queue, view.priority, view.max_retries, view.tags], ["sum", "math", 3, 2, ["t"]]);
  });
  assert.equal(worker.stats().succeeded, 1);
});

test("the same key finds the same job, and a batch is judged item by item", async () => {
  const first = await client.enqueue("k", 1, { queue: "idle", key: "one" });
  const again = await client.enqueue("k", 1, { queue: "idle", key: "one" });
  assert.deepEqual([again.id, again.foundBy], [first.id, "idempotency_key"]);
  const good = { kind: "k", payload: 1, options: { queue: "idle" } };
  // A queue's name is judged when the request is read, a dependency when the job is registered.
  for (const bad of [{ queue: "no such name!" }, { queue: "idle", after: ["4611686018427387904"] }]) {
    const items = await client.enqueueMany([good, { ...good, options: bad }, good, good]);
    assert.deepEqual(items.map((item) => item.job !== undefined), [true, false, true, true]);
    assert.match(items[1]?.problem?.name ?? "", /bad-request|dependency-unusable/);
  }
  await assert.rejects(client.enqueue("k", 2, { queue: "idle", key: "one" }), (error) => {
    return error instanceof ProblemError && error.code === "key-reused";
  });
});

test("waiting tells a failure, a cancellation and that it is not over", async () => {
  const job = await client.enqueue("k", 1, { queue: "nobody" });
  await assert.rejects(job.wait({ timeout: 50 }), StillRunning);
  await job.cancel("not needed");
  await assert.rejects(job.wait(limit), JobCancelled);
  await job.retry();
  assert.equal((await job.read()).state, "waiting");
  const worker = createWorker({ client, queues: ["fails"], handlers: { bad: () => { throw new Permanent("no such picture"); } } });
  await working(worker, async () => {
    const failing = await client.enqueue("bad", 1, { queue: "fails" });
    await assert.rejects(failing.wait(limit), (error) => error instanceof JobFailed && /no such picture/.test(error.message));
  });
});

test("a job waits for those that it depends on, and for its time", async () => {
  const first = await client.enqueue("k", 1, { queue: "chain" });
  const second = await client.enqueue("k", 2, { queue: "chain", after: [first] });
  const later = await client.enqueue("k", 3, { queue: "chain", delay: "1h" });
  assert.deepEqual((await second.read()).pending_dependencies, [first.id]);
  assert.equal((await later.read()).state, "scheduled");
  const order: unknown[] = [];
  const worker = createWorker({ client, queues: ["chain"], handlers: { k: (n) => void order.push(n) } });
  await working(worker, () => second.wait(limit));
  assert.deepEqual(order, [1, 2]);
});

test("schedules are set, run and removed", async () => {
  const report = defineJob<{ of: string }>({ kind: "report", queue: "reports" });
  await client.setSchedule("nightly", { cron: "0 3 * * *", timeZone: "Asia/Tokyo", job: report.with({ of: "yesterday" }) });
  const job = await client.runSchedule("nightly");
  assert.deepEqual((await job.read()).payload, { of: "yesterday" });
  assert.equal((await client.schedules()).find((one) => one.name === "nightly")?.time_zone, "Asia/Tokyo");
  await client.removeSchedule("nightly");
  assert.equal((await client.schedules()).length, 0);
});

test("a subscription goes on where it was acknowledged", async () => {
  const ids: string[] = [];
  for (let n = 0; n < 3; n += 1) ids.push((await client.enqueue("k", n, { queue: "watched" })).id);
  const read = async (count: number, acknowledge: boolean) => {
    const seen: string[] = [];
    for await (const event of client.events({ subscription: "s", queue: "watched", kinds: ["enqueued"], after: "0" })) {
      if (event.kind === "gap") assert.fail("there is no gap");
      seen.push((event as { job: string }).job);
      if (acknowledge) await event.ack();
      if (seen.length === count) return seen;
    }
    return seen;
  };
  assert.deepEqual(await read(2, true), ids.slice(0, 2));
  assert.deepEqual(await read(1, false), ids.slice(2));
  assert.deepEqual(await read(1, false), ids.slice(2));
});

test("a handler that blocks the event loop for three leases keeps its job, and the one claimed beside it", async () => {
  const worker = createWorker({
    client,
    queues: ["busy"],
    concurrency: 2,
    handlers: {
      busy: () => {
        for (const end = Date.now() + 4_500; Date.now() < end; );
        return "done";
      },
    },
  });
  await working(worker, async () => {
    const jobs = [1, 2].map((n) => client.enqueue("busy", n, { queue: "busy", timeout: 1_500 }));
    for (const job of await Promise.all(jobs)) {
      assert.equal(await job.wait(limit), "done");
      assert.equal((await job.read()).attempts, 1);
    }
  });
  assert.equal(worker.stats().lost, 0);
});

test("a keeper on the handlers' own loop works as well", async () => {
  const worker = createWorker({ client, queues: ["loop"], keeper: "loop", handlers: { k: (n) => n } });
  await working(worker, async () => assert.equal(await (await client.enqueue("k", 5, { queue: "loop" })).wait(limit), 5));
});

test("a cancelled job's handler is told by its signal, and nothing is reported", async () => {
  const events: WorkerEvent[] = [];
  let begun: (attempt: Attempt) => void;
  const started = new Promise<Attempt>((resolve) => {
    begun = resolve;
  });
  const worker = createWorker({
    client,
    queues: ["cancel"],
    observe: (event) => events.push(event),
    handlers: {
      k: (_, attempt) => {
        begun(attempt);
        return new Promise((__, reject) => {
          attempt.signal.addEventListener("abort", () => reject(attempt.signal.reason as Error));
        });
      },
    },
  });
  await working(worker, async () => {
    const job = await client.enqueue("k", 1, { queue: "cancel", timeout: "2s" });
    const attempt = await started;
    await job.cancel();
    await new Promise((resolve) => attempt.signal.addEventListener("abort", resolve));
    assert.equal(attempt.stopReason, "cancelled");
    assert.equal((await job.read()).state, "cancelled");
  });
  assert.deepEqual(worker.stats().lost, 1);
  assert.ok(events.some((event) => event.type === "reported" && event.outcome === "lost" && event.reason === "cancelled"));
});

test("a result that the server refuses fails its job for good and no other of its batch", async () => {
  const worker = createWorker({
    client,
    queues: ["large"],
    concurrency: 20,
    handlers: { k: (n) => (n === 3 ? "x".repeat(5_000) : n) },
  });
  const jobs = await client.enqueueMany(Array.from({ length: 8 }, (_, n) => ({ kind: "k", payload: n, options: { queue: "large" } })));
  await working(worker, async () => {
    for (const [n, item] of jobs.entries()) {
      const ended = await client.waitForEnd(item.job?.id as string, limit);
      assert.deepEqual([ended.state, ended.attempts], [n === 3 ? "failed" : "succeeded", 1], `${n}: ${ended.error}`);
      if (n === 3) assert.match(ended.error ?? "", /rejected the result/);
    }
  });
});

test("a snoozed job waits and is done later", async () => {
  const worker = createWorker({
    client,
    queues: ["snooze"],
    handlers: {
      k: async (payload: { at: number }) => {
        if (Date.now() < payload.at) throw new Snooze(200);
        return "late";
      },
    },
  });
  await working(worker, async () => {
    const job = await client.enqueue("k", { at: Date.now() + 300 }, { queue: "snooze" });
    assert.equal(await job.wait(limit), "late");
  });
});

test("the trace and the attempt reach what a handler calls", async () => {
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const wrapped: string[] = [];
  const worker = createWorker({
    client,
    queues: ["traced"],
    handlers: {
      k: async () => {
        const next = await client.enqueue("k", 2, { queue: "later" });
        return [currentAttempt()?.number, next.id];
      },
    },
  });
  worker.use(async (attempt, next) => {
    wrapped.push(attempt.id);
    return next();
  });
  await working(worker, async () => {
    const job = await client.enqueue<number, number, [number, string]>("k", 1, { queue: "traced", traceparent });
    const [number, next] = await job.wait(limit);
    assert.deepEqual([number, wrapped], [1, [job.id]]);
    assert.match((await client.readJob(next)).traceparent ?? "", /4bf92f3577b34da6a3ce929d0e0e4736/);
  });
});

test("raw results keep their digits", async () => {
  const worker = createWorker({ client, queues: ["raw"], handlers: { k: (_, attempt) => attempt.rawPayload } });
  await working(worker, async () => {
    const job = await client.enqueue("k", new RawJson('{"n": 18446744073709551615}'), { queue: "raw" });
    assert.equal((await client.waitRaw(job.id, limit))?.text, '{"n": 18446744073709551615}');
  });
});

test("a worker outlives a restart of its server", async () => {
  const own = await startHouse();
  const theirs = own.client();
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  let begun: () => void = () => undefined;
  const started = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const worker = createWorker({
    client: theirs,
    logger: { warn: () => undefined },
    handlers: {
      k: async () => {
        begun();
        await gate;
        return "held";
      },
    },
  });
  try {
    await working(worker, async () => {
      const job = await theirs.enqueue("k", 1);
      await started;
      await own.restart();
      open();
      assert.equal(await job.wait(limit), "held");
      assert.equal((await job.read()).attempts, 1);
      assert.equal(await (await theirs.enqueue("k", 2)).wait(limit), "held");
    });
  } finally {
    await own.stop();
  }
});

test("a worker that the server refuses ends with the server's words", async () => {
  const own = await startHouse({ settings: { "http.token": "0123456789abcdef0123456789abcdef" } });
  try {
    const worker = createWorker({ url: own.url, token: "wrong-wrong-wrong-wrong-wrong", handlers: { k: () => null } });
    await assert.rejects(worker.run(), (error) => error instanceof ProblemError && error.status === 401);
  } finally {
    await own.stop();
  }
});

test("many jobs are waited for together", async () => {
  const jobs = Array.from({ length: 300 }, (_, n) => ({ kind: "k", payload: n, options: { queue: "many" } }));
  const ids = (await client.enqueueMany(jobs)).map((item) => item.job?.id as string);
  const worker = createWorker({ client, queues: ["many"], concurrency: 50, handlers: { k: (n) => n } });
  await working(worker, async () => {
    const [gone, ...views] = await client.waitAll(["4611686018427387904", ...ids], limit);
    assert.equal(gone, undefined);
    assert.deepEqual(views.map((view) => view?.result), jobs.map((job) => job.payload));
  });
  const idle = await client.enqueue("k", 1, { queue: "nobody" });
  const [view] = await client.waitAll([idle.id], { timeout: 50 });
  assert.equal(view?.state, "waiting");
});

test("ids are unique and rise, also when many ask at once", async () => {
  const ids = new Ids(client, { batch: 10 });
  const all = await Promise.all(Array.from({ length: 35 }, () => ids.nextBigInt()));
  assert.equal(new Set(all).size, 35);
  assert.ok(all.every((id, index) => index === 0 || id > (all[index - 1] as bigint)));
});

test("pushed jobs are verified and worked on", async () => {
  const double = defineJob<{ n: number }, number>({ kind: "double", queue: "pushed" });
  const receive = pushEndpoint({ secrets: PUSH_SECRET, queues: { pushed: double.handler(({ n }) => {
    if (n < 0) throw new Permanent("negative");
    return 2 * n;
  }) } });
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { status, body } = await receive({ headers: request.headers, body: Buffer.concat(chunks) });
    response.writeHead(status).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  try {
    await client.request("PUT", "/v1/queues/pushed", { push: { url, concurrency: 2 } }, "safe");
    assert.equal(await (await client.enqueue(double, { n: 4 })).wait(limit), 8);
    const failed = await client.waitForEnd((await client.enqueue(double, { n: -4 })).id, limit);
    assert.deepEqual([failed.state, failed.attempts], ["failed", 1]);
    const forged = await fetch(url, { method: "POST", body: "{}" });
    assert.equal(forged.status, 401);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("what was enqueued is found by tests of an application", async () => {
  await client.enqueue("welcome", { to: "a@example.com" }, { queue: "idle" });
  const [job] = await house.enqueued("welcome");
  assert.deepEqual(job?.payload, { to: "a@example.com" });
  await assert.rejects(house.enqueued("nothing"), /no job of kind "nothing"/);
});
