"""The calls of the API, without sending them; shared by both clients."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import trace
from ._http.wire import Call, Repeat, quoted
from .codec import dumps
from .errors import JobCancelled, JobFailed, JobGone, Refused, StillRunning
from .jobs import JobInfo, NewJob, Registered

WAIT_MAX = 30.0
"""The longest that one long poll waits; below the usual limits of proxies."""
BATCH_JOBS_MAX = 1000
BATCH_BYTES_MAX = 4 << 20


def nothing(_: bytes) -> None:
    """Reads an answer that does not matter."""


def document(body: bytes) -> Any:
    return json.loads(body) if body else None


def post(path: str, body: Any, repeat: Repeat) -> Call[Any]:
    return Call("POST", path, document, dumps(body).encode(), repeat=repeat)


def enqueue(job: NewJob) -> Call[Registered]:
    """Registers a job. With the key that it has or gets, it can be repeated."""
    body = trace.carried(job).body(new_key())
    return Call("POST", "/v1/jobs", lambda answer: Registered.read(json.loads(answer)), body.encode())


def enqueue_many(jobs: Iterable[NewJob]) -> Iterator[Call[list[Registered]]]:
    """Registers jobs in as few calls as the limits of a request allow."""
    batch: list[str] = []
    size = 0
    for job in jobs:
        body = trace.carried(job).body(new_key())
        if batch and (len(batch) >= BATCH_JOBS_MAX or size + len(body) > BATCH_BYTES_MAX):
            yield _batch(batch)
            batch, size = [], 0
        batch.append(body)
        size += len(body)
    if batch:
        yield _batch(batch)


def _batch(bodies: list[str]) -> Call[list[Registered]]:
    def read(answer: bytes) -> list[Registered]:
        return [Registered.read(item) for item in json.loads(answer)["jobs"]]

    return Call("POST", "/v1/jobs/batch", read, f'{{"jobs":[{",".join(bodies)}]}}'.encode())


def new_key() -> str:
    return uuid.uuid4().hex


def info(id: str, wait: float = 0.0) -> Call[JobInfo]:
    query = f"?wait={int(wait * 1000)}ms" if wait > 0 else ""
    return Call("GET", f"/v1/jobs/{quoted(id)}{query}", lambda body: JobInfo.read(json.loads(body)), wait=wait)


def next_wait(left: float | None) -> float:
    """Returns how long the next poll waits; at least a moment, so that a server that does not wait is not asked in a
    tight loop."""
    return WAIT_MAX if left is None else min(WAIT_MAX, max(left, 0.001))


def outcome(job: JobInfo) -> Any:
    """Returns the result of a job that was waited for, or raises what became of it."""
    if job.state == "succeeded":
        return job.result
    if job.state == "failed":
        raise JobFailed(job)
    if job.state == "cancelled":
        raise JobCancelled(job)
    raise StillRunning(job)


def gone(id: str, error: Refused) -> Exception:
    """Returns what a waiter gets for an error of the server."""
    return JobGone(f"there is no job {id}") if error.problem.status == 404 else error


def cancel(id: str, reason: str | None) -> Call[Any]:
    body = {} if reason is None else {"reason": reason}
    return post(f"/v1/jobs/{quoted(id)}/cancel", body, Repeat.SAFE)


def retry(id: str) -> Call[Any]:
    return post(f"/v1/jobs/{quoted(id)}/retry", {}, Repeat.IF_NOT_DONE)


def delete(path: str) -> Call[None]:
    return Call("DELETE", path, nothing, repeat=Repeat.IF_NOT_DONE)


def put(path: str, body: Any, method: str = "PUT") -> Call[Any]:
    return Call(method, path, document, dumps(body).encode())


def get(path: str, query: Mapping[str, Any] | None = None) -> Call[Any]:
    given = {name: value for name, value in (query or {}).items() if value is not None}
    text = "&".join(f"{name}={quoted(str(value))}" for name, value in given.items())
    return Call("GET", f"{path}?{text}" if text else path, document)


def schedule(name: str, cron: str, job: NewJob, options: Mapping[str, Any]) -> Call[Any]:
    """Makes or replaces a schedule. Each run gets a key by itself."""
    if job.key is not None:
        raise ValueError("the job of a schedule has no key: each run gets one by itself")
    fields = dumps({"cron": cron, **{name: value for name, value in options.items() if value is not None}})
    body = f'{fields[:-1]},"job":{job.body()}}}'
    return Call("PUT", f"/v1/schedules/{quoted(name)}", document, body.encode())


def ids(count: int) -> Call[list[int]]:
    """Fetches ids. A repetition fetches others, which is harmless."""
    return Call("GET", f"/v1/ids?n={count}", lambda body: [int(one) for one in json.loads(body)["ids"]])
