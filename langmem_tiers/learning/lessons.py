"""Find and rank the lessons for a failure, or for a tool that is about to run.

The score of a lesson adds up logarithms of odds, as in naive Bayes: its match with the question and
the failure's message; the rare words of the question; the same failure, which counts more the rarer
it is; the same tool, or task; and the outcomes of the lesson.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.texts import exact_words
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.learning.reflexion import is_transient_failure
from langmem_tiers.learning.signature import Signature
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.matching import (
    Candidate,
    read_candidates_and_facts,
    score_candidates,
    to_recollection,
    word_similarities,
)
from langmem_tiers.recall.ranking import DEFAULT_FLOOR, NO_FLOOR, Floor
from langmem_tiers.recall.recall import (
    QueryVectors,
    RecallConfig,
    RecallQuery,
    prepare_query,
    recall_statement,
    setting_calls,
)
from langmem_tiers.store.flows import StoreFlows

WORDS: Final = 4.0
"""Weight of a lesson that has all words of the question, beside their weight in its match. Each
word counts by how well it tells the found lessons apart. Chosen on three seeds of the faulty tools,
which are our own: 0 repeats more failures, 8 no fewer (docs/learning.md)."""
TOOL: Final = 0.5
"""Weight of a lesson of the same tool: our own choice, less than that of the question."""
TASK: Final = 1.0
"""Weight of a lesson whose task is asked for: our own choice."""
_TASK: Final = 12
"""The least characters of a task that is recognised by its beginning: our own choice."""
MOST_OF_SUCCESS: Final = 1.0
"""The largest weight of a lesson's outcomes, for it or against it. 2 of 2 runs reach it, so a
lesson that helps comes before one that harms. Our own choice."""
_LEAST: Final = DEFAULT_FLOOR.least_lesson(0.0)
"""A match without any evidence."""
_SURE: Final = 0.999
IN_ANY_TOOL: Final = 0.8
"""Factor for the same failure in any one tool, if the tool of the failure is unknown: our own
choice."""


class Evidence(NamedTuple):
    """The evidence about the current failures, by which lessons are scored."""

    signatures: frozenset[str]
    """Signatures of the failures, with their tool and without."""
    any_tool_signatures: frozenset[str]
    """Signatures of failures of an unknown tool, for each tool that has failures."""
    rarity: Mapping[str, float]
    """Logarithm of all failures per failure of a signature, by signature."""
    tools: frozenset[str]
    question: str


def find_lessons(
    ask: RecallQuery,
    reader: RecallConfig,
    store: StoreFlows,
    *,
    failures: Sequence[Signature] = (),
    tools: Sequence[str] = (),
    approach: str | None = None,
) -> Flow[tuple[list[Recollection], list[Candidate]]]:
    """Return the best lessons, the best first, and their rows.

    Candidates are a hundred lessons of each signature and tool, among the newest thousand, and
    those that words find among all.

    Args:
        ask: The scope of the search, and the next action as its query, if that is known.
        reader: The settings of recall.
        store: The store of the lessons.
        failures: The failures. One without a tool may be of any tool; so may a lesson without one.
        tools: The tools that failed, or are about to run.
        approach: Return only lessons that tried exactly this and advise something else, of a
            failure that does not pass by itself. Words are then not searched for.
    """
    if not (ask.limit and (failures or tools or ask.query.strip())):
        return [], []
    texts = [ask.query, *(failure.plain_text for failure in failures)] if approach is None else []
    sought = replace(ask, query="\n".join(filter(None, texts)))
    yield from store.refresh_state()
    moment, vectors = store.moment(), QueryVectors()
    yield from vectors.add([sought.query] if sought.query.strip() else [], store.options)
    in_tools = yield from _sign_in_each_tool(failures, ask.tenant)
    signed = [str(same) for failure in failures for same in (failure, replace(failure, tool=None))]
    signatures = [*dict.fromkeys((*signed, *in_tools))]
    prepared = prepare_query(sought, vectors, moment, reader, store.options.index)
    own = {"signatures": signatures, "tools": list(tools), "approach": approach}
    calls = [recall_statement("recall_lessons", prepared, store, **own)]
    if signatures:
        whose = {"tenant": ask.tenant, "user_id": ask.bounds["user_id"]}
        calls.append(Call("failures_alike", {**whose, "signatures": signatures}))
    before = setting_calls(calls, reader)
    answers = yield Query((*before, *calls), commit=True)
    rows, *counts = answers[len(before) :]
    candidates, searched = read_candidates_and_facts(rows, store.distance)
    candidates = [candidate for candidate in candidates if _is_for_approach(candidate, approach)]
    alike = word_similarities(candidates, prepared.question, searched, reader.words)
    judged = score_candidates(candidates, prepared.question, searched, reader.weights, alike)
    recalled = [
        (to_recollection(each.candidate, each.match, each.evidence), each.candidate)
        for each in judged
    ]
    named = frozenset((*tools, *(failure.tool for failure in failures if failure.tool)))
    rarity, asked = _rarity(dict(*counts)), " ".join(ask.query.split())
    evidence = Evidence(frozenset(signed), frozenset(in_tools), rarity, named, asked)
    floor = NO_FLOOR if vectors.failed else DEFAULT_FLOOR
    best = _rank_lessons(recalled, evidence, floor, tools)[: ask.limit]
    return [memory for memory, _ in best], [row for _, row in best]


LessonRow = tuple[Recollection, Candidate]


def _rank_lessons(
    recalled: Sequence[LessonRow], evidence: Evidence, floor: Floor, tools: Sequence[str]
) -> list[LessonRow]:
    """Rank the relevant rows, the best first: each advice once, and no attempt with a lesson."""
    shares = _word_shares(evidence.question, [memory for memory, _ in recalled])
    scored = [
        (score_lesson(memory, evidence, share), row)
        for (memory, row), share in zip(recalled, shares, strict=True)
    ]
    least = floor.least_lesson(max((memory.match for memory, _ in scored), default=0.0))
    asked = bool(evidence.question)
    wanted = [pair for pair in scored if _is_relevant(pair[0], least, tools, asked=asked)]
    wanted.sort(key=lambda each: (-each[0].score, each[0].namespace, each[0].key))
    answered = {
        _text_field(memory, "signature") for memory, _ in wanted if memory.memory_type == REFLEXION
    }
    distinct: dict[str, LessonRow] = {}
    for memory, row in wanted:
        if memory.memory_type == REFLEXION or _text_field(memory, "signature") not in answered:
            advice = _text_field(memory, "improved_approach") or _text_field(memory, "worked")
            distinct.setdefault(advice or memory.content, (memory, row))
    return list(distinct.values())


def _sign_in_each_tool(failures: Sequence[Signature], tenant: str) -> Flow[list[str]]:
    """Sign the failures without a tool for each tool of the tenant that has failures."""
    bare = [failure for failure in failures if failure.tool is None]
    (rows,) = (yield Query((Call("failed_tools", {"tenant": tenant}),))) if bare else ([],)
    return [str(replace(failure, tool=tool)) for failure in bare for (tool,) in rows]


def _rarity(counts: Mapping[str | None, int]) -> dict[str, float]:
    """Return the rarity of each known signature. The count of `None` is that of all failures."""
    return {
        signature: math.log((counts[None] + 1) / often)
        for signature, often in counts.items()
        if signature is not None and often
    }


def _is_for_approach(row: Candidate, approach: str | None) -> bool:
    if approach is None:
        return True
    tried, instead = (row.value.get(name) for name in ("original_approach", "improved_approach"))
    return bool(tried == approach != instead) and not is_transient_failure(
        str(row.value.get("signature"))
    )


def _word_shares(asked: str, memories: Sequence[Recollection]) -> list[float]:
    """Return the share of the question's words that each memory has. Rarer words count more."""
    sought = sorted(set(exact_words(asked)))
    memory_words = [frozenset(exact_words(memory.content)) for memory in memories]
    rarity = {
        word: math.log1p(len(memory_words) / (1 + sum(word in words for words in memory_words)))
        for word in sought
    }
    total = math.fsum(rarity.values()) or 1.0
    return [
        math.fsum(rarity[word] for word in sought if word in words) / total
        for words in memory_words
    ]


