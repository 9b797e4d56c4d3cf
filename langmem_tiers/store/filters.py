"""Search filters, compiled to conditions that one static statement evaluates.

A filter maps top-level keys to requirements, all of which must hold. A scalar or a list is
compared as JSON. A mapping of `$` operators applies each of them. Any other mapping matches a part
of an object, recursively. `$gt`, `$gte`, `$lt` and `$lte` compare numbers as numbers and strings
by code point, and never match across types. `$ne` also matches a value without the key. `$contains`
matches a list with the scalar, a list with all scalars of the given list, and the scalar itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langmem_tiers.core.config import DEFAULT_BOUNDS, Bounds
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.values import encode_value

_COMPARISONS = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_OPERATORS = ("$eq", "$ne", "$contains", *_COMPARISONS)


class Condition(NamedTuple):
    """One requirement of a value: an operator, and the path of keys that it is applied to."""

    path: tuple[str, ...]
    op: str
    operand: str


def compile_filter(
    search_filter: Mapping[str, Any] | None, bounds: Bounds = DEFAULT_BOUNDS
) -> list[Condition]:
    """Compile a filter into its conditions.

    Raises:
        InvalidInputError (invalid_filter): for an unknown operator or an operand that is not JSON.
        InvalidInputError (too_large): for more conditions, levels or operands than allowed.
    """
    if search_filter is None:
        return []
    if not isinstance(search_filter, Mapping):
        raise InvalidInputError(
            f"a filter is a mapping, not {type(search_filter).__name__}", code="invalid_filter"
        )
    for key in search_filter:
        if str(key).startswith("$"):
            raise InvalidInputError(
                f"a filter begins with keys of the value, not with {short(key)}: all of them must "
                "hold, and an operator stands under its key, as in {'n': {'$gt': 1}}",
                code="invalid_filter",
            )
    compiled = (
        condition
        for key, wanted in search_filter.items()
        for condition in _compile((_check_filter_key(key),), wanted, bounds)
    )
    try:
        return bounds.checked_conditions(compiled)
    except RecursionError as error:
        raise InvalidInputError(
            "the filter is nested more deeply than Python can read from here; flatten it",
            code="too_large",
        ) from error


def filter_params(conditions: Sequence[Condition]) -> dict[str, list[str]]:
    """Return the parameters of the {filter} part of a statement."""
    return {
        "filter_paths": [text_array(condition.path) for condition in conditions],
        "filter_ops": [condition.op for condition in conditions],
        "filter_values": [condition.operand for condition in conditions],
    }


def _compile(path: tuple[str, ...], wanted: object, bounds: Bounds) -> Iterator[Condition]:
    if not isinstance(wanted, Mapping):
        yield _equal(path, wanted, "eq", bounds)
    elif any(isinstance(key, str) and key.startswith("$") for key in wanted):
        for operator, operand in wanted.items():
            yield _apply_operator(path, operator, operand, bounds)
    elif len(path) >= bounds.value_depth:
        raise bounds.too_deep("a filter")
    else:
        yield Condition(path, "type", "object")
        for key, part in wanted.items():
            yield from _compile((*path, _check_filter_key(key)), part, bounds)


def _apply_operator(
    path: tuple[str, ...], operator: object, operand: object, bounds: Bounds
) -> Condition:
    if operator not in _OPERATORS:
        raise InvalidInputError(
            f"unknown filter operator {short(operator)}; known: {', '.join(_OPERATORS)}",
            code="invalid_filter",
        )
    if operator in ("$eq", "$ne"):
        return _equal(path, operand, operator[1:], bounds)
    if operator == "$contains":
        return _contains(path, operand, bounds)
    if isinstance(operand, float) and not math.isfinite(operand):
        return _compare_nonfinite(path, operator, operand)
    return Condition(path, _COMPARISONS[operator], _json(operand, bounds))


def _equal(path: tuple[str, ...], operand: object, op: str, bounds: Bounds) -> Condition:
    if isinstance(operand, float) and not math.isfinite(operand):
        return Condition(path, "never" if op == "eq" else "always", "null")
    return Condition(path, op, _json(operand, bounds))


def _contains(path: tuple[str, ...], operand: object, bounds: Bounds) -> Condition:
    operands = operand if isinstance(operand, list | tuple) else [operand]
    if any(isinstance(item, Mapping | list | tuple) for item in operands):
        raise InvalidInputError(
            "$contains asks for a text, a number, true, false or null in a list, or for all of a "
            "list of them",
            code="invalid_filter",
        )
    return Condition(path, "contains", _json(operand, bounds))


def _compare_nonfinite(path: tuple[str, ...], operator: str, operand: float) -> Condition:
    """Compare with infinity or NaN: numbers lie between the infinities; NaN matches nothing."""
    upward = operator in ("$lt", "$lte")
    holds = not math.isnan(operand) and (operand > 0) == upward
    return Condition(path, "type", "number") if holds else Condition(path, "never", "null")


def _check_filter_key(key: object) -> str:
    if not isinstance(key, str):
        raise InvalidInputError(
            f"a filter key is a string, not {type(key).__name__}", code="invalid_filter"
        )
    _json(key)
    return key


def _json(operand: object, bounds: Bounds | None = None) -> str:
    try:
        text = encode_value({"operand": operand}, bounds)
    except InvalidInputError as error:
        if error.code == "too_large":
            raise
        raise InvalidInputError(
            f"a filter compares with JSON only: {error}", code="invalid_filter"
        ) from error
    return text[len('{"operand": ') : -1]


def text_array(path: tuple[str, ...]) -> str:
    """Return a Postgres text[] literal."""
    quoted = (label.replace("\\", "\\\\").replace('"', '\\"') for label in path)
    return "{" + ",".join(f'"{label}"' for label in quoted) + "}"
