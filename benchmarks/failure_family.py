"""A kind of failure, and what is accidental about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.failure_slots import Slots

Failure = BaseException | str


class Family(NamedTuple):
    """A kind of failure: an exception of Python, or the output of a program."""

    name: str
    mutated: str
    make: Callable[[Slots], Failure]
