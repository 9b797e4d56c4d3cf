"""Records that are checked as they are made, by pydantic, and say what is wrong as errors of ours.

A field is checked by a function of ours where its annotation names one (`by`), else by its type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import field
from functools import wraps
from typing import Any, Final, TypeVar, dataclass_transform

from pydantic import ConfigDict, PlainValidator, ValidationError, ValidationInfo
from pydantic.dataclasses import dataclass

from langmem_tiers.core.checks import checked_number, checked_whole
from langmem_tiers.core.errors import (
    ConfigurationError,
    InvalidInputError,
    InvalidTypeError,
    TieredMemoryError,
    short,
)

T = TypeVar("T")
_CONFIG: Final = ConfigDict(extra="forbid")
_WANTED: Final = {
    "bool_type": "True or False",
    "int_type": "a whole number",
    "tuple_type": "a list",
}
"""What is to be given instead, by pydantic's names of what is wrong."""


def by(check: Callable[[Any, str], Any]) -> PlainValidator:
    """Checks a field by a function of what is given and of the field's name."""

    def checked(given: Any, field: ValidationInfo) -> Any:
        return check(given, field.field_name or "it")

    return PlainValidator(checked)


def number(low: float, high: float, *, but: Collection[float] = ()) -> PlainValidator:
    """Checks that a field is a number in this range, and none of those; see `whole`."""

    def check(given: Any, name: str) -> Any:
        return checked_number(given, name, low, high, but=but, error=ConfigurationError)

    return by(check)


def whole(low: int, high: int) -> PlainValidator:
    """Checks that a field is a whole number in this range; a ConfigurationError says if not."""
    return by(lambda given, name: checked_whole(given, name, low, high, ConfigurationError))


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """A frozen dataclass that is made by keywords and checked then."""
    made: Any = dataclass(cls, frozen=True, slots=True, kw_only=True, config=_CONFIG)
    check = made.__init__

    @wraps(check)
    def init(self: object, *args: Any, **fields: Any) -> None:
        try:
            check(self, *args, **fields)
        except ValidationError as error:
            raise _refusal(cls.__name__, error) from None

    made.__init__ = init
    found: type[T] = made
    return found


def _refusal(what: str, error: ValidationError) -> TieredMemoryError:
    """The first thing that is wrong, as one of our errors."""
    wrong = error.errors(include_url=False)[0]
    ours = wrong.get("ctx", {}).get("error")
    if isinstance(ours, TieredMemoryError):
        return ours
    name, given = ".".join(map(str, wrong["loc"])), short(wrong["input"])
    if wrong["type"] == "missing":
        return InvalidInputError(f"{what} needs {name}: give it")
    if wrong["type"] in _WANTED:
        return InvalidTypeError(f"{name} is {_WANTED[wrong['type']]}, not {given}")
    refused = InvalidTypeError if wrong["type"].endswith("_type") else InvalidInputError
    return refused(f"{name} of {what}: {wrong['msg']}; see {given}")
