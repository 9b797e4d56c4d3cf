"""What is true and known when, in plain Python: the oracle of the tests of truth over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass
class Fact:
    """A memory, as the oracle knows it."""

    key: str
    created: datetime
    occurred: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    parents: set[str] = field(default_factory=set)
    retracted: datetime | None = None
    superseded: datetime | None = None
    """Since when that is known."""

    @property
    def began(self) -> datetime:
        """When it began to be true."""
        return self.valid_from or min(self.occurred or self.created, self.created)

    @property
    def ends_others(self) -> datetime:
        """When what it supersedes ceased to be true."""
        return self.valid_from or self.occurred or self.created


@dataclass
class Move:
    """A supersession or a retraction."""

    kind: str
    key: str
    target: str | None = None
    had: datetime | None = None
    undone: bool = False

    def touches(self, keys: set[str]) -> bool:
        """Whether it is about any of these."""
        return self.key in keys or self.target in keys


@dataclass
class World:
    """Everything that was said, and what follows from it."""

    facts: dict[str, Fact] = field(default_factory=dict)
    moves: dict[str, Move] = field(default_factory=dict)
    """In the order they were made in, by what undoes them."""
    kept: dict[str, datetime] = field(default_factory=dict)
    """Since when what is suspect was so already, by a retraction that is deleted now."""

    def ancestors(self, key: str) -> set[str]:
        """All that a memory came from."""
        found: set[str] = set()
        waiting = [key]
        while waiting:
            new = self.facts[waiting.pop()].parents - found
            found |= new
            waiting += new
        return found

    def suspect_since(self, key: str) -> datetime | None:
        """The earliest retraction of what it came from, or what it kept of one that is deleted."""
        known = [self.facts[one].retracted for one in self.ancestors(key)]
        moments = [one for one in known if one is not None]
        return min((*moments, self.kept.get(key, moments[0]))) if moments else None

    def state(self, key: str) -> tuple[str | None, datetime | None]:
        """How a memory stands, and since when that is known."""
        fact = self.facts[key]
        if fact.retracted is not None:
            return "retracted", fact.retracted
        if (since := self.suspect_since(key)) is not None:
            return "suspect", since
        return ("superseded", fact.superseded) if fact.superseded else (None, None)

    def suspects(self) -> set[str]:
        """All that is suspect."""
        return {key for key in self.facts if self.state(key)[0] == "suspect"}

    def visible(
        self, now: datetime, as_of: datetime | None = None, known_at: datetime | None = None
    ) -> list[str]:
        """The keys of what a recall finds, sorted."""
        return sorted(key for key in self.facts if self._sees(key, now, as_of, known_at))

    def _sees(
        self, key: str, now: datetime, as_of: datetime | None, known_at: datetime | None
    ) -> bool:
        fact, (state, since) = self.facts[key], self.state(key)
        true_at, known = as_of or now, known_at or now
        if fact.created > known or fact.began > true_at:
            return False
        stands = state is None or (since is not None and since > known)
        if state == "superseded" and stands:
            return True  # its end was not known then
        if fact.valid_to is not None and fact.valid_to <= true_at:
            return False
        return stands or state == "superseded"

    def put(self, fact: Fact) -> None:
        """Remember, or say something else under a key."""
        before = self.facts.get(fact.key)
        if before is not None:
            fact.created, fact.retracted = before.created, before.retracted
            fact.superseded, fact.parents = before.superseded, before.parents | fact.parents
            if before.superseded is not None:
                fact.valid_to = before.valid_to
        self.facts[fact.key] = fact

    def can_supersede(self, old: str, new: str) -> bool:
        """Whether one may supersede the other."""
        if old == new or self.state(old)[0] is not None:
            return False
        state = self.state(new)[0]
        ends, began = self.facts[new].ends_others, self.facts[old].began
        return state in (None, "superseded") and (ends > began or (ends == began and state is None))

    def supersede(self, move: str, old: str, new: str, now: datetime) -> None:
        """End the truth of a memory."""
        fact = self.facts[old]
        self.moves[move] = Move("superseded", old, new, fact.valid_to)
        end = self.facts[new].ends_others
        fact.valid_to = end if fact.valid_to is None else min(end, fact.valid_to)
        fact.superseded = now

    def retract(self, move: str, key: str, now: datetime) -> set[str]:
        """Take a memory back; what became suspect."""
        before = self.suspects()
        if self.facts[key].retracted is None:
            self.facts[key].retracted = now
            self.moves[move] = Move("retracted", key)
        return self.suspects() - before

    def restore(self, key: str) -> set[str]:
        """Undo that; what is suspect no longer."""
        before = self.suspects()
        self.facts[key].retracted = None
        for one in self.moves.values():
            if one.kind == "retracted" and one.key == key:
                one.undone = True
        return before - self.suspects()

    def delete(self, key: str, move: str) -> None:
        """Forget a memory; what came from it stays out of recall if it was out itself."""
        doubtful = self.state(key)[0] in ("retracted", "suspect")
        states = {one: self.state(one) for one in self.facts}
        del self.facts[key]
        for one in list(self._children(key)):
            one.parents.discard(key)
            state, since = states[one.key]
            if doubtful and state == "suspect":
                one.retracted = since
                self.moves[f"{move}-{one.key}"] = Move("retracted", one.key)
        for left in self.facts:
            state, since = states[left]
            if state == "suspect" and since is not None:
                self.kept[left] = since

    def judged_anew(self, found: Mapping[str, Sequence[Any]]) -> None:
        """Forget what is kept of memories that stand otherwise: they were judged since then."""
        for key, since in [*self.kept.items()]:
            if [*found.get(key, ())] != ["suspect", since]:
                del self.kept[key]

    def _children(self, key: str) -> Iterator[Fact]:
        return (one for one in self.facts.values() if key in one.parents)

    def refusal(self, move: str) -> bool | None:
        """Whether rolling back does something, or None where it is refused."""
        made = self.moves[move]
        if made.undone:
            return False
        if made.key not in self.facts:
            return None
        after = list(self.moves)[list(self.moves).index(move) + 1 :]
        keys = {made.key} | ({made.target} if made.target else set())
        for one in (self.moves[each] for each in after):
            aside = made.kind == "superseded" and one.kind == "retracted"
            if not one.undone and one.touches(keys) and not (aside and one.key == made.target):
                return None
        return True

    def roll_back(self, move: str) -> None:
        """Undo a move."""
        made = self.moves[move]
        if made.kind == "retracted":
            self.restore(made.key)
            return
        made.undone = True
        fact = self.facts[made.key]
        fact.valid_to, fact.superseded = made.had, None
