"""The quick start of the README, typed into an empty folder."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys

from nagaya.testing import House

README = pathlib.Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"<!-- (\w+)(?:: (\S+))? -->\n```\w+\n(.*?)```", re.DOTALL)


def test_the_quick_start_works_as_typed(house: House, tmp_path: pathlib.Path) -> None:
    blocks = {what: (name, text) for what, name, text in BLOCK.findall(README.read_text())}
    name, text = blocks["file"]
    (tmp_path / name).write_text(text)
    scripts = pathlib.Path(sys.executable).parent
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "NAGAYA_URL": house.url, "PATH": path}
    command = blocks["worker"][1].split()
    worker = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        name, text = blocks["run"]
        (tmp_path / name).write_text(text)
        command = [sys.executable, name]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert ran.stdout == blocks["output"][1], ran.stderr
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
