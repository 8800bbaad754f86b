"""Connections for asyncio."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from typing import TypeVar

from ..errors import BadAnswer, Broken, Error, TimedOut, Unreachable
from .blocking import read
from .wire import (
    ANSWER_BYTES_MAX,
    CONNECT_SECONDS,
    HEAD_BYTES_MAX,
    IDLE_SECONDS,
    Address,
    Call,
    Head,
    RetryPolicy,
    chunk_size,
    parse_head,
)

T = TypeVar("T")


class AsyncConnection:
    """One connection, used by one task at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.used_at = time.monotonic()

    def is_usable(self) -> bool:
        return time.monotonic() - self.used_at <= IDLE_SECONDS and not self._reader.at_eof()

    async def send(self, data: bytes) -> Head:
        self._writer.write(data)
        await self._writer.drain()
        while True:
            head = parse_head(await self._reader.readuntil(b"\r\n\r\n"))
            if head.status >= 200:
                return head

    async def parts(self, head: Head) -> AsyncIterator[bytes]:
        """Yields the body of a response as it comes."""
        if head.is_chunked:
            while True:
                size = chunk_size(await self._reader.readuntil(b"\r\n"))
                if size > ANSWER_BYTES_MAX:
                    raise ValueError("a chunk is too large")
                part = (await self._reader.readexactly(size + 2))[:-2]
                if size == 0:
                    return
                yield part
        length = head.length
        if length is None:
            while part := await self._reader.read(65536):
                yield part
        elif length > ANSWER_BYTES_MAX:
            raise ValueError(f"it is larger than {ANSWER_BYTES_MAX} bytes")
        elif length:
            yield await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.transport.abort()


class AsyncTransport:
    """Connections to one server, for the tasks of one event loop."""

    def __init__(
        self,
        address: Address,
        timeout: float = 30.0,
        retry: RetryPolicy | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        self.timeout = timeout
        self.retry = retry or RetryPolicy()
        self._tls = (tls or ssl.create_default_context()) if address.tls else None
        self._idle: list[AsyncConnection] = []

    async def send(self, call: Call[T]) -> T:
        """Sends a call, repeats it where that is safe, and reads the response."""
        failures = 0
        while True:
            try:
                return await self._send_once(call)
            except Error as error:
                failures += 1
                if not self.retry.allows(call, error, failures):
                    raise
                await asyncio.sleep(self.retry.pause(failures, error))

    async def _send_once(self, call: Call[T]) -> T:
        connection = await self.take()
        keep = False
        limit = self.timeout + call.wait
        try:
            head, body = await asyncio.wait_for(self._exchange(connection, call), limit)
            keep = not head.closes and (head.length is not None or head.is_chunked)
        except asyncio.TimeoutError as error:
            raise TimedOut(f"{self.address.url} did not answer within {limit:g} s") from error
        finally:
            if keep:
                connection.used_at = time.monotonic()
                self._idle.append(connection)
            else:
                connection.close()
        return read(call, head, body)

    async def _exchange(self, connection: AsyncConnection, call: Call[T]) -> tuple[Head, bytes]:
        with translated(self.address, call):
            head = await connection.send(self.address.request(call))
            return head, b"".join([part async for part in connection.parts(head)])

    async def take(self) -> AsyncConnection:
        """Returns a connection for the caller alone."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.close()
        try:
            opening = asyncio.open_connection(
                self.address.host, self.address.port, ssl=self._tls, limit=HEAD_BYTES_MAX
            )
            return AsyncConnection(*await asyncio.wait_for(opening, CONNECT_SECONDS))
        except (OSError, asyncio.TimeoutError) as error:
            raise Unreachable(f"nothing answers at {self.address.url}: {error}") from error

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class translated:
    """Turns errors of asyncio's streams into errors of calls."""

    def __init__(self, address: Address, call: Call[T]) -> None:
        self._url = address.url
        self._path = call.path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, asyncio.TimeoutError):
            return
        if isinstance(error, (asyncio.IncompleteReadError, OSError)):
            raise Broken(f"the connection to {self._url} broke: {error}") from error
        if isinstance(error, (asyncio.LimitOverrunError, ValueError)):
            raise BadAnswer(f"the answer to {self._path} could not be understood: {error}") from error
