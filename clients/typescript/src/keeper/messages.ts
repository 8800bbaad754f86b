/**
 * What the worker and its keeper say to each other: plain data, since they live in different threads.
 *
 * Payloads and results cross as JSON text. Cloning text is cheaper than cloning the objects that it describes.
 */
import type { StopReason } from "../errors.js";
import type { TransportOptions } from "../transport.js";

export interface KeeperConfig {
  transport: TransportOptions;
  queues: string[];
  worker: string;
  concurrency: number;
  /** How long a claim waits at the server, in milliseconds. */
  pollMs: number;
  /** Most jobs of one claim. */
  claimMax: number;
  tenant?: string;
  maxRuntimeMs?: number;
  /** By kind; these go first. */
  maxRuntimesMs: Record<string, number>;
}

/** How an attempt ended, as it will be reported. */
export interface OutcomeMessage {
  id: string;
  token: string;
  attempt: number;
  kind: "complete" | "fail" | "release";
  /** One item of a batch of reports, as JSON. */
  body: string;
}

/** An attempt that a keeper takes over from one that died. */
export interface HeldAttempt {
  id: string;
  token: string;
  attempt: number;
  lengthMs: number;
}

export type ToKeeper =
  /** Attempts that ended, and how many places they leave. An attempt that was lost leaves a place and no outcome. */
  | { type: "done"; outcomes: OutcomeMessage[]; free: number }
  | { type: "adopt"; attempts: HeldAttempt[]; free: number; isDraining: boolean }
  /** Claims nothing more. */
  | { type: "drain" }
  /** Says `flushed` as soon as nothing waits to be reported. */
  | { type: "flush" }
  | { type: "close" };

export type FromKeeper =
  /** The answer to a claim. */
  | { type: "jobs"; text: string }
  /** Attempts that must stop. Nothing of them will be reported. */
  | { type: "lost"; token: string; reason: StopReason; detail: string }
  | { type: "reported"; reports: Reported[] }
  | { type: "drained" }
  | { type: "flushed" }
  | { type: "warning"; message: string }
  /** The server refuses this worker. */
  | { type: "refused"; status: number; name: string; detail: string }
  | { type: "extended"; count: number; lagMs: number };

export interface Reported {
  id: string;
  /** Names the attempt: one that follows a given back one has the same number. */
  token: string;
  attempt: number;
  outcome: "succeeded" | "failed" | "released" | "lost";
  /** Why it is lost: the server's word, or ours. */
  reason?: string;
}
