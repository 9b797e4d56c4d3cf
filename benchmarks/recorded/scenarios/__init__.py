"""What is gone through, by name; each is a function of a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.recorded.scenarios.agents import agents, tools
from benchmarks.recorded.scenarios.cycles import cycles, workers
from benchmarks.recorded.scenarios.files import files
from benchmarks.recorded.scenarios.learning import learning
from benchmarks.recorded.scenarios.nodes import nodes
from benchmarks.recorded.scenarios.remembering import remembering
from benchmarks.recorded.scenarios.reminding import reminding, states
from benchmarks.recorded.scenarios.sessions import archives, sessions
from benchmarks.recorded.scenarios.stores import stores
from benchmarks.recorded.scenarios.truth import truth
from benchmarks.recorded.scenarios.turns import turns
from benchmarks.recorded.scenarios.values import values
from benchmarks.recorded.world import World

_ALL = (
    stores,
    remembering,
    learning,
    truth,
    reminding,
    states,
    sessions,
    archives,
    turns,
    cycles,
    workers,
    nodes,
    agents,
    tools,
    files,
    values,
)
SCENARIOS: Mapping[str, Callable[[World], None]] = {one.__name__: one for one in _ALL}
