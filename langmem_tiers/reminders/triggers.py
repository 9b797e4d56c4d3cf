"""Triggers: the occasions for which an intention waits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from dateutil.rrule import rrule, rrulestr  # type: ignore[import-untyped]
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core import prompts
from langmem_tiers.core.chat_models import aask, ask, trim_middle
from langmem_tiers.core.checks import (
    checked_instance,
    checked_mapping,
    checked_name,
    parsed_moment,
    utf8_bytes,
    zone_of,
)
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.texts import head_and_tail, split_sentences, stem, words
from langmem_tiers.core.values import encode_value
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.recall.prompt_text import escape_fences

_UTC: Final = "UTC"
_LONGEST_CUE = 1_000
"""The most characters of a cue: our own choice."""
_RULE: Final = re.compile(r"[A-Z]+=[A-Z0-9,+-]{1,100}(?:;[A-Z]+=[A-Z0-9,+-]{1,100}){0,8}")
_PARTS: Final = frozenset(
    ("FREQ", "INTERVAL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYHOUR", "BYMINUTE", "BYSETPOS", "WKST")
)
_INTERVAL: Final = re.compile(r"[1-9]\d{0,2}")
_OFTEN: Final = frozenset(("HOURLY", "DAILY"))
_FREQUENCIES: Final = frozenset((*_OFTEN, "WEEKLY", "MONTHLY", "YEARLY"))


class NextCall(NamedTuple):
    """A tool that is about to run, with its arguments."""

    name: str
    args: Mapping[str, Any]


class Occasion(NamedTuple):
    """The occasion on which reminders are asked for."""

    now: datetime
    query: str | None = None
    calls: tuple[NextCall, ...] = ()
    predicates: frozenset[str] = frozenset()
    """The names of the predicates that hold."""
    kinds: frozenset[str] | None = None
    """The kinds of triggers to raise, if they are met now; None raises all kinds."""
    shown: frozenset[str] | None = None
    """The cues that the query shows, as a judge says; None compares their words."""
    topics: frozenset[str] = frozenset()
    """The topics of intentions that the query is about."""


def checked_rule(rule: object) -> str:
    """Return the checked rule of a recurrence, at most once an hour, without an end.

    Raises:
        InvalidInputError: for anything else.
    """
    text = checked_instance(rule, str, "a recurrence").removeprefix("RRULE:")
    if not _RULE.fullmatch(text) or not _is_supported(text):
        raise InvalidInputError(
            f"{short(rule)} is no recurrence: use a rule of RFC 5545 such as "
            "'FREQ=WEEKLY;BYDAY=MO', with a FREQ from HOURLY to YEARLY, BYMONTH and BYMONTHDAY "
            "from WEEKLY on, and `expires_at` for its end"
        )
    try:
        rrulestr(text, dtstart=datetime(2026, 1, 1, tzinfo=UTC))
    except ValueError as error:
        raise InvalidInputError(f"{short(rule)} is no rule of RFC 5545: {error}") from error
    return text


def _is_supported(rule: str) -> bool:
    """Return True if a rule recurs soon enough; the search for a time that never comes is long."""
    parts = dict(part.split("=") for part in rule.split(";"))
    often = parts.get("FREQ") in _OFTEN and not parts.keys().isdisjoint(("BYMONTH", "BYMONTHDAY"))
    return (
        parts.keys() <= _PARTS
        and parts.get("FREQ") in _FREQUENCIES
        and bool(_INTERVAL.fullmatch(parts.get("INTERVAL", "1")))
        and not often
    )


@dataclass(frozen=True, slots=True)
class At:
    """A trigger at a time, or at the next occasion if no time is given.

    With `every`, a rule of RFC 5545 in a time zone, it recurs: when it was delivered or completed,
    it is due again at the next time.

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
        """Check the fields, and keep the moment in UTC."""
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

    def next_after(self, now: datetime, ends: datetime | None = None) -> datetime | None:
        """Return when it is due again, if it recurs and has not ended by then."""
        if self.every is None or self.moment is None:
            return None
        since = self.moment.astimezone(zone_of(self.timezone))
        times: rrule = rrulestr(self.every, dtstart=since)
        next_time: datetime | None = times.after(now)
        if next_time is None or (ends and ends <= next_time):
            return None
        return next_time.astimezone(UTC)

    @property
    def lookup_name(self) -> None:
        """Return None, as statements find it by its time."""
        return

    def is_met(self, occasion: Occasion) -> bool:
        """Return True if its time has come."""
        return self.moment is None or self.moment <= occasion.now

    def __str__(self) -> str:
        if self.moment is None:
            return "as soon as possible"
        again = "" if self.every is None else f", {self.every} in {self.timezone}"
        return f"at {self.moment.astimezone(zone_of(self.timezone)).isoformat()}{again}"


