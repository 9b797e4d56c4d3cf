"""What was put before a run or held out of it, and what came of it.

A memory is held out so that its effect can be told from its company's: a success rate is observed,
an uplift is caused. Only runs that a memory was held out of tell how they would have ended without
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import MemoryStats, Recollection
from langmem_tiers.core.namespaces import decode, elsewhere, encode
from langmem_tiers.core.reading import ends_of, stem, words
from langmem_tiers.core.values import content_of
from langmem_tiers.learn import chances
from langmem_tiers.postgres.flow import Call, Flow, Query, rows_of

_BITS = 64
K = TypeVar("K", bound=Hashable)


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


def not_taken_up(shown: Mapping[K, str], question: str, answer: str) -> set[K]:
    """Which memories an answer took nothing of, by their texts.

    It took one up that shares two words with the answer, or as many as either has, and with neither
    the question nor any other memory. Of a memory without a word of its own nothing can be said: it
    is not among them. An answer may be words and calls, as text.
    """
    told = {key: _stems(text) for key, text in shown.items()}
    common = Counter(one for each in told.values() for one in each)
    known, said = _stems(question), _stems(answer)
    own = {key: {one for one in each - known if common[one] == 1} for key, each in told.items()}
    most = min(TAKEN_UP, max(1, len(said - known)))  # an answer may be a word
    return {key for key, each in own.items() if each and len(each & said) < min(most, len(each))}


def _stems(text: str) -> frozenset[str]:
    found = words(ends_of(text))
    return frozenset(stem(one) for one in found if len(one) >= _SHORTEST or one.isdigit())


class Said(NamedTuple):
    """What a run was asked, and what it said or called after it was shown memories."""

    question: str
    answer: str

    def calls(self, tool: object) -> bool:
        """Whether it called that tool: a lesson of it may be heeded in quite other words."""
        called = rf"(?<![\w.-]){re.escape(tool)}\({{" if isinstance(tool, str) else "(?!)"
        return re.search(called, self.answer) is not None


class Showing(NamedTuple):
    """For which run memories are recalled, and which share of them it goes without."""

    run: Run
    holdout: float | None = None
    """None is `HOLDOUT` of what was learned and tried, and more of what seems to harm."""

    def hides(self, one: Recollection, doubted: float = 0.0) -> bool:
        """Tell whether the run goes without a memory that so large a share of runs goes without."""
        share = self.holdout
        if share is None:
            share = max(HOLDOUT, doubted) if _is_tried(one) else 0.0
        return held_out(self.run.id, "\0".join((*one.namespace, one.key)), share)


def _is_tried(one: Recollection) -> bool:
    """Whether it is held out by itself, and anything is known to come of it."""
    return one.memory_type in LEARNED and one.success_count + one.failure_count > 0


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


def noted(
    found: Sequence[Recollection], context: MemoryContext, showing: Showing | None, now: datetime
) -> Flow[list[Recollection]]:
    """Note what is put before a run, and what is held out of it; what is to be shown."""
    if showing is None or not found:
        return list(found)
    held = yield from _held_out(found, context.whose, showing)
    params = {
        **context.whose,
        "run": showing.run.id,
        "root": showing.run.root,
        "project": context.project_id,
        "session": context.session_id,
        "namespaces": [encode(one.namespace).namespace for one in found],
        "keys": [one.key for one in found],
        "held_out": held,
        "now": now,
    }
    yield Query((Call("expose", params),), commit=True)
    return [one for one, out in zip(found, held, strict=True) if not out]


def _held_out(
    found: Sequence[Recollection], whose: Mapping[str, str | None], showing: Showing
) -> Flow[list[bool]]:
    """Whether the run goes without each; what it went without, or was shown, stays so."""
    tried = [one for one in found if _is_tried(one)] if showing.holdout is None else []
    if not tried:
        return [showing.hides(one) for one in found]
    params = {
        **whose,
        "run": showing.run.id,
        "namespaces": [encode(one.namespace).namespace for one in tried],
        "keys": [one.key for one in tried],
    }
    rows = yield from rows_of("holdout_evidence", **params)
    known = {(row[0], row[1]): (chances.HoldoutCounts(*row[2:6]), row[6]) for row in rows}
    usual, _ = known.pop((None, None))
    rate = (usual.shown_successes + 1) / (usual.shown_tries + 2)

    def hides(one: Recollection) -> bool:
        counts, before = known.get((encode(one.namespace).namespace, one.key), (None, None))
        if before is not None:
            return bool(before)
        if counts is None or counts.tries < chances.ENOUGH:
            return showing.hides(one)
        return showing.hides(one, chances.doubted(counts, rate))

    return [hides(one) for one in found]


def settle(
    run: str,
    context: MemoryContext,
    *,
    success: bool,
    now: datetime,
    shown: Sequence[Recollection] | None = None,
    said: Said | None = None,
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
        **elsewhere(context.looks_after),
        "succeeded": success,
        "now": now,
        "unused": None,
    }
    if shown is not None:
        params["namespaces"] = [encode(one.namespace).namespace for one in shown]
        params["keys"] = [one.key for one in shown]
    calls = [Call("lock_run", params)]
    if said is not None:
        texts = Call("shown_to_run" if shown is None else "shown_given", params)
        _, rows = yield Query((calls.pop(), texts))
        told = {row[0]: content_of(row[1]) for row in rows}
        heeded = {row[0] for row in rows if said.calls(row[1].get("tool"))}
        params["unused"] = sorted(not_taken_up(told, *said) - heeded)
    calls.append(Call("settle" if shown is None else "settle_shown", params))
    *_, (row,) = yield Query(tuple(calls), commit=True)
    return OutcomeReport(success=success, credited=row[0], held_out=row[1], unused=row[2])


def held_out(run: str, place: str, share: float) -> bool:
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

    uplift: Mapping[tuple[tuple[str, ...], str], chances.Uplift] = field(default_factory=dict)
    """By namespace and key of each memory that was ever held out: how much higher the success of
    runs is with it than without, with intervals that hold for all of them together at 95 %."""


def uplift_of(context: MemoryContext) -> Flow[Mapping[tuple[tuple[str, ...], str], chances.Uplift]]:
    """What each memory that who asks sees, and that was ever held out, does to runs."""
    tenant = context.root
    rows = yield from rows_of("holdout_counts", **context.whose)
    return chances.uplifts(
        {(decode(tenant, row[0]), str(row[1])): chances.HoldoutCounts(*row[2:]) for row in rows}
    )
