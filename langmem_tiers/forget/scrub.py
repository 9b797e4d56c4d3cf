"""What becomes of the rows that hold what is forgotten: rules alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from langmem_tiers.core.context import users_labels
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.passages import Passages, labels_of, strings_of
from langmem_tiers.forget.places import (
    STRUCTURE,
    Event,
    Known,
    Logged,
    Recall,
    Shown,
    State,
    Waiting,
)

_GONE: Final = frozenset(("rejected", "evicted"))
"""Events that are all that is left of a memory."""
_FORGET: Final = "forget"
_IDS: Final = ("sources", "again")


@dataclass(slots=True, kw_only=True)
class Scrubber:
    """Judges the rows of a tenant by what is forgotten, and notes what becomes of them."""

    erased: frozenset[int]
    passages: Passages
    suspect: Collection[int] = ()
    """Memories that came from it, whoever's they are."""
    user: str | None = None
    """The user who is forgotten."""
    turns: Collection[str] = ()
    """Turns of that user."""
    owner: str | None = None
    """Whose own all of it is: rows of another user's are not about it."""
    places: frozenset[tuple[str, str]] = frozenset()
    """Where the memories stand that go: what the log tells of one that stood there goes along."""

    events: list[str] = field(default_factory=list)
    """Events that go."""
    changed: list[Event] = field(default_factory=list)
    """Events that stay without it."""
    states: list[State] = field(default_factory=list)
    recalls: list[Recall] = field(default_factory=list)
    intentions: list[int] = field(default_factory=list)
    """Intentions whose memories stay."""
    held: list[int] = field(default_factory=list)
    """Intentions that a run holds whose name goes."""
    shown: list[Shown] = field(default_factory=list)
    quoting: dict[int, Known] = field(default_factory=dict)
    """Other memories without what they quote beside their content, by id."""
    alike: list[Known] = field(default_factory=list)
    """Other memories that say the same by themselves, and stay."""
    logged: list[int] = field(default_factory=list)
    """Rows of the audit log that tell of it."""
    turned: set[str] = field(default_factory=set)
    """Turns of whose events some go or change."""
    sessions: dict[str, str] = field(default_factory=dict)
    """Sessions of turns."""
    _judged: dict[str, bool] = field(default_factory=dict)
    """Of what recalls saw, whether it holds anything of it: many saw the same."""

    @property
    def scrubbed(self) -> int:
        """How many others lose what they quote, or who holds them."""
        return len(self.changed) + len(self.quoting) + len({*self.held} - {*self.intentions})

    def add_event(self, one: Event) -> None:
        """Judge an event."""
        session = one.detail.get("session_id")
        if one.turn is not None and isinstance(session, str):
            self.sessions[one.turn] = session
        kept = self.event(one)
        if kept is one:
            return
        if kept is None:
            self.events.append(one.event)
        else:
            self.changed.append(kept)
        if one.turn is not None:
            self.turned.add(one.turn)

    def event(self, one: Event) -> Event | None:
        """An event without what is forgotten: itself if it holds nothing of it, None if it goes."""
        told_user = one.detail.get("user_id")
        of_user = told_user == self.user or one.turn in self.turns
        if (self.user is not None and of_user) or self._named(unquote(one.event)):
            return None
        parties = {one.id, one.target} - {None}
        mine = parties & self.erased
        if mine and mine == parties:
            return None
        if not mine and self.owner is not None and told_user not in (None, self.owner):
            return one
        below = [i for name in _IDS for i in _listed(one.detail.get(name))]
        keyed = not self.passages.keys.isdisjoint(strings_of(one.detail, names=True))
        related = bool(mine) or not self.erased.isdisjoint(below) or keyed
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

    def add_memory(self, one: Known) -> None:
        """Judge a memory, unless it is another user's own and did not come from it."""
        mine = self.owner is None or one.user_id in (None, self.owner) or one.id in self.suspect
        if mine and one.id not in self.erased:
            value = self.unquoted(one.value)
            if value != one.value:
                self.quoting[one.id] = one._replace(value=value)
            if self.passages.repeated_in(content_of(one.value)):
                self.alike.append(one)

    def unquoted(self, value: dict[str, Any]) -> dict[str, Any]:
        """The value of another memory without what it quotes beside its content."""
        texts = (name for name in ("content", "text") if isinstance(value.get(name), str))
        kept = STRUCTURE | {next(texts, "content")}
        return {
            name: one if name in kept else self.passages.scrubbed(one)
            for name, one in value.items()
        }

    def add_state(self, one: State) -> None:
        """Judge a state."""
        if self.state(one):
            self.states.append(one)

    def state(self, one: State) -> bool:
        """Whether a state goes."""
        whose = one.user
        if self.user is not None and whose == users_labels(self.user)[0]:
            return True
        if self.owner is not None and whose not in (None, users_labels(self.owner)[0]):
            return False
        return self._named(*labels_of(one.owner)) or self.passages.holds([one.name, one.value])

    def add_recall(self, one: Recall) -> None:
        """Judge a recorded recall."""
        if self._recall(one):
            self.recalls.append(one)

    def _recall(self, one: Recall) -> bool:
        """Whether a recorded recall goes: as it was asked by who is forgotten, or holds it."""
        if self.user is not None and one.user_id == self.user:
            return True
        if not self.erased.isdisjoint(one.ids):
            return True
        theirs = self.owner is not None and one.user_id not in (None, self.owner)
        if theirs and frozenset(self.suspect).isdisjoint(one.ids):
            return False
        if self._named(*one.names):
            return True
        return any(map(self._holds, (one.asked, one.answered, *one.saw)))

    def add_waiting(self, one: Waiting) -> None:
        """Judge an intention of a memory that stays."""
        if one.id in self.erased:
            return
        if any(map(self.passages.repeated_in, strings_of(one.awaited, names=True))):
            self.intentions.append(one.id)
        if self._named(one.holder):
            self.held.append(one.id)

    def add_shown(self, one: Shown) -> None:
        """Judge what a run was shown."""
        if one.id not in self.erased and self._named(*one.said):
            self.shown.append(one)

    def add_logged(self, one: Logged) -> None:
        """Judge a row of the audit log, once the memories are judged."""
        gone = any(id_ in self.erased or id_ in self.quoting for id_ in one.memories)
        who = any(map(self.is_who, one.said))
        if (gone and one.verb != _FORGET) or who or not self.places.isdisjoint(one.places):
            self.logged.append(one.id)

    def is_who(self, name: str) -> bool:
        """Whether this is, or has in it, who is to be forgotten."""
        return name == self.user or self._named(name)

    def _named(self, *texts: str | None) -> bool:
        """Tell whether one of these texts names the subject."""
        subject = self.passages.subject
        return subject is not None and subject.is_named_among(texts)

    def _holds(self, part: Any) -> bool:
        """Whether JSON holds anything of it."""
        text = repr(part)
        if text not in self._judged:
            self._judged[text] = self.passages.holds(part)
        return self._judged[text]

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


def _listed(value: object) -> list[int]:
    return [one for one in value if isinstance(one, int)] if isinstance(value, list) else []