def last_due(trigger: At, due_at: datetime, now: datetime) -> datetime:
    """Return the last time at which a trigger was due: the latest of several missed ones."""
    if trigger.every is None or trigger.moment is None or due_at >= now:
        return due_at
    since = trigger.moment.astimezone(zone_of(trigger.timezone))
    times: rrule = rrulestr(trigger.every, dtstart=since)
    last_time: datetime | None = times.before(now, inc=True)
    return due_at if last_time is None else max(due_at, last_time)


@dataclass(frozen=True, slots=True)
class When:
    """A trigger by a cue that the query shows: "when Anna mentions the budget".

    Example:
        ```python
        from langmem_tiers import When

        cue = When("when Anna mentions the budget")
        ```
    """

    kind: ClassVar[str] = "cue"
    cue: str

    def __post_init__(self) -> None:
        """Refuse a cue without a word that could be recognised."""
        utf8_bytes(checked_instance(self.cue, str, "a cue"), "cue")
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
        """Return the stems that a text must have to show the cue."""
        return cue_anchors(self.cue)

    @property
    def lookup_name(self) -> str:
        """Return the longest of its words, as that is the rarest in most texts."""
        return max(self.words, key=lambda word: (len(word), word))

    def is_met(self, occasion: Occasion) -> bool:
        """Return True if the query shows the cue."""
        if occasion.shown is not None:
            return self.cue in occasion.shown
        return occasion.query is not None and shows_cue(self.cue, occasion.query)

    def __str__(self) -> str:
        return f"cue: {self.cue}"


@dataclass(frozen=True, slots=True)
class BeforeTool:
    """A trigger before a tool runs; with `args`, before it runs with these arguments.

    A text is a pattern in which `*` stands for anything and `?` for one character. Other values are
    compared as they are.

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
        """Refuse a name that is none, and arguments that are no JSON."""
        checked_name(self.name, "the name of a tool")
        checked_mapping(self.args, "args", "{'environment': 'prod*'}")
        object.__setattr__(self, "args", json.loads(encode_value(dict(self.args))))

    @property
    def lookup_name(self) -> str:
        """Return the tool's name."""
        return self.name

    def is_met(self, occasion: Occasion) -> bool:
        """Return True if a matching call is about to run."""
        return any(self.matches(call) for call in occasion.calls)

    def matches(self, call: NextCall) -> bool:
        """Return True if it is about this call."""
        return call.name == self.name and all(
            argument in call.args and _argument_matches(call.args[argument], wanted)
            for argument, wanted in self.args.items()
        )

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={wanted!r}" for name, wanted in sorted(self.args.items()))
        return f"before {self.name}({arguments})"


@dataclass(frozen=True, slots=True)
class If:
    """A trigger whenever a predicate of the graph's state holds, by the predicate's name.

    Example:
        ```python
        from langmem_tiers import If

        full = If("cart_is_full")
        ```
    """

    kind: ClassVar[str] = "state"
    predicate: str

    def __post_init__(self) -> None:
        """Refuse a name that is none."""
        checked_name(self.predicate, "the name of a predicate")

    @property
    def lookup_name(self) -> str:
        """Return the predicate's name."""
        return self.predicate

    def is_met(self, occasion: Occasion) -> bool:
        """Return True if the predicate holds."""
        return self.predicate in occasion.predicates

    def __str__(self) -> str:
        return f"if {self.predicate}"


