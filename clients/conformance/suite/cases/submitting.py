"""Enqueueing, waiting, events and webhooks."""

import base64
import hashlib
import hmac
import json
from decimal import Decimal
from typing import Any

from ..case import Bench, case


@case(1, "an enqueue whose answer is lost is repeated, and makes one job")
def lost_enqueue(bench: Bench) -> None:
    adapter = bench.adapter()
    lost = bench.proxy.lose_answer("POST", "/v1/jobs")
    first = adapter.ask("enqueue", job={"queue": "q", "payload": 1})
    assert lost.done.is_set()
    assert first["found_by"] == "idempotency_key", first
    assert [job["id"] for job in bench.server.call("GET", "/v1/jobs?queue=q")["jobs"]] == [first["id"]]
    other = adapter.ask("enqueue", job={"queue": "q", "payload": 1})
    assert other["id"] != first["id"] and other["found_by"] is None, "keys are made up per call"
    same = [adapter.ask("enqueue", job={"queue": "q", "payload": 2, "key": "mine"}) for _ in range(2)]
    assert same[0]["id"] == same[1]["id"] and same[1]["found_by"] == "idempotency_key", same
    lost = bench.proxy.lose_answer("POST", "/v1/jobs/batch")
    many = adapter.ask("enqueue_many", jobs=[{"queue": "r", "payload": n} for n in range(3)])["items"]
    assert lost.done.is_set() and [item["found_by"] for item in many] == ["idempotency_key"] * 3, many
    assert len(bench.server.call("GET", "/v1/jobs?queue=r")["jobs"]) == 3


