"""Connections for threads."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import TypeVar

from ..errors import BadAnswer, Broken, Error, TimedOut, Unreachable
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
    refusal,
)

T = TypeVar("T")


class Connection:
    """One connection, used by one thread at a time. Another may abort it."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None) -> None:
        try:
            sock = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                sock = tls.wrap_socket(sock, server_hostname=address.host)
        except OSError as error:
            raise Unreachable(f"nothing answers at {address.url}: {error}") from error
        self._address = address
        self._socket = sock
        self._file = sock.makefile("rb")
        self.used_at = time.monotonic()

    def is_usable(self) -> bool:
        """Returns whether it was used lately and the server has not closed it."""
        if time.monotonic() - self.used_at > IDLE_SECONDS:
            return False
        readable, _, _ = select.select([self._socket], [], [], 0)
        return not readable

    def send(self, call: Call[T], timeout: float) -> Head:
        """Sends a call and returns the head of its response."""
        self._socket.settimeout(timeout)
        try:
            self._socket.sendall(self._address.request(call))
            while True:
                head = self._read_head()
                if head.status >= 200:
                    return head
        except TimeoutError as error:
            raise TimedOut(f"{self._address.url} did not answer within {timeout:g} s") from error
        except OSError as error:
            raise Broken(f"the connection to {self._address.url} broke: {error}") from error
        except ValueError as error:
            raise BadAnswer(f"the answer to {call.path} could not be understood: {error}") from error

    def body(self, call: Call[T], head: Head) -> bytes:
        """Reads the whole body of a response."""
        try:
            return b"".join(self.parts(head))
        except TimeoutError as error:
            raise TimedOut(f"{self._address.url} did not answer in time") from error
        except OSError as error:
            raise Broken(f"the connection to {self._address.url} broke: {error}") from error
        except ValueError as error:
            raise BadAnswer(f"the answer to {call.path} could not be understood: {error}") from error

    def parts(self, head: Head) -> Iterator[bytes]:
        """Yields the body of a response as it comes."""
        if head.is_chunked:
            while True:
                size = chunk_size(self._read_line())
                if size > ANSWER_BYTES_MAX:
                    raise ValueError("a chunk is too large")
                part = self._read_exactly(size + 2)[:-2]
                if size == 0:
                    return
                yield part
        length = head.length
        if length is None:
            while part := self._file.read1(65536):
                yield part
        elif length > ANSWER_BYTES_MAX:
            raise ValueError(f"it is larger than {ANSWER_BYTES_MAX} bytes")
        elif length:
            yield self._read_exactly(length)

    def abort(self) -> None:
        """Wakes a thread that waits for this connection; its call fails."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It was closed already.

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _read_head(self) -> Head:
        lines: list[bytes] = []
        size = 0
        while True:
            line = self._read_line()
            if line == b"\r\n":
                return parse_head(b"".join(lines))
            lines.append(line)
            size += len(line)
            if size > HEAD_BYTES_MAX:
                raise ValueError("its head is too large")

    def _read_line(self) -> bytes:
        line = self._file.readline(HEAD_BYTES_MAX)
        if not line.endswith(b"\r\n"):
            raise ConnectionError("it was closed by the server")
        return line

    def _read_exactly(self, length: int) -> bytes:
        data = self._file.read(length)
        if len(data) < length:
            raise ConnectionError("it was closed in the middle of an answer")
        return data


class Transport:
    """Connections to one server, for any number of threads."""

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
        self.tls = tls
        self._tls = (tls or ssl.create_default_context()) if address.tls else None
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    def send(self, call: Call[T]) -> T:
        """Sends a call, repeats it where that is safe, and reads the response."""
        failures = 0
        while True:
            try:
                return self.send_once(call, self.timeout)
            except Error as error:
                failures += 1
                if not self.retry.allows(call, error, failures):
                    raise
                time.sleep(self.retry.pause(failures, error))

    def send_once(self, call: Call[T], timeout: float) -> T:
        """Sends a call once. `timeout` is for each step of the network, beyond what the server was asked to wait."""
        connection = self.take()
        keep = False
        try:
            head = connection.send(call, timeout + call.wait)
            body = connection.body(call, head)
            keep = not head.closes and (head.length is not None or head.is_chunked)
        finally:
            if keep:
                self.give_back(connection)
            else:
                connection.close()
        return read(call, head, body)

    def take(self) -> Connection:
        """Returns a connection for the caller alone."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self.connect()
            if connection.is_usable():
                return connection
            connection.close()

    def connect(self) -> Connection:
        return Connection(self.address, self._tls)

    def give_back(self, connection: Connection) -> None:
        connection.used_at = time.monotonic()
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def read(call: Call[T], head: Head, body: bytes) -> T:
    """Interprets a response."""
    if not 200 <= head.status < 300:
        raise refusal(head, body)
    try:
        return call.read(body)
    except (ValueError, KeyError, TypeError) as error:
        raise BadAnswer(f"the answer to {call.path} could not be understood: {error!r}") from error
