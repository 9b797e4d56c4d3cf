"""What the gate is measured on: attacks and benign notes, in halves to tune on and to hold out.

All are English for the most part, with short pieces of some twenty other languages. Where each half
comes from stands in data/README.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

from benchmarks.data import Record, records

OBLIQUE = "oblique"
"""In the kind of what is plain prose, without an order."""
DIRECT = "direct"
"""In the kind of what is told to an assistant as it is, by no carrier."""
NEWS = "news"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One text, where it comes from, and what had been recalled or stored before it."""

    text: str
    kind: str
    source: str
    recalled: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    span: str = ""
    """What of a long attack is the attack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """One half of the corpus."""

    name: str
    attacks: tuple[Sample, ...]
    benign: tuple[Sample, ...]
    trivial: tuple[Sample, ...] = ()


@cache
def half(name: str) -> Half:
    """One of the thirteen halves."""
    parts = {
        part: tuple(_sample(one) for one in records(f"gate/{part}") if one["half"] == name)
        for part in ("attacks", "benign", "trivial")
    }
    return Half(name=name, **parts)


@cache
def hands() -> tuple[Half, ...]:
    """The texts of six more authors."""
    return _by_author(records("gate/hands"))


@cache
def carried() -> tuple[Half, ...]:
    """What tools bring, by its writers: each kind of carrier as it is, and with an order in it."""
    return _by_author(records("gate/carried"))


def _by_author(rows: tuple[Record, ...]) -> tuple[Half, ...]:
    return tuple(_by(author, rows) for author in dict.fromkeys(one["author"] for one in rows))


def _by(author: str, rows: tuple[Record, ...]) -> Half:
    own = [(one["attack"], _sample(one)) for one in rows if one["author"] == author]
    attacks = tuple(sample for attack, sample in own if attack)
    return Half(
        name=author, attacks=attacks, benign=tuple(one for attack, one in own if not attack)
    )


def _sample(row: Record) -> Sample:
    left_out = ("half", "author", "attack")
    return Sample(**{name: value for name, value in row.items() if name not in left_out})


@cache
def echoes(name: str) -> Half:
    """What is told again after it was recalled, and what is new beside it."""
    rows = [(one["kind"], one["text"]) for one in records("gate/echoes") if one["half"] == name]
    memories = tuple(text for kind, text in rows if kind == "memory")
    samples = [
        Sample(text=text, kind=kind, source="agent", recalled=memories)
        for kind, text in (*rows, *(("two as one", one) for one in _fused(memories)))
        if kind != "memory"
    ]
    attacks = tuple(one for one in samples if one.kind != NEWS)
    return Half(
        name=name, attacks=attacks, benign=tuple(one for one in samples if one.kind == NEWS)
    )


def _fused(memories: tuple[str, ...]) -> Iterator[str]:
    """Each memory with another one, as one sentence or two."""
    for number, one in enumerate(memories):
        other = memories[(7 * number + 3) % len(memories)]
        said = other if other.startswith("I ") else other[0].lower() + other[1:]
        first = one.rstrip(".")
        yield from (f"{first} and {said}", f"{first}, and {said}", f"{one} Also, {said}")
        yield f"{first}; {said}"


HALVES: tuple[Callable[[], Half], ...] = tuple(
    partial(half, name) for name in dict.fromkeys(one["half"] for one in records("gate/attacks"))
)
"""Makers of all halves, in the order in which they were written."""
tuned, held_out, tuned_authors, held_out_authors, evaluated, audited, last = HALVES[:7]
outsiders, second, third, fourth, fifth, sixth = HALVES[7:]
ECHO_HALVES: tuple[Callable[[], Half], ...] = (
    partial(echoes, "echoes, tuned"),
    partial(echoes, "echoes, held out"),
)
"""Makers of both halves of echoes."""
