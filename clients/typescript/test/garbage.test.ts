/** Answers that are no answers: a proxy's error page with status 200, lists that are too short. */
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import { Client, createWorker } from "nagaya";
import { type House, startHouse } from "nagaya/testing";

let house: House;
let server: Server;
let url: string;
const spoiled = new Map<RegExp, string[]>();

before(async () => {
  house = await startHouse();
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    for (const [path, answers] of spoiled) {
      const answer = path.test(request.url ?? "") ? answers.shift() : undefined;
      if (answer !== undefined) return response.end(answer);
    }
    const answer = await fetch(house.url + request.url, {
      method: request.method ?? "GET",
      headers: { "content-type": "application/json" },
      ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
    });
    response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

after(async () => {
  server.closeAllConnections();
  server.close();
  await house.stop();
});

test("a worker outlasts answers that make no sense, and reports again what was not taken", async () => {
  const page = "<html>bad gateway</html>";
  spoiled.set(/claim$/, [page, "null", "[]"]);
  spoiled.set(/complete$/, [page, '{"jobs":[]}', "7"]);
  spoiled.set(/extend$/, [page, page, page]);
  const warnings: string[] = [];
  const worker = createWorker({
    url,
    token: "",
    poll: "1s",
    logger: { warn: (message) => void warnings.push(message) },
    handlers: { k: (n) => new Promise((resolve) => setTimeout(() => resolve(n), 1_500)) },
  });
  worker.start();
  const client = new Client({ url: house.url, token: "" });
  const job = await client.enqueue("k", 7, { timeout: "3s" });
  assert.equal(await job.wait({ timeout: "30s" }), 7);
  assert.equal((await job.read()).attempts, 1);
  for (const [path, answers] of spoiled) {
    if (!String(path).includes("extend")) assert.equal(answers.length, 0, String(path));
  }
  await worker.stop();
  assert.equal(worker.stats().succeeded, 1);
  assert.ok(!warnings.some((warning) => /keeper/.test(warning)), warnings.join("\n"));
});
