"""Unique 64-bit ids, fetched ahead."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque

from .aio import AsyncClient
from .client import Client

FETCH_MAX = 1000


class _Stock:
    """Ids at hand. Those that lie around for longer than `max_age` are thrown away, since an id carries the time at
    which it was minted."""

    def __init__(self, batch: int, max_age: float) -> None:
        if not 1 <= batch <= FETCH_MAX:
            raise ValueError(f"a batch is 1 to {FETCH_MAX} ids")
        self.batch = batch
        self._max_age = max_age
        self._ids: deque[int] = deque()
        self._fetched_at = 0.0

    def take(self) -> int | None:
        if time.monotonic() - self._fetched_at > self._max_age:
            self._ids.clear()
        return self._ids.popleft() if self._ids else None

    def put(self, ids: list[int], asked_at: float) -> None:
        self._ids, self._fetched_at = deque(ids), asked_at


class Ids:
    """Ids for threads: one call to the server fetches `batch` of them.

    Ids of one instance rise, as long as one thread uses it. None is older than `max_age` seconds.
    """

    def __init__(self, client: Client, batch: int = 100, max_age: float = 1.0) -> None:
        self._client = client
        self._stock = _Stock(batch, max_age)
        self._lock = threading.Lock()

    def next(self) -> int:
        with self._lock:
            id = self._stock.take()
            if id is not None:
                return id
            asked_at = time.monotonic()
            first, *rest = self._client.ids(self._stock.batch)
            self._stock.put(rest, asked_at)
            return first


class AsyncIds:
    """Ids for the tasks of one event loop; see `Ids`."""

    def __init__(self, client: AsyncClient, batch: int = 100, max_age: float = 1.0) -> None:
        self._client = client
        self._stock = _Stock(batch, max_age)
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        id = self._stock.take()
        if id is not None:
            return id
        async with self._lock:
            id = self._stock.take()
            if id is not None:
                return id
            asked_at = time.monotonic()
            first, *rest = await self._client.ids(self._stock.batch)
            self._stock.put(rest, asked_at)
            return first
