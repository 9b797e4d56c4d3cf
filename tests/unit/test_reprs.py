"""What is printed of an object is one short line."""

from __future__ import annotations

from langmem_tiers import MemoryContext, Reviewer, TieredStore
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.hooks import MemoryHooks
from langmem_tiers.remember.review import Reviewers
from langmem_tiers.turn.fitting import Fitted
from langmem_tiers.turn.layout import ORCHESTRATOR, Fragment
from langmem_tiers.turn.orchestrator import MemoryOrchestrator


def test_a_repr_is_one_short_line_without_secrets() -> None:
    store = TieredStore("postgresql://anna:secret@nowhere.invalid/memory", index={})
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
    reviewers = Reviewers([Reviewer(name="polite", storage=lambda _: (7.0, "always"))])
    fragment = Fragment(text="Keys rotate on Mondays. " * 9, source="semantic", key="keys")
    decided = Fitted(fragment=fragment, chosen=False, tokens=50, reason="no room")

    turn = MemoryOrchestrator(memory, turn_id="t1")
    several = (store, memory, MemoryHooks(memory), memory.state, ORCHESTRATOR, turn)
    shown = [repr(one) for one in several]
    assert all("secret" not in one and "\n" not in one and len(one) < 250 for one in shown)
    assert repr(reviewers) == "Reviewers(polite)"
    assert repr(decided) == "Fitted(keys: out, no room)"
    assert repr(ORCHESTRATOR).startswith("Layout(")
    assert repr(store) == "TieredStore(short_term, working, long_term; searched by words)"
    mine = TieredStore("", index={"dims": 64, "embed": len}, schema_prefix="mine_")
    assert repr(mine).endswith("; 64 dimensions; schemas mine_…)")
    assert "tenant='acme'" in repr(memory)
    assert repr(turn).endswith(", orchestrator: not begun)")
    assert repr(turn.begin()).endswith(", orchestrator: 't1' goes on)")
    assert not any(" object at 0x" in one for one in shown)
