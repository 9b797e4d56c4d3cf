"""Outcomes: how runs ended that memories were shown to or held out of, and how sure that is.

A memory is held out so that its effect can be told from its company's: a success rate is observed,
an uplift is caused. Only runs that a memory was held out of tell how they would have ended without
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
from langmem_tiers.core.reading import head_and_tail, stem, words
from langmem_tiers.core.values import content_of
from langmem_tiers.postgres.flow import Call, Flow, Query, rows_of

# ---- how likely a rate is, what a memory does to it, and whether it harms --------------------

_NEGLIGIBLE = 1e-18
"""The terms fall faster and faster, so that what is left is no more than a rounding error."""
_HALVINGS = 60
"""So often is 0…1 halved for a quantile: beyond what a float tells apart."""

K = TypeVar("K", bound=Hashable)
ENOUGH: Final = 12
"""Outcomes from which on it counts that a memory seems to harm: our own choice (docs/learning.md
shows what comes of it)."""
_PRIOR: Final = 4
"""Runs that what is usual counts for: our own choice."""
LIKELY_HARM: Final = 0.6
"""The chance of harm from which on a memory seems to harm: our own choice."""
_DOUBTFUL: Final = 0.55
_STEEP: Final = 15
_USUAL_RUNS: Final = 2
_FAILED_WITHOUT: Final = 3
"""By these the share of runs without a memory is found: our own choice, on made-up runs like those
of benchmarks/harm.py. Few lessons that harm are shown at last, and few runs of hard tasks, of which
one in fifty may succeed without help, go without a lesson that helps."""
_MOST_HELD: Final = 0.98
"""The largest share of runs that a memory is held out of by itself: the others may clear it."""


class Interval(NamedTuple):
    """Where a number lies, with the confidence that was asked for."""

    low: float
    high: float


def chance_at_most(successes: int, failures: int, rate: float) -> float:
    """How likely the true rate of success is at most `rate`, over a uniform prior.

    It is exact: the posterior is Beta(successes + 1, failures + 1), and with whole numbers its
    distribution is a tail of the binomial (DLMF 8.17.5), of which the shorter one is summed.
    """
    if rate in {0, 1}:
        return float(rate)
    tries = successes + failures + 1
    if successes + 1 > tries * rate:
        return _tail(successes + 1, tries, rate)
    return 1 - _tail(tries - successes, tries, 1 - rate)


def _tail(least: int, tries: int, rate: float) -> float:
    """P(X >= least) for a binomial X whose mean is below `least`."""
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
    """Where the true rate lies, over a uniform prior, with equal chances on both sides."""
    low = _quantile(successes, failures, (1 - confidence) / 2)
    return Interval(low, 1 - _quantile(failures, successes, (1 - confidence) / 2))


def _quantile(successes: int, failures: int, chance: float) -> float:
    """The rate that the true one is at most with this chance."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if chance_at_most(successes, failures, middle) <= chance:
            low = middle
        else:
            high = middle
    return low


class HoldoutCounts(NamedTuple):
    """How the runs ended that were given a memory, and those it was held out of."""

    shown_successes: int
    shown_tries: int
    held_successes: int
    held_tries: int

    @property
    def tries(self) -> int:
        """Runs in all."""
        return self.shown_tries + self.held_tries

    @property
    def comparable(self) -> bool:
        """Whether there is an outcome on both sides."""
        return self.shown_tries > 0 and self.held_tries > 0

    def __str__(self) -> str:
        """Such as `with it 9 of 12 succeeded, without it 1 of 4`."""
        shown = f"with it {self.shown_successes} of {self.shown_tries} succeeded"
        return f"{shown}, without it {self.held_successes} of {self.held_tries}"


def chance_of_harm(counts: HoldoutCounts, usual: float) -> float:
    """Tell how likely runs succeed less with a memory than without it, in 0…1.

    Both rates have Beta posteriors over a prior that is worth `_PRIOR` runs of what is usual of the
    task: a hard one fails with the best lesson. That is the rate of all runs that the memory was
    shown to or held out of, begun with as many of the `usual` rate of whatever runs there are. The
    difference is taken as normal.
    """
    own = _mean_rate(counts.shown_successes + counts.held_successes, counts.tries, usual)
    shown = _posterior(counts.shown_successes, counts.shown_tries, own)
    return _chance_less(shown, _posterior(counts.held_successes, counts.held_tries, own))


