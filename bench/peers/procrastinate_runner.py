"""procrastinate: one worker, 20 jobs at a time; the same parts and lines as the Node runners."""

import asyncio
import json
import os
import time

import procrastinate

PLAN = json.loads(os.environ["NAGAYA_BENCH_PLAN"])
BATCH = 1000
latencies = []

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=PLAN["url"], min_size=2, max_size=30)
)


@app.task(queue="noop", name="noop")
async def noop(at=None):
    if at is not None:
        latencies.append((time.perf_counter() - at) * 1000)


def tell(part, jobs, elapsed, **more):
    print(json.dumps({"part": part, "jobs": jobs, "seconds": elapsed, **more}), flush=True)


async def drain():
    await app.run_worker_async(queues=["noop"], concurrency=20, wait=False, delete_jobs="always",
                               install_signal_handlers=False)


async def main():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        jobs = PLAN["jobs"]
        start = time.perf_counter()
        for begin in range(0, jobs, BATCH):
            await noop.batch_defer_async(*[{} for _ in range(min(BATCH, jobs - begin))])
        tell("bulk", jobs, time.perf_counter() - start)
        start = time.perf_counter()
        await drain()
        burn = time.perf_counter() - start
        tell("burn", jobs, burn)
        peak = jobs / burn
        for clients, count in PLAN["single"]:
            left = count

            async def client():
                nonlocal left
                while left > 0:
                    left -= 1
                    await noop.defer_async()

            start = time.perf_counter()
            await asyncio.gather(*[client() for _ in range(clients)])
            elapsed = time.perf_counter() - start
            tell(f"single-{clients}", count, elapsed, clients=clients)
            peak = count / elapsed
            await drain()
        await measure(min(peak, jobs / burn) / 2, PLAN["latency_seconds"])


async def measure(rate, duration):
    worker = asyncio.create_task(
        app.run_worker_async(queues=["noop"], concurrency=20, delete_jobs="always", install_signal_handlers=False)
    )
    await asyncio.sleep(1)
    total = max(20, round(rate * duration))
    start = time.perf_counter()
    calls = []
    while len(calls) < total:
        due = min(total, int((time.perf_counter() - start) * rate) + 1)
        while len(calls) < due:
            calls.append(asyncio.create_task(noop.defer_async(at=time.perf_counter())))
        await asyncio.sleep(0.001)
    await asyncio.gather(*calls)
    until = time.perf_counter() + 30
    while len(latencies) < total and time.perf_counter() < until:
        await asyncio.sleep(0.02)
    found = sorted(latencies)

    def at(share):
        return found[min(len(found) - 1, int(len(found) * share))] if found else None

    tell("latency", len(found), time.perf_counter() - start, rate=rate, missing=total - len(found),
         p50_ms=at(0.5), p99_ms=at(0.99))
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


asyncio.run(main())
