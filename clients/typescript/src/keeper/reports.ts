/**
 * Reports how attempts ended, many in one call, and repeats that until the server has taken it or the lease is over.
 */
import { pause } from "../duration.js";
import { isTemporaryStatus, NagayaError, type Problem, ProblemError } from "../errors.js";
import { DEFAULT_RETRY, pauseAfter } from "../retry.js";
import { type ProblemDocument, readProblem, type Transport } from "../transport.js";
import type { Leases } from "./leases.js";
import type { OutcomeMessage, Reported } from "./messages.js";

const BATCH_MAX = 500;
/** Half of what the server takes in one request by default, in characters. */
const BATCH_CHARS_MAX = 4 << 20;
const CALLS_MAX = 4;

interface Waiting extends OutcomeMessage {
  failures: number;
}

export class Reports {
  readonly #transport: Transport;
  readonly #leases: Leases;
  readonly #reported: (reports: Reported[]) => void;
  readonly #stop = new AbortController();
  #waiting: Waiting[] = [];
  #calls = 0;
  #open = 0;
  #onFlushed: (() => void) | undefined;

  constructor(transport: Transport, leases: Leases, reported: (reports: Reported[]) => void) {
    this.#transport = transport;
    this.#leases = leases;
    this.#reported = reported;
  }

  /** How many outcomes have not been taken by the server. */
  get open(): number {
    return this.#open;
  }

  add(outcomes: readonly OutcomeMessage[]): void {
    for (const outcome of outcomes) {
      // The handler of a lost attempt was told so; what it says afterwards does not count.
      if (!this.#leases.has(outcome.token)) continue;
      this.#open += 1;
      this.#waiting.push({ ...outcome, failures: 0 });
    }
    this.#send();
  }

  /** Calls back when nothing waits to be reported. */
  whenFlushed(then: () => void): void {
    this.#onFlushed = then;
    this.#flushedIfEmpty();
  }

  close(): void {
    this.#stop.abort();
  }

  #flushedIfEmpty(): void {
    if (this.#open > 0 || !this.#onFlushed) return;
    const then = this.#onFlushed;
    this.#onFlushed = undefined;
    then();
  }

  #send(): void {
    while (this.#calls < CALLS_MAX && this.#waiting.length > 0) {
      const batch = this.#take();
      if (batch.length === 0) continue;
      this.#calls += 1;
      void this.#report(batch).finally(() => {
        this.#calls -= 1;
        this.#send();
        this.#flushedIfEmpty();
      });
    }
    this.#flushedIfEmpty();
  }

  /** Takes outcomes of one kind that fit into one call. Those whose lease is over are dropped: that was told already. */
  #take(): Waiting[] {
    const [batch, rest]: [Waiting[], Waiting[]] = [[], []];
    let chars = 0;
    for (const one of this.#waiting) {
      if (!this.#leases.has(one.token)) {
        this.#open -= 1;
        continue;
      }
      const first = batch[0];
      const fits = !first || (one.kind === first.kind && batch.length < BATCH_MAX && chars + one.body.length <= BATCH_CHARS_MAX);
      if (fits) {
        batch.push(one);
        chars += one.body.length;
      } else {
        rest.push(one);
      }
    }
    this.#waiting = rest;
    return batch;
  }

  async #report(batch: Waiting[]): Promise<void> {
    const kind = (batch[0] as Waiting).kind;
    const body = `{"jobs":[${batch.map((one) => one.body).join(",")}]}`;
    try {
      const text = await this.#transport.once({
        method: "POST",
        path: `/v1/jobs/batch/${kind}`,
        body,
        repeat: "never",
        signal: this.#stop.signal,
      });
      const { jobs } = JSON.parse(text) as { jobs: { error?: ProblemDocument }[] };
      this.#settle(batch, (index) => {
        const error = jobs[index]?.error;
        return error && readProblem(error);
      });
    } catch (error) {
      if (error instanceof ProblemError && !error.isTemporary) this.#refused(batch, error.problem);
      else if (error instanceof NagayaError) this.#later(batch, error);
      else throw error;
    }
  }

  #settle(batch: Waiting[], problemOf: (index: number) => Problem | undefined): void {
    const reports: Reported[] = [];
    batch.forEach((one, index) => {
      const problem = problemOf(index);
      if (problem && isTemporaryStatus(problem.status)) return this.#later([one], new ProblemError(problem));
      if (problem && problem.name !== "lease-lost" && one.kind === "complete") return this.#unfit(one, problem);
      this.#open -= 1;
      // If it is no longer held, its loss was told while the call was under way.
      if (!this.#leases.remove(one.token)) return;
      // The lease is over with a job that is given back. A repeated call says so: the first one had arrived.
      const isRepeated = one.kind === "release" && one.failures > 0 && problem?.name === "lease-lost";
      reports.push(reportOf(one, isRepeated ? undefined : problem));
    });
    if (reports.length > 0) this.#reported(reports);
  }

  /** A call that is refused as a whole is halved until what it is refused for is alone. */
  #refused(batch: Waiting[], problem: Problem): void {
    const [one] = batch;
    if (one?.kind === "release" && [400, 404, 405].includes(problem.status)) {
      // A server without this call: give the job back as a failure that is retried at once.
      const failed = batch.map((each): Waiting => {
        const { token, delay_seconds: delay } = JSON.parse(each.body) as { token: string; delay_seconds?: number };
        const body = { token, error: "given back by the worker", retry_after_seconds: delay ?? 0 };
        return { ...each, kind: "fail", body: JSON.stringify(body) };
      });
      this.#waiting.unshift(...failed);
    } else if (batch.length > 1 && [400, 413, 422].includes(problem.status)) {
      const half = Math.ceil(batch.length / 2);
      void this.#report(batch.slice(0, half)).then(() => this.#report(batch.slice(half))).finally(() => this.#send());
    } else {
      this.#settle(batch, () => problem);
    }
  }

  /** A result that is refused for its content would be refused from every attempt. */
  #unfit(one: Waiting, problem: Problem): void {
    const error = `the server rejected the result: ${problem.detail}`;
    const body = JSON.stringify({ token: one.token, error, permanent: true });
    this.#waiting.push({ ...one, kind: "fail", body });
  }

  /** Tries again after a pause. */
  #later(batch: Waiting[], error: NagayaError): void {
    for (const one of batch) one.failures += 1;
    const wish = error instanceof ProblemError ? error.problem.retryAfterMs : undefined;
    const ms = pauseAfter(DEFAULT_RETRY, Math.max(...batch.map((one) => one.failures)), wish);
    void pause(ms, this.#stop.signal).then((how) => {
      if (how === "aborted") return;
      this.#waiting.push(...batch);
      this.#send();
    });
  }
}

const OUTCOMES = { complete: "succeeded", fail: "failed", release: "released" } as const;

function reportOf(one: OutcomeMessage, problem: Problem | undefined): Reported {
  const { id, token, attempt, kind } = one;
  if (!problem) return { id, token, attempt, outcome: OUTCOMES[kind] };
  return { id, token, attempt, outcome: "lost", reason: problem.reason ?? problem.name };
}
