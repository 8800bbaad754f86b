"""Workers against a real server, beyond what the conformance suite covers."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import nagaya
from nagaya.testing import House

Run = Callable[..., nagaya.Worker]

process_app = nagaya.App()


@process_app.job(queue="processes")
def where(extra: int = 0) -> list[int]:
    return [os.getpid(), extra]


@process_app.job(queue="processes", max_retries=0)
async def where_async() -> int:
    await asyncio.sleep(0)
    return os.getpid()


@process_app.job(queue="processes", max_retries=0)
def crash() -> None:
    os._exit(7)


@process_app.job(queue="processes", bind=True, max_retries=0, timeout=2)
def hang(attempt: nagaya.Attempt) -> None:
    attempt.progress(0.1)
    time.sleep(600)


def test_functions_are_enqueued_with_their_arguments(run: Run, queue: str) -> None:
    app = nagaya.App()

    @app.job(queue=queue)
    def add(a: int, b: int = 2, *, c: int = 3) -> int:
        return a + b + c

    @app.job(queue=queue, kind="shout")
    async def louder(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    run(app)
    assert add.enqueue(1).wait(20) == 6
    assert add.enqueue(1, b=10, c=100).wait(20) == 111
    assert louder.enqueue("a").wait(20) == "A"
    assert add(1, 1, c=1) == 3, "it can still be called"
    with pytest.raises(TypeError):
        add.enqueue()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="already"):
        app.job(kind="shout")(lambda: None)


def test_options_are_of_the_call_and_of_the_job(house: House, queue: str) -> None:
    app = nagaya.App(house.url)

    @app.job(queue=queue, max_retries=9, priority=1)
    def task(n: int) -> None: ...

    job = task.options(priority=5, key="same", delay=60).enqueue(1)
    assert task.options(key="same").enqueue(1).id == job.id
    raw = job.info().raw
    assert (raw["priority"], raw["max_retries"], raw["state"]) == (5, 9, "scheduled")
    assert task.enqueue(2).info().raw["priority"] == 1


def test_asyncio_enqueues_and_waits(run: Run, queue: str) -> None:
    app = nagaya.App()

    @app.job(queue=queue)
    async def double(n: int) -> int:
        return 2 * n

    run(app)

    async def work() -> list[Any]:
        jobs = await asyncio.gather(*(double.aenqueue(n) for n in range(20)))
        return list(await asyncio.gather(*(job.wait(20) for job in jobs)))

    assert asyncio.run(work()) == [2 * n for n in range(20)]


def test_a_worker_runs_on_the_callers_loop(house: House, queue: str) -> None:
    app = nagaya.App(house.url)
    loops: list[asyncio.AbstractEventLoop] = []

    @app.job(queue=queue)
    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    async def work() -> nagaya.Tally:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run_async())
        job = await note.aenqueue()
        await job.wait(20)
        worker.stop(wait=False)
        tally = await asyncio.wait_for(running, 20)
        assert loops == [asyncio.get_running_loop()]
        return tally

    assert asyncio.run(work()).succeeded == 1


def test_types_of_payloads_are_checked_and_made(run: Run, queue: str) -> None:
    pydantic = pytest.importorskip("pydantic")

    @dataclasses.dataclass
    class Size:
        width: int
        height: int = 1

    class Model(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        count: int

    app = nagaya.App()
    seen: list[Any] = []

    def whole(size: Size) -> int:
        seen.append(size)
        return size.width * size.height

    def parts(name: str, sizes: list[Size]) -> int:
        seen.append(sizes)
        return len(sizes)

    def model(given: Model) -> dict[str, int]:
        seen.append(given)
        return {"count": given.count}

    for function in (whole, parts, model):
        function.__annotations__ = {
            "size": Size, "name": str, "sizes": list[Size], "given": Model,
        } | {}
        app.job(queue=queue, max_retries=0)(function)
    run(app)
    jobs = app.jobs
    assert jobs["whole"].enqueue(Size(3, 4)).wait(20) == 12
    assert jobs["parts"].enqueue("a", [Size(1), Size(2, 2)]).wait(20) == 2
    assert jobs["model"].enqueue(Model(count=3)).wait(20) == {"count": 3}
    assert seen == [Size(3, 4), [Size(1), Size(2, 2)], Model(count=3)]
    for kind, payload, field in (
        ("whole", {"width": "x"}, "width"),
        ("parts", {"name": "a", "sizes": [{"width": 1}, {}]}, r"sizes\[1\].width"),
        ("model", {"count": "many"}, "count"),
    ):
        with pytest.raises(nagaya.JobFailed, match=field):
            app.client.enqueue(queue, payload, kind=kind, max_retries=5).wait(20)


def test_progress_logs_and_the_current_attempt(run: Run, queue: str) -> None:
    app = nagaya.App()
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    keep = Keep()
    keep.addFilter(nagaya.JobFilter())
    logger = logging.getLogger(f"test.{queue}")
    logger.addHandler(keep)

    @app.job(queue=queue, bind=True)
    def sync(attempt: nagaya.Attempt) -> str:
        attempt.progress(0.5, "half", {"left": 2})
        attempt.log("one", "two")
        logger.warning("in a handler")
        return nagaya.current_attempt().id

    @app.job(queue=queue, bind=True)
    async def on_loop(attempt: nagaya.Attempt) -> str:
        await attempt.aprogress(2.0)
        await attempt.alog("three")
        return nagaya.current_attempt().id

    run(app)
    job = sync.enqueue()
    assert job.wait(20) == job.id
    progress = job.info().progress
    assert progress is not None and (progress["progress"], progress["data"]) == (0.5, {"left": 2})
    lines = app.client.call("GET", f"/v1/jobs/{job.id}/log")["lines"]
    assert [line["text"] for line in lines] == ["one", "two"]
    assert (records[0].job_id, records[0].job_attempt) == (job.id, 1)  # type: ignore[attr-defined]
    job = on_loop.enqueue()
    assert job.wait(20) == job.id
    logger.warning("outside")
    assert records[-1].job_id == ""  # type: ignore[attr-defined]


def test_results_that_cannot_be_stored_fail_for_good(run: Run, queue: str) -> None:
    app = nagaya.App()

    @app.job(queue=queue)
    def large() -> str:
        return "x" * 3_000_000

    @app.job(queue=queue)
    def strange() -> object:
        return object()

    @app.job(queue=queue)
    async def leaves() -> None:
        raise SystemExit(1)

    worker = run(app)
    for definition, text in ((large, "rejected the result"), (strange, "cannot be written as JSON")):
        with pytest.raises(nagaya.JobFailed, match=text):
            definition.enqueue().wait(20)
    with pytest.raises(nagaya.JobFailed, match="SystemExit"):
        leaves.options(max_retries=0).enqueue().wait(20)
    assert worker.tally.failed == 3


def test_errors_have_their_trace(run: Run, queue: str) -> None:
    app = nagaya.App()

    @app.job(queue=queue, max_retries=0)
    def broken() -> None:
        raise KeyError("the key")

    run(app)
    with pytest.raises(nagaya.JobFailed, match="KeyError: 'the key'") as raised:
        broken.enqueue().wait(20)
    assert "test_worker.py" in str(raised.value)


def test_many_jobs_on_few_places_and_threads(run: Run, queue: str) -> None:
    app = nagaya.App()
    lock = threading.Lock()
    running, most = 0, 0

    @app.job(queue=queue)
    def count(n: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001)
        with lock:
            running -= 1
        return n

    registered = app_enqueue(app, queue, [count.job(n) for n in range(300)], run, concurrency=5)
    for number, one in enumerate(registered):
        assert app.client.wait(one.id or "", 30) == number
    assert most <= 5


def app_enqueue(
    app: nagaya.App, queue: str, jobs: list[nagaya.NewJob], run: Run, **options: Any
) -> list[nagaya.Registered]:
    run(app, **options)
    return app.client.enqueue_many(jobs)


def test_handlers_run_in_processes_that_may_crash_and_are_killed(run: Run) -> None:
    worker = run(process_app, isolation="process", concurrency=2, grace=0.5)
    here = os.getpid()
    (pid, extra), other = where.enqueue(5).wait(60), where_async.enqueue().wait(60)
    assert extra == 5 and here not in (pid, other)
    with pytest.raises(nagaya.JobFailed, match="exit code 7"):
        crash.enqueue().wait(60)
    stuck = hang.enqueue()
    while stuck.info().progress is None:
        time.sleep(0.02)
    stuck.cancel()
    jobs = [where.enqueue(n) for n in range(6)]
    assert sorted(job.wait(60)[1] for job in jobs) == list(range(6)), "the place of the killed one is used again"
    assert worker.tally.lost == 1


def test_notes_tell_what_a_worker_does(run: Run, queue: str) -> None:
    app = nagaya.App()

    @app.job(queue=queue)
    async def nothing() -> None: ...

    notes: list[nagaya.Note] = []
    run(app, on_note=notes.append)
    nothing.enqueue().wait(20)
    while not any(note.name == "reported" for note in notes):
        time.sleep(0.01)
    assert [note.name for note in notes] == ["claimed", "started", "ended", "reported"]


def test_a_worker_that_cannot_be_is_refused(house: House) -> None:
    app = nagaya.App(house.url)
    with pytest.raises(ValueError, match="queue"):
        app.worker()
    with pytest.raises(ValueError, match="isolation"):
        app.worker(["q"], isolation="fibres")
    with pytest.raises(TypeError, match="attempt first"):
        app.job(bind=True)(lambda: None)  # type: ignore[arg-type,misc]
    with pytest.raises(TypeError, match="names"):
        app.job()(lambda *values: None)
