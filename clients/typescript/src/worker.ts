import { hostname } from "node:os";

import { Attempt, rawPayloadOf } from "./attempt.js";
import { Client, type ClientOptions } from "./client.js";
import { type Duration, milliseconds, now } from "./duration.js";
import { NagayaError, ProblemError, type StopReason } from "./errors.js";
import { handle, type Middleware, type Outcome, type Registered, release } from "./handling.js";
import type { HandledJob, Handler, JobDefinition } from "./job.js";
import { type Link, LoopLink, ThreadLink } from "./keeper/link.js";
import type { FromKeeper, KeeperConfig, OutcomeMessage, Reported, ToKeeper } from "./keeper/messages.js";
import type { ClaimedJob } from "./types.js";

const CONCURRENCY = 10;
const CLAIM_MAX = 1_000;
/** How long the last reports may take when the worker ends. */
const FLUSH_MS = 2_000;
/** How long the keeper may take to end its last claim: twice of what it takes itself. */
const LAST_CLAIM_MS = 1_000;
/** After a second signal. */
const HURRY_MS = 500;

export interface WorkerOptions {
  /** In order: a later one is asked for what the earlier ones could not give. Those of the handlers when left out. */
  queues?: readonly string[];
  /** Handlers at a time; 10 by default. As many jobs as there are free places are claimed in one call. */
  concurrency?: number;
  /** How long running handlers may take after the worker was told to stop; 25 seconds by default. */
  drain?: Duration;
  /** How long a handler may take to end after its signal was aborted; 3 seconds by default. */
  grace?: Duration;
  /** How long a handler may run at most; for ever by default. A kind may have its own. */
  maxRuntime?: Duration;
  /** How long a claim waits at the server; 20 seconds by default. */
  poll?: Duration;
  /** Shown on attempts; host and process by default. */
  name?: string;
  /** Where leases are kept: in a thread that a busy handler cannot block, or on the handlers' own event loop. */
  keeper?: "thread" | "loop";
  /** Only for tokens that speak for several tenants. */
  tenant?: string;
  /** Told of everything that happens, for metrics. */
  observe?: (event: WorkerEvent) => void;
  /** Where warnings go; `console` by default. */
  logger?: { warn(message: string): void };
}

/** What happens in a worker. */
export type WorkerEvent =
  | { type: "claimed"; count: number }
  | { type: "started"; attempt: Attempt }
  | { type: "stopped"; attempt: Attempt; reason: StopReason; detail: string }
  | { type: "ended"; attempt: Attempt; seconds: number; outcome: OutcomeMessage["kind"] }
  /** The server has taken the outcome, or the attempt is lost. */
  | { type: "reported"; job: string; attempt: number; outcome: Reported["outcome"]; reason?: string }
  /** Leases were extended, the latest so much later than planned. */
  | { type: "extended"; count: number; lagMs: number }
  | { type: "unknown-kind"; attempt: Attempt }
  | { type: "warning"; message: string };

export interface WorkerStats {
  running: number;
  claimed: number;
  succeeded: number;
  failed: number;
  released: number;
  /** Attempts that lost their lease, or whose outcome the server did not take. */
  lost: number;
}

interface Running {
  attempt: Attempt;
  outcome?: OutcomeMessage;
  hasPlace: boolean;
}

