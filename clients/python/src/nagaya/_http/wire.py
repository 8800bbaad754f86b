"""Requests as bytes, and bytes as responses; no I/O."""

from __future__ import annotations

import enum
import random
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .._version import __version__
from ..errors import Error, LeaseLost, Problem, Refused

T = TypeVar("T")

HEAD_BYTES_MAX = 64 << 10
ANSWER_BYTES_MAX = 64 << 20
CONNECT_SECONDS = 5.0
IDLE_SECONDS = 50.0
"""Connections unused for this long are closed; below the usual limits of load balancers."""


class Repeat(enum.Enum):
    """Whether a call may be repeated when its outcome is unknown."""

    SAFE = "the server recognises a repetition, or the call is idempotent"
    IF_NOT_DONE = "only if it certainly was not executed"
    NEVER = "never"


@dataclass
class Call(Generic[T]):
    """A call, ready to be sent as often as needed."""

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    wait: float = 0.0
    """How long the server was asked to wait before it answers."""
    repeat: Repeat = Repeat.SAFE
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RetryPolicy:
    """Repetition of a call. The pause doubles from `first` up to `max`, and between half of that and all of it is
    drawn, so that many clients do not come back at the same moment."""

    attempts: int = 6
    """How often a call is sent in total; 1 means no repetition."""
    first: float = 0.1
    max: float = 5.0

    def pause(self, failures: int, error: Error | None = None) -> float:
        """Returns the pause after the nth failure, counted from 1. The server's `Retry-After` counts if it is
        longer, up to `max`."""
        whole = min(self.first * 2.0 ** min(failures - 1, 20), self.max)
        wish = error.problem.retry_after if isinstance(error, Refused) else None
        return max(random.uniform(whole / 2, whole), min(wish or 0.0, self.max))

    def allows(self, call: Call[T], error: Error, failures: int) -> bool:
        """Returns whether a failed call may be sent again."""
        if not error.is_temporary or failures >= self.attempts:
            return False
        return call.repeat is Repeat.SAFE or (call.repeat is Repeat.IF_NOT_DONE and error.was_not_done)


class Address:
    """A server's address, taken apart."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is no address such as http://127.0.0.1:7400")
        self.token = token
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.prefix = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self.prefix}"
        authorization = ""
        if token:
            if not token.isascii() or not token.isprintable():
                raise ValueError("the token holds characters that no header may hold")
            authorization = f"authorization: Bearer {token}\r\n"
        self._common = f"host: {parts.netloc}\r\nuser-agent: nagaya-py/{__version__}\r\n{authorization}"

    def request(self, call: Call[T]) -> bytes:
        """Returns a call as it goes over the wire."""
        lines = [f"{call.method} {self.prefix}{call.path} HTTP/1.1\r\n{self._common}"]
        lines += [f"{name}: {value}\r\n" for name, value in call.headers.items()]
        if call.body is None:
            return ("".join(lines) + "\r\n").encode("latin-1")
        lines.append(f"content-type: application/json\r\ncontent-length: {len(call.body)}\r\n\r\n")
        return "".join(lines).encode("latin-1") + call.body


@dataclass
class Head:
    """The first part of a response."""

    status: int
    headers: dict[str, str]

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def length(self) -> int | None:
        """The body's length; `None` if it ends with the connection."""
        if self.status in (204, 304):
            return 0
        text = self.headers.get("content-length")
        if text is None:
            return None
        if not text.isascii() or not text.isdigit():
            raise ValueError("a content-length is no number")
        return int(text)

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"

    @property
    def retry_after(self) -> float | None:
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() else None


def parse_head(data: bytes) -> Head:
    """Parses a status line and headers, up to the empty line."""
    lines = data.decode("latin-1").split("\r\n")
    first = lines[0].split(" ", 2)
    if len(first) < 2 or not first[0].startswith("HTTP/1.") or not first[1].isdigit():
        raise ValueError(f"{lines[0][:60]!r} is no answer of HTTP/1.1")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return Head(int(first[1]), headers)


def chunk_size(line: bytes) -> int:
    """Parses the line before a chunk."""
    return int(line.split(b";", 1)[0].strip(), 16)


def refusal(head: Head, body: bytes) -> Refused:
    """Returns the error for a response that is no success."""
    problem = Problem.read(head.status, body, head.retry_after)
    if problem.status == 409 and problem.name == "lease-lost":
        return LeaseLost(problem)
    return Refused(problem)


def quoted(text: str) -> str:
    """Percent-encodes text for a path or query."""
    return urllib.parse.quote(text, safe="")
