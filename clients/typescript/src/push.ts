/**
 * Receives jobs that the server pushes, instead of claiming them: for programs that live as long as a request does.
 *
 * The status says how the attempt ended: 2xx is a success with the body as the result, 422 a failure for good, 503
 * one that is retried.
 */
import { describe, verdictOf } from "./errors.js";
import { encode } from "./json.js";
import type { HandledJob, Handler } from "./job.js";
import { InvalidPayload, validate } from "./schema.js";
import { headerOf, type HeadersLike, verifySignature, WebhookError } from "./webhook.js";

const ERROR_CHARS_MAX = 500;

export interface PushOptions {
  /** What `jobs.push_secret` of the server says; calls that are not signed with it are refused. */
  secrets: string | readonly string[];
  /** The work, by queue: a pushed job has no kind. */
  queues: Record<string, HandledJob | Handler<never>>;
}

export interface PushRequest {
  headers: HeadersLike;
  /** As it was received. */
  body: string | Uint8Array;
}

export interface PushResponse {
  status: number;
  body: string;
}

/** What a pushed job's handler knows of its attempt. */
export interface PushedAttempt {
  id: string;
  number: number;
  queue: string;
  token: string;
  traceparent: string | undefined;
}

/** Makes a function that works on pushed jobs, to be called from any framework. */
export function pushEndpoint(options: PushOptions): (request: PushRequest) => Promise<PushResponse> {
  return async (request) => {
    try {
      return await work(options, request);
    } catch (error) {
      if (error instanceof WebhookError) return { status: 401, body: error.message };
      return { status: statusOf(error), body: describe(error).slice(0, ERROR_CHARS_MAX) };
    }
  };
}

async function work(options: PushOptions, request: PushRequest): Promise<PushResponse> {
  const { body } = verifySignature({ ...request, secrets: options.secrets });
  const said = (name: string) => headerOf(request.headers, name) ?? "";
  const queue = said("nagaya-job-queue");
  const found = options.queues[queue];
  if (!found) return { status: 503, body: `there is no handler for the queue ${JSON.stringify(queue)} here` };
  const job = typeof found === "function" ? { run: found } : found;
  const isJson = /[/+]json\b/.test(said("content-type") || "application/json");
  const given: unknown = isJson ? JSON.parse(body.toString("utf8")) : body;
  const payload = "schema" in job && job.schema ? await validate(job.schema, given) : given;
  const attempt: PushedAttempt = {
    id: said("nagaya-job-id"),
    number: Number(said("nagaya-job-attempt")),
    queue,
    token: said("nagaya-job-token"),
    traceparent: said("traceparent") || undefined,
  };
  const result: unknown = await job.run(payload as never, attempt as never);
  return result === undefined ? { status: 204, body: "" } : { status: 200, body: encode(result) };
}

function statusOf(error: unknown): number {
  const isPermanent = error instanceof InvalidPayload || verdictOf(error)?.kind === "permanent";
  return isPermanent ? 422 : 503;
}
