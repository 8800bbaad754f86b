"""For the tests of applications: a real server, a handler run once, a worker run until idle."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from .app import App, JobDefinition
from .client import Client
from .codec import dumps
from .worker.attempt import Attempt
from .worker.lease import Lease, now
from .worker.outcome import Failure
from .worker.run import Worker
from .worker.runners import run_here

START_SECONDS = 60.0


class House:
    """A server on free ports, with its data in a temporary folder, for as long as a `with` block.

    `nagaya` comes from `NAGAYA_BIN`, or from PATH.
    """

    def __init__(self, *settings: str) -> None:
        self._settings = settings
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> House:
        """Starts the server and waits until it is ready."""
        self._folder = self._folder or tempfile.mkdtemp(prefix="nagaya-test-")
        listen = self.url.removeprefix("http://") or "127.0.0.1:0"
        command = [program(), "up", "--data", os.path.join(self._folder, "data"), "--http-listen", listen]
        for service in ("room", "ids", "fanout"):
            command += ["--set", f"{service}.listen=127.0.0.1:0"]
        for setting in self._settings:
            command += ["--set", setting]
        path = os.path.join(self._folder, "server.log")
        with open(path, "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder
            )
        self._wait_until_ready(path)
        return self

    def _wait_until_ready(self, path: str) -> None:
        assert self._process is not None
        end = time.monotonic() + START_SECONDS
        while True:
            with open(path, errors="replace") as log:
                text = log.read()
            found = re.search(r"(http://127\.0\.0\.1:\d+)/v1/jobs", text)
            if found and " is ready" in text:
                self.url = found.group(1)
                return
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise RuntimeError(f"the server did not start:\n{text[-2000:]}")
            time.sleep(0.02)

    def client(self, token: str | None = None) -> Client:
        return Client(self.url, token)

    def kill(self) -> None:
        """Ends the server without a warning; `start` starts it again with the same data and address."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ends the server and removes its data."""
        self.kill()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def __enter__(self) -> House:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()


def program() -> str:
    """Returns the path of `nagaya`."""
    found = os.environ.get("NAGAYA_BIN") or shutil.which("nagaya")
    if not found:
        raise RuntimeError("nagaya was not found: set NAGAYA_BIN or put it on PATH")
    return found


class AttemptFailed(AssertionError):
    """A handler that was run by `run` failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.is_permanent = failure.permanent
        self.retry_after = failure.retry_after


def run(job: JobDefinition[..., Any], *args: Any, attempt: int = 1, **kwargs: Any) -> Any:
    """Runs a handler once, without a server, and returns its result. Payload and result go through JSON, as they would
    in earnest. Raises `AttemptFailed`; progress and log lines go nowhere."""
    payload = json.loads(dumps(job.handler.payload(args, kwargs)))
    raw = {
        "id": "1",
        "token": "test",
        "attempt": attempt,
        "queue": job.queue,
        "kind": job.kind,
        "payload": payload,
        "max_retries": 5,
    }
    outcome = run_here(Lease(Attempt(raw), now()), job.handler)
    if outcome is None or isinstance(outcome, Failure):
        raise AttemptFailed(outcome or Failure("the handler was stopped"))
    return json.loads(f"{{{outcome.result[1:]}}}").get("result")


def drain(app: App, queues: Sequence[str] | None = None, limit: float = 30.0, **options: Any) -> Worker:
    """Runs a worker until none of its queues has a job that is ready or running, and returns it."""
    worker = app.worker(list(queues) if queues else None, **options)
    worker.start()
    end = time.monotonic() + limit
    try:
        while not _is_idle(app.client, worker.queues):
            if time.monotonic() > end:
                raise TimeoutError(f"the queues were not empty within {limit:g} s")
            time.sleep(0.02)
    finally:
        worker.stop()
    return worker


def _is_idle(client: Client, queues: Sequence[str]) -> bool:
    depths = [queue["depth"] for queue in client.queues() if queue["name"] in queues]
    return not any(depth["ready"] or depth["running"] for depth in depths)


def enqueued(app: App, job: JobDefinition[..., Any]) -> list[Any]:
    """Returns the payloads of the jobs of a kind that were registered, oldest first."""
    found = app.client.jobs(queue=job.queue, kind=job.kind)
    return [app.client.info(one.id).payload for one in found][::-1]
