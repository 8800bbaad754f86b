/** What becomes of a worker whose keeper dies. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Worker as Thread } from "node:worker_threads";

import { createWorker } from "nagaya";
import { type House, startHouse } from "nagaya/testing";

let house: House;
const keepers = new Set<Thread>();
const post = Thread.prototype.postMessage;

before(async () => {
  // The keepers are known by what is said to them.
  Thread.prototype.postMessage = function (this: Thread, ...args: Parameters<typeof post>) {
    keepers.add(this);
    return post.apply(this, args);
  };
  house = await startHouse();
});

after(async () => {
  Thread.prototype.postMessage = post;
  await house.stop();
});

test("a keeper that dies is replaced, and its successor keeps the leases and reports the outcomes", async () => {
  const client = house.client();
  const waiting = new Map<number, () => void>();
  let running = 0;
  let most = 0;
  const told: string[] = [];
  let tell: () => void = () => undefined;
  const until = async (condition: () => boolean) => {
    while (!condition()) await new Promise<void>((resolve) => (tell = resolve));
  };
  const worker = createWorker({
    client,
    concurrency: 2,
    logger: { warn: () => undefined },
    observe: (event) => {
      told.push(event.type === "warning" ? event.message : event.type);
      tell();
    },
    handlers: {
      k: async (n: number) => {
        most = Math.max(most, ++running);
        if (n === 1 || n === 2) {
          const gate = new Promise<void>((resolve) => waiting.set(n, resolve));
          tell();
          await gate;
        }
        await new Promise((resolve) => setImmediate(resolve));
        running -= 1;
        return n;
      },
    },
  });
  worker.start();
  const enqueue = (n: number) => client.enqueue("k", n, { timeout: "3s" });
  // The end of an attempt is the first thing that the keeper is told.
  await (await enqueue(0)).wait({ timeout: "30s" });
  const held = [await enqueue(1), await enqueue(2)];
  await until(() => waiting.size === 2);
  const others = [await enqueue(3), await enqueue(4), await enqueue(5)];
  const [keeper] = keepers;
  assert.ok(keeper);
  told.length = 0;
  await keeper.terminate();
  // One attempt ends while there is no keeper.
  waiting.get(1)?.();
  // The others share its place, while the second one keeps its own.
  for (const job of others) await job.wait({ timeout: "30s" });
  waiting.get(2)?.();
  for (const job of [...held, ...others]) {
    await job.wait({ timeout: "30s" });
    assert.equal((await job.read()).attempts, 1);
  }
  await worker.stop();
  assert.equal(worker.stats().succeeded, 6);
  assert.ok(told.some((message) => /keeper crashed/.test(message)), told.join(" "));
  assert.equal(most, 2, "the successor knows which places are taken");
});
