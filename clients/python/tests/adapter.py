"""The adapter of the conformance suite; clients/conformance/README.md has the protocol."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import json
import logging
import os
import queue
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import nagaya
from nagaya.worker.run import Note

OPTIONS = (
    "kind", "key", "delay", "run_at", "after", "priority", "max_retries", "timeout", "backoff", "traceparent"
)

gates: dict[str, threading.Event] = {}
gates_lock = threading.Lock()
output_lock = threading.Lock()
client: nagaya.Client
worker: nagaya.Worker | None = None
main_thread: queue.SimpleQueue[Any] = queue.SimpleQueue()


def say(**line: Any) -> None:
    text = json.dumps(line) + "\n"
    with output_lock:
        os.write(1, text.encode())


def gate(name: str) -> threading.Event:
    with gates_lock:
        return gates.setdefault(name, threading.Event())


# Handlers.

logger = logging.getLogger("adapter")


class Seen(logging.Handler):
    """Keeps what a log record carries."""

    def emit(self, record: logging.LogRecord) -> None:
        self.fields = {"job": record.job_id, "attempt": record.job_attempt}  # type: ignore[attr-defined]


seen = Seen()
seen.addFilter(nagaya.JobFilter())
logger.addHandler(seen)
logger.setLevel(logging.INFO)


@dataclass
class Typed:
    name: str
    count: int


def begun(attempt: nagaya.Attempt) -> None:
    with output_lock:
        logger.info("begun")
        fields = dict(seen.fields)
    say(
        event="started",
        job=attempt.id,
        attempt=attempt.number,
        queue=attempt.queue,
        kind=attempt.kind,
        pid=os.getpid(),
        traceparent=nagaya.trace.current()[0],
        log=fields,
    )


def over(attempt: nagaya.Attempt) -> None:
    say(event="ended", job=attempt.id, attempt=attempt.number)


def echo(attempt: nagaya.Attempt) -> Any:
    begun(attempt)
    over(attempt)
    return attempt.payload


def typed(attempt: nagaya.Attempt, payload: Typed) -> Typed:
    begun(attempt)
    over(attempt)
    return payload


def act(step: dict[str, Any], attempt: nagaya.Attempt) -> None:
    """Does a step that does not wait."""
    do = step["do"]
    if do == "block":
        end = time.monotonic() + step["seconds"]
        while time.monotonic() < end:
            time.sleep(0.05)
    elif do == "starve":
        # A C function called through PyDLL keeps the interpreter's lock.
        ctypes.PyDLL(None).usleep(int(step["seconds"] * 1e6))
    elif do == "progress":
        attempt.progress(step.get("progress"), step.get("message"))
    elif do == "log":
        attempt.log(*step["lines"])
    elif do == "enqueue":
        client.enqueue(new_job(step["job"]))
    elif do == "fail":
        raise RuntimeError(step["message"])
    elif do == "retry_after":
        raise nagaya.RetryAfter(step["seconds"], step["message"])
    elif do == "permanent":
        raise nagaya.Permanent(step["message"])


async def script_async(attempt: nagaya.Attempt) -> Any:
    begun(attempt)
    try:
        for step in attempt.payload["steps"]:
            if attempt.number > step.get("until", attempt.number):
                continue
            if step["do"] == "return":
                return step["value"]
            if step["do"] == "sleep":
                await asyncio.sleep(step["seconds"])
            elif step["do"] == "gate":
                while not gate(step["gate"]).is_set():
                    await asyncio.sleep(0.01)
            elif step["do"] == "stubborn":
                await stubborn(step["seconds"])
            else:
                act(step, attempt)
        return None
    finally:
        over(attempt)


async def stubborn(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            await asyncio.sleep(end - time.monotonic())
        except asyncio.CancelledError:
            pass


def script_sync(attempt: nagaya.Attempt) -> Any:
    begun(attempt)
    try:
        for step in attempt.payload["steps"]:
            if attempt.number > step.get("until", attempt.number):
                continue
            if step["do"] == "return":
                return step["value"]
            if step["do"] == "sleep":
                attempt.sleep(step["seconds"])
            elif step["do"] == "gate":
                while not gate(step["gate"]).wait(0.01):
                    attempt.check()
            elif step["do"] == "stubborn":
                time.sleep(step["seconds"])
            else:
                act(step, attempt)
        return None
    finally:
        over(attempt)


# Commands.


def new_job(job: dict[str, Any]) -> nagaya.NewJob:
    payload = job.get("payload")
    if "payload_json" in job:
        payload = nagaya.Json(job["payload_json"])
    elif "payload_base64" in job:
        payload = nagaya.Binary(base64.b64decode(job["payload_base64"]), job["content_type"])
    return nagaya.NewJob(job["queue"], payload, **{name: job[name] for name in OPTIONS if name in job})


def problem(error: Exception) -> dict[str, Any]:
    if isinstance(error, nagaya.Refused):
        return {"name": error.problem.name, "status": error.problem.status, "message": str(error)}
    name = type(error).__name__
    if isinstance(error, (nagaya.Unreachable, nagaya.Broken)):
        name = "unreachable"
    elif isinstance(error, nagaya.TimedOut):
        name = "timeout"
    return {"name": name, "message": str(error)}


def do_client(command: dict[str, Any]) -> dict[str, Any]:
    global client
    client = nagaya.Client(command["url"], command.get("token"), timeout=command.get("timeout", 10))
    return {}


def do_enqueue(command: dict[str, Any]) -> dict[str, Any]:
    job = client.enqueue(new_job(command["job"]))
    return {"id": job.id, "found_by": job.found_by}


def do_enqueue_many(command: dict[str, Any]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for item in client.enqueue_many(map(new_job, command["jobs"])):
        if item.problem is not None:
            said = {"name": item.problem.name, "status": item.problem.status, "message": item.problem.detail}
            items.append({"problem": said})
        else:
            items.append({"id": item.id, "found_by": item.found_by})
    return {"items": items}


def do_wait(command: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"outcome": "succeeded", "result": client.wait(command["job"], command["timeout"])}
    except nagaya.JobFailed as error:
        return {"outcome": "failed", "error": str(error)}
    except nagaya.JobCancelled as error:
        return {"outcome": "cancelled", "error": str(error)}
    except nagaya.StillRunning:
        return {"outcome": "timeout"}
    except nagaya.JobGone:
        return {"outcome": "gone"}


def do_cancel(command: dict[str, Any]) -> dict[str, Any]:
    client.cancel(command["job"])
    return {}


def do_retry(command: dict[str, Any]) -> dict[str, Any]:
    client.retry(command["job"])
    return {}


def noted(note: Note) -> None:
    attempt = note.attempt
    if attempt is None:
        return
    if note.name == "stopped":
        say(event="stopped", job=attempt.id, attempt=attempt.number, reason=note.reason)
    elif note.name == "reported":
        say(event="reported", job=attempt.id, attempt=attempt.number, outcome=note.outcome, reason=note.reason)


def do_work(command: dict[str, Any]) -> dict[str, Any]:
    global worker
    mode = command.get("mode", "async")
    script = script_sync if mode == "sync" else script_async
    handlers = [
        nagaya.Handler("echo", echo, bind=True),
        nagaya.Handler("typed", typed, bind=True),
        nagaya.Handler("script", script, bind=True),
    ]
    options = {name: command[name] for name in ("drain", "grace", "max_runtime", "poll", "name") if name in command}
    worker = nagaya.Worker(
        client,
        handlers,
        command["queues"],
        concurrency=command["concurrency"],
        isolation="process" if mode == "process" else "thread",
        on_note=noted,
        **options,
    )
    has_signals = command.get("signals", False)
    ready = threading.Event()
    # Signals can be handled in the main thread only.
    main_thread.put((worker, has_signals, ready))
    ready.wait()
    return {}


def do_stop(command: dict[str, Any]) -> dict[str, Any]:
    begin = time.monotonic()
    assert worker is not None
    worker.stop(command["limit"])
    return {"seconds": time.monotonic() - begin}


def do_release(command: dict[str, Any]) -> dict[str, Any]:
    gate(command["gate"]).set()
    return {}


streams: dict[str, threading.Event] = {}


def do_events(command: dict[str, Any]) -> dict[str, Any]:
    name = command["stream"]
    chosen = {key: command[key] for key in ("subscription", "queue", "kinds", "after") if key in command}
    ended = streams[name] = threading.Event()

    def read() -> None:
        for event in client.events(**chosen):
            if ended.is_set():
                return
            if isinstance(event, nagaya.Gap):
                say(event="gap", stream=name)
                continue
            say(event="event", stream=name, event_id=event.id, kind=event.kind, job=event.job)
            if "subscription" in chosen:
                event.ack()

    threading.Thread(target=read, daemon=True).start()
    return {}


def do_end_events(command: dict[str, Any]) -> dict[str, Any]:
    streams[command["stream"]].set()
    return {}


def do_verify_webhook(command: dict[str, Any]) -> dict[str, Any]:
    try:
        body = base64.b64decode(command["body_base64"])
        nagaya.webhooks.verify(command["headers"], body, command["secrets"], now=command["now"])
    except nagaya.WebhookError:
        return {"verified": False}
    return {"verified": True}


def do_ids(command: dict[str, Any]) -> dict[str, Any]:
    ids = nagaya.Ids(client)
    return {"ids": [str(ids.next()) for _ in range(command["count"])]}


def answer(command: dict[str, Any]) -> None:
    function = globals().get(f"do_{command['do']}")
    if function is None:
        say(id=command["id"], error={"name": "unsupported", "message": command["do"]})
        return
    try:
        result = function(command)
    except Exception as error:
        logging.exception("command failed")
        say(id=command["id"], error=problem(error))
        return
    say(id=command["id"], ok=result)


def read_commands() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "client":
            answer(command)
        else:
            threading.Thread(target=answer, args=(command,), daemon=True).start()
    os._exit(0)


def main() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    say(
        event="hello",
        client="python",
        version=nagaya.__version__,
        modes=["async", "sync", "process"],
        features=["starve", "ids"],
    )
    threading.Thread(target=read_commands, daemon=True).start()
    running, has_signals, ready = main_thread.get()
    # The worker is started as soon as `run` has been called; the answer may come before or after its first claim.
    ready.set()
    error = None
    try:
        running.run(handle_signals=has_signals)
    except nagaya.Error as raised:
        error = problem(raised)
    say(event="worker_ended", error=error)
    if has_signals:
        os._exit(1 if error else 0)
    threading.Event().wait()


if __name__ == "__main__":
    main()
