"""Leases: who keeps them, who loses them, and who notices."""

import datetime
import json
import re
import time

from ..adapter import Adapter
from ..case import LEASE, Bench, case


def not_reported(bench: Bench, token: str) -> None:
    """Checks that nothing was reported with a token."""
    assert not [report for report in bench.reports_of() if report["token"] == token], "it was reported"


@case(7, "a handler that blocks for three leases keeps its job")
def blocked(bench: Bench) -> None:
    modes = bench.adapter(direct=True).modes
    for mode in modes:
        adapter = bench.adapter(direct=True)
        queue = f"q-{mode}"
        steps = [{"do": "block", "seconds": 3 * LEASE}]
        if mode == "process" and "starve" in adapter.features:
            steps.append({"do": "starve", "seconds": 3 * LEASE})
        id = bench.script(queue, *steps, timeout_seconds=LEASE)
        adapter.ask("work", queues=[queue], concurrency=1, mode=mode)
        job = bench.ended(id)
        assert (job["state"], job["attempts"]) == ("succeeded", 1), f"{mode}: {job}"
        assert bench.server.call("GET", f"/v1/queues/{queue}")["passed"]["leases_lost"] == 0
        adapter.close()


@case(8, "a handler past its longest time is told so, and its lease is let go even if it does not listen")
def too_long(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    polite = bench.script("q", {"do": "sleep", "seconds": 60}, timeout_seconds=LEASE, max_retries=0)
    stubborn = bench.script("q", {"do": "stubborn", "seconds": 4 * LEASE + 4}, timeout_seconds=LEASE, max_retries=0)
    adapter.ask("work", queues=["q"], concurrency=2, max_runtime=1, grace=0.5)
    for id in (polite, stubborn):
        stopped = adapter.event("stopped", job=id)
        assert stopped["reason"] == "timeout", stopped
        assert bench.ended(id)["state"] == "failed"
    assert not adapter.events("ended", job=stubborn), "the lease was held until the handler had ended"


@case(9, "a cancelled job's handler is stopped within a third of the lease and a second; nothing is reported")
def cancelled(bench: Bench) -> None:
    adapter = bench.adapter()
    lease = 3.0
    id = bench.script("q", {"do": "gate", "gate": "never"}, timeout_seconds=lease)
    adapter.ask("work", queues=["q"], concurrency=1)
    adapter.event("started", job=id)
    token = bench.claimed_token(id)
    bench.server.call("POST", f"/v1/jobs/{id}/cancel", {})
    at = time.monotonic()
    stopped = adapter.event("stopped", job=id)
    assert stopped["reason"] == "cancelled", stopped
    assert stopped["_at"] - at <= lease / 3 + 1, f"told after {stopped['_at'] - at:.2f} s"
    adapter.event("ended", job=id)
    assert adapter.event("reported", job=id)["outcome"] == "lost"
    goes_on(bench, adapter)
    not_reported(bench, token)
    assert bench.job(id)["state"] == "cancelled"


@case(10, "without the network for longer than the lease, the handler is stopped before its end, and is silent")
def network_gone(bench: Bench) -> None:
    for fault in ("freeze", "cut"):
        adapter = bench.adapter()
        queue, lease = f"q-{fault}", 2.0
        steps = {"do": "sleep", "seconds": 60, "until": 1}, {"do": "return", "value": "second"}
        id = bench.script(queue, *steps, timeout_seconds=lease, backoff={"kind": "none"})
        adapter.ask("work", queues=[queue], concurrency=1)
        adapter.event("started", job=id)
        token = bench.claimed_token(id)
        bench.proxy.freeze() if fault == "freeze" else bench.proxy.cut()
        at = time.monotonic()
        stopped = adapter.event("stopped", job=id, attempt=1)
        assert stopped["reason"] == "lease-lost", stopped
        # The server extended the lease for the last time before the fault.
        assert stopped["_at"] - at <= lease, f"{fault}: stopped {stopped['_at'] - at - lease:.2f} s after the lease's end"
        adapter.event("ended", job=id, attempt=1)
        assert adapter.event("reported", job=id, attempt=1)["outcome"] == "lost"
        in_state = bench.until("the lease ends at the server", lambda: bench.job(id)["state"], lambda s: s != "running")
        assert in_state in ("waiting", "scheduled"), in_state
        bench.proxy.thaw() if fault == "freeze" else bench.proxy.mend()
        job = bench.ended(id, 60)
        assert (job["result"], job["attempts"]) == ("second", 2), job
        not_reported(bench, token)
        adapter.close()


@case(11, "without the network for less than the lease, the job goes on")
def network_back(bench: Bench) -> None:
    for fault in ("freeze", "cut"):
        adapter = bench.adapter()
        queue, lease = f"q-{fault}", 6.0
        id = bench.script(queue, {"do": "gate", "gate": "go"}, timeout_seconds=lease)
        adapter.ask("work", queues=[queue], concurrency=1)
        adapter.event("started", job=id)
        extended = r"/v1/jobs/[^/]+/extend"
        bench.until("an extension", lambda: bench.proxy.called("POST", extended))
        before = len(bench.proxy.called("POST", extended))
        bench.proxy.freeze() if fault == "freeze" else bench.proxy.cut()
        # Its next extension is lost. The client has two more within the lease, or repeats this one.
        bench.until("a lost extension", lambda: len(bench.proxy.called("POST", extended)) > before or fault == "cut")
        ends = bench.job(id)["lease"]["expires_at"]
        bench.proxy.thaw() if fault == "freeze" else bench.proxy.mend()
        bench.until("a later extension", lambda: bench.job(id)["lease"]["expires_at"], lambda at: at > ends)
        adapter.ask("release", gate="go")
        job = bench.ended(id)
        assert (job["state"], job["attempts"]) == ("succeeded", 1), job
        assert not adapter.events("stopped", job=id)
        adapter.close()


@case(12, "clocks that are an hour apart misjudge no lease")
def clocks(bench: Bench) -> None:
    for hours in (1, -1):
        adapter = bench.adapter()
        bench.proxy.rewrite = lambda body: shifted(body, hours)
        queue = f"q{hours}"
        id = bench.script(queue, {"do": "sleep", "seconds": 3 * LEASE}, timeout_seconds=LEASE)
        adapter.ask("work", queues=[queue], concurrency=1)
        job = bench.ended(id)
        assert (job["state"], job["attempts"]) == ("succeeded", 1), job
        # And it still notices that a lease is over.
        lost = bench.script(queue, {"do": "sleep", "seconds": 60}, timeout_seconds=LEASE, max_retries=0)
        adapter.event("started", job=lost)
        bench.proxy.freeze()
        at = time.monotonic()
        stopped = adapter.event("stopped", job=lost)
        assert stopped["_at"] - at <= LEASE, stopped
        bench.proxy.thaw()
        adapter.close()


def shifted(body: bytes, hours: int) -> bytes:
    """Moves every end of a lease, as it would look to a machine whose clock is wrong."""

    def move(found: re.Match[str]) -> str:
        at = datetime.datetime.fromisoformat(found.group(2).replace("Z", "+00:00"))
        at += datetime.timedelta(hours=hours)
        return f'{found.group(1)}{json.dumps(at.isoformat(timespec="milliseconds").replace("+00:00", "Z"))}'

    return re.sub(r'("lease_expires_at":\s*)"([^"]+)"', move, body.decode()).encode()


def goes_on(bench: Bench, adapter: Adapter) -> None:
    """Checks that the worker takes another job, by when all that it had to say before has been said."""
    id = bench.enqueue("q", "echo", 1)
    assert bench.ended(id)["state"] == "succeeded"
    adapter.event("reported", job=id)
