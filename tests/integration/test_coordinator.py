"""What a coordinator remembers and gives back, and what it refuses; blocking and async."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from langmem_tiers import (
    ConfigurationError,
    InvalidInputError,
    MemoryContext,
    MemoryCoordinator,
    MemoryType,
    MemoryTypes,
    Recollection,
    Tier,
    TieredMemoryError,
    TieredStore,
)
from langmem_tiers.core.errors import InvalidTypeError
from tests.support.coordinating import Caller, beside, calling, keys
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


EVERYTHING: dict[str, Any] = {
    "memory_type": "episodic",
    "tags": ["Release Notes", "URGENT", "urgent"],
    "project_id": "other",
    "session_id": "talk",
    "agent_id": "coder",
    "speaker": "Ines",
    "occurred_at": datetime(2026, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1))),
    "importance": 0.75,
    "entities": ["Ines", "Lisbon"],
    "context": {"weather": "rain"},
    "emotional_valence": "glad",
    "platform_source": "forum",
    "success_metrics": {"tests_passed": 12},
    "source_task": "task-7",
    "metadata": {"nested": {"a": [1, None, True]}},
}


def facts(one: Recollection) -> dict[str, Any]:
    return {name: getattr(one, name) for name in EVERYTHING}


# Remembering


async def test_every_field_comes_back(call: Caller) -> None:
    result = await call("store", "Ines moved to Lisbon", **EVERYTHING)
    expected = {
        **EVERYTHING,
        "tags": ("release-notes", "urgent"),
        "entities": ("Ines", "Lisbon"),
        "occurred_at": datetime(2026, 2, 3, 3, 5, tzinfo=UTC),
    }
    asked = {"project_id": "other", "session_id": "talk"}
    (recalled,) = await call("get_context", "Lisbon", **asked)
    got = await beside(call, project_id="other")("get", result.key)
    assert (result.stored, result.tier, result.reason) == (True, Tier.WORKING, "stored")
    for one in (recalled, got):
        assert facts(one) == expected
        assert (one.key, one.content) == (result.key, "Ines moved to Lisbon")
        assert one.namespace == ("acme", "other")


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
    assert len({one.key for one in results}) == 3
    assert (await call("store_many", [])) == []


async def test_storing_under_a_key_again_replaces_it(call: Caller) -> None:
    for content in ("first", "second"):
        await call("store_many", [{"content": content, "key": "mine"}])
    assert (await call("get", "mine")).content == "second"
    assert (await call("stats")).total_count == 1


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


async def test_a_type_says_tier_and_boost_unless_told_otherwise(call: Caller) -> None:
    for name, tier, boost in [
        ("pattern", "working", 1.0),
        ("reflexion", "working", 1.5),
        ("working", "short_term", 1.0),
        ("learning", "long_term", 1.0),
    ]:
        result = await call("store", f"a {name}", name)
        one = await call("get", result.key)
        assert (one.memory_type, one.tier, one.boost) == (name, tier, boost)
        assert (await call("store", "elsewhere", name, tier="long_term")).tier == "long_term"


def extract(content: str, _: Any) -> dict[str, Any]:
    people = [word for word in content.split() if word.istitle()]
    return {"entities": people, "importance": 0.9, "tags": ["From Extractor"], "content": "lost"}


async def test_a_users_own_type_extracts_fields_scores_and_has_a_tier(opening: Open) -> None:
    types = MemoryTypes()
    async with opening(types=types) as call:
        call.memory.register_type(
            MemoryType(
                name="social",
                tier=Tier.LONG_TERM,
                title="People",
                extract=extract,
                score=lambda memory, query: 0.25 if query in memory.content else 0.125,
            )
        )
        key = (await call("store", "lunch with Ines", "social", importance=0.5)).key
        await call("store", "dinner with Ben", "social")
        found = await call("get_context", "lunch", memory_types=["social"])
        tagged = await call("get_context", "lunch", tags=["from extractor"])
    assert [(one.match, one.content) for one in found] == [
        (0.25, "lunch with Ines"),
        (0.125, "dinner with Ben"),
    ]
    assert (found[0].entities, found[0].importance, found[0].tier) == (("Ines",), 0.5, "long_term")
    assert keys(tagged)[0] == key
    assert (found[0].memory_type, found[0].tags) == ("social", ("from-extractor",))


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
