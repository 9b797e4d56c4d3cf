"""What becomes of events, states and recorded recalls that hold what is forgotten: rules alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from langmem_tiers.core.context import USER, named_by, users_labels
from langmem_tiers.core.namespaces import decode
from langmem_tiers.forget.passages import Passages
from langmem_tiers.forget.reach import STRUCTURE, Known
from langmem_tiers.forget.subject import labels_of, strings_of
from langmem_tiers.recall.replay import seen_in

_GONE: Final = frozenset(("rejected", "evicted"))
"""Events that are all that is left of a memory."""
_IDS: Final = ("sources", "again")
SAYING: Final = ("key", "value", "speaker")
"""What of a memory that a recall saw says anything."""
_MESSAGE: Final = "message"
_SESSION: Final = 2
"""The place of the session among the labels of a conversation's owner."""


class Event(NamedTuple):
    """A row of events_page, the columns are in this order."""

    event: str
    kind: str
    id: int | None
    target: int | None
    detail: dict[str, Any]

    @property
    def turn(self) -> str | None:
        """The turn that decided it."""
        found = self.detail.get("turn")
        return found if self.event.startswith("turn/") and isinstance(found, str) else None


class Recall(NamedTuple):
    """A row of recalls_page, the columns are in this order."""

    turn: str
    recall: str
    user_id: str | None
    ids: Sequence[int]
    asked: dict[str, Any]
    seen: bytes
    answered: list[Any]
    root: str | None = None
    project: str | None = None

    @property
    def names(self) -> list[str | None]:
        """Return the texts that may name somebody, beside the question and the answer."""
        return [self.turn, self.recall, self.user_id, self.root, self.project]


class Waiting(NamedTuple):
    """A row of intentions_page, the columns are in this order."""

    id: int
    trigger: Any
    words: Sequence[str] | None
    name: str | None
    holder: str | None

    @property
    def told(self) -> list[Any]:
        """Return what it waits for."""
        return [self.trigger, *(self.words or ()), self.name]


class Shown(NamedTuple):
    """A row of exposures_page, the columns are in this order."""

    run: str
    id: int
    root: str | None
    project: str | None
    session: str | None
    settled_by: str | None
    user_id: str | None

    @property
    def names(self) -> list[str | None]:
        """Return the texts that may name somebody."""
        return [self.run, *self[2:]]


