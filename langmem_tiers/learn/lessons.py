"""Lessons for a failure at hand, or for a tool about to run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from langmem_tiers.core.config import Distance, StoreOptions
from langmem_tiers.core.memory import MemoryContext, Moment, Recollection, Tier
from langmem_tiers.core.namespaces import Scope, encode
from langmem_tiers.learn.retries import may_hold
from langmem_tiers.learn.signature import Signature
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.candidates import Candidate, read_columns, recollection
from langmem_tiers.recall.dedupe import words
from langmem_tiers.recall.profiles import REFLEXION
from langmem_tiers.recall.recall import bounds, visibility
from langmem_tiers.store.write import LOCK, lock_call

SAME_FAILURE = 3.0
ANY_TOOL = 2.0
SAME_TOOL = 1.0
"""What it counts that a lesson is of the very failure, of the same in any tool where none is known,
or of the tool alone: our own choice, so far apart that nothing below turns it round."""
MATCH = 0.5
"""What it counts that a lesson has the words of what is about to be done, rare words more: our own
choice, above what success can count, which says nothing of this task (measured in
docs/learning-benchmarks.md)."""
SUCCESS = 0.3
"""What proven success counts, as in the profile of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """What lessons are wanted for. `scopes` are the prefixes to look under, one a tier."""

    scopes: Mapping[Tier, Scope]
    failures: Sequence[Signature] = ()
    """One without a tool may be of any; so may a lesson without one."""
    tools: Sequence[str] = ()
    query: str = ""
    """What is about to be done, if that is known."""
    approach: str | None = None
    """Only lessons of what was tried in just this form, that say to do something else, and that are
    reason enough not to run it."""
    limit: int = 3


def lessons(concern: Concern, moment: Moment) -> Flow[tuple[list[Recollection], list[Candidate]]]:
    """The lessons, those of the very failure first, and the rows they were read from.

    They are the best of the newest hundred of each signature and tool. Which tools there are is
    asked first, if that of a failure is not known.
    """
    if not concern.limit or not (concern.failures or concern.tools):
        return [], []
    tenant = next(iter(concern.scopes.values())).tenant
    signed = [str(same) for one in concern.failures for same in (one, replace(one, tool=None))]
    in_tools = yield from _in_tools(concern.failures, tenant)
    params = {
        **bounds(concern.scopes),
        "tenant": tenant,
        "signatures": [*dict.fromkeys((*signed, *in_tools))],
        "tools": list(concern.tools),
        "approach": concern.approach,
        "alive_at": moment.alive_at,
        **visibility(moment.now),
    }
    (rows,) = yield Query((Call("lessons", params),), commit=True)
    found = [one for one in read_columns(rows, Distance.COSINE) if _is_of(one, concern.approach)]
    memories = [recollection(one, 0.0, {}) for one in found]
    rarity = _rarity(concern.query, memories)
    scored = [
        (_scored(memory, _kind(memory, signed, in_tools), rarity), one)
        for memory, one in zip(memories, found, strict=True)
    ]
    scored.sort(key=lambda pair: (-pair[0].score, pair[0].namespace, pair[0].key))
    best = _without_repeats(_without_answered(scored))[: concern.limit]
    return [memory for memory, _ in best], [row for _, row in best]


def _in_tools(failures: Sequence[Signature], tenant: str | None) -> Flow[list[str]]:
    """Failures of no tool as they are signed in each tool that the tenant knows failures of."""
    bare = [one for one in failures if one.tool is None]
    if not bare:
        return []
    (rows,) = yield Query((Call("failed_tools", {"tenant": tenant}),))
    return [str(replace(one, tool=tool)) for one in bare for (tool,) in rows]


def _is_of(row: Candidate, approach: str | None) -> bool:
    if approach is None:
        return True
    tried, instead = (row.value.get(name) for name in ("original_approach", "improved_approach"))
    return bool(tried == approach != instead) and may_hold(row.value)


def record_lessons(
    pairs: Sequence[tuple[str, str]], context: MemoryContext, options: StoreOptions, now: datetime
) -> Flow[None]:
    """Note of failed attempts that each lives on in its lesson; `pairs` are their keys.

    The lesson of one that is retracted is suspect.
    """
    if not pairs:
        return
    place = encode(context.namespace(Tier.WORKING))
    keys = dict.fromkeys(key for pair in pairs for key in pair)
    moves = (place.tenant, "", LOCK)
    lock = lock_call([moves, *((*place, key) for key in keys)], options)
    attempts, lessons_ = (list(column) for column in zip(*dict(pairs).items(), strict=True))
    params = {
        **place._asdict(),
        "attempts": attempts,
        "lessons": lessons_,
        "events": [str(uuid4()) for _ in attempts],
        "now": now,
    }
    doubt = Call("doubt", {"tenant": place.tenant, "ids": [], "events": params["events"]})
    yield Query((lock, Call("record_lessons", params), doubt), commit=True)


def _without_answered(
    scored: Sequence[tuple[Recollection, Candidate]],
) -> list[tuple[Recollection, Candidate]]:
    """Without attempts whose lesson is there as well."""
    answered = {
        memory.value.get("signature") for memory, _ in scored if memory.memory_type == REFLEXION
    }
    return [
        (memory, row)
        for memory, row in scored
        if memory.memory_type == REFLEXION or memory.value.get("signature") not in answered
    ]


def _without_repeats(
    scored: Sequence[tuple[Recollection, Candidate]],
) -> list[tuple[Recollection, Candidate]]:
    """Of lessons that give the same advice, the best one: there is room for few."""
    distinct: dict[object, tuple[Recollection, Candidate]] = {}
    for memory, row in scored:
        distinct.setdefault(memory.value.get("improved_approach") or memory.content, (memory, row))
    return list(distinct.values())


def _rarity(query: str, memories: Sequence[Recollection]) -> dict[str, float]:
    """What each word of a query tells apart among these memories, adding up to 1."""
    sought, said = set(words(query)), [frozenset(words(one.content)) for one in memories]
    rarity = {
        word: math.log1p(len(said) / (1 + sum(word in one for one in said)))
        for word in sorted(sought)
    }
    total = math.fsum(rarity.values())
    return {word: one / total for word, one in rarity.items()} if total else {}


def _kind(memory: Recollection, signed: Sequence[str], in_tools: Sequence[str]) -> dict[str, float]:
    """What makes a memory a lesson for this concern."""
    own = memory.value.get("signature")
    if own in signed:
        return {"signature": SAME_FAILURE}
    return {"signature": ANY_TOOL} if own in in_tools else {"tool": SAME_TOOL}


def _scored(
    memory: Recollection, kind: Mapping[str, float], rarity: Mapping[str, float]
) -> Recollection:
    tries = memory.success_count + memory.failure_count
    terms = {
        **kind,
        "success": SUCCESS * (memory.success_count + 1) / (tries + 2),
    }
    if rarity:
        said = rarity.keys() & frozenset(words(memory.content))
        terms["match"] = MATCH * math.fsum(rarity[word] for word in sorted(said))
    return replace(memory, score=math.fsum(terms.values()), explanation=terms)
