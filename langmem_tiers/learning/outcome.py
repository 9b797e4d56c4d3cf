"""Credit outcomes of runs to memories, and estimate the effect of a memory with its uncertainty.

Memories are held out of some runs, to tell the effect of a memory from that of the others shown. A
success rate is observed, an uplift is caused: only runs without a memory show how runs end without
it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from statistics import NormalDist
from typing import Any, Final, NamedTuple, TypeVar

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import (
    MemoryStats,
    Recollection,
    decode_namespace,
    encode_namespace,
    outside_bounds,
)
from langmem_tiers.core.texts import head_and_tail, stem, words
from langmem_tiers.core.values import content_of
from langmem_tiers.postgres.flow import Call, Flow, Query, rows_of

# ---- success rates, uplift and harm ----------------------------------------------------------

_NEGLIGIBLE = 1e-18
"""The least term that is summed. Terms fall ever faster, so the rest is a rounding error."""
_HALVINGS = 60
"""Halvings of 0…1 for a quantile: beyond the precision of a float."""

K = TypeVar("K", bound=Hashable)
ENOUGH: Final = 12
"""The least outcomes of a memory before its harm counts: our own choice (docs/learning.md shows its
effect)."""
_PRIOR: Final = 4
"""Weight of the usual rate in a prior, in runs: our own choice."""
LIKELY_HARM: Final = 0.6
"""The least chance of harm of a memory that seems to harm: our own choice."""
_DOUBTFUL: Final = 0.55
_STEEP: Final = 15
_USUAL_RUNS: Final = 2
_FAILED_WITHOUT: Final = 3
"""Constants of `holdout_share`: our own choice, on made-up runs like those of benchmarks/harm.py.
In the end few harmful lessons are shown, and few runs of hard tasks, of which one in fifty may
succeed without help, go without a helpful lesson."""
_MOST_HELD: Final = 0.98
"""The largest share of runs that a memory is held out of by default: the others may clear it."""


class Interval(NamedTuple):
    """The bounds of a number, with a given confidence."""

    low: float
    high: float


def chance_at_most(successes: int, failures: int, rate: float) -> float:
    """Return the chance that the true rate of success is at most `rate`, over a uniform prior.

    It is exact: the posterior is Beta(successes + 1, failures + 1), and with whole numbers its
    distribution is a tail of the binomial (DLMF 8.17.5). The shorter tail is summed.
    """
    if rate in {0, 1}:
        return float(rate)
    tries = successes + failures + 1
    if successes + 1 > tries * rate:
        return _tail(successes + 1, tries, rate)
    return 1 - _tail(tries - successes, tries, 1 - rate)


def _tail(least: int, tries: int, rate: float) -> float:
    """Return P(X >= least) for a binomial X whose mean is below `least`."""
    log_ways = math.lgamma(tries + 1) - math.lgamma(least + 1) - math.lgamma(tries - least + 1)
    term = math.exp(log_ways + least * math.log(rate) + (tries - least) * math.log1p(-rate))
    odds, total = rate / (1 - rate), 0.0
    for hits in range(least, tries + 1):
        total += term
        term *= (tries - hits) / (hits + 1) * odds
        if term <= total * _NEGLIGIBLE:
            break
    return min(total, 1.0)


def beta_interval(successes: int, failures: int, confidence: float) -> Interval:
    """Return the interval of the true rate, over a uniform prior, with equal chances outside."""
    low = _quantile(successes, failures, (1 - confidence) / 2)
    return Interval(low, 1 - _quantile(failures, successes, (1 - confidence) / 2))


def _quantile(successes: int, failures: int, chance: float) -> float:
    """Return the quantile of the true rate for this chance."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if chance_at_most(successes, failures, middle) <= chance:
            low = middle
        else:
            high = middle
    return low


class HoldoutCounts(NamedTuple):
    """Outcomes of the runs that were shown a memory, and of those without it."""

    shown_successes: int
    shown_tries: int
    held_successes: int
    held_tries: int

    @property
    def tries(self) -> int:
        """Return the number of all runs."""
        return self.shown_tries + self.held_tries

    @property
    def comparable(self) -> bool:
        """Tell whether there are outcomes with the memory and without it."""
        return self.shown_tries > 0 and self.held_tries > 0

    def __str__(self) -> str:
        """Return a text such as `with it 9 of 12 succeeded, without it 1 of 4`."""
        shown = f"with it {self.shown_successes} of {self.shown_tries} succeeded"
        return f"{shown}, without it {self.held_successes} of {self.held_tries}"


