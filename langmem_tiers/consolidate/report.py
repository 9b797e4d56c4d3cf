"""What a cycle did, counted: every memory that was looked at, by what became of it and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from langmem_tiers.consolidate.cycle import UNREAD, Expire
from langmem_tiers.consolidate.steps import StepCounts, added
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import bracketed, decode, handle_of
from langmem_tiers.core.reading import plain

LineVerdict = Literal["done", "left", "kept"]
VERDICTS: tuple[LineVerdict, ...] = get_args(LineVerdict)
CreditVerdict = Literal["helps", "harms", "unknown"]
CREDITS: tuple[CreditVerdict, ...] = get_args(CreditVerdict)
_SHOWN = 20
"""Memories of a kind that are printed."""
_PAIRS = 10
"""Pairs that are printed."""
_KEPT = 1_000
"""Proposals of a step that are kept, as they rest in every checkpoint; all are counted."""


Counts = dict[str, StepCounts]
"""By step."""


def with_counts(old: Counts, new: Counts | None) -> Counts:
    """A reducer: what several batches did, added up; None begins anew."""
    if new is None:
        return {}
    both = (old, new)
    return {step: _sum([one[step] for one in both if step in one]) for step in {**old, **new}}


def _sum(several: Sequence[StepCounts]) -> StepCounts:
    findings = [found for one in several for found in one.get("findings", ())]
    counts: StepCounts = {
        "done": added([one.get("done", {}) for one in several]),
        "left": added([one.get("left", {}) for one in several]),
        "kept": added([one.get("kept", {}) for one in several]),
        "moves": [move for one in several for move in one.get("moves", ())],
    }
    return {**counts, "findings": findings[:_KEPT]} if findings else counts


def total(counts: Counts, verdict: LineVerdict) -> int:
    """How many memories a verdict was given, in all steps."""
    return sum(number for one in counts.values() for number in one.get(verdict, {}).values())


class Line(NamedTuple):
    """One line of a report."""

    step: str
    verdict: LineVerdict
    reason: str
    memories: int


class NearMiss(NamedTuple):
    """A memory that lacks but one thing to be promoted."""

    namespace: tuple[str, ...]
    key: str
    reason: str

    def __str__(self) -> str:
        """Such as `k7: it lacks: projects 1 >= 2 no`."""
        return f"{plain(self.key)}: {self.reason}"


class Credit(NamedTuple):
    """What outcomes say of a memory that was learned."""

    verdict: CreditVerdict
    """`helps` if runs do better with it, `harms` if they do or seem to do worse, or `unknown`."""
    namespace: tuple[str, ...]
    key: str
    content: str
    """How what it says begins."""
    reason: str
    """With how many runs succeeded with it, and without it."""

    def __str__(self) -> str:
        """Such as `[a3f9k2] Restart the mailer first: runs do better with it (…)`."""
        handle = bracketed(handle_of(self.namespace, self.key))
        return f"{handle} {plain(self.content)}: {self.reason}"


class Proposed(NamedTuple):
    """Two memories that are near, and of which nobody has judged; both are unchanged."""

    step: str
    """`merge`: they may say the same. `supersede`: the other one may contradict it, or say the
    same. `promote`: the other one is near to what is promoted, or lacks one thing for that, and
    says the same or the opposite; if the same, it would count."""
    namespace: tuple[str, ...]
    key: str
    other_namespace: tuple[str, ...]
    other_key: str
    reason: str
    near: float | None = None
    """How near the two are, in 0…1; None where that is not the reason."""

    def __str__(self) -> str:
        """Such as `port, new port: a newer one may contradict it, or say the same`."""
        return f"{plain(self.key)}, {plain(self.other_key)}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReport:
    """What a cycle did, and why.

    Example:
        ```python
        from langmem_tiers import ConsolidationReport

        report = ConsolidationReport.of(graph.invoke({}, config))
        print(report)
        ```
    """

    tenant: str
    cycle: str
    started_at: datetime
    """UTC; everything was judged as of then."""
    finished_at: datetime
    lines: tuple[Line, ...]
    """In the order of the steps, then of verdicts and reasons."""
    moves: tuple[str, ...]
    """What `learning.rollback` takes."""
    proposed: tuple[Proposed, ...] = ()
    """What is near and was left to somebody, each pair once, the nearest first, 1,000 of a step:
    `supersede` acts on it, or a model."""
    near_misses: tuple[NearMiss, ...] = ()
    """What lacks but one thing to be promoted, and which."""
    credit: tuple[Credit, ...] = ()
    """What helps, what harms and of what that is not known: of what was learned and some runs went
    without."""
    skipped: str | None = None
    """Why nothing was done at all."""
    taken_over: bool = False
    """Whether somebody else took the tenant over meanwhile; the rest is left to them."""

    @classmethod
    def of(cls, state: Mapping[str, Any] | None) -> ConsolidationReport:
        """Read it from a graph's state, or from what is under its key `consolidated`.

        Raises:
            InvalidInputError: if no cycle has ended yet.
        """
        said = (state or {}).get("consolidated", state)
        if not said or "cycle" not in said:
            raise InvalidInputError(
                "no cycle has ended in this state: invoke the graph, or wait until one is due"
            )
        tenant, counts = said["tenant"], said["counts"]
        proposed, alone = _named(tenant, counts)
        return cls(
            tenant=tenant,
            cycle=said["cycle"],
            started_at=datetime.fromisoformat(said["started_at"]),
            finished_at=datetime.fromisoformat(said["finished_at"]),
            lines=tuple(_lines(counts)),
            moves=tuple(move for one in counts.values() for move in one["moves"]),
            proposed=tuple(proposed),
            near_misses=tuple(one for one in alone if isinstance(one, NearMiss)),
            credit=tuple(one for one in alone if isinstance(one, Credit)),
            skipped=said["skipped"],
            taken_over=said.get("taken_over", False),  # earlier releases did not say
        )

    def count(self, step: str, verdict: LineVerdict = "done") -> int:
        """How many memories a step dealt with so."""
        return sum(one.memories for one in self.lines if (one.step, one.verdict) == (step, verdict))

    @property
    def expired_unread(self) -> int:
        """How many memories it removed whose time was over before anybody had read them."""
        gone = [one for one in self.lines if (one.step, one.verdict) == (Expire.name, "done")]
        return sum(one.memories for one in gone if one.reason == UNREAD)

    def __str__(self) -> str:
        """What it was, and a table: one line a step, verdict and reason; then what it names."""
        rows = [
            f"  {one.step:<10} {one.verdict:<5} {one.memories:>7,}  {one.reason}"
            for one in self.lines
        ]
        return "\n".join([self._head(), *rows, *(f"  {one}" for one in self._names())])

    def _names(self) -> Iterator[str]:
        """The first of what is credited, of what is proposed and of near misses."""
        for verdict in CREDITS:
            told = [f"demote     {verdict}: {one}" for one in self.credit if one.verdict == verdict]
            yield from _first(told, _SHOWN, "credit")
        pairs = [f"{one.step:<10} proposed: {one}" for one in self.proposed]
        yield from _first(pairs, _PAIRS, "proposed")
        missed = [f"promote    near miss: {one}" for one in self.near_misses]
        yield from _first(missed, _SHOWN, "near_misses")

    def _head(self) -> str:
        if self.skipped is not None:
            return f"{self.tenant}: nothing was done, as {self.skipped}"
        seconds = (self.finished_at - self.started_at).total_seconds()
        head = f"{self.tenant}: a cycle as of {self.started_at:%Y-%m-%d %H:%M} UTC, {seconds:.1f} s"
        if self.taken_over:
            return f"{head}; then somebody else took the tenant over"
        return head if self.lines else f"{head}; there was nothing to do"


def _first(lines: Sequence[str], most: int, where: str) -> Iterator[str]:
    """The first of several lines, and how many more there are."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {len(lines) - most:,} more: see {where}"


