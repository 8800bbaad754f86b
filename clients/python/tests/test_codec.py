"""Typed values from JSON and back."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Any, Literal, NewType, Optional, TypedDict, Union

import pytest

from nagaya.codec import decode, dumps
from nagaya.errors import PayloadError


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Inner:
    n: int


@dataclasses.dataclass
class Outer:
    inner: Inner
    items: list[Inner] = dataclasses.field(default_factory=list)


class Typed(TypedDict):
    a: int


UserId = NewType("UserId", int)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (int, 9223372036854775807, 9223372036854775807),
        (float, 1, 1.0),
        (Optional[int], None, None),
        (Union[int, str], "a", "a"),
        (list[int], [1, 2], [1, 2]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[str], ["a"], {"a"}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Literal["a", 1], 1, 1),
        (Colour, "red", Colour.RED),
        (UserId, 5, 5),
        (Any, {"x": [None]}, {"x": [None]}),
        (dict, {"x": 1}, {"x": 1}),
        (Outer, {"inner": {"n": 1}, "new": 2}, Outer(Inner(1))),
        (Outer, {"inner": {"n": 1}, "items": [{"n": 2}]}, Outer(Inner(1), [Inner(2)])),
        (Typed, {"a": 1, "b": 2}, {"a": 1}),
        (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
        (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
        (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID(int=0x12345678123456781234567812345678)),
        (
            datetime.datetime,
            "2026-01-02T03:04:05Z",
            datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
        ),
    ],
)
def test_values_that_fit(kind: Any, value: Any, expected: Any) -> None:
    found = decode(kind, value)
    assert found == expected and type(found) is type(expected)
    assert json.loads(dumps(found)) is not None or value is None


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (int, True, "the payload"),
        (int, 1.5, "the payload"),
        (int, "1", "the payload"),
        (str, 1, "the payload"),
        (bool, 1, "the payload"),
        (float, "1", "the payload"),
        (list[int], [1, "a"], "[1]"),
        (list[int], {}, "the payload"),
        (tuple[int, str], [1], "the payload"),
        (dict[str, int], {"a": None}, "a"),
        (Literal["a"], "b", "the payload"),
        (Literal[1], True, "the payload"),
        (Colour, "blue", "the payload"),
        (Outer, {}, "inner"),
        (Outer, {"inner": {}}, "inner.n"),
        (Outer, {"inner": {"n": 1}, "items": [{"n": None}]}, "items[0].n"),
        (Outer, None, "the payload"),
        (Typed, {}, "a"),
        (datetime.datetime, "soon", "the payload"),
        (Union[int, None], "a", "the payload"),
    ],
)
def test_values_that_do_not_fit_name_the_place(kind: Any, value: Any, place: str) -> None:
    with pytest.raises(PayloadError) as raised:
        decode(kind, value)
    assert str(raised.value).startswith(place), raised.value
