"""Classes of exceptions by their names, and their messages."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from typing import Final

from langmem_tiers.learn.failures.bodies import Said, called

CARRIERS: Final = frozenset({"Error", "Exception", "ToolException", "BaseException"})
"""Classes that say nothing: their message is read like any text."""
CAMEL: Final = re.compile(r"_?[A-Z](?=\w*[a-z])\w++|[a-z]*error")
_CLASS_LIKE: Final = re.compile(
    r"(?:[A-Z]\w*)?(?:Error|Exception|Warning|Violation|Timeout|Failure|Expired|Exceeded)"
    r"|[A-Z][a-z\d]+(?:[A-Z][a-z\d]+)+|Failed"
)
INVALID: Final = re.compile(r"\b\d+ validation errors? for \S+$")
_DETAIL: Final = re.compile(r"(?m)^ {2}(\S.*) \[type=")


def is_class(qualified: str, name: str) -> bool:
    """Whether a word before a colon is an exception's class."""
    if _CLASS_LIKE.fullmatch(name) or name in CARRIERS:
        return True
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        return True
    return "." in qualified and CAMEL.fullmatch(name) is not None


def message_of(name: str, message: str) -> Said:
    """A known class's message is its first line, a carrier's is read further."""
    if name in CARRIERS:
        return Said(None, message)
    if remote := called(message):
        return Said(name, remote.message)
    first, _, rest = message.partition("\n")
    if INVALID.match(first):
        first = invalid(rest.splitlines())
    return Said(name, first)


def invalid(lines: Sequence[str]) -> str:
    """Pydantic's message by what is wrong with the first field, which stands below its name."""
    return ": ".join(["validation error", *_DETAIL.findall("\n".join(lines))[:1]])
