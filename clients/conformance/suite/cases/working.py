"""Handlers, failures and concurrency."""

import datetime
from typing import Any

from ..case import Bench, case

UNKNOWN_KIND_PAUSE = 5
"""Seconds that a job of an unknown kind is left to others at least."""


def moment(text: str) -> datetime.datetime:
    """Reads a time of the API."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


@case(4, "a payload that does not fit its type fails for good at its first attempt, and the field is named")
def invalid_payload(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    wrong: list[Any] = [{"name": "a", "count": "three"}, {"name": "a"}, {"name": "a", "count": 1.5}]
    ids = [bench.enqueue("q", "typed", payload) for payload in wrong]
    shapeless = [bench.enqueue("q", "typed", payload) for payload in (None, 7, [1, 2])]
    right = bench.enqueue("q", "typed", {"name": "b", "count": 3})
    adapter.ask("work", queues=["q"], concurrency=2)
    for id in ids + shapeless:
        job = bench.ended(id)
        assert (job["state"], job["attempts"]) == ("failed", 1), job
        assert id in shapeless or "count" in job["error"], job["error"]
    assert bench.ended(right)["result"] == {"name": "b", "count": 3}


@case(5, "a job of an unknown kind is retried later, and the worker goes on")
def unknown_kind(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    strange = bench.enqueue("q", "nobody-knows", 1, backoff={"kind": "none"})
    adapter.ask("work", queues=["q"], concurrency=1)
    job = bench.in_state(strange, "scheduled")
    (attempt,) = job["history"]
    assert attempt["end"] == "failed" and "nobody-knows" in attempt["error"], attempt
    pause = moment(job["run_at"]) - moment(attempt["ended_at"])
    assert pause.total_seconds() >= UNKNOWN_KIND_PAUSE, f"the pause is {pause}"
    known = bench.enqueue("q", "echo", 2)
    assert bench.ended(known)["state"] == "succeeded"
    assert not adapter.events("started", job=strange)


@case(6, "errors are retried with the job's backoff, or when the handler says, or never")
def failures(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    backoff = {"kind": "fixed", "delay_seconds": 0.2}
    again = bench.script("q", {"do": "fail", "message": "not yet", "until": 2}, backoff=backoff)
    hour = bench.script("q", {"do": "retry_after", "message": "in an hour", "seconds": 3600}, backoff=backoff)
    never = bench.script("q", {"do": "permanent", "message": "no such thing"}, backoff=backoff)
    last = bench.script("q", {"do": "fail", "message": "out of luck"}, max_retries=1, backoff=backoff)
    adapter.ask("work", queues=["q"], concurrency=4)
    job = bench.ended(again)
    assert (job["state"], job["attempts"]) == ("succeeded", 3), job
    assert "not yet" in job["history"][0]["error"]
    job = bench.in_state(hour, "scheduled")
    pause = (moment(job["run_at"]) - moment(job["history"][0]["ended_at"])).total_seconds()
    assert 3590 < pause < 3610, pause
    job = bench.ended(never)
    assert (job["state"], job["attempts"]) == ("failed", 1) and "no such thing" in job["error"], job
    job = bench.ended(last)
    assert (job["state"], job["attempts"]) == ("failed", 2) and "out of luck" in job["error"], job
    assert adapter.event("reported", job=never)["outcome"] == "failed"
    assert adapter.event("reported", job=again, attempt=3)["outcome"] == "succeeded"


@case(19, "never more than n handlers run, and n do; queues are asked in order")
def concurrency(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    gate = {"do": "gate", "gate": "go"}
    low = [bench.script("low", gate) for _ in range(6)]
    high = [bench.script("high", gate) for _ in range(3)]
    adapter.ask("work", queues=["high", "low"], concurrency=4)
    first = adapter.count("handlers at once", 4, "started")
    assert sum(event["job"] in high for event in first) == 3, "the first queue goes first"
    adapter.ask("release", gate="go")
    for id in low + high:
        assert bench.ended(id)["attempts"] == 1
    running, most = 0, 0
    adapter.count("ends", 9, "ended")
    for line in adapter.until_now():
        running += {"started": 1, "ended": -1}.get(str(line.get("event")), 0)
        most = max(most, running)
    assert most == 4, f"{most} handlers ran at once"


@case(20, "a completion whose answer is lost is repeated and is a success; a conflict is told")
def lost_completion(bench: Bench) -> None:
    adapter = bench.adapter()
    lost = bench.proxy.lose_answer("POST", r"/v1/jobs/[^/]+/complete")
    id = bench.script("q", {"do": "return", "value": "mine"}, timeout_seconds=20)
    adapter.ask("work", queues=["q"], concurrency=1)
    job = bench.ended(id)
    assert (job["state"], job["result"], job["attempts"]) == ("succeeded", "mine", 1), job
    assert lost.done.is_set()
    assert adapter.event("reported", job=id)["outcome"] == "succeeded"

    steps = {"do": "gate", "gate": "go"}, {"do": "return", "value": "mine"}
    contested = bench.script("q", *steps, timeout_seconds=60)
    adapter.event("started", job=contested)
    token = bench.claimed_token(contested)
    bench.server.call("POST", f"/v1/jobs/{contested}/complete", {"token": token, "result": "another's"})
    adapter.ask("release", gate="go")
    reported = adapter.event("reported", job=contested)
    assert (reported["outcome"], reported.get("reason")) == ("lost", "conflict"), reported
    assert bench.job(contested)["result"] == "another's"
    after = bench.enqueue("q", "echo", 1)
    assert bench.ended(after)["state"] == "succeeded", "the worker goes on"


@case(26, "refused callers are told, and end a worker; a busy server does neither")
def refusals(bench: Bench) -> None:
    token = "0123456789abcdef0123456789abcdef"
    server = bench.start_server(f"http.token={token}")
    server.token = token
    scopes = {"tenant": "default", "name": "reader", "scopes": ["read"]}
    reader = server.call("POST", "/v1/tokens", scopes)["token"]
    for bad, name, status in (("wrong-wrong-wrong-wrong", "unauthorized", 401), (reader, "forbidden", 403)):
        adapter = bench.adapter(token=bad)
        answer = adapter.answer(adapter.begin("enqueue", job={"queue": "q", "payload": 1}))
        assert (answer["error"]["name"], answer["error"]["status"]) == (name, status), answer
        adapter.ask("work", queues=["q"], concurrency=1)
        ended = adapter.event("worker_ended")
        assert ended["error"] and ended["error"]["name"] == name, ended
    adapter = bench.adapter(token=token)
    busy = bench.proxy.answer("POST", "/v1/jobs", 429, headers=("retry-after: 1",))
    away = bench.proxy.answer("POST", "/v1/jobs", 503)
    id = adapter.ask("enqueue", job={"queue": "q", "kind": "echo", "payload": 1})["id"]
    first, second, third = bench.proxy.called("POST", "/v1/jobs")[-3:]
    assert busy.done.is_set() and away.done.is_set()
    assert second.at - first.at >= 1, "Retry-After was not heeded"
    assert third.body == first.body, "a repeated call must be the same"
    claims = r"/v1/(claim|queues/[^/]+/claim)"
    before = len(bench.proxy.called("POST", claims))
    bench.proxy.answer("POST", claims, 429, headers=("retry-after: 1",))
    bench.proxy.answer("POST", claims, 503)
    adapter.ask("work", queues=["q"], concurrency=1)
    assert bench.ended(id)["state"] == "succeeded"
    asked = bench.proxy.called("POST", claims)[before:]
    assert asked[1].at - asked[0].at >= 1, "Retry-After was not heeded by the worker"
    assert not adapter.events("worker_ended")
