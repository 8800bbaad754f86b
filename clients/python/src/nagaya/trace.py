"""Trace context (W3C) from the submitter to the handler and on to what the handler enqueues.

With OpenTelemetry installed, its current context goes along with jobs, and handlers run in a span of their own.
Without it the context that came with the job is passed on unchanged.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .jobs import NewJob
    from .worker.attempt import Attempt

try:
    from opentelemetry import propagate as _propagate  # type: ignore[import-not-found,unused-ignore]
    from opentelemetry import trace as _otel  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    _otel = None  # type: ignore[assignment,unused-ignore]

Context = tuple[str | None, str | None]
_current: contextvars.ContextVar[Context] = contextvars.ContextVar("nagaya_trace", default=(None, None))


def current() -> Context:
    """Returns `traceparent` and `tracestate` of what runs here."""
    if _otel is not None:
        carrier: dict[str, str] = {}
        _propagate.inject(carrier)
        if "traceparent" in carrier:
            return carrier["traceparent"], carrier.get("tracestate")
    return _current.get()


def set_current(traceparent: str | None, tracestate: str | None = None) -> None:
    """Sets the context of the running task or thread."""
    _current.set((traceparent, tracestate))


def carried(job: NewJob) -> NewJob:
    """Returns a job with the context of its submitter, unless it has one of its own."""
    if job.traceparent is not None:
        return job
    traceparent, tracestate = current()
    if traceparent is None:
        return job
    return dataclasses.replace(job, traceparent=traceparent, tracestate=tracestate)


@contextlib.contextmanager
def processing(attempt: Attempt) -> Iterator[None]:
    """Runs a handler in its job's trace."""
    _current.set((attempt.traceparent, attempt.tracestate))
    if _otel is None:
        yield
        return
    carrier = {"traceparent": attempt.traceparent or "", "tracestate": attempt.tracestate or ""}
    context = _propagate.extract({name: value for name, value in carrier.items() if value})
    attributes: dict[str, Any] = {
        "messaging.system": "nagaya",
        "messaging.destination.name": attempt.queue,
        "messaging.operation.type": "process",
        "messaging.message.id": attempt.id,
        "nagaya.job.kind": attempt.kind or "",
        "nagaya.job.attempt": attempt.number,
    }
    tracer = _otel.get_tracer("nagaya")
    kind = _otel.SpanKind.CONSUMER
    name = f"process {attempt.queue}"
    with tracer.start_as_current_span(name, context=context, kind=kind, attributes=attributes):
        yield
