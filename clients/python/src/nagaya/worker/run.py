"""A worker: claims jobs, runs their handlers, extends their leases and reports how they ended."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .._http.blocking import Transport
from ..client import Client
from ..errors import Error, Problem
from .attempt import CANCELLED, LEASE_LOST, SHUTDOWN, TIMEOUT, Attempt
from .claims import Claimer
from .handler import Handler
from .lease import Lease, Watch, now
from .outcome import Failure, Outcome
from .process import ProcessRunner
from .reports import Extender, Reporter
from .runners import LoopRunner, Runner, ThreadRunner, Work
from .signals import Signals, exit_now

UNKNOWN_KIND_DELAY = 30.0
"""Seconds until a job of an unknown kind is tried again: while a new version is rolled out, other workers know it."""
REPORT_SECONDS = 2.0
"""What a worker that ends takes for its last reports."""
HURRY_SECONDS = 0.5
"""What handlers get after a second signal."""


@dataclass(frozen=True)
class Note:
    """Something that a worker did, for metrics.

    `name` is `claimed` (with `count`), `started`, `stopped` (with `reason`), `ended`, `reported` (with `outcome`:
    `succeeded`, `failed` or `lost`, and `reason` for lost ones), `unknown-kind` or `claim-failed` (with `error`).
    """

    name: str
    attempt: Attempt | None = None
    outcome: str | None = None
    reason: str | None = None
    error: Error | None = None
    count: int = 0


@dataclass
class Tally:
    """The attempts of a worker by outcome."""

    succeeded: int = 0
    failed: int = 0
    lost: int = 0
    """Attempts that lost their lease before they ended, or could not be reported."""


class Worker:
    """Runs handlers for jobs of some queues, which are asked in order.

    Handlers that are coroutine functions run on an event loop, others in threads, all of them in processes with
    `isolation="process"`. Their leases are extended from threads that no handler can block; only code that holds the
    interpreter's lock could, which is what processes are for.

    `concurrency` handlers run at a time, and one call claims jobs for all free places: 128 if there are coroutine
    functions, 16 if there are none, one per processor in processes, unless it is said. `drain` is how long running
    handlers may take after the worker was told to stop, `grace` how long a handler may take to end after it was told
    to, `max_runtime` how long any handler may take, `poll` how long a claim waits at the server for jobs. `on_note` is
    called from several threads, and must be quick.
    """

    def __init__(
        self,
        client: Client,
        handlers: Iterable[Handler],
        queues: Sequence[str],
        *,
        concurrency: int | None = None,
        drain: float | None = 25.0,
        grace: float = 5.0,
        max_runtime: float | None = None,
        poll: float = 20.0,
        isolation: str = "thread",
        name: str | None = None,
        on_note: Callable[[Note], None] | None = None,
    ) -> None:
        if isolation not in ("thread", "process"):
            raise ValueError("isolation is `thread` or `process`")
        self._handlers = {handler.kind: handler for handler in handlers}
        if concurrency is None:
            concurrency = usual_concurrency(isolation, any(one.is_async for one in self._handlers.values()))
        if concurrency < 1 or not queues:
            raise ValueError("a worker needs a queue and a place at least")
        self.queues = list(dict.fromkeys(queues))
        self.concurrency = concurrency
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.tally = Tally()
        self._drain, self._grace, self._max_runtime = drain, grace, max_runtime
        self._isolation = isolation
        self._on_note = on_note
        self._client = client
        self._error: Error | None = None
        self._free = concurrency
        self._running: set[Lease] = set()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._ended = threading.Event()
        self._on_ended: Callable[[], None] | None = None
        self._drain_given: float | None = None
        self._runners: list[Runner] = []
        self._loop_runner: Runner | None = None
        self._thread_runner: Runner | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None

        # Connections of its own: the client's may be in use by handlers.
        source = client.transport
        transport = Transport(source.address, source.timeout, source.retry, source.tls)
        self._transport = transport
        self._extender = Extender(transport, self._refused)
        self._watch = Watch(self._extender.extend, self._expired, self._overdue)
        self._extender.watch = self._watch
        self._reporter = Reporter(transport, self._settled)
        self._claimer = Claimer(
            transport, self.queues, self.name, poll, self._wait_for_places, self._take, self._claim_failed
        )

    # Running it.

    def run(self, handle_signals: bool = True) -> Tally:
        """Runs until the worker was told to stop and its handlers have ended. Raises the server's error if it refuses
        the worker.

        With `handle_signals`, the first SIGTERM or SIGINT drains, a second one gives the jobs back and ends within
        two seconds. Only the main thread can handle signals.
        """
        if handle_signals:
            with Signals(self._signalled):
                self.start()
                self._ended.wait()
        else:
            self.start()
            self._ended.wait()
        return self._result()

    async def run_async(self, handle_signals: bool = False) -> Tally:
        """As `run`, with coroutine functions on the running event loop."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(over.set)

        self._on_ended = tell
        try:
            if handle_signals:
                with Signals(self._signalled):
                    self.start(loop)
                    await over.wait()
            else:
                self.start(loop)
                await over.wait()
        except asyncio.CancelledError:
            self._on_ended = None
            self.stop(0, wait=False)
            raise
        return self._result()

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Starts the worker's threads and returns. Coroutine functions run on `loop`, or on one in a thread of its
        own."""
        self._make_runners(loop)
        self._watch.start()
        self._reporter.start()
        self._claimer.start()
        threading.Thread(target=self._supervise, name="nagaya-supervisor", daemon=True).start()

    def stop(self, drain: float | None = None, wait: bool = True) -> None:
        """Claims nothing more and ends when the handlers have; those that take longer than `drain` are told to stop.
        Returns within the drain, the grace and two seconds, also if the server is away."""
        if drain is not None:
            self._drain_given = drain
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        if wait:
            self._ended.wait()

    def stop_now(self) -> None:
        """Gives running jobs back and ends, within two seconds."""
        self._hurry.set()
        self.stop(wait=False)

    @property
    def running(self) -> int:
        """How many handlers run."""
        return len(self._running)

    def _signalled(self) -> None:
        if not self._stop.is_set():
            self.stop(wait=False)
            return
        self.stop_now()
        if not self._ended.wait(HURRY_SECONDS + REPORT_SECONDS + 1):
            exit_now(1)

    def _result(self) -> Tally:
        if self._error is not None:
            raise self._error
        return self.tally

    def _make_runners(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if self._isolation == "process":
            address = self._transport.address
            runner: Runner = ProcessRunner(self.concurrency, (address.url, address.token), self._started, self._finished)
            self._loop_runner = self._thread_runner = runner
            self._runners = [runner]
            return
        self._thread_runner = ThreadRunner(self.concurrency, self._started, self._finished)
        self._runners = [self._thread_runner]
        if any(handler.is_async for handler in self._handlers.values()):
            if loop is None:
                loop = self._own_loop = asyncio.new_event_loop()
                threading.Thread(target=run_loop, args=(loop,), name="nagaya-loop", daemon=True).start()
            self._loop_runner = LoopRunner(loop, self._started, self._finished)
            self._runners.append(self._loop_runner)

    # From the claim to the handler.

    def _wait_for_places(self) -> int:
        """Waits until handlers could be started at once, and returns how many; 0 when the worker stops."""
        with self._changed:
            while self._free == 0 and not self._stop.is_set():
                self._changed.wait()
        for runner in self._runners:
            runner.wait_until_free(self._stop)
        with self._changed:
            return 0 if self._stop.is_set() else self._free

    def _take(self, jobs: list[dict[str, Any]], received_at: float) -> None:
        if self._on_note is not None:
            self._on_note(Note("claimed", count=len(jobs)))
        leases: list[Lease] = []
        on_loop: list[Work] = []
        elsewhere: list[Work] = []
        for raw in jobs:
            attempt = Attempt(raw, self._client.transport)
            handler = self._handlers.get(attempt.kind or "")
            limit = self._max_runtime if handler is None or handler.max_runtime is None else handler.max_runtime
            lease = Lease(attempt, received_at, limit)
            leases.append(lease)
            if handler is None:
                self._give_up_unknown(lease)
            else:
                (on_loop if handler.is_async else elsewhere).append((lease, handler))
        with self._changed:
            self._free -= len(on_loop) + len(elsewhere)
            self._running.update(lease for lease, _ in on_loop)
            self._running.update(lease for lease, _ in elsewhere)
        self._watch.add(leases)
        if on_loop and self._loop_runner is not None:
            self._loop_runner.submit(on_loop)
        if elsewhere and self._thread_runner is not None:
            self._thread_runner.submit(elsewhere)

    def _give_up_unknown(self, lease: Lease) -> None:
        if self._on_note is not None:
            self._on_note(Note("unknown-kind", lease.attempt))
        kind = lease.attempt.kind
        lease.handler_ended = True
        lease.outcome = Failure(f"this worker has no handler for the kind {kind!r}", retry_after=UNKNOWN_KIND_DELAY)
        self._reporter.put(lease)

    def _claim_failed(self, error: Error, is_final: bool) -> None:
        if self._on_note is not None:
            self._on_note(Note("claim-failed", error=error))
        if is_final:
            self._error = error
            self.stop(wait=False)

    def _started(self, lease: Lease) -> None:
        if self._on_note is not None:
            self._on_note(Note("started", lease.attempt))

    # From the handler to the report.

    def _finished(self, lease: Lease, outcome: Outcome | None) -> None:
        reason = lease.attempt.reason
        if outcome is None:
            if reason == SHUTDOWN:
                outcome = given_back()
            elif reason == TIMEOUT:
                outcome = Failure("the handler took longer than it may")
        with self._changed:
            is_reported = lease.handler_ended
            lease.handler_ended = True
            self._running.discard(lease)
            self._free += 1
            self._changed.notify_all()
        if self._on_note is not None:
            self._on_note(Note("ended", lease.attempt))
        if lease.closed or is_reported:
            return
        if outcome is not None and reason not in (CANCELLED, LEASE_LOST):
            lease.outcome = outcome
            self._reporter.put(lease)

    def _settled(self, lease: Lease, problem: Problem | None) -> None:
        """Notes the server's answer to a report."""
        if problem is not None:
            self._lose(lease, problem.reason or problem.name)
        elif self._close(lease):
            name = "failed" if isinstance(lease.outcome, Failure) else "succeeded"
            with self._changed:
                setattr(self.tally, name, getattr(self.tally, name) + 1)
            if self._on_note is not None:
                self._on_note(Note("reported", lease.attempt, name))

    # Lost leases.

    def _refused(self, lease: Lease, problem: Problem) -> None:
        """An extension was refused."""
        reason = CANCELLED if problem.reason == "cancelled" else LEASE_LOST
        self._stop_handler(lease, reason)
        self._lose(lease, problem.reason or problem.name)

    def _expired(self, lease: Lease) -> None:
        """No extension succeeded until shortly before the lease's end."""
        self._stop_handler(lease, LEASE_LOST)
        self._lose(lease, "expired")

    def _overdue(self, lease: Lease) -> None:
        def let_go() -> None:
            lease.letting_go = not lease.handler_ended

        self._stop_handler(lease, TIMEOUT)
        self._watch.at(now() + self._grace, let_go)

    def _stop_handler(self, lease: Lease, reason: str) -> None:
        if lease.handler_ended:
            return
        if lease.attempt.stop(reason) and self._on_note is not None:
            self._on_note(Note("stopped", lease.attempt, reason=reason))
        self._watch.at(now() + self._grace, lambda: self._kill(lease))

    def _kill(self, lease: Lease) -> None:
        if lease in self._running:
            for runner in self._runners:
                runner.kill(lease)

    def _lose(self, lease: Lease, reason: str) -> None:
        if not self._close(lease):
            return
        with self._changed:
            self.tally.lost += 1
        if self._on_note is not None:
            self._on_note(Note("reported", lease.attempt, "lost", reason))

    def _close(self, lease: Lease) -> bool:
        """Lets nobody wait for the lease any more. Returns whether somebody did."""
        with self._changed:
            was_open = not lease.closed
            lease.closed = True
            return was_open

    # The end.

    def _supervise(self) -> None:
        self._stop.wait()
        begin = time.monotonic()
        self._claimer.stop()
        drain = self._drain if self._drain_given is None else self._drain_given
        if not self._wait_until_idle(None if drain is None else begin + drain, self._hurry):
            for lease in list(self._running):
                self._stop_handler(lease, SHUTDOWN)
            grace = HURRY_SECONDS if self._hurry.is_set() else self._grace
            self._wait_until_idle(time.monotonic() + grace, self._hurry)
            self._abandon()
        self._reporter.close(REPORT_SECONDS)
        self._watch.close()
        for runner in self._runners:
            runner.close()
        if self._own_loop is not None:
            self._own_loop.call_soon_threadsafe(self._own_loop.stop)
        self._transport.close()
        self._ended.set()
        if self._on_ended is not None:
            self._on_ended()

    def _wait_until_idle(self, until: float | None, hurry: threading.Event) -> bool:
        """Waits for the handlers to end. Returns whether they have."""
        was_hurried = hurry.is_set()
        with self._changed:
            while self._running:
                left = None if until is None else until - time.monotonic()
                if (left is not None and left <= 0) or hurry.is_set() != was_hurried:
                    return False
                if was_hurried and until is None:
                    return False
                self._changed.wait(left)
        return True

    def _abandon(self) -> None:
        """Gives back the jobs of handlers that have not ended."""
        with self._changed:
            left = [lease for lease in self._running if not lease.handler_ended]
            for lease in left:
                lease.handler_ended = True
        for lease in left:
            if not lease.closed:
                lease.outcome = given_back()
                self._reporter.put(lease)
            for runner in self._runners:
                runner.kill(lease)


def usual_concurrency(isolation: str, has_async: bool) -> int:
    """Returns how many handlers run at a time unless it is said: one per processor in processes, else more, and most
    on an event loop."""
    if isolation == "process":
        return os.cpu_count() or 1
    return 128 if has_async else 16


def given_back() -> Failure:
    """The outcome of an attempt that ends with its worker."""
    return Failure("the worker was shut down before the job was done", retry_after=0)


def run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
