"""What a session that has ended leaves: what is lifted of its notes, and all of it as a digest.

A note is a memory of type `working`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langmem_tiers.consolidate.models import Summary
from langmem_tiers.consolidate.stored import Stored
from langmem_tiers.core.context import MemoryContext, users_labels
from langmem_tiers.core.memory import Source, Tier
from langmem_tiers.core.reading import ends_of, normalised, visible
from langmem_tiers.core.values import batches, provenance_of, source_of, trust_of

WORKING = "working"
"""The memory type that a session's end clears."""
PART = 8_000
"""Characters of a digest, beyond which it goes on in another memory."""
SHORT = 80
"""Characters of a note in the digest that is stored for itself."""
IMPORTANT = 0.7
"""The importance, as somebody told it, from which on a note is lifted."""
PINNED = "it is pinned"
RECALLED = "it was recalled in more than one turn"
STATED = "the user stated it"
UNTOLD = "nobody pinned it, told that it is important, or recalled it in more than one turn"
LEARNED = "the model learned it"
_NEVER_SO = ("retracted", "suspect", "quarantined")


class Kept(NamedTuple):
    """A memory that a session leaves, in working."""

    namespace: str
    key: str
    value: dict[str, Any]
    reason: str | None = None
    """Why it is lifted; None of a digest."""
    sources: Sequence[Sequence[str]] = ()
    """What stays of that, by stored namespace and key."""


class Home(NamedTuple):
    """The notes of a session in one project, in order."""

    namespace: str
    """The project's, or of a user's own in it, as the database names it."""
    session: str
    notes: tuple[Stored, ...]
    recalled: frozenset[int] = frozenset()
    """Those that were recalled in more than one turn."""
    said: tuple[Stored, ...] = ()
    """What else was said in it, which stays as it is."""

    @property
    def told(self) -> list[Stored]:
        """All that is summed up, in order."""
        return sorted((*self.notes, *self.said), key=_when)


def homes(
    session: str,
    notes: Iterable[Stored],
    recalled: frozenset[int] = frozenset(),
    said: Iterable[Stored] = (),
) -> list[Home]:
    """Notes, and what else was said, by their project. What never was so is left out."""
    others = list(said)
    found = sorted(
        (one for one in (*notes, *others) if one.state not in _NEVER_SO),
        key=lambda one: (_project(one), *_when(one)),
    )
    apart = {one.id for one in others}
    return [
        Home(
            at,
            session,
            tuple(one for one in some if one.id not in apart),
            recalled,
            tuple(one for one in some if one.id in apart),
        )
        for at, some in ((at, list(each)) for at, each in groupby(found, _project))
    ]


def worth(
    home: Home, summary: Summary | None = None, *, stated: bool = False
) -> tuple[list[Kept], list[str]]:
    """Return what is kept of notes, and why each of the others is not lifted.

    Those that are lifted are kept once each, and a digest of all; those that say the same and are
    not lifted are told of once.

    A note is lifted by the first of these that holds: it is pinned, somebody told that it is
    important, or it was recalled in more than one turn. Where what the user `stated` is lifted too
    and no model says what was learned, so is each note of the user's that does not ask. The keys
    follow from the notes alone, so that the same notes, as a retry finds them, are stored once.
    """
    facts: list[Kept] = []
    against: list[str] = []
    for several in _told_once(home):
        why = _lifted(several, home.recalled)
        if why is None and stated and summary is None and _states(several[0]):
            why = STATED
        if why is None:
            against.append(UNTOLD)
        else:
            key = _key(home, "fact", several[0].key)
            facts.append(Kept(home.namespace, key, _fact(several), why))
    if summary is not None:
        facts += _concepts(home, summary, {normalised(one.value["content"]) for one in facts})
    told = {one.value["content"] for one in facts}
    return [*facts, *_digests(home, told, summary)], against


def _when(one: Stored) -> tuple[datetime, int, int]:
    return one.told_at, (one.turn or 0) if one.speaker else 0, one.id


def _project(one: Stored) -> str:
    """The namespace of its project, or of its user's own in it."""
    label, dot, _ = one.namespace.partition(".")
    own = "".join(f"{each}." for each in users_labels(one.user_id))
    if dot and f"{label}." != own:
        return f"{label}.{own}"
    project = one.value.get("project_id")
    named = project if isinstance(project, str) and project else None
    return f"{MemoryContext(tenant='_', project_id=named).namespace(Tier.WORKING)[1]}.{own}"


def _told_once(home: Home) -> Iterator[list[Stored]]:
    """The current notes, those together that one speaker noted in equal texts."""
    told: dict[object, list[Stored]] = {}
    for one in home.notes:
        if one.state is None:
            said = (one.speaker, source_of(one.value), trust_of(one.value))
            told.setdefault((normalised(one.content), *said), []).append(one)
    yield from told.values()


