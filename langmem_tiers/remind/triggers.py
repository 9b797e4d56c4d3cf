"""Triggers: what an intention waits for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from dateutil.rrule import rrule, rrulestr  # type: ignore[import-untyped]

from langmem_tiers.core.checks import checked_kind, checked_mapping, name, parsed_moment, zone_of
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.core.reading import ends_of
from langmem_tiers.core.values import encode_value
from langmem_tiers.remind.cue import anchors, matches

_UTC: Final = "UTC"
_LONGEST_CUE = 1_000
"""Characters of a cue: our own choice."""
_RULE: Final = re.compile(r"[A-Z]+=[A-Z0-9,+-]{1,100}(?:;[A-Z]+=[A-Z0-9,+-]{1,100}){0,8}")
_PARTS: Final = frozenset(
    ("FREQ", "INTERVAL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYHOUR", "BYMINUTE", "BYSETPOS", "WKST")
)
_INTERVAL: Final = re.compile(r"[1-9]\d{0,2}")
_OFTEN: Final = frozenset(("HOURLY", "DAILY"))
_FREQUENCIES: Final = frozenset((*_OFTEN, "WEEKLY", "MONTHLY", "YEARLY"))


class NextCall(NamedTuple):
    """A tool that is about to run, and with what."""

    name: str
    args: Mapping[str, Any]


class Occasion(NamedTuple):
    """What is at hand when reminders are asked for."""

    now: datetime
    query: str | None = None
    calls: tuple[NextCall, ...] = ()
    true: frozenset[str] = frozenset()
    """The names of the predicates that hold."""
    kinds: frozenset[str] | None = None
    """Raise only what has such a trigger, and has it met now."""
    shown: frozenset[str] | None = None
    """The cues that a judge takes the query to show; None leaves it to their words."""
    topics: frozenset[str] = frozenset()
    """What was intended without an occasion, and the query is about."""


def checked_rule(rule: object) -> str:
    """A rule by which something recurs, at most once an hour, without an end.

    Raises:
        InvalidInputError: for anything else.
    """
    told = checked_kind(rule, str, "a recurrence").removeprefix("RRULE:")
    if not _RULE.fullmatch(told) or not _is_known(dict(one.split("=") for one in told.split(";"))):
        raise InvalidInputError(
            f"{short(rule)} is no recurrence: use a rule of RFC 5545 such as "
            "'FREQ=WEEKLY;BYDAY=MO', with a FREQ from HOURLY to YEARLY, BYMONTH and BYMONTHDAY "
            "from WEEKLY on, and `expires_at` for its end"
        )
    try:
        rrulestr(told, dtstart=datetime(2026, 1, 1, tzinfo=UTC))
    except ValueError as error:
        raise InvalidInputError(f"{short(rule)} is no rule of RFC 5545: {error}") from error
    return told


def _is_known(parts: dict[str, str]) -> bool:
    """Whether it comes again soon enough to be found: what never does is sought for long."""
    often = parts.get("FREQ") in _OFTEN and not parts.keys().isdisjoint(("BYMONTH", "BYMONTHDAY"))
    return (
        parts.keys() <= _PARTS
        and parts.get("FREQ") in _FREQUENCIES
        and bool(_INTERVAL.fullmatch(parts.get("INTERVAL", "1")))
        and not often
    )


@dataclass(frozen=True, slots=True)
class At:
    """At a time, or at the next occasion if none is given.

    With `every`, a rule of RFC 5545 that is read in a time zone, it recurs: once it was delivered,
    or is completed, it is due at the next time.

    Example:
        ```python
        from datetime import UTC, datetime
        from langmem_tiers import At

        noon = At(datetime(2026, 3, 1, 12, tzinfo=UTC))
        mondays = At(noon.moment, every="FREQ=WEEKLY;BYDAY=MO", timezone="Europe/Berlin")
        ```
    """

    kind: ClassVar[str] = "time"
    moment: datetime | None = None
    every: str | None = None
    timezone: str = _UTC

    def __post_init__(self) -> None:
        """Take any moment that says its zone, and keep it in UTC."""
        if self.moment is not None:
            object.__setattr__(self, "moment", parsed_moment(self.moment, "at"))
        zone = zone_of(self.timezone)
        try:
            if self.moment is not None:
                self.moment.astimezone(zone)
        except OverflowError as error:
            raise InvalidInputError(
                f"at lies beyond the calendar in {self.timezone}: {short(self.moment)}"
            ) from error
        if self.every is not None:
            object.__setattr__(self, "every", checked_rule(self.every))
            if self.moment is None:
                raise InvalidInputError("what recurs has a first moment: At(moment, every=…)")

    def again(self, now: datetime, ends: datetime | None = None) -> datetime | None:
        """When it is due again, if it recurs and has not ended by then."""
        if self.every is None or self.moment is None:
            return None
        since = self.moment.astimezone(zone_of(self.timezone))
        times: rrule = rrulestr(self.every, dtstart=since)
        found: datetime | None = times.after(now)
        return None if found is None or (ends and ends <= found) else found.astimezone(UTC)

    @property
    def found_by(self) -> None:
        """It is found by its time."""
        return

    def met(self, occasion: Occasion) -> bool:
        """Whether its time has come."""
        return self.moment is None or self.moment <= occasion.now

    def __str__(self) -> str:
        if self.moment is None:
            return "as soon as possible"
        again = "" if self.every is None else f", {self.every} in {self.timezone}"
        return f"at {self.moment.astimezone(zone_of(self.timezone)).isoformat()}{again}"


def latest_of(trigger: At, due_at: datetime, now: datetime) -> datetime:
    """Return the last time that something was due: of what recurs and was missed, the latest."""
    if trigger.every is None or trigger.moment is None or due_at >= now:
        return due_at
    since = trigger.moment.astimezone(zone_of(trigger.timezone))
    times: rrule = rrulestr(trigger.every, dtstart=since)
    found: datetime | None = times.before(now, inc=True)
    return due_at if found is None else max(due_at, found)


@dataclass(frozen=True, slots=True)
class When:
    """When what is asked or said shows a cue: "when Anna mentions the budget".

    Example:
        ```python
        from langmem_tiers import When

        cue = When("when Anna mentions the budget")
        ```
    """

    kind: ClassVar[str] = "cue"
    cue: str

    def __post_init__(self) -> None:
        """Refuse a cue that says nothing."""
        utf8_bytes(checked_kind(self.cue, str, "a cue"), "cue")
        if len(self.cue) > _LONGEST_CUE:
            raise InvalidInputError(
                f"the cue has {len(self.cue):,} characters, of {_LONGEST_CUE:,} at most: say it in "
                "a sentence, such as 'when Anna mentions the budget'"
            )
        if not self.words:
            raise InvalidInputError(
                f"the cue {short(self.cue)} names nothing that could be recognised: say who or "
                "what it is about, such as 'when Anna mentions the budget'"
            )

    @property
    def words(self) -> tuple[str, ...]:
        """Stems that a text must hold to show the cue."""
        return anchors(self.cue)

    @property
    def found_by(self) -> str:
        """The longest of its words, as that is the rarest in most texts."""
        return max(self.words, key=lambda word: (len(word), word))

    def met(self, occasion: Occasion) -> bool:
        """Whether the query shows the cue."""
        if occasion.shown is not None:
            return self.cue in occasion.shown
        return occasion.query is not None and matches(self.cue, occasion.query)

    def __str__(self) -> str:
        return f"cue: {self.cue}"


@dataclass(frozen=True, slots=True)
class BeforeTool:
    """Before a tool runs; with `args`, if each of these arguments is what is said here.

    A text is a pattern in which `*` stands for anything and `?` for one character; anything else
    is compared as it is.

    Example:
        ```python
        from langmem_tiers import BeforeTool

        deploying = BeforeTool("deploy", {"environment": "prod*"})
        ```
    """

    kind: ClassVar[str] = "tool"
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is no name, or no JSON."""
        name(self.name, "the name of a tool")
        checked_mapping(self.args, "args", "{'environment': 'prod*'}")
        object.__setattr__(self, "args", json.loads(encode_value(dict(self.args))))

    @property
    def found_by(self) -> str:
        """The tool's name."""
        return self.name

    def met(self, occasion: Occasion) -> bool:
        """Whether such a call is about to run."""
        return any(self.is_of(call) for call in occasion.calls)

    def is_of(self, call: NextCall) -> bool:
        """Whether it is about that call."""
        return call.name == self.name and all(
            argument in call.args and _fits(call.args[argument], wanted)
            for argument, wanted in self.args.items()
        )

    def __str__(self) -> str:
        given = ", ".join(f"{name}={wanted!r}" for name, wanted in sorted(self.args.items()))
        return f"before {self.name}({given})"


