"""The demonstration: a graph that remembers, and an agent that learns from its failures.

`build_graph` of `conversation.py` and `build_agent` of `agent.py` are the examples to read;
`make demo` runs them on a Postgres of its own and prints what happens. No key, no server, no
language model. All numbers are counted in the run.
"""
