"""A small LangGraph graph that remembers in one thread and recalls in another."""

import uuid
from typing import Any, Literal, TypeAlias, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from rich.console import Group
from rich.panel import Panel
from rich.table import Table

from langmem_tiers.cli.rendering import recollection_why
from langmem_tiers.core.memory import MemoryContext, Tier
from langmem_tiers.demo.panels import grid, panel
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.store.store import TieredStore

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
    """A graph with two nodes: questions are answered from memory, all else is remembered.

    Example:
        ```python
        from langmem_tiers import MemoryContext, TieredStore
        from langmem_tiers.demo import build_graph

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
        "why": recollection_why(best),
    }
    return {"answer": f'You told me: "{best.content}"', "recalled": recalled}


def _memory(runtime: Runtime[MemoryContext]) -> MemoryCoordinator:
    return MemoryCoordinator(cast("TieredStore", runtime.store), context=runtime.context)


def conversation(store: TieredStore) -> list[Panel]:
    """Hold conversations in three threads; what was stored where, what was recalled and why."""
    graph = build_graph(store)
    return [_told(graph), _asked(graph), _moved(store, graph)]


def _told(graph: Graph) -> Panel:
    table = grid("tier", "type", "key", "the user said")
    for said, kind in (*((fact, "semantic") for fact in FACTS), (MOOD, "working")):
        stored = _turn(graph, "monday", said, kind)["stored"]
        table.add_row(stored["tier"], kind, stored["key"], said)
    return panel("1. Thread “monday”: remembered word for word", table)


def _asked(graph: Graph) -> Panel:
    table = grid("question and answer", "tier", "score", "why")
    for question in QUESTIONS:
        _add_answer(table, question, _turn(graph, "friday", question))
    return panel("2. Thread “friday”, which saw none of it: recalled from the store", table)


def _moved(store: TieredStore, graph: Graph) -> Panel:
    namespace = MemoryContext(tenant=USER, session_id="monday").namespace(Tier.SHORT_TERM)
    key = _key_of(store, namespace, MOOD)
    table = grid("tier", "key", "created", "expires")
    before = store.tier(Tier.SHORT_TERM).get(namespace, key)
    table.add_row(Tier.SHORT_TERM, key, "at first", "one hour after it was last read")
    for tier in (Tier.WORKING, Tier.LONG_TERM):
        store.move(namespace, key, tier)
        item = store.tier(tier).get(namespace, key)
        same = item is not None and before is not None and item.created_at == before.created_at
        table.add_row(tier, key, "the same" if same else "anew", "never")
    answers = grid("question and answer", "tier", "score", "why")
    question = "Should answers be short?"
    _add_answer(answers, question, _turn(graph, "sunday", question))
    title = "3. It moves up and stays itself: now any thread recalls it"
    return panel(title, Group(table, "", answers))


def _turn(graph: Graph, thread: str, said: str, memory_type: str = "semantic") -> dict[str, Any]:
    context = MemoryContext(tenant=USER, session_id=thread)
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    return graph.invoke({"said": said, "memory_type": memory_type}, config, context=context)


def _key_of(store: TieredStore, namespace: tuple[str, ...], said: str) -> str:
    (item,) = store.search(namespace, filter={"content": said})
    return item.key


def _add_answer(table: Table, question: str, state: dict[str, Any]) -> None:
    recalled = state["recalled"]
    score = f"{recalled['score']:.2f}"
    table.add_row(
        f"{question}\n{state['answer']}",
        recalled["tier"],
        score,
        recalled["why"].replace(", ", "\n"),
    )
