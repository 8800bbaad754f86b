#!/usr/bin/env python3
"""Kills the server again and again while workers of several languages share a queue.

No job may be lost, and none may end twice, whatever the workers were doing when the server went. Jobs are registered
by the adapters themselves, in the midst of it. `nagaya jobs work` takes part as well: it is built on the Rust client.
"""

import argparse
import collections
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from suite.adapter import Adapter  # noqa: E402
from suite.server import Background, Server, binary  # noqa: E402

LIMIT = 300
"""Seconds until everything must be over."""
BATCH = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adapter", action="append", required=True, help="the command of an adapter; may be repeated")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="nagaya-torture-"))
    server = Server(folder)
    adapters: list[Adapter] = []
    rust = None
    try:
        adapters = [Adapter(command, folder, f"adapter{n}") for n, command in enumerate(options.adapter)]
        for adapter in adapters:
            adapter.ask("client", url=server.url)
            adapter.ask("work", queues=["torture"], concurrency=8, poll=2)
        command = [binary(), "jobs", "work", "--url", server.url, "--queue", "torture"]
        command += ["--concurrency", "4", "--", "cat"]
        rust = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(folder / "rust.log", "wb"))
        torture(server, adapters, options.jobs, options.kills, random.Random(options.seed))
        check(server, adapters, options.jobs)
    except AssertionError as error:
        print(f"failed with seed {options.seed}: {error}")
        for adapter in adapters:
            print("\n".join(adapter.transcript[-20:]), adapter.errors()[-2000:], sep="\n")
        return 1
    finally:
        for adapter in adapters:
            adapter.close()
        if rust is not None:
            rust.kill()
            rust.wait()
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def torture(server: Server, adapters: list[Adapter], jobs: int, kills: int, dice: random.Random) -> None:
    """Registers jobs through every adapter while the server is killed."""
    problems: list[str] = []

    def submit(adapter: Adapter, numbers: list[int]) -> None:
        for begin in range(0, len(numbers), BATCH):
            batch = [new_job(number) for number in numbers[begin : begin + BATCH]]
            while True:
                # A client gives up after some tries; the application's own keys make starting over safe.
                answer = adapter.answer(adapter.begin("enqueue_many", jobs=batch), LIMIT)
                if "ok" in answer and not any("problem" in item for item in answer["ok"]["items"]):
                    break
                if answer.get("error", {}).get("name") not in ("unreachable", "timeout", "unavailable"):
                    problems.append(str(answer))
                    return

    def new_job(number: int) -> dict[str, object]:
        return {
            "queue": "torture",
            "kind": "echo",
            "payload": {"number": number},
            "key": f"torture-{number}",
            "timeout": 3,
            "max_retries": 100,
            "backoff": {"kind": "fixed", "delay_seconds": 0.1},
        }

    threads = []
    for index, adapter in enumerate(adapters):
        numbers = list(range(index, jobs, len(adapters)))
        threads.append(Background(lambda adapter=adapter, numbers=numbers: submit(adapter, numbers)))
    for _ in range(kills):
        time.sleep(dice.uniform(0.1, 1.2))
        server.kill()
        time.sleep(dice.uniform(0.0, 0.6))
        server.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive(), "jobs could not be registered"
    assert not problems, problems


def check(server: Server, adapters: list[Adapter], jobs: int) -> None:
    """Waits for the end of all jobs and looks at how they ended."""
    end = time.monotonic() + LIMIT
    while True:
        queue = server.call("GET", "/v1/queues/torture")
        open_jobs = sum(queue["depth"][name] for name in ("scheduled", "ready", "blocked", "running"))
        if open_jobs == 0:
            break
        assert time.monotonic() < end, f"{open_jobs} jobs did not end: {queue['depth']}"
        time.sleep(0.1)
    passed = queue["passed"]
    assert passed["enqueued"] == jobs, f"{passed['enqueued']} jobs were registered instead of {jobs}"
    assert passed["succeeded"] == jobs, f"{passed['succeeded']} endings of {jobs} jobs: {passed}"
    numbers, workers, cursor = set(), collections.Counter[str](), None
    while True:
        page = server.call("GET", "/v1/jobs?queue=torture&limit=500" + (f"&cursor={cursor}" if cursor else ""))
        for line in page["jobs"]:
            job = server.call("GET", f"/v1/jobs/{line['id']}")
            ends = [attempt for attempt in job["history"] if attempt["end"] == "succeeded"]
            assert job["state"] == "succeeded" and len(ends) == 1, job
            assert job["result"] == job["payload"], job
            numbers.add(job["payload"]["number"])
            workers[ends[0]["worker"]] += 1
        cursor = page.get("next_cursor")
        if not cursor:
            break
    assert numbers == set(range(jobs)), f"{jobs - len(numbers)} jobs are missing"
    told = collections.Counter(
        event["job"] for adapter in adapters for event in adapter.events("reported", outcome="succeeded")
    )
    twice = [job for job, count in told.items() if count > 1]
    assert not twice, f"two workers were told that they had completed {twice}"
    print(f"{jobs} jobs ended once each; by worker: {dict(workers)}; {passed['leases_lost']} leases lost on the way")


if __name__ == "__main__":
    sys.exit(main())
