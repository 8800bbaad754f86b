"""The conversation with an adapter."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from .server import Background

LIMIT = 30
"""Seconds that anything may take unless a case says otherwise."""


class Unsupported(Exception):
    """The adapter does not know a command or mode that it need not know."""


class Adapter:
    """A running adapter."""

    def __init__(self, command: str, folder: pathlib.Path, name: str) -> None:
        self._log = folder / f"{name}.stderr"
        self._process = subprocess.Popen(
            shlex.split(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(self._log, "wb"),
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.name = name
        self.transcript: list[str] = []
        self._said: list[dict[str, Any]] = []
        self._is_over = False
        self._changed = threading.Condition()
        self._last = 0
        Background(self._read)
        hello = self.event("hello")
        self.modes: list[str] = hello["modes"]
        self.features: list[str] = hello.get("features", [])

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, do: str, **fields: Any) -> int:
        """Sends a command and returns its number."""
        self._last += 1
        line = json.dumps({"id": self._last, "do": do, **fields})
        self._note(">", line)
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        return self._last

    def answer(self, number: int, limit: float = LIMIT) -> dict[str, Any]:
        """Waits for the answer of a command, with `ok` or `error`."""
        return self.until(f"the answer of command {number}", lambda said: said.get("id") == number, limit)

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Sends a command and returns what its answer has as `ok`."""
        answer = self.answer(self.begin(do, **fields))
        if "ok" not in answer:
            raise AssertionError(f"{do} was answered with {answer.get('error')}")
        return answer["ok"]  # type: ignore[no-any-return]

    def event(self, name: str, limit: float = LIMIT, **fields: Any) -> dict[str, Any]:
        """Waits for the first event of a name with these fields."""
        what = f"the event {name} with {fields}" if fields else f"the event {name}"
        return self.until(what, lambda said: matches(said, name, fields), limit)

    def events(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        """Returns the events of a name with these fields so far."""
        with self._changed:
            return [said for said in self._said if matches(said, name, fields)]

    def until(self, what: str, wanted: Callable[[dict[str, Any]], bool], limit: float = LIMIT) -> dict[str, Any]:
        """Waits for a line; each has the time of its arrival as `_at`."""
        end = time.monotonic() + limit
        with self._changed:
            seen = 0
            while True:
                for said in self._said[seen:]:
                    if wanted(said):
                        return said
                seen = len(self._said)
                left = end - time.monotonic()
                if self._is_over:
                    raise AssertionError(f"the adapter ended before {what}")
                if left <= 0:
                    raise AssertionError(f"{what} did not come within {limit} s")
                self._changed.wait(left)

    def count(self, what: str, number: int, name: str, limit: float = LIMIT, **fields: Any) -> list[dict[str, Any]]:
        """Waits until there are so many events of a name."""
        end = time.monotonic() + limit
        with self._changed:
            while True:
                found = [said for said in self._said if matches(said, name, fields)]
                if len(found) >= number:
                    return found
                left = end - time.monotonic()
                if left <= 0 or self._is_over:
                    raise AssertionError(f"{what}: {len(found)} instead of {number} events {name}")
                self._changed.wait(left)

    def until_now(self) -> list[dict[str, Any]]:
        """Returns everything that the adapter said so far."""
        with self._changed:
            return list(self._said)

    def signal(self, which: signal.Signals = signal.SIGTERM) -> float:
        """Sends a signal and returns the time."""
        self._note("!", which.name)
        self._process.send_signal(which)
        return time.monotonic()

    def exit_code(self, limit: float = LIMIT) -> int:
        """Waits for the end of the adapter."""
        try:
            code = self._process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the adapter did not end within {limit} s") from None
        self._note("!", f"exit code {code}")
        return code

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends the adapter as its driver's end would."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self.kill()

    def errors(self) -> str:
        return self._log.read_bytes()[-6000:].decode(errors="replace")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            self._note("<", text)
            try:
                said = json.loads(text)
            except ValueError:
                said = {"event": "garbage", "text": text}
            said["_at"] = time.monotonic()
            with self._changed:
                self._said.append(said)
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _note(self, mark: str, text: str) -> None:
        shown = text if len(text) <= 500 else f"{text[:500]}... ({len(text)} characters)"
        self.transcript.append(f"{time.strftime('%H:%M:%S')} {self.name} {mark} {shown}")


def matches(said: dict[str, Any], name: str, fields: dict[str, Any]) -> bool:
    """Returns whether a line is an event of this name with these fields."""
    return said.get("event") == name and all(said.get(key) == value for key, value in fields.items())
