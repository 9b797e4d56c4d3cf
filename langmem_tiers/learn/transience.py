"""Whether what failed may work by itself the next time: nobody was there, or nobody had time.

It goes by names that systems give to such conditions, in code and in what they print, and not by
sentences: those of errno and of HTTP, with their texts as the platform has them, of SQL, of gRPC,
and of classes of exceptions.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from http import HTTPStatus
from typing import Final

from langmem_tiers.core.reading import ends_of

_ERRNO: Final = [
    name
    for name in (
        *("ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "ETIMEDOUT", "EHOSTUNREACH", "EHOSTDOWN"),
        *("ENETUNREACH", "ENETDOWN", "ENETRESET", "EAGAIN", "EPIPE"),
    )
    if hasattr(errno, name)
]
_RESOLVER: Final = [name for name in ("EAI_AGAIN", "EAI_NONAME") if hasattr(socket, name)]
_STATUS: Final = [HTTPStatus(code) for code in (408, 425, 429, 500, 502, 503, 504)]
_SQL: Final = (
    *("serialization failure", "deadlock detected", "lock not available", "query canceled"),
    *("too many connections", "cannot connect now", "connection exception", "connection failure"),
)
"""Conditions as the standard and Postgres name them."""
_SQLSTATE: Final = r"08\w{3}|40001|40P01|53300|55P03|57014|57P0[123]"
_GRPC: Final = "UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED"
_PARTS: Final = "Connect(?:ion)?|NameResolution|BrokenPipe|Throttl(?:ed|ing)"
"""Parts of names of classes."""
_PRINTED: Final = (
    *("Temporary failure in name resolution", "Name or service not known"),
    *("nodename nor servname provided, or not known", "database is locked"),
    *("could not serialize access", "could not obtain lock", "server closed the connection"),
    *("socket hang up", "could not get lock", "Service Temporarily Unavailable"),
)
"""What resolvers (glibc, BSD) and SQLite print for EAI_AGAIN, EAI_NONAME and SQLITE_BUSY, Postgres
for 40001 and 55P03, libpq and Node for ECONNRESET, dpkg for EAGAIN, and nginx for 503, which no
function of Python's tells."""

_NUMBERS: Final = [
    *(getattr(errno, name) for name in _ERRNO),
    *(getattr(socket, name) for name in _RESOLVER),
]
_CODES: Final = "|".join(str(one.value) for one in _STATUS)


def _named(condition: str) -> str:
    """A condition as it is written in words, in snake_case or in CamelCase."""
    return r"[\s_-]*".join(map(re.escape, condition.split()))


_CONDITION: Final = re.compile(
    "|".join(
        (
            *map(_named, (*_SQL, "deadline exceeded", "rate limit", "timed out", "deadlock")),
            *(_named(os.strerror(getattr(errno, name))) for name in _ERRNO),
            *(_named(one.phrase.replace("Timeout", "Time out")) for one in _STATUS),
            *map(re.escape, _PRINTED),
            rf"\bSQLSTATE\W{{0,3}}(?:{_SQLSTATE})\b",
            rf"\b(?:HTTP(?:/[\d.]+)?|status(?:[ _]?code)?|error code)\W{{0,3}}(?:{_CODES})\b",
            rf"\b(?:{_CODES}) (?:client|server) error\b",
            r"(?<![\w'\"=-])timeout(?: exceeded| expired)?(?=\s*(?:$|[.,;:)]))",
        )
    ),
    re.IGNORECASE | re.MULTILINE,
)
_IDENTIFIER: Final = re.compile(
    "|".join(
        (
            rf"\b(?:{'|'.join((*_ERRNO, *_RESOLVER))}|ENOTFOUND|SQLITE_(?:BUSY|LOCKED))\b",
            rf"\b(?:{_GRPC})\b",
            rf"\[Errno (?:{'|'.join(map(str, _NUMBERS))})\]",
            rf"\(os error (?:{'|'.join(map(str, _NUMBERS))})\)",
            r"\b(?:[A-Z]\w*Timeout\w*|Timeout(?:Error|Exception|Expired))\b",
            r"\b(?:RemoteDisconnected|gaierror)\b",
        )
    )
)


_CLASS: Final = re.compile(r"\b[A-Za-z]\w*(?:Error|Exception)\b")
_PART: Final = re.compile(_PARTS)


def is_transient(failure: str) -> bool:
    """Whether the text of a failure names a condition that passes by itself."""
    failure = ends_of(failure)
    if _IDENTIFIER.search(failure) or _CONDITION.search(failure):
        return True
    return any(_PART.search(one[0]) for one in _CLASS.finditer(failure))
