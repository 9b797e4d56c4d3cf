"""What is printed of an object is one short line."""

from __future__ import annotations

import pytest

from langmem_tiers import MemoryContext, Reviewer, Reviewers, TieredStore
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.errors import InvalidInputError
from langmem_tiers.hooks import MemoryHooks
from langmem_tiers.turn.assemble import Decided
from langmem_tiers.turn.fragment import Fragment
from langmem_tiers.turn.layout import ORCHESTRATOR


def test_a_repr_is_one_short_line_without_secrets() -> None:
    store = TieredStore("postgresql://anna:secret@nowhere.invalid/memory", index={})
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
    reviewers = Reviewers([Reviewer(name="polite", storage=lambda _: (7.0, "always"))])
    fragment = Fragment(text="Keys rotate on Mondays. " * 9, source="semantic", key="keys")
    decided = Decided(fragment=fragment, chosen=False, tokens=50, reason="no room")

    shown = [repr(one) for one in (store, memory, MemoryHooks(memory), memory.state, ORCHESTRATOR)]
    assert all("secret" not in one and "\n" not in one and len(one) < 250 for one in shown)
    assert repr(reviewers) == "Reviewers(polite)"
    assert repr(decided) == "Decided(keys: out, no room)"
    assert repr(ORCHESTRATOR).startswith("Layout(")


def test_a_reviewer_that_must_be_awaited_is_refused() -> None:
    async def polite(_: object) -> tuple[float, str]:
        return 7.0, "always"

    with pytest.raises(InvalidInputError, match="'polite' has an async function"):
        Reviewer(name="polite", storage=polite)  # type: ignore[arg-type]
