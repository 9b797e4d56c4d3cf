"""The demonstration shows what it claims, and leaves nothing behind unless asked to."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.runnables import RunnableConfig
from rich.console import Console
from typer.testing import CliRunner

from demo.__main__ import show
from demo.agent import errors
from demo.conversation import FACTS, MOOD, QUESTIONS, build_graph
from demo.days import (
    DAYS,
    LATER,
    History,
)
from demo.tasks import FAMILIES
from langmem_tiers import MemoryContext, Tier, TieredStore
from langmem_tiers.cli.app import app
from langmem_tiers.core.errors import InvalidInputError

ROOT = Path(__file__).parents[2]


class Shown(NamedTuple):
    """What the demonstration printed, counted and kept."""

    text: str
    history: History
    directory: Path


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    directory = tmp_path_factory.mktemp("demo") / "kept"
    printed = StringIO()
    console = Console(file=printed, width=80, markup=False, highlight=False, emoji=False)
    history = show(console, directory)
    return Shown(re.sub(r"[\s│]+", " ", printed.getvalue()), history, directory)


@pytest.fixture
def history(shown: Shown) -> History:
    return shown.history


def test_the_demo_says_where_each_fact_went_what_it_recalled_and_why(shown: Shown) -> None:
    text, _, _ = shown.text.partition("4. An agent")

    assert all(re.search(rf"working semantic \w+ {re.escape(fact)}", text) for fact in FACTS)
    assert re.search(rf"short_term working \w+ {re.escape(MOOD)}", text)
    assert all(question.split()[0] in text for question in QUESTIONS)
    for told in ("You told me:", "recency 0.01", " match 0."):
        assert text.count(told) == len(QUESTIONS) + 1


def test_what_was_moved_up_is_there_once_and_what_was_kept_is_found_by_the_command_line(
    shown: Shown,
) -> None:
    with TieredStore.embedded(shown.directory) as store:
        (item,) = store.tier(Tier.LONG_TERM).search(("ada",))
        left = store.tier(Tier.SHORT_TERM).search(("ada",))
    url = f"embedded:{shown.directory}"
    result = CliRunner().invoke(app, ["search", "--url", url, "--tenant", "ada", "sister"])

    assert (item.value["content"], left) == (MOOD, [])
    assert "My sister Ines lives in Lisbon." in result.stdout


def test_the_demo_shows_a_lesson_s_life_and_counts_what_it_ran(
    shown: Shown, history: History
) -> None:
    text = shown.text
    totals = [
        f"{sum(one.failures)}, of them repeated {sum(one.repeated)}"
        for one in (history.without, history.with_memory)
    ]

    assert re.search(r"noted Tried: .*Failed because: ValueError: invalid literal .*1,234", text)
    assert re.search(r"recalled for “.*” score 0\.\d\d = match 0\.\d\d", text)
    assert re.search(r"credited (\d+) of \1 runs succeeded: 0\.\d\d to 1\.00", text)
    assert re.search(r"promoted accesses \d+ > 5 yes success 1\.00 > 0\.80 yes age 7\.50", text)
    assert re.search(rf"used in {LATER}, .* from long_term .* the first try worked", text)
    assert f"all {sum(history.tasks)} {' '.join(totals)}" in text


def test_the_demo_shows_harm_being_found_and_taken_out(shown: Shown) -> None:
    _, _, text = shown.text.partition("6. Three lessons")
    assert re.search(r"harms \S+[·▁] held back in night \d+", text)
    assert re.search(r"helps [▆▇█]{12} (?!held)", text)


def test_without_memory_each_task_fails_once_and_with_it_a_tenth_of_the_repeated_at_most(
    history: History,
) -> None:
    assert history.without.failures == history.tasks
    repeated, left = sum(history.without.repeated), sum(history.with_memory.repeated)
    assert repeated == sum(history.tasks) - len(FAMILIES)
    assert left <= 0.1 * repeated
    assert history.with_memory.failures[1:] == [0] * (DAYS - 1)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"its {sum(history.tasks)} tasks in nine days fails once, {repeated} of them" in readme
    share = f"({100 * left / repeated:.1f} %)"
    assert f"With it {left} such repeated failures are left {share}" in readme


def test_what_is_older_than_seven_days_is_promoted_and_tells_a_later_project(
    history: History,
) -> None:
    counts = [len(one) for one in history.promoted]
    assert counts[:7] == [0] * 7
    assert counts[7] >= len(FAMILIES)
    for family in FAMILIES:
        (run,) = history.of(family, LATER)
        assert run["told"]
        assert errors(run) == []
        assert {one["tier"] for one in run["recalled"]} == {"long_term"}


def test_the_demo_does_not_touch_a_directory_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    with pytest.raises(InvalidInputError, match="not empty"):
        show(Console(), tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def test_a_graph_remembers_once_for_one_user_and_for_one_session(store: TieredStore) -> None:
    graph = build_graph(store)

    def turn(said: str, *, user: str, thread: str = "1", **told: Any) -> str:
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        context = MemoryContext(tenant=user, session_id=thread)
        state: Any = {"said": said, **told}
        answer: str = graph.invoke(state, config, context=context)["answer"]
        return answer

    for thread in ("1", "2"):
        turn("I live in Lisbon.", user="ada", thread=thread)
        turn(f"I am in room {thread}.", user="eve", thread=thread, memory_type="working")

    assert len(store.search(("ada",))) == 1
    nothing = "You have told me nothing that answers this."
    assert turn("Where do I live?", user="ben") == nothing
    told = turn("Which room am I in?", user="eve", thread="2")
    assert told == 'You told me: "I am in room 2."'
