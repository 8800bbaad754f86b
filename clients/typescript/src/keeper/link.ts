import { Worker as Thread } from "node:worker_threads";

import { Keeper } from "./keeper.js";
import type { FromKeeper, KeeperConfig, ToKeeper } from "./messages.js";

/** The text of the thread, put here by the build. */
declare const KEEPER_THREAD: string;

const RESPAWN_FIRST_MS = 500;
const RESPAWN_MAX_MS = 30_000;
const CRASHES_MAX = 10;

/** The worker's end of the conversation with its keeper. */
export interface Link {
  post(message: ToKeeper): void;
  close(): Promise<void>;
}

/** What a link needs to know of the worker. */
export interface LinkOwner {
  receive(message: FromKeeper): void;
  /** What a keeper that takes over has to know. */
  handOver(): ToKeeper[];
  /** The keeper cannot be brought back. */
  lostKeeper(error: Error): void;
}

/** A keeper in a thread of its own. One that crashes is replaced, and its successor keeps the same leases. */
export class ThreadLink implements Link {
  readonly #config: KeeperConfig;
  readonly #owner: LinkOwner;
  #thread: Thread;
  #crashes = 0;
  #isClosed = false;

  constructor(config: KeeperConfig, owner: LinkOwner) {
    this.#config = config;
    this.#owner = owner;
    this.#thread = this.#spawn();
  }

  #spawn(): Thread {
    const thread = new Thread(KEEPER_THREAD, {
      eval: true,
      workerData: this.#config,
      name: "nagaya-keeper",
      // Loaders and inspectors of the program are not meant for this text.
      execArgv: [],
    });
    thread.on("message", (message: FromKeeper) => this.#owner.receive(message));
    let cause: Error | undefined;
    thread.on("error", (error: Error) => {
      cause = error;
    });
    thread.on("exit", (code) => {
      if (!this.#isClosed) this.#crashed(cause ?? new Error(`the keeper ended with code ${code}`));
    });
    return thread;
  }

  #crashed(cause: Error): void {
    this.#crashes += 1;
    if (this.#crashes > CRASHES_MAX) return this.#owner.lostKeeper(cause);
    const ms = Math.min(RESPAWN_FIRST_MS * 2 ** (this.#crashes - 1), RESPAWN_MAX_MS);
    this.#owner.receive({ type: "warning", message: `the keeper crashed and is started again: ${cause.message}` });
    setTimeout(() => {
      if (this.#isClosed) return;
      this.#thread = this.#spawn();
      for (const message of this.#owner.handOver()) this.post(message);
    }, ms);
  }

  post(message: ToKeeper): void {
    this.#thread.postMessage(message);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.post({ type: "close" });
    await this.#thread.terminate();
  }
}

/** A keeper on the worker's own event loop, for programs that cannot have threads. A busy handler loses its lease. */
export class LoopLink implements Link {
  readonly #keeper: Keeper;

  constructor(config: KeeperConfig, owner: LinkOwner) {
    // Never from inside of a call of the worker.
    this.#keeper = new Keeper(config, (message) => queueMicrotask(() => owner.receive(message)));
    this.#keeper.run().catch((error: Error) => owner.lostKeeper(error));
  }

  post(message: ToKeeper): void {
    this.#keeper.receive(message);
  }

  close(): Promise<void> {
    this.post({ type: "close" });
    return Promise.resolve();
  }
}
