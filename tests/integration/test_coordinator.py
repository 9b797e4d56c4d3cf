"""What a coordinator remembers, gives back, counts and forgets; blocking and async."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Protocol

import pytest
from langgraph.store.base import TTLConfig

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
from langmem_tiers.errors import InvalidTypeError
from langmem_tiers.memory import TIERS
from tests.support.coordinating import Caller, coordinator, keys
from tests.support.opening import Clock, Opener, tables, text_index, tier_of, tiered


class Open(Protocol):
    """Opens an empty store and puts a coordinator on it."""

    def __call__(
        self, *, ttl: TTLConfig | None = None, **options: Any
    ) -> AbstractAsyncContextManager[Caller]: ...


@pytest.fixture
def opening(open_store: Opener, url: str) -> Open:
    """Opens coordinators of (acme, billing, chat) each way."""

    @asynccontextmanager
    async def make(*, ttl: TTLConfig | None = None, **options: Any) -> AsyncIterator[Caller]:
        async with open_store(url=url, index=text_index(), ttl=ttl) as driver:
            context = {"project_id": "billing", "session_id": "chat", **options}
            yield Caller(coordinator(tiered(driver), **context), driver.mode)

    return make


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
    got = await call("get", result.key)
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


async def test_a_content_is_kept_to_the_letter(call: Caller) -> None:
    for content in (
        "  two  spaces\n\t",
        "🧠 naïve '; DROP TABLE x; --",
        "%s {tier} $1",
        "x" * 300_000,
    ):
        key = (await call("store", content)).key
        assert (await call("get", key)).content == content


@pytest.mark.parametrize(
    ("tier", "namespace"),
    [
        ("short_term", ("acme", "billing", "chat")),
        ("working", ("acme", "billing")),
        (Tier.LONG_TERM, ("acme",)),
    ],
)
async def test_each_tier_has_its_place(
    call: Caller, url: str, tier: Tier | str, namespace: tuple[str, ...]
) -> None:
    result = await call("store", "here", tier=tier)
    assert result.tier == tier
    assert tier_of(url, result.key) == [str(tier)]
    assert (await call("get", result.key)).namespace == namespace


async def test_an_absent_project_and_session_are_an_underscore(opening: Open) -> None:
    async with opening(project_id=None, session_id=None) as call:
        key = (await call("store", "nowhere", tier="short_term")).key
        assert (await call("get", key)).namespace == ("acme", "_", "_")


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
    "content of a number": {"content": 5},
    "an unknown type": {"content": "x", "memory_type": "episodik"},
    "an unknown tier": {"content": "x", "tier": "longterm"},
    "an unknown field": {"content": "x", "colour": "red"},
    "importance above 1": {"content": "x", "importance": 1.5},
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
    "a mood of a number": {"content": "x", "emotional_valence": 5},
    "metrics of a number": {"content": "x", "success_metrics": 5},
    "metadata of a text": {"content": "x", "metadata": "y"},
    "metadata with NaN": {"content": "x", "metadata": {"a": float("nan")}},
    "metadata with a set": {"content": "x", "metadata": {"a": {1}}},
    "a turn of text": {"content": "x", "turn": "first"},
    "NUL": {"content": "x\0"},
    "half a character": {"content": "\ud800"},
    "a number": 5,
    "names that are none": {1: "x"},
}


@pytest.mark.parametrize("what", BAD_MEMORIES)
async def test_one_bad_memory_and_nothing_is_stored(opening: Open, url: str, what: str) -> None:
    async with opening() as call:
        before = tables(url)
        with pytest.raises(InvalidInputError):
            await call("store_many", ["good", BAD_MEMORIES[what], "good"])
        if isinstance(BAD_MEMORIES[what], dict) and "content" in BAD_MEMORIES[what]:
            bad = dict(BAD_MEMORIES[what])
            with pytest.raises((InvalidInputError, TypeError)):
                await call("store", bad.pop("content"), **bad)
        assert tables(url) == before


@pytest.mark.parametrize("wrong", ["abc", 5, None])
async def test_what_is_no_list_of_memories_is_refused(call: Caller, wrong: Any) -> None:
    with pytest.raises(InvalidTypeError):
        await call("store_many", wrong)


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


async def test_an_unknown_type_is_told_the_nearest(call: Caller) -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'reflexion'"):
        await call("store", "x", "reflection")
    with pytest.raises(InvalidInputError, match="did you mean 'semantic'"):
        await call("get_context", "x", memory_types=["semantics"])


def extract(content: str, given: Any) -> dict[str, Any]:
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


# Time to live


@pytest.mark.parametrize(
    ("memory_type", "tier", "ttl", "minutes"),
    [
        ("episodic", "short_term", None, 60),
        ("episodic", "working", None, None),
        ("brief", "long_term", None, 7),
        ("brief", "short_term", None, 7),
        ("brief", "working", {"default_ttl": 20}, 20),
        ("episodic", "short_term", {"default_ttl": 20}, 20),
    ],
)
async def test_the_default_ttl_comes_before_the_types_and_the_tiers(
    opening: Open,
    clock: Clock,
    memory_type: str,
    tier: str,
    ttl: TTLConfig | None,
    minutes: float | None,
) -> None:
    types = MemoryTypes()
    types.register(MemoryType(name="brief", tier=Tier.WORKING, title="Brief", ttl=7))
    config: TTLConfig | None = {**ttl, "omit_expired": True} if ttl else None  # type: ignore[typeddict-unknown-key]
    async with opening(types=types, ttl=config) as call:
        await call("store", "kiwi", memory_type, tier=tier)
        clock.advance(minutes=(minutes or 1e6) - 0.01)
        assert (await call("stats")).total_count == 1
        clock.advance(minutes=0.02)
        assert (await call("stats")).total_count == (0 if minutes else 1)
        assert len(await call("get_context", "kiwi")) == (0 if minutes else 1)


@pytest.mark.parametrize("verb", ["get", "get_context"])
async def test_what_is_read_lives_on(opening: Open, clock: Clock, verb: str) -> None:
    async with opening() as call:
        await call("store_many", [{"content": "kiwi", "key": "kiwi", "tier": "short_term"}])
        for _ in range(3):
            clock.advance(minutes=50)
            assert await call(verb, "kiwi")
        clock.advance(minutes=61)
        assert not await call(verb, "kiwi")


# Accesses


async def test_what_is_returned_is_counted_once_and_nothing_else(call: Caller) -> None:
    await call("store_many", [{"content": f"kiwi {n}", "key": f"{n}"} for n in range(6)])
    found = await call("get_context", "kiwi", limit=2)
    assert [one.access_count for one in found] == [0, 0]
    assert (await call("stats")).accesses == 2
    await call("get_context", "kiwi", limit=0)
    await call("get_context", "kiwi", max_tokens=0)
    assert (await call("stats")).accesses == 2
    again = await call("get", found[0].key)
    assert again.access_count == 1
    assert (await call("stats")).accesses == 3
    rest = {f"{n}" for n in range(6)} - set(keys(found))
    assert {(await call("get", key)).access_count for key in rest} == {0}


async def test_strength_halves_in_thirty_days_and_each_access_adds_one(
    call: Caller, clock: Clock
) -> None:
    key = (await call("store", "kiwi")).key
    expected = 0.0
    for days in (0, 30, 15, 60, 0.5):
        clock.advance(days=days)
        await call("get", key)
        expected = expected * 0.5 ** (days / 30) + 1
        await call("stats")  # which writes what was counted
        (found,) = await call("get_context", "", limit=1)
        assert found.strength == pytest.approx(expected)
        assert found.last_accessed_at == clock.now
        await call("stats")
        expected += 1


async def test_get_looks_in_short_term_then_working_then_long_term(call: Caller) -> None:
    for tier in reversed(TIERS):
        await call("store_many", [{"content": tier.value, "key": "mine", "tier": tier}])
        assert (await call("get", "mine")).tier == tier
    for tier in TIERS:
        assert (await call("get", "mine", tier=tier)).content == tier.value
    assert await call("get", "absent") is None


# Forgetting


async def test_a_memory_is_deleted_once(call: Caller, url: str) -> None:
    keep = (await call("store", "keep")).key
    for tier in TIERS:
        key = (await call("store", "gone", tier=tier)).key
        assert await call("delete_memory", key) is True
        assert await call("delete_memory", key) is False
        assert await call("get", key) is None
    assert keys(await call("get_context", "")) == [keep]
    assert len(tables(url)["vectors"]) == 1


async def test_another_tenants_memory_is_neither_got_nor_deleted(call: Caller) -> None:
    other = coordinator(tiered_store(call), "other")
    key = (await call("store", "ours")).key
    assert await Caller(other, call.mode)("get", key) is None
    assert await Caller(other, call.mode)("delete_memory", key) is False
    assert (await Caller(other, call.mode)("stats")).total_count == 0
    assert await call("get", key) is not None


def tiered_store(call: Caller) -> TieredStore:
    return call.memory._store


async def test_clearing_a_session_removes_its_working_memories_alone(call: Caller) -> None:
    for tier in TIERS:
        await call("store", f"note in {tier}", "working", tier=tier, session_id="chat")
    for name, session in [("episodic", "chat"), ("working", "other"), ("pattern", "chat")]:
        await call("store", "stays", name, session_id=session)
        await call("store", "stays", name, tier="short_term", session_id=session)
    assert await call("clear_working_memory", "chat") == 3
    assert await call("clear_working_memory", "chat") == 0
    stats = await call("stats")
    assert (stats.total_count, stats.by_type["working"]) == (6, 2)


@pytest.mark.parametrize("wrong", [5, None, "", "\0", "\ud800"])
async def test_a_session_that_is_none_is_refused(call: Caller, wrong: Any) -> None:
    with pytest.raises(InvalidInputError):
        await call("clear_working_memory", wrong)
    with pytest.raises(InvalidInputError):
        await call("delete_memory", wrong or 5)


async def test_stats_count_by_type_and_tier_what_is_alive(call: Caller, clock: Clock) -> None:
    await call("store_many", ["one", "two", {"content": "three", "memory_type": "learning"}])
    await call("store", "brief", tier="short_term")
    assert dict((await call("stats")).by_tier) == {"short_term": 1, "working": 2, "long_term": 1}
    clock.advance(hours=2)
    stats = await call("stats")
    assert (stats.total_count, dict(stats.by_type)) == (3, {"episodic": 2, "learning": 1})
    assert dict(stats.by_tier) == {"short_term": 0, "working": 2, "long_term": 1}


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
