"""The two clients against a real server."""

from __future__ import annotations

import asyncio
import datetime
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import nagaya
from nagaya.testing import House


def in_loop(work: Callable[[nagaya.AsyncClient], Awaitable[Any]], url: str) -> Any:
    async def run() -> Any:
        async with nagaya.AsyncClient(url) as client:
            return await asyncio.wait_for(work(client), 60)

    return asyncio.run(run())


def test_a_job_has_all_that_was_said_about_it(client: nagaya.Client, queue: str) -> None:
    first = client.enqueue(queue, 1)
    job = client.enqueue(
        queue,
        {"to": "a"},
        kind="mail",
        key="k",
        delay=datetime.timedelta(hours=1),
        priority=7,
        max_retries=2,
        timeout=90,
        backoff={"kind": "fixed", "delay_seconds": 3},
        tags=["a", "b"],
    )
    info = job.info()
    assert (info.kind, info.payload, info.has_ended) == ("mail", {"to": "a"}, False)
    raw = info.raw
    assert (raw["priority"], raw["max_retries"], raw["timeout_seconds"], raw["tags"]) == (7, 2, 90, ["a", "b"])
    assert raw["idempotency_key"] == "k" and info.state == "scheduled"
    assert client.enqueue(queue, 2, after=[first.id]).info().raw["depends_on"] == [first.id]
    run_at = datetime.datetime.fromisoformat(raw["run_at"].replace("Z", "+00:00"))
    left = run_at - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(minutes=59) < left <= datetime.timedelta(hours=1)


def test_a_time_without_a_zone_and_a_payload_that_is_no_json_are_refused_here(
    client: nagaya.Client, queue: str
) -> None:
    with pytest.raises(ValueError, match="time zone"):
        client.enqueue(queue, run_at=datetime.datetime(2030, 1, 1))
    with pytest.raises(ValueError, match="not both"):
        client.enqueue(queue, delay=1, run_at="2030-01-01T00:00:00Z")
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        client.enqueue(queue, object())
    with pytest.raises(ValueError):
        client.enqueue(queue, float("nan"))
    with pytest.raises(ValueError):
        client.enqueue(queue, nagaya.Json("{"))
    assert list(client.jobs(queue=queue)) == []


def test_many_jobs_go_in_several_calls_and_keep_their_order(client: nagaya.Client, queue: str) -> None:
    registered = client.enqueue_many(nagaya.NewJob(queue, n) for n in range(2500))
    assert len({one.id for one in registered}) == 2500
    assert client.info(registered[1999].id or "").payload == 1999
    assert client.enqueue_many([]) == []


def test_large_payloads_do_not_add_up_to_a_body_that_is_refused(client: nagaya.Client, queue: str) -> None:
    text = "x" * 900_000
    registered = client.enqueue_many(nagaya.NewJob(queue, text) for _ in range(12))
    assert all(one.problem is None for one in registered)


def test_a_refusal_says_what_is_wrong(client: nagaya.Client) -> None:
    with pytest.raises(nagaya.Refused) as raised:
        client.enqueue("no such name!", 1)
    assert (raised.value.problem.name, raised.value.problem.status) == ("bad-request", 400)
    assert "queue" in raised.value.problem.detail


def test_wrong_addresses_and_tokens_are_explained() -> None:
    for url in ("127.0.0.1:7400", "ftp://a", "http://", "http://a/?b=c"):
        with pytest.raises(ValueError, match="is no address"):
            nagaya.Client(url)
    with pytest.raises(ValueError, match="token"):
        nagaya.Client("http://127.0.0.1:1", "a\r\nx: y")


def test_nothing_there_is_unreachable_after_a_few_tries() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    client = nagaya.Client(f"http://127.0.0.1:{port}", retry=nagaya.RetryPolicy(attempts=2, first=0.01))
    with pytest.raises(nagaya.Unreachable):
        client.info("1")


def test_schedules_queues_and_changes(client: nagaya.Client, queue: str) -> None:
    client.set_schedule(f"s-{queue}", "0 3 * * *", nagaya.NewJob(queue, 1, kind="report"), time_zone="Asia/Tokyo")
    (schedule,) = [one for one in client.schedules() if one["name"] == f"s-{queue}"]
    assert (schedule["queue"], schedule["time_zone"], schedule["payload"]) == (queue, "Asia/Tokyo", 1)
    with pytest.raises(ValueError, match="key"):
        client.set_schedule("x", "@daily", nagaya.NewJob(queue, key="k"))
    client.delete_schedule(f"s-{queue}")
    job = client.enqueue(queue, 1)
    client.pause(queue)
    client.change(job.id, priority=3)
    assert job.info().raw["priority"] == 3
    assert job.info().raw["explanation"]["reason"] == "paused"
    client.resume(queue)
    client.set_queue(queue, depth_max=1)
    with pytest.raises(nagaya.Refused, match="queue-full"):
        nagaya.Client(client.url, retry=nagaya.RetryPolicy(attempts=1)).enqueue(queue, 2)
    job.cancel("no longer wanted")
    with pytest.raises(nagaya.JobCancelled):
        job.wait(1)
    client.delete(job.id)
    with pytest.raises(nagaya.JobGone):
        job.wait(1)


