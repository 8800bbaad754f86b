"""The thread that claims jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from .._http.blocking import Connection, Transport, read
from .._http.wire import RetryPolicy
from ..errors import Broken, Error
from . import calls
from .lease import now

LAST_CLAIM = 0.5
"""Seconds that a pending claim may still be answered after the worker was told to stop. Jobs in an answer that is not
read stay leased until the lease expires, and lose an attempt."""


class Claimer:
    """Claims as many jobs as there are free places, in one call."""

    def __init__(
        self,
        transport: Transport,
        queues: Sequence[str],
        name: str,
        poll: float,
        wait_for_places: Callable[[], int],
        take: Callable[[list[dict[str, Any]], float], None],
        failed: Callable[[Error, bool], None],
    ) -> None:
        self._transport = transport
        self._queues = list(queues)
        self._name = name
        self._poll = poll
        self._wait_for_places = wait_for_places
        self._take = take
        self._failed = failed
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nagaya-claims", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Claims no more. Returns when the claim under way is over."""
        self.stopping.set()
        self._thread.join(LAST_CLAIM)
        with self._lock:
            if self._connection is not None:
                self._connection.abort()
        # A connection that is being opened has its own limit; nothing is claimed over it.

    def _run(self) -> None:
        failures, patience = 0, RetryPolicy()
        while not self.stopping.is_set():
            places = self._wait_for_places()
            if places == 0 or self.stopping.is_set():
                continue
            try:
                jobs = self._claim(places)
            except Error as error:
                if self.stopping.is_set():
                    return
                self._failed(error, not error.is_temporary)
                if not error.is_temporary:
                    return
                failures += 1
                self.stopping.wait(patience.pause(failures, error))
                continue
            failures = 0
            if jobs:
                self._take(jobs, now())

    def _claim(self, places: int) -> list[dict[str, Any]]:
        call = calls.claim(self._queues, self._name, places, self._poll)
        connection = self._connection
        if connection is None or not connection.is_usable():
            self._drop()
            connection = self._transport.connect()
            with self._lock:
                self._connection = connection
        if self.stopping.is_set():
            raise Broken("the worker stops")
        is_whole = False
        try:
            head = connection.send(call, self._transport.timeout + self._poll)
            body = connection.body(call, head)
            is_whole = not head.closes
        finally:
            if not is_whole:
                self._drop()
        return read(call, head, body)

    def _drop(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
