/**
 * Keeps leases: extends each at a third of its length until its attempt is reported.
 *
 * A lease counts as over a little before the server thinks so, because the answer that granted it took its time. An
 * attempt whose extension is refused, or does not succeed until then, is lost: its handler is told to stop, and
 * nothing more is said about it.
 */
import { now } from "../duration.js";
import { isTemporaryStatus, NagayaError, type Problem, ProblemError, type StopReason } from "../errors.js";
import { type ProblemDocument, readProblem, type Transport } from "../transport.js";

const EXTENSIONS_PER_LEASE = 3;
const MARGIN_MAX_MS = 1_000;
/** After an extension that failed for the moment. */
const FAILED_PAUSE_MS = 250;
/** How many are extended by calls of their own at a time, at servers without a call for many. */
const SINGLE_CALLS_MAX = 32;
const BATCH_MAX = 1_000;

export interface Lease {
  id: string;
  token: string;
  attempt: number;
  lengthMs: number;
  heldSince: number;
  /** By our own clock. */
  until: number;
  extendAt: number;
  /** When its handler has run for too long. */
  letGoAt: number;
  isBeingExtended: boolean;
}

export interface LeaseEvents {
  lost(lease: Lease, reason: StopReason, detail: string): void;
  extended(count: number, lagMs: number): void;
}

export class Leases {
  readonly #transport: Transport;
  readonly #events: LeaseEvents;
  readonly #held = new Map<string, Lease>();
  #timer: NodeJS.Timeout | undefined;
  #nextLook = Infinity;
  #hasBatchCall = true;

  constructor(transport: Transport, events: LeaseEvents) {
    this.#transport = transport;
    this.#events = events;
  }

  get size(): number {
    return this.#held.size;
  }

  /** Returns the tokens of some leases that were granted before a time, longest held first. */
  heldSince(before: number, most: number): string[] {
    const tokens: string[] = [];
    for (const lease of this.#held.values()) {
      // They are in the order of their claims.
      if (lease.heldSince > before || tokens.length === most) break;
      tokens.push(lease.token);
    }
    return tokens;
  }

  has(token: string): boolean {
    return this.#held.has(token);
  }

  /** Holds a lease that was granted shortly before `at`. */
  add(job: { id: string; token: string; attempt: number; lengthMs: number }, at: number, letGoAt = Infinity): void {
    const { id, token, attempt, lengthMs } = job;
    const lease = { id, token, attempt, lengthMs, heldSince: at, until: 0, extendAt: 0, letGoAt, isBeingExtended: false };
    renew(lease, at);
    this.#held.set(token, lease);
    this.#lookAt(Math.min(lease.extendAt, letGoAt));
  }

  /** Holds a lease whose end is unknown: it is extended at once. */
  adopt(job: { id: string; token: string; attempt: number; lengthMs: number }): void {
    this.add(job, now());
    const lease = this.#held.get(job.token) as Lease;
    lease.extendAt = now();
    this.#lookAt(lease.extendAt);
  }

  remove(token: string): Lease | undefined {
    const lease = this.#held.get(token);
    this.#held.delete(token);
    return lease;
  }

  /** Gives a lease up on the server's word. */
  lose(token: string, reason: StopReason, detail: string): void {
    const lease = this.remove(token);
    if (lease) this.#events.lost(lease, reason, detail);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#held.clear();
  }

  #lookAt(at: number): void {
    if (at >= this.#nextLook) return;
    this.#nextLook = at;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), Math.max(at - now(), 0));
  }

