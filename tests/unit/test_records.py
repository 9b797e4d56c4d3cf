"""Records: what is wrong with a field is told by one of our errors, before there is a record."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Annotated, Any

import pytest
from pydantic import StrictBool, StrictInt

from langmem_tiers.core.checks import number_between, record, validated_by, whole_between
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError


def _loud(given: Any, what: str) -> str:
    if not isinstance(given, str):
        raise InvalidTypeError(f"{what} is a word, not {given!r}")
    return given.upper()


@record
class Part:
    share: Annotated[float, number_between(0, 1)] = 0.5


@record
class Whole:
    name: Annotated[str, validated_by(_loud)]
    times: Annotated[int, whole_between(1, 9)] | None = None
    parts: tuple[Part, ...] = ()
    open: StrictBool = True
    rank: StrictInt = 0


def test_a_record_is_frozen_and_equal_to_its_copies_and_checked_again_when_it_is_changed() -> None:
    one = Whole(name="a", parts=(Part(share=1),))

    assert one.name == "A"
    assert replace(one, rank=2).rank == 2
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(FrozenInstanceError):
        one.rank = 3  # type: ignore[misc]
    with pytest.raises(InvalidTypeError, match="name is a word, not 7"):
        replace(one, name=7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({}, InvalidInputError, "Whole needs name"),
        ({"name": 3}, InvalidTypeError, "name is a word, not 3"),
        ({"name": "a", "times": 0}, ConfigurationError, "times is a whole number from 1 to 9"),
        ({"name": "a", "open": 1}, InvalidTypeError, "open is True or False, not 1"),
        ({"name": "a", "rank": 0.5}, InvalidTypeError, r"rank is a whole number, not 0\.5"),
        ({"name": "a", "parts": "b"}, InvalidTypeError, "parts is a list, not 'b'"),
        ({"name": "a", "parts": [{"share": 2}]}, ConfigurationError, "share is a number from 0"),
        ({"name": "a", "parts": [3]}, InvalidTypeError, r"parts\.0 of Whole.*; see 3"),
        ({"name": "a", "colour": 1}, InvalidInputError, "colour of Whole: Unexpected keyword"),
    ],
)
def test_what_is_wrong_is_told_by_the_field_and_what_was_given(
    fields: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        Whole(**fields)
