"""What nine days brought, for a terminal: the life of one lesson, and all failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.panel import Panel

from langmem_tiers.demo.agent import State, errors
from langmem_tiers.demo.days import FROM_THE_START, LATER, History, Record, context_of
from langmem_tiers.demo.panels import grid, panel
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.store.store import TieredStore

FOLLOWED = "thousands"
"""The family whose lesson is followed through its life."""
BAR = "▇"
_LESSON = ("Tried: ", "Failed because: ", "Do instead: ")


def life_of_a_lesson(store: TieredStore, history: History) -> Panel:
    """One lesson: captured, recalled, credited, promoted, and used where nobody learned it."""
    first, second, *_ = history.of(FOLLOWED, FROM_THE_START[0])
    (key,) = first["reflexions"]
    memory = MemoryCoordinator(store, context=context_of(FROM_THE_START[0]))
    known = memory.explain(key)
    night, moves = next((at, one) for at, one in enumerate(history.promoted, start=1) if one)
    move = next(one for one in known.history if one.kind == "promoted")
    low, high = known.success_interval
    runs = known.success_count + known.failure_count
    rows = grid("", "", "")
    rows.columns[0].no_wrap = rows.columns[1].no_wrap = True
    rows.add_row("day 1", "captured", "\n".join(_lesson(known.content)))
    rows.add_row("day 2", "recalled", _recalled(second, key))
    rows.add_row(
        f"day {night}",
        "credited",
        f"{known.success_count} of {runs} runs succeeded: {low:.2f} to {high:.2f} (95 %)",
    )
    rows.add_row("night", move.kind, "\n".join(move.reasons))
    rows.add_row("", "", f"with it {len(moves) - 1} other lessons, each to everybody in long_term")
    (last,) = history.of(FOLLOWED, LATER)
    rows.add_row(f"day {len(history.tasks)}", "used", _used(last, known.successors[0].key))
    return panel(f"4. An agent that runs code, in {FROM_THE_START[0]}: one lesson's life", rows)


def _lesson(content: str) -> list[str]:
    return [line for line in content.splitlines() if line.startswith(_LESSON)]


def _recalled(run: State, key: str) -> str:
    question = run["messages"][0].text
    return f"for “{question}”\n{_why(_of(run, key))}\n{_ended(run)}"


def _used(run: State, successor: str) -> str:
    one = _of(run, successor)
    return f"in {LATER}, which never failed at it, from {one['tier']}\n{_why(one)}\n{_ended(run)}"


def _of(run: State, key: str) -> Mapping[str, Any]:
    (found,) = [one for one in run["recalled"] if one["key"] == key]
    return found


def _why(one: Mapping[str, Any]) -> str:
    terms = " + ".join(f"{name} {term:.2f}" for name, term in one["explanation"].items() if term)
    return f"score {one['score']:.2f} = {terms}"


def _ended(run: State) -> str:
    return "the first try failed" if errors(run) else "the first try worked"


def failures(history: History) -> Panel:
    """Failures by day, as bars, and how many of them were repeated."""
    without, with_memory = history.without, history.with_memory
    rows = grid("day", "tasks", "failures without memory", "with memory")
    for day, tasks in enumerate(history.tasks):
        bars = (_bar(one.failures[day]) for one in (without, with_memory))
        rows.add_row(str(day + 1), str(tasks), *bars)
    rows.add_row("all", str(sum(history.tasks)), *(_total(one) for one in (without, with_memory)))
    share = sum(with_memory.repeated) / sum(without.repeated)
    told = (
        "Repeated is a failure whose like was seen before, in any project. With memory there are "
        f"{share:.1%} of those without; {with_memory.repeated[0]} fell on day 1, as a lesson stays "
        "in its project until it has proven itself."
    )
    return panel(f"5. The same tasks in {_projects()}", Group(rows, "", told))


def _bar(count: int) -> str:
    return f"{BAR * count} {count}".strip()


def _total(record: Record) -> str:
    return f"{sum(record.failures)}, of them repeated {sum(record.repeated)}"


def _projects() -> str:
    return f"{', '.join(FROM_THE_START)} and, on the last day, {LATER}"
