"""JSON to typed values and back: dataclasses, typed dictionaries, pydantic models, and the usual types.

Unknown fields of an object are ignored, so that submitters may be newer than workers.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import json
import types
import typing
import uuid
from typing import Any, Union, get_args, get_origin

from .errors import PayloadError

_SEQUENCES = (list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable)
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def dumps(value: Any) -> str:
    """Returns a value as JSON."""
    return json.dumps(value, default=encode, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode(value: Any) -> Any:
    """Returns what JSON can say of a value that it has no word for."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def decode(kind: Any, value: Any, path: str = "") -> Any:
    """Checks a JSON value against a type and returns it as one. Raises `PayloadError`, which names the field."""
    if kind is Any or kind is object or isinstance(kind, typing.TypeVar):
        return value
    if kind is None or kind is type(None):
        return value if value is None else _wrong(path, "null", value)
    if isinstance(kind, type) and kind in _SCALARS:
        return _SCALARS[kind](value, path)
    origin = get_origin(kind)
    if origin is not None:
        return _decode_generic(kind, origin, value, path)
    supertype = getattr(kind, "__supertype__", None)
    if supertype is not None:
        return decode(supertype, value, path)
    if isinstance(kind, type):
        return _decode_class(kind, value, path)
    return value


def is_record(kind: Any) -> bool:
    """Returns whether a type stands for a whole object with named fields."""
    if not isinstance(kind, type):
        return False
    return dataclasses.is_dataclass(kind) or hasattr(kind, "model_validate") or typing.is_typeddict(kind)


def _wrong(path: str, wanted: str, value: Any) -> Any:
    found = "null" if value is None else type(value).__name__
    names = {"dict": "an object", "list": "an array", "str": "text", "bool": "a truth value"}
    raise PayloadError(f"{path or 'the payload'} must be {wanted}, not {names.get(found, found)}")


def _text(value: Any, path: str) -> str:
    return value if isinstance(value, str) else _wrong(path, "text", value)


def _whole(value: Any, path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return _wrong(path, "a whole number", value)  # type: ignore[no-any-return]


def _number(value: Any, path: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return _wrong(path, "a number", value)  # type: ignore[no-any-return]


def _truth(value: Any, path: str) -> bool:
    return value if isinstance(value, bool) else _wrong(path, "true or false", value)


def _parsed(make: Any, wanted: str) -> Any:
    """Returns a reader of values that are written as text."""

    def read(value: Any, path: str) -> Any:
        if isinstance(value, str) or (make is decimal.Decimal and isinstance(value, (int, float))):
            try:
                return make(str(value))
            except (ValueError, ArithmeticError):
                pass
        return _wrong(path, wanted, value)

    return read


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


_SCALARS: dict[type, Any] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _truth,
    datetime.datetime: _parsed(_moment, "a time (RFC 3339)"),
    datetime.date: _parsed(datetime.date.fromisoformat, "a date"),
    uuid.UUID: _parsed(uuid.UUID, "a UUID"),
    decimal.Decimal: _parsed(decimal.Decimal, "a decimal number"),
}


def _decode_generic(kind: Any, origin: Any, value: Any, path: str) -> Any:
    arguments = get_args(kind)
    if origin is typing.Annotated or origin in (typing.ClassVar, typing.Final):
        return decode(arguments[0], value, path)
    if origin is Union or origin is types.UnionType:
        return _decode_union(arguments, value, path)
    if origin is typing.Literal:
        if any(value == one and type(value) is type(one) for one in arguments):
            return value
        return _wrong(path, f"one of {', '.join(map(repr, arguments))}", value)
    if origin is tuple:
        return _decode_tuple(arguments, value, path)
    if origin in _MAPPINGS:
        if not isinstance(value, dict):
            return _wrong(path, "an object", value)
        inner = arguments[1] if len(arguments) > 1 else Any
        return {key: decode(inner, one, _below(path, key)) for key, one in value.items()}
    if origin in _SEQUENCES:
        if not isinstance(value, list):
            return _wrong(path, "an array", value)
        items = [decode(arguments[0], one, f"{path}[{n}]") for n, one in enumerate(value)]
        return origin(items) if origin in (set, frozenset) else items
    return value


def _decode_union(choices: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in choices:
        return None
    failures = []
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return decode(choice, value, path)
        except PayloadError as error:
            failures.append(str(error))
    raise PayloadError("; or ".join(failures) or f"{path or 'the payload'} must be null")


def _decode_tuple(arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    if not isinstance(value, list):
        return _wrong(path, "an array", value)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(decode(arguments[0], one, f"{path}[{n}]") for n, one in enumerate(value))
    if len(arguments) != len(value):
        return _wrong(path, f"an array of {len(arguments)} values", value)
    return tuple(decode(kind, one, f"{path}[{n}]") for n, (kind, one) in enumerate(zip(arguments, value)))


def _decode_class(kind: type, value: Any, path: str) -> Any:
    if issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            return _wrong(path, f"one of {', '.join(repr(one.value) for one in kind)}", value)
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return _decode_pydantic(validate, value, path)
    if typing.is_typeddict(kind):
        return _decode_typed_dict(kind, value, path)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, path)
    if kind in _MAPPINGS:
        return value if isinstance(value, dict) else _wrong(path, "an object", value)
    if kind in (list, tuple, set, frozenset):
        return kind(value) if isinstance(value, list) else _wrong(path, "an array", value)
    return value if isinstance(value, kind) else _wrong(path, kind.__name__, value)


def _decode_pydantic(validate: Any, value: Any, path: str) -> Any:
    try:
        return validate(value)
    except ValueError as error:
        described = getattr(error, "errors", None)
        if not callable(described):
            raise PayloadError(f"{path or 'the payload'}: {error}") from error
        lines = [f"{'.'.join(map(str, one['loc'])) or 'the payload'}: {one['msg']}" for one in described()]
        raise PayloadError("; ".join(_below(path, line) for line in lines)) from error


def _decode_typed_dict(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        return _wrong(path, "an object", value)
    hints = typing.get_type_hints(kind)
    missing = [name for name in kind.__required_keys__ if name not in value]
    if missing:
        raise PayloadError(f"{_below(path, sorted(missing)[0])} is missing")
    return {name: decode(hints[name], one, _below(path, name)) for name, one in value.items() if name in hints}


def _decode_dataclass(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        return _wrong(path, "an object", value)
    hints = typing.get_type_hints(kind)
    given = {}
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        if field.name in value:
            given[field.name] = decode(hints[field.name], value[field.name], _below(path, field.name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise PayloadError(f"{_below(path, field.name)} is missing")
    try:
        return kind(**given)
    except ValueError as error:
        raise PayloadError(f"{path or 'the payload'}: {error}") from error


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
