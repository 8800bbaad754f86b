"""The worker's calls: claims, extensions and reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._http.wire import Call, Repeat, quoted
from ..codec import dumps
from ..errors import Problem

CLAIM_MAX = 1000
HOLDING_MAX = 1000


@dataclass(frozen=True)
class Claimed:
    """The answer to a claim: jobs, and leases that the worker believed to have."""

    jobs: list[dict[str, Any]]
    lost: list[dict[str, Any]]


def version() -> Call[str]:
    """Asks for the server's version. One that does not know the call knows none of `holding`, releases and batches of
    extensions either."""
    return Call("GET", "/v1/version", lambda answer: str(json.loads(answer)["version"]))


def claim(queues: Sequence[str], worker: str, places: int, wait: float, holding: Sequence[str]) -> Call[Claimed]:
    """Claims jobs. If the answer is lost, its jobs lose one attempt each, because their leases expire. As soon as one
    of `holding` is lost, the answer says so."""
    body: dict[str, Any] = {"worker": worker, "max": min(places, CLAIM_MAX), "wait_seconds": wait}
    if holding:
        body["holding"] = list(holding[:HOLDING_MAX])
    path = "/v1/claim"
    if len(queues) == 1:
        path = f"/v1/queues/{quoted(queues[0])}/claim"
    else:
        body["queues"] = list(queues)

    def read(answer: bytes) -> Claimed:
        document = json.loads(answer)
        return Claimed(document["jobs"], document.get("lost") or [])

    return Call("POST", path, read, dumps(body).encode(), wait=wait, repeat=Repeat.NEVER)


def extend(id: str, token: str) -> Call[None]:
    body = f'{{"token":"{token}"}}'.encode()
    return Call("POST", f"/v1/jobs/{quoted(id)}/extend", lambda _: None, body)


def report(what: str, bodies: list[str]) -> Call[list[Problem | None]]:
    """Completes, fails, releases or extends attempts. The answer has a problem, or none, for each."""

    def read(answer: bytes) -> list[Problem | None]:
        items = json.loads(answer)["jobs"]
        return [Problem.of(item["error"]) if "error" in item else None for item in items]

    return Call("POST", f"/v1/jobs/batch/{what}", read, f'{{"jobs":[{",".join(bodies)}]}}'.encode())