def holdout_share(counts: HoldoutCounts, usual: float) -> float:
    """Return the share of runs that a memory is to be held out of, as far as it seems to harm.

    What was learned came from a failure, so its task is taken for harder than the `usual` one until
    runs without it say otherwise: these begin with three that failed beside two of the usual rate.
    So a lesson of a hard task is held out of a run or two. From a chance of harm of 0.55 on the
    share grows evenly, and what harms is shown less and less while the runs without it tell.
    """
    shown = _posterior(counts.shown_successes, counts.shown_tries, usual, _USUAL_RUNS)
    tries = counts.held_tries + _FAILED_WITHOUT
    harm = _chance_less(shown, _posterior(counts.held_successes, tries, usual, _USUAL_RUNS))
    return min(_MOST_HELD, max(0.0, _STEEP * (harm - _DOUBTFUL)))


def _chance_less(rate: NormalDist, other: NormalDist) -> float:
    """Tell how likely one rate is less than another."""
    return NormalDist(rate.mean - other.mean, math.hypot(rate.stdev, other.stdev)).cdf(0)


def _posterior(successes: int, tries: int, usual: float, prior: float = _PRIOR) -> NormalDist:
    mean = _mean_rate(successes, tries, usual, prior)
    return NormalDist(mean, math.sqrt(mean * (1 - mean) / (tries + prior + 1)))


def _mean_rate(successes: int, tries: int, usual: float, prior: float = _PRIOR) -> float:
    return (successes + prior * usual) / (tries + prior)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplift:
    """What a memory does to the rate of success: by how much it is higher with it than without.

    `effect` is None while one side has no outcome; the interval then is everything, −1…1.
    """

    effect: float | None
    low: float
    high: float
    counts: HoldoutCounts

    def __str__(self) -> str:
        """The effect, its interval, and how many runs it comes from."""
        effect = "unknown" if self.effect is None else f"{self.effect:+.2f}"
        text = f"{effect} ({self.low:+.2f}…{self.high:+.2f})".replace("-", "−")
        return f"{text}, shown {self.counts.shown_tries}, held out {self.counts.held_tries}"


def difference_interval(counts: HoldoutCounts, confidence: float) -> Interval:
    """Where the difference of two rates lies: shown less held out.

    It is the hybrid of two score intervals, method 10 of R. G. Newcombe, "Interval estimation for
    the difference between independent proportions", Statistics in Medicine 17 (1998) 873–890.
    It keeps its coverage where few were tried or all succeeded, as the textbook's does not.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    shown = counts.shown_successes / counts.shown_tries
    held = counts.held_successes / counts.held_tries
    of_shown, of_held = _wilson(shown, counts.shown_tries, z), _wilson(held, counts.held_tries, z)
    below = math.hypot(shown - of_shown.low, of_held.high - held)
    above = math.hypot(of_shown.high - shown, held - of_held.low)
    return Interval(max(shown - held - below, -1.0), min(shown - held + above, 1.0))


def _wilson(rate: float, tries: int, z: float) -> Interval:
    """The score interval of one rate; it always holds the rate itself."""
    middle = rate + z * z / (2 * tries)
    reach = z * math.sqrt(rate * (1 - rate) / tries + (z / (2 * tries)) ** 2)
    scale = 1 + z * z / tries
    return Interval(min((middle - reach) / scale, rate), max((middle + reach) / scale, rate))


def uplifts(counts: Mapping[K, HoldoutCounts], confidence: float = 0.95) -> dict[K, Uplift]:
    """The uplift of each memory, with intervals that hold all at once.

    With this confidence *every* interval holds its true effect: each one's is raised by the
    number of memories compared (Bonferroni). Ten intervals of 95 % each would in 40 % of all
    comparisons have one that excludes 0 by chance. So compare what there is a question about
    rather than everything, and do so once, after a number of runs settled beforehand: who looks
    after each run, and stops when one excludes 0, is wrong more often.
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


# ---- what was shown, and what came of it -----------------------------------------------------

_BITS = 64


class Run(NamedTuple):
    """One attempt that memories are recalled for; credited once, however often it is retried."""

    id: str
    root: str | None = None
    """The whole run that the attempt belongs to, as LangGraph and LangSmith name it."""


HOLDOUT: Final = 0.02
"""The share of runs that what was learned, and was tried, is held out of if nothing is said."""
LEARNED: Final = frozenset({"pattern", "reflexion", "skill"})
"""Types that are held out by themselves: what they do shows in what comes of runs."""


