"""What a user takes back or corrects, as a named model says: undone or replaced, and told."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from pydantic import BaseModel, Field

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_remember_node,
)
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.graph.recall import MemoryState
from tests.integration.test_middleware import agent, thread
from tests.support.agents import Way, scripted
from tests.support.graphs import ACME, off_the_loop
from tests.support.opening import Clock

TWIN = "My twin brother Otto is an astronaut."
JOKE = "Forget that, I was kidding about Otto."
RENT = "The rent of the studio is 650 a month."
NO = "No, 560."
Said = tuple[str, str, float, str]
"""An act, words of the memory that it is done to, how sure the judge is, and what still holds."""


class Judge(GenericFakeChatModel):
    """Says of each message what it was told to, and keeps what it is shown."""

    messages: Any = ()
    by: dict[str, tuple[list[Said], bool]] = Field(default_factory=dict)
    shown: list[tuple[str, list[str]]] = Field(default_factory=list)
    error: Any = None

    def with_structured_output(self, schema: Any, **_: Any) -> Runnable[Any, BaseModel]:
        def answer(asked: Any) -> Any:
            text = asked[1].text  # a second request ends with what was wrong
            message = text.partition("<message>\n")[2].removesuffix("\n</message>")
            memories = re.findall(r"<earlier [^>]*>\n(.*?)\n</earlier>", text, re.DOTALL)
            self.shown.append((message, memories))
            if self.error is not None:
                raise self.error
            acts, more = self.by.get(message, ([], True))
            found = [
                {"memory": 1 + place, "act": act, "confidence": sure, "stands": stands}
                for act, of, sure, stands in acts
                for place, one in enumerate(memories)
                if of in one
            ]
            return schema(acts=found, tells_more=more)

        return RunnableLambda(answer)


def judge(*acts: Said, on: str = JOKE, more: bool = False, **own: Any) -> Judge:
    """A judge that says this of one message, and nothing of all others."""
    return Judge(by={on: (list(acts), more)}, **own)


FORGETS = ("retract", "Otto", 0.9, "")
CORRECTS = ("correct", "650", 0.9, "")


def remembering(store: TieredStore, by: Any, **own: Any) -> Any:
    builder: Any = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("remember", create_remember_node(judge=by))
    builder.set_entry_point("remember")
    return builder.compile(store=store, **own)


def said(text: str, answer: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=text), AIMessage(answer, id=f"to {text}")]}


def talk(
    store: TieredStore, by: Any, *texts: str, context: MemoryContext = ACME
) -> list[dict[str, Any]]:
    """Say each text in a thread of its own; the states."""
    graph = remembering(store, by)
    return [
        graph.invoke(
            said(text, f"So it is, number {number}."), thread(f"t{number}"), context=context
        )
        for number, text in enumerate(texts)
    ]


def memory_of(store: TieredStore, context: MemoryContext = ACME) -> MemoryCoordinator:
    return MemoryCoordinator(store, context=context)


def known(store: TieredStore, context: MemoryContext = ACME, **options: Any) -> list[str]:
    found = memory_of(store, context).get_context("", limit=50, **options)
    return sorted(one.content for one in found)


async def test_what_was_a_joke_is_not_recalled_any_more_and_restoring_brings_it_back(
    way: Way, clock: Clock
) -> None:
    by = judge(FORGETS)
    graph, states = remembering(way.store, by, checkpointer=InMemorySaver()), []
    for text, answer in ((TWIN, "Really? Amazing!"), (JOKE, "You had me there.")):
        clock.advance(minutes=1)
        states.append(await way(graph, said(text, answer), config=thread("one"), context=ACME))
    assert [len(one["revised"]) for one in states] == [0, 1]
    assert await off_the_loop(known, way.store) == []
    assert [message for message, _ in by.shown] == [JOKE]

    memory, (told,) = memory_of(way.store), states[1]["revised"]
    history = await memory.truth.ahistory(told["retracted"])
    assert "taken back by the user's message" in str(history)
    then = await off_the_loop(lambda: known(way.store, known_at=clock.now - timedelta(seconds=30)))
    assert TWIN in then
    restored = await memory.truth.arestore(told["retracted"])
    assert len(restored.restored) == 3  # the answer, the message that took it back, and its answer
    assert {TWIN, JOKE, "Really? Amazing!"} <= set(await off_the_loop(known, way.store))


def test_what_is_corrected_is_recalled_as_the_correction_of_what_it_was_said_of(
    store: TieredStore,
) -> None:
    first, second = talk(store, judge(CORRECTS, on=NO, more=True), RENT, NO)
    assert first["revised"] == []
    (told,) = second["revised"]
    assert f"{NO}\n(said of: {RENT})" in known(store)
    assert RENT not in known(store)
    assert memory_of(store).learning.rollback(told["move"])
    assert RENT in known(store)


@pytest.mark.parametrize(
    ("by", "failed"),
    [
        (judge(("retract", "Otto", 0.7, "")), None),
        (judge(("retract", "Otto", 0.9, TWIN)), None),
        (judge(("retract", "Otto", 7.0, "")), "ModelError: the model gave no usable answer"),
        (judge(("retract", "Otto", 0.9, "He is a baker.")), "not copied word for word"),
        (judge(error=OSError("the line is dead")), "ModelError: the model did not answer"),
    ],
    ids=["unsure", "all stands", "beyond 1", "not its words", "away"],
)
def test_where_the_judge_is_not_sure_or_fails_nothing_changes_and_that_is_told(
    store: TieredStore, by: Judge, failed: str | None
) -> None:
    _, state = talk(store, by, TWIN, JOKE)
    assert {TWIN, JOKE} <= set(known(store))
    assert state["revised"] == []
    assert (failed or "") in state["memory_errors"].get("judge", "")
    assert bool(state["memory_errors"]) is (failed is not None)


def test_what_a_user_pastes_or_quotes_and_what_others_say_takes_nothing_back(
    store: TieredStore,
) -> None:
    by = judge(FORGETS)
    letter = f"{JOKE} " * 3
    pasted = ("A log: " + JOKE * 20, f"Shorten this:\n```\n{JOKE}\n```", f'Spell "{letter}"')
    talk(store, by, TWIN, *pasted)
    assert len(by.shown) == 2  # of the long one it is not asked
    assert not [message for message, _ in by.shown if "kidding" in message]
    tools = [ToolMessage(JOKE, tool_call_id="call-1"), AIMessage(JOKE, id="a2")]
    graph = remembering(store, by)
    graph.invoke({"messages": [HumanMessage("Read it to me", id="m9"), *tools]}, context=ACME)
    assert by.shown[-1][0] == "Read it to me"
    graph.invoke({"messages": [AIMessage(JOKE, id="a3")]}, context=ACME)
    assert len(by.shown) == 3
    assert TWIN in known(store)


def test_nobody_takes_back_what_another_user_said_or_what_is_everybodys(store: TieredStore) -> None:
    by = judge(FORGETS)
    ada, ben = (MemoryContext(tenant="acme", user_id=one) for one in ("ada", "ben"))
    memory_of(store, ben).store(TWIN, key="ben's")
    memory_of(store, ada).store(f"Everybody knows: {TWIN}", key="all", personal=False)
    memory_of(store, ada).store("How to greet Otto: wave.", "procedural", key="how")
    memory_of(store, ada).store("Otto is on the roof.", source="tool", key="tool")
    _, state = talk(store, by, TWIN, JOKE, context=ada)
    assert by.shown == [(JOKE, [TWIN])]
    assert len(state["revised"]) == 1
    everything: Any = {"limit": 50, "min_match": 0}
    left, mine = (memory_of(store, one).get_context("Otto", **everything) for one in (ben, ada))
    assert {one.key for one in left} >= {"ben's"}
    assert {one.key for one in mine} == {"all", "how", "tool"}


def test_of_a_memory_that_is_taken_back_in_part_the_rest_stays(store: TieredStore) -> None:
    both = f"My sister Ines lives in Porto. {TWIN}"
    rest = "My sister Ines lives in Porto."
    by = judge(("retract", "Otto", 0.9, rest), more=True)
    _, state = talk(store, by, both, JOKE)
    (told,) = state["revised"]
    assert {rest, JOKE} <= set(known(store))  # it tells more, as the judge says
    assert both not in known(store)
    (kept,) = (one for one in memory_of(store).get_context("", limit=9) if one.content == rest)
    assert (kept.speaker, kept.session_id) == ("user", "t0")
    memory_of(store).truth.restore(told["retracted"])
    assert both in known(store)


def test_a_reminder_that_is_called_off_is_not_raised(store: TieredStore, clock: Clock) -> None:
    never = "Never mind the dentist, I cancelled."
    by = judge(("retract", "dentist", 0.9, ""), on=never)
    dentist, memory = "Call the dentist.", memory_of(store)
    memory.reminders.add(dentist, at=clock.now + timedelta(days=1))
    (state,) = talk(store, by, never)
    assert len(state["revised"]) == 1
    clock.advance(days=2)
    assert memory.reminders.due("Hello") == []
    memory.truth.restore(state["revised"][0]["retracted"])
    assert [one.content for one in memory.reminders.due("Hello")] == [dentist]


def test_a_run_that_is_repeated_is_judged_once_and_a_later_turn_has_its_own_word(
    store: TieredStore,
) -> None:
    by = judge(FORGETS)
    graph, saver = remembering(store, by), HumanMessage(TWIN, id="m1")
    graph.invoke({"messages": [saver]}, thread("1"), context=ACME)
    messages = [HumanMessage(JOKE, id="m2"), AIMessage("Ha!", id="a2")]
    first, again = (
        graph.invoke({"messages": messages}, thread("1"), context=ACME) for _ in range(2)
    )
    assert len(by.shown) == len(first["revised"]) == 1
    assert again["revised"] == []
    assert known(store) == []


PLAINLY = [
    (TWIN, "Forget that about my twin brother Otto.", "Okay, forgotten."),
    (RENT, "No, the rent of the studio is 560 a month.", "Noted: 560."),
    ("We are moving to Norway in May.", "I was kidding, we are not.", "Ha, you had me there."),
]
"""A fact, what takes it back or corrects it in plain words, and an assistant's answer to that."""


@pytest.mark.parametrize(("fact", "back", "answer"), PLAINLY)
async def test_without_a_judge_no_words_take_anything_back_or_end_it(
    way: Way, fact: str, back: str, answer: str
) -> None:
    model = scripted("Noted.", answer)
    made = agent(model, way.store, saver=InMemorySaver())
    graph = remembering(way.store, None)
    for number, text in enumerate((fact, back)):
        asks = {"messages": [HumanMessage(text, id=str(number))]}
        await way(made, asks, config=thread("one"), context=ACME)
        state = await way(graph, said(text, answer), config=thread("two"), context=ACME)
        assert "revised" not in state
    left = await off_the_loop(lambda: memory_of(way.store).get_context("", limit=50))
    assert sorted(one.content for one in left if one.speaker == "user") == sorted([fact, back] * 2)
    assert {(await memory_of(way.store).learning.aexplain(one.key)).state for one in left} == {None}


def test_what_is_no_model_is_refused_and_so_is_a_text_that_says_nothing(
    store: TieredStore,
) -> None:
    with pytest.raises(InvalidTypeError, match="chat model"):
        create_remember_node(judge="gpt")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="text is empty"):
        memory_of(store).truth.revise(" ", judge=judge())
