"""Real reflexions of programming tasks, asked for by their prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.databases import create
from benchmarks.learning_data import Programming, programming
from benchmarks.recall_data import History, Memory, Question
from benchmarks.recall_peers import Bm25, peer
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, local_index
from langmem_tiers.learning.reflexion import Reflexion

OURS, ONLY_LESSONS = "get_context", 'get_context, memory_types=["reflexion"]'
BM25, DENSE = "BM25", "PostgresStore.search"
WITH_PROMPT, ADVICE_ALONE = FORMS = ("with the prompt", "advice alone")
LIMIT = 100
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    OURS: {},
    ONLY_LESSONS: {"memory_types": ["reflexion"]},
}

_UNKNOWN: Final = "an implementation that the log does not keep"


class Log(NamedTuple):
    """Tasks of run 1 with and without reflexions, and those of run 2 that ask."""

    learned: Sequence[Programming]
    company: Sequence[Programming]
    asked: Sequence[Programming]


@dataclass(slots=True)
class Found:
    """The rank of the task's first lesson for each question; 0 if it is not among the answers."""

    form: str
    lessons: int
    company: int
    ranks: dict[str, list[int]] = field(default_factory=dict)

    def mrr(self, way: str) -> float:
        """The mean reciprocal rank."""
        return sum(1 / one for one in self.ranks[way] if one) / len(self.ranks[way])

    def hit(self, way: str) -> float:
        """The share of questions whose first answer is right."""
        return sum(one == 1 for one in self.ranks[way]) / len(self.ranks[way])


def measure(
    server_url: str, folder: Path, *, most: int | None = None, forms: Sequence[str] = FORMS
) -> Iterator[Found]:
    """Store run 1, ask with the prompts of run 2; `most` of them, if given."""
    first = programming(folder, 1)
    learned = [one for one in first if one.reflections]
    names = {one.name for one in learned}
    asked = [one for one in programming(folder, 2) if one.reflections and one.name in names]
    company = [one for one in first if one.solved and not one.reflections]
    log = Log(learned, company, asked[:most])
    for form in forms:
        yield _measured(server_url, form, log)


def lesson(task: Programming, number: int, form: str) -> Reflexion:
    """The lesson that a task's reflexion is stored as."""
    solution = task.solution if task.solved else task.reflections[-1]
    alone = form == ADVICE_ALONE
    return Reflexion(
        task_id=task.name,
        original_approach=_UNKNOWN if alone else task.prompt,
        failure_reason=task.reflections[number],
        improved_approach=task.reflections[-1] if alone else solution,
    )


def _measured(server_url: str, form: str, log: Log) -> Found:
    url = create(server_url, "learning_mbpp")
    with TieredStore.from_conn_string(url, index=local_index()) as store:
        store.setup()
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="mbpp", project_id="run-1"))
        about, told = _remember(memory, form, log)
        found = Found(form, len(about), len(log.company))
        for way, options in _OPTIONS.items():
            answers = memory.get_context_batch(
                [one.prompt for one in log.asked], limit=LIMIT, **options
            )
            keys = [[one.key for one in answer] for answer in answers]
            found.ranks[way] = _ranks(keys, log.asked, about)
    questions = [_question(one, about) for one in log.asked]
    history = History(name="mbpp", memories=told, questions=questions)
    plain = Bm25(url, history)
    with peer(server_url) as other:
        other.remember(history)
        dense = [other.ranked(history, one, LIMIT) for one in questions]
    found.ranks[BM25] = _ranks([plain.ranked(one, LIMIT) for one in questions], log.asked, about)
    found.ranks[DENSE] = _ranks(dense, log.asked, about)
    return found


def _remember(
    memory: MemoryCoordinator, form: str, log: Log
) -> tuple[dict[str, str], list[Memory]]:
    """Store run 1: which task each lesson is about, by its key, and the same as plain texts."""
    about: dict[str, str] = {}
    told: dict[str, str] = {}
    for task in log.learned:
        for number in range(len(task.reflections)):
            one = lesson(task, number, form)
            key = memory.store_reflexion(
                task_id=one.task_id,
                original_approach=one.original_approach,
                failure_reason=one.failure_reason,
                improved_approach=one.improved_approach,
            ).key
            about[str(key)], told[str(key)] = task.name, one.to_memory_format()
    for task in log.company:
        stored = memory.store_pattern(task.solution, source_task=task.name)
        told[str(stored.key)] = task.solution
    return about, [Memory(key=key, content=content) for key, content in told.items()]


def _ranks(
    answers: Iterable[Sequence[str]], asked: Sequence[Programming], about: Mapping[str, str]
) -> list[int]:
    ranks = []
    for task, keys in zip(asked, answers, strict=True):
        right = [n for n, key in enumerate(keys, start=1) if about.get(key) == task.name]
        ranks.append(right[0] if right else 0)
    return ranks


def _question(task: Programming, about: Mapping[str, str]) -> Question:
    gold = frozenset(key for key, name in about.items() if name == task.name)
    return Question(text=task.prompt, gold=gold, category="")
