import { currentAttempt } from "./attempt.js";
import { type Duration, milliseconds, now } from "./duration.js";
import { JobCancelled, JobFailed, NagayaError, type Problem, ProblemError, StillRunning } from "./errors.js";
import { events, type EventsOptions, type GapEvent, type JobEvent } from "./events.js";
import { type EnqueueOptions, type JobDefinition, JobHandle, type NewJob, newJob, writeJob } from "./job.js";
import { rawAt, type RawJson } from "./json.js";
import type { RetryPolicy } from "./retry.js";
import { type Call, type ProblemDocument, readProblem, Transport, transportOptions } from "./transport.js";
import type { JobPage, JobView, QueueView, ScheduleView, State, WhoAmI } from "./types.js";

/** Longest wait per call; proxies cut longer ones. */
const WAIT_MAX_MS = 30_000;
/** What the server takes in one call. */
const WAIT_IDS_MAX = 256;
/** How many jobs are read at a time. */
const READS_MAX = 16;
const BATCH_JOBS_MAX = 1_000;
/** Half of what the server takes in one request by default, counted in characters. */
const BATCH_CHARS_MAX = 4 << 20;

export interface ClientOptions {
  /** `NAGAYA_URL`, or else `http://127.0.0.1:7400`, when left out. */
  url?: string;
  /** `NAGAYA_TOKEN` when left out. */
  token?: string;
  /** How long an answer may take beyond what the server was asked to wait; 30 seconds by default. */
  timeout?: Duration;
  retry?: Partial<RetryPolicy>;
  /** The largest answer that is read, in bytes. */
  answerBytesMax?: number;
  /** Certificates in PEM that are trusted instead of the system's. */
  ca?: string;
  userAgent?: string;
}

export interface WaitOptions {
  /** As long as it takes, when left out. */
  timeout?: Duration;
  signal?: AbortSignal;
}

/** Selects jobs of a listing or of a change to many. */
export interface JobFilter {
  queue?: string;
  state?: State;
  kind?: string;
  tag?: string;
  search?: string;
  since?: Date;
  before?: Date;
  tenant?: string;
  limit?: number;
  cursor?: string;
}

export interface NewSchedule {
  /** Five fields, or six with seconds first, or a nickname like `@daily`. */
  cron: string;
  /** The job of each run. */
  job: NewJob;
  /** A name of the IANA database; UTC when left out. */
  timeZone?: string;
  missed?: "skip" | "once" | "all";
  missedMax?: number;
  paused?: boolean;
}

/** One item's outcome: either the job, or why not. */
export type Enqueued<Result = unknown> =
  | { job: JobHandle<Result>; problem?: undefined }
  | { job?: undefined; problem: Problem };

interface Registered {
  id: string;
  state?: State;
  found_by?: string | null;
  error?: ProblemDocument;
}

/**
 * Speaks to one server over connections that it keeps.
 *
 * Calls that fail for the moment are repeated where that is safe: reads; registrations, which get an idempotency key
 * if they have none; reports of workers, cancellations and settings. Others are repeated only when the server
 * certainly did nothing.
 */
export class Client {
  readonly transport: Transport;

  constructor(options: ClientOptions | string = {}) {
    const given = typeof options === "string" ? { url: options } : options;
    const token = given.token ?? process.env.NAGAYA_TOKEN;
    const base = transportOptions({ url: given.url ?? process.env.NAGAYA_URL ?? "http://127.0.0.1:7400" });
    this.transport = new Transport({
      ...base,
      ...(token ? { token } : {}),
      ...(given.timeout === undefined ? {} : { timeoutMs: milliseconds(given.timeout) }),
      ...(given.answerBytesMax === undefined ? {} : { answerBytesMax: given.answerBytesMax }),
      ...(given.ca === undefined ? {} : { ca: given.ca }),
      ...(given.userAgent === undefined ? {} : { userAgent: given.userAgent }),
      retry: { ...base.retry, ...given.retry },
    });
  }

  get url(): string {
    return this.transport.options.url;
  }

