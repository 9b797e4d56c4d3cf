"""The record of what the package does: what it leaves out of a value, and how it differs."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4, uuid5

from benchmarks.recorded.coverage import missing, wanted
from benchmarks.recorded.difference import difference
from benchmarks.recorded.plain import Plain
from langmem_tiers import MemoryContext, Tier

BEFORE = "=== one (sync)\n# a.store()\n1\n# a.get()\n2\n=== two\n3\n"


def test_random_names_are_counted_and_names_made_of_content_are_kept() -> None:
    plain = Plain({"/somewhere": "<folder>"})
    one, other, made = uuid4(), uuid4(), uuid5(UUID(int=0), "content")

    told = plain([str(one), f"at {other}", one, made, "/somewhere/else"])

    assert told == ["<id 1>", "at <id 2>", "<id 1>", str(made), "<folder>/else"]


def test_a_value_is_told_by_the_name_of_its_type_without_what_is_usual() -> None:
    told = Plain({})([MemoryContext(tenant="acme"), Tier.WORKING, datetime(2026, 3, 1, tzinfo=UTC)])

    context = {"": "MemoryContext", "tenant": "acme"}
    assert told == [context, "Tier.WORKING", "2026-03-01T00:00:00+00:00"]


def test_a_difference_names_its_section_and_its_call() -> None:
    lines = difference(BEFORE, BEFORE.replace("2", "4"))

    assert lines[0] == "=== one (sync)"
    assert lines[3].endswith("@@ a.get()")
    assert lines[-2:] == ["-2", "+4"]
    assert difference(BEFORE, BEFORE) == []


def test_a_part_is_compared_with_that_part() -> None:
    assert difference(BEFORE, "=== two\n3\n", partly=True) == []
    assert difference(BEFORE, "=== two\n3\n")[0] == "=== one (sync)"


def test_a_verb_that_was_not_called_is_missed() -> None:
    called = wanted() - {("MemoryCoordinator", "store", "async")}

    assert missing(called) == ["MemoryCoordinator.store (async)"]
