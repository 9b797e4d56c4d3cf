"""An agent's memory: what it is shown once a turn, what it keeps, and what it learns by."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    local_index,
)
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollections
from tests.support import wayward_chat
from tests.support.agents import ScriptedModel, Way, agent_on, scripted
from tests.support.coded import coded
from tests.support.graphs import ACME, add, answers, asks, call, counts, learned, off_the_loop, pay
from tests.support.opening import DIMS, Clock, FailingEmbeddings, text_index

VAULT = "The vault is in the cellar"
LESSON = "Do instead: add"
PAYS, PAYS_AGAIN = (call("pay", number, amount="5") for number in (1, 2))
FAILS, WORKS = call("add", 1, amount="5,678"), call("add", 2, amount="5678")
TELLING_ADD = add.model_copy(update={"handle_tool_error": True})


class Counting(MemoryCoordinator):
    """Counts what it is asked."""

    asked: list[str]

    def get_context(self, query: str, **options: Any) -> Recollections:
        self.asked.append(query)
        return super().get_context(query, **options)

    async def aget_context(self, query: str, **options: Any) -> Recollections:
        self.asked.append(query)
        return await super().aget_context(query, **options)


@pytest.fixture
def counting() -> type[Counting]:
    return type("Counted", (Counting,), {"asked": []})


@pytest.fixture
def ready(store: TieredStore) -> TieredStore:
    MemoryCoordinator(store, context=ACME).store(VAULT, memory_type="semantic")
    return store


def agent(
    model: Any, store: TieredStore, *beside: Any, saver: Any = None, system: Any = None, **own: Any
) -> Any:
    middleware = (TieredMemoryMiddleware(**own), *beside)
    tools = [TELLING_ADD, pay]
    return agent_on(
        store, model, *middleware, tools=tools, checkpointer=saver, system_prompt=system
    )


def said(text: str = "Where is the vault?", number: int | None = None) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=number and f"m{number}")]}


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def systems(model: ScriptedModel) -> list[str]:
    """The system message of each request; empty if it had none."""
    first = [messages[0] for messages in model.seen]
    return [one.text if isinstance(one, SystemMessage) else "" for one in first]


def kept(store: TieredStore) -> list[tuple[str | None, str | None, str]]:
    """What was said, in its order: in which session, by whom, and the words."""
    memory = MemoryCoordinator(store, context=ACME)
    found = memory.get_context("", memory_types=["episodic"], limit=100)
    in_order = sorted(found, key=lambda one: (one.created_at, one.speaker != "user"))
    return [(one.session_id, one.speaker, one.content) for one in in_order]


async def test_memories_are_shown_once_a_turn_and_never_saved_and_what_was_said_is_remembered(
    way: Way, counting: type[Counting]
) -> None:
    model = scripted(PAYS, PAYS_AGAIN, "In the cellar")
    await MemoryCoordinator(way.store, context=ACME).astore(VAULT, memory_type="semantic")
    made = agent(model, way.store, coordinator=counting, system="Be brief", limit=1, remember=True)
    state = await way(made, said(), config=thread("chat-7"), context=ACME)

    first = systems(model)[0]
    assert systems(model) == [first] * 3
    assert first.startswith("Be brief\n\n<memories>\n")
    assert VAULT in first
    assert VAULT not in str(state)
    assert counting.asked == ["Where is the vault?"]
    assert await off_the_loop(kept, way.store) == [
        ("chat-7", "user", "Where is the vault?"),
        ("chat-7", "assistant", "In the cellar"),
    ]


async def test_what_an_agent_says_after_its_tools_is_trusted_as_these_are(way: Way) -> None:
    model = scripted(call("pay", 1, amount="5"), "5 EUR went to the vault", "The vault is shut")
    built = agent(model, way.store, saver=InMemorySaver())
    for number, question in enumerate(("Pay 5 EUR", "Is the vault shut?")):
        await way(built, said(question, number), config=thread("t"), context=ACME)
    found = await MemoryCoordinator(way.store, context=ACME).aget_context("", session_id="t")

    assert {one.content: one.value.get("trust", 1.0) for one in found} == {
        "Pay 5 EUR": 1.0,
        "5 EUR went to the vault": 0.6,
        "Is the vault shut?": 1.0,
        "The vault is shut": 0.8,
    }


async def test_a_turn_is_recalled_once_and_no_checkpoint_and_no_stream_shows_what_was(
    ready: TieredStore, counting: type[Counting]
) -> None:
    saver = InMemorySaver()
    model = scripted(PAYS, "done", "one", "two", "three")
    made = agent(model, ready, coordinator=counting, saver=saver, remember=False)
    modes = ["values", "updates", "messages", "custom", "tasks"]
    streamed = made.astream(said(), thread("1"), context=ACME, stream_mode=modes)
    shown = [one async for one in streamed]
    checkpoints = list(saver.list(thread("1")))
    for name, number in (("1", None), ("2", 1), ("3", 1)):
        made.invoke(said("And the key?", number), thread(name), context=ACME)

    assert {mode for mode, _ in shown} >= {"values", "updates", "messages", "tasks"}
    assert len(checkpoints) > 3
    assert VAULT not in str(shown) + str(checkpoints)
    assert counting.asked == ["Where is the vault?", *(["And the key?"] * 3)]
    assert kept(ready) == []  # where it is switched off


def test_without_memories_the_request_stays_as_it_was_and_labels_may_come_from_configurable(
    ready: TieredStore,
) -> None:
    model = scripted("nothing")
    by_user = MemoryContext(tenant="{user_id}", project_id="billing")
    for user in ("new", "acme"):
        made = agent(model, ready, context=by_user)
        made.invoke(said(), {"configurable": {"user_id": user}})
    assert [type(one) for one in model.seen[0]] == [HumanMessage]
    assert VAULT in systems(model)[1]


def test_a_run_that_was_interrupted_is_shown_the_same_when_it_goes_on_and_is_reminded_still(
    ready: TieredStore, counting: type[Counting]
) -> None:
    MemoryCoordinator(ready, context=ACME).reminders.add("Call the bank")
    model = scripted(PAYS, PAYS_AGAIN, "done")
    asking = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    made = agent(model, ready, asking, coordinator=counting, saver=InMemorySaver())
    made.invoke(said(), thread("1"), context=ACME)
    for _ in range(2):
        approved: Any = Command(resume={"decisions": [{"type": "approve"}]})
        made.invoke(approved, thread("1"), context=ACME)

    first, *others = systems(model)
    assert others == [first] * 2
    assert VAULT in first
    assert "] Call the bank\n" in first
    assert counting.asked == ["Where is the vault?"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"profile": "nearest"}, "profile"),
        ({"tenant": "acme"}, "did you mean 'context'"),
        ({"context": {"team": "acme"}}, "team"),
        ({"context": {"session_id": ""}}, "session_id"),
        ({"context": {"tenant": 5}}, "tenant"),
        ({"context": "acme"}, "context"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_at_once(options: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        TieredMemoryMiddleware(**options)


def test_each_message_is_remembered_once_by_its_thread_its_id_and_its_words(
    ready: TieredStore,
) -> None:
    tea, clock = "The tea is in the kitchen drawer.", "The clock hangs beside the door."
    texts = (tea, tea, clock, f"As I recall: {VAULT}", "")
    made = agent(scripted(*(AIMessage(one, id="a") for one in texts)), ready, remember=True)
    mine = MemoryContext(tenant="acme", project_id="billing", session_id="mine")
    things = ("tea", "clock", "lamp")
    first, second, fourth = (f"Where did we put the {one} last summer?" for one in things)
    third = "Where is the vault?"
    for name, question, context in (
        *[("1", first, ACME)] * 2,  # a run that is repeated
        *(("2", second, mine), ("3", third, ACME), ("", fourth, ACME)),
    ):
        made.invoke(said(question, 1), thread(name) if name else None, context=context)

    heard = [(session, words) for session, _, words in kept(ready)]
    assert sorted(heard, key=str) == sorted([
        ("1", first), ("1", tea), ("mine", second), ("mine", clock), ("3", third), (None, fourth),
    ], key=str)  # fmt: skip


def test_of_a_long_message_both_ends_are_kept_and_what_the_user_repeats_is_kept_as_well(
    ready: TieredStore,
) -> None:
    pasted = "Read this log: " + "all is well. " * 8_000 + "What is wrong?"
    made = agent(scripted("Nothing at all.", "So it is."), ready)
    for number, text in enumerate((pasted, VAULT)):
        made.invoke(said(text, number), thread(str(number)), context=ACME)

    (log, repeated) = (words for _, speaker, words in kept(ready) if speaker == "user")
    assert log.startswith("Read this log: all is well.")
    assert log.endswith("What is wrong?")
    assert "[… 84,029 characters left out …]" in log
    assert 20_000 < len(log) < 20_100
    assert repeated == VAULT


def test_what_stands_among_the_messages_is_not_recalled_as_well(ready: TieredStore) -> None:
    model = scripted("First answer on vaults", "Second answer")
    made = agent(model, ready, remember=True, saver=InMemorySaver(), limit=1)
    for name, which in (("1", "safe"), ("1", "big"), ("2", "safe now")):
        made.invoke(said(f"Is the vault {which}?"), thread(name), context=ACME)
    _, within, elsewhere = systems(model)
    assert "First answer on vaults" not in within
    assert VAULT in within
    assert "First answer on vaults" in elsewhere


def test_an_agent_works_against_an_openai_compatible_server(ready: TieredStore) -> None:
    pays, answer = wayward_chat.calls("pay", '{"amount": "5"}'), "In the cellar, behind the wine"
    with wayward_chat.wayward(pays, wayward_chat.says(answer)) as server:
        model = ChatOpenAI(model="local", base_url=server.url, api_key=lambda: "none")
        made = agent(model, ready, remember=True, system="Be brief")
        state = made.invoke(said(), thread("1"), context=ACME)

    first, second = (asked["messages"][0] for asked in server.asked)
    assert first == second
    assert first["role"] == "system"
    assert VAULT in first["content"]
    assert state["messages"][-1].text == answer
    assert [words for _, _, words in kept(ready)] == ["Where is the vault?", answer]


def test_a_middleware_keeps_the_memories_of_few_turns(ready: TieredStore) -> None:
    made = TieredMemoryMiddleware()
    own = agent_on(ready, scripted("x"), made)
    for _ in range(3):
        own.invoke(said(), context=ACME)
    turns = made._turns
    assert len(turns) == 3
    one = next(iter(turns.values()))
    turns.update({str(number): one for number in range(256)})
    own.invoke(said(), context=ACME)
    assert len(turns) == 256


def test_what_is_switched_off_is_not_done(ready: TieredStore) -> None:
    MemoryCoordinator(ready, context=ACME).reminders.add("Call the bank")
    model = scripted("Fine.", "Fine.")
    off = agent(model, ready, recall=False, remind=False, remember=False)
    off.invoke(said("Remind me to call Ben tomorrow"), thread("1"), context=ACME)
    assert [type(one) for one in model.seen[0]] == [HumanMessage]
    assert kept(ready) == []
    agent(model, ready, recall=False).invoke(said(), thread("2"), context=ACME)
    assert "Call the bank" in systems(model)[1]
    assert VAULT not in systems(model)[1]


# Learning


async def test_an_agent_is_shown_the_lesson_of_a_failure_beside_it_and_all_it_used_is_credited(
    way: Way,
) -> None:
    store = way.store
    lesson = await off_the_loop(learned, store)
    memory = MemoryCoordinator(store, context=ACME)
    fact = await memory.astore("Invoices to add up lie in the cellar", memory_type="semantic")
    for success, counted in ((True, (1, 0)), (False, (1, 1))):
        model = scripted(FAILS, WORKS, "Done: they lie in the cellar")
        options = {"memory_types": ["semantic"], "holdout": 0}
        made = agent(model, store, outcome=lambda _, it=success: it, **options)
        state = await way(made, {"messages": [asks()]}, context=ACME)
        before, *others = systems(model)
        assert others == [before] * 2
        assert "lie in the cellar" in before
        assert LESSON not in before
        assert [LESSON in one.text for one in answers(state)] == [True, False]
        assert await off_the_loop(counts, store, lesson, str(fact.key)) == [counted] * 2


def test_what_an_agents_turn_goes_without_is_shown_nowhere(store: TieredStore) -> None:
    learned(store)
    model = scripted(call("add", 1, amount="1,234"), "Done")
    made = agent(model, store, holdout=1.0, remember=True, min_match=0)
    state = made.invoke({"messages": [asks()]}, thread("1"), context=ACME)

    (answer,) = answers(state)
    assert systems(model) == ["", ""]
    assert "Do instead" not in str(state)
    assert "has a comma" in answer.text


@pytest.mark.parametrize("on_error", ["continue", "raise"])
def test_an_answer_is_not_lost_by_an_embedding_model_that_fails(url: str, on_error: Any) -> None:
    with TieredStore(url, index=text_index(embed=FailingEmbeddings(DIMS))) as store:
        store.setup()
        made = agent(scripted("In the cellar"), store, on_error=on_error)
        asked = said("Is there poison in the vault?")
        if on_error == "raise":
            with coded("model_failed", match="the model refuses this text"):
                made.invoke(asked, thread("1"), context=ACME)
            return
        state = made.invoke(asked, thread("1"), context=ACME)
        assert state["messages"][-1].text == "In the cellar"
        assert state["memory_errors"].keys() == {"recall", "remember"}
        assert kept(store) == []  # nothing is said to be stored that was not


def test_what_was_asked_day_after_day_takes_one_place_at_most(
    store: TieredStore, clock: Clock
) -> None:
    model = scripted(*(f"No {n}" for n in range(8)))
    made = agent(model, store, min_match=0)
    for day, question in enumerate([*(["Where is the vault?"] * 7), "Which vault is it?"]):
        clock.advance(days=1)
        made.invoke(said(question), thread(str(day)), context=ACME)
    assert systems(model)[-1].count("Where is the vault?") == 1


def test_an_agent_is_shown_where_its_user_lives_on_later_days_and_where_they_moved(
    database_url: str, clock: Clock
) -> None:
    model = scripted(*["Noted."] * 9)
    with TieredStore(database_url, index=local_index(), clock=clock) as store:
        store.setup()
        made = agent(model, store)

        def says(text: str) -> str:
            made.invoke(said(text), thread(f"{clock()}"), context=ACME)
            clock.advance(minutes=1)
            return systems(model)[-1]

        says("I live in Lisbon with my dog Rex.")
        says("Tell me a joke")
        says("My favourite editor is Neovim.")
        for _ in range(2):
            clock.advance(days=1)
            shown = says("Where do I live?")
            assert "Lisbon" in shown
            assert "joke" not in shown
        clock.advance(days=1)
        says("Actually I moved to Porto last week.")
        clock.advance(days=1)
        shown = says("Where do I live?")
        assert "Porto" in shown
        assert "Lisbon" not in shown.partition("Porto")[0]
        assert "Lisbon" not in says("Write a haiku about snow")
