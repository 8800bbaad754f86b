import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Binary,
  defineJob,
  Permanent,
  RawJson,
  RetryAfter,
  signWebhook,
  Snooze,
  type StandardSchema,
  verifyWebhook,
  WebhookError,
} from "nagaya";
import { runHandler } from "nagaya/testing";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

test("a signature is that of the standard", () => {
  // The expected value was computed with Python's hmac module.
  const signature = signWebhook(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, '{"test": 2432232314}');
  assert.equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
});

test("a webhook is verified by its raw body, with headers of any framework", () => {
  const at = 1_700_000_000;
  const body = '{"type":"job.succeeded","data":{"id":"1"}}';
  const headers = {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(at),
    "webhook-signature": signWebhook(SECRET, "msg_1", at, body),
  };
  for (const given of [headers, new Headers(headers)]) {
    const verified = verifyWebhook({ headers: given, body, secrets: SECRET, now: at * 1_000 });
    assert.equal(verified.id, "msg_1");
    assert.equal(verified.body.type, "job.succeeded");
  }
  const refused = (change: object, code: string) =>
    assert.throws(
      () => verifyWebhook({ headers, body, secrets: SECRET, now: at * 1_000, ...change }),
      (error) => error instanceof WebhookError && error.code === code,
    );
  refused({ body: `${body} ` }, "bad-signature");
  refused({ now: (at + 301) * 1_000 }, "old");
  refused({ secrets: "whsec_c2hvcnQ=" }, "bad-secret");
  refused({ headers: { ...headers, "webhook-id": undefined } }, "missing-header");
});

test("raw JSON and large integers are passed on digit by digit", async () => {
  const echo = defineJob({ kind: "echo" });
  const run = (value: unknown) => runHandler(echo.handler((_, attempt) => attempt.rawPayload?.value({ bigints: true })), value);
  assert.deepEqual((await run({ n: 7n })).result, { n: 7 });
  const raw = new RawJson('{"a":9007199254740993,"b":"9007199254740993","c":[-9223372036854775808,1.5e3]}');
  assert.deepEqual(raw.value({ bigints: true }), {
    a: 9007199254740993n,
    b: "9007199254740993",
    c: [-9223372036854775808n, 1500],
  });
  assert.throws(() => new RawJson("{"), SyntaxError);
});

const counted: StandardSchema<{ count: number }> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      typeof (value as { count?: unknown } | null)?.count === "number"
        ? { value: value as { count: number } }
        : { issues: [{ message: "must be a number", path: ["count"] }] },
  },
};

test("what a handler throws decides what becomes of its job", async () => {
  const job = defineJob({ kind: "k", schema: counted });
  const outcome = (error: Error) =>
    runHandler(job.handler(() => { throw error; }), { count: 1 });
  assert.equal((await outcome(new Permanent("no"))).isPermanent, true);
  assert.equal((await outcome(new RetryAfter("10s"))).retryAfterSeconds, 10);
  assert.equal((await outcome(new Snooze("1m"))).outcome, "released");
  const plain = await outcome(new TypeError("odd"));
  assert.equal(plain.isPermanent, false);
  assert.match(plain.error ?? "", /^TypeError: odd\n\s+at /);
  // Another copy of the package has another class of the same shape.
  const foreign = Object.assign(new Error("no"), { nagayaVerdict: { kind: "permanent" } });
  assert.equal((await outcome(foreign)).isPermanent, true);
  const invalid = await runHandler(job.handler(() => null), { count: "x" });
  assert.equal(invalid.isPermanent, true);
  assert.match(invalid.error ?? "", /count: must be a number/);
});

test("bytes are results with a content type", async () => {
  const job = defineJob<null, Binary>({ kind: "k" });
  const run = await runHandler(job.handler(() => new Binary(new Uint8Array([1, 2]), "image/png")), null);
  assert.equal(run.outcome, "succeeded");
});
