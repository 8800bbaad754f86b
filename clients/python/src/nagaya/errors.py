"""Errors: of calls, of waiting, and those that handlers raise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .jobs import JobInfo

TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Problem:
    """A problem document of the server (RFC 9457)."""

    status: int
    name: str
    """The kind of problem, for programs: the last segment of the document's `type`."""
    detail: str = ""
    reason: str | None = None
    """Why a lease is lost: `unknown`, `expired`, `reported`, `cancelled` or `conflict`."""
    retry_after: float | None = None
    """Seconds after which the server wants the call to be repeated."""

    @classmethod
    def read(cls, status: int, body: bytes, retry_after: float | None = None) -> Problem:
        """Parses a response's body. One that is no problem document becomes the detail."""
        try:
            document = json.loads(body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            return cls(status, "", body[:200].decode(errors="replace"), None, retry_after)
        return cls.of(document, status, retry_after)

    @classmethod
    def of(cls, document: dict[str, Any], status: int = 0, retry_after: float | None = None) -> Problem:
        """Reads a document that was parsed already, as batches have one per item."""
        name = str(document.get("type", "")).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
        detail = document.get("detail") or document.get("title") or ""
        reason = document.get("reason")
        return cls(
            status or int(document.get("status", 0)),
            name,
            str(detail),
            None if reason is None else str(reason),
            retry_after,
        )

    def __str__(self) -> str:
        return f"{self.status} {self.name}: {self.detail}"


class Error(Exception):
    """A call failed."""

    is_temporary = False
    """The same call may succeed a moment later."""
    was_not_done = False
    """The server certainly did nothing, so that repeating the call cannot do it twice."""


class Unreachable(Error):
    """Nothing answers; nothing was sent."""

    is_temporary = True
    was_not_done = True


class Broken(Error):
    """The connection broke. Whether the server did the call is unknown."""

    is_temporary = True


class TimedOut(Error):
    """The answer did not come in time. Whether the server did the call is unknown."""

    is_temporary = True


class BadAnswer(Error):
    """The answer could not be understood."""


class Refused(Error):
    """The server answered with an error."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.is_temporary = problem.status in TEMPORARY
        self.was_not_done = problem.status < 500


class LeaseLost(Refused):
    """The attempt is no longer ours: its lease expired, or the job was cancelled."""


class JobFailed(Exception):
    """The job that was waited for failed for good."""

    def __init__(self, job: JobInfo) -> None:
        super().__init__(job.error or f"job {job.id} failed")
        self.job = job


class JobCancelled(Exception):
    """The job that was waited for was cancelled."""

    def __init__(self, job: JobInfo) -> None:
        super().__init__(job.error or f"job {job.id} was cancelled")
        self.job = job


class StillRunning(TimeoutError):
    """The time is over and the job has not ended."""

    def __init__(self, job: JobInfo) -> None:
        super().__init__(f"job {job.id} is {job.state}")
        self.job = job


class JobGone(LookupError):
    """There is no such job, or no longer."""


class Permanent(Exception):
    """Raised by a handler: the attempt failed, and no other attempt can mend it."""

    nagaya_failure = "permanent"


class PayloadError(Permanent):
    """A payload does not fit the handler's types; the message names the field."""


class RetryAfter(Exception):
    """Raised by a handler: the attempt failed, to be tried again after this many seconds."""

    nagaya_failure = "retry_after"

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"to be tried again after {seconds:g} s")
        self.seconds = seconds


class Stopped(Exception):
    """Raised in handlers that were told to stop."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the attempt was stopped: {reason}")
        self.reason = reason


class WebhookError(ValueError):
    """A webhook is not from the server, or too old."""
