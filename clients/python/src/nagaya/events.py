"""Events of jobs, read from one log that no reader misses anything of."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _calls
from ._http.aio import AsyncTransport, translated
from ._http.blocking import Transport
from ._http.wire import Call, RetryPolicy, quoted, refusal
from .errors import Broken, Error, Refused, TimedOut
from .jobs import content

SILENCE_MAX = 45.0
"""Seconds without a byte after which a stream counts as broken; an idle one says something every 15."""
LINE_BYTES_MAX = 16 << 20


@dataclass(frozen=True)
class Event:
    """Something that happened to a job. Its id is its position in the log, and only grows."""

    id: str
    kind: str
    """`enqueued`, `started`, `progress`, `retrying`, `succeeded`, `failed`, `cancelled` or `lease_lost`."""
    job: str
    raw: dict[str, Any] = field(repr=False)
    _ack: Callable[[str], Any] | None = field(default=None, repr=False, compare=False)

    @property
    def result(self) -> Any:
        return content(self.raw, "result", "result_content_type")

    @property
    def error(self) -> str | None:
        return self.raw.get("error")

    def ack(self) -> Any:
        """Moves the subscription's cursor here: everything up to this event has been dealt with. To be awaited if it
        came from an `AsyncClient`."""
        if self._ack is None:
            raise ValueError("only events of a subscription can be acknowledged")
        return self._ack(self.id)


@dataclass(frozen=True)
class Gap:
    """Events that no longer exist: the reader has to look at the jobs themselves."""

    after: str
    up_to: str


class Parser:
    """Server-sent events from bytes, with what a reader has to remember; no I/O."""

    def __init__(self, after: str | None) -> None:
        self.position = after
        """Where to go on after a broken connection."""
        self._buffer = b""
        self._id: str | None = None
        self._kind = ""
        self._data: list[str] = []

    def reset(self) -> None:
        """Forgets what was read of an event when its connection broke."""
        self._buffer, self._id, self._kind, self._data = b"", None, "", []

    def feed(self, data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the kind and document of events that have not been seen before."""
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > LINE_BYTES_MAX:
            raise Broken("a line of the event stream is too long")
        for line in lines:
            text = line.rstrip(b"\r").decode()
            if text:
                self._field(text)
                continue
            event = self._dispatch()
            if event is not None:
                yield event

    def _field(self, text: str) -> None:
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._id = value
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)

    def _dispatch(self) -> tuple[str, dict[str, Any]] | None:
        id, kind, data = self._id, self._kind, "\n".join(self._data)
        self._id, self._kind, self._data = None, "", []
        # A gap may lead back: the log is another one, or shorter than the reader believed.
        is_new = id is None or kind == "gap" or self.position is None or int(id) > int(self.position)
        if id is not None and is_new:
            self.position = id
        if not data or not is_new:
            return None
        return kind, json.loads(data)


@dataclass
class Selection:
    """Which events are read."""

    subscription: str | None = None
    queue: str | None = None
    kinds: Sequence[str] = ()
    after: str | int | None = None

    def stream(self, parser: Parser) -> Call[None]:
        query = {"subscription": self.subscription}
        if self.subscription is None:
            query = {"queue": self.queue, "kind": ",".join(self.kinds) or None}
        call: Call[None] = _calls.get("/v1/events", query)
        if parser.position is not None:
            call.headers["last-event-id"] = parser.position
        return call

    def parser(self) -> Parser:
        # The position of a subscription is the server's.
        return Parser(None if self.after is None or self.subscription is not None else str(self.after))

    def preparation(self) -> Call[Any] | None:
        """Returns the call that makes the subscription or gives it another filter, if there is one to give."""
        if self.subscription is None or (self.queue is None and not self.kinds and self.after is None):
            return None
        return self.creation()

    def creation(self) -> Call[Any]:
        assert self.subscription is not None
        body: dict[str, Any] = {}
        if self.queue is not None:
            body["queue"] = self.queue
        if self.kinds:
            body["kinds"] = list(self.kinds)
        if self.after is not None:
            body["after"] = str(self.after)
        return _calls.put(f"/v1/subscriptions/{quoted(self.subscription)}", body)

    def is_unknown(self, error: Error) -> bool:
        """Returns whether the subscription has to be made first."""
        return self.subscription is not None and isinstance(error, Refused) and error.problem.status == 404

    def acknowledgement(self, id: str) -> Call[Any]:
        assert self.subscription is not None
        call = _calls.put(f"/v1/subscriptions/{quoted(self.subscription)}/ack", {"cursor": id}, "POST")
        return call

    def event(self, kind: str, document: dict[str, Any], ack: Callable[[str], Any]) -> Event | Gap:
        if kind == "gap":
            return Gap(str(document["after"]), str(document["up_to"]))
        acknowledge = ack if self.subscription is not None else None
        return Event(str(document["id"]), kind, str(document["job"]), document, acknowledge)


def follow(transport: Transport, selection: Selection) -> Iterator[Event | Gap]:
    """Yields events, and connects again whenever the stream breaks."""
    prepare = selection.preparation()
    if prepare is not None:
        transport.send(prepare)
    parser, patience, failures = selection.parser(), RetryPolicy(), 0

    def ack(id: str) -> None:
        transport.send(selection.acknowledgement(id))

    while True:
        connection = None
        try:
            connection = transport.connect()
            call = selection.stream(parser)
            head = connection.send(call, SILENCE_MAX)
            if head.status != 200:
                raise refusal(head, connection.body(call, head))
            parser.reset()
            for part in connection.parts(head):
                failures = 0
                for kind, document in parser.feed(part):
                    yield selection.event(kind, document, ack)
            error: Error = Broken("the stream ended")
        except TimeoutError as cause:
            error = TimedOut(str(cause))
        except OSError as cause:
            error = Broken(str(cause))
        except Error as cause:
            error = cause
        finally:
            if connection is not None:
                connection.close()
        if selection.is_unknown(error) and not failures:
            transport.send(selection.creation())
        elif not error.is_temporary:
            raise error
        failures += 1
        time.sleep(patience.pause(failures, error))


async def follow_async(transport: AsyncTransport, selection: Selection) -> AsyncIterator[Event | Gap]:
    """Yields events, and connects again whenever the stream breaks."""
    prepare = selection.preparation()
    if prepare is not None:
        await transport.send(prepare)
    parser, patience, failures = selection.parser(), RetryPolicy(), 0

    def ack(id: str) -> Awaitable[Any]:
        return transport.send(selection.acknowledgement(id))

    while True:
        connection = None
        try:
            call = selection.stream(parser)
            with translated(transport.address, call):
                connection = await transport.take()
                head = await asyncio.wait_for(connection.send(transport.address.request(call)), SILENCE_MAX)
                parts = connection.parts(head)
                if head.status != 200:
                    raise refusal(head, b"".join([part async for part in parts]))
                parser.reset()
                while True:
                    part = await asyncio.wait_for(anext(parts, b""), SILENCE_MAX)
                    if not part:
                        break
                    failures = 0
                    for kind, document in parser.feed(part):
                        yield selection.event(kind, document, ack)
            error: Error = Broken("the stream ended")
        except asyncio.TimeoutError as cause:
            error = TimedOut(str(cause))
        except Error as cause:
            error = cause
        finally:
            if connection is not None:
                connection.close()
        if selection.is_unknown(error) and not failures:
            await transport.send(selection.creation())
        elif not error.is_temporary:
            raise error
        failures += 1
        await asyncio.sleep(patience.pause(failures, error))
