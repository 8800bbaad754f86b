"""The attempt that a handler gets."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

from .. import _calls
from .._http.blocking import Transport
from .._http.wire import Repeat, quoted
from ..errors import Stopped
from ..jobs import content

T = TypeVar("T")

CANCELLED = "cancelled"
LEASE_LOST = "lease-lost"
SHUTDOWN = "shutdown"
TIMEOUT = "timeout"

_current: contextvars.ContextVar[Attempt] = contextvars.ContextVar("nagaya_attempt")


@overload
def current_attempt() -> Attempt: ...
@overload
def current_attempt(default: T) -> Attempt | T: ...
def current_attempt(*default: Any, **named: Any) -> Any:
    """Returns the attempt whose handler this code runs in. Raises `LookupError` outside of handlers, unless there is
    a default."""
    values = (*default, *named.values())
    return _current.get(*values)


class Attempt:
    """One attempt at a job, for as long as its lease is ours."""

    __slots__ = ("_raw", "_transport", "_stop", "_lock", "_reason", "_on_stop", "id", "number", "token", "kind", "queue")

    def __init__(self, raw: dict[str, Any], transport: Transport | None = None) -> None:
        self._raw = raw
        self._transport = transport
        self._stop: threading.Event | None = None
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._on_stop: Callable[[str], None] | None = None
        self.id: str = raw["id"]
        self.number: int = raw["attempt"]
        """Counted from 1."""
        self.token: str = raw["token"]
        """The credential of this attempt, valid until the lease ends."""
        self.kind: str | None = raw.get("kind")
        self.queue: str = raw["queue"]

    @property
    def payload(self) -> Any:
        """The payload: JSON, or `Binary`."""
        return content(self._raw, "payload", "content_type")

    @property
    def raw(self) -> dict[str, Any]:
        """Everything that came with the claim."""
        return self._raw

    @property
    def max_retries(self) -> int:
        return int(self._raw.get("max_retries", 0))

    @property
    def is_last(self) -> bool:
        """Whether a failure of this attempt is the job's."""
        return self.number > self.max_retries

    @property
    def tags(self) -> list[str]:
        return list(self._raw.get("tags") or ())

    @property
    def tenant(self) -> str:
        return str(self._raw.get("tenant", ""))

    @property
    def traceparent(self) -> str | None:
        return self._raw.get("traceparent")

    @property
    def tracestate(self) -> str | None:
        return self._raw.get("tracestate")

    @property
    def lease_seconds(self) -> float:
        return float(self._raw.get("timeout_seconds") or 30.0)

    @property
    def stopped(self) -> bool:
        """Whether the handler must stop. Handlers of asyncio get a `CancelledError` besides."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Why: `cancelled`, `lease-lost`, `shutdown` or `timeout`."""
        return self._reason

    def check(self) -> None:
        """Raises `Stopped` if the handler must stop."""
        if self._reason is not None:
            raise Stopped(self._reason)

    def sleep(self, seconds: float) -> None:
        """Sleeps in a thread; raises `Stopped` as soon as the handler must stop."""
        with self._lock:
            self._stop = self._stop or threading.Event()
            if self._reason is not None:
                self._stop.set()
        if self._stop.wait(seconds):
            raise Stopped(self._reason or SHUTDOWN)

    def progress(self, progress: float | None = None, message: str | None = None, data: Any = None) -> None:
        """Reports how far the work has come, from 0 to 1. Blocks for a call to the server."""
        body: dict[str, Any] = {"token": self.token}
        if progress is not None:
            body["progress"] = min(max(progress, 0.0), 1.0)
        if message is not None:
            body["message"] = message
        if data is not None:
            body["data"] = data
        self._report("progress", body, Repeat.SAFE)

    def log(self, *lines: str) -> None:
        """Adds lines to the job's log, which the console shows. Blocks for a call to the server."""
        self._report("log", {"token": self.token, "lines": list(lines)}, Repeat.IF_NOT_DONE)

    async def aprogress(self, progress: float | None = None, message: str | None = None, data: Any = None) -> None:
        """As `progress`, without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.progress, progress, message, data)

    async def alog(self, *lines: str) -> None:
        """As `log`, without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.log, *lines)

    def _report(self, what: str, body: dict[str, Any], repeat: Repeat) -> None:
        if self._transport is not None:
            self._transport.send(_calls.post(f"/v1/jobs/{quoted(self.id)}/{what}", body, repeat))

    def stop(self, reason: str) -> bool:
        """Tells the handler to stop; for the worker. Only the first reason counts, and is told by `True`."""
        with self._lock:
            if self._reason is not None:
                return False
            self._reason = reason
            if self._stop is not None:
                self._stop.set()
            on_stop = self._on_stop
        if on_stop is not None:
            on_stop(reason)
        return True

    def when_stopped(self, tell: Callable[[str], None]) -> None:
        """Sets what is called with the reason, at once if the attempt was stopped already; for the worker."""
        with self._lock:
            self._on_stop = tell
            reason = self._reason
        if reason is not None:
            tell(reason)

    def enter(self) -> None:
        """Makes this the current attempt of the running task or thread; for the worker."""
        _current.set(self)
