"""Whether a call that worked is another try of one that failed, and may speak for it.

A tool that does everything, such as a shell, is called for something else next. A retry changes
something and keeps the rest: that is asked of the arguments, and of nothing they mean.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from langmem_tiers.core.memory import Source
from langmem_tiers.core.reading import ends_of
from langmem_tiers.core.values import source_of

CLOSE: Final = 0.6
"""How like each other what is compared has to be, in 0…1: the cutoff of `difflib`'s own close
matches, of which its documentation says that sequences above it are close. Nothing was fitted."""
_LONGEST: Final = 4_000
"""Characters of an argument that are compared."""
_PARTS: Final = 10
"""Parts that differ, and are compared with each other; further ones count as different."""
_AMIDST: Final = 8
"""Words of a part, and characters of a word, between what is the same at both ends, up to which
these are compared as well: what takes time by more than its length is short."""

_WORD: Final = re.compile(r"\d+(?:[.,_']\d+)*|[^\W\d_]+")
_CALL: Final = re.compile(r"[^(]*\((\{.*\})\)", re.DOTALL)

Part = tuple[str, ...]
"""The words of what stands between two spaces: an option, a path, a piece of code."""


def resembles(failed: Mapping[str, Any], retry: Mapping[str, Any]) -> bool:
    """Whether these arguments are those that failed, corrected.

    Texts that both calls name are alike on average, and none has become another one altogether;
    numbers and switches may change, and arguments come and go. Where the calls name no text in
    common, all that they say is compared.
    """
    return not failed or _are_alike(_alike_texts(failed, retry))


def teaches(failed: Mapping[str, Any], retry: Mapping[str, Any]) -> bool:
    """Whether a retry is a lesson: beside a text that is kept, names of one part may change too."""
    texts = _alike_texts(failed, retry)
    kept = {name: alike for name, alike in texts.items() if alike or not _is_name(failed, name)}
    return not failed or _are_alike(kept or texts)


def _alike_texts(failed: Mapping[str, Any], retry: Mapping[str, Any]) -> dict[str, float]:
    """How alike the texts are that both calls name; all that they say, if they name none."""
    texts = {
        name: likeness(_text(failed[name]), _text(retry[name]))
        for name in sorted(failed.keys() & retry.keys())
        if _is_text(failed[name]) and _is_text(retry[name])
    }
    return texts or {"": likeness(_said(failed), _said(retry))}


def _are_alike(texts: Mapping[str, float]) -> bool:
    return min(texts.values()) > 0 and sum(texts.values()) / len(texts) >= CLOSE


def _is_name(arguments: Mapping[str, Any], name: str) -> bool:
    return name in arguments and len(_text(arguments[name]).split()) == 1


def may_hold(lesson: Mapping[str, Any]) -> bool:
    """Whether a lesson is reason enough not to run the call that failed.

    What failed for the moment may work by now. What a person taught holds it, as does advice in
    words; a call that was merely seen to work later, if it is the one that failed with something
    added, left out or written otherwise, and the error names some of that: where a name or a number
    is another, so may be the act; where the error speaks of something else, so may be the cause.
    """
    told = (lesson.get(name) for name in ("failure_reason", "signature"))
    if any(isinstance(one, str) and is_transient(one) for one in told):
        return False
    if source_of(lesson) in (Source.USER, Source.SYSTEM):
        return True
    tried, instead = (_arguments(lesson.get(f"{name}_approach")) for name in _APPROACHES)
    if tried is None or instead is None:
        return True
    return _corrects(tried, instead) and names_the_change(tried, instead, told_of(lesson))


def told_of(lesson: Mapping[str, Any]) -> str:
    """What a lesson says of its failure."""
    reason = lesson.get("failure_reason")
    return reason if isinstance(reason, str) else ""


def names_the_change(failed: Mapping[str, Any], retry: Mapping[str, Any], error: str) -> bool:
    """Whether an error has a word that one of two calls has and the other has not."""
    ours, theirs = (Counter(_WORD.findall(_text(one).casefold())) for one in (failed, retry))
    changed = (ours - theirs) + (theirs - ours)
    return not changed.keys().isdisjoint(_WORD.findall(ends_of(error).casefold()))


def _corrects(failed: Mapping[str, Any], retry: Mapping[str, Any]) -> bool:
    """Whether a retry resembles what failed, and nothing in it stands where another thing did."""
    shared = failed.keys() & retry.keys()
    pairs = [(_text(failed[name]), _text(retry[name])) for name in shared]
    changed = pairs or [(_said(failed), _said(retry))]
    return resembles(failed, retry) and not any(_compared(*one).replaced for one in changed)


_APPROACHES: Final = ("original", "improved")


def likeness(one: str, other: str) -> float:
    """How much of one text the other keeps, in 0…1: part by part, in any order; all, if it adds."""
    return _compared(one, other).alike


class _Compared(NamedTuple):
    """How alike two texts are, and whether a part of one stands where the other has another."""

    alike: float
    replaced: bool


def _compared(one: str, other: str) -> _Compared:
    ours, theirs = Counter(_parts(one)), Counter(_parts(other))
    if not ours or not theirs or _joined(ours) == _joined(theirs):
        same = _joined(ours) == _joined(theirs)
        return _Compared(float(same), replaced=not same)
    kept = ours & theirs
    left, right = [*(ours - kept).elements()], [*(theirs - kept).elements()]
    shared = kept.total() + sum(_pairs(left, right))
    alike = 1.0 if ours <= theirs else 2 * shared / (ours.total() + theirs.total())
    return _Compared(alike, replaced=bool(left and right))


def _pairs(left: list[Part], right: list[Part]) -> Iterator[float]:
    """How alike those are that go together; they are taken out of both."""
    for part in left[:_PARTS]:
        found = ((_alike(part, one), at) for at, one in enumerate(right[:_PARTS]))
        alike, place = max(found, default=(0, 0))
        if alike >= CLOSE:
            left.remove(part)
            del right[place]
            yield alike


def _alike(one: Part, other: Part) -> float:
    """How much two parts have in common; nothing, if a word has become another one altogether."""
    first, last = _ends(one, other)
    ours, theirs = one[first : len(one) - last], other[first : len(other) - last]
    near = sum(map(_near, ours[:_AMIDST], theirs[:_AMIDST]))
    if ours and theirs and not near:
        return 0.0
    return 2 * (first + last + near) / (len(one) + len(other))


def _near(one: str, other: str) -> float:
    """How near two words are in writing; another number is another thing."""
    if one == other:
        return 1.0
    if one[0].isdigit() or other[0].isdigit():
        return 0.0
    first, last = _ends(one, other)
    ours, theirs = one[first : len(one) - last], other[first : len(other) - last]
    kept = first + last
    if max(len(ours), len(theirs)) <= _AMIDST:
        kept += sum(each.size for each in SequenceMatcher(None, ours, theirs).get_matching_blocks())
    near = 2 * kept / (len(one) + len(other))
    return near if near >= CLOSE else 0.0


def _ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many items two sequences share at their beginnings, and then at their ends."""
    most = min(len(one), len(other))
    first = next((at for at in range(most) if one[at] != other[at]), most)
    rest = range(1, most - first + 1)
    return first, next((at - 1 for at in rest if one[-at] != other[-at]), most - first)


