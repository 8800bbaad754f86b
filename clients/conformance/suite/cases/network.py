"""Servers that go and come back."""

from ..case import Bench, case


@case(21, "over a restart of the server running jobs are reported to the new one, and the worker goes on")
def restart(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    held = bench.script("q", {"do": "gate", "gate": "go"}, timeout_seconds=30)
    adapter.ask("work", queues=["q"], concurrency=2)
    adapter.event("started", job=held)
    bench.server.kill()
    adapter.ask("release", gate="go")
    adapter.event("ended", job=held)
    bench.server.start()
    job = bench.ended(held)
    assert (job["state"], job["attempts"]) == ("succeeded", 1), job
    assert adapter.event("reported", job=held)["outcome"] == "succeeded"
    later = bench.enqueue("q", "echo", 1)
    assert bench.ended(later)["state"] == "succeeded"
    assert not adapter.events("worker_ended")
