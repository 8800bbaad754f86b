/** The adapter of the conformance suite; see clients/conformance/README.md for its protocol. */
import { createInterface } from "node:readline";

import {
  type Attempt,
  Binary,
  Client,
  ConnectionError,
  currentAttempt,
  type Duration,
  type EnqueueOptions,
  Ids,
  JobCancelled,
  JobFailed,
  NagayaError,
  type NewJob,
  Permanent,
  ProblemError,
  RawJson,
  RetryAfter,
  type StandardSchema,
  StillRunning,
  TimeoutError,
  VERSION,
  verifyWebhook,
  WebhookError,
  Worker,
  type WorkerEvent,
} from "nagaya";

type Fields = Record<string, unknown>;

let client = new Client();
let worker: Worker | undefined;
const gates = new Map<string, { open: () => void; opened: Promise<void> }>();
const streams = new Map<string, { stop: AbortController; ended: Promise<void> }>();

function write(line: Fields): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function ms(seconds: unknown): Duration {
  return Number(seconds) * 1_000;
}

function errorOf(error: unknown): Fields {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof ProblemError) return { name: error.problem.name, status: error.status, message };
  if (error instanceof ConnectionError) return { name: "unreachable", message };
  if (error instanceof TimeoutError) return { name: "timeout", message };
  return { name: error instanceof NagayaError ? error.code : "other", message };
}

function gate(name: string): { open: () => void; opened: Promise<void> } {
  let found = gates.get(name);
  if (!found) {
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    found = { open, opened };
    gates.set(name, found);
  }
  return found;
}

function newJob(job: Fields): NewJob {
  const options: EnqueueOptions = { queue: String(job.queue) };
  if (job.key !== undefined) options.key = String(job.key);
  if (job.delay !== undefined) options.delay = ms(job.delay);
  if (job.run_at !== undefined) options.runAt = new Date(String(job.run_at));
  if (job.after !== undefined) options.after = job.after as string[];
  if (job.priority !== undefined) options.priority = Number(job.priority);
  if (job.max_retries !== undefined) options.maxRetries = Number(job.max_retries);
  if (job.timeout !== undefined) options.timeout = ms(job.timeout);
  if (job.backoff !== undefined) options.backoff = job.backoff as NonNullable<EnqueueOptions["backoff"]>;
  if (job.traceparent !== undefined) options.traceparent = String(job.traceparent);
  let { payload } = job;
  if (job.payload_json !== undefined) payload = new RawJson(String(job.payload_json));
  if (job.payload_base64 !== undefined) {
    payload = new Binary(Buffer.from(String(job.payload_base64), "base64"), String(job.content_type));
  }
  return { ...(job.kind === undefined ? {} : { kind: String(job.kind) }), payload, options };
}

/** A validator written by hand, as an application without a library for it would. */
const typed: StandardSchema<{ name: string; count: number }> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate(value) {
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        return { issues: [{ message: "an object is needed" }] };
      }
      const { name, count } = value as Fields;
      if (typeof name !== "string") return { issues: [{ message: "a string is needed", path: ["name"] }] };
      if (!Number.isInteger(count)) return { issues: [{ message: "a whole number is needed", path: ["count"] }] };
      return { value: { name, count: count as number } };
    },
  },
};

function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1_000);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
    signal?.throwIfAborted();
  });
}

async function script(payload: { steps: Fields[] }, attempt: Attempt): Promise<unknown> {
  for (const step of payload.steps) {
    if (step.until !== undefined && attempt.number > Number(step.until)) continue;
    const seconds = Number(step.seconds ?? 0);
    switch (step.do) {
      case "sleep":
        await sleep(seconds, attempt.signal);
        break;
      case "block":
        for (const end = Date.now() + seconds * 1_000; Date.now() < end; );
        break;
      case "gate":
        await Promise.race([gate(String(step.gate)).opened, sleep(1e6, attempt.signal)]);
        break;
      case "stubborn":
        await sleep(seconds);
        break;
      case "progress":
        await attempt.progress(step.progress as number | undefined, step.message as string | undefined);
        break;
      case "log":
        await attempt.log(...(step.lines as string[]));
        break;
      case "enqueue":
        await enqueue(step.job as Fields);
        break;
      case "fail":
        throw new Error(String(step.message));
      case "retry_after":
        throw new RetryAfter(seconds * 1_000, String(step.message));
      case "permanent":
        throw new Permanent(String(step.message));
      case "return":
        return step.value;
      default:
        throw new Permanent(`unknown step ${String(step.do)}`);
    }
  }
  return null;
}

async function enqueue(job: Fields): Promise<Fields> {
  const made = await client.enqueueJob(newJob(job));
  return { id: made.id, found_by: made.foundBy ?? null };
}

function observed(event: WorkerEvent): void {
  switch (event.type) {
    case "stopped":
      write({ event: "stopped", job: event.attempt.id, attempt: event.attempt.number, reason: event.reason });
      break;
    case "ended":
      write({ event: "ended", job: event.attempt.id, attempt: event.attempt.number });
      break;
    case "reported":
      if (event.outcome === "released") return;
      write({ event: "reported", job: event.job, attempt: event.attempt, outcome: event.outcome, reason: event.reason });
      break;
  }
}

