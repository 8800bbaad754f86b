import type { Client } from "./client.js";
import { pause } from "./duration.js";
import { ConnectionError, NagayaError, ProblemError } from "./errors.js";
import { DEFAULT_RETRY, pauseAfter } from "./retry.js";
import { problemOf } from "./transport.js";
import type { EventKind, EventView } from "./types.js";

/** The server shows every 15 seconds that it is there; three of those missed mean that the connection is dead. */
const SILENCE_MAX_MS = 45_000;
const LINE_CHARS_MAX = 64 << 20;

export interface EventsOptions {
  /**
   * A name whose position the server keeps: a reader that comes back gets everything since the last `ack()`. It is created
   * if there is none.
   */
  subscription?: string;
  queue?: string;
  kinds?: readonly EventKind[];
  /** Begins after this event; `"0"` is the beginning of the log. With the next event when left out. */
  after?: string;
  /** Only of this job, up to its end. */
  job?: string;
  signal?: AbortSignal;
}

export interface JobEvent extends EventView {
  /** Tells the server that everything up to this event was dealt with. Only with a subscription. */
  ack(): Promise<void>;
}

/** Events that the log no longer has: read the jobs themselves. */
export interface GapEvent {
  kind: "gap";
  after: string;
  up_to: string;
  see: string;
  ack(): Promise<void>;
}

export async function* events(
  client: Client,
  options: EventsOptions,
): AsyncGenerator<JobEvent | GapEvent, void, undefined> {
  if (options.subscription !== undefined) await subscribe(client, options.subscription, options);
  let last = options.subscription === undefined ? options.after : undefined;
  for (let failures = 0; !options.signal?.aborted; ) {
    try {
      for await (const message of stream(client, options, last)) {
        failures = 0;
        if (message === "ended") return;
        // A gap may lead back: a log that was restored from a copy ends before what this reader has seen.
        const isNew = last === undefined || message.event === "gap" || (message.id !== undefined && isAfter(message.id, last));
        if (message.id === undefined || !isNew) continue;
        last = message.id;
        if (message.data === undefined) continue;
        const position = message.id;
        yield Object.assign(JSON.parse(message.data) as EventView, {
          kind: message.event,
          ack: () => acknowledge(client, options.subscription, position),
        }) as JobEvent | GapEvent;
      }
      failures += 1;
    } catch (error) {
      if (options.signal?.aborted) return;
      if (!(error instanceof NagayaError) || !error.isTemporary) throw error;
      failures += 1;
      const wish = error instanceof ProblemError ? error.problem.retryAfterMs : undefined;
      await pause(pauseAfter(DEFAULT_RETRY, failures, wish), options.signal);
      continue;
    }
    // The server closed the stream, perhaps to be restarted.
    await pause(pauseAfter(DEFAULT_RETRY, failures), options.signal);
  }
}

async function subscribe(client: Client, name: string, options: EventsOptions): Promise<void> {
  const { queue, kinds, after } = options;
  if (queue === undefined && kinds === undefined && after === undefined) {
    const { subscriptions } = await client.request<{ subscriptions: { name: string }[] }>("GET", "/v1/subscriptions");
    if (subscriptions.some((one) => one.name === name)) return;
  }
  await client.request("PUT", `/v1/subscriptions/${encodeURIComponent(name)}`, { queue, kinds, after }, "safe");
}

async function acknowledge(client: Client, name: string | undefined, cursor: string): Promise<void> {
  if (name === undefined) throw new TypeError("only events of a subscription can be acknowledged");
  await client.request("POST", `/v1/subscriptions/${encodeURIComponent(name)}/ack`, { cursor }, "safe");
}

/** Positions are whole numbers of up to 18 digits, as text. */
function isAfter(one: string, other: string): boolean {
  return one.length === other.length ? one > other : one.length > other.length;
}

interface Message {
  id: string | undefined;
  event: string;
  data: string | undefined;
}

/** Reads one connection until it ends. */
async function* stream(
  client: Client,
  options: EventsOptions,
  last: string | undefined,
): AsyncGenerator<Message | "ended", void, undefined> {
  const query = new URLSearchParams();
  if (options.subscription !== undefined) query.set("subscription", options.subscription);
  else if (options.job === undefined) {
    if (options.queue !== undefined) query.set("queue", options.queue);
    if (options.kinds !== undefined) query.set("kind", options.kinds.join(","));
  }
  if (last !== undefined) query.set("after", last);
  const base = options.job === undefined ? "/v1/events" : `/v1/jobs/${encodeURIComponent(options.job)}/events`;
  const opened = await client.transport.open({
    method: "GET",
    path: `${base}?${query}`,
    repeat: "safe",
    signal: options.signal,
    headers: { accept: "text/event-stream" },
  });
  const { response } = opened;
  response.setEncoding("utf8");
  if (response.statusCode === 204) {
    response.resume();
    opened.done();
    return yield "ended";
  }
  if (response.statusCode !== 200) {
    let text = "";
    for await (const chunk of response) text += chunk;
    opened.done();
    throw new ProblemError(problemOf(response.statusCode ?? 0, text, response.headers["retry-after"]));
  }
  const silence = setTimeout(() => response.destroy(new Error("nothing was heard for too long")), SILENCE_MAX_MS);
  let rest = "";
  try {
    for await (const chunk of response as AsyncIterable<string>) {
      silence.refresh();
      rest += chunk;
      if (rest.length > LINE_CHARS_MAX) throw new NagayaError("answer-too-large", "an event is too large");
      const blocks = rest.split("\n\n");
      rest = blocks.pop() as string;
      for (const block of blocks) yield parse(block);
    }
    // A job's stream ends with its job; asking again tells: there is 204 after the last event.
  } catch (error) {
    throw error instanceof NagayaError ? error : new ConnectionError(`the stream broke: ${error}`, true, error);
  } finally {
    clearTimeout(silence);
    opened.done();
    response.destroy();
  }
}

function parse(block: string): Message {
  const message: Message = { id: undefined, event: "message", data: undefined };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    switch (line.slice(0, colon)) {
      case "id":
        message.id = value;
        break;
      case "event":
        message.event = value;
        break;
      case "data":
        message.data = message.data === undefined ? value : `${message.data}\n${value}`;
        break;
    }
  }
  return message;
}
