"""How an attempt ended, as it is reported."""

from __future__ import annotations

import base64
import traceback
from dataclasses import dataclass
from typing import Any

from ..codec import dumps
from ..errors import Permanent
from ..jobs import Binary, Json

TRACE_CHARS_MAX = 4096
MESSAGE_CHARS_MAX = 2048


@dataclass(frozen=True)
class Success:
    """`result` is a part of the report's JSON, from a comma on."""

    result: str

    def body(self, token: str) -> str:
        return f'{{"token":"{token}"{self.result}}}'


@dataclass(frozen=True)
class Failure:
    error: str
    permanent: bool = False
    retry_after: float | None = None

    def body(self, token: str) -> str:
        fields: dict[str, Any] = {"token": token, "error": self.error}
        if self.permanent:
            fields["permanent"] = True
        if self.retry_after is not None:
            fields["retry_after_seconds"] = self.retry_after
        return dumps(fields)


Outcome = Success | Failure

NULL = Success(',"result":null')


def success(result: Any) -> Outcome:
    """Returns the outcome of a handler that returned."""
    if result is None:
        return NULL
    if isinstance(result, Json):
        return Success(f',"result":{result.text}')
    if isinstance(result, Binary):
        encoded = base64.b64encode(result.data).decode()
        return Success(f',"result_base64":"{encoded}","content_type":{dumps(result.content_type)}')
    try:
        text = dumps(result)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        return Failure(f"the result cannot be written as JSON: {error}", permanent=True)
    return Success(f',"result":{text}')


def failure(error: BaseException) -> Failure:
    """Returns the outcome of a handler that raised. What sort of failure it is shows in a field rather than in the
    class, so that two copies of this package in one process understand each other."""
    sort = getattr(error, "nagaya_failure", None)
    if sort == "permanent" or isinstance(error, Permanent):
        return Failure(described(error), permanent=True)
    if sort == "retry_after":
        return Failure(described(error), retry_after=float(getattr(error, "seconds", 0)))
    return Failure(described(error))


def described(error: BaseException) -> str:
    """Returns the error's type and message, and the end of its trace."""
    message = f"{type(error).__name__}: {error}"[:MESSAGE_CHARS_MAX]
    if error.__traceback__ is None or getattr(error, "nagaya_failure", None) is not None:
        return message
    lines = "".join(traceback.format_tb(error.__traceback__))
    return f"{message}\n{lines[-TRACE_CHARS_MAX:]}"
