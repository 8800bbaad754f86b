"""The threads that extend leases and report outcomes."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from .._http.blocking import Transport
from .._http.wire import RetryPolicy
from ..errors import Error, LeaseLost, Problem, Refused
from . import calls
from .lease import Lease, Watch, now
from .outcome import Failure, Success

BATCH_MAX = 1000
BATCH_BYTES_MAX = 4 << 20
CALL_SECONDS = 10.0
EXTENDERS_MAX = 8
CONTENT_STATUSES = frozenset({400, 413, 415, 422})
"""Statuses by which a result is refused for what it is."""


class Extender:
    """Extends leases, several at a time."""

    def __init__(self, transport: Transport, lost: Callable[[Lease, Problem], None]) -> None:
        self._transport = transport
        self._lost = lost
        self._due: queue.SimpleQueue[Lease] = queue.SimpleQueue()
        self._threads = 0
        self.watch: Watch | None = None

    def extend(self, leases: list[Lease]) -> None:
        """Begins to extend leases; called by the watch only."""
        for lease in leases:
            self._due.put(lease)
        while self._threads < min(EXTENDERS_MAX, self._due.qsize()):
            self._threads += 1
            threading.Thread(target=self._run, name="nagaya-extender", daemon=True).start()

    def _run(self) -> None:
        while True:
            lease = self._due.get()
            if not lease.closed:
                self._extend(lease)
            if self.watch is not None:
                self.watch.again(lease)

    def _extend(self, lease: Lease) -> None:
        sent = now()
        timeout = max(min(lease.length / 3, lease.until - sent, CALL_SECONDS), 0.05)
        try:
            self._transport.send_once(calls.extend(lease.attempt.id, lease.attempt.token), timeout)
            lease.renew(sent)
        except Refused as error:
            if isinstance(error, LeaseLost) or not error.is_temporary:
                self._lost(lease, error.problem)
            else:
                lease.extension_failed()
        except Error:
            lease.extension_failed()


class Reporter:
    """Reports outcomes from a thread of its own; all that came up during a call go with the next one."""

    def __init__(self, transport: Transport, settled: Callable[[Lease, Problem | None], None]) -> None:
        self._transport = transport
        self._settled = settled
        self._new: queue.SimpleQueue[Lease | None] = queue.SimpleQueue()
        self._pending: list[Lease] = []
        self._patience = RetryPolicy()
        self._failures = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nagaya-reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, lease: Lease) -> None:
        """Reports the outcome that the lease has."""
        self._new.put(lease)

    def close(self, limit: float) -> None:
        """Reports what is left, for so long at most."""
        self._closing.set()
        self._new.put(None)
        self._thread.join(limit)

    def _run(self) -> None:
        while True:
            self._gather()
            self._pending = [lease for lease in self._pending if not lease.closed]
            if not self._pending:
                if self._closing.is_set() and self._new.empty():
                    return
                continue
            batch, rest = self._cut(self._pending)
            again = self._send("complete", [lease for lease in batch if isinstance(lease.outcome, Success)])
            again += self._send("fail", [lease for lease in batch if isinstance(lease.outcome, Failure)])
            self._pending = again + rest
            if again and self._failures:
                time.sleep(self._patience.pause(self._failures))

    def _gather(self) -> None:
        """Takes what has come up; waits if there is nothing to do."""
        if not self._pending and not (self._closing.is_set() and self._new.empty()):
            first = self._new.get()
            if first is not None:
                self._pending.append(first)
        while len(self._pending) < BATCH_MAX:
            try:
                more = self._new.get_nowait()
            except queue.Empty:
                return
            if more is not None:
                self._pending.append(more)

    def _cut(self, leases: list[Lease]) -> tuple[list[Lease], list[Lease]]:
        size = 0
        for number, lease in enumerate(leases):
            size += len(lease.outcome.result) if isinstance(lease.outcome, Success) else 256
            if number and size > BATCH_BYTES_MAX:
                return leases[:number], leases[number:]
        return leases, []

    def _send(self, what: str, leases: list[Lease]) -> list[Lease]:
        """Sends reports together. Returns those to be sent again."""
        if not leases:
            return []
        bodies = [lease.outcome.body(lease.attempt.token) for lease in leases if lease.outcome is not None]
        try:
            problems = self._transport.send_once(calls.report(what, bodies), CALL_SECONDS)
        except Refused as error:
            if error.is_temporary:
                return self._failed(leases)
            if len(leases) > 1:
                return [again for lease in leases for again in self._send(what, [lease])]
            problems = [error.problem]
        except Error:
            return self._failed(leases)
        self._failures = 0
        if len(problems) != len(leases):
            return self._failed(leases)
        return [lease for lease, problem in zip(leases, problems) if self._judge(lease, problem)]

    def _failed(self, leases: list[Lease]) -> list[Lease]:
        self._failures += 1
        return leases

    def _judge(self, lease: Lease, problem: Problem | None) -> bool:
        """Interprets the answer to one report. Returns whether it has to be sent again."""
        if problem is None:
            self._settled(lease, None)
            return False
        if Refused(problem).is_temporary:
            self._failures += 1
            return True
        if isinstance(lease.outcome, Success) and problem.status in CONTENT_STATUSES:
            # A result that is refused for what it is would be refused from every attempt.
            lease.outcome = Failure(f"the server rejected the result: {problem}", permanent=True)
            return True
        self._settled(lease, problem)
        return False
