"""What a session that has ended leaves: its significant notes as facts, and all of it as a digest.

A note is a memory of type `working`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langmem_tiers.consolidate.lasting import not_lasting
from langmem_tiers.consolidate.policy import RisePolicy
from langmem_tiers.consolidate.rise import Note, rises
from langmem_tiers.consolidate.significance import category
from langmem_tiers.consolidate.stored import Stored
from langmem_tiers.core.memory import MemoryContext, Source, Tier
from langmem_tiers.core.reading import normalised
from langmem_tiers.core.values import content_of, provenance_of, source_of, trust_of

WORKING = "working"
"""The memory type that a session's end clears."""
PART = 8_000
"""Characters of a digest, beyond which it goes on in another memory."""
SHORT = 80
"""Characters of a note in the digest that is stored for itself."""
LASTS = "the user told a fact, a rule or a preference"
NOT_THE_USERS = "it is not the user's"
RECURS = "it recurs in the session"
LEARNED = "the model learned it"
_NEVER_SO = ("retracted", "suspect", "quarantined")


class Concept(NamedTuple):
    """What a model learned from notes."""

    content: str
    notes: tuple[int, ...]
    """The places of those it comes from, from 0."""


class Summary(NamedTuple):
    """What a model says of a session."""

    content: str
    concepts: tuple[Concept, ...]


class Told(NamedTuple):
    """A note as it is told: who said what when."""

    at: datetime
    speaker: str | None
    content: str


class Summariser(NamedTuple):
    """Says what happened in a session and what was learned; both raise ModelError if it cannot."""

    call: Callable[[Sequence[Told]], Summary]
    acall: Callable[[Sequence[Told]], Awaitable[Summary]]


class Kept(NamedTuple):
    """A memory that a session leaves, in working."""

    namespace: str
    key: str
    value: dict[str, Any]
    reason: str | None = None
    """Why it is significant; None of a digest."""
    awaits_review: bool = False
    """Whether models are to review it, as they have not seen all that it comes from."""


class Home(NamedTuple):
    """The notes of a session in one project, in order."""

    namespace: str
    """The project's, as the database names it."""
    session: str
    notes: tuple[Stored, ...]
    awaiting: frozenset[int] = frozenset()
    """Those that await a review by models."""

    def awaits(self, several: Iterable[Stored]) -> bool:
        """Whether some of these await one."""
        return not self.awaiting.isdisjoint(one.id for one in several)

    def told(self) -> list[Told]:
        """The notes as they are told."""
        return [told_of(one) for one in self.notes]


def homes(
    session: str, notes: Iterable[Stored], awaiting: frozenset[int] = frozenset()
) -> list[Home]:
    """Notes by the project they belong to. What never was so is left out."""
    found = sorted(
        (one for one in notes if one.state not in _NEVER_SO),
        key=lambda one: (_project(one), _at(one), one.id),
    )
    return [Home(at, session, tuple(some), awaiting) for at, some in groupby(found, _project)]


def kept(home: Home, policy: RisePolicy, summary: Summary | None = None) -> list[Kept]:
    """What becomes of notes: those that are significant, once each, and a digest of all.

    A note is significant by the first of these that holds: by what lets a memory rise (importance,
    accesses), because it recurs, or because the user told something that lasts. The keys follow
    from the notes alone, so that the same notes, as a retry finds them, are stored once.
    """
    facts = list(_facts(home, policy))
    if summary is not None:
        facts += _concepts(home, summary, {normalised(one.value["content"]) for one in facts})
    return [*facts, *_digests(home, {one.value["content"] for one in facts}, summary)]


def told_of(one: Stored) -> Told:
    """A note as it is told."""
    speaker = one.value.get("speaker")
    return Told(_at(one), speaker if isinstance(speaker, str) else None, content_of(one.value))


def _project(one: Stored) -> str:
    """The namespace of its project."""
    label, dot, _ = one.namespace.partition(".")
    if dot:
        return label + dot
    project = one.value.get("project_id")
    named = project if isinstance(project, str) and project else None
    return f"{MemoryContext(tenant='_', project_id=named).namespace(Tier.WORKING)[1]}."


def _at(one: Stored) -> datetime:
    return one.occurred_at or one.created_at


def passed_over(home: Home, policy: RisePolicy) -> Iterator[str]:
    """Why each of the notes that are not significant is not; those that say the same once."""
    for several in _told_once(home):
        if _reason(several, policy) is None:
            told = not_lasting(content_of(several[0].value)) if _users(several[0]) else None
            yield told or NOT_THE_USERS


def _facts(home: Home, policy: RisePolicy) -> Iterator[Kept]:
    """The significant notes, those that say the same once."""
    for several in _told_once(home):
        reason = _reason(several, policy)
        if reason is not None:
            key = _key(home, "fact", several[0].key)
            yield Kept(home.namespace, key, _fact(several), reason, home.awaits(several))


def _told_once(home: Home) -> Iterator[list[Stored]]:
    """The current notes, those together that one speaker noted in equal texts."""
    told: dict[object, list[Stored]] = {}
    for one in home.notes:
        if one.state is None:
            said = (told_of(one).speaker, source_of(one.value), trust_of(one.value))
            told.setdefault((normalised(content_of(one.value)), *said), []).append(one)
    yield from told.values()