@dataclass(frozen=True, slots=True)
class If:
    """Whenever a predicate of the graph's state holds; it is known by its name.

    Example:
        ```python
        from langmem_tiers import If

        full = If("cart_is_full")
        ```
    """

    kind: ClassVar[str] = "state"
    predicate: str

    def __post_init__(self) -> None:
        """Refuse what is no name."""
        name(self.predicate, "the name of a predicate")

    @property
    def found_by(self) -> str:
        """The predicate's name."""
        return self.predicate

    def met(self, occasion: Occasion) -> bool:
        """Whether the predicate holds."""
        return self.predicate in occasion.true

    def __str__(self) -> str:
        return f"if {self.predicate}"


@dataclass(frozen=True, slots=True)
class Topic:
    """When what is asked or said is about what is intended."""

    kind: ClassVar[str] = "topic"
    about: str

    @classmethod
    def of(cls, content: str) -> Topic:
        """The topic of what is intended; of a longer text, of both its ends."""
        return cls(ends_of(content, _LONGEST_CUE))

    @property
    def found_by(self) -> str:
        """A short name of the text."""
        return blake2b(self.about.encode(), digest_size=16).hexdigest()

    def met(self, occasion: Occasion) -> bool:
        """Whether it has come up."""
        return self.about in occasion.topics

    def __str__(self) -> str:
        return "its topic came up"


