"""Every public verb of the package, found by inspection, and those that no scenario calls."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any, is_typeddict

from langgraph.store.base import BaseStore

import langmem_tiers
from benchmarks.recorded.adapter import PACKAGE
from benchmarks.recorded.world import MODES, Called


def offered() -> dict[str, Any]:
    """What the package offers by name, without its errors."""
    names = sorted(langmem_tiers.__all__)
    found = {name: getattr(langmem_tiers, name) for name in names}
    return {name: one for name, one in found.items() if not _is_error(one)}


def verbs(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """The public methods of a class that the package defines, or that a store inherits."""
    for name in sorted(dir(kind)):
        owner = next((one for one in kind.__mro__ if name in vars(one)), object)
        ours = owner.__module__.startswith(PACKAGE) or owner is BaseStore
        found = inspect.getattr_static(kind, name)
        method = inspect.isfunction(found) or isinstance(found, classmethod | staticmethod)
        if ours and method and not name.startswith(("_", "model_")):
            yield name, getattr(kind, name)


def wanted() -> set[Called]:
    """Each verb and function, once for each way in which it can be called."""
    found: set[Called] = set()
    for name, one in offered().items():
        if inspect.isclass(one):
            found |= set() if is_typeddict(one) else set(_of_class(name, one))
        elif callable(one):
            found.add(("", name, "sync"))
    return found


def missing(called: Iterable[Called]) -> list[str]:
    """What no scenario called, a line each."""
    left = sorted(wanted() - set(called))
    return [f"{kind}.{verb} ({mode})".removeprefix(".") for kind, verb, mode in left]


def _of_class(name: str, kind: type[Any]) -> Iterator[Called]:
    names = dict(verbs(kind))
    for verb in names:
        if verb[:1] == "a" and verb[1:] in names:
            continue
        for mode in MODES if f"a{verb}" in names else MODES[:1]:
            yield name, verb, mode


def _is_error(one: object) -> bool:
    return inspect.isclass(one) and issubclass(one, BaseException)