def chance_of_harm(counts: HoldoutCounts, usual: float) -> float:
    """Return the chance, in 0…1, that runs succeed less with a memory than without it.

    Both rates have Beta posteriors over a prior that is worth `_PRIOR` runs. Its mean is the rate
    of the task, because a hard task fails even with the best lesson: the rate of all runs with the
    memory and without it, with as many runs of the `usual` rate of all runs added. The difference
    is taken as normal.
    """
    own = _mean_rate(counts.shown_successes + counts.held_successes, counts.tries, usual)
    shown = _posterior(counts.shown_successes, counts.shown_tries, own)
    return _chance_less(shown, _posterior(counts.held_successes, counts.held_tries, own))


def holdout_share(counts: HoldoutCounts, usual: float) -> float:
    """Return the share of runs that a memory is to be held out of, by its chance of harm.

    A learned memory comes from a failure, so its task is taken to be harder than the `usual` one
    until runs without it show otherwise: their prior is three failed runs and two of the usual
    rate. So a lesson of a hard task is held out of a run or two. Above a chance of harm of 0.55 the
    share grows evenly: a harmful memory is shown ever less as runs without it succeed.
    """
    shown = _posterior(counts.shown_successes, counts.shown_tries, usual, _USUAL_RUNS)
    tries = counts.held_tries + _FAILED_WITHOUT
    harm = _chance_less(shown, _posterior(counts.held_successes, tries, usual, _USUAL_RUNS))
    return min(_MOST_HELD, max(0.0, _STEEP * (harm - _DOUBTFUL)))


def _chance_less(rate: NormalDist, other: NormalDist) -> float:
    """Return the chance that one rate is less than another."""
    return NormalDist(rate.mean - other.mean, math.hypot(rate.stdev, other.stdev)).cdf(0)


def _posterior(successes: int, tries: int, usual: float, prior: float = _PRIOR) -> NormalDist:
    mean = _mean_rate(successes, tries, usual, prior)
    return NormalDist(mean, math.sqrt(mean * (1 - mean) / (tries + prior + 1)))


def _mean_rate(successes: int, tries: int, usual: float, prior: float = _PRIOR) -> float:
    return (successes + prior * usual) / (tries + prior)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplift:
    """The effect of a memory on the rate of success: the rate with it less the rate without it.

    `effect` is None while one side has no outcome; the interval is then −1…1.
    """

    effect: float | None
    low: float
    high: float
    counts: HoldoutCounts

    def __str__(self) -> str:
        """Return the effect, its interval, and the numbers of runs."""
        effect = "unknown" if self.effect is None else f"{self.effect:+.2f}"
        text = f"{effect} ({self.low:+.2f}…{self.high:+.2f})".replace("-", "−")
        return f"{text}, shown {self.counts.shown_tries}, held out {self.counts.held_tries}"


