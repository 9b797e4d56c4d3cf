"""Measuring one style: every system answers the same questions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import psycopg

from benchmarks.recall_data import FACTS, LOGS, History, Question, Style
from benchmarks.recall_metrics import BUDGETS, Judge
from benchmarks.recall_peers import Bm25, Peer
from benchmarks.recall_report import (
    BM25,
    DENSE,
    LEXICAL,
    OURS,
    PEER,
    PROFILES,
    Cutoff,
    StyleResult,
    fresh,
)
from benchmarks.recall_report import used as after_use
from benchmarks.recall_system import LIMIT, System
from langmem_tiers.core.memory import Recollection
from langmem_tiers.recall.matching import weights_for_model
from langmem_tiers.recall.ranking import Profile, RankingQuery, Terms, rank, resolve_profile

Step = Callable[[int], object]
"""Told how many questions were answered."""

_READ = 5
"""Memories a recall returns in daily use: what piles up accesses."""
_BUDGETED = 60
"""Questions a style that are also asked with each `max_tokens`."""
_SHARED = frozenset([LOGS, FACTS])
"""Styles whose people may have the same to tell."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The systems under measurement, filled; `url` is the shipped system's database."""

    system: System
    peer: Peer
    url: str
    step: Step


def fill(bench: Bench, histories: Sequence[History]) -> None:
    """Store histories in both systems."""
    for history in histories:
        bench.system.remember(history)
        bench.peer.remember(history)
    with psycopg.connect(bench.url, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")


def steps(style: Style, *, used: bool) -> int:
    """How many questions `measure` asks."""
    asked = sum(len(one.answerable) for one in style.histories)
    return asked * (2 + 2 * len(PROFILES) * used) + min(_BUDGETED, asked)


def measure(bench: Bench, style: Style, others: Sequence[History], *, used: bool) -> StyleResult:
    """Ask everything of a style; `others` are histories that know nothing of it."""
    result = StyleResult(
        name=style.name,
        memories=sum(len(one.memories) for one in style.histories),
        histories=len(style.histories),
        skipped=style.skipped,
    )
    judges = {one.name: Judge(one) for one in style.histories}
    rows: dict[str, list[list[float]]] = {}
    lost: list[float] = []
    for history in style.histories:
        lexical = Bm25(bench.url, history)
        for question in history.answerable:
            asked = _ask(bench, history, question, result)
            asked[BM25] = lexical.ranked(question, LIMIT)
            judged = {
                name: judges[history.name].figures(ranked, question)
                for name, ranked in asked.items()
            }
            lost.append(judged.pop("uncut")[1] - judged[OURS][1])
            for name, figures in judged.items():
                rows.setdefault(name, []).append(figures)
            bench.step(1)
    if used:
        for name in PROFILES:
            rows[after_use(name)] = _used(bench, style, judges, name)
    result.figures = {name: np.array(found) for name, found in rows.items()}
    result.chosen = _chosen(bench, style, judges)
    result.cutoff = replace(_cutoff(bench, style, others), lost=lost)
    return result


def _ask(
    bench: Bench, history: History, question: Question, result: StyleResult
) -> dict[str, list[str]]:
    """The rankings of one question by all systems, and what is kept of it for later."""
    found = bench.system.ask(history, question)
    evidence = bench.system.evidence(history, question)
    result.categories.append(question.category)
    result.evidence.append(evidence)
    result.gold.append(question.gold)
    unread = [replace(one, access_count=0) for one in found]
    asked = RankingQuery(now=bench.system.asked_at(history), query=question.text)
    return {
        OURS: keys_of(found),
        "uncut": evidence.matched(weights_for_model("local"))[:LIMIT],
        DENSE: evidence.ranked(evidence.cosine)[:LIMIT],
        LEXICAL: evidence.ranked(evidence.own)[:LIMIT],
        **{fresh(name): keys_of(rank(unread, name, asked)) for name in PROFILES},
        PEER: bench.peer.ranked(history, question, LIMIT),
    }


def keys_of(found: Sequence[Recollection]) -> list[str]:
    """The keys of what was recalled."""
    return [one.key for one in found]


def _used(bench: Bench, style: Style, judges: dict[str, Judge], profile: str) -> list[list[float]]:
    """A profile after every question was asked once with it and its results were read."""
    with psycopg.connect(bench.url) as conn:
        bench.system.store.stats()  # writes what was counted so far
        conn.execute("DELETE FROM memory.usage")
    for history, question in _questions(style):
        bench.system.ask(history, question, profile=profile, limit=_READ)
        bench.step(1)
    bench.system.store.stats()
    with psycopg.connect(bench.url) as conn:
        query = (
            "SELECT m.tenant, m.key, u.access_count FROM memory.usage u"
            " JOIN memory.memories m ON m.tenant = u.tenant AND m.id = u.id"
        )
        reads = {(tenant, key): count for tenant, key, count in conn.execute(query)}
    rows = []
    for history, question in _questions(style):
        found = bench.system.ask(history, question, profile=_as_of(reads, profile))
        rows.append(judges[history.name].figures(keys_of(found), question))
        bench.step(1)
    return rows


def _as_of(reads: dict[tuple[str, str], int], profile: str) -> Profile:
    """A profile with the accesses of one moment, so that asking changes nothing."""
    profiled = resolve_profile(profile)

    def terms(memory: Recollection, asked: RankingQuery) -> Terms | float:
        count = reads.get((memory.namespace[0], memory.key), 0)
        return profiled(replace(memory, access_count=count), asked)

    return replace(profiled, terms=terms)


def _chosen(
    bench: Bench, style: Style, judges: dict[str, Judge]
) -> dict[str, Sequence[tuple[float, float]]]:
    """Evidence that `max_tokens` chose and that plain order has, for a sample of questions."""
    every = list(_questions(style))
    sample = random.Random(1).sample(every, min(_BUDGETED, len(every)))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in BUDGETS}
    for history, question in sample:
        ranked = keys_of(bench.system.ask(history, question))
        for name, budget in BUDGETS.items():
            chosen = set(keys_of(bench.system.ask(history, question, max_tokens=budget)))
            share = len(chosen & question.gold) / len(question.gold)
            found[name].append((share, judges[history.name].within(ranked, question, budget)))
        bench.step(1)
    return dict(found)


def _cutoff(bench: Bench, style: Style, others: Sequence[History]) -> Cutoff:
    rng = random.Random(1)
    wrong, adversarial = [], []
    for history, question in _questions(style):
        like = [one for one in style.histories if one is not history]
        strange = [one for one in like if _strange(style, question, one)] or [
            one for one in others if one not in style.histories and _strange(style, question, one)
        ]
        if strange:
            wrong.append(_nothing(bench, rng.choice(strange), question))
        bench.step(1)
    for history in style.histories:
        adversarial += [_nothing(bench, history, one) for one in history.adversarial]
    return Cutoff(wrong=wrong, adversarial=adversarial)


def _strange(style: Style, question: Question, other: History) -> bool:
    """Whether a history surely holds no answer."""
    if style.name not in _SHARED:
        return True
    return bool(question.about) and all(one.about != question.about for one in other.questions)


def _nothing(bench: Bench, history: History, question: Question) -> float:
    return float(not bench.system.ask(history, question, limit=1))


def _questions(style: Style) -> Iterator[tuple[History, Question]]:
    return ((history, one) for history in style.histories for one in history.answerable)
