"""What a coordinator remembers and gives back, and what it refuses; blocking and async."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from langmem_tiers import MemoryContext, MemoryCoordinator, Tier, TieredMemoryError, TieredStore
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError
from langmem_tiers.core.options import RecallOptions, StoringOptions
from tests.support.coordinating import Caller, beside, calling
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


# Remembering


async def test_what_was_not_given_is_the_contexts_or_absent(opening: Open) -> None:
    async with opening(agent_id="coder") as call:
        key = (await call("store", "plain")).key
        one = await call("get", key)
    assert (one.project_id, one.session_id, one.agent_id) == ("billing", "chat", "coder")
    assert (one.tags, one.entities, one.metadata, one.success_metrics) == ((), (), {}, {})
    assert (one.speaker, one.occurred_at, one.importance, one.context) == (None,) * 4
    assert (one.memory_type, one.boost) == ("episodic", 1.0)
    assert set(one.value) == {"content", "memory_type", "project_id", "session_id", "agent_id"}


async def test_each_tier_has_its_place(call: Caller, url: str) -> None:
    places: list[tuple[Tier | str, tuple[str, ...]]] = [
        ("short_term", ("acme", "billing", "chat")),
        ("working", ("acme", "billing")),
        (Tier.LONG_TERM, ("acme",)),
    ]
    for tier, namespace in places:
        result = await call("store", "here", tier=tier)
        assert result.tier == tier
        assert tier_of(url, result.key) == [str(tier)]
        assert (await call("get", result.key)).namespace == namespace
    nowhere = beside(call, project_id=None, session_id=None)
    key = (await nowhere("store", "nowhere", tier="short_term")).key
    assert (await nowhere("get", key)).namespace == ("acme", "_", "_")
    with pytest.raises(InvalidInputError, match="did you mean 'reflexion'"):
        await call("store", "x", "reflection")
    with pytest.raises(InvalidInputError, match="did you mean 'semantic'"):
        await call("get_context", "x", memory_types=["semantics"])


async def test_dots_and_percents_in_names_are_encoded_and_come_back(opening: Open) -> None:
    async with opening(tenant="acme.com", project_id="v1.0", session_id="100%2E") as call:
        key = (await call("store", "kiwi", tier="short_term")).key
        (found,) = await call("get_context", "kiwi")
    assert found.key == key
    assert found.namespace == ("acme%2Ecom", "v1%2E0", "100%252E")
    assert (found.project_id, found.session_id) == ("v1.0", "100%2E")


async def test_several_memories_are_stored_in_one_go_and_answered_in_order(call: Caller) -> None:
    results = await call(
        "store_many",
        [
            "a text",
            {"content": "named", "key": "mine"},
            {"content": "typed", "memory_type": "learning"},
        ],
    )
    assert [one.tier for one in results] == ["working", "working", "long_term"]
    assert results[1].key == "mine"
    await call("store_many", [{"content": "once more", "key": "mine"}])
    assert (await call("get", "mine")).content == "once more"
    assert (await call("stats")).total_count == 3
    assert len({one.key for one in results}) == 3
    assert (await call("store_many", [])) == []


BAD_MEMORIES: dict[str, Any] = {
    "no content": {"content": " "},
    "an unknown type": {"content": "x", "memory_type": "episodik"},
    "an unknown tier": {"content": "x", "tier": "longterm"},
    "an unknown field": {"content": "x", "colour": "red"},
    "importance above 1": {"content": "x", "importance": 1.5},
    "importance beyond all bounds": {"content": "x", "importance": 10**400},
    "importance of True": {"content": "x", "importance": True},
    "a time without a zone": {"content": "x", "occurred_at": datetime(2026, 1, 1)},  # noqa: DTZ001
    "a time that is none": {"content": "x", "occurred_at": "yesterday"},
    "a time before all": {
        "content": "x",
        "occurred_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    },
    "tags of one text": {"content": "x", "tags": "urgent"},
    "a tag of a number": {"content": "x", "tags": [5]},
    "an empty session": {"content": "x", "session_id": ""},
    "an endless session": {"content": "x", "session_id": "s" * 500},
    "a speaker of a number": {"content": "x", "speaker": 5},
    "metrics of a number": {"content": "x", "success_metrics": 5},
    "metadata with NaN": {"content": "x", "metadata": {"a": float("nan")}},
    "a turn of text": {"content": "x", "turn": "first"},
    "NUL": {"content": "x\0"},
    "half a character": {"content": "\ud800"},
    "a number": 5,
    "names that are none": {1: "x"},
}


async def test_one_bad_memory_and_nothing_is_stored(call: Caller, url: str) -> None:
    before = tables(url)
    wrong: Any
    for wrong in ("abc", 5, None):
        with pytest.raises(InvalidTypeError):
            await call("store_many", wrong)
    for what, bad in BAD_MEMORIES.items():
        try:
            await call("store_many", ["good", bad, "good"])
        except InvalidInputError:
            continue
        pytest.fail(f"taken: {what}")
    assert tables(url) == before


# Types


# Construction


def test_a_coordinator_needs_a_store_with_an_index_and_a_context(url: str) -> None:
    context = MemoryContext(tenant="acme")
    with pytest.raises(ConfigurationError, match="index"):
        MemoryCoordinator(TieredStore(url), context=context)
    store = TieredStore(url, index=text_index())
    wrong: Any
    for wrong in (
        {"store": "x"},
        {"context": "acme"},
        {"settings": {}},
        {"types": []},
        {"count_tokens": 5},
    ):
        with pytest.raises(TieredMemoryError):
            MemoryCoordinator(**{"store": store, "context": context, **wrong})
    for wrong in ({"tenant": ""}, {"tenant": 5}, {"tenant": "acme", "project_id": ""}):
        with pytest.raises(InvalidInputError):
            MemoryContext(**wrong)


async def test_a_content_is_kept_to_the_letter(call: Caller) -> None:
    for content in (
        "  two  spaces\n\t",
        "🧠 naïve '; DROP TABLE x; --",
        "%s {tier} $1",
        "x y " * 5_000,
    ):
        key = (await call("store", content)).key
        assert (await call("get", key)).content == content


async def test_the_options_of_a_verb_are_shown_each_and_no_other_is_taken(call: Caller) -> None:
    for verb, options in (("get_context", RecallOptions), ("store", StoringOptions)):
        for method in (getattr(MemoryCoordinator, verb), getattr(MemoryCoordinator, f"a{verb}")):
            shown = inspect.signature(method).parameters
            assert options.__annotations__.keys() < shown.keys()
            assert all(f"\n    {name}: " in method.__doc__ for name in options.__annotations__)
        with pytest.raises(InvalidTypeError, match="limit"):
            await call(verb, "x", limitt=3)
