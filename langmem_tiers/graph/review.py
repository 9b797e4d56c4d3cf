"""A node by which people review quarantined memories: it interrupts the graph for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from langchain_core.runnables import Runnable
from langgraph.graph import END, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from langmem_tiers.coordinator.base import MAX_LIMIT, checked_limit
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.core import prompts
from langmem_tiers.core.checks import parsed_moment
from langmem_tiers.core.errors import ConflictError, InvalidInputError, short
from langmem_tiers.graph.runtime import NodeConfig, Scope, Step, Update, invoke
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.prompt_text import clean_label, escape_fences
from langmem_tiers.remember.new_memory import checked_text
from langmem_tiers.remember.quarantine import Quarantined

_HISTORY_KINDS: Final = {"release": "released", "reject": "rejected"}
"""Decisions, and their kinds in a memory's history."""
_DECISIONS: Final = {done: decision for decision, done in _HISTORY_KINDS.items()}
_FORM: Final = (
    "resume with {key: 'release' or 'reject', or {'decision': …, 'reason': …, 'version': …}}"
)
_CHANGED: Final = "it was changed since you saw it: look at it again"
_SHOWN_FIELDS: Final = ("key", "source", "trust", "memory_type", "id")


class ReviewDecision(TypedDict):
    """Decision about a quarantined memory, if it still has this version."""

    key: str
    decision: str
    reason: str
    version: str
    id: int
    since: str
    """Time at which it was quarantined."""


class _ReviewInput(TypedDict):
    """Input of a review: none of the graph's state."""


class _ReviewOutput(TypedDict, total=False):
    """Output of a review to the graph's state."""

    reviewed: list[dict[str, Any]]


class _ReviewState(_ReviewOutput, total=False):
    """State of a review, as JSON."""

    asked: dict[str, Any] | None
    """Payload of the interrupt; None once it is answered."""
    decided: list[ReviewDecision]


def create_review_node(
    *,
    limit: int = 20,
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "review",
) -> Runnable[Any, Update]:
    """Create a node that asks a person about quarantined memories, and releases or rejects them.

    It raises one `interrupt` with all that wait, and goes on with
    `Command(resume={key: "release"})`; a decision is `"release"`, `"reject"`, or a mapping such as
    `{"decision": "reject", "reason": "spam"}`. A decision holds for the version that was shown: a
    memory that was rewritten since is asked about again. Only shown memories can be decided; for
    another one the decision has to name the `version` that the person looked at. A memory that is
    not named stays quarantined. If none waits there is no interrupt. An answer that is no decision
    changes nothing: the node asks again, with an `error` that explains it. If a graph stands at
    several interrupts, the answer is given by the interrupt's id, as LangGraph wants it.

    The payload is JSON: `memories`, each with its `key`, `namespace`, `content`, `reason`,
    `source`, `trust`, `tier`, `memory_type`, `quarantined_at`, `id` and `version`, and `text`, all
    of them for a reader. Contents are data: a sign that could end a fence is written `&lt;`.

    It writes the state key `reviewed`: a `key`, a `decision` and a `reason` for each memory decided
    here, as the memory's history has them. Repeated after a crash or by several people, it does
    nothing twice: the first person decides, and `reviewed` has that decision, but no memory that
    was deleted or rewritten meanwhile.

    Args:
        limit: Memories at most that are asked about at a time, the oldest first.
        context: Whose memory it is; see `create_recall_node`. The node asks about the memories that
            a recall in the run's context would see; about all of the tenant if the context names
            no project and no session.
        coordinator, name: Options of every node; see `create_recall_node`.

    Example:
        ```python
        class State(MemoryState):
            reviewed: list[dict]


        builder = StateGraph(State, context_schema=MemoryContext)
        builder.add_node("review", create_review_node())
        builder.set_entry_point("review")
        graph = builder.compile(store=store, checkpointer=checkpointer)
        ```
    """
    most = checked_limit(limit)
    steps: dict[str, Callable[[Step], Flow[Update]]] = {
        "look": partial(_look, most=most),
        "ask": partial(_ask, most=most),
        "decide": _decide,
    }
    # Each node is a checkpoint, so that an answer is judged once, by the question that was shown.
    builder = StateGraph(_ReviewState, input_schema=_ReviewInput, output_schema=_ReviewOutput)
    for step, body in steps.items():
        builder.add_node(step, NodeConfig(context, coordinator, step).node(body))
    builder.set_entry_point("look")
    builder.add_conditional_edges("look", lambda state: "ask" if state.get("asked") else END)
    builder.add_conditional_edges("ask", lambda state: "ask" if state["asked"] else "decide")
    return builder.compile(name=checked_text(name, "name"))


def _look(step: Step, *, most: int) -> Flow[Update]:
    """List the memories to ask about."""
    held = (yield from _list_quarantined(step.memory))[:most]
    return {"asked": _interrupt_payload(held)} if held else {"reviewed": []}


def _ask(step: Step, *, most: int) -> Flow[Update]:
    """Ask a person, and read the answer; ask again if it is no decision."""
    question = step.state["asked"]
    answer = interrupt(question)
    held = yield from _list_quarantined(step.memory)
    try:
        return {"asked": None, "decided": _read_decisions(answer, question["memories"], held)}
    except InvalidInputError as error:
        again = {**_interrupt_payload(held[:most]), "error": str(error)} if held[:most] else None
        return {"asked": again, "decided": []}


