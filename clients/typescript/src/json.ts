/**
 * JSON that keeps every byte where that matters.
 *
 * `JSON.parse` rounds integers beyond 2^53. Whoever needs them sends {@link RawJson} or `bigint`s, and reads the raw
 * text of a payload or result; everything else is ordinary JSON at its ordinary speed.
 */

class NeedsCare extends Error {}

/** JSON text that is passed on byte for byte. */
export class RawJson {
  readonly text: string;
  constructor(text: string) {
    JSON.parse(text);
    this.text = text;
  }

  /** Wraps text that a server has parsed already. */
  static trusted(text: string): RawJson {
    const raw = Object.create(RawJson.prototype) as { text: string };
    raw.text = text;
    return raw as RawJson;
  }

  /** Parses the text; with `bigints`, integers that a number cannot hold become `bigint`s. */
  value(options: { bigints?: boolean } = {}): unknown {
    return options.bigints ? parseWithBigints(this.text) : JSON.parse(this.text);
  }

  toJSON(): never {
    // `encode` catches this and starts again, carefully.
    throw new NeedsCare("RawJson can be written by this package only");
  }
}

/** Bytes with a media type, as a payload or a result that is not JSON. */
export class Binary {
  readonly bytes: Uint8Array;
  readonly contentType: string;
  constructor(bytes: Uint8Array, contentType = "application/octet-stream") {
    this.bytes = bytes;
    this.contentType = contentType;
  }
}

/** Writes a value as JSON. `bigint`s become numbers, {@link RawJson} its own text, `undefined` null. */
export function encode(value: unknown): string {
  if (value instanceof RawJson) return value.text;
  try {
    return JSON.stringify(value) ?? "null";
  } catch (error) {
    if (error instanceof NeedsCare || holdsBigint(error)) return encodeCarefully(value);
    throw error;
  }
}

function holdsBigint(error: unknown): boolean {
  return error instanceof TypeError && /bigint/i.test(error.message);
}

function encodeCarefully(value: unknown): string {
  const mark = `nagaya-raw-${crypto.randomUUID()}-`;
  const kept: string[] = [];
  const keep = (text: string) => `${mark}${kept.push(text) - 1}`;
  const text = JSON.stringify(value, function (this: Record<string, unknown>, key, shown) {
    const original = this[key];
    if (original instanceof RawJson) return keep(original.text);
    return typeof shown === "bigint" ? keep(shown.toString()) : shown;
  }, undefined);
  return text.replaceAll(new RegExp(`"${mark}(\\d+)"`, "g"), (_, index) => kept[Number(index)] as string);
}

function parseWithBigints(text: string): unknown {
  const mark = `nagaya-big-${crypto.randomUUID()}-`;
  let out = "";
  for (let at = 0; at < text.length; ) {
    if (text[at] === '"') {
      const end = skipString(text, at);
      out += text.slice(at, end);
      at = end;
      continue;
    }
    const number = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
    number.lastIndex = at;
    const found = number.exec(text)?.[0];
    if (found === undefined) {
      out += text[at++];
      continue;
    }
    const isBig = /^-?\d+$/.test(found) && !Number.isSafeInteger(Number(found));
    out += isBig ? `"${mark}${found}"` : found;
    at += found.length;
  }
  return JSON.parse(out, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

/** Returns the raw text of a value inside a JSON document, found by member names and indexes. */
export function rawAt(text: string, path: readonly (string | number)[]): RawJson | undefined {
  let at = skipSpace(text, 0);
  for (const step of path) {
    const found = typeof step === "number" ? element(text, at, step) : member(text, at, step);
    if (found === undefined) return undefined;
    at = found;
  }
  return RawJson.trusted(text.slice(at, skipValue(text, at)));
}

function element(text: string, start: number, index: number): number | undefined {
  if (text[start] !== "[") return undefined;
  let at = skipSpace(text, start + 1);
  for (let left = index; text[at] !== "]"; left -= 1) {
    if (left === 0) return at;
    at = skipSpace(text, skipValue(text, at));
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return undefined;
}

function member(text: string, start: number, name: string): number | undefined {
  if (text[start] !== "{") return undefined;
  let at = skipSpace(text, start + 1);
  while (text[at] === '"') {
    const end = skipString(text, at);
    const key = JSON.parse(text.slice(at, end)) as string;
    at = skipSpace(text, skipSpace(text, end) + 1);
    if (key === name) return at;
    at = skipSpace(text, skipValue(text, at));
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return undefined;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (/\s/.test(text[at] ?? "x")) at += 1;
  return at;
}

function skipString(text: string, start: number): number {
  for (let at = start + 1; ; ) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let slashes = 0;
    while (text[quote - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

function skipValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return skipString(text, start);
  if (first !== "{" && first !== "[") {
    let at = start;
    while (at < text.length && !/[,\]}\s]/.test(text[at] as string)) at += 1;
    return at;
  }
  let depth = 0;
  for (let at = start; at < text.length; ) {
    const one = text[at];
    if (one === '"') {
      at = skipString(text, at);
      continue;
    }
    if (one === "{" || one === "[") depth += 1;
    if ((one === "}" || one === "]") && --depth === 0) return at + 1;
    at += 1;
  }
  return text.length;
}
