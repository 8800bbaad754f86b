/**
 * The part of a worker that speaks to the server: it claims, extends leases and reports.
 *
 * It lives in a thread of its own, so that a handler that does not look up for minutes neither loses its lease nor
 * those of jobs that were claimed for it, and so that outcomes are reported while another handler is busy.
 */
import { now, pause } from "../duration.js";
import { NagayaError, ProblemError, type StopReason } from "../errors.js";
import { DEFAULT_RETRY, pauseAfter } from "../retry.js";
import { Transport } from "../transport.js";
import type { ClaimedJob } from "../types.js";
import { type Lease, Leases } from "./leases.js";
import type { FromKeeper, KeeperConfig, ToKeeper } from "./messages.js";
import { Reports } from "./reports.js";

/** How long a claim that is under way may still be answered when nothing more is wanted. */
const LAST_CLAIM_MS = 500;
/** Outcomes that may wait to be reported per place; beyond, nothing more is claimed. */
const BACKLOG_PER_PLACE = 4;
const BACKLOG_MIN = 1_000;
/** How much later than asked for a claim may be answered before its connection counts as dead. */
const LATE_ANSWER_MS = 10_000;
/**
 * Jobs that have been under way for longer than this are named in claims, so that the server can tell at once that one
 * was cancelled. Most jobs are over before, and cost nothing.
 */
const HOLDING_AGE_MS = 500;
const HOLDING_MAX = 1_000;
/** Assumed if the server does not say how long a lease is. */
const LEASE_UNTOLD_SECONDS = 30;

export class Keeper {
  readonly #config: KeeperConfig;
  readonly #emit: (message: FromKeeper) => void;
  readonly #transport: Transport;
  readonly #leases: Leases;
  readonly #reports: Reports;
  readonly #drain = new AbortController();
  readonly #lastClaim = new AbortController();
  #free: number;
  #wake: (() => void) | undefined;
  #isClosed = false;
  /** Whether the server tells in the answer to a claim which jobs under way are lost. */
  #tellsLost = false;

