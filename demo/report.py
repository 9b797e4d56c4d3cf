"""What the demonstration prints: conversations, the life of one lesson, and all failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from demo.agent import State as Run
from demo.agent import errors
from demo.conversation import FACTS, MOOD, QUESTIONS, USER, Graph, State, build_graph, turn
from demo.days import FROM_THE_START, LATER, History, Record, context_of
from demo.harm import A_DAY, Trial
from langmem_tiers import MemoryContext, MemoryCoordinator, Tier, TieredStore

FOLLOWED = "thousands"
"""The family whose lesson is followed through its life."""
BAR = "▇"
_LEVELS = "·▁▂▃▄▅▆▇█"
VISIBLE = 0.005
_LESSON = ("Tried: ", "Failed because: ", "Do instead: ")


def conversation(store: TieredStore) -> list[Panel]:
    """Hold conversations in three threads; what was stored where, what was recalled and why."""
    graph = build_graph(store)
    return [_told(graph), _asked(graph), _moved(store, graph)]


def _told(graph: Graph) -> Panel:
    table = _grid("tier", "type", "key", "the user said")
    for said, kind in (*((fact, "semantic") for fact in FACTS), (MOOD, "working")):
        stored = turn(graph, "monday", said, kind)["stored"]
        table.add_row(stored["tier"], kind, stored["key"], said)
    return _panel("1. Thread “monday”: remembered word for word", table)


def _asked(graph: Graph) -> Panel:
    table = _grid("question and answer", "tier", "score", "why")
    for question in QUESTIONS:
        _add_answer(table, question, turn(graph, "friday", question))
    return _panel("2. Thread “friday”, which saw none of it: recalled from the store", table)


def _moved(store: TieredStore, graph: Graph) -> Panel:
    namespace = MemoryContext(tenant=USER, session_id="monday").namespace(Tier.SHORT_TERM)
    key = _key_of(store, namespace, MOOD)
    table = _grid("tier", "key", "created", "expires")
    before = store.tier(Tier.SHORT_TERM).get(namespace, key)
    table.add_row(Tier.SHORT_TERM, key, "at first", "one hour after it was last read")
    for tier in (Tier.WORKING, Tier.LONG_TERM):
        store.move(namespace, key, tier)
        item = store.tier(tier).get(namespace, key)
        same = item is not None and before is not None and item.created_at == before.created_at
        table.add_row(tier, key, "the same" if same else "anew", "never")
    answers = _grid("question and answer", "tier", "score", "why")
    question = "Should answers be short?"
    _add_answer(answers, question, turn(graph, "sunday", question))
    title = "3. It moves up and stays itself: now any thread recalls it"
    return _panel(title, Group(table, "", answers))


def _key_of(store: TieredStore, namespace: tuple[str, ...], said: str) -> str:
    (item,) = store.search(namespace, filter={"content": said})
    return item.key


def _add_answer(table: Table, question: str, state: State) -> None:
    recalled = state["recalled"]
    score = f"{recalled['score']:.2f}"
    table.add_row(
        f"{question}\n{state['answer']}",
        recalled["tier"],
        score,
        "\n".join(_terms(recalled["explanation"])),
    )


def life_of_a_lesson(store: TieredStore, history: History) -> Panel:
    """One lesson: captured, recalled, credited, promoted, and used where nobody learned it."""
    first, second, *_ = history.of(FOLLOWED, FROM_THE_START[0])
    key = str(first["noted"])
    memory = MemoryCoordinator(store, context=context_of(FROM_THE_START[0]))
    known = memory.learning.explain(key)
    night, moves = next((at, one) for at, one in enumerate(history.promoted, start=1) if one)
    move = next(one for one in known.history if one.kind == "promoted")
    low, high = known.success_interval
    runs = known.success_count + known.failure_count
    rows = _grid("", "", "")
    rows.columns[0].no_wrap = rows.columns[1].no_wrap = True
    rows.add_row("day 1", "noted", "\n".join(_lesson(known.content)))
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
    return _panel(f"4. An agent that runs code, in {FROM_THE_START[0]}: one lesson's life", rows)


def what_harms(trial: Trial) -> Panel:
    """How often each lesson was shown, day by day, as bars, and what was held back."""
    rows = _grid("a lesson that", f"runs of {A_DAY} a day that were shown it", "")
    for name, shown in trial.shown.items():
        night = trial.held_back.get(name)
        bars = "".join(_LEVELS[round(one * (len(_LEVELS) - 1) / A_DAY)] for one in shown)
        rows.add_row(name, bars, f"held back in night {night}" if night else "")
    return _panel("6. Three lessons that nobody judged but the runs", rows)


def _lesson(content: str) -> list[str]:
    return [line for line in content.splitlines() if line.startswith(_LESSON)]


def _recalled(run: Run, key: str) -> str:
    question = run["messages"][0].text
    return f"for “{question}”\n{_why(_of(run, key))}\n{_ended(run)}"


def _used(run: Run, successor: str) -> str:
    one = _of(run, successor)
    return f"in {LATER}, which never failed at it, from {one['tier']}\n{_why(one)}\n{_ended(run)}"


def _of(run: Run, key: str) -> Mapping[str, Any]:
    (found,) = [one for one in run["recalled"] if one["key"] == key]
    return found


def _why(one: Mapping[str, Any]) -> str:
    return f"score {one['score']:.2f} = {' + '.join(_terms(one['explanation']))}"


def _terms(explanation: Mapping[str, float]) -> list[str]:
    """Name the parts of a score, but those that would print as 0.00."""
    return [f"{name} {term:.2f}" for name, term in explanation.items() if abs(term) >= VISIBLE]


def _ended(run: Run) -> str:
    return "the first try failed" if errors(run) else "the first try worked"


def failures(history: History) -> Panel:
    """Failures by day, as bars, and how many of them were repeated."""
    without, with_memory = history.without, history.with_memory
    rows = _grid("day", "tasks", "failures without memory", "with memory")
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
    return _panel(f"5. The same tasks in {_projects()}", Group(rows, "", told))


def _bar(count: int) -> str:
    return f"{BAR * count} {count}".strip()


def _total(record: Record) -> str:
    return f"{sum(record.failures)}, of them repeated {sum(record.repeated)}"


def _projects() -> str:
    return f"{', '.join(FROM_THE_START)} and, on the last day, {LATER}"


def _grid(*names: str) -> Table:
    """Make a table without lines; it has no head if its columns have no names."""
    made = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
        show_header=any(names),
    )
    for name in names:
        made.add_column(name, overflow="fold")
    return made


def _panel(title: str, content: RenderableType) -> Panel:
    """Make a frame with a title."""
    return Panel(content, title=title, title_align="left", padding=(0, 1))