def _reason(several: Sequence[Stored], policy: RisePolicy) -> str | None:
    """Why what these say is significant; None if it is not."""
    told = [one.importance for one in several if one.importance is not None]
    asks = content_of(several[0].value).rstrip().endswith("?")
    # What is asked often is no fact for that.
    accesses = 0 if asks else sum(one.access_count for one in several)
    if reason := rises(Note(max(told, default=None), accesses), policy):
        return reason
    if len(several) > 1 and not asks:
        return RECURS
    return (
        LASTS if _users(several[0]) and not_lasting(content_of(several[0].value)) is None else None
    )


def _users(one: Stored) -> bool:
    """Whether the user said it, as far as is known."""
    return bool(one.value.get("source", Source.USER) == Source.USER)


def _fact(several: Sequence[Stored]) -> dict[str, Any]:
    """The value of a memory that says what these do, in the words of the first."""
    first = several[0]
    value = {name: one for name, one in first.value.items() if name not in ("turn", "text")}
    return {
        **value,
        "content": content_of(first.value),
        "memory_type": "semantic",
        "occurred_at": _at(first).isoformat(),
        **_shared(several),
        "metadata": _learned(content_of(first.value), first.value.get("metadata")),
    }


def _concepts(home: Home, summary: Summary, known: set[str]) -> Iterator[Kept]:
    """What a model learned, but for what says the same as what is stored anyhow."""
    for one in summary.concepts:
        if normalised(one.content) in known:
            continue
        known.add(normalised(one.content))
        several = [home.notes[place] for place in one.notes]
        value = {
            **_whose(several),
            **provenance_of(each.value for each in several),
            "content": one.content,
            "memory_type": "semantic",
            "occurred_at": max(map(_at, several)).isoformat(),
            **_shared(several),
            "metadata": _learned(
                one.content, {"notes": [_shortened(content_of(each.value)) for each in several]}
            ),
        }
        key = _key(home, "concept", one.content)
        yield Kept(home.namespace, key, value, LEARNED, home.awaits(several))


def _shared(several: Sequence[Stored]) -> dict[str, Any]:
    """The tags of all, and the highest importance that was told, if there are any."""
    lists = (one.value.get("tags") for one in several)
    tags = [tag for some in lists if isinstance(some, list) for tag in some if isinstance(tag, str)]
    told = [one.importance for one in several if one.importance is not None]
    return {
        **({"tags": list(dict.fromkeys(tags))} if tags else {}),
        **({"importance": max(told)} if told else {}),
    }


def _whose(several: Sequence[Stored]) -> dict[str, Any]:
    """What all of these say of the session they belong to."""
    found = {}
    for name in ("project_id", "session_id", "agent_id"):
        names = {one.value.get(name) for one in several if isinstance(one.value.get(name), str)}
        if len(names) == 1:
            found[name] = names.pop()
    return found


def _learned(content: str, given: object) -> dict[str, Any]:
    """The metadata of what was learned: what kind of concept it is, if nobody told."""
    return {"category": category(content), **_metadata(given)}


def _metadata(given: object) -> dict[str, Any]:
    return {**(given if isinstance(given, Mapping) else {}), "promoted_from": WORKING}


def _digests(home: Home, stored: set[str], summary: Summary | None) -> Iterator[Kept]:
    """What happened, in order; in several parts if it is long."""
    parts = list(_parts([_line(one, stored) for one in home.told()]))
    first, last = (f"{_at(home.notes[place]):%Y-%m-%d %H:%M}" for place in (0, -1))
    for number, lines in enumerate(parts, 1):
        head = f"Session {home.session}, {first} to {last} UTC"
        if len(parts) > 1:
            head += f", part {number} of {len(parts)}"
        said = [summary.content] if summary is not None and number == 1 else []
        value = {
            **_whose(home.notes),
            **provenance_of(each.value for each in home.notes),
            "content": "\n".join([f"{head}:", *said, *lines]),
            "memory_type": "episodic",
            "occurred_at": _at(home.notes[0]).isoformat(),
            **{name: one for name, one in _shared(home.notes).items() if name == "tags"},
            "metadata": _metadata(None),
        }
        key = _key(home, "digest", number)
        yield Kept(home.namespace, key, value, awaits_review=home.awaits(home.notes))


def _line(one: Told, stored: set[str]) -> str:
    """A note in the digest: in short if it is stored for itself, else in its own words."""
    content = _shortened(one.content) if one.content in stored else one.content
    who = f"{one.speaker}: " if one.speaker else ""
    return f"- {one.at.astimezone(UTC):%Y-%m-%d %H:%M} {who}{content}"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 1].rsplit(' ', 1)[0]}…"


def _parts(lines: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for line in lines:
        if part and size + len(line) > PART:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def _key(home: Home, kind: str, which: str | int) -> str:
    """Names what is kept of these very notes, the same each time."""
    notes = [[one.namespace, one.key, one.version] for one in home.notes]
    return str(uuid5(NAMESPACE_OID, json.dumps([kind, which, home.namespace, home.session, notes])))
