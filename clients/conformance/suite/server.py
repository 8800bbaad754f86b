"""A real server for one case."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from typing import Any

START_LIMIT = 60
"""Seconds that a start may take: debug builds on busy machines are slow."""


def binary() -> str:
    """Returns the path of `nagaya`."""
    given = os.environ.get("NAGAYA_BIN")
    found = given or shutil.which("nagaya")
    if not found or not os.path.exists(found):
        raise SystemExit("nagaya was not found: set NAGAYA_BIN or put it on PATH")
    return os.path.abspath(found)


class Server:
    """`nagaya up` on free ports, with its data in a folder. Can be killed and started again at the same address."""

    def __init__(self, folder: pathlib.Path, *settings: str) -> None:
        self.folder = folder
        self.settings = settings
        self.port = 0
        self.token: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts the server and waits until it is ready."""
        command = [binary(), "up", "--data", str(self.folder / "data"), "--http-listen", f"127.0.0.1:{self.port}"]
        for name in ("room.listen", "ids.listen", "fanout.listen"):
            command += ["--set", f"{name}=127.0.0.1:0"]
        for setting in self.settings:
            command += ["--set", setting]
        output = open(self.folder / "server.log", "ab")
        before = output.tell()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder
        )
        output.close()
        self._wait_until_ready(before)

    def _wait_until_ready(self, before: int) -> None:
        assert self._process is not None
        limit = time.monotonic() + START_LIMIT
        while True:
            text = (self.folder / "server.log").read_bytes()[before:].decode(errors="replace")
            place = re.search(r"http://127\.0\.0\.1:(\d+)/v1/jobs", text)
            if place and "is ready" in text:
                self.port = int(place.group(1))
                return
            if self._process.poll() is not None:
                raise RuntimeError(f"the server did not start:\n{text[-4000:]}")
            if time.monotonic() > limit:
                self.kill()
                raise RuntimeError(f"the server was not ready within {START_LIMIT} s:\n{text[-4000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends the server without a warning, as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a call past the proxy and returns the answer's JSON, or `None` for an empty one."""
        text = self.text(method, path, body)
        return json.loads(text) if text else None

    def text(self, method: str, path: str, body: Any = None) -> str:
        """Sends a call past the proxy and returns the answer's text. Raises for an error of the server."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("content-type", "application/json")
        if self.token:
            request.add_header("authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from None


def free_port() -> int:
    """Returns a port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Background(threading.Thread):
    """A thread that does not keep the driver alive."""

    def __init__(self, target: Any) -> None:
        super().__init__(target=target, daemon=True)
        self.start()