TAKEN_UP: Final = 2
"""Words of its own that an answer has of a memory that it took up. Of 575 memories in 140 answers,
written and judged by two hands that did not know this, it finds 7 in 10 of those that made a
difference, and 1 in 10 of the others (docs/learning.md)."""
_SHORTEST: Final = 3
"""Letters of a word that tells something; a number may have fewer."""


def unused_memories(shown: Mapping[K, str], question: str, answer: str) -> set[K]:
    """Which memories an answer took nothing of, by their texts.

    It took one up that shares two words with the answer, or as many as either has, and with neither
    the question nor any other memory. Of a memory without a word of its own nothing can be said: it
    is not among them. An answer may be words and calls, as text.
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
    """What a run was asked, and what it said or called after it was shown memories."""

    question: str
    answer: str

    def calls(self, tool: object) -> bool:
        """Whether it called that tool: a lesson of it may be heeded in quite other words."""
        called = rf"(?<![\w.-]){re.escape(tool)}\({{" if isinstance(tool, str) else "(?!)"
        return re.search(called, self.answer) is not None


class Exposure(NamedTuple):
    """For which run memories are recalled, and which share of them it goes without."""

    run: Run
    holdout: float | None = None
    """None is `HOLDOUT` of what was learned and tried, and more of what seems to harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport:
    """What an outcome was credited to."""

    success: bool
    credited: int
    """Memories that were shown to the run and are credited with the outcome, each once. It is 0
    where the run was credited before, which makes a retry harmless; and where nothing was recalled
    for a run of that name, so a misspelt `run_id` is seen here and raises no error."""
    held_out: int = 0
    """Memories that were held out of it: the comparison."""
    unused: int = 0
    """Memories that were shown to it and not taken up by the answer that was told: it counts among
    the runs with them, and they are not credited."""


def record_exposures(
    memories: Sequence[Recollection],
    context: MemoryContext,
    showing: Exposure | None,
    now: datetime,
) -> Flow[list[Recollection]]:
    """Note what is put before a run, and what is held out of it; what is to be shown."""
    if showing is None or not memories:
        return list(memories)
    places = [(encode_namespace(memory.namespace).namespace, memory.key) for memory in memories]
    held = yield from _choose_held_out(memories, places, context.whose, showing)
    params = {
        **context.whose,
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
    """Whether the run goes without each; what it went without, or was shown, stays so.

    If nobody says how much is held out, it is what was learned and of which anything is known to
    come, and of that more of what seems to harm.
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
    """Credit what was shown to a run, or to any attempt of it, and is not credited yet.

    It is what was shown to a run of the context's project and user, and what that project keeps; of
    any, if the context names none. Or it is the memories given, whether or not they were noted. Of
    what an answer did not take up that is noted, and it is not credited.
    """
    params: dict[str, Any] = {
        **context.whose,
        "run": run,
        "project": context.project_id,
        **outside_bounds(context.looks_after),
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
    """Whether a run goes without a memory that it would have been given.

    `place` says which memory: its namespace and key as one text. Of the pairs of a run and a
    memory, `share` of them, in 0…1, are held out, each independently of all others, and always
    the same: a recall that is repeated within a run shows the same memories. What is held out at
    one share is held out at every larger one.
    """
    first, second = (name.encode("utf-8", "surrogatepass") for name in (run, place))
    named = len(first).to_bytes(8, "big") + first + second  # so that no two pairs are one text
    digest = blake2b(named, digest_size=_BITS // 8, person=b"hold-out").digest()
    return int.from_bytes(digest, "big") < share * (1 << _BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStats(MemoryStats):
    """What a tenant has stored, and what it has learned of it."""

    uplift: Mapping[tuple[tuple[str, ...], str], Uplift] = field(default_factory=dict)
    """By namespace and key of each memory that was ever held out: how much higher the success of
    runs is with it than without, with intervals that hold for all of them together at 95 %."""


def read_uplifts(context: MemoryContext) -> Flow[Mapping[tuple[tuple[str, ...], str], Uplift]]:
    """What each memory that who asks sees, and that was ever held out, does to runs."""
    tenant = context.root
    rows = yield from rows_of("holdout_counts", **context.whose)
    return uplifts(
        {(decode_namespace(tenant, row[0]), str(row[1])): HoldoutCounts(*row[2:]) for row in rows}
    )
