"""What is asked back: functions, models and states of the caller's that return something odd.

Each function makes a call with good arguments in which the caller's part returns `returned`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage

from langmem_tiers import (
    MemoryCoordinator,
    MemoryHooks,
    MemoryOrchestrator,
    MemoryType,
    MemoryTypes,
    Reviewer,
    Tier,
    TieredMemoryRetriever,
    TieredStore,
    create_assemble_node,
    create_commit_node,
    create_evolution_node,
    create_outcome_node,
    create_recall_node,
    create_reflexion_node,
    create_remember_node,
    create_skill_node,
)
from langmem_tiers.remember.review import Reviewers
from tests.support.graphs import chain

SAID: Final = "The API key is rotated on Mondays."


def _and(returned: Any) -> Callable[..., Any]:
    return lambda *_, **__: returned


def _beside(memory: MemoryCoordinator, **options: Any) -> MemoryCoordinator:
    return MemoryCoordinator(memory.tiered_store, context=memory.context, **options)


def profile_returns(memory: MemoryCoordinator, returned: Any) -> object:
    """A ranking profile."""
    return memory.get_context(SAID, profile=_and(returned), min_match=0)


def predicate_returns(memory: MemoryCoordinator, returned: Any) -> object:
    """A predicate of reminders."""
    return memory.reminders.due(state={}, predicates={"done": _and(returned)})


def counter_returns(memory: MemoryCoordinator, returned: Any) -> object:
    """A counter of tokens."""
    counting = _beside(memory, count_tokens=_and(returned))
    return counting.get_context(SAID, max_tokens=100, min_match=0)


def extractor_returns(memory: MemoryCoordinator, returned: Any) -> object:
    """The extractor of a memory type."""
    kind = MemoryType(name="own", tier=Tier.WORKING, title="Own", extract=_and(returned))
    return _beside(memory, types=MemoryTypes([kind])).store(SAID, "own")


def scorer_returns(memory: MemoryCoordinator, returned: Any) -> object:
    """The scorer of a memory type."""
    kind = MemoryType(name="semantic", tier=Tier.WORKING, title="Own", score=_and(returned))
    own = _beside(memory, types=MemoryTypes([kind]))
    return own.get_context(SAID, memory_types=["semantic"], min_match=0)


def detector_returns(memory: MemoryCoordinator, returned: Any) -> object:
    """A detector of private data."""
    return _beside(memory, detectors=[_and(returned)]).store(SAID)


def reviewer_returns(memory: MemoryCoordinator, returned: Any) -> object:
    """A reviewer of what is stored, and of what is recalled."""
    own = Reviewer(name="own", storage=_and(returned), relevance=_and(returned))
    reviewed = _beside(memory, reviewers=Reviewers([own]))
    reviewed.get_context(SAID, review="own", min_match=0)
    return reviewed.store(SAID)


def entities_return(memory: MemoryCoordinator, returned: Any) -> object:
    """What extracts entities."""
    told = {"content": SAID, "response": "Done."}
    return memory.learning.evolve(told, {"score": 0.9}, extract_entities=_and(returned))


def source_returns(memory: MemoryCoordinator, returned: Any) -> object:
    """A source of a turn."""
    with MemoryOrchestrator(memory, sources={"wiki": _and(returned)}) as turn:
        turn.assemble_context(SAID)
        return turn.commit()


def router_returns(memory: MemoryCoordinator, returned: Any) -> object:
    """What routes what a turn keeps."""
    with MemoryOrchestrator(memory, router=_and(returned)) as turn:
        turn.memorize(SAID)
        return turn.commit()


def result_of_a_tool(memory: MemoryCoordinator, returned: Any) -> object:
    """What a tool answered, of which a trace is kept."""
    with MemoryOrchestrator(memory) as turn:
        turn.track_tool_invocation("look", {"at": returned}, returned)
        return turn.commit()


class _Returning(Embeddings):
    """A model that returns the same whatever it is asked."""

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def embed_documents(self, texts: list[str]) -> Any:
        return [self.returned for _ in texts]

    def embed_query(self, text: str) -> Any:  # noqa: ARG002 - the interface
        return self.returned


def embeddings_return(memory: MemoryCoordinator, returned: Any) -> object:
    """An embedding model."""
    index = {"dims": 64, "embed": _Returning(returned), "fields": ["text"]}
    with TieredStore(memory.tiered_store.target.conninfo, index=index) as store:
        store.put(("acme", "notes"), "new", {"text": SAID})
    return memory


def retriever_is_asked(
    memory: MemoryCoordinator,
    query: Any = SAID,
    k: Any = 5,
    tiers: Any = None,
    filter: Any = None,  # noqa: A002
) -> object:
    """A retriever, with options of one call."""
    retriever = TieredMemoryRetriever(memory=memory)
    return retriever.invoke(query, k=k, tiers=tiers, filter=filter)


def hook_is_told(
    memory: MemoryCoordinator, session_id: Any = "chat", events: Any = (), concepts: Any = ()
) -> object:
    """The end of a session."""
    told = {"session_id": session_id, "events": events, "concepts": concepts}
    return MemoryHooks(memory).on_session_stop(told)


def _run(memory: MemoryCoordinator, *nodes: Any) -> object:
    messages = [HumanMessage(SAID), AIMessage("Noted.")]
    graph = chain(memory.tiered_store, *nodes)
    return graph.invoke({"messages": messages}, context=memory.context)


def state_says(memory: MemoryCoordinator, returned: Any) -> object:
    """What a function of the state says to recall and assemble."""
    says = _and(returned)
    return _run(
        memory,
        create_recall_node(query=says),
        create_assemble_node(prompt=says),
    )


def state_says_how_it_went(memory: MemoryCoordinator, returned: Any) -> object:
    """What a function of the state says of success."""
    says = _and(returned)
    return _run(memory, create_recall_node(), create_outcome_node(says), create_skill_node(says))


def state_says_what_was_tried(memory: MemoryCoordinator, returned: Any) -> object:
    """What a function of the state says of failed attempts."""
    return _run(memory, create_reflexion_node(attempts=_and(returned)))


def state_says_what_happened(memory: MemoryCoordinator, returned: Any) -> object:
    """What functions of the state say of an interaction."""
    says = _and(returned)
    return _run(memory, create_evolution_node(interaction=says, success_metrics=says))


def state_says_what_to_keep(memory: MemoryCoordinator, returned: Any) -> object:
    """What a function of the state says to memorize."""
    return _run(memory, create_assemble_node(), create_commit_node(memorize=_and(returned)))


def context_of_a_run(memory: MemoryCoordinator, returned: Any) -> object:
    """The context that a run is given."""
    graph = chain(memory.tiered_store, create_recall_node(), create_remember_node())
    return graph.invoke({"messages": [HumanMessage(SAID)]}, context=returned)
