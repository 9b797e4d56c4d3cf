"""What a user takes back or corrects, as a model or the words say: undone or replaced, and told."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    local_index,
)
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.graph.recall import MemoryState
from tests.integration.test_middleware import agent, said, systems, thread
from tests.support.agents import ScriptedModel, Way, scripted
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


def talk(
    store: TieredStore, by: Any, *texts: str, context: MemoryContext = ACME, **own: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """Say each text in a thread of its own; the states, and what the model was shown."""
    model = scripted(*(f"So it is, number {number}." for number in range(len(texts))))
    made = agent(model, store, judge=by, **own)
    states = [
        made.invoke(said(text, number), thread(f"t{number}"), context=context)
        for number, text in enumerate(texts)
    ]
    return states, systems(model)


def memory_of(store: TieredStore, context: MemoryContext = ACME) -> MemoryCoordinator:
    return MemoryCoordinator(store, context=context)


def known(store: TieredStore, context: MemoryContext = ACME, **options: Any) -> list[str]:
    found = memory_of(store, context).get_context("", limit=50, **options)
    return sorted(one.content for one in found)


async def joked(
    way: Way, clock: Clock, made: Any, model: ScriptedModel, joke: str
) -> dict[str, Any]:
    """What is told of a joke that is taken back, of which another thread is shown nothing."""
    states = []
    for number, text in enumerate((TWIN, joke, "What does my brother Otto do?")):
        clock.advance(minutes=1)
        config = thread("one" if number < 2 else "two")
        states.append(await way(made, said(text, number), config=config, context=ACME))

    assert [len(one.get("revised", ())) for one in states] == [0, 1, 0]
    shown = systems(model)[-1]
    assert not [one for one in ("astronaut", "Amazing", "kidding", "had me") if one in shown]
    (told,) = states[1]["revised"]
    return dict(told)


async def test_what_was_a_joke_is_not_shown_any_more_and_restoring_brings_it_back(
    way: Way, clock: Clock
) -> None:
    by = judge(FORGETS)
    model = scripted("Really? Amazing!", "You had me there.", "None.")
    made = agent(model, way.store, judge=by, saver=InMemorySaver(), min_match=0)
    told = await joked(way, clock, made, model, JOKE)
    assert [message for message, _ in by.shown] == [JOKE]

    memory = memory_of(way.store)
    history = await memory.ahistory(told["retracted"])
    assert "taken back by the user's message" in str(history)
    then = await off_the_loop(lambda: known(way.store, known_at=clock.now - timedelta(minutes=2)))
    assert TWIN in then
    restored = await memory.arestore(told["retracted"])
    assert len(restored.restored) == 3  # the answer, the message that took it back, and its answer
    assert {TWIN, JOKE, "Really? Amazing!"} <= set(await off_the_loop(known, way.store))


def test_what_is_corrected_is_recalled_as_the_correction_of_what_it_was_said_of(
    store: TieredStore,
) -> None:
    by = judge(CORRECTS, on=NO, more=True)
    (first, second, _), shown = talk(store, by, RENT, NO, "What is the rent of the studio?")
    assert "revised" not in first
    (told,) = second["revised"]
    (line,) = re.findall(r"^- .*560.*\n.*$", shown[2], re.MULTILINE)
    assert line == f"- {NO}\n    (said of: {RENT})"
    assert shown[2].count("650") == 1
    assert memory_of(store).rollback(told["move"])
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
    (_, state), _ = talk(store, by, TWIN, JOKE)
    assert {TWIN, JOKE} <= set(known(store))
    assert "revised" not in state
    assert (failed or "") in state.get("memory_errors", {}).get("judge", "")
    assert ("memory_errors" in state) is (failed is not None)
    assert state["messages"][-1].text == "So it is, number 1."


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


def remembering(store: TieredStore, by: Any) -> Any:
    builder: Any = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("remember", create_remember_node(judge=by))
    builder.set_entry_point("remember")
    return builder.compile(store=store)


def test_nobody_takes_back_what_another_user_said_or_what_is_everybodys(store: TieredStore) -> None:
    by = judge(FORGETS)
    ada, ben = (MemoryContext(tenant="acme", user_id=one) for one in ("ada", "ben"))
    memory_of(store, ben).store(TWIN, key="ben's")
    memory_of(store, ada).store(f"Everybody knows: {TWIN}", key="all", personal=False)
    memory_of(store, ada).store("How to greet Otto: wave.", "procedural", key="how")
    memory_of(store, ada).store("Otto is on the roof.", source="tool", key="tool")
    (_, state), _ = talk(store, by, TWIN, JOKE, context=ada)
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
    (_, state), _ = talk(store, by, both, JOKE)
    (told,) = state["revised"]
    assert {rest, JOKE} <= set(known(store))  # it tells more, as the judge says
    assert both not in known(store)
    (kept,) = (one for one in memory_of(store).get_context("", limit=9) if one.content == rest)
    assert (kept.speaker, kept.session_id) == ("user", "t0")
    memory_of(store).restore(told["retracted"])
    assert both in known(store)


def test_a_reminder_that_is_called_off_is_not_raised(store: TieredStore, clock: Clock) -> None:
    never = "Never mind the dentist, I cancelled."
    by = judge(("retract", "dentist", 0.9, ""), on=never)
    asks = "Remind me tomorrow to call the dentist."
    (_, state), _ = talk(store, by, asks, never)
    assert len(state["revised"]) == 1
    clock.advance(days=2)
    assert memory_of(store).remind("Hello") == []
    memory_of(store).restore(state["revised"][0]["retracted"])
    assert [one.content for one in memory_of(store).remind("Hello")] == [asks]


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


KIDDING = "I was only kidding about my twin brother Otto."
PLAIN = [
    (TWIN, "Forget that about my twin brother Otto.", "Okay, forgotten."),
    ("I play the cello.", "I was just kidding, I do not play the cello.", "Ha, you had me there."),
    (
        "The neighbour has three goats in the garden.",
        "I was kidding, the neighbour has no goats.",
        "Ha, you had me there.",
    ),
    (
        "We are moving to Norway in May.",
        "Forget Norway, we are not moving after all.",
        "Okay, forgotten.",
    ),
]
"""A fact, what takes it back in plain words, and what an assistant answers to that."""
UNRELATED = (
    "My sister works as a nurse in Lisbon.",
    "Our son is allergic to peanuts.",
    "We adopted a dog called Bruno last week.",
)


async def test_what_is_plainly_taken_back_needs_no_judge_and_restoring_brings_it_back(
    way: Way, clock: Clock
) -> None:
    model = scripted("Really? Amazing!", "Ha, you had me there.", "I do not know.")
    made = agent(model, way.store, saver=InMemorySaver(), min_match=0)
    told = await joked(way, clock, made, model, KIDDING)
    memory = memory_of(way.store)
    assert "taken back by the user's message" in str(await memory.ahistory(told["retracted"]))
    restored = await memory.arestore(told["retracted"])
    assert len(restored.restored) == 3  # the answer, the message that took it back, and its answer
    assert {TWIN, KIDDING, "Really? Amazing!"} <= set(await off_the_loop(known, way.store))


def hears(
    graph: Any, text: str, answer: str, context: MemoryContext = ACME, name: str = "1"
) -> dict[str, Any]:
    """The state after one turn of a thread."""
    messages = [HumanMessage(text, id=text), AIMessage(answer, id=f"to {text}")]
    state: dict[str, Any] = graph.invoke({"messages": messages}, thread(name), context=context)
    return state


def taken_back(
    store: TieredStore, clock: Clock, fact: str, back: str, answer: str, *here: str
) -> None:
    """Among what was said in another thread, and here, that alone is taken back, and restored."""
    graph = remembering(store, None)
    others = (("0", one) for one in UNRELATED)
    for name, text in (*others, *(("1", one) for one in (*here, fact))):
        assert hears(graph, text, "Noted.", name=name)["revised"] == []
        clock.advance(minutes=1)
    before = known(store)
    (told,) = hears(graph, back, answer)["revised"]
    after = known(store)
    assert not {fact, back} & {*after}
    assert {*UNRELATED} <= {*after}
    memory_of(store).restore(told["retracted"])
    assert {*before, back} <= {*known(store)}


@pytest.mark.parametrize(("fact", "back", "answer"), PLAIN)
def test_the_node_takes_back_what_is_meant_alone_and_tells_it(
    store: TieredStore, clock: Clock, fact: str, back: str, answer: str
) -> None:
    taken_back(store, clock, fact, back, answer, *UNRELATED)


@pytest.mark.parametrize(
    ("back", "answer"),
    [("Forget that.", "Okay."), ("I was kidding.", "Ha, you had me there.")],
)
def test_what_takes_back_and_says_no_more_is_about_what_was_said_right_before(
    database_url: str, clock: Clock, back: str, answer: str
) -> None:
    fact = "My grandmother won the lottery and bought a castle in Scotland."
    with TieredStore(database_url, index=local_index("minilm"), clock=clock) as store:
        store.setup()
        taken_back(store, clock, fact, back, answer)


@pytest.mark.parametrize("text", UNRELATED)
def test_what_tells_something_else_takes_nothing_back(store: TieredStore, text: str) -> None:
    states, _ = talk(store, None, TWIN, text)
    assert not [one for one in states if "revised" in one]
    assert {TWIN, text} <= {*known(store)}
    assert memory_of(store).revise(text, answer="Noted.").retracted == ()


def test_what_one_user_plainly_takes_back_another_has_still(store: TieredStore) -> None:
    ada, ben, cleo = (MemoryContext(tenant="acme", user_id=one) for one in ("ada", "ben", "cleo"))
    graph = remembering(store, None)
    for one in (ada, ben):
        hears(graph, TWIN, "Amazing!", one)
    assert hears(graph, KIDDING, "Ha, you had me there.", cleo)["revised"] == []
    assert TWIN in known(store, ada)
    (told,) = hears(graph, KIDDING, "Ha, you had me there.", ada)["revised"]
    assert TWIN not in known(store, ada)
    assert TWIN in known(store, ben)
    here = MemoryContext(tenant="acme", user_id="ben", session_id="1")
    (retraction,) = memory_of(store, here).revise(KIDDING, answer="Ha!").retracted
    assert retraction.key == told["retracted"]  # of two users, two memories
    assert TWIN not in known(store, ben)


def test_who_wants_nothing_revised_says_so_and_what_is_no_model_is_refused(
    store: TieredStore,
) -> None:
    states, _ = talk(store, None, TWIN, KIDDING, revise=False)
    assert not [one for one in states if "revised" in one]
    assert {TWIN, KIDDING} <= {*known(store)}
    makes: list[Callable[..., Any]] = [
        create_remember_node,
        lambda judge, **own: talk(store, judge, **own),
    ]
    for make in makes:
        with pytest.raises(InvalidTypeError, match="chat model"):
            make(judge="gpt")
        with pytest.raises(InvalidInputError, match="leave one of both out"):
            make(judge=judge(), revise=False)
    with pytest.raises(InvalidInputError, match="text is empty"):
        memory_of(store).revise(" ", judge=judge())
