"""The report of a cycle: it counts the memories of each step by verdict and reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from langmem_tiers.consolidation.cycle import UNREAD, Expire
from langmem_tiers.consolidation.steps import StepCounts, sum_counts
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import bracket_handle, decode_namespace, handle_of
from langmem_tiers.core.texts import printable_line

LineVerdict = Literal["done", "left", "kept"]
VERDICTS: tuple[LineVerdict, ...] = get_args(LineVerdict)
CreditVerdict = Literal["helps", "harms", "unknown"]
CREDITS: tuple[CreditVerdict, ...] = get_args(CreditVerdict)
_MAX_SHOWN = 20
"""The most memories of a kind that are printed."""
_MAX_PAIRS = 10
"""The most pairs that are printed."""
_MAX_FINDINGS = 1_000
"""The most findings of a step that are kept, as every checkpoint has them; all are counted."""


Counts = dict[str, StepCounts]
"""Counts by step."""


def add_counts(old: Counts, new: Counts | None) -> Counts:
    """Add up the counts of batches, as a reducer; None begins anew."""
    if new is None:
        return {}
    both = (old, new)
    return {
        step: _sum_batches([counts[step] for counts in both if step in counts])
        for step in {**old, **new}
    }


def _sum_batches(batches: Sequence[StepCounts]) -> StepCounts:
    findings = [finding for batch in batches for finding in batch.get("findings", ())]
    counts: StepCounts = {
        "done": sum_counts([batch.get("done", {}) for batch in batches]),
        "left": sum_counts([batch.get("left", {}) for batch in batches]),
        "kept": sum_counts([batch.get("kept", {}) for batch in batches]),
        "moves": [move for batch in batches for move in batch.get("moves", ())],
    }
    return {**counts, "findings": findings[:_MAX_FINDINGS]} if findings else counts


def total(counts: Counts, verdict: LineVerdict) -> int:
    """Count the memories with a verdict in all steps."""
    return sum(
        number
        for step_counts in counts.values()
        for number in step_counts.get(verdict, {}).values()
    )


class ReportLine(NamedTuple):
    """One line of a report."""

    step: str
    verdict: LineVerdict
    reason: str
    memories: int


class NearMiss(NamedTuple):
    """A memory that lacks only one thing to be promoted."""

    namespace: tuple[str, ...]
    key: str
    reason: str

    def __str__(self) -> str:
        """Return a line such as `k7: it lacks: projects 1 >= 2 no`."""
        return f"{printable_line(self.key)}: {self.reason}"


class Credit(NamedTuple):
    """The verdict of outcomes on a memory that was learned."""

    verdict: CreditVerdict
    """`helps` if runs do better with it, `harms` if they do or seem to do worse, or `unknown`."""
    namespace: tuple[str, ...]
    key: str
    content: str
    """The beginning of its text."""
    reason: str
    """The reason, with the numbers of runs that succeeded with it, and without it."""

    def __str__(self) -> str:
        """Return a line such as `[a3f9k2] Restart the mailer first: runs do better with it (…)`."""
        handle = bracket_handle(handle_of(self.namespace, self.key))
        return f"{handle} {printable_line(self.content)}: {self.reason}"


class ProposedPair(NamedTuple):
    """Two near memories that nobody has judged yet; both are unchanged."""

    step: str
    """`merge`: they may say the same. `supersede`: the other one may contradict it, or say the
    same. `promote`: the first one is promoted, or lacks one thing for that. The other one is near,
    and says the same or the opposite; if the same, it would count."""
    namespace: tuple[str, ...]
    key: str
    other_namespace: tuple[str, ...]
    other_key: str
    reason: str
    near: float | None = None
    """The nearness of the two, in 0…1; None where that is not the reason."""

    def __str__(self) -> str:
        """Return a line, as `port, new port: a newer one may contradict it, or say the same`."""
        return f"{printable_line(self.key)}, {printable_line(self.other_key)}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReport:
    """The report of a cycle: counts by step, verdict and reason, and the memories that it names.

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
    """The moment, in UTC, as of which everything was judged."""
    finished_at: datetime
    lines: tuple[ReportLine, ...]
    """The counts in the order of the steps, then of verdicts and reasons."""
    moves: tuple[str, ...]
    """Moves that `learning.rollback` takes."""
    proposed: tuple[ProposedPair, ...] = ()
    """Near pairs that are left to somebody, each once, the nearest first, at most 1,000 of a step.
    Act on them by `supersede`, or name a model."""
    near_misses: tuple[NearMiss, ...] = ()
    """Memories that lack only one thing to be promoted, and what they lack."""
    credit: tuple[Credit, ...] = ()
    """The effect of learned memories that some runs went without."""
    skipped: str | None = None
    """The reason if nothing was done at all."""
    taken_over: bool = False
    """True if somebody else took the tenant over meanwhile; the rest is left to them."""

    @classmethod
    def of(cls, state: Mapping[str, Any] | None) -> ConsolidationReport:
        """Read a report from a graph's state, or from the value of its key `consolidated`.

        Raises:
            InvalidInputError: if no cycle has ended yet.
        """
        result = (state or {}).get("consolidated", state)
        if not result or "cycle" not in result:
            raise InvalidInputError(
                "no cycle has ended in this state: invoke the graph, or wait until one is due"
            )
        tenant, counts = result["tenant"], result["counts"]
        proposed, alone = _sort_findings(tenant, counts)
        return cls(
            tenant=tenant,
            cycle=result["cycle"],
            started_at=datetime.fromisoformat(result["started_at"]),
            finished_at=datetime.fromisoformat(result["finished_at"]),
            lines=tuple(_lines(counts)),
            moves=tuple(move for step_counts in counts.values() for move in step_counts["moves"]),
            proposed=tuple(proposed),
            near_misses=tuple(finding for finding in alone if isinstance(finding, NearMiss)),
            credit=tuple(finding for finding in alone if isinstance(finding, Credit)),
            skipped=result["skipped"],
            taken_over=result.get("taken_over", False),  # earlier releases did not say
        )

    def count(self, step: str, verdict: LineVerdict = "done") -> int:
        """Count the memories that a step gave this verdict."""
        return sum(
            line.memories for line in self.lines if (line.step, line.verdict) == (step, verdict)
        )

    @property
    def expired_unread(self) -> int:
        """Count the expired memories that it removed before anybody had read them."""
        gone = [line for line in self.lines if (line.step, line.verdict) == (Expire.name, "done")]
        return sum(line.memories for line in gone if line.reason == UNREAD)

    def __str__(self) -> str:
        """Return a head, a line for each step, verdict and reason, then the named memories."""
        rows = [
            f"  {line.step:<10} {line.verdict:<5} {line.memories:>7,}  {line.reason}"
            for line in self.lines
        ]
        return "\n".join([self._head(), *rows, *(f"  {line}" for line in self._listed_lines())])

    def _listed_lines(self) -> Iterator[str]:
        """Yield the first lines of credit, of proposed pairs and of near misses."""
        for verdict in CREDITS:
            credited = [
                f"demote     {verdict}: {credit}"
                for credit in self.credit
                if credit.verdict == verdict
            ]
            yield from _first_lines(credited, _MAX_SHOWN, "credit")
        pairs = [f"{pair.step:<10} proposed: {pair}" for pair in self.proposed]
        yield from _first_lines(pairs, _MAX_PAIRS, "proposed")
        missed = [f"promote    near miss: {near_miss}" for near_miss in self.near_misses]
        yield from _first_lines(missed, _MAX_SHOWN, "near_misses")

    def _head(self) -> str:
        if self.skipped is not None:
            return f"{self.tenant}: nothing was done, as {self.skipped}"
        seconds = (self.finished_at - self.started_at).total_seconds()
        head = f"{self.tenant}: a cycle as of {self.started_at:%Y-%m-%d %H:%M} UTC, {seconds:.1f} s"
        if self.taken_over:
            return f"{head}; then somebody else took the tenant over"
        return head if self.lines else f"{head}; there was nothing to do"


