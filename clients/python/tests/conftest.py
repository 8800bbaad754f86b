"""One server for all tests that do not kill it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

import nagaya
from nagaya.testing import House

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def house() -> Iterator[House]:
    with House() as running:
        yield running


@pytest.fixture()
def client(house: House) -> Iterator[nagaya.Client]:
    with house.client() as made:
        yield made


@pytest.fixture()
def queue() -> str:
    """A queue that no other test uses."""
    return f"q{next(_numbers)}"


@pytest.fixture()
def run(house: House) -> Iterator[Callable[..., nagaya.Worker]]:
    """Starts workers of apps, and stops them."""
    workers: list[nagaya.Worker] = []

    def start(app: nagaya.App, **options: object) -> nagaya.Worker:
        app.configure(house.url)
        worker = app.worker(**options)  # type: ignore[arg-type]
        worker.start()
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.stop(0)
