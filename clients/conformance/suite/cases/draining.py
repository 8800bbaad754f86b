"""Ending a worker, in every way."""

import datetime
import os
import signal
import threading
import time

from ..case import LEASE, Bench, case

SLACK = 2.0
"""Seconds that a busy machine may add to a limit."""


def claimable(bench: Bench, queue: str, id: str) -> None:
    """Checks that a job can be claimed at once."""
    given = bench.server.call("POST", f"/v1/queues/{queue}/claim", {"worker": "driver", "wait_seconds": 0.2})["jobs"]
    assert [job["id"] for job in given] == [id], f"job {id} is not ready: {bench.job(id)}"


@case(13, "a drain claims nothing more, finishes what runs with its leases extended, and exits with 0")
def drain(bench: Bench) -> None:
    adapter = bench.adapter()
    running = [bench.script("q", {"do": "gate", "gate": "go"}, timeout_seconds=LEASE) for _ in range(2)]
    adapter.ask("work", queues=["q"], concurrency=4, signals=True)
    adapter.count("handlers", 2, "started")
    adapter.signal()
    # The claim that was under way is over within its half second.
    after = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2 * LEASE)
    for id in running:
        bench.until("a later lease", lambda: bench.job(id)["lease"], lambda lease: moment(lease["expires_at"]) > after)
    # A claim that the client still had open would get it first.
    claimable(bench, "q", bench.script("q", {"do": "return", "value": 1}))
    adapter.ask("release", gate="go")
    assert adapter.exit_code() == 0
    for id in running:
        job = bench.job(id)
        assert (job["state"], job["attempts"]) == ("succeeded", 1), job


@case(14, "a drain past its limit stops the handlers, and their jobs are ready again at once")
def drain_limit(bench: Bench) -> None:
    adapter = bench.adapter()
    id = bench.script("q", {"do": "sleep", "seconds": 60}, timeout_seconds=30)
    adapter.ask("work", queues=["q"], concurrency=1, signals=True, drain=1, grace=2)
    adapter.event("started", job=id)
    at = adapter.signal()
    stopped = adapter.event("stopped", job=id)
    assert stopped["reason"] == "shutdown", stopped
    assert stopped["_at"] - at >= 0.9, "the handler was not given its time"
    assert adapter.exit_code() == 0
    claimable(bench, "q", id)


@case(15, "a second signal ends the worker within two seconds, and jobs are given back")
def second_signal(bench: Bench) -> None:
    adapter = bench.adapter()
    id = bench.script("q", {"do": "sleep", "seconds": 60}, timeout_seconds=30)
    deaf = bench.script("deaf", {"do": "stubborn", "seconds": 60}, timeout_seconds=30)
    adapter.ask("work", queues=["q", "deaf"], concurrency=2, signals=True, drain=60, grace=30)
    adapter.count("handlers", 2, "started")
    adapter.signal()
    # Signals that come together may be one: the second is sent when the first has been seen to work.
    quiet = bench.script("q", {"do": "return", "value": 1}, priority=10)
    settle(bench)
    adapter.signal()
    at = time.monotonic()
    adapter.exit_code()
    assert time.monotonic() - at <= 2 + SLACK, f"it took {time.monotonic() - at:.1f} s"
    bench.in_state(id, "waiting", limit=1)
    bench.in_state(deaf, "waiting", limit=1)
    assert bench.job(quiet)["attempts"] == 0


def settle(bench: Bench) -> None:
    """Waits until the client's calls through the proxy have been silent for a while."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < 0.7:
        now = len(bench.proxy.called("POST", ".*/claim|/v1/claim"))
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.05)


@case(16, "a signal during the start and during a waiting claim ends the worker and leaves no job leased")
def early_signal(bench: Bench) -> None:
    idle = bench.adapter()
    idle.ask("work", queues=["q"], concurrency=1, signals=True, poll=20)
    bench.until("a claim", lambda: bench.proxy.called("POST", "/v1/(claim|queues/[^/]+/claim)"))
    at = idle.signal()
    assert idle.exit_code() == 0
    assert time.monotonic() - at <= 1 + SLACK, "an idle worker must end at once"
    for round in range(3):
        adapter = bench.adapter()
        id = bench.script(f"r{round}", {"do": "return", "value": 1}, timeout_seconds=60)
        adapter.begin("work", queues=[f"r{round}"], concurrency=1, signals=True)
        if round:
            adapter.event("started", job=id) if round == 2 else adapter.answer(1)
        adapter.signal()
        # Before the handlers of signals were there, the signal ends the adapter as it would any process.
        assert adapter.exit_code() in (0, -signal.SIGTERM)
        assert bench.job(id)["state"] in ("waiting", "succeeded"), bench.job(id)
    # A claim whose answer is on its way when the signal comes.
    adapter = bench.adapter()
    held = bench.proxy.hold_answer("POST", r"/v1/(claim|queues/held/claim)")
    adapter.ask("work", queues=["held"], concurrency=1, signals=True)
    id = bench.script("held", {"do": "return", "value": 1}, timeout_seconds=60)
    bench.in_state(id, "running")
    adapter.signal()
    threading.Timer(0.1, held.opened.set).start()
    assert adapter.exit_code() == 0
    assert bench.job(id)["state"] in ("waiting", "succeeded"), bench.job(id)


@case(17, "stop() returns within its limit when the server is unreachable")
def stop_without_server(bench: Bench) -> None:
    for fault in ("freeze", "cut"):
        adapter = bench.adapter()
        queue = f"q-{fault}"
        running = bench.script(queue, {"do": "sleep", "seconds": 60}, timeout_seconds=60)
        adapter.ask("work", queues=[queue], concurrency=2, grace=1)
        adapter.event("started", job=running)
        bench.proxy.freeze() if fault == "freeze" else bench.proxy.cut()
        at = time.monotonic()
        adapter.ask("stop", limit=2)
        taken = time.monotonic() - at
        # The limit, the handlers' grace, and two seconds for a last report.
        assert taken <= 2 + 1 + 2 + SLACK, f"{fault}: it took {taken:.1f} s"
        bench.proxy.thaw() if fault == "freeze" else bench.proxy.mend()
        adapter.close()


@case(18, "after kill -9 the job runs elsewhere, and no process of the worker is left")
def killed(bench: Bench) -> None:
    modes = bench.adapter(direct=True).modes
    for mode in [modes[0]] + [mode for mode in modes[1:] if mode == "process"]:
        first = bench.adapter(direct=True)
        queue = f"q-{mode}"
        steps = {"do": "block", "seconds": 60, "until": 1}, {"do": "return", "value": "second"}
        id = bench.script(queue, *steps, timeout_seconds=LEASE, backoff={"kind": "none"})
        first.ask("work", queues=[queue], concurrency=1, mode=mode)
        pid = first.event("started", job=id)["pid"]
        first.kill()
        bench.until("the handler's process ends", lambda: not is_alive(pid))
        second = bench.adapter(direct=True)
        second.ask("work", queues=[queue], concurrency=1, mode=mode)
        job = bench.ended(id)
        assert (job["result"], job["attempts"]) == ("second", 2), job
        second.close()


def is_alive(pid: int) -> bool:
    """Returns whether a process runs; one that waits for its parent does not."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return os.path.exists(f"/proc/{pid}")


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))