  /** Registers a job: of a defined kind, or of a kind by its name. When this resolves, the server has it on disk. */
  async enqueue<Input, Payload, Result>(
    job: JobDefinition<Input, Payload, Result> | string,
    payload: Input,
    options: EnqueueOptions = {},
  ): Promise<JobHandle<Result>> {
    const spec = typeof job === "string" ? { kind: job } : job.spec;
    return this.enqueueJob<Result>(newJob(spec, payload, options));
  }

  /** Registers a job that was written as one object, with or without a kind. */
  async enqueueJob<Result = unknown>(job: NewJob): Promise<JobHandle<Result>> {
    const body = this.#write(job);
    const made = await this.#json<Registered>({ method: "POST", path: "/v1/jobs", body, repeat: "safe" });
    return this.#handle<Result>(made);
  }

  /** Registers many jobs. Each succeeds or fails by itself; the outcomes are in the same order. */
  async enqueueMany<Result = unknown>(jobs: Iterable<NewJob>): Promise<Enqueued<Result>[]> {
    const outcomes: Enqueued<Result>[] = [];
    for (const batch of batches(Array.from(jobs, (job) => this.#write(job)))) {
      outcomes.push(...(await this.#enqueueBatch<Result>(batch)));
    }
    return outcomes;
  }

  /** Registers a batch. One that is refused as a whole because of some job is halved until that job is alone. */
  async #enqueueBatch<Result>(batch: string[]): Promise<Enqueued<Result>[]> {
    const body = `{"jobs":[${batch.join(",")}]}`;
    try {
      const call: Call = { method: "POST", path: "/v1/jobs/batch", body, repeat: "safe" };
      const { jobs } = await this.#json<{ jobs: Registered[] }>(call);
      return jobs.map((one) =>
        one.error ? { problem: readProblem(one.error) } : { job: this.#handle<Result>(one) },
      );
    } catch (error) {
      const isOurs = error instanceof ProblemError && [400, 413, 422].includes(error.status);
      if (!isOurs) throw error;
      if (batch.length === 1) return [{ problem: error.problem }];
      const half = Math.ceil(batch.length / 2);
      const first = await this.#enqueueBatch<Result>(batch.slice(0, half));
      return [...first, ...(await this.#enqueueBatch<Result>(batch.slice(half)))];
    }
  }

  #write(job: NewJob): string {
    const trace = currentAttempt();
    const inherited = trace?.traceparent && job.options.traceparent === undefined;
    const options = inherited
      ? { ...job.options, traceparent: trace.traceparent as string, ...(trace.tracestate ? { tracestate: trace.tracestate } : {}) }
      : job.options;
    return writeJob({ ...job, options }, crypto.randomUUID(), Date.now());
  }

  #handle<Result>(made: Registered): JobHandle<Result> {
    return new JobHandle<Result>(this, made.id, made.state, made.found_by ?? undefined);
  }

  /** Refers to a job by its id, without a call. */
  job<Result = unknown>(id: string): JobHandle<Result> {
    return new JobHandle<Result>(this, id);
  }

  readJob(id: string): Promise<JobView> {
    return this.#json({ method: "GET", path: `/v1/jobs/${encodeURIComponent(id)}`, repeat: "safe" });
  }

  /** Waits for a job's result; see {@link JobHandle.wait}. */
  async wait<Result = unknown>(id: string, options: WaitOptions = {}): Promise<Result> {
    const { view } = await this.#waited(id, options);
    if (view.result_base64) return Buffer.from(view.result_base64, "base64") as Result;
    return view.result as Result;
  }

  /** Waits for a job's result and returns it byte for byte. */
  async waitRaw(id: string, options: WaitOptions = {}): Promise<RawJson | undefined> {
    return rawAt((await this.#waited(id, options)).text, ["result"]);
  }

  /** Returns a job as soon as it has ended, or as it is when the time is over. */
  async waitForEnd(id: string, options: WaitOptions = {}): Promise<JobView> {
    return (await this.#ended(id, options)).view;
  }

  /**
   * Waits until all of these jobs have ended, or the time is over, and returns them in the same order; `undefined` for
   * those that are not there. Many jobs share a call.
   */
  async waitAll(ids: readonly string[], options: WaitOptions = {}): Promise<(JobView | undefined)[]> {
    const until = options.timeout === undefined ? Infinity : now() + milliseconds(options.timeout);
    for (let begin = 0; begin < ids.length; begin += WAIT_IDS_MAX) {
      if (!(await this.#waitTogether(ids.slice(begin, begin + WAIT_IDS_MAX), until, options.signal))) break;
    }
    const left = Math.max(until - now(), 0);
    const each = { ...options, ...(left === Infinity ? {} : { timeout: left }) };
    return inTurns(ids, READS_MAX, async (id) => {
      try {
        return (await this.#ended(id, each)).view;
      } catch (error) {
        if (error instanceof ProblemError && error.status === 404) return undefined;
        throw error;
      }
    });
  }

  /** Waits for several jobs with one call at a time. Returns false if the server has no such call. */
  async #waitTogether(ids: string[], until: number, signal: AbortSignal | undefined): Promise<boolean> {
    for (let isDone = false; !isDone && now() < until; ) {
      const waitMs = Math.round(Math.min(until - now(), WAIT_MAX_MS));
      const body = JSON.stringify({ ids, wait_seconds: waitMs / 1_000 });
      try {
        const call: Call = { method: "POST", path: "/v1/jobs/wait", body, waitMs, repeat: "safe", signal };
        isDone = (await this.#json<{ done: boolean }>(call)).done;
      } catch (error) {
        if (error instanceof ProblemError && [404, 405].includes(error.status)) return false;
        throw error;
      }
    }
    return true;
  }

  async #waited(id: string, options: WaitOptions): Promise<{ view: JobView; text: string }> {
    const found = await this.#ended(id, options);
    switch (found.view.state) {
      case "succeeded":
        return found;
      case "failed":
        throw new JobFailed(found.view);
      case "cancelled":
        throw new JobCancelled(found.view);
      default:
        throw new StillRunning(found.view);
    }
  }

  async #ended(id: string, options: WaitOptions): Promise<{ view: JobView; text: string }> {
    const until = options.timeout === undefined ? Infinity : now() + milliseconds(options.timeout);
    for (;;) {
      const waitMs = Math.round(Math.min(Math.max(until - now(), 0), WAIT_MAX_MS));
      const path = `/v1/jobs/${encodeURIComponent(id)}?wait=${waitMs}ms`;
      const text = await this.transport.send({ method: "GET", path, waitMs, repeat: "safe", signal: options.signal });
      const view = JSON.parse(text) as JobView;
      const isOver = ["succeeded", "failed", "cancelled"].includes(view.state);
      if (isOver || now() >= until) return { view, text };
    }
  }

  /** Cancels a job that has not ended; a running attempt is told to stop. */
  async cancel(id: string, reason?: string): Promise<void> {
    await this.request("POST", `/v1/jobs/${encodeURIComponent(id)}/cancel`, { reason }, "safe");
  }

  /** Starts a failed or cancelled job again. */
  async retry(id: string): Promise<void> {
    await this.request("POST", `/v1/jobs/${encodeURIComponent(id)}/retry`, {}, "if-not-done");
  }

  async deleteJob(id: string): Promise<void> {
    await this.request("DELETE", `/v1/jobs/${encodeURIComponent(id)}`, undefined, "if-not-done");
  }

  /** Reads one page of jobs, newest first. */
  list(filter: JobFilter = {}): Promise<JobPage> {
    return this.request("GET", `/v1/jobs${query(filter)}`);
  }

  queues(): Promise<QueueView[]> {
    return this.request<{ queues: QueueView[] }>("GET", "/v1/queues").then((answer) => answer.queues);
  }

  /** Changes those settings of a queue that are named, as in `PATCH /v1/queues/NAME`. */
  setQueue(name: string, settings: Record<string, unknown>): Promise<QueueView> {
    return this.request("PATCH", `/v1/queues/${encodeURIComponent(name)}`, settings, "safe");
  }

  async pause(queue: string): Promise<void> {
    await this.request("POST", `/v1/queues/${encodeURIComponent(queue)}/pause`, {}, "safe");
  }

  async resume(queue: string): Promise<void> {
    await this.request("POST", `/v1/queues/${encodeURIComponent(queue)}/resume`, {}, "safe");
  }

  schedules(): Promise<ScheduleView[]> {
    return this.request<{ schedules: ScheduleView[] }>("GET", "/v1/schedules").then((answer) => answer.schedules);
  }

  /** Creates a schedule, or replaces the one of that name. */
  async setSchedule(name: string, schedule: NewSchedule): Promise<void> {
    const { cron, timeZone: time_zone, missed, missedMax: missed_max, paused } = schedule;
    const head = JSON.stringify({ cron, time_zone, missed, missed_max, paused });
    const body = `${head.slice(0, -1)},"job":${writeJob(schedule.job, undefined, Date.now())}}`;
    const path = `/v1/schedules/${encodeURIComponent(name)}`;
    await this.transport.send({ method: "PUT", path, body, repeat: "safe" });
  }

  async removeSchedule(name: string): Promise<void> {
    await this.request("DELETE", `/v1/schedules/${encodeURIComponent(name)}`, undefined, "if-not-done");
  }

  /** Registers a job of a schedule now. */
  async runSchedule<Result = unknown>(name: string): Promise<JobHandle<Result>> {
    const path = `/v1/schedules/${encodeURIComponent(name)}/run`;
    return this.#handle(await this.request<Registered>("POST", path, {}, "if-not-done"));
  }

  /**
   * Follows the log of events, across lost connections. An event that was seen is dropped; events that the server has
   * dropped are told as a `gap`.
   */
  events(options: EventsOptions = {}): AsyncGenerator<JobEvent | GapEvent, void, undefined> {
    return events(this, options);
  }

  /** The secrets that webhooks of this tenant are signed with. */
  webhookSecrets(): Promise<string[]> {
    return this.request<{ secrets: string[] }>("GET", "/v1/webhooks/secret").then((answer) => answer.secrets);
  }

  whoami(): Promise<WhoAmI> {
    return this.request("GET", "/v1/whoami");
  }

  /** Sends any other call of the API; see the server's `/openapi.json`. */
  async request<T = unknown>(method: string, path: string, body?: unknown, repeat?: Call["repeat"]): Promise<T> {
    const call: Call = { method, path, repeat: repeat ?? (method === "GET" ? "safe" : "if-not-done") };
    if (body !== undefined) call.body = JSON.stringify(body);
    return this.#json<T>(call);
  }

  async #json<T>(call: Call): Promise<T> {
    const text = await this.transport.send(call);
    try {
      return (text === "" ? undefined : JSON.parse(text)) as T;
    } catch (cause) {
      throw new NagayaError("answer", `the answer to ${call.path} could not be understood`, { cause });
    }
  }

  /** Closes idle connections. */
  close(): void {
    this.transport.close();
  }
}

/** Maps in order, so many at a time. */
async function inTurns<T, R>(items: readonly T[], most: number, map: (item: T) => Promise<R>): Promise<R[]> {
  const results = new Array<R>(items.length);
  const waiting = items.entries();
  const one = async () => {
    for (const [index, item] of waiting) results[index] = await map(item);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, one));
  return results;
}

function* batches(items: string[]): Generator<string[]> {
  let batch: string[] = [];
  let length = 0;
  for (const item of items) {
    if (batch.length > 0 && (batch.length === BATCH_JOBS_MAX || length + item.length > BATCH_CHARS_MAX)) {
      yield batch;
      batch = [];
      length = 0;
    }
    batch.push(item);
    length += item.length;
  }
  if (batch.length > 0) yield batch;
}

function query(filter: JobFilter): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    if (value !== undefined) out.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  const text = out.toString();
  return text === "" ? "" : `?${text}`;
}