  /** Ends what is over, extends what is due, and sets the time of the next look. */
  #look(): void {
    const at = now();
    const due: Lease[] = [];
    let next = Infinity;
    for (const lease of this.#held.values()) {
      if (at >= lease.letGoAt) {
        this.lose(lease.token, "timeout", "the handler ran for longer than it may");
        continue;
      }
      if (at >= lease.until) {
        this.lose(lease.token, "lease-lost", "the lease could not be extended in time");
        continue;
      }
      // Those that will be due soon go along.
      const isDue = !lease.isBeingExtended && at >= lease.extendAt - lease.lengthMs / 20;
      if (isDue) due.push(lease);
      else if (!lease.isBeingExtended) next = Math.min(next, lease.extendAt);
      next = Math.min(next, lease.until, lease.letGoAt);
    }
    this.#nextLook = Infinity;
    if (next < Infinity) this.#lookAt(next);
    if (due.length > 0) this.#extend(due, at);
  }

  #extend(due: Lease[], at: number): void {
    for (const lease of due) lease.isBeingExtended = true;
    const lagMs = Math.max(...due.map((lease) => at - lease.extendAt), 0);
    this.#events.extended(due.length, lagMs);
    if (!this.#hasBatchCall) {
      void this.#extendSingly(due);
      return;
    }
    for (let begin = 0; begin < due.length; begin += BATCH_MAX) {
      void this.#extendTogether(due.slice(begin, begin + BATCH_MAX));
    }
  }

  async #extendTogether(leases: Lease[]): Promise<void> {
    const sent = now();
    const body = JSON.stringify({ jobs: leases.map((lease) => ({ token: lease.token })) });
    try {
      const text = await this.#once("/v1/jobs/batch/extend", body, leases, sent);
      const { jobs } = JSON.parse(text) as { jobs: { error?: ProblemDocument }[] };
      leases.forEach((lease, index) => {
        const error = jobs[index]?.error;
        this.#settle(lease, sent, error && new ProblemError(readProblem(error)));
      });
    } catch (error) {
      if (error instanceof ProblemError && [400, 404, 405].includes(error.status)) {
        this.#hasBatchCall = false;
        await this.#extendSingly(leases);
        return;
      }
      for (const lease of leases) this.#settle(lease, sent, error);
    }
  }

  async #extendSingly(leases: Lease[]): Promise<void> {
    const waiting = [...leases];
    const one = async () => {
      for (let lease = waiting.shift(); lease; lease = waiting.shift()) {
        const sent = now();
        const path = `/v1/jobs/${encodeURIComponent(lease.id)}/extend`;
        try {
          await this.#once(path, JSON.stringify({ token: lease.token }), [lease], sent);
          this.#settle(lease, sent, undefined);
        } catch (error) {
          this.#settle(lease, sent, error);
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(SINGLE_CALLS_MAX, leases.length) }, one));
  }

  #once(path: string, body: string, leases: Lease[], sent: number): Promise<string> {
    // A call that hangs must leave time for another one before the lease's end.
    const shortest = Math.min(...leases.map((lease) => lease.lengthMs));
    const left = Math.min(...leases.map((lease) => lease.until - sent));
    const timeoutMs = Math.max(Math.min(left, shortest / EXTENSIONS_PER_LEASE), 50);
    return this.#transport.once({ method: "POST", path, body, repeat: "never", timeoutMs });
  }

  #settle(lease: Lease, sent: number, error: unknown): void {
    lease.isBeingExtended = false;
    if (!this.has(lease.token)) return;
    if (error === undefined) {
      renew(lease, sent);
    } else if (error instanceof ProblemError && !isTemporaryStatus(error.status)) {
      this.lose(lease.token, reasonOf(error.problem), error.problem.detail);
      return;
    } else {
      if (!(error instanceof NagayaError)) throw error;
      lease.extendAt = now() + FAILED_PAUSE_MS;
    }
    this.#lookAt(lease.extendAt);
  }
}

function renew(lease: Lease, at: number): void {
  const margin = Math.min(lease.lengthMs / 10, MARGIN_MAX_MS);
  lease.until = at + lease.lengthMs - margin;
  lease.extendAt = at + lease.lengthMs / EXTENSIONS_PER_LEASE;
}

export function reasonOf(problem: Problem): StopReason {
  return problem.reason === "cancelled" ? "cancelled" : "lease-lost";
}
