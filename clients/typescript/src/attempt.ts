import { AsyncLocalStorage } from "node:async_hooks";

import type { Client } from "./client.js";
import { Stopped, type StopReason } from "./errors.js";
import { RawJson, rawAt } from "./json.js";
import type { ClaimedJob } from "./types.js";

const current = new AsyncLocalStorage<Attempt>();

/** Returns the attempt whose handler calls this, also from deep inside: for logs and for the trace of what it enqueues. */
export function currentAttempt(): Attempt | undefined {
  return current.getStore();
}

export function runWith<T>(attempt: Attempt, run: () => T): T {
  return current.run(attempt, run);
}

/** One attempt at a job, as its handler sees it. */
export class Attempt {
  readonly job: ClaimedJob;
  /** For calls of the handler's own. */
  readonly client: Client;
  readonly #stop = new AbortController();
  readonly #raw: () => RawJson | undefined;

  constructor(client: Client, job: ClaimedJob, raw: () => RawJson | undefined) {
    this.client = client;
    this.job = job;
    this.#raw = raw;
  }

  get id(): string {
    return this.job.id;
  }
  /** Counted from 1. */
  get number(): number {
    return this.job.attempt;
  }
  get queue(): string {
    return this.job.queue;
  }
  get kind(): string {
    return this.job.kind ?? "";
  }
  get traceparent(): string | undefined {
    return this.job.traceparent ?? undefined;
  }
  get tracestate(): string | undefined {
    return this.job.tracestate ?? undefined;
  }
  /** The media type of a payload that is not JSON. */
  get contentType(): string {
    return this.job.content_type ?? "application/json";
  }

  /** The payload as it was registered, byte for byte; `undefined` if it is not JSON. */
  get rawPayload(): RawJson | undefined {
    return this.#raw();
  }

  /** Aborted when the work must stop; its reason is a {@link Stopped} that says why. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Why the work must stop, or nothing while it may go on. */
  get stopReason(): StopReason | undefined {
    const reason: unknown = this.#stop.signal.reason;
    return reason instanceof Stopped ? reason.reason : undefined;
  }

  /** Throws when the work must stop; for loops. */
  throwIfStopped(): void {
    this.#stop.signal.throwIfAborted();
  }

  /** Reports how far the work has come, from 0 to 1, with a short message and any other data. */
  async progress(done: number | undefined, message?: string, data?: unknown): Promise<void> {
    const progress = done === undefined ? undefined : Math.min(Math.max(done, 0), 1);
    await this.#report("progress", { progress, message, data }, "safe");
  }

  /** Appends lines to the job's log. */
  async log(...lines: string[]): Promise<void> {
    await this.#report("log", { lines }, "if-not-done");
  }

  async #report(what: string, fields: object, repeat: "safe" | "if-not-done"): Promise<void> {
    const body = { token: this.job.token, ...fields };
    await this.client.request("POST", `/v1/jobs/${encodeURIComponent(this.id)}/${what}`, body, repeat);
  }

  /** @internal */
  stop(reason: StopReason, detail: string): void {
    // Only the first reason counts: an aborted controller ignores others.
    this.#stop.abort(new Stopped(reason, detail));
  }
}

/** @internal */
export function rawPayloadOf(text: string, index: number, job: ClaimedJob): () => RawJson | undefined {
  return () => {
    if (job.payload_base64) return undefined;
    return rawAt(text, ["jobs", index, "payload"]) ?? RawJson.trusted("null");
  };
}
