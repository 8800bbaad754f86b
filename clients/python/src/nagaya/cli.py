"""The command `nagaya-worker`."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from ._version import __version__
from .app import App
from .errors import Error
from .logs import JobFilter
from .worker.run import Note, Worker
from .worker.signals import exit_now

LOOK_SECONDS = 0.5
RELOAD_DRAIN = 3.0

log = logging.getLogger("nagaya.worker")


def main(arguments: list[str] | None = None) -> None:
    """Runs a worker for the jobs of an app, until SIGTERM."""
    options = parser().parse_args(arguments)
    if options.reload:
        sys.exit(supervise(arguments if arguments is not None else sys.argv[1:]))
    configure_logging(options.log_level)
    sys.path.insert(0, os.getcwd())
    app = find(options.app)
    if options.url or options.token_file:
        app.configure(options.url, read_token(options.token_file))
    try:
        worker = make(app, options)
    except ValueError as error:
        sys.exit(f"nagaya-worker: {error}")
    log.info("waiting for jobs of %s at %s, %d at a time", ", ".join(worker.queues), app.client.url, worker.concurrency)
    try:
        tally = worker.run()
    except Error as error:
        log.error("the server refuses this worker: %s", error)
        exit_now(1)
        return
    log.info("stopped: %d succeeded, %d failed, %d lost", tally.succeeded, tally.failed, tally.lost)
    # Handlers that hang must not keep the process.
    exit_now(0)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="nagaya-worker",
        description="Runs a worker for the jobs of an app. SIGTERM and Ctrl-C drain; a second one gives the jobs back.",
        epilog="NAGAYA_URL and NAGAYA_TOKEN name the server and the token unless the app does.",
    )
    made.add_argument("app", help="module:attribute of the nagaya.App, such as `shop.tasks:app`")
    made.add_argument("--queue", action="append", help="a queue, in order; all queues of the app when left out")
    made.add_argument("--concurrency", type=int, help="handlers at a time (default 128, 16 without coroutines)")
    made.add_argument("--drain", type=float, default=25, help="seconds that running handlers get at the end (default 25)")
    made.add_argument("--grace", type=float, default=5, help="seconds that a stopped handler gets (default 5)")
    made.add_argument("--max-runtime", type=float, help="seconds that any handler may take in all")
    made.add_argument("--isolation", choices=("thread", "process"), default="thread", help="where handlers run")
    made.add_argument("--name", help="the worker's name, shown on its attempts")
    made.add_argument("--url", help="the server's address")
    made.add_argument("--token-file", help="a file with the token")
    made.add_argument("--reload", action="store_true", help="start again when a Python file below this folder changes")
    made.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    made.add_argument("--version", action="version", version=f"nagaya-worker {__version__}")
    return made


def find(name: str) -> App:
    """Imports the app."""
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)
        for part in (attribute or "app").split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        sys.exit(f"nagaya-worker: {name} was not found: {error}")
    if not isinstance(found, App):
        sys.exit(f"nagaya-worker: {name} is no nagaya.App but {type(found).__name__}")
    return found


def make(app: App, options: argparse.Namespace) -> Worker:
    return app.worker(
        options.queue,
        concurrency=options.concurrency,
        drain=options.drain,
        grace=options.grace,
        max_runtime=options.max_runtime,
        isolation=options.isolation,
        name=options.name,
        on_note=note,
    )


def note(said: Note) -> None:
    """Logs what people want to know of."""
    attempt = said.attempt
    if said.name == "claim-failed":
        log.warning("claim failed: %s", said.error)
    elif attempt is None:
        return
    elif said.name == "unknown-kind":
        log.warning("job %s: there is no handler for the kind %r", attempt.id, attempt.kind)
    elif said.name == "stopped":
        log.warning("job %s: attempt %d was told to stop: %s", attempt.id, attempt.number, said.reason)
    elif said.name == "reported":
        level = logging.INFO if said.outcome == "succeeded" else logging.WARNING
        why = f" ({said.reason})" if said.reason else ""
        log.log(level, "job %s: attempt %d of %s %s%s", attempt.id, attempt.number, attempt.kind, said.outcome, why)


def configure_logging(level: str) -> None:
    handler = logging.StreamHandler()
    handler.addFilter(JobFilter())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s [%(job_id)s] %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def read_token(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError as error:
        sys.exit(f"nagaya-worker: the token cannot be read: {error}")


def supervise(arguments: list[str]) -> int:
    """Runs the worker in another process, and starts it again whenever the code changes."""
    command = [sys.executable, "-m", "nagaya.cli", *(one for one in arguments if one != "--reload")]
    command += ["--drain", str(RELOAD_DRAIN)]
    is_over = False

    def end(*_: object) -> None:
        nonlocal is_over
        is_over = True

    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, end)
    while True:
        before = stamps()
        child = subprocess.Popen(command)
        while not is_over and stamps() == before:
            time.sleep(LOOK_SECONDS)
        if child.poll() is None:
            child.terminate()
        code = child.wait()
        if is_over:
            return code
        print("nagaya-worker: the code has changed, starting again", file=sys.stderr, flush=True)


def stamps() -> dict[str, int]:
    """Returns when each Python file below the folder was changed."""
    return dict(python_files())


def python_files() -> Iterator[tuple[str, int]]:
    for folder, folders, files in os.walk("."):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("node_modules", "__pycache__")]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                try:
                    yield path, os.stat(path).st_mtime_ns
                except OSError:
                    continue  # It was removed meanwhile.


if __name__ == "__main__":
    main()
