"""What a coordinator remembers and gives back, and what it refuses; blocking and async."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredMemoryError, TieredStore
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError
from langmem_tiers.core.options import RecallOptions, StoringOptions
from tests.support.coordinating import Caller, calling, coordinator
from tests.support.opening import Opener, tables, text_index, tier_of

Open = Callable[..., AbstractAsyncContextManager[Caller]]
"""Opens an empty store and puts a coordinator on it."""


@pytest.fixture
def opening(open_store: Opener, url: str) -> Open:
    """Opens coordinators of (acme, billing, chat) each way."""
    return partial(calling, open_store, url, project_id="billing", session_id="chat")


@pytest.fixture
async def call(opening: Open) -> AsyncIterator[Caller]:
    """A coordinator of (acme, billing, chat)."""
    async with opening() as opened:
        yield opened


async def test_what_was_not_given_is_the_contexts_or_absent(opening: Open) -> None:
    async with opening(agent_id="coder") as call:
        key = (await call("store", "plain")).key
        one = await call("get", key)
    assert (one.project_id, one.session_id, one.agent_id) == ("billing", "chat", "coder")
    assert (one.tags, one.entities, one.metadata, one.success_metrics) == ((), (), {}, {})
    assert (one.speaker, one.occurred_at, one.importance, one.context) == (None,) * 4
    assert (one.memory_type, one.boost) == ("episodic", 1.0)
    assert set(one.value) == {"content", "memory_type", "project_id", "session_id", "agent_id"}


async def test_each_tier_has_its_place_whatever_its_names(opening: Open, url: str) -> None:
    async with opening(tenant="acme.com", project_id="v1.0", session_id="100%2E") as call:
        nowhere = Caller(coordinator(call.memory.tiered_store), call.mode)
        for asked, tier, namespace in (
            (call, "short_term", ("acme%2Ecom", "v1%2E0", "100%252E")),
            (call, "working", ("acme%2Ecom", "v1%2E0")),
            (call, "long_term", ("acme%2Ecom",)),
            (nowhere, "short_term", ("acme", "_", "_")),
        ):
            key = (await asked("store", f"a {tier} kiwi", tier=tier)).key
            found = await asked("get", key)
            assert (found.tier, found.namespace) == (tier, namespace)
            assert tier_of(url, key) == [tier]
            assert key in [one.key for one in await asked("get_context", "kiwi")]
            names = (asked.memory.context.project_id, asked.memory.context.session_id)
            assert (found.project_id, found.session_id) == names


async def test_several_memories_are_stored_in_one_go_and_answered_in_order(call: Caller) -> None:
    typed = {"content": "typed", "memory_type": "learning"}
    results = await call("store_many", ["a text", {"content": "named", "key": "mine"}, typed])
    assert [one.tier for one in results] == ["working", "working", "long_term"]
    assert results[1].key == "mine"
    await call("store_many", [{"content": "once more", "key": "mine"}])
    assert (await call("get", "mine")).content == "once more"
    assert (await call("stats")).total_count == len({one.key for one in results}) == 3
    assert (await call("store_many", [])) == []


FAR_EAST = timezone(timedelta(hours=14))
BAD_FIELDS: list[dict[str, Any]] = [
    *({"content": content} for content in (" ", "x\0", "\ud800")),
    {"memory_type": "episodik"},
    {"tier": "longterm"},
    {"colour": "red"},
    *({"importance": one} for one in (1.5, 10**400, True)),
    {"occurred_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - without a zone
    {"occurred_at": "yesterday"},
    {"occurred_at": datetime.min.replace(tzinfo=FAR_EAST)},
    *({"tags": tags} for tags in ("urgent", [5])),
    *({"session_id": session} for session in ("", "s" * 500)),
    {"speaker": 5},
    {"success_metrics": 5},
    {"metadata": {"a": float("nan")}},
    {"turn": "first"},
]


async def test_one_bad_memory_and_nothing_is_stored(call: Caller, url: str) -> None:
    before = tables(url)
    for given in ("abc", 5, None):
        with pytest.raises(InvalidTypeError):
            await call("store_many", given)
    for bad in (5, {1: "x"}, *({"content": "x", **bad} for bad in BAD_FIELDS)):
        with pytest.raises(InvalidInputError):
            await call("store_many", ["good", bad, "good"])
    with pytest.raises(InvalidInputError, match="did you mean 'reflexion'"):
        await call("store", "x", "reflection")
    with pytest.raises(InvalidInputError, match="did you mean 'semantic'"):
        await call("get_context", "x", memory_types=["semantics"])
    assert tables(url) == before


def test_a_coordinator_needs_a_store_with_an_index_and_a_context(url: str) -> None:
    context = MemoryContext(tenant="acme")
    with pytest.raises(ConfigurationError, match="index"):
        MemoryCoordinator(TieredStore(url), context=context)
    known: dict[str, Any] = {"store": TieredStore(url, index=text_index()), "context": context}
    wrong: dict[str, Any] = {"store": "x", "context": "acme", "settings": {}, "types": []}
    for name, given in {**wrong, "count_tokens": 5}.items():
        with pytest.raises(TieredMemoryError):
            MemoryCoordinator(**{**known, name: given})
    for wrong in ({"tenant": ""}, {"tenant": 5}, {"tenant": "acme", "project_id": ""}):
        with pytest.raises(InvalidInputError):
            MemoryContext(**wrong)


async def test_a_content_is_kept_to_the_letter(call: Caller) -> None:
    content = "  two  spaces\n\t🧠 naïve '; DROP TABLE x; -- %s {tier} $1" + "x y " * 5_000
    key = (await call("store", content)).key
    assert (await call("get", key)).content == content


@pytest.mark.parametrize(
    ("verb", "options"), [("get_context", RecallOptions), ("store", StoringOptions)]
)
def test_the_options_of_a_verb_are_shown_each_and_no_other_is_taken(
    url: str, verb: str, options: type
) -> None:
    for method in (getattr(MemoryCoordinator, verb), getattr(MemoryCoordinator, f"a{verb}")):
        shown = inspect.signature(method).parameters
        assert options.__annotations__.keys() < shown.keys()
        assert all(f"\n    {name}: " in method.__doc__ for name in options.__annotations__)
    with TieredStore(url, index=text_index()) as store:
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
        with pytest.raises(InvalidTypeError, match="limit"):
            getattr(memory, verb)("x", limitt=3)