def score_lesson(memory: Recollection, evidence: Evidence, share: float) -> Recollection:
    """Return a lesson with its score and the terms of that, given its share of the words."""
    value, tries = memory.value, memory.success_count + memory.failure_count
    signature, tool = value.get("signature"), value.get("tool")
    alike = 1.0 if signature in evidence.signatures else IN_ANY_TOOL
    is_same = signature in evidence.signatures or signature in evidence.any_tool_signatures
    task = " ".join(str(value.get("task_id") or "").split())
    # a short name may be the beginning of another one
    asked = len(task) >= _TASK and f"{evidence.question} ".startswith(f"{task} ")
    succeeds = _log_odds((memory.success_count + 1) / (tries + 2))  # the mean of the posterior
    parts = {
        "match": _log_odds(max(memory.match, _LEAST)) - _log_odds(_LEAST),
        "words": WORDS * share,
        "signature": alike * evidence.rarity.get(str(signature), 0.0) if is_same else 0.0,
        "tool": TOOL * (tool in evidence.tools),
        "task": TASK * asked,
        "success": max(-MOST_OF_SUCCESS, min(succeeds, MOST_OF_SUCCESS)),
    }
    terms = {name: part for name, part in parts.items() if part}
    return replace(memory, score=math.fsum(terms.values()), explanation=terms)


def _log_odds(chance: float) -> float:
    bounded = min(chance, _SURE)
    return math.log(bounded / (1 - bounded))


def _is_relevant(memory: Recollection, least: float, tools: Sequence[str], *, asked: bool) -> bool:
    """Tell whether a lesson is of the failure or one of the tools, or matches well enough.

    An attempt of another failure needs a question that it matches.
    """
    if "signature" in memory.explanation:
        return True
    if memory.memory_type != REFLEXION:
        return asked and memory.match >= least
    return memory.value.get("tool") in tools or memory.match >= least


def _text_field(memory: Recollection, field: str) -> str:
    """Return a text field of a value; empty for any other type."""
    text = memory.value.get(field)
    return text if isinstance(text, str) else ""
