"""Functions as jobs: `@app.job(queue="mail")`, then `mail.enqueue(...)`."""

from __future__ import annotations

import asyncio
import dataclasses
import weakref
from collections.abc import Callable
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from .aio import AsyncClient, AsyncJob
from .client import Client, Job
from .jobs import NewJob, Seconds, seconds
from .worker.attempt import Attempt
from .worker.handler import Handler
from .worker.process import lookup
from .worker.run import Worker

P = ParamSpec("P")
R = TypeVar("R")


class JobDefinition(Generic[P, R]):
    """A function that can be called, and enqueued as a job."""

    def __init__(self, app: App, function: Callable[..., R], template: NewJob, handler: Handler) -> None:
        self.app = app
        self.function = function
        self.handler = handler
        self._template = template
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        handler.reference = self

    @property
    def kind(self) -> str:
        return self.handler.kind

    @property
    def queue(self) -> str:
        return self._template.queue

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Returns the job without registering it, for `enqueue_many` and schedules."""
        return dataclasses.replace(self._template, payload=self.handler.payload(args, kwargs))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Registers a job that calls the function with these arguments."""
        return self.app.client.enqueue(self.job(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> AsyncJob:
        """As `enqueue`, for asyncio."""
        return await self.app.aclient.enqueue(self.job(*args, **kwargs))

    def options(self, **options: Any) -> JobDefinition[P, R]:
        """Returns the same job with other options, such as `delay`, `key`, `after` or `priority`; the fields of
        `NewJob`."""
        changed = dataclasses.replace(self._template, **options)
        copy: JobDefinition[P, R] = object.__new__(JobDefinition)
        copy.__dict__.update(self.__dict__)
        copy._template = changed
        return copy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function here and now."""
        return self.function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return lookup, (self.__module__, self.__qualname__)


class App:
    """A collection of jobs with a connection to the server.

    Making one connects to nothing. The address and the token come from `NAGAYA_URL` and `NAGAYA_TOKEN` if they are not
    given.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, queue: str = "default") -> None:
        self._given = url, token
        self._queue = queue
        self._client: Client | None = None
        self._aclients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = weakref.WeakKeyDictionary()
        self.jobs: dict[str, JobDefinition[..., Any]] = {}

    def configure(self, url: str | None = None, token: str | None = None) -> None:
        """Gives another address, as tests do."""
        self._given = url, token
        self._client = None
        self._aclients.clear()

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client(*self._given)
        return self._client

    @property
    def aclient(self) -> AsyncClient:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        client = self._aclients.get(loop)
        if client is None:
            client = self._aclients[loop] = AsyncClient(*self._given)
        return client

    @overload
    def job(
        self,
        *,
        queue: str | None = ...,
        kind: str | None = ...,
        bind: Literal[False] = ...,
        max_runtime: Seconds | None = ...,
        **options: Any,
    ) -> Callable[[Callable[P, R]], JobDefinition[P, R]]: ...
    @overload
    def job(
        self,
        *,
        queue: str | None = ...,
        kind: str | None = ...,
        bind: Literal[True],
        max_runtime: Seconds | None = ...,
        **options: Any,
    ) -> Callable[[Callable[Concatenate[Attempt, P], R]], JobDefinition[P, R]]: ...
    def job(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        bind: bool = False,
        max_runtime: Seconds | None = None,
        **options: Any,
    ) -> Any:
        """Makes a function a job.

        `kind` is the name under which jobs find their handler, by default the function's; give one to be free to
        rename the function while jobs are waiting. With `bind`, the function gets the `Attempt` first. `max_runtime`
        is how long the function may take in all. The other options are the fields of `NewJob`.
        """

        def decorate(function: Callable[..., Any]) -> JobDefinition[..., Any]:
            handler = Handler(kind or function.__name__, function, bind)
            if max_runtime is not None:
                handler.max_runtime = seconds(max_runtime)
            if handler.kind in self.jobs:
                raise ValueError(f"there is a job of the kind {handler.kind!r} already")
            template = NewJob(queue or self._queue, kind=handler.kind, **options)
            definition: JobDefinition[..., Any] = JobDefinition(self, function, template, handler)
            self.jobs[handler.kind] = definition
            return definition

        return decorate

    def worker(self, queues: list[str] | tuple[str, ...] | None = None, **options: Any) -> Worker:
        """Returns a worker for all jobs of the app; of all their queues unless some are given."""
        handlers = [definition.handler for definition in self.jobs.values()]
        names = list(queues or dict.fromkeys(definition.queue for definition in self.jobs.values()))
        return Worker(self.client, handlers, names, **options)
