"""The demonstration shows what it claims, and leaves nothing behind unless asked to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig
from rich.console import Console
from typer.testing import CliRunner

from langmem_tiers import InvalidInputError, MemoryContext, Tier, TieredStore
from langmem_tiers.cli import app
from langmem_tiers.demo import FACTS, MOOD, QUESTIONS, Graph, State, build_graph, show


def turn(graph: Graph, said: str, *, user: str, thread: str = "1") -> str:
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    context = MemoryContext(tenant=user, session_id=thread)
    answer: str = graph.invoke({"said": said}, config, context=context)["answer"]
    return answer


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    directory = tmp_path_factory.mktemp("demo") / "kept"
    result = CliRunner().invoke(app, ["demo", "--keep", str(directory)])
    assert result.exit_code == 0, result.output
    return re.sub(r"[\s│]+", " ", result.stdout), directory


def test_the_demo_shows_each_fact_in_the_tier_it_went_to(shown: tuple[str, Path]) -> None:
    text, _ = shown

    assert all(re.search(rf"working semantic \w+ {re.escape(fact)}", text) for fact in FACTS)
    assert re.search(rf"short_term working \w+ {re.escape(MOOD)}", text)


def test_the_demo_answers_each_question_from_another_thread_and_says_why(
    shown: tuple[str, Path],
) -> None:
    text, _ = shown

    assert all(question.split()[0] in text for question in QUESTIONS)
    assert text.count("You told me:") == len(QUESTIONS) + 1
    assert text.count("recency 0.01") == len(QUESTIONS) + 1
    assert text.count(" match 0.") == len(QUESTIONS) + 1


def test_the_demo_moves_a_memory_up_and_its_identity_stays(shown: tuple[str, Path]) -> None:
    _, directory = shown
    with TieredStore.embedded(directory) as store:
        (item,) = store.tier(Tier.LONG_TERM).search(("ada",))
        left = store.tier(Tier.SHORT_TERM).search(("ada",))

    assert item.value["content"] == MOOD
    assert left == []


def test_what_the_demo_kept_is_found_from_the_command_line(shown: tuple[str, Path]) -> None:
    _, directory = shown
    url = f"embedded:{directory}"
    result = CliRunner().invoke(app, ["search", "--url", url, "--tenant", "ada", "sister"])

    assert "My sister Ines lives in Lisbon." in result.stdout


def test_the_demo_does_not_touch_a_directory_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    with pytest.raises(InvalidInputError, match="not empty"):
        show(Console(), tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def test_a_user_recalls_nothing_of_another_user(store: TieredStore) -> None:
    graph = build_graph(store)
    turn(graph, "I live in Lisbon.", user="ada")

    assert (
        turn(graph, "Where do I live?", user="ben") == "You have told me nothing that answers this."
    )


def test_what_belongs_to_a_session_is_recalled_in_that_session_alone(store: TieredStore) -> None:
    graph = build_graph(store)
    for thread in ("1", "2"):
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        context = MemoryContext(tenant="ada", session_id=thread)
        said: State = {"said": f"I am in room {thread}.", "memory_type": "working"}
        graph.invoke(said, config, context=context)

    assert turn(graph, "Which room am I in?", user="ada", thread="2") == (
        'You told me: "I am in room 2."'
    )


def test_saying_a_thing_twice_is_remembered_once(store: TieredStore) -> None:
    graph = build_graph(store)
    for thread in ("1", "2"):
        turn(graph, "I live in Lisbon.", user="ada", thread=thread)

    assert len(store.search(("ada",))) == 1