def _lifted(several: Sequence[Stored], recalled: frozenset[int]) -> str | None:
    """Why a note is lifted that these tell together; None if it is not."""
    if any(one.value.get("pinned") is True for one in several):
        return PINNED
    told = [one.importance for one in several if one.importance is not None]
    if max(told, default=0.0) >= IMPORTANT:
        return f"importance >= {IMPORTANT:g}"
    return RECALLED if any(one.id in recalled for one in several) else None


def _states(one: Stored) -> bool:
    """Whether a note is the user's and does not end with a question mark."""
    asks = visible(ends_of(one.content)).rstrip().endswith(("?", "\N{ARABIC QUESTION MARK}"))
    return one.value.get("source", Source.USER) == Source.USER and not asks


def _fact(several: Sequence[Stored]) -> dict[str, Any]:
    """The value of a memory that says what these do, in the words of the first."""
    first = several[0]
    value = {name: one for name, one in first.value.items() if name not in ("turn", "text")}
    return {
        **value,
        "content": first.content,
        "memory_type": "semantic",
        "occurred_at": first.told_at.isoformat(),
        **_shared(several),
        "metadata": _learned(first.value.get("metadata")),
    }


def _concepts(home: Home, summary: Summary, known: set[str]) -> Iterator[Kept]:
    """What a model learned, but for what says the same as what is stored anyhow."""
    for one in summary.concepts:
        if normalised(one.content) in known:
            continue
        known.add(normalised(one.content))
        several = [home.told[place] for place in one.notes]
        value = _drawn_from(several, one.content, "semantic") | {
            **_shared(several),
            "occurred_at": max(each.told_at for each in several).isoformat(),
            "metadata": _learned({"notes": [_shortened(each.content) for each in several]}),
        }
        key = _key(home, "concept", one.content)
        yield Kept(home.namespace, key, value, LEARNED, _staying(home, several))


def _drawn_from(several: Sequence[Stored], content: str, kind: str) -> dict[str, Any]:
    """The value of a memory that tells of these: their tags, and what all say of their session."""
    whose = {}
    for name in ("project_id", "session_id", "agent_id"):
        names = {one.value.get(name) for one in several if isinstance(one.value.get(name), str)}
        if len(names) == 1:
            whose[name] = names.pop()
    return {
        **whose,
        **provenance_of(one.value for one in several),
        "content": content,
        "memory_type": kind,
        "occurred_at": several[0].told_at.isoformat(),
        **_tags(several),
        "metadata": {"promoted_from": WORKING},
    }


def _shared(several: Sequence[Stored]) -> dict[str, Any]:
    """The tags of all, and the highest importance that was told, if there are any."""
    told = [one.importance for one in several if one.importance is not None]
    return {**_tags(several), **({"importance": max(told)} if told else {})}


def _tags(several: Sequence[Stored]) -> dict[str, list[str]]:
    lists = (one.value.get("tags") for one in several)
    tags = [tag for some in lists if isinstance(some, list) for tag in some if isinstance(tag, str)]
    return {"tags": list(dict.fromkeys(tags))} if tags else {}


def _learned(given: object) -> dict[str, Any]:
    """The metadata of what was learned: that it is a fact, if nobody told of which kind it is."""
    own = given if isinstance(given, Mapping) else {}
    return {"category": "fact", **own, "promoted_from": WORKING}


def _digests(home: Home, stored: set[str], summary: Summary | None) -> Iterator[Kept]:
    """What happened, in order; in several parts if it is long. What stays is not told again."""
    parts = list(batches((_line(one, stored) for one in home.notes), len, PART)) or [[]]
    told = home.notes if summary is None else home.told
    first, last = (f"{told[place].told_at:%Y-%m-%d %H:%M}" for place in (0, -1))
    for number, lines in enumerate(parts, 1):
        name = f"Session {home.session}" if home.session else "Notes"
        head = f"{name}, {first} to {last} UTC"
        if len(parts) > 1:
            head += f", part {number} of {len(parts)}"
        said = [summary.content] if summary is not None and number == 1 else []
        value = _drawn_from(told, "\n".join([f"{head}:", *said, *lines]), "episodic")
        key = _key(home, "digest", number)
        yield Kept(home.namespace, key, value, None, _staying(home, told if said else ()))


def _staying(home: Home, several: Sequence[Stored]) -> list[tuple[str, str]]:
    """Which of these stay, so that what is drawn from them can be taken back with them."""
    ids = {one.id for one in home.said}
    return [(one.namespace, one.key) for one in several if one.id in ids]


def _line(one: Stored, stored: set[str]) -> str:
    """A note in the digest: in short if it is stored for itself, else in its own words."""
    content = _shortened(one.content) if one.content in stored else one.content
    who = f"{one.speaker}: " if one.speaker else ""
    return f"- {one.told_at.astimezone(UTC):%Y-%m-%d %H:%M} {who}{content}"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 1].rsplit(' ', 1)[0]}…"


def _key(home: Home, kind: str, which: str | int) -> str:
    """Names what is kept of these very notes, the same each time."""
    notes = [[one.namespace, one.key, one.version] for one in home.told]
    return str(uuid5(NAMESPACE_OID, json.dumps([kind, which, home.namespace, home.session, notes])))