class State(NamedTuple):
    """A row of states_page, the columns are in this order."""

    owner: str
    kind: str
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Scrubbing:
    """What goes of events and states, and what is said less."""

    gone: list[str] = field(default_factory=list)
    """Names of events."""
    changed: list[Event] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    recalls: list[Recall] = field(default_factory=list)
    intentions: list[int] = field(default_factory=list)
    """Intentions whose memories stay."""
    held: list[int] = field(default_factory=list)
    """Intentions that a run holds whose name goes."""
    shown: list[Shown] = field(default_factory=list)
    turns: set[str] = field(default_factory=set)
    """Turns of whose events some went or changed."""
    sessions: dict[str, str] = field(default_factory=dict)
    """Sessions of turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubber:
    """Judges events, states and recorded recalls of a tenant by what is forgotten."""

    tenant: str
    erased: frozenset[int]
    rewritten: frozenset[int] = frozenset()
    passages: Passages
    user: str | None = None
    """The user who is forgotten."""
    turns: Collection[str] = ()
    """Turns of that user."""
    owner: str | None = None
    """Whose own all of it is: rows of another user's are not about it."""
    _judged: dict[str, bool] = field(default_factory=dict)
    """Of what recalls saw, whether it holds anything of it: many saw the same."""

    def add_event(self, one: Event, to: Scrubbing) -> None:
        """Judge an event."""
        session = one.detail.get("session_id")
        if one.turn is not None and isinstance(session, str):
            to.sessions[one.turn] = session
        kept = self.event(one)
        if kept is one:
            return
        if kept is None:
            to.gone.append(one.event)
        else:
            to.changed.append(kept)
        if one.turn is not None:
            to.turns.add(one.turn)

    def event(self, one: Event) -> Event | None:
        """An event without what is forgotten: itself if it holds nothing of it, None if it goes."""
        told_user = one.detail.get("user_id")
        of_user = told_user == self.user or one.turn in self.turns
        if (self.user is not None and of_user) or self.named(unquote(one.event)):
            return None
        parties = {one.id, one.target} - {None}
        mine = parties & self.erased
        if mine and mine == parties:
            return None
        if not mine and self.owner is not None and told_user not in (None, self.owner):
            return one
        below = [i for name in _IDS for i in _listed(one.detail.get(name))]
        related = bool(mine) or not set(below).isdisjoint(self.erased) or self._keyed(one.detail)
        detail = self._without_ids(self.passages.scrubbed(one.detail, related=related))
        if detail == one.detail and not mine:
            return one
        if one.kind in _GONE:
            return None
        return one._replace(
            id=None if one.id in mine else one.id,
            target=None if one.target in mine else one.target,
            detail=detail,
        )

    def is_about(self, one: Known) -> bool:
        """Whether a memory may speak of it: not if it is another user's own."""
        return self.owner is None or one.user_id in (None, self.owner)

    def unquoted(self, value: dict[str, Any]) -> dict[str, Any]:
        """The value of another memory without what it quotes beside its content."""
        kept = STRUCTURE | {"content", "text"}
        return {
            name: one if name in kept else self.passages.scrubbed(one)
            for name, one in value.items()
        }

    def state(self, one: State) -> bool:
        """Whether a state goes."""
        whose = self._user_of(one)
        if self.user is not None and whose == users_labels(self.user)[0]:
            return True
        if self.owner is not None and whose not in (None, users_labels(self.owner)[0]):
            return False
        if self.named(*labels_of(one.owner)):
            return True
        told = [one.name, one.value]
        return bool(self.passages.scrubbed(told) != told)

    def recall(self, one: Recall) -> bool:
        """Whether a recorded recall goes: as it was asked by who is forgotten, or holds it."""
        if self.user is not None and one.user_id == self.user:
            return True
        if not (self.erased | self.rewritten).isdisjoint(one.ids):
            return True
        if self.owner is not None and one.user_id not in (None, self.owner):
            return False
        if self.named(*one.names):
            return True
        parts = [one.asked, one.answered]
        parts += ([row[name] for name in SAYING] for row in seen_in(one.seen))
        return any(map(self._holds, parts))

    def waits(self, one: Waiting) -> bool:
        """Tell whether what an intention waits for repeats anything of it."""
        return any(map(self.passages.repeated_in, strings_of(one.told, names=True)))

    def named(self, *texts: str | None) -> bool:
        """Tell whether one of these texts names the subject."""
        subject = self.passages.subject
        return subject is not None and subject.is_named_among(texts)

    def _holds(self, part: Any) -> bool:
        """Whether JSON holds anything of it."""
        text = repr(part)
        if text not in self._judged:
            self._judged[text] = bool(self.passages.scrubbed(part) != part)
        return self._judged[text]

    def session_of(self, one: State) -> str | None:
        """The session of a message."""
        labels = decode(self.tenant, one.owner)
        return named_by(labels[_SESSION]) if one.kind == _MESSAGE and len(labels) > 2 else None  # noqa: PLR2004

    def _user_of(self, one: State) -> str | None:
        last = decode(self.tenant, one.owner)[-1]
        return last if last.startswith(USER) else None

    def _keyed(self, value: Any) -> bool:
        """Whether any text is one of the keys."""
        return _any(value, lambda text: text in self.passages.keys)

    def _without_ids(self, detail: dict[str, Any]) -> dict[str, Any]:
        """A detail that names none of the memories by its id."""
        left = dict(detail)
        for name in _IDS:
            if isinstance(detail.get(name), list):
                left[name] = [one for one in detail[name] if one not in self.erased]
        versions = detail.get("versions")
        if isinstance(versions, dict):
            gone = set(map(str, self.erased))
            left["versions"] = {id_: at for id_, at in versions.items() if id_ not in gone}
        return left


def details(events: Collection[Event]) -> list[str]:
    """The details of events as JSON."""
    return [json.dumps(one.detail, ensure_ascii=False) for one in events]


def _listed(value: object) -> list[int]:
    return [one for one in value if isinstance(one, int)] if isinstance(value, list) else []


def _any(value: Any, holds: Callable[[str], bool]) -> bool:
    if isinstance(value, str):
        return holds(value)
    if isinstance(value, Mapping):
        return any(holds(name) or _any(one, holds) for name, one in value.items())
    return isinstance(value, list) and any(_any(one, holds) for one in value)