def _named(tenant: str, counts: Counts) -> tuple[list[Proposed], list[NearMiss | Credit]]:
    """Findings of two memories, each pair once, the nearest first; and of one by itself."""
    pairs: dict[frozenset[object], Proposed] = {}
    alone: dict[NearMiss | Credit, None] = {}
    every = ((step, found) for step, one in counts.items() for found in one.get("findings", ()))
    for step, found in every:
        place, reason = (decode(tenant, found["namespace"]), found["key"]), found["reason"]
        if found["target_key"] is not None:
            other = decode(tenant, found["target_namespace"] or ""), found["target_key"]
            proposed = Proposed(step, *place, *other, reason, found.get("near"))
            pairs.setdefault(frozenset((place, other)), proposed)
        elif "credit" not in found:
            alone[NearMiss(*place, reason)] = None
        elif (verdict := found["credit"]) in CREDITS:
            alone[Credit(verdict, *place, found["content"], reason)] = None
    nearest = sorted(pairs.values(), key=lambda one: 1.0 if one.near is None else -one.near)
    return nearest, list(alone)


def _lines(counts: Counts) -> Iterator[Line]:
    for step, one in counts.items():
        for verdict in VERDICTS:
            for reason, number in sorted(one[verdict].items()):
                yield Line(step, verdict, reason, number)