@dataclass(frozen=True, slots=True)
class Topic:
    """A trigger when the query is about the topic of the intention."""

    kind: ClassVar[str] = "topic"
    about: str

    @classmethod
    def from_content(cls, content: str) -> Topic:
        """Return the topic of an intention's text; both ends of a longer text."""
        return cls(head_and_tail(content, _LONGEST_CUE))

    @property
    def lookup_name(self) -> str:
        """Return a hash of the text."""
        return blake2b(self.about.encode(), digest_size=16).hexdigest()

    def is_met(self, occasion: Occasion) -> bool:
        """Return True if it has come up."""
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
"""Kinds of triggers, by the argument that takes one."""


def parse_trigger(**named: Any) -> Trigger:
    """Return the one trigger among arguments named as in `TRIGGERS`, or the next occasion.

    Raises:
        InvalidInputError: for several, or one that cannot be.
    """
    arguments = [name for name, value in named.items() if value is not None]
    if len(arguments) > 1:
        raise InvalidInputError(
            f"an intention has one trigger, not {' and '.join(arguments)}: intend it once for each"
        )
    for argument in arguments:
        value, kind = named[argument], TRIGGERS[argument]
        return value if isinstance(value, kind) else kind(value)
    return At()


def trigger_to_json(trigger: Trigger) -> dict[str, Any]:
    """Return a trigger as JSON."""
    match trigger:
        case At():
            at = trigger.moment
            fields = {"kind": trigger.kind, "at": None if at is None else at.isoformat()}
            again = {"every": trigger.every, "timezone": trigger.timezone}
            plain = trigger.every is None and trigger.timezone == _UTC
            return fields if plain else {**fields, **again}
        case BeforeTool():
            return {"kind": trigger.kind, "tool": trigger.name, "args": dict(trigger.args)}
        case _:
            return {"kind": trigger.kind, **asdict(trigger)}


