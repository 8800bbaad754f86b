"""Handlers in processes of their own, for code that holds the interpreter's lock or has to be killed.

Processes are spawned, not forked: locks and connections of the parent do not survive a fork.
"""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from .._http.blocking import Transport
from .._http.wire import Address
from .attempt import Attempt
from .handler import Handler
from .lease import Lease, now
from .outcome import Failure, Outcome
from .runners import Ended, Work, run_here

PR_SET_PDEATHSIG = 1


def lookup(module: str, name: str) -> Any:
    """Finds a module's attribute; how job definitions travel to other processes."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


class ProcessRunner:
    """Runs each handler in one of a number of processes, which are used again."""

    def __init__(
        self, size: int, server: tuple[str, str | None], started: Callable[[Lease], None], ended: Ended
    ) -> None:
        self._size = size
        self._server = server
        self._started = started
        self._ended = ended
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._places: list[Place] = []

    def submit(self, work: list[Work]) -> None:
        for one in work:
            self._work.put(one)
        missing = min(self._size - len(self._places), self._work.qsize())
        for _ in range(missing):
            self._places.append(Place(self._server, self._work, self._started, self._ended))

    def wait_until_free(self, is_over: threading.Event) -> None:
        pass

    def kill(self, lease: Lease) -> None:
        for place in self._places:
            place.kill(lease)

    def close(self) -> None:
        for _ in self._places:
            self._work.put(None)
        for place in self._places:
            place.kill(None)


class Place:
    """A thread with a child process. The thread lives as long as the child: Linux ends a child with the thread that
    has started it."""

    def __init__(
        self,
        server: tuple[str, str | None],
        work: queue.SimpleQueue[Work | None],
        started: Callable[[Lease], None],
        ended: Ended,
    ) -> None:
        self._server = server
        self._work = work
        self._started = started
        self._ended = ended
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._process: Any = None
        self._pipe: Connection | None = None
        threading.Thread(target=self._run, name="nagaya-process", daemon=True).start()

    def kill(self, lease: Lease | None) -> None:
        """Kills the child if it runs this lease's handler, or none."""
        with self._lock:
            if self._process is not None and self._lease is lease:
                self._process.kill()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                self.kill(None)
                return
            lease, handler = work
            with self._lock:
                self._lease = lease
            self._started(lease)
            outcome = self._attend(lease, handler)
            with self._lock:
                self._lease = None
            self._ended(lease, outcome)

    def _attend(self, lease: Lease, handler: Handler) -> Outcome | None:
        if lease.attempt.stopped:
            return None
        try:
            pipe = self._child()
            with self._lock:
                pipe.send(("run", handler.reference, handler.kind, handler.bind, lease.attempt.raw))
            lease.attempt.when_stopped(lambda reason: self._tell(pipe, reason))
            outcome: Outcome | None = pipe.recv()
            return outcome
        except (EOFError, OSError) as error:
            code = self._bury()
            if lease.attempt.stopped:
                return None
            return Failure(f"the handler's process ended with exit code {code} ({error!r})")
        except Exception as error:  # a reference that cannot be sent
            self._bury()
            return Failure(f"the handler cannot be run in another process: {error}")

    def _child(self) -> Connection:
        if self._pipe is not None and self._process.is_alive():
            return self._pipe
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=child, args=(theirs, self._server, os.getpid()), daemon=True)
        process.start()
        theirs.close()
        with self._lock:
            self._process, self._pipe = process, ours
        return ours

    def _tell(self, pipe: Connection, reason: str) -> None:
        with self._lock:
            try:
                pipe.send(("stop", reason))
            except OSError:
                pass  # The child is gone, which its own thread notices.

    def _bury(self) -> int | None:
        with self._lock:
            process, pipe = self._process, self._pipe
            self._process = self._pipe = None
        if pipe is not None:
            pipe.close()
        if process is None:
            return None
        process.kill()
        process.join()
        code: int | None = process.exitcode
        return code


def child(pipe: Connection, server: tuple[str, str | None], parent: int) -> None:
    """The main function of a child process."""
    end_with_parent(parent)
    for one in (signal.SIGINT, signal.SIGTERM):
        # A signal to the whole group is the parent's matter.
        signal.signal(one, signal.SIG_IGN)
    transport = Transport(Address(*server))
    todo: queue.SimpleQueue[tuple[Lease, Handler]] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(pipe, transport, todo), daemon=True).start()
    while True:
        lease, handler = todo.get()
        outcome = run_here(lease, handler)
        sys.stdout.flush()
        pipe.send(outcome)


def listen(pipe: Connection, transport: Transport, todo: queue.SimpleQueue[tuple[Lease, Handler]]) -> None:
    """Takes the parent's messages, also while a handler runs."""
    attempt: Attempt | None = None
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            os._exit(1)
        except Exception as error:  # what the parent refers to cannot be found here
            pipe.send(Failure(f"the handler was not found in its own process: {error!r}"))
            continue
        if message[0] == "stop":
            if attempt is not None:
                attempt.stop(message[1])
            continue
        _, reference, kind, bind, raw = message
        attempt = Attempt(raw, transport)
        definition = getattr(reference, "handler", None)
        handler = definition if isinstance(definition, Handler) else Handler(kind, reference, bind)
        todo.put((Lease(attempt, now()), handler))


def end_with_parent(parent: int) -> None:
    """Lets this process be killed when its parent ends, even if no Python code gets to run (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
