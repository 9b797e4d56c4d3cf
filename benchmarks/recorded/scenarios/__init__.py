"""What is gone through, by name; each is a function of a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.recorded.scenarios.remembering import remembering
from benchmarks.recorded.scenarios.stores import stores
from benchmarks.recorded.world import World

SCENARIOS: Mapping[str, Callable[[World], None]] = {
    one.__name__: one for one in (stores, remembering)
}
