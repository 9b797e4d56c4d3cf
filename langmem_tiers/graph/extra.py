"""What is used of LangGraph, which is an extra: who lacks it is told so, by any module here."""

from __future__ import annotations

from langmem_tiers.core.errors import MissingExtraError

try:
    from langgraph.channels import UntrackedValue
    from langgraph.config import get_store
    from langgraph.errors import GraphBubbleUp
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.message import add_messages
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.managed.base import ManagedValue
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime, get_runtime
    from langgraph.types import Checkpointer, Command, RetryPolicy, Send, interrupt
except ImportError as error:
    raise MissingExtraError(
        "this needs LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error

__all__ = [
    "END",
    "START",
    "Checkpointer",
    "Command",
    "CompiledStateGraph",
    "GraphBubbleUp",
    "ManagedValue",
    "RetryPolicy",
    "Runtime",
    "Send",
    "StateGraph",
    "ToolCallRequest",
    "UntrackedValue",
    "add_messages",
    "get_runtime",
    "get_store",
    "interrupt",
]
