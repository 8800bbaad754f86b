import type { Client } from "./client.js";
import { type Duration, milliseconds, now } from "./duration.js";

export interface IdsOptions {
  /** How many are fetched at once, from 1 to 1000; 100 by default. */
  batch?: number;
  /**
   * How old an id may be when it is given out; 1 second by default. Ids carry the time at which they were minted, so
   * this is how far their order may be off between processes.
   */
  maxAge?: Duration;
}

/** Hands out unique ids, fetched ahead in batches. Ids are text: their 64 bits do not fit into a number. */
export class Ids {
  readonly #client: Client;
  readonly #batch: number;
  readonly #maxAgeMs: number;
  #ready: string[] = [];
  #next = 0;
  #fetchedAt = -Infinity;
  #fetching: Promise<void> | undefined;

  constructor(client: Client, options: IdsOptions = {}) {
    this.#client = client;
    this.#batch = options.batch ?? 100;
    if (!Number.isInteger(this.#batch) || this.#batch < 1 || this.#batch > 1_000) {
      throw new RangeError("a batch has 1 to 1000 ids");
    }
    this.#maxAgeMs = milliseconds(options.maxAge ?? "1s");
  }

  async next(): Promise<string> {
    for (;;) {
      const isFresh = now() - this.#fetchedAt <= this.#maxAgeMs;
      if (isFresh && this.#next < this.#ready.length) return this.#ready[this.#next++] as string;
      // All callers share one fetch.
      this.#fetching ??= this.#fetch().finally(() => {
        this.#fetching = undefined;
      });
      await this.#fetching;
    }
  }

  async nextBigInt(): Promise<bigint> {
    return BigInt(await this.next());
  }

  async #fetch(): Promise<void> {
    const asked = now();
    const { ids } = await this.#client.request<{ ids: string[] }>("GET", `/v1/ids?n=${this.#batch}`);
    this.#ready = ids;
    this.#next = 0;
    // A batch that took longer than its age to come is still good for one look.
    this.#fetchedAt = Math.max(asked, now() - this.#maxAgeMs / 2);
  }
}
