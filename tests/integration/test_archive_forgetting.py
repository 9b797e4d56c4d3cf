"""What was forgotten or has expired in an archive does not come back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from tests.support.archives import (
    NOW,
    count,
    execute,
    fill,
    keys,
    one,
    policy,
    remember,
)
from tests.support.coordinating import coordinator
from tests.support.opening import Clock

NUMBER = 120


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store)


@pytest.fixture
def archived(url: str, memory: MemoryCoordinator, tmp_path: Path) -> str:
    """The name of an archive that odd memories have left for."""
    fill(url, NUMBER)
    memory.archive(policy(tmp_path))
    (file,) = memory.archives()
    return file.archive


FORGETTING: dict[str, Callable[[MemoryCoordinator], object]] = {
    "delete_memory": lambda memory: memory.delete_memory("key 4"),
    "delete": lambda memory: memory.tiered_store.delete(("acme",), "key 4"),
    "delete in its tier": lambda memory: memory.tiered_store.tier("working").delete(
        ("acme",), "key 4"
    ),
}


@pytest.mark.parametrize("how", FORGETTING)
def test_what_was_deleted_in_the_archive_does_not_come_back(
    memory: MemoryCoordinator, url: str, archived: str, how: str
) -> None:
    execute(
        url,
        """INSERT INTO memory.exposures (tenant, run, id, position, held_out, exposed_at)
           SELECT tenant, 'r', id, 1, false, '2026-01-01' FROM memory.archived
           WHERE key = 'key 4'""",
    )
    FORGETTING[how](memory)

    assert count(url, "exposures") == 0
    assert memory.restore_archive(archived).restored == NUMBER - 1
    assert "key 4" not in keys(url)


def test_only_what_is_meant_is_forgotten(memory: MemoryCoordinator, archived: str) -> None:
    memory.tiered_store.tier("long_term").delete(("acme",), "key 4")
    memory.tiered_store.delete(("acme", "elsewhere"), "key 4")
    memory.tiered_store.delete(("other",), "key 4")

    assert memory.delete_memory("nobody") is False
    assert memory.restore_archive(archived).restored == NUMBER
    assert memory.delete_memory("key 4") is True
    assert memory.delete_memory("key 4") is False


def test_a_key_that_lives_again_stays_and_its_archived_memory_waits(
    memory: MemoryCoordinator, url: str, archived: str
) -> None:
    memory.tiered_store.put(("acme",), "key 4", {"text": "new"})

    report = memory.restore_archive(archived)

    assert (report.restored, report.occupied) == (NUMBER - 1, ("key 4",))
    assert memory.archives()[0].remaining == 1
    memory.tiered_store.delete(("acme",), "key 4")
    assert memory.restore_archive(archived).restored == 0
    assert "key 4" not in keys(url)


def test_of_two_archived_memories_of_a_key_the_newer_one_comes_back(
    memory: MemoryCoordinator, clock: Clock, archived: str, tmp_path: Path
) -> None:
    memory.tiered_store.put(("acme",), "key 4", {"text": "new"})
    clock.advance(days=181)
    (newer,) = memory.archive(policy(tmp_path)).archives

    older = memory.restore_archive(archived, keys=["key 4"])

    assert (older.restored, older.occupied) == (0, ("key 4",))
    assert memory.restore_archive(newer).restored == 1
    found = memory.get("key 4")
    assert found is not None
    assert found.value == {"text": "new"}


def test_a_key_whose_new_memory_has_expired_comes_back(
    memory: MemoryCoordinator, clock: Clock, archived: str
) -> None:
    memory.tiered_store.put(("acme",), "key 4", {"text": "new"}, ttl=1)
    clock.advance(minutes=2)

    assert memory.restore_archive(archived).restored == NUMBER


def test_what_has_expired_in_the_archive_is_gone_for_good(
    memory: MemoryCoordinator, url: str, clock: Clock, archived: str
) -> None:
    expiring = one(
        url,
        "SELECT count(*) FROM memory.archived WHERE split_part(key, ' ', 2)::int %% 4 = 2",
    )
    clock.now = NOW + timedelta(days=3000)

    report = memory.restore_archive(archived)

    assert (report.restored, report.expired) == (NUMBER - expiring, expiring)
    clock.now = NOW
    assert memory.restore_archive(archived).restored == 0


def test_exposures_outlast_the_archive_and_what_they_earn_is_added(
    memory: MemoryCoordinator, url: str, tmp_path: Path
) -> None:
    remember(url, "a", namespace="")
    assert memory.get("a") is not None
    memory.record_outcome([memory.get("a")], success=True, run_id="first")  # type: ignore[list-item]
    execute(
        url,
        """INSERT INTO memory.exposures (tenant, run, id, position, held_out, exposed_at)
           SELECT tenant, 'open', id, 1, false, %s FROM memory.memories""",
        NOW,
    )
    (name,) = memory.archive(policy(tmp_path)).archives
    memory.tiered_store.optimize()
    memory.record_outcome(run_id="open", success=False)
    memory.tiered_store.optimize()

    memory.restore_archive(name)

    found = memory.get("a")
    assert found is not None
    assert (found.access_count, found.success_count, found.failure_count) == (2, 1, 1)
    assert count(url, "exposures") == 2
