/** Checks calls that are signed as [Standard Webhooks](https://www.standardwebhooks.com) 1.0 defines it. */
import { createHmac, timingSafeEqual } from "node:crypto";

import { type Duration, milliseconds } from "./duration.js";
import { NagayaError } from "./errors.js";
import type { EventView } from "./types.js";

const KEY_BYTES_MIN = 24;
const KEY_BYTES_MAX = 64;

/** Headers of any framework: a `Headers`, or an object with names in lower case. */
export type HeadersLike = { get(name: string): string | null } | Record<string, string | string[] | undefined>;

export interface VerifyOptions {
  headers: HeadersLike;
  /** The body as it was received: what a framework has parsed and written again has other bytes. */
  body: string | Uint8Array;
  /** During a rotation there are two. */
  secrets: string | readonly string[];
  /** How far the timestamp may be off; 5 minutes by default. */
  tolerance?: Duration;
  /** Unix time in milliseconds; the clock's when left out. */
  now?: number;
}

/** A verified call. Remember its id for four days and ignore it the second time. */
export interface VerifiedWebhook {
  id: string;
  timestamp: Date;
  body: WebhookBody;
}

export interface WebhookBody {
  type?: string;
  timestamp?: string;
  data?: EventView & { thin?: boolean; url?: string };
  [more: string]: unknown;
}

/** Why a call was not accepted. */
export class WebhookError extends NagayaError {
  constructor(code: "missing-header" | "bad-timestamp" | "old" | "bad-signature" | "bad-secret" | "bad-body", message: string) {
    super(code, message);
    this.name = "WebhookError";
  }
}

/** Verifies a webhook and parses its body; throws {@link WebhookError} otherwise. */
export function verifyWebhook(options: VerifyOptions): VerifiedWebhook {
  const { id, seconds, body } = verifySignature(options);
  try {
    return { id, timestamp: new Date(seconds * 1_000), body: JSON.parse(body.toString("utf8")) as WebhookBody };
  } catch {
    throw new WebhookError("bad-body", "the body is no JSON");
  }
}

/** Verifies a call without a look at its body. */
export function verifySignature(options: VerifyOptions): { id: string; seconds: number; body: Buffer } {
  const id = header(options.headers, "webhook-id");
  const stamp = header(options.headers, "webhook-timestamp");
  const signatures = header(options.headers, "webhook-signature").split(" ");
  if (!/^\d{1,12}$/.test(stamp)) throw new WebhookError("bad-timestamp", "webhook-timestamp is no Unix time");
  const seconds = Number(stamp);
  const off = Math.abs((options.now ?? Date.now()) - seconds * 1_000);
  if (off > milliseconds(options.tolerance ?? "5m")) {
    throw new WebhookError("old", "webhook-timestamp is too far from the time now");
  }
  const body = typeof options.body === "string" ? Buffer.from(options.body) : Buffer.from(options.body);
  const secrets = typeof options.secrets === "string" ? [options.secrets] : options.secrets;
  // Every pair is compared, so that the time taken tells nothing.
  let isRight = false;
  for (const secret of secrets) {
    const mac = createHmac("sha256", keyOf(secret)).update(`${id}.${stamp}.`).update(body).digest("base64");
    const wanted = Buffer.from(`v1,${mac}`);
    for (const signature of signatures) {
      const given = Buffer.from(signature);
      if (given.length === wanted.length && timingSafeEqual(given, wanted)) isRight = true;
    }
  }
  if (!isRight) throw new WebhookError("bad-signature", "no signature matches");
  return { id, seconds, body };
}

/** Signs a body, for tests of receivers. */
export function signWebhook(secret: string, id: string, unixSeconds: number, body: string | Uint8Array): string {
  const mac = createHmac("sha256", keyOf(secret)).update(`${id}.${unixSeconds}.`).update(body);
  return `v1,${mac.digest("base64")}`;
}

function keyOf(secret: string): Buffer {
  const text = secret.trim().replace(/^whsec_/, "");
  const key = Buffer.from(text, "base64");
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(text);
  if (!isBase64 || key.length < KEY_BYTES_MIN || key.length > KEY_BYTES_MAX) {
    throw new WebhookError("bad-secret", "a secret looks like `whsec_` and 24 to 64 bytes in base64");
  }
  return key;
}

export function headerOf(headers: HeadersLike, name: string): string | undefined {
  if (typeof (headers as { get?: unknown }).get === "function") {
    return (headers as { get(name: string): string | null }).get(name) ?? undefined;
  }
  const value = (headers as Record<string, string | string[] | undefined>)[name];
  return Array.isArray(value) ? value[0] : value;
}

function header(headers: HeadersLike, name: string): string {
  const value = headerOf(headers, name);
  if (value === undefined || value === "") throw new WebhookError("missing-header", `the header ${name} is missing`);
  return value;
}