def difference_interval(counts: HoldoutCounts, confidence: float) -> Interval:
    """Return the interval of the difference of two rates: shown less held out.

    It is the hybrid of two score intervals, method 10 of R. G. Newcombe, "Interval estimation for
    the difference between independent proportions", Statistics in Medicine 17 (1998) 873–890.
    It keeps its coverage for few runs and for rates of 1, unlike the interval of textbooks.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    shown = counts.shown_successes / counts.shown_tries
    held = counts.held_successes / counts.held_tries
    of_shown, of_held = _wilson(shown, counts.shown_tries, z), _wilson(held, counts.held_tries, z)
    below = math.hypot(shown - of_shown.low, of_held.high - held)
    above = math.hypot(of_shown.high - shown, held - of_held.low)
    return Interval(max(shown - held - below, -1.0), min(shown - held + above, 1.0))


def _wilson(rate: float, tries: int, z: float) -> Interval:
    """Return the score interval of one rate. It always contains the rate itself."""
    middle = rate + z * z / (2 * tries)
    reach = z * math.sqrt(rate * (1 - rate) / tries + (z / (2 * tries)) ** 2)
    scale = 1 + z * z / tries
    return Interval(min((middle - reach) / scale, rate), max((middle + reach) / scale, rate))


def uplifts(counts: Mapping[K, HoldoutCounts], confidence: float = 0.95) -> dict[K, Uplift]:
    """Return the uplift of each memory, with intervals that all hold at once.

    With this confidence *every* interval contains its true effect: the confidence of each is raised
    by the number of compared memories (Bonferroni). Of ten intervals of 95 % each, one would
    exclude 0 by chance in 40 % of all comparisons. So compare only the memories in question, and
    once, after a number of runs chosen beforehand: if you look after each run and stop when an
    interval excludes 0, you are wrong more often.
    """
    compared = sum(holdout.comparable for holdout in counts.values())
    each = 1 - (1 - confidence) / max(compared, 1)
    return {key: _uplift(holdout, each) for key, holdout in counts.items()}


def _uplift(counts: HoldoutCounts, confidence: float) -> Uplift:
    if not counts.comparable:
        return Uplift(effect=None, low=-1.0, high=1.0, counts=counts)
    low, high = difference_interval(counts, confidence)
    shown = counts.shown_successes / counts.shown_tries
    held = counts.held_successes / counts.held_tries
    return Uplift(effect=shown - held, low=low, high=high, counts=counts)


# ---- exposures and outcomes -----------------------------------------------------------------

_BITS = 64


class Run(NamedTuple):
    """One attempt of a run, for which memories are recalled. It is credited once."""

    id: str
    root: str | None = None
    """The whole run of the attempt, as LangGraph and LangSmith name it."""


HOLDOUT: Final = 0.02
"""The default share of runs that a learned and tried memory is held out of."""
LEARNED: Final = frozenset({"pattern", "reflexion", "skill"})
"""Types that are held out by default: their effect shows in outcomes."""


TAKEN_UP: Final = 2
"""The least words that an answer shares with a memory alone if it used the memory. Of 575 memories
in 140 answers, written and judged by two hands that did not know the rule, it finds 7 in 10 of
those that made a difference, and 1 in 10 of the others (docs/learning.md)."""
_SHORTEST: Final = 3
"""The least letters of a word that counts; a number may have fewer digits."""


def unused_memories(shown: Mapping[K, str], question: str, answer: str) -> set[K]:
    """Return the keys of the memories that an answer did not use, by their texts.

    An answer used a memory if both share two words (or all words, if either has fewer) that neither
    the question nor any other memory has. A memory without words of its own cannot be judged, and
    is not returned. The answer is a text, with its calls.
    """
    stems = {key: _word_stems(text) for key, text in shown.items()}
    common = Counter(word for each in stems.values() for word in each)
    question_stems, answer_stems = _word_stems(question), _word_stems(answer)
    own = {
        key: {word for word in each - question_stems if common[word] == 1}
        for key, each in stems.items()
    }
    most = min(TAKEN_UP, max(1, len(answer_stems - question_stems)))  # an answer may be a word
    return {
        key for key, each in own.items() if each and len(each & answer_stems) < min(most, len(each))
    }


def _word_stems(text: str) -> frozenset[str]:
    tokens = words(head_and_tail(text))
    return frozenset(stem(word) for word in tokens if len(word) >= _SHORTEST or word.isdigit())


class Exchange(NamedTuple):
    """A run's question, and its answer or calls after memories were shown."""

    question: str
    answer: str

    def calls(self, tool: object) -> bool:
        """Tell whether the answer calls a tool: it may follow a lesson of that in other words."""
        called = rf"(?<![\w.-]){re.escape(tool)}\({{" if isinstance(tool, str) else "(?!)"
        return re.search(called, self.answer) is not None