function work(command: Fields): void {
  const option = (name: string, key: string) => (command[name] === undefined ? {} : { [key]: ms(command[name]) });
  const made = new Worker(client, {
    queues: command.queues as string[],
    concurrency: Number(command.concurrency),
    observe: observed,
    keeper: command.mode === "loop" ? "loop" : "thread",
    ...(command.name === undefined ? {} : { name: String(command.name) }),
    ...option("drain", "drain"),
    ...option("grace", "grace"),
    ...option("max_runtime", "maxRuntime"),
    ...option("poll", "poll"),
  });
  made.use(async (attempt, next) => {
    const logged = currentAttempt();
    write({
      event: "started",
      job: attempt.id,
      attempt: attempt.number,
      queue: attempt.queue,
      kind: attempt.kind,
      pid: process.pid,
      traceparent: attempt.traceparent ?? null,
      log: { job: logged?.id, attempt: logged?.number },
    });
    return next();
  });
  made.handle("echo", (payload, attempt) =>
    attempt.rawPayload ?? new Binary(payload as unknown as Uint8Array, attempt.contentType),
  );
  made.add({ spec: { kind: "typed" }, schema: typed, run: (payload: unknown) => payload });
  made.handle("script", script);
  worker = made;
  const signals = command.signals === true;
  made.run({ signals }).then(
    () => {
      write({ event: "worker_ended", error: null });
      if (signals) process.exit(0);
    },
    (error: unknown) => {
      write({ event: "worker_ended", error: errorOf(error) });
      if (signals) process.exit(1);
    },
  );
}

async function wait(command: Fields): Promise<Fields> {
  try {
    const result = await client.wait(String(command.job), { timeout: ms(command.timeout) });
    return { outcome: "succeeded", result };
  } catch (error) {
    if (error instanceof JobFailed) return { outcome: "failed", error: error.message };
    if (error instanceof JobCancelled) return { outcome: "cancelled", error: error.message };
    if (error instanceof StillRunning) return { outcome: "timeout" };
    if (error instanceof ProblemError && error.status === 404) return { outcome: "gone" };
    throw error;
  }
}

function follow(command: Fields): void {
  const stop = new AbortController();
  const stream = String(command.stream);
  const options: Fields = { signal: stop.signal };
  for (const name of ["subscription", "queue", "kinds", "after"]) {
    if (command[name] !== undefined) options[name] = command[name];
  }
  const read = async () => {
    for await (const event of client.events(options)) {
      if (event.kind === "gap") {
        write({ event: "gap", stream });
        continue;
      }
      const { id: event_id, kind, job } = event as { id: string; kind: string; job: string };
      write({ event: "event", stream, event_id, kind, job });
      if (command.subscription !== undefined) await event.ack();
    }
  };
  const ended = read().catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`);
  });
  streams.set(stream, { stop, ended });
}

function verify(command: Fields): Fields {
  try {
    verifyWebhook({
      headers: command.headers as Record<string, string>,
      body: Buffer.from(String(command.body_base64), "base64"),
      secrets: command.secrets as string[],
      now: Number(command.now) * 1_000,
    });
    return { verified: true };
  } catch (error) {
    if (error instanceof WebhookError) return { verified: false };
    throw error;
  }
}

async function obey(command: Fields): Promise<Fields | undefined> {
  switch (command.do) {
    case "client":
      client = new Client({
        url: String(command.url),
        token: String(command.token ?? ""),
        timeout: ms(command.timeout ?? 10),
      });
      return {};
    case "enqueue":
      return enqueue(command.job as Fields);
    case "enqueue_many": {
      const items = await client.enqueueMany((command.jobs as Fields[]).map(newJob));
      return {
        items: items.map(({ job, problem }) =>
          job
            ? { id: job.id, found_by: job.foundBy ?? null }
            : { problem: { name: problem.name, status: problem.status, message: problem.detail } },
        ),
      };
    }
    case "cancel":
      await client.cancel(String(command.job));
      return {};
    case "retry":
      await client.retry(String(command.job));
      return {};
    case "wait":
      return wait(command);
    case "work":
      work(command);
      return {};
    case "stop": {
      const begin = performance.now();
      await worker?.stop(command.limit === undefined ? {} : { drain: ms(command.limit) });
      return { seconds: (performance.now() - begin) / 1_000 };
    }
    case "release":
      gate(String(command.gate)).open();
      return {};
    case "events":
      follow(command);
      return {};
    case "end_events": {
      const found = streams.get(String(command.stream));
      found?.stop.abort();
      await found?.ended;
      return {};
    }
    case "verify_webhook":
      return verify(command);
    case "ids": {
      const ids = new Ids(client);
      return { ids: await Promise.all(Array.from({ length: Number(command.count) }, () => ids.next())) };
    }
    default:
      return undefined;
  }
}

write({ event: "hello", client: "typescript", version: VERSION, modes: ["thread"], features: ["ids"] });
const input = createInterface(process.stdin);
input.on("line", (line) => {
  const command = JSON.parse(line) as Fields;
  obey(command).then(
    (ok) => write(ok ? { id: command.id, ok } : { id: command.id, error: { name: "unsupported", message: "" } }),
    (error: unknown) => write({ id: command.id, error: errorOf(error) }),
  );
});
input.on("close", () => process.exit(0));
