"""A small LangGraph graph that remembers in one thread and recalls in another."""

import uuid
from typing import Any, Literal, TypeAlias, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore

USER = "ada"
FACTS = (
    "My sister Ines lives in Lisbon.",
    "I am allergic to peanuts.",
    "The staging server is called heron-42.",
)
MOOD = "I am tired today and want short answers."
QUESTIONS = (
    "What food must I avoid because of an allergy?",
    "Where does my sister live?",
    "What is heron-42?",
)


class State(TypedDict, total=False):
    """One turn of a conversation: what was said, as which type of memory, and the answer."""

    said: str
    memory_type: str
    answer: str
    stored: dict[str, str]
    recalled: dict[str, Any]


Graph: TypeAlias = CompiledStateGraph[State, MemoryContext, State, State]


def build_graph(store: TieredStore) -> Graph:
    """Make a graph of two nodes: it answers questions from memory and remembers all else.

    Example:
        ```python
        from demo.conversation import build_graph
        from langmem_tiers import MemoryContext, TieredStore

        with TieredStore.embedded("./.memory") as store:
            graph = build_graph(store)
            for thread, said in (("1", "I live in Lisbon."), ("2", "Where do I live?")):
                config = {"configurable": {"thread_id": thread}}
                ada = MemoryContext(tenant="ada", session_id=thread)
                print(graph.invoke({"said": said}, config, context=ada)["answer"])
        ```
    """
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node("remember", remember)
    builder.add_node("recall", recall)
    builder.add_conditional_edges(START, route)
    builder.add_edge("remember", END)
    builder.add_edge("recall", END)
    return builder.compile(store=store, checkpointer=InMemorySaver())


def route(state: State) -> Literal["remember", "recall"]:
    """Send questions to recall and everything else to remember."""
    return "recall" if state["said"].endswith("?") else "remember"


def remember(state: State, runtime: Runtime[MemoryContext]) -> State:
    """Store what was said, word for word; its type says in which tier it starts.

    The key comes from the words: saying it twice is once.
    """
    said = state["said"]
    memory = {
        "content": said,
        "memory_type": state.get("memory_type", "semantic"),
        "speaker": "user",
        "key": uuid.uuid5(uuid.NAMESPACE_OID, said).hex[:8],
    }
    (stored,) = _memory(runtime).store_many([memory])
    kept = {"tier": str(stored.tier), "key": str(stored.key)}
    return {"answer": f"Noted in {stored.tier}.", "stored": kept}


def recall(state: State, runtime: Runtime[MemoryContext]) -> State:
    """Answer with the memory that matters most for the question, in whichever tier it is."""
    found = _memory(runtime).get_context(state["said"], limit=1)
    if not found:
        return {"answer": "You have told me nothing that answers this."}
    (best,) = found
    recalled = {
        "key": best.key,
        "tier": best.tier.value,
        "score": best.score,
        "explanation": dict(best.explanation),
    }
    return {"answer": f'You told me: "{best.content}"', "recalled": recalled}


def _memory(runtime: Runtime[MemoryContext]) -> MemoryCoordinator:
    return MemoryCoordinator(cast("TieredStore", runtime.store), context=runtime.context)


def turn(graph: Graph, thread: str, said: str, memory_type: str = "semantic") -> State:
    """Say something in a thread."""
    context = MemoryContext(tenant=USER, session_id=thread)
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    run = graph.invoke({"said": said, "memory_type": memory_type}, config, context=context)
    return cast("State", run)
