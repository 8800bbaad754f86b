"""The examples run."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

from nagaya.testing import House

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def test_the_examples_work_together(house: House) -> None:
    environment = {**os.environ, "NAGAYA_URL": house.url, "PYTHONUNBUFFERED": "1"}

    def start(*command: str) -> subprocess.Popen[str]:
        whole = [sys.executable, *command]
        return subprocess.Popen(whole, cwd=EXAMPLES, env=environment, stdout=subprocess.PIPE, text=True)

    worker = start("-m", "nagaya.cli", "thumbnails:app")
    follower = start("follow.py")
    try:
        made = start("thumbnails.py", "cup.jpg")
        assert made.communicate(timeout=60)[0] == "{'thumbnail': 'cup.jpg?width=100'}\n"
        bad = subprocess.run(
            [sys.executable, "thumbnails.py", "a.pdf"], cwd=EXAMPLES, env=environment, capture_output=True, text=True
        )
        assert "a.pdf is no picture" in bad.stderr
        assert follower.stdout is not None
        seen = ""
        while "cup.jpg" not in seen or "a.pdf" not in seen:
            line = follower.stdout.readline()
            assert line, "the follower ended"
            seen += line
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    finally:
        for process in (worker, follower):
            process.kill()
            process.wait()
