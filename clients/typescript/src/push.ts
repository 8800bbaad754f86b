/**
 * Receives jobs that the server pushes, instead of claiming them: for programs that live as long as a request does.
 *
 * The status says how the attempt ended: 2xx is a success with the body as the result, 422 a failure for good, 503
 * one that is retried.
 */
import { Attempt, runWith } from "./attempt.js";
import { Client } from "./client.js";
import { describe, verdictOf } from "./errors.js";
import { encode, RawJson } from "./json.js";
import type { HandledJob, Handler } from "./job.js";
import { InvalidPayload, validate } from "./schema.js";
import { headerOf, type HeadersLike, verifySignature, WebhookError } from "./webhook.js";

const ERROR_CHARS_MAX = 500;

export interface PushOptions {
  /** What `jobs.push_secret` of the server says; calls that are not signed with it are refused. */
  secrets: string | readonly string[];
  /** The work, by queue: a pushed job has no kind. Its signal is never aborted; the server closes the connection. */
  queues: Record<string, HandledJob | Handler<never>>;
  /** For the attempt's progress and log; made from the environment when left out. */
  client?: Client;
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

/** Makes a function that works on pushed jobs, to be called from any framework. */
export function pushEndpoint(options: PushOptions): (request: PushRequest) => Promise<PushResponse> {
  const client = options.client ?? new Client();
  return async (request) => {
    try {
      return await work(client, options, request);
    } catch (error) {
      if (error instanceof WebhookError) return { status: 401, body: error.message };
      return { status: statusOf(error), body: describe(error).slice(0, ERROR_CHARS_MAX) };
    }
  };
}

async function work(client: Client, options: PushOptions, request: PushRequest): Promise<PushResponse> {
  const { body } = verifySignature({ ...request, secrets: options.secrets });
  const said = (name: string) => headerOf(request.headers, name) ?? "";
  const queue = said("nagaya-job-queue");
  const found = options.queues[queue];
  if (!found) return { status: 503, body: `there is no handler for the queue ${JSON.stringify(queue)} here` };
  const job = typeof found === "function" ? { run: found } : found;
  const isJson = /[/+]json\b/.test(said("content-type") || "application/json");
  const given: unknown = isJson ? JSON.parse(body.toString("utf8")) : body;
  const payload = "schema" in job && job.schema ? await validate(job.schema, given) : given;
  const claimed = {
    id: said("nagaya-job-id"),
    token: said("nagaya-job-token"),
    queue,
    tenant: "",
    attempt: Number(said("nagaya-job-attempt")),
    max_retries: 0,
    priority: 0,
    created_at: "",
    lease_expires_at: "",
    timeout_seconds: 0,
    content_type: said("content-type") || null,
    traceparent: said("traceparent") || null,
  };
  const raw = isJson ? RawJson.trusted(body.toString("utf8")) : undefined;
  const attempt = new Attempt(client, claimed, () => raw);
  const result: unknown = await runWith(attempt, async () => job.run(payload as never, attempt));
  return result === undefined ? { status: 204, body: "" } : { status: 200, body: encode(result) };
}

function statusOf(error: unknown): number {
  const isPermanent = error instanceof InvalidPayload || verdictOf(error)?.kind === "permanent";
  return isPermanent ? 422 : 503;
}