Trigger: TypeAlias = At | When | BeforeTool | If | Topic


TRIGGERS: Mapping[str, type[Trigger]] = {
    "at": At,
    "cue": When,
    "before_tool": BeforeTool,
    "when": If,
    "topic": Topic,
}
"""Kinds of triggers, by the argument that says one."""


def trigger_of(**named: Any) -> Trigger:
    """The one trigger that is given under a name of `TRIGGERS`, or the next occasion.

    Raises:
        InvalidInputError: for several, or one that cannot be.
    """
    given = [name for name, one in named.items() if one is not None]
    if len(given) > 1:
        raise InvalidInputError(
            f"an intention has one trigger, not {' and '.join(given)}: intend it once for each"
        )
    for argument in given:
        one, kind = named[argument], TRIGGERS[argument]
        return one if isinstance(one, kind) else kind(one)
    return At()


def to_json(trigger: Trigger) -> dict[str, Any]:
    """A trigger as JSON."""
    match trigger:
        case At():
            at = trigger.moment
            told = {"kind": trigger.kind, "at": None if at is None else at.isoformat()}
            again = {"every": trigger.every, "timezone": trigger.timezone}
            plain = trigger.every is None and trigger.timezone == _UTC
            return told if plain else {**told, **again}
        case BeforeTool():
            return {"kind": trigger.kind, "tool": trigger.name, "args": dict(trigger.args)}
        case _:
            return {"kind": trigger.kind, **asdict(trigger)}


def of_json(stored: Mapping[str, Any]) -> Trigger:
    """Read the trigger that was stored.

    Raises:
        InvalidInputError: if it is none.
    """
    match stored:
        case {"kind": At.kind, "at": None | str() as at, **more}:
            moment = None if at is None else parsed_moment(at, "at")
            return At(moment, more.get("every"), more.get("timezone", _UTC))
        case {"kind": When.kind, "cue": cue}:
            return When(cue)
        case {"kind": BeforeTool.kind, "tool": tool, "args": args}:
            return BeforeTool(tool, args)
        case {"kind": Topic.kind, "about": str() as about}:
            return Topic(about)
        case {"kind": If.kind, "predicate": predicate}:
            return If(predicate)
    raise InvalidInputError(f"{short(stored)} is no trigger that an intention can wait for")


def _fits(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return fnmatchcase(given if isinstance(given, str) else json.dumps(given), wanted)
    return isinstance(given, bool) == isinstance(wanted, bool) and bool(given == wanted)