def test_the_client_of_asyncio_does_the_same(house: House, queue: str) -> None:
    async def work(client: nagaya.AsyncClient) -> None:
        first = await client.enqueue(queue, 1, key="k")
        again = await client.enqueue(queue, 1, key="k")
        assert (again.id, again.found_by) == (first.id, "idempotency_key")
        many = await client.enqueue_many(nagaya.NewJob(queue, n, key=f"n{n}") for n in range(1500))
        assert len(many) == 1500
        assert len([job async for job in client.jobs(queue=queue)]) == 1501
        with pytest.raises(nagaya.StillRunning):
            await first.wait(0.1)
        waiting = asyncio.ensure_future(first.wait(20))
        await asyncio.sleep(0)
        await first.cancel()
        with pytest.raises(nagaya.JobCancelled):
            await waiting
        await first.retry()
        assert (await first.info()).state == "waiting"
        with pytest.raises(nagaya.JobGone):
            await client.wait("1", 1)
        with pytest.raises(nagaya.Refused):
            await client.enqueue("no such name!", 1)
        results = await asyncio.gather(*(client.info(one.id or "") for one in many[:100]))
        assert [job.payload for job in results] == list(range(100))

    in_loop(work, house.url)


def test_events_of_asyncio_go_on_over_a_restart() -> None:
    with House() as house:

        async def work(client: nagaya.AsyncClient) -> list[str]:
            seen: list[str] = []
            jobs = [await client.enqueue("q", n) for n in range(2)]
            async for event in client.events(subscription="s", kinds=["enqueued"], after=0):
                assert isinstance(event, nagaya.Event)
                seen.append(event.job)
                await event.ack()
                if len(seen) == 2:
                    await asyncio.to_thread(house.kill)
                    await asyncio.to_thread(house.start)
                    jobs += [await client.enqueue("q", n) for n in range(2, 4)]
                if len(seen) == 4:
                    break
            assert seen == [job.id for job in jobs]
            # The name alone is enough afterwards, and leaves the filter as it is.
            last = await client.enqueue("q", 5)
            async for event in client.events(subscription="s"):
                assert isinstance(event, nagaya.Event)
                assert (event.job, event.kind) == (last.id, "enqueued")
                break
            async for event in client.events(after=10**9):
                assert isinstance(event, nagaya.Gap)
                break
            return seen

        assert len(in_loop(work, house.url)) == 4


def test_a_subscription_that_nobody_made_is_made_by_its_first_reader(client: nagaya.Client, queue: str) -> None:
    reader = client.events(subscription=f"new-{queue}")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(next(reader)), daemon=True)
    thread.start()
    while not any(one["name"] == f"new-{queue}" for one in client.call("GET", "/v1/subscriptions")["subscriptions"]):
        thread.join(0.02)
    client.enqueue(queue, 1)
    thread.join(20)
    assert isinstance(found[0], nagaya.Event)


def test_ids_are_unique_rise_and_are_fetched_in_batches(client: nagaya.Client, house: House) -> None:
    ids = nagaya.Ids(client, batch=50, max_age=60)
    numbers = [ids.next() for _ in range(200)]
    assert numbers == sorted(set(numbers))
    stale = nagaya.Ids(client, batch=50, max_age=0)
    first = stale.next()
    assert stale.next() > max(first, numbers[-1])
    with pytest.raises(ValueError):
        nagaya.Ids(client, batch=0)

    async def work(client: nagaya.AsyncClient) -> None:
        ids = nagaya.AsyncIds(client, batch=10, max_age=60)
        many = await asyncio.gather(*(ids.next() for _ in range(100)))
        assert len(set(many)) == 100

    in_loop(work, house.url)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nnot",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
        b"SSH-2.0-hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
    ],
)
def test_nonsense_from_a_peer_is_an_error_of_ours(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                    peer.recv(65536)
                    peer.sendall(answer)
                    peer.shutdown(socket.SHUT_WR)
                    peer.recv(65536)
                    peer.close()
                except OSError:
                    if server.fileno() < 0:
                        return

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises((nagaya.BadAnswer, nagaya.Broken)):
            nagaya.Client(url, timeout=5, retry=nagaya.RetryPolicy(attempts=1)).info("1")

        async def work(client: nagaya.AsyncClient) -> None:
            client.transport.retry = nagaya.RetryPolicy(attempts=1)
            with pytest.raises((nagaya.BadAnswer, nagaya.Broken)):
                await client.info("1")

        in_loop(work, url)