def _decide(step: Step) -> Flow[Update]:
    """Carry out the decisions; a memory that was changed since waits for another review."""
    decided: list[ReviewDecision] = step.state["decided"]
    waiting = {held.id for held in (yield from _list_quarantined(step.memory))}
    for decision in decided:
        if decision["id"] in waiting:  # else it was decided already
            yield from _carry_out(step.memory, decision)
    since = {decision["id"]: datetime.fromisoformat(decision["since"]) for decision in decided}
    done = yield from invoke(step.memory.admin.decisions, since)
    ruled = [
        (decision["key"], done[decision["id"]]) for decision in decided if decision["id"] in done
    ]
    return {
        "reviewed": [
            {"key": key, "decision": _DECISIONS[ruling.kind], "reason": ruling.reason}
            for key, ruling in ruled
        ]
    }


def _carry_out(memory: MemoryCoordinator, decision: ReviewDecision) -> Flow[None]:
    """Release or reject a memory, unless it was changed, or somebody was quicker."""
    verb: Any = memory.admin.release if decision["decision"] == "release" else memory.admin.reject
    version = datetime.fromisoformat(decision["version"])
    try:
        yield from invoke(verb, decision["key"], reason=decision["reason"], version=version)
    except ConflictError:
        return
    except InvalidInputError as error:
        if error.code != "not_quarantined":
            raise
        if decision["id"] in {each.id for each in (yield from _list_quarantined(memory))}:
            raise  # nobody was quicker: another memory has its key


def _list_quarantined(memory: MemoryCoordinator) -> Flow[list[Quarantined]]:
    """List the quarantined memories of the context."""
    is_narrow = memory.context.project_id is not None or memory.context.session_id is not None
    return invoke(memory.admin.list_quarantined, limit=MAX_LIMIT, own=is_narrow)


def _interrupt_payload(held: Sequence[Quarantined]) -> dict[str, Any]:
    shown = [
        prompts.HELD_ONE.format(
            key=clean_label(memory.key),
            source=clean_label(memory.source),
            trust=f"{memory.trust:g}",
            why=clean_label(memory.reason),
            content=escape_fences(memory.content),
        )
        for memory in held
    ]
    memories = [
        {
            **{name: getattr(memory, name) for name in _SHOWN_FIELDS},
            "namespace": list(memory.namespace),
            "content": escape_fences(memory.content),
            "reason": escape_fences(memory.reason),
            "tier": memory.tier.value,
            "quarantined_at": memory.quarantined_at.isoformat(),
            "version": memory.version.isoformat(),
        }
        for memory in held
    ]
    text = "\n".join([prompts.HELD_HEAD, *shown, prompts.HELD_TAIL])
    return {"memories": memories, "text": text, "how": _FORM}


def _read_decisions(
    answer: object, shown: Sequence[Mapping[str, Any]], held: Sequence[Quarantined]
) -> list[ReviewDecision]:
    """Read the decisions of an answer, each for the version that was shown, or that it names.

    Raises:
        InvalidInputError: if it is no decision about memories; for a memory that nobody was asked
            about, that has changed, or that shares its key with another one.
    """
    if not isinstance(answer, Mapping) or not all(isinstance(key, str) for key in answer):
        raise InvalidInputError(f"{short(answer)} is no decision: {_FORM}")
    decisions = {key: _read_decision(key, value) for key, value in answer.items()}
    keys = [memory.key for memory in held]
    seen = {memory["key"]: memory for memory in shown}
    waiting = {memory["key"]: memory for memory in _interrupt_payload(held)["memories"]}
    decided: list[Any] = []
    for key, (decision, reason, named) in decisions.items():
        stands = waiting.get(key)
        which = stands or seen.get(key)
        version = named or (seen[key]["version"] if key in seen else None)
        if version is None or which is None:
            raise InvalidInputError(f"{key!r} is nothing that you were asked about: {_FORM}")
        if stands is not None and stands["version"] != version:
            raise InvalidInputError(f"{key!r}: {_CHANGED}")
        if keys.count(key) > 1:
            also = "review them in runs whose contexts name their projects"
            raise InvalidInputError(f"several quarantined memories have the key {key!r}: {also}")
        fields: Any = {"id": which["id"], "since": which["quarantined_at"], "version": version}
        decided.append({"key": key, "decision": decision, "reason": reason, **fields})
    return decided


def _read_decision(key: str, value: object) -> tuple[str, str, str | None]:
    """Read an answer about a memory: the decision, the reason, and the version."""
    fields = {"decision": value} if isinstance(value, str) else value
    if not isinstance(fields, Mapping) or fields.keys() - {"decision", "reason", "version"}:
        raise InvalidInputError(f"{short(value)} is no decision about {key!r}: {_FORM}")
    decision, reason, version = (fields.get(name) for name in ("decision", "reason", "version"))
    if not isinstance(decision, str) or decision not in _HISTORY_KINDS:
        raise InvalidInputError(f"{short(decision, 40)} is no decision about {key!r}: {_FORM}")
    if reason is not None and (not isinstance(reason, str) or not reason.strip()):
        raise InvalidInputError(f"the reason about {key!r} is a text, not {short(reason, 40)}")
    if version is not None and not isinstance(version, str):
        raise InvalidInputError(f"the version of {key!r} is that of the question, or is left out")
    if version is not None:
        version = parsed_moment(version, f"the version of {key!r}").isoformat()
    return decision, reason or f"{_HISTORY_KINDS[decision]} by a person who reviewed it", version
