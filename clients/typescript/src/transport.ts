/**
 * Sends calls and reads their answers.
 *
 * Built on `node:http` rather than on `fetch`, because it says whether a request had left when its connection failed.
 * That decides whether the call may be repeated.
 */
import * as http from "node:http";
import * as https from "node:https";

import { pause } from "./duration.js";
import { ConnectionError, NagayaError, type Problem, ProblemError, TimeoutError } from "./errors.js";
import { DEFAULT_RETRY, pauseAfter, type RetryPolicy } from "./retry.js";
import { VERSION } from "./version.js";

const CONNECT_LIMIT_MS = 5_000;
/** Below the usual limits of load balancers. */
const IDLE_LIMIT_MS = 50_000;

/** Plain data, so that it can be handed to another thread. */
export interface TransportOptions {
  url: string;
  token?: string;
  /** How long an answer may take beyond what the server was asked to wait, in milliseconds. */
  timeoutMs: number;
  retry: RetryPolicy;
  /** The largest answer that is read, in bytes. */
  answerBytesMax: number;
  /** Certificates in PEM that are trusted instead of the system's. */
  ca?: string;
  userAgent?: string;
}

/**
 * Whether a call may be repeated when its outcome is unknown: always; only when the server certainly did nothing;
 * never.
 */
export type Repeat = "safe" | "if-not-done" | "never";

export interface Call {
  method: string;
  /** With the query, percent-encoded. */
  path: string;
  body?: string;
  /** How long the server was asked to wait before it answers, in milliseconds. */
  waitMs?: number;
  repeat: Repeat;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  timeoutMs?: number;
}

export function transportOptions(given: Partial<TransportOptions> & { url: string }): TransportOptions {
  const parsed = parseAddress(given.url);
  return {
    timeoutMs: 30_000,
    retry: DEFAULT_RETRY,
    answerBytesMax: 256 << 20,
    ...given,
    url: parsed,
  };
}

function parseAddress(url: string): string {
  const bad = (reason: string) =>
    new NagayaError("address", `${JSON.stringify(url)} is no address such as http://127.0.0.1:7400: ${reason}`);
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw bad("http:// or https:// and a host are needed");
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:") throw bad("only http and https are spoken");
  if (parsed.search || parsed.hash) throw bad("it must not have a query");
  return parsed.origin + parsed.pathname.replace(/\/+$/, "");
}

/** Connections to one server. */
export class Transport {
  readonly options: TransportOptions;
  readonly #address: URL;
  readonly #agent: http.Agent;
  readonly #send: typeof http.request;
  readonly #headers: Record<string, string>;

  constructor(options: TransportOptions) {
    this.options = options;
    this.#address = new URL(options.url);
    const secure = this.#address.protocol === "https:";
    const common = { keepAlive: true, maxFreeSockets: 64, timeout: IDLE_LIMIT_MS };
    this.#agent = secure
      ? new https.Agent(options.ca === undefined ? common : { ...common, ca: options.ca })
      : new http.Agent(common);
    this.#send = secure ? https.request : http.request;
    this.#headers = { "user-agent": options.userAgent ?? `nagaya-js/${VERSION}`, accept: "application/json" };
    if (options.token !== undefined) this.#headers.authorization = `Bearer ${options.token}`;
  }

