/**
 * Client and worker for nagaya.
 *
 * Read in this order: `client` (submitting), `job` (kinds of jobs), `worker` (working) with `attempt` (what a handler
 * sees) and `keeper` (leases), then `events`, `webhook`, `push`, `ids`.
 */
export { Attempt, currentAttempt } from "./attempt.js";
export { Client } from "./client.js";
export type { ClientOptions, Enqueued, JobFilter, NewSchedule, WaitOptions } from "./client.js";
export type { Duration } from "./duration.js";
export {
  ConnectionError,
  JobCancelled,
  JobFailed,
  NagayaError,
  Permanent,
  ProblemError,
  RetryAfter,
  Snooze,
  StillRunning,
  Stopped,
  TimeoutError,
} from "./errors.js";
export type { Problem, StopReason } from "./errors.js";
export type { EventsOptions, GapEvent, JobEvent } from "./events.js";
export type { Middleware } from "./handling.js";
export { Ids } from "./ids.js";
export type { IdsOptions } from "./ids.js";
export { defineJob, JobHandle } from "./job.js";
export type { EnqueueOptions, HandledJob, Handler, JobDefinition, JobSpec, NewJob } from "./job.js";
export { Binary, RawJson } from "./json.js";
export { pushEndpoint } from "./push.js";
export type { PushedAttempt, PushOptions, PushRequest, PushResponse } from "./push.js";
export type { RetryPolicy } from "./retry.js";
export { InvalidPayload } from "./schema.js";
export type { StandardSchema } from "./schema.js";
export type * from "./types.js";
export { VERSION } from "./version.js";
export { signWebhook, verifyWebhook, WebhookError } from "./webhook.js";
export type { HeadersLike, VerifiedWebhook, VerifyOptions, WebhookBody } from "./webhook.js";
export { createWorker, Worker } from "./worker.js";
export type { CreateWorkerOptions, WorkerEvent, WorkerOptions, WorkerStats } from "./worker.js";
