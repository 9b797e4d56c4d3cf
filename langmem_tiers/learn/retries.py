"""Which call that worked later speaks for one that failed; and which failures pass by themselves.

Nothing is asked of what a call means: only whether it was another try of the very call, and whether
anything else can have been the cure.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from langmem_tiers.core.reading import ends_of
from langmem_tiers.core.settings import BOOKKEEPING


class Tried(NamedTuple):
    """A tool call, and what came of it."""

    tool: str
    arguments: Mapping[str, Any]
    error: str | None
    """None if it worked."""
    step: int
    """The place of the message that asked for it: its calls know nothing of each other."""


def cure_of(place: int, calls: Sequence[Tried]) -> int | None:
    """The place of the call that worked after the one at `place` failed; None if nobody can say.

    It is the first call that worked after the failure, whatever its tool: one that came between may
    have been the cure. It is a call of the same tool, came once the failure was known, and has an
    argument in common with it. What passes by itself teaches nothing: an error that names such a
    condition (see `is_transient`), or a call that worked later as it was.
    """
    failed = calls[place]
    if failed.error is None or is_transient(failed.error):
        return None
    worked = [
        at
        for at, one in enumerate(calls)
        if at > place and one.error is None and one.tool not in BOOKKEEPING
    ]
    as_it_was = (failed.tool, failed.arguments)
    if not worked or any((calls[at].tool, calls[at].arguments) == as_it_was for at in worked):
        return None
    first = calls[worked[0]]
    again = first.tool == failed.tool and first.step > failed.step
    return worked[0] if again and _shares(failed.arguments, first.arguments) else None


def _shares(failed: Mapping[str, Any], worked: Mapping[str, Any]) -> bool:
    """Whether two calls have an argument in common that names anything; a switch names nothing."""
    shared = (
        failed[name] for name in failed.keys() & worked.keys() if failed[name] == worked[name]
    )
    return any(not isinstance(one, bool) and one not in (None, "", [], {}) for one in shared)


_SYSTEM: Final = {
    name: getattr(module, name)
    for module, names in (
        (errno, "ECONNREFUSED ECONNRESET ECONNABORTED ETIMEDOUT EHOSTUNREACH EHOSTDOWN"),
        (errno, "ENETUNREACH ENETDOWN ENETRESET EAGAIN EPIPE"),
        (socket, "EAI_AGAIN EAI_NONAME"),
    )
    for name in names.split()
    if hasattr(module, name)
}
"""What systems call a condition that passes, and the numbers that they give to it."""
_NUMBERS: Final = "|".join(map(str, _SYSTEM.values()))
_PHRASES: Final = (
    # as the standard and Postgres name them
    *("serialization failure", "lock not available", "query canceled", "too many connections"),
    *("cannot connect now", "connection exception", "connection failure", "deadlock"),
    *("deadline exceeded", "rate limit", "timed out"),
    # what resolvers (glibc, BSD), SQLite, Postgres, libpq, Node, dpkg and nginx print
    *("temporary failure in name resolution", "name or service not known"),
    *("nodename nor servname provided", "could not serialize access", "could not obtain lock"),
    *("server closed the connection", "socket hang up", "could not get lock"),
    "service temporarily unavailable",
    *(HTTPStatus(code).phrase for code in (408, 425, 429, 500, 502, 503, 504)),
    *(os.strerror(one) for name, one in _SYSTEM.items() if hasattr(errno, name)),
)
_SQLSTATE: Final = r"08\w{3}|40001|40P01|53300|55P03|57014|57P0[123]"
_PARTS: Final = "Connect|NameResolution|BrokenPipe|Throttled|Throttling"
"""Parts of names of classes."""
_CODES: Final = r"408|425|429|5\d\d"


def _named(condition: str) -> str:
    """A condition as it is written in words, in snake_case or in CamelCase."""
    return r"[\s_-]*".join(map(re.escape, condition.replace("Timeout", "Time out").split()))


_CONDITION: Final = re.compile(
    "|".join(
        (
            *map(_named, _PHRASES),
            rf"\bSQLSTATE\W{{0,3}}(?:{_SQLSTATE})\b",
            rf"\b(?:HTTP(?:/[\d.]+)?|status(?:[ _]?code)?|error code)\W{{0,4}}(?:{_CODES})\b",
            rf"\bHTTP[ _]?Error\W{{0,4}}(?:{_CODES})\b",
            r"(?:\A|error|exception)\W{0,4}(?:429|50[234])\b(?! ?[\d.])",
            rf"\b(?:{_CODES}) (?:client|server) error\b",
            r"(?<![\w'\"=-])time-?out(?: exceeded| expired)?(?=\s*(?:$|[.,;:)]))",
            r"\blocked\b",
        )
    ),
    re.IGNORECASE | re.MULTILINE,
)
_IDENTIFIER: Final = re.compile(
    "|".join(
        (
            rf"\b(?:{'|'.join(_SYSTEM)}|ENOTFOUND|SQLITE_BUSY)\b",
            r"\b(?:[A-Z]+_){0,4}(?:DEAD)?LOCK(?:ED)?(?:_[A-Z]+){0,4}\b",
            r"\b(?:UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED)\b",  # gRPC
            rf"\[Errno (?:{_NUMBERS})\]|\(os error (?:{_NUMBERS})\)",
            r"\b(?:[A-Z]\w*Timeout\w*|Timeout(?:Error|Exception|Expired))\b",
            r"\b(?:RemoteDisconnected|gaierror)\b",
            rf"\b(?=\w*?(?:{_PARTS}))[A-Za-z]\w*(?:Error|Exception)\b",
        )
    )
)


def is_transient(failure: str) -> bool:
    """Whether the text of a failure names a condition that passes by itself."""
    failure = ends_of(failure)
    return bool(_IDENTIFIER.search(failure) or _CONDITION.search(failure))
