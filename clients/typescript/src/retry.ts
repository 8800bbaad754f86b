/** How often and after which pauses a call is repeated. */
export interface RetryPolicy {
  /** How often a call is sent in total; 1 means no repetition. */
  attempts: number;
  /** The pause after the first failure, in milliseconds; it doubles up to `maxMs`. */
  firstMs: number;
  maxMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = { attempts: 6, firstMs: 100, maxMs: 5_000 };

/**
 * Returns the pause after the nth failure, counted from 1: between half of the doubled pause and all of it, so that
 * many clients do not come back at one moment. A longer `Retry-After` counts, up to the longest pause.
 */
export function pauseAfter(policy: RetryPolicy, failures: number, retryAfterMs = 0, random = Math.random()): number {
  const whole = Math.min(policy.firstMs * 2 ** Math.min(failures - 1, 20), policy.maxMs);
  return Math.max(whole * (0.5 + random / 2), Math.min(retryAfterMs, policy.maxMs));
}
