import { type Duration, milliseconds } from "./duration.js";
import type { JobView } from "./types.js";

/** A problem document (RFC 9457) as the server sends it. */
export interface Problem {
  status: number;
  /** The problem's name, for programs: `lease-lost`, `queue-full`, ... */
  name: string;
  detail: string;
  /** Why a lease was lost. */
  reason?: string;
  /** When the server wants the call to be repeated, in milliseconds. */
  retryAfterMs?: number;
}

/** Every error of this package. */
export class NagayaError extends Error {
  /** For programs; stable. */
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.name = "NagayaError";
  }

  /** Whether the same call may succeed a moment later. */
  get isTemporary(): boolean {
    return false;
  }

  /** Whether the server certainly did nothing, so that repeating the call cannot execute it twice. */
  get wasNotDone(): boolean {
    return false;
  }
}

/** The server could not be reached, or the connection broke. */
export class ConnectionError extends NagayaError {
  /** Whether the request had left: what became of it is unknown then. */
  readonly wasSent: boolean;
  constructor(message: string, wasSent: boolean, cause?: unknown) {
    super("connection", message, { cause });
    this.name = "ConnectionError";
    this.wasSent = wasSent;
  }
  override get isTemporary(): boolean {
    return true;
  }
  override get wasNotDone(): boolean {
    return !this.wasSent;
  }
}

/** The server did not answer in time. Whether it executed the call is unknown. */
export class TimeoutError extends NagayaError {
  constructor(message: string) {
    super("timeout", message);
    this.name = "TimeoutError";
  }
  override get isTemporary(): boolean {
    return true;
  }
}

const TEMPORARY = new Set([408, 425, 429, 500, 502, 503, 504]);

/** The server refused the call. */
export class ProblemError extends NagayaError {
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(problem.name || `http-${problem.status}`, `${problem.status} ${problem.name}: ${problem.detail}`);
    this.name = "ProblemError";
    this.problem = problem;
  }
  get status(): number {
    return this.problem.status;
  }
  override get isTemporary(): boolean {
    return TEMPORARY.has(this.problem.status);
  }
  override get wasNotDone(): boolean {
    return this.problem.status < 500;
  }
}

/** Returns whether a status promises that a later try may succeed. */
export function isTemporaryStatus(status: number): boolean {
  return TEMPORARY.has(status);
}

/** The job ended, but not with a result. */
export class JobFailed extends NagayaError {
  readonly job: JobView;
  constructor(job: JobView) {
    super("job-failed", job.error ?? `job ${job.id} failed`);
    this.name = "JobFailed";
    this.job = job;
  }
}

/** The job was cancelled. */
export class JobCancelled extends NagayaError {
  readonly job: JobView;
  constructor(job: JobView) {
    super("job-cancelled", job.error ?? `job ${job.id} was cancelled`);
    this.name = "JobCancelled";
    this.job = job;
  }
}

/** The job had not ended when the time to wait was over. */
export class StillRunning extends NagayaError {
  readonly job: JobView;
  constructor(job: JobView) {
    super("still-running", `job ${job.id} is still ${job.state}`);
    this.name = "StillRunning";
    this.job = job;
  }
}

/** Why a handler has to stop. */
export type StopReason = "cancelled" | "lease-lost" | "shutdown" | "timeout";

/** The reason of an attempt's {@link AbortSignal}. */
export class Stopped extends NagayaError {
  readonly reason: StopReason;
  constructor(reason: StopReason, detail: string) {
    super(reason, detail);
    this.name = "AbortError";
    this.reason = reason;
  }
}

// Errors of handlers are recognised by a field and not by their class: two copies of this package in one program
// have two classes of the same name.
const VERDICT = "nagayaVerdict";

type Verdict = { kind: "permanent" } | { kind: "retry"; afterMs: number } | { kind: "snooze"; afterMs: number };

/** Thrown by a handler: no other attempt can mend it. */
export class Permanent extends Error {
  readonly [VERDICT]: Verdict = { kind: "permanent" };
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "Permanent";
  }
}

/** Thrown by a handler: the next attempt shall begin after this time, whatever the job's backoff says. */
export class RetryAfter extends Error {
  readonly [VERDICT]: Verdict;
  constructor(after: Duration, message = "to be tried again", options?: ErrorOptions) {
    super(message, options);
    this.name = "RetryAfter";
    this[VERDICT] = { kind: "retry", afterMs: milliseconds(after) };
  }
}

/** Thrown by a handler: not yet. The job waits for this time, and the attempt does not count where the server can do that. */
export class Snooze extends Error {
  readonly [VERDICT]: Verdict;
  constructor(after: Duration, message = "not yet", options?: ErrorOptions) {
    super(message, options);
    this.name = "Snooze";
    this[VERDICT] = { kind: "snooze", afterMs: milliseconds(after) };
  }
}

/** Returns what a handler's error asks for; any other error asks for a retry with the job's own backoff. */
export function verdictOf(error: unknown): Verdict | undefined {
  return typeof error === "object" && error !== null ? (error as Record<string, Verdict>)[VERDICT] : undefined;
}

const TRACE_BYTES_MAX = 4_096;

/** Writes an error for the job's page: its type and message, and the end of its trace. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) {
    return typeof error === "string" ? error : `thrown: ${safeText(error)}`;
  }
  const head = `${error.name}: ${error.message}`;
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  const cause = error.cause === undefined ? "" : `\ncaused by ${describe(error.cause)}`;
  return `${head}\n${frames.join("\n")}`.trim().slice(0, TRACE_BYTES_MAX) + cause.slice(0, TRACE_BYTES_MAX);
}

function safeText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}
