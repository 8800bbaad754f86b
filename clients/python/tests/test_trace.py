"""Trace context with OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import nagaya

sdk = pytest.importorskip("opentelemetry.sdk.trace")

from opentelemetry import trace  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402


def test_handlers_run_in_the_trace_of_the_submitter(run: Callable[..., nagaya.Worker], queue: str) -> None:
    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    app = nagaya.App()

    @app.job(queue=queue)
    async def on_loop() -> str:
        inner.enqueue()
        return trace.format_trace_id(trace.get_current_span().get_span_context().trace_id)

    @app.job(queue=f"{queue}-inner")
    def inner() -> None: ...

    @app.job(queue=queue, max_retries=0)
    def fails() -> None:
        raise ValueError("no")

    run(app)
    with trace.get_tracer("test").start_as_current_span("request") as span:
        trace_id = trace.format_trace_id(span.get_span_context().trace_id)
        first = on_loop.enqueue()
        second = fails.enqueue()
    assert first.wait(20) == trace_id
    with pytest.raises(nagaya.JobFailed):
        second.wait(20)
    (follow,) = app.client.jobs(queue=f"{queue}-inner")
    app.client.wait(follow.id, 20)
    assert app.client.info(follow.id).raw["traceparent"].split("-")[1] == trace_id
    spans = {
        one.name: one
        for one in exporter.get_finished_spans()
        if trace.format_trace_id(one.context.trace_id) == trace_id
    }
    assert set(spans) >= {"request", f"process {queue}", f"process {queue}-inner"}
    process = spans[f"process {queue}-inner"]
    attributes = dict(process.attributes or {})
    assert (attributes["messaging.system"], attributes["messaging.message.id"]) == ("nagaya", follow.id)
    failed = [one for one in exporter.get_finished_spans() if one.status.status_code is trace.StatusCode.ERROR]
    assert failed, "the error is shown on its span"
