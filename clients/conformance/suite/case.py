"""What a case has at hand."""

import dataclasses
import itertools
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .adapter import LIMIT, Adapter, Unsupported
from .proxy import Proxy
from .server import Server

LEASE = 1.5
"""Seconds; short, so that cases that outlast leases are quick, and long enough for a busy machine."""


@dataclasses.dataclass(frozen=True)
class Case:
    number: int
    promise: str
    run: Callable[["Bench"], None]


CASES: list[Case] = []


def case(number: int, promise: str) -> Callable[[Callable[["Bench"], None]], Callable[["Bench"], None]]:
    """Adds a function to the suite."""

    def add(run: Callable[["Bench"], None]) -> Callable[["Bench"], None]:
        CASES.append(Case(number, promise, run))
        return run

    return add


def _memory() -> str | None:
    """Returns a folder in memory, if there is one. Leases in the cases are short: a disk that is busy for a second
    with something else would end them, which says nothing about the client."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Bench:
    """The servers, proxies and adapters of one case; ends them all."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="nagaya-conformance-", dir=_memory()))
        self._server: Server | None = None
        self._proxy: Proxy | None = None
        self._adapters: list[Adapter] = []
        self._names = itertools.count(1)

    @property
    def server(self) -> Server:
        return self._server or self.start_server()

    def start_server(self, *settings: str) -> Server:
        self._server = Server(self._folder, *settings)
        return self._server

    @property
    def proxy(self) -> Proxy:
        if self._proxy is None:
            self._proxy = Proxy(self.server.port)
        return self._proxy

    def adapter(self, direct: bool = False, token: str | None = None) -> Adapter:
        """Starts an adapter with a client, behind the proxy unless it is to go past it."""
        adapter = Adapter(self._command, self._folder, f"adapter{next(self._names)}")
        self._adapters.append(adapter)
        url = self.server.url if direct else self.proxy.url
        adapter.ask("client", url=url, **({"token": token} if token else {}))
        return adapter

    def needs(self, adapter: Adapter, feature: str) -> None:
        if feature not in adapter.features:
            raise Unsupported(f"the adapter does not have the feature {feature!r}")

    def enqueue(self, queue: str, kind: str, payload: Any, **fields: Any) -> str:
        """Registers a job past the client."""
        body = {"queue": queue, "kind": kind, "payload": payload, **fields}
        return str(self.server.call("POST", "/v1/jobs", body)["id"])

    def script(self, queue: str, *steps: dict[str, Any], **fields: Any) -> str:
        return self.enqueue(queue, "script", {"steps": list(steps)}, **fields)

    def job(self, id: str) -> dict[str, Any]:
        return self.server.call("GET", f"/v1/jobs/{id}")  # type: ignore[no-any-return]

    def ended(self, id: str, limit: float = LIMIT) -> dict[str, Any]:
        """Waits until a job has ended and returns it."""
        states = ("succeeded", "failed", "cancelled")
        return self.until(f"job {id} ends", lambda: self.job(id), lambda job: job["state"] in states, limit)

    def in_state(self, id: str, *states: str, limit: float = LIMIT) -> dict[str, Any]:
        what = f"job {id} is {' or '.join(states)}"
        return self.until(what, lambda: self.job(id), lambda job: job["state"] in states, limit)

    def until(
        self,
        what: str,
        look: Callable[[], Any],
        wanted: Callable[[Any], bool] = bool,
        limit: float = LIMIT,
    ) -> Any:
        """Looks again and again until it is as wanted, and returns what was seen."""
        end = time.monotonic() + limit
        while True:
            seen = look()
            if wanted(seen):
                return seen
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {limit} s; last seen: {seen}")
            time.sleep(0.03)

    def reports_of(self, *outcomes: str) -> list[dict[str, Any]]:
        """Returns the reports that came through the proxy, single ones and those of batches."""
        reports = []
        for what in outcomes or ("complete", "fail"):
            for call in self.proxy.called("POST", rf"/v1/jobs/[^/]+/{what}"):
                body = call.json()
                reports += body["jobs"] if "jobs" in body else [body]
        return reports

    def claimed_token(self, id: str) -> str:
        """Returns the newest token that was given out for a job through the proxy."""
        import json

        found = ""
        for call in self.proxy.called("POST", r"/v1/(claim|queues/[^/]+/claim)"):
            for job in json.loads(call.answer or b"{}").get("jobs", []):
                if job["id"] == id:
                    found = job["token"]
        assert found, f"job {id} was not claimed"
        return found

    def transcript(self) -> str:
        lines = []
        for adapter in self._adapters:
            lines += adapter.transcript[-60:]
            lines += [f"{adapter.name} wrote to standard error:", adapter.errors()]
        return "\n".join(lines)

    def close(self) -> None:
        for adapter in self._adapters:
            adapter.close()
        if self._proxy is not None:
            self._proxy.close()
        if self._server is not None:
            self._server.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