class Exposure(NamedTuple):
    """The run that memories are recalled for, and the share that is held out of it."""

    run: Run
    holdout: float | None = None
    """None holds out `HOLDOUT` of learned and tried memories, and more of those that seem to
    harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport:
    """The numbers of memories that an outcome was credited to."""

    success: bool
    credited: int
    """Number of shown memories that are credited with the outcome. It is 0 if the run was credited
    before, so a retry is harmless. It is also 0 if nothing was recalled for the run: check it for a
    misspelt `run_id`, which raises no error."""
    held_out: int = 0
    """Number of memories that were held out of the run: the comparison."""
    unused: int = 0
    """Number of shown memories that the answer did not use. The run counts as one with them, and
    they are not credited."""


def record_exposures(
    memories: Sequence[Recollection],
    context: MemoryContext,
    showing: Exposure | None,
    now: datetime,
) -> Flow[list[Recollection]]:
    """Record the memories shown to a run and held out of it; return those to show."""
    if showing is None or not memories:
        return list(memories)
    places = [(encode_namespace(memory.namespace).namespace, memory.key) for memory in memories]
    held = yield from _choose_held_out(memories, places, context.scope_params, showing)
    params = {
        **context.scope_params,
        "run": showing.run.id,
        "root": showing.run.root,
        "project": context.project_id,
        "session": context.session_id,
        "namespaces": [namespace for namespace, _ in places],
        "keys": [key for _, key in places],
        "held_out": held,
        "now": now,
    }
    yield Query((Call("expose", params),), commit=True)
    return [memory for memory, out in zip(memories, held, strict=True) if not out]


def _choose_held_out(
    memories: Sequence[Recollection],
    places: Sequence[tuple[str, str]],
    whose: Mapping[str, str | None],
    showing: Exposure,
) -> Flow[list[bool]]:
    """Decide for each memory whether the run goes without it. An earlier decision stays.

    Without a given share, learned memories with any outcome are held out, and more of those that
    seem to harm.
    """
    run, usual_share = showing.run.id, showing.holdout or 0.0
    shares: dict[tuple[str, str], float] = {}
    decided: dict[tuple[str, str], bool] = {}
    tried = [
        place
        for place, memory in zip(places, memories, strict=True)
        if memory.memory_type in LEARNED and memory.success_count + memory.failure_count > 0
    ]
    if tried and showing.holdout is None:
        shares = dict.fromkeys(tried, HOLDOUT)
        names = {"namespaces": [place for place, _ in tried], "keys": [key for _, key in tried]}
        rows = yield from rows_of("holdout_evidence", **whose, run=run, **names)
        counts = {(row[0], row[1]): HoldoutCounts(*row[2:6]) for row in rows}
        usual = counts.pop((None, None))
        rate = (usual.shown_successes + 1) / (usual.shown_tries + 2)
        decided = {(row[0], row[1]): bool(row[6]) for row in rows if row[6] is not None}
        for place, count in counts.items():
            if count.tries >= ENOUGH:
                shares[place] = max(HOLDOUT, holdout_share(count, rate))
    held = []
    for place, memory in zip(places, memories, strict=True):
        share = shares.get(place, usual_share)
        name = "\0".join((*memory.namespace, memory.key))
        held.append(decided.get(place, share > 0 and is_held_out(run, name, share)))
    return held


def credit_outcome(
    run: str,
    context: MemoryContext,
    *,
    success: bool,
    now: datetime,
    shown: Sequence[Recollection] | None = None,
    exchange: Exchange | None = None,
) -> Flow[OutcomeReport]:
    """Credit the memories that were shown to a run, or any attempt of it, unless credited before.

    They are those shown to a run of the context's project and user, and kept in that project; a
    context that names none covers all. Or they are the memories `shown`, recorded or not. Memories
    that the answer of the `exchange` did not use are recorded as unused, and not credited.
    """
    params: dict[str, Any] = {
        **context.scope_params,
        "run": run,
        "project": context.project_id,
        **outside_bounds(context.managed_prefix),
        "succeeded": success,
        "now": now,
        "unused": None,
    }
    if shown is not None:
        params["namespaces"] = [encode_namespace(memory.namespace).namespace for memory in shown]
        params["keys"] = [memory.key for memory in shown]
    calls = [Call("lock_run", params)]
    if exchange is not None:
        texts = Call("shown_to_run" if shown is None else "shown_given", params)
        _, rows = yield Query((calls.pop(), texts))
        contents = {row[0]: content_of(row[1]) for row in rows}
        heeded = {row[0] for row in rows if exchange.calls(row[1].get("tool"))}
        params["unused"] = sorted(unused_memories(contents, *exchange) - heeded)
    calls.append(Call("settle" if shown is None else "settle_shown", params))
    *_, (row,) = yield Query(tuple(calls), commit=True)
    return OutcomeReport(success=success, credited=row[0], held_out=row[1], unused=row[2])


def is_held_out(run: str, place: str, share: float) -> bool:
    """Tell whether a run goes without a memory.

    `place` is the memory's namespace and key as one text. Of all pairs of a run and a memory, the
    `share` (in 0…1) is held out. Each pair is decided independently, and always the same: a recall
    that is repeated within a run shows the same memories. A pair that is held out at one share is
    held out at every larger share.
    """
    first, second = (name.encode("utf-8", "surrogatepass") for name in (run, place))
    named = len(first).to_bytes(8, "big") + first + second  # so that no two pairs are one text
    digest = blake2b(named, digest_size=_BITS // 8, person=b"hold-out").digest()
    return int.from_bytes(digest, "big") < share * (1 << _BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStats(MemoryStats):
    """Statistics of a tenant's memories, with their uplifts."""

    uplift: Mapping[tuple[tuple[str, ...], str], Uplift] = field(default_factory=dict)
    """Uplift of each memory that was ever held out, by namespace and key. The intervals hold for
    all memories together at 95 %."""


def read_uplifts(context: MemoryContext) -> Flow[Mapping[tuple[tuple[str, ...], str], Uplift]]:
    """Read the uplifts of the memories that the context sees and that were ever held out."""
    tenant = context.root
    rows = yield from rows_of("holdout_counts", **context.scope_params)
    return uplifts(
        {(decode_namespace(tenant, row[0]), str(row[1])): HoldoutCounts(*row[2:]) for row in rows}
    )
