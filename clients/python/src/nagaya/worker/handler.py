"""Functions as handlers: how a payload becomes their arguments, and arguments a payload."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from ..codec import decode, is_record
from ..errors import PayloadError
from ..jobs import Binary
from .attempt import Attempt


class Handler:
    """A function that runs jobs of one kind.

    Its payload is an object with a field per parameter; or, if it has one parameter that is a dataclass, a typed
    dictionary or a pydantic model, that; or anything, if it has no parameter but the attempt.
    """

    def __init__(self, kind: str, function: Callable[..., Any], bind: bool = False, reference: Any = None) -> None:
        self.kind = kind
        self.function = function
        self.bind = bind
        self.reference = reference if reference is not None else function
        """What is sent to another process to find the handler there."""
        self.is_async = inspect.iscoroutinefunction(function)
        self.max_runtime: float | None = None
        parameters = list(inspect.signature(function).parameters.values())
        if bind:
            if not parameters:
                raise TypeError(f"{kind}: a bound handler takes the attempt first")
            parameters = parameters[1:]
        if any(one.kind in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY) for one in parameters):
            raise TypeError(f"{kind}: parameters of a handler need names")
        self._signature = inspect.Signature(parameters)
        self._parameters = parameters
        self._hints: dict[str, Any] | None = None

    def payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the payload for a call of the function."""
        if not self._parameters:
            if kwargs or len(args) > 1:
                raise TypeError(f"{self.kind} takes one payload, of any form")
            return args[0] if args else None
        bound = self._signature.bind(*args, **kwargs)
        if self._record() is not None:
            return bound.arguments[self._parameters[0].name]
        given = dict(bound.arguments)
        for one in self._parameters:
            if one.kind is one.VAR_KEYWORD:
                given.update(given.pop(one.name, {}))
        return given

    def arguments(self, attempt: Attempt) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments for an attempt. Raises `PayloadError` if the payload does not fit."""
        first = (attempt,) if self.bind else ()
        if not self._parameters:
            return first, {}
        payload = attempt.payload
        if isinstance(payload, Binary):
            raise PayloadError(f"the payload must be JSON, not {payload.content_type}")
        record = self._record()
        if record is not None:
            return (*first, decode(record, payload)), {}
        return first, self._fields(payload)

    def _fields(self, payload: Any) -> dict[str, Any]:
        if not isinstance(payload, dict):
            raise PayloadError(f"the payload must be an object, not {type(payload).__name__}")
        hints = self._all_hints()
        given: dict[str, Any] = {}
        for one in self._parameters:
            if one.kind is one.VAR_KEYWORD:
                named = {other.name for other in self._parameters}
                given.update({name: value for name, value in payload.items() if name not in named})
            elif one.name in payload:
                given[one.name] = decode(hints.get(one.name, Any), payload[one.name], one.name)
            elif one.default is one.empty:
                raise PayloadError(f"{one.name} is missing")
        return given

    def _record(self) -> Any:
        """Returns the type of the only parameter if it stands for the whole payload."""
        if len(self._parameters) != 1:
            return None
        kind = self._all_hints().get(self._parameters[0].name)
        return kind if is_record(kind) else None

    def _all_hints(self) -> dict[str, Any]:
        # Read late, so that annotations may name what is defined below the function.
        if self._hints is None:
            self._hints = typing.get_type_hints(self.function)
        return self._hints
