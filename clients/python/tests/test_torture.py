"""Workers while their server is killed again and again, and while they are killed themselves."""

from __future__ import annotations

import asyncio
import collections
import os
import pathlib
import signal
import subprocess
import sys
import threading

import nagaya
from nagaya.testing import House

JOBS = 1000
TASKS = """
import nagaya

app = nagaya.App()

@app.job(queue="q", bind=True)
async def task(attempt: nagaya.Attempt, n: int) -> int:
    return n
"""


def jobs_of(queue: str) -> list[nagaya.NewJob]:
    options = {"timeout": 3, "max_retries": 50, "backoff": {"kind": "none"}}
    return [nagaya.NewJob(queue, {"n": n}, kind="task", key=f"n{n}", **options) for n in range(JOBS)]  # type: ignore[arg-type]


def test_no_job_is_lost_or_ends_twice_while_the_server_is_killed() -> None:
    with House() as house:
        app = nagaya.App(house.url)
        runs: collections.Counter[int] = collections.Counter()

        @app.job(queue="q")
        async def task(n: int) -> int:
            runs[n] += 1
            await asyncio.sleep(0.001)
            return n

        registered = app.client.enqueue_many(jobs_of("q"))
        # A few places, so that there is something left to do after every kill.
        worker = app.worker(concurrency=8)
        worker.start()
        for share in (0.2, 0.4, 0.6):
            reached = threading.Event()
            while len(runs) < JOBS * share and not reached.wait(0.005):
                pass
            house.kill()
            house.start()
        waited = app.client.wait_many([one.id or "" for one in registered], timeout=120)
        worker.stop()
        assert [one.result for one in waited] == list(range(JOBS))
        assert set(runs) == set(range(JOBS))
        passed = next(one for one in app.client.queues() if one["name"] == "q")["passed"]
        assert passed["succeeded"] == JOBS and passed["failed"] == 0


def test_no_job_is_lost_while_workers_are_killed(house: House, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS.replace('"q"', '"killed"'))
    environment = {**os.environ, "NAGAYA_URL": house.url}
    command = [sys.executable, "-m", "nagaya.cli", "tasks:app", "--concurrency", "4", "--log-level", "error"]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, cwd=tmp_path, env=environment)

    client = house.client()
    registered = client.enqueue_many(jobs_of("killed"))
    workers = [start(), start()]
    try:
        for number, kind in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
            client.wait(registered[(number + 1) * 150].id or "", timeout=60)
            ended = workers.pop(0)
            ended.send_signal(kind)
            ended.wait(60)
            workers.append(start())
        waited = client.wait_many([one.id or "" for one in registered], timeout=120)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert [one.result for one in waited] == list(range(JOBS))
