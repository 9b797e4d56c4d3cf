"""An argument that makes no sense is refused at once, by an error that says what to do."""

from __future__ import annotations

import asyncio
import pickle
from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest
from langgraph.graph import StateGraph

from langmem_tiers import (
    MemoryContext,
    MemoryState,
    TieredMemoryMiddleware,
    TieredStore,
    create_recall_node,
)
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError
from tests.support.coded import coded
from tests.support.opening import text_index


def invoke(graph: Any, served: Any) -> None:
    graph.invoke({"messages": ["Hello"]}, context=served)


@pytest.mark.parametrize("served", [{}, {"user_id": "ada"}])
def test_a_served_run_without_a_tenant_is_told_to_name_one(store: TieredStore, served: Any) -> None:
    builder = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node())
    builder.set_entry_point("recall")
    graph = builder.compile(store=store)
    with pytest.raises(InvalidInputError, match="names no tenant: MemoryContext"):
        invoke(graph, served)


def test_a_served_run_is_told_which_fields_a_context_has(store: TieredStore) -> None:
    builder = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node())
    builder.set_entry_point("recall")
    graph = builder.compile(store=store)
    served: Any = {"tenant": "acme", "user": "ada"}
    with pytest.raises(InvalidTypeError, match="no 'user': use tenant, agent_id"):
        invoke(graph, served)


def test_a_context_is_copied_as_before() -> None:
    context = MemoryContext(tenant="acme", user_id="ada")
    assert pickle.loads(pickle.dumps(context)) == context


def test_an_empty_tenant_is_to_be_named_and_an_empty_user_may_be_left_out() -> None:
    with pytest.raises(InvalidInputError, match=r"^tenant is empty: name one$"):
        MemoryContext(tenant="")
    with pytest.raises(InvalidInputError, match=r"^user_id is empty: leave it out, or name one$"):
        MemoryContext(tenant="acme", user_id="")


@pytest.mark.parametrize("given", [{"$bad": 1}, {"$or": [{"n": 1}]}, {"n": {"$bad": 1}}])
def test_an_operator_that_is_none_is_refused(store: TieredStore, given: dict[str, Any]) -> None:
    with coded("invalid_filter"):
        store.search(("acme",), filter=given)


def test_middleware_says_what_others_call_a_limit() -> None:
    given: Any = {"max_memories": 3}
    with pytest.raises(InvalidTypeError, match="did you mean 'limit'"):
        TieredMemoryMiddleware(**given)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class _Zoneless(tzinfo):
    """A zone that tells no time."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> None:
        return None


@pytest.mark.parametrize("now", [NOON.replace(tzinfo=None), NOON.replace(tzinfo=_Zoneless()), 5])
def test_a_clock_that_tells_no_time_of_a_zone_is_refused(now: Any) -> None:
    with pytest.raises(ConfigurationError, match="timezone-aware"):
        TieredStore("postgresql://db/app", clock=lambda: now)


@pytest.mark.parametrize("year", [1, 1899, 9999])
def test_a_clock_that_is_no_longer_right_is_refused_by_the_call(
    database_url: str, year: int
) -> None:
    now = [NOON]
    with TieredStore(database_url, index=text_index(), clock=lambda: now[0]) as opened:
        opened.setup()
        now[0] = NOON.replace(year=year)
        with pytest.raises(ConfigurationError, match="clock tells"):
            opened.put(("acme",), "a", {"text": "Tea"})


@pytest.mark.parametrize("given", ["", "  "])
def test_a_store_is_told_where_its_database_is(given: str) -> None:
    for make in (TieredStore, TieredStore.from_conn_string):
        with pytest.raises(ConfigurationError, match="conn_string is empty"):
            make(given)


def test_an_unknown_parameter_of_a_url_is_named_unless_it_may_be_of_a_password() -> None:
    with pytest.raises(ConfigurationError, match="'pgbouncer' is no parameter"):
        TieredStore("postgresql://ada:secret@db/app?sslmode=require&pgbouncer=true")
    for hidden in ("postgresql://ada:p/?secret=5@db/app", "postgresql://ada:p/x?secret=5"):
        with pytest.raises(ConfigurationError) as refused:
            TieredStore(hidden)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("call", [lambda store: store.get(("a",), "k"), TieredStore.close])
def test_a_store_of_a_loop_that_stands_still_does_not_wait_for_it(
    database_url: str, call: Any
) -> None:
    loop = asyncio.new_event_loop()
    with TieredStore(database_url, index=text_index()) as prepared:
        prepared.setup()
    opened = TieredStore(database_url, index=text_index())
    try:
        loop.run_until_complete(opened.aget(("a",), "k"))
        with pytest.raises(asyncio.InvalidStateError, match="not running"):
            call(opened)
    finally:
        loop.run_until_complete(opened.aclose())
        loop.close()