  constructor(config: KeeperConfig, emit: (message: FromKeeper) => void) {
    this.#config = config;
    this.#emit = emit;
    this.#free = config.concurrency;
    this.#transport = new Transport(config.transport);
    this.#leases = new Leases(this.#transport, {
      lost: (lease, reason, detail) => this.#lost(lease, reason, detail),
      extended: (count, lagMs) => emit({ type: "extended", count, lagMs }),
    });
    this.#reports = new Reports(this.#transport, this.#leases, (reports) => emit({ type: "reported", reports }));
  }

  receive(message: ToKeeper): void {
    switch (message.type) {
      case "done":
        this.#free += message.free;
        this.#reports.add(message.outcomes);
        this.#wake?.();
        break;
      case "adopt":
        this.#free = message.free;
        if (message.isDraining) this.#drain.abort();
        for (const attempt of message.attempts) this.#leases.adopt(attempt);
        break;
      case "drain":
        this.#drain.abort();
        this.#wake?.();
        break;
      case "flush":
        this.#reports.whenFlushed(() => this.#emit({ type: "flushed" }));
        break;
      case "close":
        this.#close();
        break;
    }
  }

  /** Claims until it is told to stop, or the server refuses it. */
  async run(): Promise<void> {
    this.#drain.signal.addEventListener("abort", () => {
      setTimeout(() => this.#lastClaim.abort(), LAST_CLAIM_MS).unref();
    });
    void this.#lookAtServer();
    for (let failures = 0; !this.#drain.signal.aborted; ) {
      const places = await this.#freePlaces();
      if (places === 0) continue;
      try {
        await this.#claim(places);
        failures = 0;
      } catch (error) {
        if (!(error instanceof NagayaError)) throw error;
        if (this.#drain.signal.aborted) break;
        if (!error.isTemporary) {
          this.#refused(error);
          break;
        }
        failures += 1;
        this.#emit({ type: "warning", message: `claim failed, trying again: ${error.message}` });
        const wish = error instanceof ProblemError ? error.problem.retryAfterMs : undefined;
        await pause(pauseAfter(DEFAULT_RETRY, failures, wish), this.#drain.signal);
      }
    }
    this.#emit({ type: "drained" });
  }

  /** Finds out what the server can do. Servers that have no such call can do less. */
  async #lookAtServer(): Promise<void> {
    try {
      await this.#transport.send({ method: "GET", path: "/v1/version", repeat: "safe", signal: this.#drain.signal });
      this.#tellsLost = true;
    } catch {
      this.#tellsLost = false;
    }
  }

  /** Waits until there is a free place and returns how many there are; 0 when nothing more is to be claimed. */
  async #freePlaces(): Promise<number> {
    const backlogMax = Math.max(this.#config.concurrency * BACKLOG_PER_PLACE, BACKLOG_MIN);
    while (!this.#drain.signal.aborted) {
      if (this.#free > 0 && this.#reports.open < backlogMax) return Math.min(this.#free, this.#config.claimMax);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    return 0;
  }

  async #claim(places: number): Promise<void> {
    const { queues, worker, pollMs, tenant } = this.#config;
    this.#free -= places;
    let claimed = 0;
    try {
      const holding = this.#tellsLost ? this.#leases.heldSince(now() - HOLDING_AGE_MS, HOLDING_MAX) : [];
      const asked = { queues, worker, max: places, wait_seconds: pollMs / 1_000, tenant };
      const body = JSON.stringify(holding.length === 0 ? asked : { ...asked, holding });
      const timeoutMs = Math.min(this.#config.transport.timeoutMs, LATE_ANSWER_MS);
      const call = { method: "POST", path: "/v1/claim", body, waitMs: pollMs, timeoutMs, repeat: "never" } as const;
      const text = await this.#transport.once({ ...call, signal: this.#lastClaim.signal });
      const at = now();
      const { jobs, lost } = JSON.parse(text) as { jobs: ClaimedJob[]; lost?: { token: string; reason: string }[] };
      claimed = jobs.length;
      for (const { token, reason } of lost ?? []) {
        this.#leases.lose(token, reason === "cancelled" ? "cancelled" : "lease-lost", `the server says: ${reason}`);
      }
      for (const job of jobs) this.#hold(job, at);
      if (claimed === 0) return;
      if (this.#drain.signal.aborted) this.#giveBack(jobs);
      else this.#emit({ type: "jobs", text });
    } finally {
      this.#free += places - claimed;
    }
  }

  #hold(job: ClaimedJob, at: number): void {
    const { id, token, attempt } = job;
    const lengthMs = (job.timeout_seconds || LEASE_UNTOLD_SECONDS) * 1_000;
    const longest = this.#config.maxRuntimesMs[job.kind ?? ""] ?? this.#config.maxRuntimeMs ?? Infinity;
    this.#leases.add({ id, token, attempt, lengthMs }, at, at + longest);
  }

  #giveBack(jobs: ClaimedJob[]): void {
    this.#reports.add(
      jobs.map(({ id, token, attempt }) => {
        return { id, token, attempt, kind: "release", body: JSON.stringify({ token }) } as const;
      }),
    );
  }

  #lost(lease: Lease, reason: StopReason, detail: string): void {
    const { id, token, attempt } = lease;
    this.#emit({ type: "lost", token, reason, detail });
    this.#emit({ type: "reported", reports: [{ id, token, attempt, outcome: "lost", reason }] });
  }

  #refused(error: NagayaError): void {
    const problem = error instanceof ProblemError ? error.problem : { status: 0, name: error.code, detail: error.message };
    this.#emit({ type: "refused", status: problem.status, name: problem.name, detail: problem.detail });
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#drain.abort();
    this.#lastClaim.abort();
    this.#reports.close();
    this.#leases.close();
    this.#wake?.();
    this.#transport.close();
  }
}
