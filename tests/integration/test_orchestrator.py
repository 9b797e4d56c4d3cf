"""A turn: what it is shown, what it keeps, and what becomes of that; blocking and async."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.errors import GraphInterrupt

from langmem_tiers import (
    Budget,
    MemoryCoordinator,
    MemoryOrchestrator,
    OrchestratorSettings,
    Persona,
    TieredStore,
    create_assemble_node,
)
from langmem_tiers.core.errors import (
    BudgetExceededError,
    ConfigurationError,
    DatabaseError,
    InvalidInputError,
    InvalidTypeError,
)
from langmem_tiers.turn.layout import ORCHESTRATOR, PERSONA, Layout, Stage
from tests.support.coordinating import Caller, Verbs, calling, coordinator, keys
from tests.support.opening import Clock, Opener, tables
from tests.support.plans import calls_of
from tests.support.turning import turning

TYPO = {"limitt": 3}
BAD = "ValueError: the amount '1,234' has a comma"


@pytest.fixture
async def call(open_store: Opener, url: str) -> AsyncIterator[Caller]:
    """A coordinator of (acme, billing, chat), called each way."""
    async with calling(open_store, url, project_id="billing", session_id="chat") as opened:
        yield opened


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    """A blocking coordinator of (acme, billing, chat)."""
    return coordinator(store, project_id="billing", session_id="chat")


def add_wrongly_then_rightly(turn: Any, number: str = "1") -> None:
    of = {"of": "May"}
    turn.of.track_tool_invocation("add", {"amount": f"{number},234", **of}, error=BAD)
    turn.of.track_tool_invocation("add", {"amount": f"{number}234", **of}, result="added")
    turn.of.track_tool_invocation("pay", {"amount": f"{number}234"}, result="paid")


# Assembly


async def test_without_a_source_of_goals_they_are_those_of_the_short_term_state(
    call: Caller, clock: Clock
) -> None:
    state = call.memory.state
    await state.aset_goal("rotate", "Rotate the keys", constraints=["Not on Fridays"])
    await state.astart_task("calling Ann")
    await state.aadd_interaction("user", "Where is it?")
    clock.advance(minutes=1)
    await state.aadd_interaction("assistant", "Here.")

    async with turning(call) as turn:
        context = await turn("assemble_context", "thanks")

    assert [one.text for one in context.fragments if one.source == "goals"] == [
        "Active goals:\n- Rotate the keys (0% done)",
        "Pending actions:\n- calling Ann (in_progress)",
        "Constraints:\n- Not on Fridays",
    ]
    assert "<memories>" in context.text
    assert "[2026-03-01T12:00:00+00:00] user: Where is it?\n[" in context.text


def test_each_stage_is_one_round_trip_and_the_prompt_is_embedded_once(memory: Any) -> None:
    memory.store("Keys rotate on Mondays", memory_type="semantic")
    with MemoryOrchestrator(memory) as turn:
        sent = calls_of(memory.tiered_store, lambda: turn.assemble_context("keys"))

    recalls = [one for one in sent if one.name.startswith("recall")]
    by_vector = [one.params["query"] for one in recalls if one.params.get("text")]
    assert len(recalls) == 5  # conversation, working and its newest, episodic, semantic
    assert len(by_vector) == 3
    assert by_vector[0] is by_vector[1] is by_vector[2]


class Daemon:
    """Answers four questions, all of them only once all four were asked; maybe in Futures."""

    def __init__(self, pool: ThreadPoolExecutor | None = None) -> None:
        self.together = threading.Barrier(4, timeout=30)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        ask = self._answer
        self.query: Any = ask if pool is None else lambda *told: pool.submit(ask, *told)

    def _answer(self, question: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((question, dict(metadata)))
        self.together.wait()
        item = {"id": question[:6], "content": question, "rationale": "because"}
        return {"items": [item], "effective_at": datetime(2026, 1, 1, tzinfo=UTC)}


class AsyncDaemon:
    """The same, on a loop."""

    def __init__(self) -> None:
        self.asked, self.all = 0, asyncio.Event()

    async def query(self, question: str, _: Mapping[str, Any]) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 4:
            self.all.set()
        await asyncio.wait_for(self.all.wait(), 30)
        return {"items": [{"id": question, "content": question}], "effective_at": "v1"}


async def test_the_four_identity_queries_run_side_by_side_and_know_the_mode(call: Caller) -> None:
    daemon = Daemon()

    async with turning(call, sources={"identity": daemon}, mode="support") as turn:
        first, *_ = (await turn("assemble_context", "hello")).fragments

    assert len(daemon.asked) == 4
    assert dict(daemon.asked)["What capabilities do I have?"] == {"current_mode": "support"}
    assert first.text == "- What is my core identity and charter?"
    assert (first.version, first.rationale) == ("2026-01-01T00:00:00+00:00", "because")


async def test_a_daemon_whose_queries_return_futures_is_waited_for(call: Caller) -> None:
    with ThreadPoolExecutor() as pool:
        async with turning(call, sources={"identity": Daemon(pool)}) as turn:
            assert len((await turn("assemble_context", "hello")).fragments) == 4


async def test_an_async_daemon_is_awaited_in_an_async_turn(memory: Any) -> None:
    async with MemoryOrchestrator(memory, sources={"identity": AsyncDaemon()}) as turn:
        assert len((await turn.aassemble_context("hello")).fragments) == 4
    blocking = MemoryOrchestrator(memory, sources={"identity": AsyncDaemon()}).begin()
    with pytest.raises(ConfigurationError, match="use `async with` and aassemble_context"):
        await asyncio.to_thread(blocking.assemble_context, "hello")


def test_mandates_of_a_mapping_are_those_of_the_mode(memory: Any) -> None:
    identity = {
        "identity": ["I am Nova"],
        "mandates": {"*": ["Be kind"], "support": ["Be brief"], "sales": ["Be bold"]},
        "governance": [{"id": "g1", "content": "No secrets", "rationale": "law"}],
        "effective_at": "2026-01-01",
    }

    with MemoryOrchestrator(memory, sources={"identity": identity}, mode="support") as turn:
        context = turn.assemble_context("hello")

    assert context.text == "## Consciousness\n- I am Nova\n- Be kind\n- Be brief\n- No secrets"
    assert {one.version for one in context.fragments} == {"2026-01-01"}


@pytest.mark.parametrize("noted", [False, True])
def test_a_conversation_is_its_last_messages_and_a_summary_of_the_rest(
    memory: Any, clock: Clock, *, noted: bool
) -> None:
    messages = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": f"message {n}"}
        for n in range(24)
    ]
    messages[1]["content"] = f"Both would do. {'It depends. ' * 20}So the van leaves at nine."
    for one in messages if noted else ():
        clock.advance(seconds=1)
        memory.state.add_interaction(**one)

    with MemoryOrchestrator(memory) as turn:
        given = None if noted else messages
        context = turn.assemble_context("message 24", messages=given)

    texts = [one.text for one in context.fragments]
    assert texts[1:] == [f"message {n}" for n in range(4, 24)]
    first, *lines = texts[0].splitlines()
    assert first == "Earlier in this conversation, 4 messages:"
    assert lines[0::2] == ["- user: message 0", "- user: message 2"]
    assert lines[1].startswith("- assistant: Both would do. ")
    assert lines[1].endswith("So the van leaves at nine.")
    assert lines[3] == "- assistant: message 3"
    assert "assistant: message 23" in context.text


def test_a_summary_of_a_long_conversation_is_no_longer_for_it(memory: Any) -> None:
    messages = [f"message {n} " * 9 for n in range(200)]
    with MemoryOrchestrator(memory) as turn:
        summary = turn.assemble_context("go on", messages=messages).fragments[0].text

    assert len(summary) < 1_700
    assert summary.splitlines()[1].startswith("- and 1")
    assert "message 179" in summary.splitlines()[-1]


def test_without_messages_a_conversation_is_what_the_session_remembers(
    memory: Any, clock: Clock
) -> None:
    for speaker, said in (("user", "Where is it?"), ("assistant", "Here.")):
        clock.advance(minutes=1)
        memory.store(said, speaker=speaker)
    memory.store("Elsewhere", speaker="user", session_id="other")
    memory.store("No turn of anybody")

    with MemoryOrchestrator(memory) as turn:
        context = turn.assemble_context("thanks")

    texts = [one.text for one in context.fragments if one.source == "conversation"]
    assert texts == ["Where is it?", "Here."]
    assert "[2026-03-01T12:01:00+00:00] user: Where is it?" in context.text


@pytest.mark.parametrize("noted", ["state", "memories"])
def test_an_agent_reads_no_other_agents_conversation_as_its_own(
    store: TieredStore, clock: Clock, noted: str
) -> None:
    said_to = {None: "The van is back", "ann": "Where is it?", "ben": "Pay the bill"}
    for agent, text in said_to.items():
        one = coordinator(store, session_id="chat", agent_id=agent)
        clock.advance(minutes=1)
        if noted == "state":
            one.state.add_interaction("user", text)
        else:
            one.store(text, speaker="user")

    def said(agent: str | None) -> list[str]:
        memory = coordinator(store, session_id="chat", agent_id=agent)
        with MemoryOrchestrator(memory) as turn:
            shown = turn.assemble_context("thanks").fragments
        return [one.text for one in shown if one.source == "conversation"]

    of_nobody = ["The van is back"] if noted == "state" else []
    assert said("ann") == [*of_nobody, "Where is it?"]
    assert said("ben") == [*of_nobody, "Pay the bill"]
    assert said(None) == list(said_to.values())


def test_a_persona_remembers_no_intention_as_if_it_had_happened(memory: Any) -> None:
    memory.store("Keys rotate on Mondays", importance=0.9, key="fact")
    memory.store("Rotate the keys", "prospective", importance=0.9, key="plan")
    every = {"min_match": 0}

    with MemoryOrchestrator(memory, layout=PERSONA, sources={"persona": lambda *_: "Nova"}) as turn:
        shown = keys(turn.assemble_context("rotate the keys", filters=every).memories)
        plans = {"memory_types": ["prospective"], **every}
        wanted = turn.assemble_context("keys", filters=plans)

    assert (shown, keys(wanted.memories)) == (["fact"], [])


STAGE = Stage(source="semantic", title="#", options=TYPO)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"budget": 500}, r"budget is a Budget, such as Budget\(tokens=500\), not 500"),
        ({"layout": "PERSONA"}, "layout is ORCHESTRATOR, PERSONA or a Layout"),
        ({"layout": PERSONA}, r"give sources=\{'persona': …\}"),
        (
            {"layout": Layout(name="x", stages=(STAGE,))},
            "the options of the stage 'semantic': there is no 'limitt': use one of .*limit",
        ),
        ({"sources": [len]}, "sources is a mapping of sources by name"),
        (
            {"sources": {"mine": lambda prompt: prompt}},
            r"the source 'mine' takes \(prompt, metadata\), not \(prompt\)",
        ),
        ({"sources": {"mine": "text"}}, "a source is anything with remember"),
        ({"sources": {"goals": {}}}, "or such a function, not dict; identity may be a mapping"),
        ({"router": 5}, "router is a function or None, not 5"),
    ],
)
def test_an_argument_of_another_type_is_refused_with_what_to_give(
    memory: Any, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises((InvalidTypeError, ConfigurationError), match=said):
        MemoryOrchestrator(memory, **wrong)


def test_a_router_may_leave_it_to_the_words_and_answers_a_route_else(memory: Any) -> None:
    with MemoryOrchestrator(memory, router=lambda _: None) as turn:
        (one,) = turn.memorize("Keys rotate on Mondays").destinations
        turn.commit()
    words: Any = {"router": lambda _: "semantic"}
    with MemoryOrchestrator(memory, **words) as turn:
        with pytest.raises(InvalidTypeError, match=r"a router answers Route\(.*, not 'semantic'"):
            turn.memorize("Doors close at nine")
        assert not turn.commit().stored

    assert one.memory_type == "semantic"


def test_a_filter_that_no_recall_takes_and_a_budget_of_a_turn_are_refused(memory: Any) -> None:
    with MemoryOrchestrator(memory) as turn:
        with pytest.raises(InvalidTypeError, match="filters: there is no 'limitt': use one of"):
            turn.assemble_context("keys", filters=TYPO)
        with pytest.raises(InvalidTypeError, match="a Budget is the turn's"):
            turn.assemble_context("keys", budget=Budget(tokens=5))  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="filters: there is no 'limitt'"):
        create_assemble_node(filters=TYPO)


def down(prompt: str, _: Mapping[str, Any]) -> str:
    raise ConnectionError(f"down, asked {prompt}")


async def down_on_a_loop(prompt: str, told: Mapping[str, Any]) -> str:
    return down(prompt, told)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (down, "ConnectionError: down, asked keys"),
        (lambda *_: ["a list"], "InvalidTypeError: the source 'identity' answers a text"),
        ({"identity": [5]}, "InvalidTypeError: an item of identity is a mapping"),
    ],
)
async def test_a_source_that_fails_costs_its_own_section_and_is_told(
    call: Caller, caplog: pytest.LogCaptureFixture, source: Any, said: str
) -> None:
    if source is down and call.mode == "abatch":
        source = down_on_a_loop
    sources = {"identity": source, "crm": lambda *_: "A ticket"}
    async with turning(call, sources=sources) as turn:
        context = await turn("assemble_context", "keys")
        (refused,) = turn.of.trace.of_kind("refused")

    assert list(context.sources) == ["crm"]
    assert context.failed["identity"].startswith(said)
    assert refused.reasons == (context.failed["identity"],)
    assert refused.detail["what"] == "ask the source 'identity'"
    assert f"the source 'identity' of a turn failed: {said}" in caplog.text


async def test_a_source_that_is_slow_costs_its_own_section(call: Caller) -> None:
    done = threading.Event()

    def hangs(*_: Any) -> str:
        done.wait(30)
        return "late"

    async def hangs_on_a_loop(*_: Any) -> str:
        await asyncio.Event().wait()
        return "late"

    slow = {"crm": hangs, **({"desk": hangs_on_a_loop} if call.mode == "abatch" else {})}
    settings = OrchestratorSettings(source_seconds=0.05)
    sources = {**slow, "team": lambda *_: None, "wiki": lambda *_: "A page"}
    async with turning(call, sources=sources, settings=settings) as turn:
        context = await turn("assemble_context", "keys")
    done.set()

    assert list(context.sources) == ["wiki"]
    late = "TimeoutError: there was no answer within 0.05 seconds"
    assert context.failed == dict.fromkeys(slow, late)


def test_what_postgres_refuses_a_source_and_what_a_source_asks_a_person_go_on(memory: Any) -> None:
    for error in (DatabaseError("too late", code="query_timeout"), GraphInterrupt()):

        def refused(*_: Any, raised: Exception = error) -> str:
            raise raised

        with (
            MemoryOrchestrator(memory, sources={"crm": refused}) as turn,
            pytest.raises(type(error)) as known,
        ):
            turn.assemble_context("keys")
        assert known.value.__notes__ == ["raised by the source 'crm' of the turn"]


def test_a_source_is_replaced_only_where_that_is_asked_for(memory: Any) -> None:
    with MemoryOrchestrator(memory, sources={"crm": lambda *_: "old"}) as turn:
        for name in ("crm", "identity"):
            with pytest.raises(InvalidInputError, match=f"a source '{name}' already.*replace=True"):
                turn.register(name, lambda *_: "new")
        assert "old" in turn.assemble_context("keys").text

        turn.register("crm", lambda *_: "new", stage=Stage(source="crm", title="#"), replace=True)
        assert turn.assemble_context("keys").text.startswith("#\n<memories")
        with pytest.raises(InvalidInputError, match="the stage of 'wiki' names the source 'crm'"):
            turn.register("wiki", lambda *_: "new", stage=Stage(source="crm", title="#"))


def test_a_context_for_which_there_is_no_room_says_so(
    memory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    memory.store("Keys rotate on Mondays", memory_type="semantic")

    with MemoryOrchestrator(memory, budget=Budget(tokens=10)) as turn:
        assert turn.assemble_context("When do keys rotate?").text == ""
        (assembled,) = turn.trace.of_kind("assembled")

    assert assembled.reasons[0].endswith("0 of 10 tokens: the budget is too small for any")
    assert "the budget is too small for any" in caplog.text


def test_default_filters_hold_for_every_recall_and_a_calls_own_go_over_them(memory: Any) -> None:
    for agent in ("ann", "ben"):
        memory.store(f"Keys of {agent}", agent_id=agent, key=agent)
    settings = OrchestratorSettings(default_filters={"agent_id": "ann", "min_match": 0})

    with MemoryOrchestrator(memory, settings=settings) as turn:
        first = turn.assemble_context("keys")
        second = turn.assemble_context("keys", filters={"agent_id": "ben"})

    assert (keys(first.memories), keys(second.memories)) == (["ann"], ["ben"])


# Budgets


LONG_SOUL = Persona(
    persona_name="Nova",
    backstory="A guide to the old town. " + "She has walked its lanes for years. " * 200,
    core_values=("Honesty",),
    must_do=("Name your sources",),
    must_not_do=("Give medical advice",),
)
STANDS = ("**Name**: Nova", "- Name your sources", "MUST NOT: - Give medical advice")


@pytest.mark.parametrize("stage", ["persona", "identity"])
def test_of_a_persona_larger_than_the_budget_the_backstory_is_cut(memory: Any, stage: str) -> None:
    layout = PERSONA if stage == "persona" else ORCHESTRATOR
    with MemoryOrchestrator(memory, layout=layout, sources={stage: LONG_SOUL}) as turn:
        whole = turn.assemble_context("Hello")
        found = turn.assemble_context("Hello", budget=300)

    assert LONG_SOUL.backstory.strip() in whole.text
    assert all(one in found.text for one in (*STANDS, "- Honesty"))
    (backstory,) = re.findall(r"\*\*Backstory\*\*: (.*)", found.text)
    assert backstory.endswith(" […]")
    assert LONG_SOUL.backstory.startswith(backstory.removesuffix(" […]"))
    assert 250 <= found.tokens <= 300
    assert found.decisions[0].reason.startswith("cut to")


def test_a_personas_name_and_rules_stand_or_no_context_is_made(memory: Any) -> None:
    with MemoryOrchestrator(memory, layout=PERSONA, sources={"persona": LONG_SOUL}) as turn:
        least = turn.assemble_context("Hello", budget=45)
        with pytest.raises(InvalidInputError, match="and there are 10: give the turn a larger"):
            turn.assemble_context("Hello", budget=10)

    assert all(one in least.text for one in STANDS)
    assert least.tokens <= 45


def test_what_a_turn_has_spent_leaves_no_room_for_a_persona(memory: Any) -> None:
    sources, budget = {"persona": LONG_SOUL}, Budget(tokens=320)
    with MemoryOrchestrator(memory, layout=PERSONA, sources=sources, budget=budget) as turn:
        turn.assemble_context("Hello", budget=300)
        with pytest.raises(BudgetExceededError, match="what has to stand"):
            turn.assemble_context("Hello")


async def test_contexts_that_are_assembled_at_once_share_the_tokens_of_the_turn(
    memory: Any,
) -> None:
    memory.store_many(f"Key {n} rotates on day {n} of the month" for n in range(30))
    settings = OrchestratorSettings(default_filters={"min_match": 0})
    async with MemoryOrchestrator(memory, budget=Budget(tokens=400), settings=settings) as turn:
        contexts = await asyncio.gather(*(turn.aassemble_context(f"key {n}") for n in range(4)))

    assert sum(memory.count_tokens(one.text) for one in contexts if one.text) <= 400


# Memorizing, tracking and committing


async def test_nothing_is_written_before_the_commit_and_all_of_it_by_it(
    call: Caller, url: str
) -> None:
    async with turning(call) as turn:
        fact = await turn("memorize", "The API key is rotated on Mondays.")
        said = {"content": "Ann asked for the key yesterday", "memory_type": "episodic"}
        event = await turn("memorize", said, {"channel": "chat"})
        plan = await turn("memorize", "I need to renew the certificate.")
        looked = {"parameters": {"at": "calendar"}, "result": "Monday"}
        traced = await turn("track_tool_invocation", "look", **looked)
        assert (await turn("get_budget_status")).events_used == 4
        before = tables(url)["memories"]
        report = await turn("commit")

    assert before == []
    assert [one.memory_type for one in fact.destinations] == ["semantic"]
    assert [one.memory_type for one in event.destinations] == ["episodic"]
    assert [one.memory_type for one in plan.destinations] == ["semantic"]
    assert (fact.pending, fact.stored, fact.trust) == (True, False, 1.0)
    assert {one.key for one in report.stored} >= {*fact.keys, *event.keys, traced.key}
    assert [one["key"] for one in report.semantic] == [*fact.keys, *plan.keys]
    assert (await call("get", event.keys[0])).metadata == {"channel": "chat"}
    assert report.summary["episodic"] == 3  # the trace of the run is one


def test_notes_and_messages_that_are_shown_in_any_case_do_not_count_as_accessed(
    memory: Any,
) -> None:
    memory.store("The vault is being counted.", memory_type="working", key="note")
    memory.store("Where is the vault?", speaker="user", key="said")

    with MemoryOrchestrator(memory) as turn:
        context = turn.assemble_context("")

    assert {"note", "said"} <= {one.key for one in context.fragments}
    assert memory.stats().accesses == 0


async def test_a_commit_is_all_or_nothing(call: Caller, url: str) -> None:
    async with turning(call, turn_id="t1") as first:
        await first("memorize", "The vault is in the basement.")
        await first("commit")
    before = tables(url)
    async with turning(call, turn_id="t1") as turn:
        await turn("memorize", "The vault is in the basement.")
        await turn("memorize", "The vault is open on Fridays.")
        with pytest.raises(InvalidInputError, match="was committed before, without"):
            await turn("commit")
        assert tables(url) == before

    assert [one.kind for one in (await turn("history", "t1")).events][-1] == "committed"


async def test_a_turn_that_was_left_cannot_be_committed(call: Caller) -> None:
    async with turning(call) as turn:
        await turn("memorize", "The vault was emptied yesterday.")
        state = turn.of.to_state()

    with pytest.raises(InvalidInputError, match="was abandoned: begin another"):
        await turn("commit")
    again = MemoryOrchestrator(call.memory).begin(state)
    with pytest.raises(InvalidInputError, match="what it wanted written is gone"):
        await Verbs(again, call.mode)("commit")


async def test_tool_calls_become_signatures_lessons_and_after_three_turns_a_skill(
    call: Caller,
) -> None:
    reports = []
    for number in "123":
        async with turning(call) as turn:
            add_wrongly_then_rightly(turn, number)
            reports.append(await turn("commit"))

    assert [len(one.lessons) for one in reports] == [1, 1, 1]
    assert [len(one.skills) for one in reports] == [0, 0, 1]
    learned = (await call("learning.get_lessons", BAD, tools="add", limit=1))[0]
    assert learned.key in [one.lessons[0] for one in reports]
    assert learned.value["worked"].startswith("add(")
    skill = await call("get", reports[-1].skills[0])
    assert skill.content == "To add, then pay: 1. add(amount, of) 2. pay(amount)"
    failed = next(one for one in reports[0].episodic if "signature" in one["value"])
    assert failed["value"]["signature"] == "add: ValueError: the amount <value> has a comma"
    explained = await call("truth.history", reports[0].lessons[0])
    assert any(one.kind == "derived" for one in explained.events)


def test_the_same_call_of_a_tool_is_tracked_once(memory: Any) -> None:
    with MemoryOrchestrator(memory) as turn:
        found = [turn.track_tool_invocation("look", call_id="c1") for _ in range(2)]

    assert found[0].key == found[1].key
    assert found[1].reason == "tracked before"


def test_progress_of_a_goal_that_is_not_set_is_refused_at_the_call(memory: Any) -> None:
    with MemoryOrchestrator(memory) as turn:
        turn.memorize("The API key is rotated on Mondays.")
        with pytest.raises(InvalidInputError, match="there is no goal 'keys': set it first"):
            turn.note_progress("keys", 0.5, "half of them")
        memory.state.set_goal("keys", "All")
        turn.note_progress("keys", 0.5, "half of them")
        report = turn.commit()

    assert (len(report.stored), report.summary["goals"]) == (1, 1)


async def test_every_decision_is_in_the_trace_with_why_each_fragment_is_in_or_out(
    call: Caller,
) -> None:
    for n in range(20):
        await call("store", f"Key {n} rotates on day {n}", memory_type="semantic", key=f"k{n}")

    async with turning(call, turn_id="a/b %") as turn:
        context = await turn("assemble_context", "key", 120, {"min_match": 0})
        kept = await turn("memorize", "The API key is rotated on Mondays.")
        report = await turn("commit")

    trace = await turn("history", "a/b %")
    assert trace == report.trace
    told = trace.of_kind("assembled")[0].detail["fragments"]
    assert [one["key"] for one in told if one["chosen"]] == [one.key for one in context.fragments]
    assert all(one["reason"] for one in told)
    assert {one["chosen"] for one in told} == {True, False}
    lines = [json.loads(line) for line in trace.to_jsonl().splitlines()]
    assert [one["kind"] for one in lines] == ["assembled", "memorized", "committed"]
    assert {one["turn"] for one in lines} == {"a/b %"}
    (wrote,) = (await call("truth.history", kept.keys[0])).events
    assert (wrote.kind, wrote.reasons) == ("memorized", ("it was memorized",))


async def test_turns_that_commit_at_once_see_each_others_traces(call: Caller) -> None:
    async def go(number: str) -> Any:
        async with turning(call) as turn:
            add_wrongly_then_rightly(turn, number)
            return await turn("commit")

    reports = await asyncio.gather(*map(go, "1234"))

    skills = {key for one in reports for key in one.skills}
    assert len(skills) == 1
    assert (await call("get", min(skills))).value["support"] == 4


def test_verbs_need_a_turn_that_goes_on(memory: Any) -> None:
    orchestrator = MemoryOrchestrator(memory)
    with pytest.raises(InvalidInputError, match="no turn has begun"):
        orchestrator.memorize("one")
    with pytest.raises(InvalidInputError, match="there is no turn 'nowhere'"):
        orchestrator.history("nowhere")
    with MemoryOrchestrator(memory) as turn:
        with pytest.raises(InvalidInputError, match="goes on: commit it"):
            turn.begin()
        turn.commit()
        with pytest.raises(InvalidInputError, match="was committed: begin another"):
            turn.memorize("late")
