"""What learning should do, in plain Python: memories, outcomes, moves and the way back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from langmem_tiers.learning.outcome import Run

MIN_RATE, DEMOTE_AFTER, DEMOTE_WITHIN = 0.5, 2, 3


@dataclass
class Stored:
    """A memory; `lesson` is what it says."""

    number: int
    key: str
    project: str | None
    lesson: int
    tier: str
    accesses: int = 0
    successes: int = 0
    failures: int = 0
    state: str | None = None
    version: int = 0

    @property
    def counters(self) -> tuple[int, int, int]:
        """Accesses, successes and failures."""
        return self.accesses, self.successes, self.failures


@dataclass
class Shown:
    """That a memory was recalled for a run."""

    root: str | None
    project: str | None
    held_out: bool
    settled_by: str | None = None
    succeeded: bool | None = None
    at: datetime | None = None


@dataclass
class Moved:
    """A move, and what it takes to undo it."""

    kind: str
    target: int
    sources: list[int]
    handed: tuple[int, int, int] = (0, 0, 0)
    version: int = 0
    versions: dict[int, int] = field(default_factory=dict)
    """Of each source, how often it had been put."""
    undone: datetime | None = None

    @property
    def touched(self) -> set[int]:
        """Whose later moves stand on this one."""
        return {self.target} if self.kind == "demoted" else {self.target, self.sources[0]}


@dataclass
class World:
    """All that a tenant has learned."""

    memories: dict[int, Stored] = field(default_factory=dict)
    exposures: dict[tuple[str, int], Shown] = field(default_factory=dict)
    edges: dict[int, int] = field(default_factory=dict)
    """The successor of each source."""
    moves: dict[str, Moved] = field(default_factory=dict)
    generals: dict[int, int] = field(default_factory=dict)
    """What was promoted of each lesson."""
    numbers: int = 0

    def by_key(self, key: str) -> Stored | None:
        """The memory of that key."""
        return next((one for one in self.memories.values() if one.key == key), None)

    def put(self, key: str, project: str | None, lesson: int, tier: str = "working") -> Stored:
        """Store a memory, or store over the one that is there."""
        found = self.by_key(key)
        if found is None:
            self.numbers += 1
            found = Stored(self.numbers, key, project, lesson, tier)
            self.memories[found.number] = found
        if found.lesson != lesson:
            self.edges.pop(found.number, None)
        found.lesson = lesson
        found.version += 1
        return found

    def visible(self, project: str) -> list[Stored]:
        """What a recall of that project sees: its own original in place of what was promoted."""
        own = [
            one
            for one in self.memories.values()
            if one.tier == "working" and one.project == project
        ]
        told_here = {self.edges.get(one.number) for one in own}
        return [
            one
            for one in self.memories.values()
            if one.state is None
            and (one in own or (one.tier == "long_term" and one.number not in told_here))
        ]

    def expose(self, found: list[Stored], run: Run, by: str, *, held: bool) -> None:
        """Note what was recalled for a run."""
        for one in found:
            one.accesses += not held
            self.exposures.setdefault((run.id, one.number), Shown(run.root, by, held))

    def settle(self, run: str, now: datetime, *, success: bool) -> int:
        """Credit a run; how many memories."""
        of_run = {
            place: one for place, one in self.exposures.items() if run in {place[0], one.root}
        }
        credited = 0
        for number in {place[1] for place in of_run}:
            all_of_it = [(p, one) for p, one in of_run.items() if p[1] == number]
            known = any(o.settled_by == run and o.succeeded is not None for _, o in all_of_it)
            unsettled = [(p, one) for p, one in all_of_it if one.settled_by is None]
            for _, one in sorted(unsettled, key=lambda pair: (pair[1].held_out, pair[0][0])):
                one.settled_by, one.at = run, now
                if not known:
                    one.succeeded, known = success, True
                    if not one.held_out:
                        self._credit(number, success=success)
                        credited += 1
        return credited

    def settle_shown(
        self, memory: Stored, run: str, now: datetime, by: str, *, success: bool
    ) -> int:
        """Credit a memory in hand, of a run of that project; another's run has the name as well."""
        of_it = [
            one
            for (name, number), one in sorted(self.exposures.items(), key=lambda pair: pair[0])
            if number == memory.number
            and run in {name, one.root}
            and by in {one.project, memory.project}
        ]
        if not of_it:
            new = Shown(None, by, held_out=False)
            shown = self.exposures.setdefault((run, memory.number), new)
            if shown.settled_by is not None or shown.held_out:
                return 0
            shown.settled_by, shown.succeeded, shown.at = run, success, now
            self._credit(memory.number, success=success)
            return 1
        known = any(one.settled_by == run and one.succeeded is not None for one in of_it)
        counted = 0
        for one in of_it:
            if one.settled_by is not None or one.held_out:
                continue
            one.settled_by, one.at = run, now
            if not known:
                one.succeeded, known = success, True
                self._credit(memory.number, success=success)
                counted += 1
        return counted

    def _credit(self, number: int, *, success: bool) -> None:
        memory = self.memories[number]
        memory.successes += success
        memory.failures += not success

    def delete(self, number: int) -> None:
        """Remove a memory with all that hangs on it."""
        del self.memories[number]
        self.exposures = {p: one for p, one in self.exposures.items() if p[1] != number}
        self.edges.pop(number, None)
        self.edges = {one: target for one, target in self.edges.items() if target != number}

    def move(self, one: Stored, tier: str) -> None:
        """Change a memory's tier; outside long_term nothing was promoted to it."""
        leaves = one.tier == "long_term" and tier != "long_term"
        one.tier = tier
        for source in [s for s, target in self.edges.items() if leaves and target == one.number]:
            del self.edges[source]

    def worthy(self, one: Stored) -> bool:
        """Whether a memory is promoted if nothing stands against it."""
        if not self._free(one) or one.accesses == 0 or one.successes == 0:
            return False
        together = [one, *self._alike(one)]
        successes = sum(each.successes for each in together)
        return successes / (successes + sum(each.failures for each in together)) > MIN_RATE

    def _free(self, one: Stored) -> bool:
        """Whether a memory may go along with a move: it was in none that was rolled back."""
        vetoed = {
            source
            for move in self.moves.values()
            if move.undone is not None and move.kind != "demoted"
            for source in move.sources
        }
        return (
            one.tier == "working"
            and one.state is None
            and one.number not in self.edges
            and one.number not in vetoed
        )

    def _alike(self, one: Stored) -> list[Stored]:
        """What says the same and may go along."""
        return [
            each
            for each in self.memories.values()
            if each.lesson == one.lesson and each.number != one.number and self._free(each)
        ]

    def promote(self, answers: list[Any]) -> None:
        """Check what was promoted, and do the same."""
        moved = {one.key: one for one in answers if one.promoted}
        for one in sorted(self.memories.values(), key=lambda each: each.number):
            if not self.worthy(one):
                continue
            target, against = self._target(one)
            if against:
                assert one.key not in moved, moved[one.key]
                continue
            self._move(one, target, moved.pop(one.key))
        assert moved == {}

    def _target(self, one: Stored) -> tuple[Stored | None, bool]:
        """What teaches the same, and whether it stands against the move."""
        found = self.memories.get(self.generals.get(one.lesson, 0))
        if found is None:
            return None, False
        return found, found.tier != "long_term" or found.state is not None

    def _move(self, one: Stored, target: Stored | None, answer: Any) -> None:
        sources = [one, *self._alike(one)]
        assert sorted(answer.sources) == sorted(each.key for each in sources)
        assert answer.reinforced == (target is not None)
        before = [
            number
            for move in self.moves.values()
            if target is not None and move.target == target.number and move.undone is None
            if move.kind != "demoted"
            for number in move.sources
        ]
        giving = [each for each in sources if each.number not in before]
        handed = tuple(sum(each.counters[i] for each in giving) for i in range(3))
        if target is None:
            target = self.put(answer.successor, None, one.lesson, "long_term")
            self.generals[one.lesson] = target.number
        assert target.key == answer.successor
        target.accesses += handed[0]
        target.successes += handed[1]
        target.failures += handed[2]
        for each in sources:
            self.edges[each.number] = target.number
        kind = "reinforced" if answer.reinforced else "promoted"
        numbers = [each.number for each in sources]
        self.moves[answer.move] = Moved(
            kind,
            target.number,
            numbers,
            (handed[0], handed[1], handed[2]),
            target.version,
            {each.number: each.version for each in sources},
        )

    def demote(self, answers: list[Any]) -> None:
        """Check what was demoted, and do the same."""
        demoted = {one.key: one.move for one in answers if one.demoted}
        for number in {m.target for m in self.moves.values() if self._stands(m, "promoted")}:
            one = self.memories.get(number)
            if one is None or one.tier != "long_term" or one.state is not None:
                continue
            latest = self._latest(number)
            if len(latest) < DEMOTE_AFTER or sum(latest) / len(latest) > MIN_RATE:
                continue
            self.moves[demoted.pop(one.key)] = Moved("demoted", number, [])
            one.state = "demoted"
        assert demoted == {}

    @staticmethod
    def _stands(move: Moved, kind: str) -> bool:
        return move.kind == kind and move.undone is None

    def _latest(self, number: int) -> list[bool]:
        """The latest results since the last demotion that was rolled back."""
        undone = [
            m.undone
            for m in self.moves.values()
            if m.kind == "demoted" and m.target == number and m.undone is not None
        ]
        since = max(undone, default=None)
        found = [
            (one.at, one.succeeded)
            for (_, of), one in self.exposures.items()
            if of == number and not one.held_out and one.succeeded is not None
            if one.at is not None and (since is None or one.at > since)
        ]
        return [bool(one) for _, one in sorted(found, reverse=True)[:DEMOTE_WITHIN]]

    def refusal(self, move: str) -> bool | None:
        """Whether a rollback does something; None if it is refused."""
        one = self.moves[move]
        if one.undone is not None:
            return False
        target = self.memories.get(one.target)
        if target is None:
            return None
        names = list(self.moves)
        later = [self.moves[name] for name in names[names.index(move) + 1 :]]
        if any(each.undone is None and one.touched & each.touched for each in later):
            return None
        if one.kind != "promoted":
            return True
        return True if self._left(one) and target.version == one.version else None

    def _left(self, move: Moved) -> list[Stored]:
        """What was promoted and still says what it said then."""
        found = [self.memories[number] for number in move.sources if number in self.memories]
        return [
            one
            for one in found
            if self.edges.get(one.number) == move.target or one.version == move.versions[one.number]
        ]

    def roll_back(self, move: str, now: datetime) -> None:
        """Undo a move."""
        one = self.moves[move]
        one.undone = now
        target = self.memories[one.target]
        if one.kind == "demoted":
            target.state = None
        elif one.kind == "reinforced":
            target.accesses -= one.handed[0]
            target.successes -= one.handed[1]
            target.failures -= one.handed[2]
            for source in one.sources:
                if self.edges.get(source) == one.target:
                    del self.edges[source]
        else:
            self._give_back(one, target)
            self.delete(one.target)

    def _give_back(self, one: Moved, target: Stored) -> None:
        heir = self._left(one)[0]
        heir.accesses += target.accesses - one.handed[0]
        own = {place: each for place, each in self.exposures.items() if place[1] == heir.number}
        outcomes = {each.settled_by for each in own.values()} - {None}
        for place, each in [p for p in self.exposures.items() if p[0][1] == target.number]:
            if (place[0], heir.number) in own or each.settled_by in outcomes:
                continue
            del self.exposures[place]
            self.exposures[place[0], heir.number] = each
            if each.succeeded is not None and not each.held_out:
                self._credit(heir.number, success=each.succeeded)
