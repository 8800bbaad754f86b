"""Client and worker library for nagaya.

`Client` and `AsyncClient` register jobs and wait for them; `App` makes functions jobs and runs workers.
"""

from . import testing, trace, webhooks
from ._http.wire import RetryPolicy
from ._version import __version__
from .aio import AsyncClient, AsyncJob
from .app import App, JobDefinition
from .client import Client, Job
from .errors import (
    BadAnswer,
    Broken,
    Error,
    JobCancelled,
    JobFailed,
    JobGone,
    LeaseLost,
    PayloadError,
    Permanent,
    Problem,
    Refused,
    RetryAfter,
    StillRunning,
    Stopped,
    TimedOut,
    Unreachable,
    WebhookError,
)
from .events import Event, Gap
from .ids import AsyncIds, Ids
from .jobs import Binary, JobInfo, Json, NewJob, Registered
from .logs import JobFilter
from .worker import Attempt, Handler, Note, Tally, Worker, current_attempt

__all__ = [
    "App",
    "AsyncClient",
    "AsyncIds",
    "AsyncJob",
    "Attempt",
    "BadAnswer",
    "Binary",
    "Broken",
    "Client",
    "Error",
    "Event",
    "Gap",
    "Handler",
    "Ids",
    "Job",
    "JobCancelled",
    "JobDefinition",
    "JobFailed",
    "JobFilter",
    "JobGone",
    "JobInfo",
    "Json",
    "LeaseLost",
    "NewJob",
    "Note",
    "PayloadError",
    "Permanent",
    "Problem",
    "Refused",
    "Registered",
    "RetryAfter",
    "RetryPolicy",
    "StillRunning",
    "Stopped",
    "Tally",
    "TimedOut",
    "Unreachable",
    "WebhookError",
    "Worker",
    "__version__",
    "current_attempt",
    "testing",
    "trace",
    "webhooks",
]