@case(2, "in a batch with one bad job the others are registered, and the bad one has its problem")
def bad_item(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    jobs: list[dict[str, Any]] = [{"queue": "q", "payload": n} for n in range(3)]
    jobs[1]["after"] = ["4611686018427387904"]
    items = adapter.ask("enqueue_many", jobs=jobs)["items"]
    assert len(items) == 3
    assert items[1]["problem"]["name"] == "dependency-unusable" and items[1]["problem"]["status"] == 422, items
    registered = {job["id"] for job in bench.server.call("GET", "/v1/jobs?queue=q")["jobs"]}
    assert registered == {items[0]["id"], items[2]["id"]}


@case(3, "payloads and results arrive as they were sent: text, large numbers, null, a mebibyte, bytes")
def contents(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    texts = [
        '{"b" : 1,"a":[1.50,"\u00fc\U0001f600"]}',
        "9223372036854775807",
        "-9223372036854775808",
        '{"deep": {"number": 18446744073709551615}}',
        "null",
        "false",
        '""',
        json.dumps("x" * ((1 << 20) - 2)),
    ]
    ids = [adapter.ask("enqueue", job={"queue": "q", "kind": "echo", "payload_json": text})["id"] for text in texts]
    image = base64.b64encode(bytes(range(256))).decode()
    binary = {"queue": "q", "kind": "echo", "payload_base64": image, "content_type": "image/png"}
    binary_id = adapter.ask("enqueue", job=binary)["id"]
    for id, text in zip(ids, texts):
        stored = bench.server.text("GET", f"/v1/jobs/{id}")
        assert f'"payload":{text}' in stored, f"the payload was changed: {stored[:300]}"
    adapter.ask("work", queues=["q"], concurrency=4)
    for id, text in zip(ids, texts):
        bench.ended(id)
        job = json.loads(bench.server.text("GET", f"/v1/jobs/{id}"), parse_float=Decimal)
        assert job["state"] == "succeeded", job
        assert job.get("result") == json.loads(text, parse_float=Decimal), f"{text[:100]} came back as {job}"
    job = bench.ended(binary_id)
    assert (job["result_base64"], job["result_content_type"]) == (image, "image/png"), job


@case(22, "waiting tells a result, a failure, a cancellation, that it is not over, and that there is no such job")
def waiting(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    later = bench.script("q", {"do": "gate", "gate": "go"}, {"do": "return", "value": {"n": 1}})
    number = adapter.begin("wait", job=later, timeout=30)
    adapter.ask("work", queues=["q"], concurrency=2)
    adapter.event("started", job=later)
    assert adapter.ask("wait", job=later, timeout=1) == {"outcome": "timeout"}
    adapter.ask("release", gate="go")
    assert adapter.answer(number)["ok"] == {"outcome": "succeeded", "result": {"n": 1}}
    assert adapter.ask("wait", job=later, timeout=0) == {"outcome": "succeeded", "result": {"n": 1}}

    failing = bench.script("q", {"do": "permanent", "message": "no such picture"})
    failed = adapter.ask("wait", job=failing, timeout=30)
    assert failed["outcome"] == "failed" and "no such picture" in failed["error"], failed

    other = bench.enqueue("nobody", "echo", 1)
    number = adapter.begin("wait", job=other, timeout=30)
    adapter.ask("cancel", job=other)
    assert adapter.answer(number)["ok"]["outcome"] == "cancelled"
    adapter.ask("retry", job=other)
    assert bench.job(other)["state"] == "waiting"
    adapter.ask("cancel", job=other)
    bench.server.call("DELETE", f"/v1/jobs/{other}")
    assert adapter.ask("wait", job=other, timeout=5) == {"outcome": "gone"}


@case(23, "events: none is lost or seen twice over broken connections and restarts, and a gap is told")
def events(bench: Bench) -> None:
    adapter = bench.adapter()
    adapter.ask("events", stream="s", subscription="billing", queue="q", kinds=["enqueued"], after="0")
    ids = [bench.enqueue("q", "echo", n) for n in range(3)]
    adapter.count("events before any fault", 3, "event", stream="s")
    bench.proxy.refuse("POST", "/v1/subscriptions/billing/ack", times=2)
    bench.proxy.cut_once()
    ids += [bench.enqueue("q", "echo", n) for n in range(3, 6)]
    adapter.count("events after broken connections", 6, "event", stream="s")
    bench.server.kill()
    bench.server.start()
    ids += [bench.enqueue("q", "echo", n) for n in range(6, 9)]
    seen = adapter.count("events after a restart of the server", 9, "event", stream="s", limit=40)
    assert [event["job"] for event in seen] == ids, seen
    assert len({event["event_id"] for event in seen}) == 9

    def cursor() -> Any:
        all_of_them = bench.server.call("GET", "/v1/subscriptions")["subscriptions"]
        return next(one["cursor"] for one in all_of_them if one["name"] == "billing")

    bench.until("all events are acknowledged", cursor, lambda at: at == seen[-1]["event_id"])
    adapter.ask("end_events", stream="s")
    # Another reader of the same subscription goes on where this one was.
    second = bench.adapter()
    second.ask("events", stream="t", subscription="billing", queue="q", kinds=["enqueued"])
    last = bench.enqueue("q", "echo", 9)
    assert second.event("event", stream="t")["job"] == last
    second.ask("events", stream="far", after="100000000")
    second.event("gap", stream="far")


@case(24, "the trace goes from the enqueue to the handler and on to what it enqueues; logs carry job and attempt")
def traces(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    follow = {"queue": "next", "kind": "echo", "payload": 1}
    job = {
        "queue": "q",
        "kind": "script",
        "payload": {"steps": [{"do": "enqueue", "job": follow}]},
        "traceparent": f"00-{trace}-00f067aa0ba902b7-01",
    }
    id = adapter.ask("enqueue", job=job)["id"]
    adapter.ask("work", queues=["q"], concurrency=1)
    started = adapter.event("started", job=id)
    assert started["traceparent"] and started["traceparent"].split("-")[1] == trace, started
    assert started["log"] == {"job": id, "attempt": 1}, started
    assert bench.ended(id)["state"] == "succeeded"
    (following,) = bench.server.call("GET", "/v1/jobs?queue=next")["jobs"]
    context = bench.job(following["id"])["traceparent"]
    assert context and context.split("-")[1] == trace, context


@case(25, "webhooks are verified as the standard says")
def webhooks(bench: Bench) -> None:
    adapter = bench.adapter(direct=True)
    key, other = b"k" * 32, b"o" * 32
    secret, second = ("whsec_" + base64.b64encode(one).decode() for one in (key, other))
    body = '{"type": "job.succeeded", "data": {"text": "\u00fc"}}'.encode()
    now = 1_700_000_000

    def sign(key: bytes, at: int = now, id: str = "msg_1", content: bytes = body) -> str:
        text = f"{id}.{at}.".encode() + content
        return "v1," + base64.b64encode(hmac.digest(key, text, hashlib.sha256)).decode()

    def verified(signature: str, at: Any = now, content: bytes = body, secrets: Any = None, **headers: str) -> bool:
        all_headers = {"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": signature, **headers}
        answer = adapter.ask(
            "verify_webhook",
            headers={name: value for name, value in all_headers.items() if value != "absent"},
            body_base64=base64.b64encode(content).decode(),
            secrets=secrets or [secret],
            now=now,
        )
        return bool(answer["verified"])

    assert verified(sign(key))
    assert verified(sign(key), secrets=[second, secret]), "any of the receiver's secrets counts"
    assert verified(f"{sign(other)} {sign(key)}"), "any of the signatures counts"
    assert verified(f"v2,abc {sign(key)}"), "unknown versions are passed over"
    assert verified(sign(key, now - 299), now - 299) and verified(sign(key, now + 299), now + 299)
    assert not verified(sign(other))
    assert not verified(sign(key), content=body + b" ")
    assert not verified(sign(key, now - 301), now - 301), "too old"
    assert not verified(sign(key, now + 301), now + 301), "from the future"
    assert not verified(sign(key, id="msg_2")), "another id"
    assert not verified(sign(key).removeprefix("v1,"))
    assert not verified("") and not verified("v1,") and not verified("v1,\u00fc")
    assert not verified(sign(key), at="soon") and not verified(sign(key), at="")
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        assert not verified(sign(key), **{name: "absent"}), name