def _parts(text: str) -> Sequence[Part]:
    """The parts of a text that have words; a number is one however it is grouped."""
    found = (tuple(map(_plain, _WORD.findall(each))) for each in text[:_LONGEST].casefold().split())
    return [one for one in found if one]


def _plain(word: str) -> str:
    return re.sub(r"[.,_']", "", word)


def _joined(parts: Iterable[Part]) -> str:
    return "".join("".join(part) for part in parts)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | list | Mapping)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _said(arguments: Mapping[str, Any]) -> str:
    return " ".join(_text(arguments[name]) for name in sorted(arguments))


def _arguments(approach: object) -> Mapping[str, Any] | None:
    """The arguments of a call as lessons are kept of it; None of what is no call."""
    found = _CALL.fullmatch(approach) if isinstance(approach, str) else None
    if found is None:
        return None
    try:
        read = json.loads(found[1])
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


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
_CLASS_PARTS: Final = "Connect(?:ion)?|NameResolution|BrokenPipe|Throttl(?:ed|ing)"
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
_PART: Final = re.compile(_CLASS_PARTS)


def is_transient(failure: str) -> bool:
    """Whether the text of a failure names a condition that passes by itself."""
    failure = ends_of(failure)
    if _IDENTIFIER.search(failure) or _CONDITION.search(failure):
        return True
    return any(_PART.search(one[0]) for one in _CLASS.finditer(failure))
