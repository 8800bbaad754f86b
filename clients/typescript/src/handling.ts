/** Runs one handler and turns how it ended into what is reported. */
import type { Attempt } from "./attempt.js";
import { runWith } from "./attempt.js";
import { describe, Stopped, verdictOf } from "./errors.js";
import { bodyFields, type Handler } from "./job.js";
import type { OutcomeMessage } from "./keeper/messages.js";
import { InvalidPayload, type StandardSchema, validate } from "./schema.js";

/** How long a job without a handler here is left to others, in seconds: deployments meet new kinds early. */
const UNKNOWN_KIND_PAUSE_SECONDS = 15;
/** What the server keeps of an error, in characters. */
const ERROR_CHARS_MAX = 16_000;

/** Wraps handlers, for traces, logs and the like. Returns or throws what `next` does, or something else. */
export type Middleware = (attempt: Attempt, next: () => Promise<unknown>) => Promise<unknown>;

export interface Registered {
  run: Handler<never>;
  schema?: StandardSchema<unknown, unknown>;
}

export type Outcome = Pick<OutcomeMessage, "kind" | "body">;

/** Runs a handler to its end. Never rejects. */
export async function handle(
  attempt: Attempt,
  handler: Registered | undefined,
  middleware: readonly Middleware[],
): Promise<Outcome> {
  const { token } = attempt.job;
  if (!handler) return unknownKind(attempt);
  try {
    const payload = await payloadOf(attempt, handler.schema);
    const run = async () => handler.run(payload as never, attempt);
    const whole = middleware.reduceRight<() => Promise<unknown>>((next, one) => () => one(attempt, next), run);
    const fields = bodyFields("result", await runWith(attempt, whole));
    return { kind: "complete", body: `{"token":${JSON.stringify(token)}${fields === "" ? "" : `,${fields}`}}` };
  } catch (error) {
    return failure(attempt, error);
  }
}

async function payloadOf(attempt: Attempt, schema: StandardSchema<unknown, unknown> | undefined): Promise<unknown> {
  const { job } = attempt;
  const payload = job.payload_base64 ? Buffer.from(job.payload_base64, "base64") : (job.payload ?? null);
  return schema ? validate(schema, payload) : payload;
}

function failure(attempt: Attempt, error: unknown): Outcome {
  const { token } = attempt.job;
  if (attempt.stopReason === "shutdown" && isStop(error)) return release(token);
  const text = describe(error).slice(0, ERROR_CHARS_MAX);
  if (error instanceof InvalidPayload) return fail({ token, error: text, permanent: true });
  const verdict = verdictOf(error);
  switch (verdict?.kind) {
    case "permanent":
      return fail({ token, error: text, permanent: true });
    case "retry":
      return fail({ token, error: text, retry_after_seconds: verdict.afterMs / 1_000 });
    case "snooze":
      return release(token, verdict.afterMs / 1_000);
    default:
      return fail({ token, error: text });
  }
}

/** Returns whether a handler ended because it was told to. */
function isStop(error: unknown): boolean {
  return error instanceof Stopped || (error instanceof Error && error.name === "AbortError");
}

function unknownKind(attempt: Attempt): Outcome {
  const error = `this worker has no handler for jobs of kind ${JSON.stringify(attempt.kind)}`;
  const pause = UNKNOWN_KIND_PAUSE_SECONDS * (1 + Math.random());
  return fail({ token: attempt.job.token, error, retry_after_seconds: Math.round(pause * 1_000) / 1_000 });
}

function fail(fields: { token: string; error: string; permanent?: boolean; retry_after_seconds?: number }): Outcome {
  return { kind: "fail", body: JSON.stringify(fields) };
}

/** Gives a job back, to be worked on after a while. The attempt does not count where the server can do that. */
export function release(token: string, delaySeconds?: number): Outcome {
  return { kind: "release", body: JSON.stringify({ token, delay_seconds: delaySeconds }) };
}
