"""A proxy in front of the server that loses, cuts, holds and changes messages.

It knows HTTP/1.1, so that a case can lose the answer of one certain call after the server has done it. What a client
did is kept for the checks.
"""

import asyncio
import dataclasses
import json
import re
import threading
from collections.abc import Callable, Coroutine
from typing import Any

HEAD_MAX = 1 << 16


@dataclasses.dataclass
class Call:
    """A request that went through, or tried to."""

    method: str
    path: str
    body: bytes
    at: float
    answer: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)


@dataclasses.dataclass
class Rule:
    """What happens to the next calls of a kind."""

    method: str
    path: re.Pattern[str]
    action: str
    times: int
    answer: bytes = b""
    done: threading.Event = dataclasses.field(default_factory=threading.Event)
    opened: threading.Event = dataclasses.field(default_factory=threading.Event)


class Proxy:
    """Listens on a port of its own and passes calls on to `port`."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.calls: list[Call] = []
        self.rewrite: Callable[[bytes], bytes] | None = None
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._passable = asyncio.Event()
        self._passable.set()
        self._is_cut = False
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._run(self._listen())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lose_answer(self, method: str, path: str, times: int = 1) -> Rule:
        """The server does the call; the client's connection breaks instead of the answer."""
        return self._add(method, path, "lose", times)

    def refuse(self, method: str, path: str, times: int = 1) -> Rule:
        """The connection breaks before the server sees the call."""
        return self._add(method, path, "refuse", times)

    def hold_answer(self, method: str, path: str, times: int = 1) -> Rule:
        """The server does the call; the answer waits for `opened` of the rule."""
        return self._add(method, path, "hold", times)

    def answer(
        self, method: str, path: str, status: int, body: Any = None, headers: tuple[str, ...] = (), times: int = 1
    ) -> Rule:
        """The proxy answers in the server's place."""
        text = json.dumps(body or {"type": "about:blank", "title": "", "status": status, "detail": "by the proxy"})
        lines = [f"HTTP/1.1 {status} Proxy", "content-type: application/problem+json", *headers]
        lines.append(f"content-length: {len(text.encode())}")
        rule = self._add(method, path, "answer", times)
        rule.answer = ("\r\n".join(lines) + "\r\n\r\n" + text).encode()
        return rule

    def freeze(self) -> None:
        """From now on nothing passes in either direction, and nobody is told."""
        self._run(self._set(self._passable.clear))

    def thaw(self) -> None:
        self._run(self._set(self._passable.set))

    def cut(self) -> None:
        """Breaks all connections, and new ones as soon as they say something."""
        self._is_cut = True
        self._run(self._set(self._abort_all))

    def mend(self) -> None:
        self._is_cut = False

    def cut_once(self) -> None:
        """Breaks all connections; new ones work."""
        self._run(self._set(self._abort_all))

    def called(self, method: str, path: str) -> list[Call]:
        """Returns the calls so far whose whole path matches."""
        with self._lock:
            return [call for call in self.calls if call.method == method and re.fullmatch(path, call.path)]

    def close(self) -> None:
        self._run(self._end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _add(self, method: str, path: str, action: str, times: int) -> Rule:
        rule = Rule(method, re.compile(path), action, times)
        with self._lock:
            self._rules.append(rule)
        return rule

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _set(self, change: Callable[[], None]) -> None:
        change()

    async def _end_all(self) -> None:
        self._abort_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _abort_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        client = Connection(reader, writer)
        upstream: Connection | None = None
        try:
            while True:
                head, body = await client.read_request()
                if self._is_cut:
                    break
                call, rule = self._note(head, body)
                await self._passable.wait()
                if rule is not None and rule.action == "refuse":
                    break
                if rule is not None and rule.action == "answer":
                    writer.write(rule.answer)
                    await writer.drain()
                    continue
                if upstream is None:
                    upstream = Connection(*await asyncio.open_connection("127.0.0.1", self.target, limit=1 << 24))
                upstream.writer.write(head + body)
                await upstream.writer.drain()
                if not await self._answer(client, upstream, call, rule):
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # One side is gone, or the proxy ends.
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            if upstream is not None:
                upstream.writer.transport.abort()

    def _note(self, head: bytes, body: bytes) -> tuple[Call, Rule | None]:
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        call = Call(method, path, body, self._loop.time())
        with self._lock:
            self.calls.append(call)
            for rule in self._rules:
                if rule.times > 0 and rule.method == method and rule.path.fullmatch(path):
                    rule.times -= 1
                    if rule.times == 0:
                        rule.done.set()
                    return call, rule
        return call, None

    async def _answer(self, client: "Connection", upstream: "Connection", call: Call, rule: Rule | None) -> bool:
        """Passes an answer on. Returns whether both connections can be used again."""
        answering = asyncio.ensure_future(upstream.reader.readuntil(b"\r\n\r\n"))
        leaving = asyncio.ensure_future(client.leave())
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            await end(answering)
            # The network between a frozen proxy and the server knows nothing of the client's leaving.
            await self._passable.wait()
            return False
        await end(leaving)
        head = await answering
        length = header(head, b"content-length")
        if length is None and header(head, b"transfer-encoding") is not None:
            await self._stream(client, upstream, head)
            return False
        body = await upstream.reader.readexactly(int(length or 0))
        call.answer = body
        if rule is not None and rule.action == "lose":
            return False
        if rule is not None and rule.action == "hold":
            await self._loop.run_in_executor(None, rule.opened.wait, 60)
        if self.rewrite is not None:
            changed = self.rewrite(body)
            head = head.replace(b"content-length: %d" % len(body), b"content-length: %d" % len(changed))
            body = changed
        await self._passable.wait()
        client.writer.write(head + body)
        await client.writer.drain()
        return True

    async def _stream(self, client: "Connection", upstream: "Connection", head: bytes) -> None:
        """Passes an endless body on as it comes, until either side closes."""
        await self._passable.wait()
        client.writer.write(head)
        leaving = asyncio.ensure_future(client.leave())
        try:
            while True:
                reading = asyncio.ensure_future(upstream.reader.read(65536))
                await asyncio.wait([reading, leaving], return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    await end(reading)
                    return
                part = await reading
                if not part:
                    return
                await self._passable.wait()
                client.writer.write(part)
                await client.writer.drain()
        finally:
            await end(leaving)
            client.writer.close()


class Connection:
    """One side of the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._ahead = b""

    async def read_request(self) -> tuple[bytes, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        head, self._ahead = self._ahead + head, b""
        if header(head, b"transfer-encoding") is not None:
            body = await self._read_chunks()
        else:
            body = await self.reader.readexactly(int(header(head, b"content-length") or 0))
        return head, body

    async def _read_chunks(self) -> bytes:
        body = b""
        while True:
            line = await self.reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            body += line + await self.reader.readexactly(size + 2)
            if size == 0:
                return body

    async def leave(self) -> None:
        """Returns when the client has closed its side."""
        first = await self.reader.read(1)
        self._ahead += first
        if first:
            await asyncio.Event().wait()


async def end(task: "asyncio.Future[Any]") -> None:
    """Cancels a task and waits until it is over, so that another may read in its place."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def header(head: bytes, name: bytes) -> bytes | None:
    """Returns a header's value."""
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None