/** Claims jobs, runs handlers, and reports how they ended. */
export class Worker {
  readonly client: Client;
  readonly #options: WorkerOptions;
  readonly #handlers = new Map<string, Registered>();
  readonly #queues = new Set<string>();
  readonly #maxRuntimesMs: Record<string, number> = {};
  readonly #middleware: Middleware[] = [];
  /** Attempts by token, from their claim until the server has taken their outcome. */
  readonly #held = new Map<string, Running>();
  readonly #stats: WorkerStats = { running: 0, claimed: 0, succeeded: 0, failed: 0, released: 0, lost: 0 };
  #outbox: { outcomes: OutcomeMessage[]; free: number } | undefined;
  #link: Link | undefined;
  #stopping: Promise<void> | undefined;
  #hurry = new AbortController();
  #error: NagayaError | undefined;
  #waiters = new Set<() => void>();
  #isDrained = false;
  #isFlushed = false;
  #finish: (() => void) | undefined;
  readonly #finished = new Promise<void>((resolve) => {
    this.#finish = resolve;
  });

  constructor(client: Client, options: WorkerOptions = {}) {
    this.client = client;
    this.#options = options;
    const places = options.concurrency ?? CONCURRENCY;
    if (!Number.isInteger(places) || places < 1) throw new RangeError("concurrency must be a whole number from 1 on");
  }

  /** Adds the handler of a kind; `"*"` is for jobs of kinds without one, and for those without a kind. */
  handle<Input, Payload, Result>(
    job: JobDefinition<Input, Payload, Result> | string,
    run: Handler<Payload, Result>,
  ): this {
    return this.add(typeof job === "string" ? { spec: { kind: job }, run: run as Handler<never> } : job.handler(run));
  }

  /** Adds a kind with its handler. */
  add(job: HandledJob): this {
    const { kind, queue, maxRuntime } = job.spec;
    if (this.#link) throw new Error("handlers are added before the worker is started");
    if (this.#handlers.has(kind)) throw new Error(`there is a handler for ${JSON.stringify(kind)} already`);
    this.#handlers.set(kind, job.schema === undefined ? { run: job.run } : { run: job.run, schema: job.schema });
    this.#queues.add(queue ?? "default");
    if (maxRuntime !== undefined) this.#maxRuntimesMs[kind] = milliseconds(maxRuntime);
    return this;
  }

  /** Wraps all handlers; the first one added is the outermost. */
  use(middleware: Middleware): this {
    this.#middleware.push(middleware);
    return this;
  }

  stats(): WorkerStats {
    return { ...this.#stats };
  }

  /** Begins to claim. Resolves at once; {@link finished} says when it is over. */
  start(): void {
    if (this.#link || this.#stopping) throw new Error("a worker is started once");
    const owner = {
      receive: (message: FromKeeper) => this.#receive(message),
      handOver: () => this.#handOver(),
      lostKeeper: (error: Error) => this.#lostKeeper(error),
    };
    const Kind = this.#options.keeper === "loop" ? LoopLink : ThreadLink;
    this.#link = new Kind(this.#config(), owner);
  }

  #config(): KeeperConfig {
    const { options } = this.client.transport;
    const { queues, name, concurrency, poll, tenant, maxRuntime } = this.#options;
    return {
      transport: options,
      queues: [...(queues ?? this.#queues)],
      worker: name ?? `${hostname()}-${process.pid}`,
      concurrency: concurrency ?? CONCURRENCY,
      free: concurrency ?? CONCURRENCY,
      pollMs: milliseconds(poll ?? "20s"),
      claimMax: CLAIM_MAX,
      ...(tenant === undefined ? {} : { tenant }),
      ...(maxRuntime === undefined ? {} : { maxRuntimeMs: milliseconds(maxRuntime) }),
      maxRuntimesMs: this.#maxRuntimesMs,
    };
  }

  /**
   * Runs until it is stopped. With `signals`, SIGTERM and SIGINT stop it: the first drains, the second gives jobs back
   * at once. Rejects if the server refuses this worker.
   */
  async run(options: { signals?: boolean } = {}): Promise<WorkerStats> {
    const names: NodeJS.Signals[] = process.platform === "win32" ? ["SIGINT", "SIGBREAK"] : ["SIGINT", "SIGTERM"];
    const onSignal = () => void (this.#stopping ? this.stopNow() : this.stop());
    if (options.signals) for (const name of names) process.on(name, onSignal);
    try {
      this.start();
      return await this.finished();
    } finally {
      if (options.signals) for (const name of names) process.off(name, onSignal);
    }
  }

  /** Resolves when the worker has ended. Rejects if the server refused it. */
  async finished(): Promise<WorkerStats> {
    await this.#finished;
    if (this.#error) throw this.#error;
    return this.stats();
  }

  /**
   * Claims nothing more, lets running handlers finish, and ends. Handlers that are not done after the drain time are
   * told to stop, and their jobs are given back.
   */
  stop(options: { drain?: Duration } = {}): Promise<void> {
    this.#stopping ??= this.#shutDown(milliseconds(options.drain ?? this.#options.drain ?? "25s"));
    return this.#stopping;
  }

  /** Tells running handlers to stop, gives their jobs back, and ends within two seconds. */
  stopNow(): Promise<void> {
    this.#hurry.abort();
    return this.stop({ drain: 0 });
  }

  async #shutDown(drainMs: number): Promise<void> {
    const link = this.#link;
    if (!link) return this.#finish?.();
    link.post({ type: "drain" });
    const hurry = this.#hurry.signal;
    const isIdle = () => this.#isDrained && this.#stats.running === 0;
    const begin = now();
    // Our own claim that is under way must not get what is given back.
    await this.#until(() => this.#isDrained, LAST_CLAIM_MS);
    if (!(await this.#until(isIdle, Math.max(drainMs - (now() - begin), 0), hurry))) {
      for (const { attempt, outcome } of this.#held.values()) {
        if (!outcome) this.#stopAttempt(attempt, "shutdown", "the worker is shutting down");
      }
      const grace = milliseconds(this.#options.grace ?? "3s");
      await this.#until(isIdle, hurry.aborted ? Math.min(grace, HURRY_MS) : grace, hurry.aborted ? undefined : hurry);
      this.#giveBackAll();
    }
    this.#post();
    link.post({ type: "flush" });
    await this.#until(() => this.#isFlushed, hurry.aborted ? HURRY_MS : FLUSH_MS);
    await link.close();
    this.#finish?.();
  }

  /** Gives back the jobs of handlers that did not end. What they still say is ignored. */
  #giveBackAll(): void {
    for (const running of this.#held.values()) {
      if (running.outcome || (running.attempt.stopReason ?? "shutdown") !== "shutdown") continue;
      this.#settle(running, release(running.attempt.job.token));
    }
  }

  /** Waits for a condition that changes with messages; returns whether it came true in time. */
  #until(condition: () => boolean, ms: number, signal?: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#waiters.delete(look);
        signal?.removeEventListener("abort", end);
        resolve(condition());
      };
      const look = () => {
        if (condition()) end();
      };
      const timer = setTimeout(end, signal?.aborted ? 0 : ms);
      this.#waiters.add(look);
      signal?.addEventListener("abort", end);
      look();
    });
  }

  #changed(): void {
    for (const look of this.#waiters) look();
  }

  #receive(message: FromKeeper): void {
    switch (message.type) {
      case "jobs":
        this.#startAll(message.text);
        break;
      case "lost": {
        const running = this.#held.get(message.token);
        if (running) this.#stopAttempt(running.attempt, message.reason, message.detail);
        break;
      }
      case "reported":
        for (const report of message.reports) this.#reported(report);
        break;
      case "extended":
        this.#observe({ type: "extended", count: message.count, lagMs: message.lagMs });
        break;
      case "warning":
        this.#warn(message.message);
        break;
      case "refused":
        this.#error = new ProblemError({ status: message.status, name: message.name, detail: message.detail });
        void this.stop();
        break;
      case "drained":
        this.#isDrained = true;
        break;
      case "flushed":
        this.#isFlushed = true;
        break;
    }
    this.#changed();
  }

  #startAll(text: string): void {
    const { jobs } = JSON.parse(text) as { jobs: ClaimedJob[] };
    this.#stats.claimed += jobs.length;
    this.#observe({ type: "claimed", count: jobs.length });
    jobs.forEach((job, index) => {
      const attempt = new Attempt(this.client, job, rawPayloadOf(text, index, job));
      const running: Running = { attempt, hasPlace: true };
      this.#held.set(job.token, running);
      this.#stats.running += 1;
      void this.#run(running);
    });
  }

  async #run(running: Running): Promise<void> {
    const { attempt } = running;
    const begin = now();
    const handler = this.#handlers.get(attempt.kind) ?? this.#handlers.get("*");
    this.#observe(handler ? { type: "started", attempt } : { type: "unknown-kind", attempt });
    const outcome = await handle(attempt, handler, this.#middleware);
    this.#stats.running -= 1;
    this.#observe({ type: "ended", attempt, seconds: (now() - begin) / 1_000, outcome: outcome.kind });
    this.#settle(running, outcome);
    this.#freePlace(running);
    this.#changed();
  }

  /** Takes the outcome of an attempt, unless it is lost or has one. */
  #settle(running: Running, outcome: Outcome): void {
    const { attempt } = running;
    const isLost = attempt.stopReason !== undefined && attempt.stopReason !== "shutdown";
    if (running.outcome || isLost) return;
    const { id, token, attempt: number } = attempt.job;
    running.outcome = { id, token, attempt: number, ...outcome };
    this.#out().outcomes.push(running.outcome);
  }

  #freePlace(running: Running): void {
    if (!running.hasPlace) return;
    running.hasPlace = false;
    this.#out().free += 1;
  }

  /** What ends in one turn of the event loop is told to the keeper in one message. */
  #out(): { outcomes: OutcomeMessage[]; free: number } {
    if (!this.#outbox) {
      this.#outbox = { outcomes: [], free: 0 };
      queueMicrotask(() => this.#post());
    }
    return this.#outbox;
  }

  #post(): void {
    if (!this.#outbox) return;
    this.#link?.post({ type: "done", ...this.#outbox });
    this.#outbox = undefined;
  }

  #stopAttempt(attempt: Attempt, reason: StopReason, detail: string): void {
    if (attempt.signal.aborted) return;
    attempt.stop(reason, detail);
    this.#observe({ type: "stopped", attempt, reason, detail });
  }

  #reported(report: Reported): void {
    const { id: job, token, ...rest } = report;
    this.#held.delete(token);
    this.#stats[report.outcome] += 1;
    this.#observe({ type: "reported", job, ...rest });
  }

  /** Tells a new keeper what the one before it knew. */
  #handOver(): ToKeeper[] {
    const all = [...this.#held.values()].filter(({ attempt }) => (attempt.stopReason ?? "shutdown") === "shutdown");
    const attempts = all.map(({ attempt, outcome }) => {
      const { id, token, attempt: number, timeout_seconds } = attempt.job;
      return { id, token, attempt: number, lengthMs: timeout_seconds * 1_000, isOver: outcome !== undefined };
    });
    const taken = [...this.#held.values()].filter((one) => one.hasPlace).length;
    const free = Math.max((this.#options.concurrency ?? CONCURRENCY) - taken, 0);
    const outcomes = all.flatMap(({ outcome }) => (outcome ? [outcome] : []));
    return [
      { type: "adopt", attempts, free, isDraining: this.#stopping !== undefined },
      { type: "done", outcomes, free: 0 },
    ];
  }

  #lostKeeper(error: Error): void {
    this.#error = new NagayaError("keeper", "the keeper could not be brought back", { cause: error });
    for (const { attempt } of this.#held.values()) this.#stopAttempt(attempt, "lease-lost", error.message);
    this.#isDrained = true;
    this.#isFlushed = true;
    void this.stop({ drain: 0 });
  }

  #warn(message: string): void {
    this.#observe({ type: "warning", message });
    (this.#options.logger ?? console).warn(`nagaya: ${message}`);
  }

  #observe(event: WorkerEvent): void {
    try {
      this.#options.observe?.(event);
    } catch (error) {
      // Whoever counts must not break what is counted.
      (this.#options.logger ?? console).warn(`nagaya: the observer failed: ${String(error)}`);
    }
  }
}

export interface CreateWorkerOptions extends WorkerOptions, Pick<ClientOptions, "url" | "token" | "ca"> {
  /** Instead of `url` and `token`. */
  client?: Client;
  /** Handlers by kind, for kinds without a definition: nothing is known of their payloads. */
  handlers?: Record<string, Handler<any>>;
  /** Defined kinds with their handlers: `resize.handler(async (payload, attempt) => ...)`. */
  jobs?: readonly HandledJob[];
}

/** Makes a worker from one object; `run` or `start` it. */
export function createWorker(options: CreateWorkerOptions): Worker {
  const { client, url, token, ca, handlers, jobs, ...rest } = options;
  const given = { ...(url === undefined ? {} : { url }), ...(token === undefined ? {} : { token }), ...(ca === undefined ? {} : { ca }) };
  const worker = new Worker(client ?? new Client(given), rest);
  for (const job of jobs ?? []) worker.add(job);
  for (const [kind, run] of Object.entries(handlers ?? {})) worker.handle(kind, run);
  return worker;
}
