"""Leases, and the thread that watches them.

The watch does no I/O: it tells which leases are to be extended, and ends those that could not be. So a call that hangs
delays nothing, and a handler that occupies the event loop or its thread does not either.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .attempt import Attempt
    from .outcome import Outcome

EXTENSIONS_PER_LEASE = 3
"""A lease is extended so often within its length, so that one lost extension does not lose it."""
MARGIN_MAX = 1.0
"""Safety margin at the end of the lease, so that we stop before another worker may start."""
FAILED_PAUSE = 0.5

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Returns seconds of a clock that nobody sets and that counts suspend."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    now = time.monotonic


class Lease:
    """The worker's side of one attempt."""

    __slots__ = (
        "attempt",
        "closed",
        "extend_at",
        "extending",
        "handler_ended",
        "length",
        "letting_go",
        "outcome",
        "run_until",
        "until",
    )

    def __init__(self, attempt: Attempt, received_at: float, max_runtime: float | None = None) -> None:
        self.attempt = attempt
        self.run_until = math.inf if max_runtime is None else received_at + max_runtime
        """When the handler has taken too long."""
        self.length = attempt.lease_seconds
        self.closed = False
        """Nobody waits for the lease any more."""
        self.extending = False
        self.handler_ended = False
        self.letting_go = False
        """It is not extended any more."""
        self.outcome: Outcome | None = None
        self.renew(received_at)

    def renew(self, since: float) -> None:
        """Notes that the lease was granted or extended at this time or later, by our own clock."""
        self.until = since + self.length - min(self.length / 10, MARGIN_MAX)
        self.extend_at = since + self.length / EXTENSIONS_PER_LEASE

    def look_at(self) -> float:
        """Returns when the watch has something to do."""
        is_kept = self.extending or self.letting_go
        return min(self.until, self.run_until, self.until if is_kept else self.extend_at)

    def extension_failed(self) -> None:
        self.extend_at = now() + min(FAILED_PAUSE, self.length / 10)


Timer = Callable[[], None]


class Watch:
    """Calls `extend` with the leases that are due, `lose` with those that are over, and `overdue` with those whose
    handler takes too long, from a thread of its own."""

    def __init__(
        self,
        extend: Callable[[list[Lease]], None],
        lose: Callable[[Lease], None],
        overdue: Callable[[Lease], None],
    ) -> None:
        self._extend = extend
        self._lose = lose
        self._overdue = overdue
        self._heap: list[tuple[float, int, Lease | Timer]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="nagaya-leases", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, leases: list[Lease]) -> None:
        """Begins to watch leases."""
        with self._changed:
            for lease in leases:
                self._push(lease.look_at(), lease)

    def again(self, lease: Lease) -> None:
        """Watches a lease whose extension was tried."""
        with self._changed:
            lease.extending = False
            self._push(lease.look_at(), lease)

    def at(self, moment: float, timer: Timer) -> None:
        """Calls something at a certain time."""
        with self._changed:
            self._push(moment, timer)

    def close(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _push(self, at: float, item: Lease | Timer) -> None:
        is_first = not self._heap or at < self._heap[0][0]
        heapq.heappush(self._heap, (at, next(self._numbers), item))
        if is_first:
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_over and (not self._heap or self._heap[0][0] > now()):
                    # A step of the clock behind `wait` is noticed within a second.
                    self._changed.wait(min(self._heap[0][0] - now(), 1.0) if self._heap else None)
                if self._is_over:
                    return
                due = self._take_due(now())
            self._act(due)

    def _take_due(self, at: float) -> list[Lease | Timer]:
        due: list[Lease | Timer] = []
        while self._heap and self._heap[0][0] <= at:
            item = heapq.heappop(self._heap)[2]
            if not (isinstance(item, Lease) and item.closed):
                due.append(item)
        return due

    def _act(self, due: list[Lease | Timer]) -> None:
        to_extend = []
        at = now()
        for item in due:
            if not isinstance(item, Lease):
                item()
            elif at >= item.until:
                self._lose(item)
            else:
                if at >= item.run_until:
                    item.run_until = math.inf
                    self._overdue(item)
                if at >= item.extend_at and not item.extending and not item.letting_go:
                    item.extending = True
                    to_extend.append(item)
                with self._changed:
                    self._push(item.look_at(), item)
        if to_extend:
            self._extend(to_extend)
