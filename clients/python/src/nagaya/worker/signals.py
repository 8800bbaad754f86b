"""Signals that end a worker.

A thread reads them from a pipe that the interpreter writes to. So they are seen at once, whatever handlers do, and no
code of ours runs inside a signal handler.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)
)


class Signals:
    """Calls `tell` for each signal that asks for an end, between `__enter__` and `__exit__`. Only in the main thread;
    in others nothing is done."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._before: dict[signal.Signals, Any] = {}
        self._fd_before = -1
        self._pair: tuple[socket.socket, socket.socket] | None = None

    def __enter__(self) -> Signals:
        if threading.current_thread() is not threading.main_thread():
            return self
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        self._pair = reader, writer
        self._fd_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for one in ENDING:
            self._before[one] = signal.signal(one, _ignore)
        threading.Thread(target=self._read, args=(reader,), name="nagaya-signals", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._pair is None:
            return
        for one, before in self._before.items():
            signal.signal(one, before)
        signal.set_wakeup_fd(self._fd_before)
        for end in self._pair:
            end.close()

    def _read(self, reader: socket.socket) -> None:
        numbers = {int(one) for one in ENDING}
        while True:
            try:
                data = reader.recv(64)
            except OSError:
                return
            if not data:
                return
            for number in data:
                if number in numbers:
                    self._tell()


def _ignore(*_: object) -> None:
    """The default action would be to end at once; the pipe has the signal."""


def exit_now(code: int) -> None:
    """Ends the process without waiting for threads that do not end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)