def _first_lines(lines: Sequence[str], most: int, where: str) -> Iterator[str]:
    """Yield the first of several lines, and how many more there are."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {len(lines) - most:,} more: see {where}"


def _sort_findings(
    tenant: str, counts: Counts
) -> tuple[list[ProposedPair], list[NearMiss | Credit]]:
    """Split findings into those of two memories and those of one.

    Each pair is there once, the nearest first.
    """
    pairs: dict[frozenset[object], ProposedPair] = {}
    alone: dict[NearMiss | Credit, None] = {}
    every = (
        (step, finding)
        for step, step_counts in counts.items()
        for finding in step_counts.get("findings", ())
    )
    for step, finding in every:
        place, reason = (
            (decode_namespace(tenant, finding["namespace"]), finding["key"]),
            finding["reason"],
        )
        if finding["target_key"] is not None:
            other = (
                decode_namespace(tenant, finding["target_namespace"] or ""),
                finding["target_key"],
            )
            proposed = ProposedPair(step, *place, *other, reason, finding.get("near"))
            pairs.setdefault(frozenset((place, other)), proposed)
        elif "credit" not in finding:
            alone[NearMiss(*place, reason)] = None
        elif (verdict := finding["credit"]) in CREDITS:
            alone[Credit(verdict, *place, finding["content"], reason)] = None
    nearest = sorted(pairs.values(), key=lambda pair: 1.0 if pair.near is None else -pair.near)
    return nearest, list(alone)


def _lines(counts: Counts) -> Iterator[ReportLine]:
    for step, step_counts in counts.items():
        for verdict in VERDICTS:
            for reason, number in sorted(step_counts[verdict].items()):
                yield ReportLine(step, verdict, reason, number)
