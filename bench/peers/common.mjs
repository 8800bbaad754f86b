// What the Node runners share: the plan, the clock, and how results are told.
//
// The plan comes as JSON in NAGAYA_BENCH_PLAN: {url, jobs, single: [[clients, jobs], ...], latency_seconds}.
// Each result is one line of JSON on standard output; everything else goes to standard error.

export const plan = JSON.parse(process.env.NAGAYA_BENCH_PLAN);
export const BATCH = 1000;

export const seconds = () => performance.now() / 1000;

export function tell(part, jobs, elapsed, more = {}) {
  console.log(JSON.stringify({ part, jobs, seconds: elapsed, ...more }));
}

export async function timed(work) {
  const from = seconds();
  await work();
  return seconds() - from;
}

// Runs `enqueue` as often as told from some clients at a time and tells how long it took.
export async function single(enqueue, clients, jobs) {
  let left = jobs;
  const client = async () => {
    while (left-- > 0) await enqueue();
  };
  const elapsed = await timed(() => Promise.all(Array.from({ length: clients }, client)));
  tell(`single-${clients}`, jobs, elapsed, { clients });
  return jobs / elapsed;
}

// Enqueues at an even rate; the handler calls `started` with each job's own time of registration.
export class Latencies {
  constructor() {
    this.found = [];
  }

  started(enqueuedAt) {
    this.found.push(performance.now() - enqueuedAt);
  }

  async measure(enqueue, rate, duration) {
    const total = Math.max(20, Math.round(rate * duration));
    const from = performance.now();
    const calls = [];
    for (let sent = 0; sent < total; ) {
      const due = Math.min(total, Math.floor(((performance.now() - from) / 1000) * rate) + 1);
      for (; sent < due; sent++) calls.push(enqueue(performance.now()));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await Promise.all(calls);
    const until = performance.now() + 30_000;
    while (this.found.length < total && performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const sorted = this.found.slice().sort((a, b) => a - b);
    const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
    tell("latency", sorted.length, (performance.now() - from) / 1000, {
      rate,
      missing: total - sorted.length,
      p50_ms: at(0.5),
      p99_ms: at(0.99),
    });
  }
}

// Resolves when `count` has been reached by calls of `one`.
export function countdown(count) {
  let done = 0;
  let finish;
  const all = new Promise((resolve) => (finish = resolve));
  return { one: (by = 1) => (done += by) >= count && finish(), all };
}
