"""Where handlers run: on an event loop, or in threads."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Protocol

from .. import trace
from ..errors import Stopped
from .handler import Handler
from .lease import Lease
from .outcome import Failure, Outcome, failure, success

Ended = Callable[[Lease, "Outcome | None"], None]
"""Takes the outcome of a handler; `None` if it ended because it was stopped."""
Work = tuple[Lease, Handler]


class Runner(Protocol):
    def submit(self, work: list[Work]) -> None: ...

    def wait_until_free(self, is_over: threading.Event) -> None:
        """Returns when new work would be started without delay."""

    def kill(self, lease: Lease) -> None:
        """Ends a handler that does not end by itself, where that is possible."""

    def close(self) -> None: ...


class LoopRunner:
    """Runs coroutine functions as tasks of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, started: Callable[[Lease], None], ended: Ended) -> None:
        self._loop = loop
        self._started = started
        self._ended = ended
        self._tasks: dict[Lease, asyncio.Task[None]] = {}

    def submit(self, work: list[Work]) -> None:
        self._call(self._start, work)

    def wait_until_free(self, is_over: threading.Event) -> None:
        turn = threading.Event()
        self._call(turn.set)
        while not turn.wait(0.5) and not is_over.is_set():
            pass

    def kill(self, lease: Lease) -> None:
        """A task that goes on after its cancellation cannot be ended."""

    def close(self) -> None:
        pass

    def _call(self, function: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass  # The loop is closed: its handlers are gone, and their leases will end.

    def _start(self, work: list[Work]) -> None:
        for lease, handler in work:
            self._tasks[lease] = self._loop.create_task(self._run(lease, handler))

    async def _run(self, lease: Lease, handler: Handler) -> None:
        attempt = lease.attempt
        attempt.enter()
        task = self._tasks[lease]
        attempt.when_stopped(lambda _: self._call(task.cancel))
        self._started(lease)
        outcome: Outcome | None
        try:
            args, kwargs = handler.arguments(attempt)
            with trace.processing(attempt):
                outcome = success(await handler.function(*args, **kwargs))
        except BaseException as error:  # also SystemExit: a handler ends its attempt, not the worker
            outcome = judged(lease, error)
        finally:
            self._tasks.pop(lease, None)
        self._ended(lease, outcome)


class ThreadRunner:
    """Runs functions in threads. The threads do not keep the process alive, so that a handler that hangs cannot keep
    the worker from ending."""

    def __init__(self, size: int, started: Callable[[Lease], None], ended: Ended) -> None:
        self._size = size
        self._started = started
        self._ended = ended
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads = 0

    def submit(self, work: list[Work]) -> None:
        for one in work:
            self._work.put(one)
        while self._threads < min(self._size, self._threads + self._work.qsize()):
            self._threads += 1
            threading.Thread(target=self._run, name=f"nagaya-handler-{self._threads}", daemon=True).start()

    def wait_until_free(self, is_over: threading.Event) -> None:
        pass

    def kill(self, lease: Lease) -> None:
        """A thread cannot be ended."""

    def close(self) -> None:
        for _ in range(self._threads):
            self._work.put(None)

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            lease, handler = work
            self._started(lease)
            self._ended(lease, run_here(lease, handler))


def run_here(lease: Lease, handler: Handler) -> Outcome | None:
    """Runs a handler in this thread; one that is a coroutine function on a loop of its own. What it sets in the
    context does not outlive it."""
    return contextvars.copy_context().run(_run_in_context, lease, handler)


def _run_in_context(lease: Lease, handler: Handler) -> Outcome | None:
    attempt = lease.attempt
    attempt.enter()
    try:
        attempt.check()
        args, kwargs = handler.arguments(attempt)
        with trace.processing(attempt):
            if not handler.is_async:
                return success(handler.function(*args, **kwargs))
            return success(asyncio.run(_cancellable(lease, handler, args, kwargs)))
    except BaseException as error:  # also SystemExit: a handler ends its attempt, not the worker
        return judged(lease, error)


async def _cancellable(lease: Lease, handler: Handler, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def stop(_: str) -> None:
        try:
            loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:
            pass  # It has just ended.

    lease.attempt.when_stopped(stop)
    return await handler.function(*args, **kwargs)


def judged(lease: Lease, error: BaseException) -> Outcome | None:
    """Returns the outcome of a handler that raised."""
    is_stop = isinstance(error, (asyncio.CancelledError, Stopped))
    if is_stop and lease.attempt.stopped:
        return None
    if isinstance(error, asyncio.CancelledError):
        return Failure("the handler was cancelled")
    return failure(error)
