"""What hooks are handed, and what they say became of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from langmem_tiers.consolidate.session_end import SessionReport
from langmem_tiers.core.checks import checked_list, is_number
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import PERSONS, Source, StoreResult
from langmem_tiers.core.reading import normalised
from langmem_tiers.remember.new import checked_text, label
from langmem_tiers.remind.intentions import Intention, Priority, Reminder
from langmem_tiers.remind.times import checked_languages
from langmem_tiers.remind.triggers import TRIGGERS, Trigger

_FIELDS: Final = {
    "event": ("type", "decision_type", "event"),
    "concept": ("category", "category", "fact"),
}
"""What says of which kind it is, as it is handed in and in the metadata; and what it is else."""

_MOST_DAYS: Final = 36_500
EXPIRE_DAYS: Final = 7.0
"""Days after which an intention expires that names no time: our own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """What a session begins with."""

    reminders: tuple[Reminder, ...] = ()
    """What was raised, by priority."""
    pending: tuple[Intention, ...] = ()
    """What is open, by priority; what was raised is open until it is closed."""

    def __str__(self) -> str:
        """What is open, one a line, with its priority."""
        return "\n".join(map(str, self.pending))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSubmit:
    """What became of a prompt."""

    working: StoreResult
    """As working memory."""
    intended: StoreResult | None = None
    """As prospective memory; None if it intends nothing, or the gate did not accept it."""
    priority: Priority | None = None
    trigger: Trigger | None = None
    untimed: str | None = None
    """Why what is intended has no time; None if it has one, or nothing is intended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStop:
    """What became of a session."""

    report: SessionReport
    events: tuple[StoreResult, ...] = ()
    """Significant events, as episodic memories."""
    concepts: tuple[StoreResult, ...] = ()
    """Concepts that were handed in, as semantic memories; others are in the report."""

    def __str__(self) -> str:
        """How many events and concepts, then the report."""
        events, concepts = (
            sum(one.stored for one in some) for some in (self.events, self.concepts)
        )
        return f"kept: {events} as events, {concepts} as concepts\n{self.report}"


def told_of(given: object, what: Literal["event", "concept"]) -> list[dict[str, Any]]:
    """Events or concepts that were handed in, once each, each of some kind.

    Raises:
        InvalidInputError: for what is no event, or no concept.
    """
    if isinstance(given, Mapping):
        raise InvalidTypeError(f"{what}s is a list of mappings, not {short(given)}")
    field, name, otherwise = _FIELDS[what]
    found: dict[str, dict[str, Any]] = {}
    for one in checked_list(() if given is None else given, f"{what}s", "mappings"):
        if not isinstance(one, Mapping):
            raise InvalidTypeError(
                f"{what}s are mappings with a description and a {field}, not {short(one)}"
            )
        text = checked_text(one.get("description"), f"the description among the {what}s")
        kind = label(one.get(field), field) or otherwise
        named = one.get("source", Source.AGENT)
        source = Source.AGENT if named in PERSONS else named
        found.setdefault(text, {"content": text, "metadata": {name: kind}, "source": source})
    return list(found.values())


def checked_options(languages: Sequence[str], expire_days: float | None) -> dict[str, Any]:
    """The options of `MemoryHooks` that say when what a prompt intends is raised, checked.

    Raises:
        InvalidInputError: for languages that are not known, or days that are no number above 0 and
            up to 36500.
        MissingExtraError: for other languages than English without the extra `dates`.
    """
    named = checked_languages(languages)
    if expire_days is not None and not (is_number(expire_days) and 0 < expire_days <= _MOST_DAYS):
        raise InvalidInputError(
            f"expire_days is {short(expire_days, 40)}: give days, above 0 and up to {_MOST_DAYS}, "
            "or None for never"
        )
    return {"languages": named, "expire_days": expire_days}


def checked_data(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What is handed in about a session that stops.

    Raises:
        InvalidInputError: for what is not known.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"session_data is a mapping, not {type(given).__name__}")
    if unknown := given.keys() - {"session_id", "events", "concepts", "trust"}:
        raise InvalidInputError(
            f"session_data has {min(map(short, unknown))}: use session_id, events, concepts, trust"
        )
    return given


def given(trigger: Trigger) -> dict[str, Any]:
    """A trigger as the argument of `intend` that it is."""
    return {name: trigger for name, kind in TRIGGERS.items() if isinstance(trigger, kind)}


def alike(content: str, trigger: Trigger, listed: Iterable[Intention]) -> Intention | None:
    """The intention that says the same for the same occasion, if there is one."""
    said = normalised(content)
    same = (one for one in listed if one.trigger == trigger)
    return next((one for one in same if normalised(one.content) == said), None)
