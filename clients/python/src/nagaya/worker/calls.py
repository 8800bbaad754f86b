"""The worker's calls: claims, extensions and reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .._http.wire import Call, Repeat, quoted
from ..codec import dumps
from ..errors import Problem

CLAIM_MAX = 1000


def claim(queues: Sequence[str], worker: str, places: int, wait: float) -> Call[list[dict[str, Any]]]:
    """Claims jobs. If the answer is lost, its jobs lose one attempt each, because their leases expire."""
    body: dict[str, Any] = {"worker": worker, "max": min(places, CLAIM_MAX), "wait_seconds": wait}
    path = "/v1/claim"
    if len(queues) == 1:
        path = f"/v1/queues/{quoted(queues[0])}/claim"
    else:
        body["queues"] = list(queues)

    def read(answer: bytes) -> list[dict[str, Any]]:
        return json.loads(answer)["jobs"]  # type: ignore[no-any-return]

    return Call("POST", path, read, dumps(body).encode(), wait=wait, repeat=Repeat.NEVER)


def extend(id: str, token: str) -> Call[None]:
    body = f'{{"token":"{token}"}}'.encode()
    return Call("POST", f"/v1/jobs/{quoted(id)}/extend", lambda _: None, body)


def report(what: str, bodies: list[str]) -> Call[list[Problem | None]]:
    """Completes or fails attempts. The answer has a problem, or none, for each."""

    def read(answer: bytes) -> list[Problem | None]:
        items = json.loads(answer)["jobs"]
        return [Problem.of(item["error"]) if "error" in item else None for item in items]

    return Call("POST", f"/v1/jobs/batch/{what}", read, f'{{"jobs":[{",".join(bodies)}]}}'.encode())