  /** Sends a call, repeats it where that is safe, and returns the answer's text. */
  async send(call: Call): Promise<string> {
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.once(call);
      } catch (error) {
        if (!(error instanceof NagayaError) || call.signal?.aborted) throw error;
        const allowed = call.repeat === "safe" || (call.repeat === "if-not-done" && error.wasNotDone);
        if (!allowed || !error.isTemporary || failures >= this.options.retry.attempts) throw error;
        const wish = error instanceof ProblemError ? error.problem.retryAfterMs : undefined;
        const paused = await pause(pauseAfter(this.options.retry, failures, wish), call.signal);
        if (paused === "aborted") throw aborted(call.signal);
      }
    }
  }

  /** Sends a call once. */
  async once(call: Call): Promise<string> {
    const limit = (call.timeoutMs ?? this.options.timeoutMs) + (call.waitMs ?? 0);
    const answer = await this.open(call, limit);
    const body = await this.#read(answer.response, answer.failed);
    answer.done();
    const status = answer.response.statusCode ?? 0;
    if (status >= 200 && status < 300) return body;
    throw new ProblemError(problemOf(status, body, answer.response.headers["retry-after"]));
  }

  /** Sends a request and resolves with the head of its answer. The limit, if any, also holds for the body. */
  open(call: Call, limitMs?: number): Promise<Opened> {
    return new Promise((resolve, reject) => {
      if (call.signal?.aborted) return reject(aborted(call.signal));
      const headers: Record<string, string | number> = { ...this.#headers, ...call.headers };
      if (call.body !== undefined) {
        headers["content-type"] = "application/json";
        headers["content-length"] = Buffer.byteLength(call.body);
      }
      let sent = false;
      let cause: NagayaError | undefined;
      const path = this.#address.pathname.replace(/\/+$/, "") + call.path;
      const { hostname, port } = this.#address;
      const request = this.#send({
        agent: this.#agent,
        host: hostname.replace(/^\[|\]$/g, ""),
        port: port || undefined,
        method: call.method,
        path,
        headers,
      });
      const stop = (error: NagayaError) => {
        cause ??= error;
        request.destroy(cause);
      };
      const onAbort = () => stop(aborted(call.signal));
      const done = () => {
        clearTimeout(timer);
        clearTimeout(connecting);
        call.signal?.removeEventListener("abort", onAbort);
      };
      const slow = () => stop(new TimeoutError(`${this.options.url} did not answer within ${limitMs} ms`));
      const timer = limitMs === undefined ? undefined : setTimeout(slow, limitMs);
      let connecting: NodeJS.Timeout | undefined;
      call.signal?.addEventListener("abort", onAbort);
      request.once("socket", (socket) => {
        if (!socket.connecting) {
          sent = true;
          return;
        }
        connecting = setTimeout(() => {
          stop(new ConnectionError(`no connection to ${this.options.url} within ${CONNECT_LIMIT_MS} ms`, false));
        }, CONNECT_LIMIT_MS);
        socket.once("connect", () => {
          sent = true;
          clearTimeout(connecting);
        });
      });
      const failed = (error: unknown): NagayaError => {
        done();
        if (cause) return cause;
        const what = sent ? `the connection to ${this.options.url} broke` : `nothing answers at ${this.options.url}`;
        return new ConnectionError(`${what}: ${(error as Error)?.message ?? error}`, sent, error);
      };
      request.once("error", (error) => reject(failed(error)));
      request.once("response", (response) => resolve({ response, failed, done, stop: onAbort }));
      request.end(call.body);
    });
  }

  #read(response: http.IncomingMessage, failed: (error: unknown) => NagayaError): Promise<string> {
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > this.options.answerBytesMax) {
          reject(new NagayaError("answer-too-large", `the answer has more than ${this.options.answerBytesMax} bytes`));
          response.destroy();
          return;
        }
        chunks.push(chunk);
      });
      response.once("end", () => resolve(chunks.length === 1 ? String(chunks[0]) : Buffer.concat(chunks).toString()));
      response.once("error", (error) => reject(failed(error)));
      response.once("close", () => {
        if (!response.complete) reject(failed(new Error("the answer was cut off")));
      });
    });
  }

  /** Closes idle connections. Calls under way go on. */
  close(): void {
    this.#agent.destroy();
  }
}

/** An answer whose body is still to be read. */
export interface Opened {
  response: http.IncomingMessage;
  /** Says what a failure of the body means. */
  failed: (error: unknown) => NagayaError;
  /** To be called when the body was read. */
  done: () => void;
  /** Closes the connection. */
  stop: () => void;
}

function aborted(signal: AbortSignal | undefined): NagayaError {
  return new NagayaError("aborted", "the call was aborted", { cause: signal?.reason });
}

const DETAIL_MAX = 200;

export function problemOf(status: number, body: string, retryAfter?: string): Problem {
  const wait = Number(retryAfter);
  const later = retryAfter !== undefined && Number.isFinite(wait) ? { retryAfterMs: wait * 1_000 } : {};
  let document: unknown;
  try {
    document = JSON.parse(body);
  } catch {
    document = undefined;
  }
  if (typeof document === "object" && document !== null && "type" in document) {
    return { ...readProblem(document as ProblemDocument), status, ...later };
  }
  return { status, name: "", detail: body.slice(0, DETAIL_MAX), ...later };
}

/** A problem as it is written, alone or inside of a batch's answer. */
export interface ProblemDocument {
  type?: string;
  status?: number;
  detail?: string;
  reason?: string | null;
}

export function readProblem(document: ProblemDocument): Problem {
  const problem: Problem = {
    status: document.status ?? 0,
    name: String(document.type ?? "").split("/").at(-1) ?? "",
    detail: document.detail ?? "",
  };
  if (document.reason) problem.reason = document.reason;
  return problem;
}
