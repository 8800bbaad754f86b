"""Jobs: to register, registered, and claimed."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .codec import dumps
from .errors import Problem

ENDED = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True)
class Binary:
    """A payload or result that is not JSON."""

    data: bytes
    content_type: str = "application/octet-stream"


@dataclass(frozen=True)
class Json:
    """A payload or result that is JSON already; it is passed on byte for byte."""

    text: str

    def __post_init__(self) -> None:
        json.loads(self.text)


Seconds = float | int | datetime.timedelta


def seconds(value: Seconds) -> float:
    """Returns a length of time as the API wants it."""
    return value.total_seconds() if isinstance(value, datetime.timedelta) else float(value)


def instant(value: datetime.datetime | str) -> str:
    """Returns a point in time as the API wants it."""
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise ValueError("a time without a time zone is ambiguous: use datetime.now(timezone.utc) or another zone")
    return value.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class NewJob:
    """A job to register. What is `None` comes from the queue's settings."""

    queue: str
    payload: Any = None
    kind: str | None = None
    key: str | None = None
    """Two registrations in one queue with the same key are one job; made up if there is none."""
    delay: Seconds | None = None
    """Starts so long from now, by this machine's clock."""
    run_at: datetime.datetime | str | None = None
    after: Sequence[str] = ()
    """Runs after all of these jobs succeeded."""
    priority: int | None = None
    """Higher goes first."""
    max_retries: int | None = None
    """Attempts after the first."""
    timeout: Seconds | None = None
    """How long an attempt may go without a heartbeat; workers send them by themselves."""
    backoff: Mapping[str, Any] | None = None
    retention: Seconds | None = None
    tags: Sequence[str] = ()
    unique_key: str | None = None
    """While a job with this key has not ended, another registration finds it."""
    concurrency: Mapping[str, Any] | None = None
    webhook: str | Mapping[str, Any] | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Any other field of `POST /v1/jobs`."""

    def body(self, key: str | None = None) -> str:
        """Returns the job as JSON. `key` is taken if it has none of its own."""
        text = dumps({name: value for name, value in self._named(key).items() if value is not None})
        if isinstance(self.payload, Binary):
            return text
        payload = self.payload.text if isinstance(self.payload, Json) else dumps(self.payload)
        return f'{text[:-1]},"payload":{payload}}}'

    def _named(self, key: str | None) -> dict[str, Any]:
        run_at = self.run_at
        if self.delay is not None:
            if run_at is not None:
                raise ValueError("a job has a delay or a time, not both")
            now = datetime.datetime.now(datetime.timezone.utc)
            run_at = now + datetime.timedelta(seconds=seconds(self.delay))
        webhook = {"url": self.webhook} if isinstance(self.webhook, str) else self.webhook
        named: dict[str, Any] = {
            "queue": self.queue,
            "kind": self.kind,
            "idempotency_key": self.key if self.key is not None else key,
            "run_at": None if run_at is None else instant(run_at),
            "depends_on": list(self.after) or None,
            "priority": self.priority,
            "max_retries": self.max_retries,
            "timeout_seconds": None if self.timeout is None else seconds(self.timeout),
            "backoff": self.backoff,
            "retention_seconds": None if self.retention is None else seconds(self.retention),
            "tags": list(self.tags) or None,
            "unique_key": self.unique_key,
            "concurrency": self.concurrency,
            "webhook": webhook,
            "traceparent": self.traceparent,
            "tracestate": self.tracestate,
            **self.fields,
        }
        if isinstance(self.payload, Binary):
            named["payload_base64"] = base64.b64encode(self.payload.data).decode()
            named["content_type"] = self.payload.content_type
        return named


@dataclass(frozen=True)
class Registered:
    """The answer to a registration: a job's id, or the problem with it."""

    id: str | None
    state: str | None = None
    found_by: str | None = None
    """The key by which an earlier registration was found: this call made no job."""
    problem: Problem | None = None

    @classmethod
    def read(cls, item: dict[str, Any]) -> Registered:
        if "error" in item:
            return cls(None, problem=Problem.of(item["error"]))
        return cls(item["id"], item.get("state"), item.get("found_by"))


@dataclass(frozen=True)
class JobInfo:
    """A job as the server described it. `raw` has every field of the API."""

    id: str
    queue: str
    state: str
    attempts: int
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def read(cls, item: dict[str, Any]) -> JobInfo:
        return cls(item["id"], item["queue"], item["state"], int(item.get("attempts", 0)), item)

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def kind(self) -> str | None:
        return self.raw.get("kind")

    @property
    def error(self) -> str | None:
        return self.raw.get("error")

    @property
    def result(self) -> Any:
        """What it ended with: JSON, or `Binary`."""
        return content(self.raw, "result", "result_content_type")

    @property
    def payload(self) -> Any:
        return content(self.raw, "payload", "payload_content_type")

    @property
    def progress(self) -> dict[str, Any] | None:
        return self.raw.get("progress")


def content(item: Mapping[str, Any], name: str, type_name: str) -> Any:
    """Returns a payload or result of the API: JSON, or `Binary`."""
    encoded = item.get(f"{name}_base64")
    if encoded is None:
        return item.get(name)
    return Binary(base64.b64decode(encoded), item.get(type_name) or "application/octet-stream")