def trigger_from_json(stored: Mapping[str, Any]) -> Trigger:
    """Read a trigger from stored JSON.

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


def _argument_matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return fnmatchcase(value if isinstance(value, str) else json.dumps(value), wanted)
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


# Cues such as "when Anna mentions the budget": a text shows them by stems, or as a model says
#
# By stems, a sentence shows a cue if it has two thirds of the cue's longer words, among them the
# last one and every name. Both or neither are denied, and the sentence is the speaker's own if the
# cue is. No other rule of a language is applied, so the same words on something else show it too.


LEAD: Final = re.compile(
    r"\b(?:when(?:ever)?|if|once|as soon as|next time(?: that)?)\b", re.IGNORECASE
)
"""The beginning of a cue; the text before it is no part of the cue."""
DENIED: Final = re.compile(r"\b(?:not?|never|cannot)\b|n['\u2019]t\b", re.IGNORECASE)
_OWN: Final = re.compile(r"\b(?:i|me|my|mine)\b", re.IGNORECASE)
_SHORT_WORD: Final = 3
"""The most letters of words that say little, in lower case and beside longer ones."""
_WINDOW: Final = 100
"""The most words of a sentence that are compared at once: our own choice."""


class Sentence(NamedTuple):
    """A sentence that is compared with cues."""

    stems: frozenset[str]
    denied: frozenset[str]
    """Stems between commas where something is denied."""
    own: bool


class Cue(NamedTuple):
    """A cue that is compared with sentences."""

    stems: frozenset[str]
    anchors: frozenset[str]
    """Stems that a sentence must have: the names, and the last word."""
    denied: bool
    own: bool

    def is_shown_by(self, sentence: Sentence) -> bool:
        """Return True if a sentence shows it."""
        shared = self.stems & sentence.stems
        return (
            self.anchors <= shared
            and len(shared) >= len(self.stems) - len(self.stems) // 3
            and self.denied is bool(sentence.denied & shared)
            and (sentence.own or not self.own)
        )


def cue_anchors(cue: str) -> tuple[str, ...]:
    """Return the stems that every text has which shows the cue, sorted; none for an empty cue.

    They are stored. If the rules of stems change, those of stored cues must be made again.
    """
    return tuple(sorted(read_cue(cue).anchors))


def text_stems(text: str) -> frozenset[str]:
    """Return all stems of a text, among which anchors are looked up."""
    stems = set[str]()
    for sentence in _read_sentences(text):
        stems |= sentence.stems
    return frozenset(stems)


def shows_cue(cue: str, text: str) -> bool:
    """Return True if a text shows a cue."""
    wanted = read_cue(cue)
    return bool(wanted.anchors) and any(map(wanted.is_shown_by, _read_sentences(text)))


@lru_cache(maxsize=4096)
def read_cue(text: str) -> Cue:
    """Take a cue apart."""
    lead = LEAD.search(text)
    clause = text[lead.end() :] if lead else text
    key_words = _select_key_words(clause.split())
    names = key_words if lead else key_words[1:]  # a first word has its capital from its place
    needed = [*_stems(" ".join(key_words))]
    named = _stems(" ".join(word for word in names if not word.islower()))
    return Cue(
        frozenset(needed),
        frozenset([*named, *needed[-1:]]),
        bool(DENIED.search(clause)),
        bool(_OWN.search(clause)),
    )


def _select_key_words(pieces: list[str]) -> list[str]:
    """Select the words that say what a cue is about: long ones, and those not in lower case."""
    others = [piece for piece in pieces if not (_OWN.match(piece) or DENIED.search(piece))]
    key_words = [piece for piece in others if len(piece) > _SHORT_WORD or not piece.islower()]
    if len(key_words) > 1:
        return key_words
    return [piece for piece in others if len(piece) >= _SHORT_WORD or piece in key_words]


def _stems(text: str) -> list[str]:
    return list(map(stem, words(text)))


@lru_cache(maxsize=64)
def _read_sentences(text: str) -> tuple[Sentence, ...]:
    """Read the sentences of a text; if it is long, of both its ends.

    A long sentence is split into parts that overlap by half.
    """
    sentences, step = [], _WINDOW // 2
    for sentence in split_sentences(head_and_tail(text)):
        pieces = sentence.split()
        for start in range(0, max(1, len(pieces) - step), step):
            part = " ".join(pieces[start : start + _WINDOW])
            denied = " , ".join(filter(DENIED.search, part.split(",")))
            own = bool(_OWN.search(part))
            sentences.append(Sentence(frozenset(_stems(part)), frozenset(_stems(denied)), own))
    return tuple(sentences)


class ShownCues(BaseModel):
    """What a model is asked for."""

    numbers: list[int] = Field(description=prompts.CUES_JUDGED)


def judge_cues(model: BaseChatModel, text: str, cues: Sequence[str]) -> Flow[frozenset[str]]:
    """Ask a chat model in one request which cues a text shows; return those.

    Raises:
        ModelError: if it gave no usable answer. Nobody judges in its place: nothing is raised, and
            all intentions stay due.
    """
    listed = "\n".join(
        prompts.CUE_ONE.format(number=number, cue=escape_fences(cue))
        for number, cue in enumerate(cues, 1)
    )
    shown = prompts.CUE_SHOWN.format(text=escape_fences(trim_middle(text)), cues=listed)
    request = (model, ShownCues, [SystemMessage(prompts.CUES_JUDGE), HumanMessage(shown)])
    check = partial(_check_numbers, last=len(cues))
    answer: ShownCues = yield Ask(partial(ask, *request, check), partial(aask, *request, check))
    return frozenset(cues[number - 1] for number in answer.numbers)


def _check_numbers(answer: ShownCues, last: int) -> None:
    for number in answer.numbers:
        if not 1 <= number <= last:
            raise InvalidInputError(prompts.NO_SUCH_CUE.format(number=number, last=last))
