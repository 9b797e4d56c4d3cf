"""What a cycle does by itself with what may say the same or contradict: it proposes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableLambda

from benchmarks.ruling import Ruling
from langmem_tiers import (
    ConsolidationPolicy,
    ConsolidationReport,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.consolidation.judges import Judgement
from langmem_tiers.consolidation.policy import MergePolicy
from tests.support.coordinating import coordinator
from tests.support.cycling import column, without_events
from tests.support.opening import Clock, text_index

ACME = MemoryContext(tenant="acme")
TRUE_STILL = {
    "both are true": ("Ines lives in Lisbon.", "Ines lives in Portugal."),
    "one is": ("The deployment port is 80.", "The deployment port is 443."),
}


class Denying(Ruling):
    """A chat model that says no whatever it is asked."""

    def with_structured_output(self, schema: Any, **options: Any) -> Runnable[Any, Any]:
        """Answers with no pair."""
        if schema is not Judgement:
            return super().with_structured_output(schema, **options)
        return RunnableLambda(lambda _: Judgement(pairs=[]))


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    """A project's coordinator."""
    return coordinator(store, project_id="home")


def cycle(
    store: TieredStore, model: BaseChatModel | None = None, **merge: float
) -> ConsolidationReport:
    """What a cycle of the default policy reports."""
    policy = ConsolidationPolicy(merge=MergePolicy(**merge))
    graph = create_consolidation_graph(model, store=store, policy=policy)
    return ConsolidationReport.of(graph.invoke({}, context=ACME))


def said(memory: MemoryCoordinator, key: str, content: str, **given: Any) -> None:
    """Remember in working that somebody said something."""
    memory.store(content, given.pop("kind", "semantic"), tier="working", key=key, **given)


def proposed(report: ConsolidationReport) -> set[tuple[str, str, str]]:
    """What a report proposes: step and both keys."""
    return {(one.step, one.key, one.other_key) for one in report.proposed}


# What contradicts


@pytest.mark.parametrize("texts", TRUE_STILL.values(), ids=TRUE_STILL.keys())
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_what_is_near_stays_true_and_is_proposed(
    store: TieredStore, clock: Clock, url: str, texts: tuple[str, str], mode: str
) -> None:
    memory = coordinator(store, project_id="home")
    for key, text in zip("ab", texts, strict=True):
        said(memory, key, text)
        clock.advance(days=1)
    before = without_events(url)
    report = cycle(store) if mode == "invoke" else asyncio.run(_cycle(url, clock))
    assert without_events(url) == before
    assert proposed(report) == {("supersede", "a", "b")}
    assert report.moves == ()
    (found,) = report.proposed
    assert (found.namespace, found.other_namespace) == (("acme", "home"), ("acme", "home"))
    assert f"supersede  proposed: a, b: {found.reason}" in str(report)
    assert report.count("supersede", "kept") == 2
    assert {one.key for one in memory.get_context("", limit=9)} == {"a", "b"}


async def _cycle(url: str, clock: Clock) -> ConsolidationReport:
    async with TieredStore.from_conn_string(url, index=text_index(), clock=clock) as store:
        graph = create_consolidation_graph(store=store)
        return ConsolidationReport.of(await graph.ainvoke({}, context=ACME))


def test_what_was_proposed_is_not_proposed_again_until_it_changes(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    said(memory, "a", "Ines lives in Lisbon.")
    clock.advance(days=1)
    said(memory, "b", "Ines lives in Portugal.")
    clock.advance(days=1)
    assert proposed(cycle(store)) == {("supersede", "a", "b")}
    clock.advance(days=1)
    assert cycle(store).proposed == ()
    said(memory, "b", "Ines lives in Portugal now.")
    clock.advance(days=1)
    assert proposed(cycle(store)) == {("supersede", "a", "b")}


# What says the same


def test_the_same_on_two_days_has_happened_twice(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    for key in ("monday", "tuesday"):
        said(memory, key, "Ran five kilometres along the river.", kind="episodic", speaker="Ada")
        clock.advance(days=1)
    report = cycle(store)
    assert column(url, "state") == {"monday": None, "tuesday": None}
    assert proposed(report) == {("merge", "tuesday", "monday")}
    assert report.count("merge", "kept") == 2


def test_equal_texts_are_merged_where_one_speaker_said_them_minutes_apart(
    store: TieredStore, clock: Clock, url: str
) -> None:
    ada, ben = {"speaker": "Ada"}, {"speaker": "Ben"}
    one, two = {"session_id": "1"}, {"session_id": "2"}
    merged = [(ada, ada), ({}, {}), (one, one), (one | ada, two | ada)]
    told: list[tuple[dict[str, str], dict[str, str]]] = [*merged, (ada, {}), (one, two), (ada, ben)]
    for number, both in enumerate(told):
        memory = coordinator(store, project_id=f"p{number}")
        for key, text, given in zip("ab", ("I like tuna.", "i like  tuna!"), both, strict=True):
            said(memory, f"{key}{number}", text, **given)
            clock.advance(minutes=9)
    report = cycle(store)
    gone = sorted(key for key, state in column(url, "state").items() if state)
    assert gone == [f"b{number}" for number in range(len(merged))]
    assert proposed(report) == {("merge", f"b{n}", f"a{n}") for n in (4, 5)}  # what two said is two


def test_how_far_apart_is_once_is_said_by_the_policy_and_told_by_when_it_happened(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    began = clock.now
    for number, minutes in enumerate((0, 11, 60)):
        clock.now = began
        clock.advance(minutes=minutes)
        said(memory, f"k{number}", "The cat likes tuna.")
    clock.advance(days=1)
    said(memory, "late", "The cat likes tuna.", occurred_at=began)
    clock.advance(days=1)
    cycle(store, within_minutes=0)
    assert column(url, "state") == {"k0": None, "k1": None, "k2": None, "late": "consolidated"}
    said(memory, "k1", "The cat likes tuna.", tags=["food"])
    clock.advance(days=1)
    cycle(store, within_minutes=11)
    assert column(url, "state")["k1"] == "consolidated"
    assert column(url, "state")["k2"] is None


# A model that is named


@pytest.mark.parametrize(
    ("model", "states"),
    [
        (Ruling(), {"a": "superseded", "d": "consolidated", "e": "superseded", "f": "superseded"}),
        (Denying(), {}),
    ],
    ids=["yes", "no"],
)
def test_what_is_near_is_merged_or_ended_where_the_model_that_is_named_says_so(
    store: TieredStore, clock: Clock, url: str, model: BaseChatModel, states: dict[str, str]
) -> None:
    memory = coordinator(store, project_id="home")
    for key, text in (
        ("a", "Ines lives in Lisbon."),
        ("b", "Ines lives in Portugal."),
        ("c", "Anna likes green tea."),
        ("d", "ANNA LIKES GREEN TEA."),
        ("e", "The deployment port is 80."),
        ("f", "The deployment port is 443."),
        ("g", "The deployment port is 80."),  # again, and not what was said before it was 443
    ):
        said(memory, key, text)
        clock.advance(hours=1)
    report = cycle(store, model)
    assert {key: state for key, state in column(url, "state").items() if state} == states
    assert report.proposed == ()
