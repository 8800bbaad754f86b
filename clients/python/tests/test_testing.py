"""The helpers for applications' tests, the command line, and webhooks of a real server."""

from __future__ import annotations

import http.server
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

import nagaya
from nagaya import testing

TASKS = """
import nagaya

app = nagaya.App()

@app.job(queue="cli", max_retries=0)
async def answer() -> str:
    return "VALUE"
"""


def test_a_handler_can_be_run_without_a_server() -> None:
    app = nagaya.App("http://127.0.0.1:1")

    @app.job(bind=True)
    def pair(attempt: nagaya.Attempt, a: int) -> tuple[int, int]:
        attempt.progress(0.5)
        return a, attempt.number

    @app.job()
    async def refuse(a: int) -> None:
        raise nagaya.RetryAfter(7, "not now")

    assert testing.run(pair, 1, attempt=3) == [1, 3], "results go through JSON"
    with pytest.raises(testing.AttemptFailed, match="not now") as raised:
        testing.run(refuse, 1)
    assert (raised.value.retry_after, raised.value.is_permanent) == (7, False)
    with pytest.raises(testing.AttemptFailed, match="a must be a whole number") as raised:
        testing.run(pair, "x")
    assert raised.value.is_permanent


def test_a_drain_works_off_what_is_there(house: testing.House, queue: str) -> None:
    app = nagaya.App(house.url)

    @app.job(queue=queue)
    def first(n: int) -> None:
        if n:
            first.enqueue(n - 1)

    first.enqueue(3)
    worker = testing.drain(app)
    assert worker.tally.succeeded == 4
    assert testing.enqueued(app, first) == [{"n": 3}, {"n": 2}, {"n": 1}, {"n": 0}]


def test_no_server_program_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAGAYA_BIN", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="NAGAYA_BIN"):
        testing.House().start()


@pytest.fixture()
def cli(house: testing.House, tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "tasks.py").write_text(TASKS)
    command = [sys.executable, "-m", "nagaya.cli", "tasks:app", "--reload"]
    environment = {**os.environ, "NAGAYA_URL": house.url}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    yield process
    if process.poll() is None:
        process.kill()
        process.wait()


def until_says(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"it ended without saying {text!r}")


def test_the_command_runs_an_app_and_reloads_it(
    cli: subprocess.Popen[str], client: nagaya.Client, tmp_path: pathlib.Path
) -> None:
    until_says(cli, "waiting for jobs of cli")
    assert client.enqueue("cli", {}, kind="answer").wait(30) == "VALUE"
    (tmp_path / "tasks.py").write_text(TASKS.replace("VALUE", "ANOTHER"))
    until_says(cli, "starting again")
    until_says(cli, "waiting for jobs of cli")
    assert client.enqueue("cli", {}, kind="answer").wait(30) == "ANOTHER"
    cli.send_signal(signal.SIGTERM)
    assert cli.wait(30) == 0


@pytest.mark.parametrize("name", ["nowhere:app", "tasks:nothing", "os:path"])
def test_the_command_says_what_it_cannot_find(name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    command = [sys.executable, "-m", "nagaya.cli", name]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1 and name in ran.stderr and "Traceback" not in ran.stderr


def test_webhooks_of_a_real_server_are_verified() -> None:
    received: list[tuple[dict[str, str], bytes]] = []
    arrived = threading.Event()

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append((dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()
            arrived.set()

        def log_message(self, *_: object) -> None: ...

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with testing.House("jobs.webhooks.allow=127.0.0.1") as house:
        client = house.client()
        job = client.enqueue("q", 1, webhook=f"http://127.0.0.1:{receiver.server_port}/")
        job.cancel()
        assert arrived.wait(30)
        headers, body = received[0]
        secrets = client.webhook_secrets()
        assert nagaya.webhooks.verify(headers, body, secrets)["type"] == "job.cancelled"
        with pytest.raises(nagaya.WebhookError):
            nagaya.webhooks.verify(headers, body + b" ", secrets)
        with pytest.raises(nagaya.WebhookError):
            nagaya.webhooks.verify(headers, body, secrets, now=time.time() + 3600)
        with pytest.raises(TypeError):
            nagaya.webhooks.verify(headers, body.decode(), secrets)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="whsec_"):
            nagaya.webhooks.verify(headers, body, "short")
    receiver.shutdown()
