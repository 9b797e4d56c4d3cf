"""What a cycle did, counted: every memory that was looked at, by what became of it and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from langmem_tiers.consolidate.cycle import UNREAD, Expire
from langmem_tiers.consolidate.steps import StepCounts, sum_counts
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import bracket_handle, decode_namespace, handle_of
from langmem_tiers.core.reading import printable_line

LineVerdict = Literal["done", "left", "kept"]
VERDICTS: tuple[LineVerdict, ...] = get_args(LineVerdict)
CreditVerdict = Literal["helps", "harms", "unknown"]
CREDITS: tuple[CreditVerdict, ...] = get_args(CreditVerdict)
_MAX_SHOWN = 20
"""Memories of a kind that are printed."""
_MAX_PAIRS = 10
"""Pairs that are printed."""
_MAX_FINDINGS = 1_000
"""Proposals of a step that are kept, as they rest in every checkpoint; all are counted."""


Counts = dict[str, StepCounts]
"""By step."""


def add_counts(old: Counts, new: Counts | None) -> Counts:
    """A reducer: what several batches did, added up; None begins anew."""
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
    """How many memories a verdict was given, in all steps."""
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
    """A memory that lacks but one thing to be promoted."""

    namespace: tuple[str, ...]
    key: str
    reason: str

    def __str__(self) -> str:
        """Such as `k7: it lacks: projects 1 >= 2 no`."""
        return f"{printable_line(self.key)}: {self.reason}"


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
        handle = bracket_handle(handle_of(self.namespace, self.key))
        return f"{handle} {printable_line(self.content)}: {self.reason}"


class ProposedPair(NamedTuple):
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
        return f"{printable_line(self.key)}, {printable_line(self.other_key)}: {self.reason}"


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
    lines: tuple[ReportLine, ...]
    """In the order of the steps, then of verdicts and reasons."""
    moves: tuple[str, ...]
    """What `learning.rollback` takes."""
    proposed: tuple[ProposedPair, ...] = ()
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
        """How many memories a step dealt with so."""
        return sum(
            line.memories for line in self.lines if (line.step, line.verdict) == (step, verdict)
        )

    @property
    def expired_unread(self) -> int:
        """How many memories it removed whose time was over before anybody had read them."""
        gone = [line for line in self.lines if (line.step, line.verdict) == (Expire.name, "done")]
        return sum(line.memories for line in gone if line.reason == UNREAD)

    def __str__(self) -> str:
        """What it was, and a table: one line a step, verdict and reason; then what it names."""
        rows = [
            f"  {line.step:<10} {line.verdict:<5} {line.memories:>7,}  {line.reason}"
            for line in self.lines
        ]
        return "\n".join([self._head(), *rows, *(f"  {line}" for line in self._listed_lines())])

    def _listed_lines(self) -> Iterator[str]:
        """The first of what is credited, of what is proposed and of near misses."""
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
    """The first of several lines, and how many more there are."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {len(lines) - most:,} more: see {where}"


def _sort_findings(
    tenant: str, counts: Counts
) -> tuple[list[ProposedPair], list[NearMiss | Credit]]:
    """Findings of two memories, each pair once, the nearest first; and of one by itself."""
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
