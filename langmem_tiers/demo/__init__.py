"""The demonstration: a graph that remembers, and an agent that learns from its failures.

`build_graph` and `build_agent` are the examples to read; `show` runs them on a Postgres of its own
and prints what happens. No key, no server, no language model. All numbers are counted in the run.
"""

from langmem_tiers.demo.agent import build_agent
from langmem_tiers.demo.conversation import Graph, State, build_graph
from langmem_tiers.demo.showing import show

__all__ = ["Graph", "State", "build_agent", "build_graph", "show"]
