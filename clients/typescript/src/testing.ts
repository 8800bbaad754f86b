/** Starts a real server for tests of applications, on free ports and with a folder of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Attempt } from "./attempt.js";
import { Client } from "./client.js";
import { pause } from "./duration.js";
import { handle, type Outcome } from "./handling.js";
import type { HandledJob } from "./job.js";
import { encode, RawJson } from "./json.js";
import type { JobView } from "./types.js";

const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 10_000;

export interface HouseOptions {
  /** The program; `NAGAYA_BIN`, or else `nagaya` of `PATH`, when left out. */
  bin?: string;
  /** Settings by name, as `--set` takes them: `{ "jobs.wait_max": "30s" }`. */
  settings?: Record<string, string>;
}

/** A running server. Its data is deleted when it is stopped. */
export class House {
  readonly #bin: string;
  readonly #settings: Record<string, string>;
  readonly #folder: string;
  #process: ChildProcess | undefined;
  #listen = "127.0.0.1:0";
  #log: string[] = [];

  private constructor(bin: string, settings: Record<string, string>, folder: string) {
    this.#bin = bin;
    this.#settings = settings;
    this.#folder = folder;
  }

  static async start(options: HouseOptions = {}): Promise<House> {
    const bin = options.bin ?? process.env.NAGAYA_BIN ?? "nagaya";
    const house = new House(bin, options.settings ?? {}, await mkdtemp(join(tmpdir(), "nagaya-test-")));
    try {
      await house.#launch();
    } catch (error) {
      await house.stop();
      throw error;
    }
    return house;
  }

  get url(): string {
    return `http://${this.#listen}`;
  }

  /** Returns a client for this server. */
  client(): Client {
    const token = this.#settings["http.token"];
    return new Client({ url: this.url, token: token ?? "" });
  }

  /** What the server has written. */
  get log(): string {
    return this.#log.join("\n");
  }

  async #launch(): Promise<void> {
    const settings = {
      "http.listen": this.#listen,
      "room.listen": "127.0.0.1:0",
      "ids.listen": "127.0.0.1:0",
      "fanout.listen": "127.0.0.1:0",
      "telemetry.log_format": "json",
      ...this.#settings,
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => ["--set", `${name}=${value}`]);
    const child = spawn(this.#bin, ["up", "--data", join(this.#folder, "data"), ...flags], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#process = child;
    this.#listen = await this.#ready(child);
  }

  #ready(child: ChildProcess): Promise<string> {
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        clearTimeout(timer);
        reject(new Error(`${this.#bin} did not start: ${why}\n${this.log}`));
      };
      const timer = setTimeout(() => fail(`not ready within ${START_LIMIT_MS} ms`), START_LIMIT_MS);
      child.once("error", (error) => fail(`${error.message}; set NAGAYA_BIN or add nagaya to PATH`));
      child.once("exit", (code) => fail(`it ended with code ${code}`));
      if (!child.stderr) return fail("its standard error cannot be read");
      createInterface(child.stderr).on("line", (line) => {
        this.#log.push(line);
        const address = readyAt(line);
        if (address === undefined) return;
        clearTimeout(timer);
        resolve(address);
      });
    });
  }

  /** Ends the server as a crash would, and starts it again on the same port with the same data. */
  async restart(): Promise<void> {
    await this.kill();
    await this.#launch();
  }

  /** Ends the server as a crash would. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async stop(): Promise<void> {
    await this.#end("SIGTERM");
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill(signal);
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_LIMIT_MS);
    await ended;
    clearTimeout(timer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Waits until no job of these queues waits or runs. */
  async drained(...queues: string[]): Promise<void> {
    const client = this.client();
    for (;;) {
      const all = await client.queues();
      const open = all.filter((queue) => queues.length === 0 || queues.includes(queue.name));
      const left = open.map(({ depth }) => (depth.ready ?? 0) + (depth.running ?? 0) + (depth.blocked ?? 0));
      if (left.every((count) => count === 0)) return client.close();
      await pause(20);
    }
  }

  /** Returns the jobs of a kind, oldest first, with their payloads; fails if there are none. */
  async enqueued(kind: string): Promise<JobView[]> {
    const client = this.client();
    const { jobs } = await client.list({ kind, limit: 1_000 });
    if (jobs.length === 0) throw new Error(`no job of kind ${JSON.stringify(kind)} was enqueued`);
    const views = await Promise.all(jobs.reverse().map((job) => client.readJob(job.id)));
    client.close();
    return views;
  }
}

/** Starts a server; see {@link House}. */
export function startHouse(options?: HouseOptions): Promise<House> {
  return House.start(options);
}

function readyAt(line: string): string | undefined {
  if (!line.includes('"ready"')) return undefined;
  try {
    const entry = JSON.parse(line) as Record<string, unknown>;
    const fields = (entry.fields ?? entry) as Record<string, unknown>;
    return fields.message === "ready" && typeof fields.http === "string" ? fields.http : undefined;
  } catch {
    return undefined;
  }
}

/** How a handler ended. */
export interface HandlerRun {
  outcome: "succeeded" | "failed" | "released";
  result?: unknown;
  error?: string;
  isPermanent?: boolean;
  retryAfterSeconds?: number;
}

/** Runs a handler once without a server, with its payload and result written as JSON and read again. */
export async function runHandler(job: HandledJob, payload: unknown, options: { attempt?: number } = {}): Promise<HandlerRun> {
  const text = encode(payload);
  const claimed = {
    id: "1",
    token: "test",
    queue: job.spec.queue ?? "default",
    tenant: "default",
    kind: job.spec.kind,
    attempt: options.attempt ?? 1,
    max_retries: job.spec.maxRetries ?? 5,
    priority: 0,
    created_at: new Date().toISOString(),
    lease_expires_at: new Date().toISOString(),
    timeout_seconds: 30,
    payload: JSON.parse(text) as unknown,
  };
  const attempt = new Attempt(new Client("http://127.0.0.1:1"), claimed, () => new RawJson(text));
  return read(await handle(attempt, job, []));
}

function read(outcome: Outcome): HandlerRun {
  const body = JSON.parse(outcome.body) as Record<string, unknown>;
  switch (outcome.kind) {
    case "complete":
      return { outcome: "succeeded", result: body.result };
    case "release":
      return { outcome: "released" };
    case "fail":
      return {
        outcome: "failed",
        error: String(body.error),
        isPermanent: body.permanent === true,
        ...(typeof body.retry_after_seconds === "number" ? { retryAfterSeconds: body.retry_after_seconds } : {}),
      };
  }
}
