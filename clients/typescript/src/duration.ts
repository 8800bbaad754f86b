/** A length of time: milliseconds as a number, or text such as `"250ms"`, `"30s"`, `"5m"`, `"2h"` or `"7d"`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns the milliseconds of a duration. */
export function milliseconds(duration: Duration): number {
  if (typeof duration === "number") {
    if (Number.isFinite(duration) && duration >= 0) return duration;
  } else {
    const parts = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(duration.trim());
    if (parts) return Number(parts[1]) * (UNITS[parts[2] as string] as number);
  }
  throw new TypeError(`${JSON.stringify(duration)} is no duration: give milliseconds, or text such as "30s"`);
}

/** Returns the seconds of a duration as the API takes them: with fractions down to a millisecond. */
export function seconds(duration: Duration): number {
  return Math.round(milliseconds(duration)) / 1_000;
}

/** Returns the time of a clock that no change of the wall clock moves and that all threads share, in milliseconds. */
export function now(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}

/** Resolves after a time, or as soon as the signal is aborted; says which of the two it was. */
export function pause(ms: number, signal?: AbortSignal): Promise<"over" | "aborted"> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve("aborted");
    const end = (how: "over" | "aborted") => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      resolve(how);
    };
    const abort = () => end("aborted");
    const timer = setTimeout(() => end("over"), ms);
    signal?.addEventListener("abort", abort);
  });
}
