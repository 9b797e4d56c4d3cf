"""Whose memory a key means, and what a recall gives to requests and questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from langmem_tiers import InvalidInputError, MemoryCoordinator, TieredStore, local_index
from tests.support.coordinating import coordinator
from tests.support.opening import text_index


@pytest.fixture
def store(url: str) -> Iterator[TieredStore]:
    with TieredStore(url, index=text_index()) as opened:
        yield opened


def project(store: TieredStore, name: str | None, session: str | None = None) -> MemoryCoordinator:
    return coordinator(store, project_id=name, session_id=session)


def test_projects_that_share_a_key_keep_their_own_memories(store: TieredStore) -> None:
    one, other = project(store, "one"), project(store, "other")
    one.store("of one", key="k")
    other.store("of the other", key="k")
    assert [each.get("k").content for each in (one, other)] == ["of one", "of the other"]  # type: ignore[union-attr]  # both are there
    assert other.delete_memory("k")
    found = one.get("k")
    assert found is not None
    assert found.content == "of one"


def test_a_key_is_found_from_other_sessions_of_the_project_while_it_is_one_memorys(
    store: TieredStore,
) -> None:
    stored = project(store, "one", "s").store("of one", "working")
    assert stored.key is not None
    assert project(store, "one").get(stored.key) is not None
    assert project(store, "one", "t").delete_memory(stored.key)


def test_a_key_of_several_memories_elsewhere_is_refused(store: TieredStore) -> None:
    for name in ("s", "t"):
        project(store, "one", name).store(f"of {name}", "working", key="k")
    for verb in ("get", "delete_memory"):
        with pytest.raises(InvalidInputError, match="several memories"):
            getattr(project(store, "one"), verb)("k")
    assert project(store, "one", "s").get("k") is not None


def test_a_key_of_another_project_is_none(store: TieredStore) -> None:
    stored = project(store, "one").store("of one")
    assert stored.key is not None
    for name in ("other", None):
        assert project(store, name).get(stored.key) is None
        assert not project(store, name).delete_memory(stored.key)
    assert project(store, "one").get(stored.key) is not None


def test_clearing_a_session_leaves_the_same_session_of_another_project(store: TieredStore) -> None:
    for name in ("one", "other"):
        project(store, name, "s").store(f"scratch of {name}", "working")
    assert project(store, "one").clear_working_memory("s") == 1
    assert project(store, "other", "s").stats().total_count == 1
    assert project(store, None).clear_working_memory("s") == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Plan a dinner for Peter and Zoltan, mind allergies", True),
        ("Is Zoltan married to Petra?", False),
        ("Is somebody allergic to peanuts?", True),
    ],
)
def test_a_question_about_strangers_gets_nothing_and_a_request_what_is_near(
    database_url: str, query: str, *, found: bool
) -> None:
    with TieredStore(database_url, index=local_index()) as store:
        store.setup()
        memory = project(store, None)
        memory.store_many(
            [
                "The user has a peanut allergy",
                "The office closes at six on Fridays",
                "The quarterly report is due on the 15th",
                "The user prefers Python over Java",
                "Their favourite restaurant is Fenix",
                "Bosch complained about late deliveries",
            ]
        )
        assert bool(memory.get_context(query)) is found
