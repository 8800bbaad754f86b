import type { Attempt } from "./attempt.js";
import type { Client, WaitOptions } from "./client.js";
import { type Duration, seconds } from "./duration.js";
import { Binary, encode } from "./json.js";
import type { SchemaInput, SchemaOutput, StandardSchema } from "./schema.js";
import type { Backoff, JobView, State, Webhook } from "./types.js";

/** How a job is registered. What is left out comes from the queue's settings. */
export interface EnqueueOptions {
  /** `"default"` when neither the call nor the definition names one. */
  queue?: string;
  /** A second registration with this key finds the first job. Without one a random key makes repeating safe. */
  key?: string;
  /** How long the key is remembered; a day by default. */
  keyWindow?: Duration;
  /** While a job with this key has not ended, another registration finds it. */
  uniqueKey?: string;
  delay?: Duration;
  runAt?: Date;
  /** Runs after all of these succeeded. */
  after?: ReadonlyArray<string | JobHandle<unknown>>;
  /** Higher goes first. */
  priority?: number;
  /** Attempts after the first one. */
  maxRetries?: number;
  /** How long an attempt may go without a heartbeat. */
  timeout?: Duration;
  backoff?: Backoff;
  /** How long it is kept after its end. */
  retention?: Duration;
  tags?: readonly string[];
  webhook?: Webhook;
  /** At most `limit` jobs of the queue with this key run at a time. */
  concurrency?: { key: string; limit: number };
  /** Only for callers that speak for several tenants. */
  tenant?: string;
  /** W3C trace context; inside of a handler that of its job when left out. */
  traceparent?: string;
  tracestate?: string;
}

export interface JobSpec extends Omit<EnqueueOptions, "key" | "after" | "runAt" | "traceparent" | "tracestate"> {
  /** The name that jobs and handlers meet by. Renaming it strands the jobs that wait under the old one. */
  kind: string;
  /** How long a handler may run at most. Its lease is let go then. */
  maxRuntime?: Duration;
}

/** A kind of job: what submitters and workers have in common. */
export interface JobDefinition<Input, Payload = Input, Result = unknown> {
  readonly spec: JobSpec;
  readonly kind: string;
  readonly schema?: StandardSchema<Input, Payload>;
  /** A job of this kind, for {@link Client.enqueueMany}. */
  with(payload: Input, options?: EnqueueOptions): NewJob;
  /** This kind with its handler, for `createWorker`. */
  handler(run: Handler<Payload, Result>): HandledJob;
  /** Only for the compiler: what waiting returns. */
  readonly result?: Result;
}

/** Works on one job. What it returns becomes the result; what it throws is a failure. */
export type Handler<Payload, Result = unknown> = (payload: Payload, attempt: Attempt) => Result | Promise<Result>;

/** A kind with its handler. */
export interface HandledJob {
  readonly spec: JobSpec;
  readonly schema?: StandardSchema<unknown, unknown>;
  readonly run: Handler<never>;
}

/** A job to be registered. */
export interface NewJob {
  kind?: string;
  payload: unknown;
  options: EnqueueOptions;
}

/**
 * Defines a kind of job. With a schema, types follow from it and workers refuse what does not match, permanently;
 * without one, name them: `defineJob<Payload, Result>({ kind: "resize" })`.
 */
export function defineJob<S extends StandardSchema, Result = unknown>(
  spec: JobSpec & { schema: S },
): JobDefinition<SchemaInput<S>, SchemaOutput<S>, Result>;
export function defineJob<Payload = unknown, Result = unknown>(spec: JobSpec): JobDefinition<Payload, Payload, Result>;
export function defineJob(
  given: JobSpec & { schema?: StandardSchema },
): JobDefinition<unknown, unknown, unknown> {
  const { schema, ...spec } = given;
  const schemaIfAny = schema === undefined ? {} : { schema };
  return {
    spec,
    kind: spec.kind,
    ...schemaIfAny,
    with: (payload, options = {}) => newJob(spec, payload, options),
    handler: (run) => ({ spec, ...schemaIfAny, run: run as Handler<never> }),
  };
}

export function newJob(spec: JobSpec, payload: unknown, options: EnqueueOptions): NewJob {
  const { kind, maxRuntime: _, ...defaults } = spec;
  return { kind, payload, options: { ...defaults, ...options } };
}

/** A registered job. */
export class JobHandle<Result = unknown> {
  readonly id: string;
  /** Its state when it was registered. */
  readonly state: State | undefined;
  /** The key by which an earlier registration was found, if one was. */
  readonly foundBy: string | undefined;
  readonly #client: Client;

  constructor(client: Client, id: string, state?: State, foundBy?: string) {
    this.#client = client;
    this.id = id;
    this.state = state;
    this.foundBy = foundBy;
  }

  /**
   * Waits for the result. Throws {@link JobFailed}, {@link JobCancelled}, or {@link StillRunning} when the time is
   * over.
   */
  wait(options?: WaitOptions): Promise<Result> {
    return this.#client.wait<Result>(this.id, options);
  }

  read(): Promise<JobView> {
    return this.#client.readJob(this.id);
  }

  cancel(reason?: string): Promise<void> {
    return this.#client.cancel(this.id, reason);
  }

  retry(): Promise<void> {
    return this.#client.retry(this.id);
  }
}

/** Writes a job as `POST /v1/jobs` takes it. `key` is used if the job has none of its own. */
export function writeJob(job: NewJob, key: string | undefined, nowMs: number): string {
  const { options } = job;
  const fields: Record<string, unknown> = {
    queue: options.queue ?? "default",
    kind: job.kind,
    idempotency_key: options.key ?? key,
    idempotency_window_seconds: options.keyWindow === undefined ? undefined : seconds(options.keyWindow),
    unique_key: options.uniqueKey,
    run_at: runAt(options, nowMs),
    depends_on: options.after?.map((one) => (typeof one === "string" ? one : one.id)),
    priority: options.priority,
    max_retries: options.maxRetries,
    timeout_seconds: options.timeout === undefined ? undefined : seconds(options.timeout),
    backoff: options.backoff,
    retention_seconds: options.retention === undefined ? undefined : seconds(options.retention),
    tags: options.tags,
    webhook: options.webhook,
    concurrency: options.concurrency,
    tenant: options.tenant,
    traceparent: options.traceparent,
    tracestate: options.tracestate,
  };
  return joined(fields, bodyFields("payload", job.payload));
}

function runAt(options: EnqueueOptions, nowMs: number): string | undefined {
  if (options.runAt !== undefined) return options.runAt.toISOString();
  return options.delay === undefined ? undefined : new Date(nowMs + seconds(options.delay) * 1_000).toISOString();
}

/** Adds members that are JSON already to those that are not. */
function joined(fields: Record<string, unknown>, more: string): string {
  const text = JSON.stringify(fields);
  return more === "" ? text : `${text.slice(0, -1)}${text === "{}" ? "" : ","}${more}}`;
}

/** Writes a payload or a result as the members of a call: as JSON, or in base64 with its media type. */
export function bodyFields(name: "payload" | "result", value: unknown): string {
  if (value === undefined) return "";
  const binary = value instanceof Uint8Array ? new Binary(value) : value;
  if (binary instanceof Binary) {
    const { bytes, contentType } = binary;
    const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
    return `"${name}_base64":"${base64}","content_type":${JSON.stringify(contentType)}`;
  }
  return `"${name}":${encode(value)}`;
}
