"""Whatever a verb answers, as JSON: by the names of its types alone, without what is random."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from langgraph.store.base import Item
from pydantic import BaseModel

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_MODULE = re.compile(r"\blangmem_tiers\.(?:[a-z_]+\.)*(?=[A-Z_a-z]+)")
_MADE_FROM_CONTENT = "5"
_DIGITS = 9


def without_paths(text: str) -> str:
    """A text that names types of the package by their names alone, and no address."""
    return _ADDRESS.sub("", _MODULE.sub("", text))


class Plain:
    """Turns values into JSON; random names become numbers, in the order in which they appear."""

    def __init__(self, replaced: Mapping[str, str]) -> None:
        self._replaced = replaced
        self._names: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        if value is None or (isinstance(value, bool | int) and not isinstance(value, Enum)):
            return value
        for kind, plain in self._rules():
            if isinstance(value, kind):
                return plain(value)
        return self._other(value)

    def text(self, text: str) -> str:
        """A text without what differs from run to run."""
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return _UUID.sub(self._named, text)

    def error(self, error: BaseException) -> dict[str, str]:
        return {"error": type(error).__name__, "message": self.text(str(error))}

    def _rules(self) -> list[tuple[Any, Callable[[Any], Any]]]:
        return [
            (Enum, lambda one: f"{type(one).__name__}.{one.name}"),
            (str, self.text),
            (float, lambda one: round(one, _DIGITS)),
            (bytes, lambda one: f"sha256 {sha256(one).hexdigest()}"),
            (date, lambda one: one.isoformat()),
            (timedelta | Decimal | UUID | Path, lambda one: self.text(str(one))),
            (BaseException, self.error),
            (Item, lambda one: self._typed(one, one.dict())),
            (Mapping, lambda one: {self.text(str(key)): self(each) for key, each in one.items()}),
            (tuple, self._tuple),
            (list, lambda one: [self(each) for each in one]),
            (set | frozenset, lambda one: sorted((self(each) for each in one), key=str)),
            (BaseModel, self._model),
        ]

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        if hasattr(value, "_asdict"):
            return self._typed(value, value._asdict())
        return [self(each) for each in value]

    def _model(self, value: BaseModel) -> Any:
        told = {name: getattr(value, name) for name in sorted(value.model_fields_set)}
        return self._typed(value, told)

    def _other(self, value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            told = {one.name: getattr(value, one.name) for one in fields(value) if one.repr}
            usual = {one.name for one in fields(value) if _is_usual(one, told.get(one.name))}
            return self._typed(value, {name: told[name] for name in told if name not in usual})
        if isinstance(value, type) or callable(value):
            return f"<{getattr(value, '__name__', type(value).__name__)}>"
        return f"<{type(value).__name__}>"

    def _typed(self, value: object, told: Mapping[str, Any]) -> dict[str, Any]:
        return {"": type(value).__name__, **{name: self(one) for name, one in told.items()}}

    def _named(self, found: re.Match[str]) -> str:
        if found[1] == _MADE_FROM_CONTENT:
            return found[0]
        return self._names.setdefault(found[0], f"<id {len(self._names) + 1}>")


def _is_usual(one: Field[Any], value: object) -> bool:
    """Whether a field says what it says if nobody sets it."""
    if one.default is not MISSING:
        return type(value) is type(one.default) and value == one.default
    return one.default_factory is not MISSING and value == one.default_factory()
