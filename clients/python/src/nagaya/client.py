"""The client for threads."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _calls
from ._http.blocking import Transport
from ._http.wire import Address, Call, Repeat, RetryPolicy, quoted
from .errors import Refused
from .events import Event, Gap, Selection, follow
from .jobs import JobInfo, NewJob, Registered

DEFAULT_URL = "http://127.0.0.1:7400"


@dataclass(frozen=True)
class Job:
    """A registered job, with what can be done about it."""

    client: Client
    id: str
    found_by: str | None = None
    """The key by which an earlier registration was found: this one made no job."""

    def wait(self, timeout: float | None = None) -> Any:
        """Returns the result as soon as there is one. Raises `JobFailed`, `JobCancelled`, `JobGone`, or
        `StillRunning` when the time is over."""
        return self.client.wait(self.id, timeout)

    def info(self) -> JobInfo:
        return self.client.info(self.id)

    def cancel(self, reason: str | None = None) -> None:
        self.client.cancel(self.id, reason)

    def retry(self) -> None:
        self.client.retry(self.id)


class Client:
    """Speaks to one server, from any number of threads.

    The address and the token come from `NAGAYA_URL` and `NAGAYA_TOKEN` if they are not given. Calls are repeated
    where that is safe; registrations always are, since each gets an idempotency key.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retry: RetryPolicy | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        address = Address(url or os.environ.get("NAGAYA_URL") or DEFAULT_URL, token or os.environ.get("NAGAYA_TOKEN"))
        self._transport = Transport(address, timeout, retry, tls)

    @property
    def url(self) -> str:
        return self._transport.address.url

    @property
    def transport(self) -> Transport:
        """The connections, for calls that have no method here."""
        return self._transport

    def enqueue(self, queue: str | NewJob, payload: Any = None, **options: Any) -> Job:
        """Registers a job; the options are the fields of `NewJob`. When this returns, the server has it on disk."""
        job = queue if isinstance(queue, NewJob) else NewJob(queue, payload, **options)
        registered = self._transport.send(_calls.enqueue(job))
        assert registered.id is not None
        return Job(self, registered.id, registered.found_by)

    def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Registered]:
        """Registers many jobs in few calls. Each succeeds or fails on its own; the results are in the same order."""
        results: list[Registered] = []
        for call in _calls.enqueue_many(jobs):
            answers = self._transport.send(call)
            results.extend(answers)
        return results

    def job(self, id: str) -> Job:
        """Returns a handle of a job; asks nothing of the server."""
        return Job(self, id)

    def info(self, id: str) -> JobInfo:
        """Reads a job."""
        return self._transport.send(_calls.info(id))

    def wait_info(self, id: str, timeout: float | None = None) -> JobInfo:
        """Returns a job as soon as it has ended, or as it is when the time is over."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else end - time.monotonic()
            job = self._transport.send(_calls.info(id, _calls.next_wait(left)))
            if job.has_ended or (end is not None and time.monotonic() >= end):
                return job

    def wait(self, id: str, timeout: float | None = None) -> Any:
        """Returns a job's result as soon as there is one; see `Job.wait`."""
        try:
            return _calls.outcome(self.wait_info(id, timeout))
        except Refused as error:
            raise _calls.gone(id, error) from error

    def cancel(self, id: str, reason: str | None = None) -> None:
        """Cancels a job that has not ended; a running attempt loses its lease."""
        self._transport.send(_calls.cancel(id, reason))

    def retry(self, id: str) -> None:
        """Lets a job that has ended run again."""
        self._transport.send(_calls.retry(id))

    def change(self, id: str, **fields: Any) -> None:
        """Changes a job that has not started: `priority`, `run_at`, `payload`, `timeout_seconds`, `max_retries`."""
        self._transport.send(_calls.put(f"/v1/jobs/{quoted(id)}", fields, "PATCH"))

    def delete(self, id: str) -> None:
        """Removes a job that has ended."""
        self._transport.send(_calls.delete(f"/v1/jobs/{quoted(id)}"))

    def jobs(self, **filter: Any) -> Iterator[JobInfo]:
        """Yields jobs, newest first: `queue`, `state`, `kind`, `tag`, `search`, `since`, `before`."""
        cursor: str | None = None
        while True:
            page = self.call("GET", "/v1/jobs", query={**filter, "cursor": cursor})
            yield from map(JobInfo.read, page["jobs"])
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def set_schedule(
        self,
        name: str,
        cron: str,
        job: NewJob,
        *,
        time_zone: str | None = None,
        missed: str | None = None,
        paused: bool | None = None,
    ) -> None:
        """Makes or replaces a schedule, which registers the job at every time of the cron expression."""
        options = {"time_zone": time_zone, "missed": missed, "paused": paused}
        self._transport.send(_calls.schedule(name, cron, job, options))

    def schedules(self) -> list[dict[str, Any]]:
        return list(self.call("GET", "/v1/schedules")["schedules"])

    def delete_schedule(self, name: str) -> None:
        self._transport.send(_calls.delete(f"/v1/schedules/{quoted(name)}"))

    def queues(self) -> list[dict[str, Any]]:
        return list(self.call("GET", "/v1/queues")["queues"])

    def set_queue(self, queue: str, **settings: Any) -> None:
        """Changes some settings of a queue; the others stay."""
        self._transport.send(_calls.put(f"/v1/queues/{quoted(queue)}", settings, "PATCH"))

    def pause(self, queue: str) -> None:
        """Starts no further job of the queue until it is resumed."""
        self._transport.send(_calls.post(f"/v1/queues/{quoted(queue)}/pause", {}, Repeat.SAFE))

    def resume(self, queue: str) -> None:
        self._transport.send(_calls.post(f"/v1/queues/{quoted(queue)}/resume", {}, Repeat.SAFE))

    def events(
        self,
        *,
        subscription: str | None = None,
        queue: str | None = None,
        kinds: Sequence[str] = (),
        after: str | int | None = None,
    ) -> Iterator[Event | Gap]:
        """Yields events as they happen, and goes on after broken connections without losing or repeating any.

        With a subscription the server keeps the position: `event.ack()` moves it, and the next reader of that name
        starts there; `after` is where it starts when it is new. Without one, start with `after=` the last id that was
        dealt with, `0` for the beginning, or nothing for what happens from now on.
        """
        return follow(self._transport, Selection(subscription, queue, kinds, after))

    def webhook_secrets(self) -> list[str]:
        """Reads the secrets that webhooks are signed with, newest first."""
        return list(self.call("GET", "/v1/webhooks/secret")["secrets"])

    def ids(self, count: int = 1) -> list[int]:
        """Fetches unique 64-bit ids, 1000 at most; `Ids` fetches ahead."""
        return self._transport.send(_calls.ids(count))

    def call(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Sends any other call of the API and returns the answer's JSON. POST is repeated only if it certainly was
        not executed."""
        if method == "GET":
            return self._transport.send(_calls.get(path, query))
        call: Call[Any] = _calls.post(path, {} if body is None else body, Repeat.IF_NOT_DONE)
        call.method = method
        if method in ("PUT", "PATCH"):
            call.repeat = Repeat.SAFE
        return self._transport.send(call)

    def close(self) -> None:
        """Closes unused connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
