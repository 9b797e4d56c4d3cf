"""Tools by which a model keeps its own memory in a namespace, on any LangGraph store.

Names, parameters and stored values equal those of the tools of the same names in `langmem`, so that
either can stand in for the other on the same memories. In a `TieredStore` they write through the
gate, as an agent, and find the memories that a recall shows. A memory of a person, or of the
application itself, is protected: a model may add a memory beside it. It changes and deletes only
memories that a recall shows and that no person answers for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, Optional, TypeAlias, get_args, get_origin
from uuid import UUID, uuid4

from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from langgraph.config import get_store
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore, PutOp, SearchItem, SearchOp
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model

from langmem_tiers.coordinator.base import default_reader
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.core import checks, prompts, values
from langmem_tiers.core import memory as nouns
from langmem_tiers.core.context import label_of
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import (
    PERSON_SOURCES,
    TIERS,
    TRUST_THRESHOLD,
    Moment,
    Source,
    StoreResult,
    Tier,
)
from langmem_tiers.graph import memory_tools, runtime
from langmem_tiers.graph.memory_tools import Action, make_context_tool, make_tool
from langmem_tiers.graph.runtime import NodeConfig, Scope, invoke
from langmem_tiers.graph.speakers import messages_so_far, trust_in_run
from langmem_tiers.postgres.flow import Call, Flow, single
from langmem_tiers.recall import question, ranking
from langmem_tiers.recall import recall as recalls
from langmem_tiers.remember.commit import LockedCheck, commit_writes
from langmem_tiers.remember.gate import Decision, Gate
from langmem_tiers.remember.new_memory import NewMemory, checked_content, checked_text
from langmem_tiers.remember.pipeline import unjudged_result, verdict_result
from langmem_tiers.store import operations
from langmem_tiers.store.store import TieredStore, TierView
from langmem_tiers.store.write import Write, keys_of

ResponseFormat = Literal["content", "content_and_artifact"]
OurStore: TypeAlias = TieredStore | TierView

_ACTIONS: tuple[Action, ...] = ("create", "update", "delete")
_GATE: Final = Gate()
_FURTHER_ROWS: Final = 100
"""Rows of each further page of a search, if not all rows of earlier pages are answers."""


def create_search_memory_tool(
    namespace: tuple[str, ...] | str | None = None,
    *,
    instructions: str = prompts.SEARCH_MEMORY_INSTRUCTIONS,
    store: BaseStore | None = None,
    response_format: ResponseFormat = "content",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "search_memory",
) -> BaseTool:
    """Make a tool that searches a namespace and everything below it, or a context's memory.

    Without a namespace it searches the memories that the run's context recalls, also reminders, and
    answers in lines with handles; `about="user"` lists the memories about the user. With a
    namespace it is langmem's: it returns the items as a JSON list, best first, and with
    `content_and_artifact` the items themselves are the artifact. In a `TieredStore` it then finds
    what a recall shows: nothing that is superseded, retracted, demoted or held back. An item that
    only asks the query itself is left out, as it is no answer.

    Args:
        namespace: Labels, in which `{name}` stands for `config["configurable"]["name"]`, written as
            `MemoryContext` writes a name; None is the context's memory.
        instructions: The text at the end of the tool's description.
        store: Any store; the graph's own if not given.
        response_format: `content_and_artifact` returns the items as an artifact as well.
        context, coordinator: Options of every node, without a namespace; see `create_recall_node`.
        name: The tool's name for the model.

    Raises:
        InvalidInputError: for an empty namespace, which would be every tenant's, and for
            placeholders that cannot be told apart.

    Example:
        ```python
        from langmem_tiers.graph.langmem_tools import create_search_memory_tool

        search = create_search_memory_tool(("{user_id}", "memories"))
        ```
    """
    if namespace is None:
        return make_context_tool("search", name, instructions, NodeConfig(context, coordinator))
    labels = _checked_labels(namespace)
    checks.checked_choice(response_format, get_args(ResponseFormat), "response_format")

    def search_memory(**arguments: Any) -> Flow[Any]:
        searched, op = _find_store(store), SearchOp(_fill_labels(labels), **arguments)
        with memory_tools.errors_to_model():
            if isinstance(searched, OurStore):
                items = yield from invoke(
                    searched.run, _search_tiered(searched, op, _run_user_id())
                )
            else:
                items = yield from _search_any(searched, op)
        text = json.dumps([item.dict() for item in items], ensure_ascii=False)
        return (text, items) if response_format == "content_and_artifact" else text

    ending = checks.checked_instance(instructions, str, "instructions")
    description = prompts.SEARCH_MEMORY.format(instructions=ending)
    further: Any = {"find_values": _item_values, "response_format": response_format}
    return make_tool(search_memory, name, description, _SearchMemory, **further)


def create_manage_memory_tool(
    namespace: tuple[str, ...] | str | None = None,
    *,
    instructions: str | None = None,
    schema: Any = str,
    actions_permitted: Sequence[Action] | None = _ACTIONS,
    store: BaseStore | None = None,
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "manage_memory",
) -> BaseTool:
    """Make a tool that creates, updates and deletes memories in a namespace, or a context's.

    Without a namespace it keeps the memory of the run's context, by handles or keys: an update
    supersedes and a deletion retracts, which `learning.rollback` and `truth.restore` undo. It
    changes no memory of another user, and a speaker's words only in that speaker's turns. A note
    of `kind="lesson"` is found again by the last failure of the turn.

    With a namespace it is langmem's: a memory is stored as `{"content": …}` under a random id. In a
    `TieredStore` it passes the gate (docs/gate.md) with the source `agent`. It does not change a
    memory that a person or the application itself stored there, and the message says so.

    The tool's message names the model's mistakes. A model is trusted no further than its tools.

    Args:
        namespace, store, context, coordinator, name: Options of `create_search_memory_tool`.
        instructions: The end of the tool's description; with a namespace langmem's by default.
        schema: The type of the content: `str`, or a Pydantic model.
        actions_permitted: Some of `create`, `update` and `delete`.

    Raises:
        InvalidInputError: if no action, or an unknown one, is permitted; for an empty namespace,
            and for placeholders that cannot be told apart.

    Example:
        ```python
        from langmem_tiers.graph.langmem_tools import create_manage_memory_tool

        manage = create_manage_memory_tool(("{user_id}", "memories"))
        ```
    """
    if namespace is None:
        ending = "" if instructions is None else instructions
        return make_context_tool("manage", name, ending, NodeConfig(context, coordinator))
    labels, actions = _checked_labels(namespace), _permitted_actions(actions_permitted)

    def manage_memory(
        content: Any = None,
        action: Action = actions[0],
        id: UUID | None = None,  # noqa: A002 - langmem's word
    ) -> Flow[str]:
        with memory_tools.errors_to_model():
            place = _find_store(store), _fill_labels(labels)
            return (yield from _carry_out_action(*place, action, id, content))

    advice = prompts.MANAGE_MEMORY_INSTRUCTIONS if instructions is None else instructions
    ending = checks.checked_instance(advice, str, "instructions")
    description = prompts.MANAGE_MEMORY.format(verbs=_verb_list(actions), instructions=ending)
    schema = _manage_schema(name, schema, actions)
    return make_tool(manage_memory, name, description, schema, schema_extra=_REQUIRED)


_REQUIRED: Final = {"required": list[str]()}
"""Empty list of required arguments: some providers refuse a schema without the list."""


class _SearchMemory(BaseModel):
    model_config = ConfigDict(title="search_memory")

    query: str
    limit: int = Field(default=10, ge=0)
    offset: int = Field(default=0, ge=0)
    filter: dict[str, Any] | None = None


def _item_values(answer: ToolMessage) -> list[Any]:
    """Return the values of the memories in an answer, as JSON."""
    items = json.loads(answer.text) if answer.status != "error" else []
    return [item["value"] for item in items]


def _manage_schema(name: str, schema: Any, actions: Sequence[Action]) -> type[BaseModel]:
    action: Any = Literal[tuple(actions)]
    wrong = f"schema is a type of the content, such as str or a Pydantic model, not {short(schema)}"
    if not isinstance(schema, type) and get_origin(schema) is None and schema is not Any:
        raise InvalidTypeError(wrong)
    try:
        return create_model(
            checked_text(name, "name"),
            content=(Optional[schema], None),  # noqa: UP045 - it may be no class
            action=(action, actions[0]),
            id=(UUID | None, None),
        )
    except PydanticUserError as error:
        raise InvalidTypeError(wrong) from error


def _permitted_actions(actions: Sequence[Action] | None) -> tuple[Action, ...]:
    listed = () if actions is None else checks.checked_list(actions, "actions_permitted", "actions")
    named = {
        checks.checked_choice(action, _ACTIONS, "an action of actions_permitted")
        for action in listed
    }
    if not named:
        raise InvalidInputError(f"actions_permitted is empty: name some of {', '.join(_ACTIONS)}")
    return tuple(action for action in _ACTIONS if action in named)


def _verb_list(actions: Sequence[Action]) -> str:
    *first, last = actions
    listed = f"{', '.join(first)} or {last}" if first else last
    return f"{listed.capitalize()} a memory"


def _carry_out_action(
    store: BaseStore, labels: tuple[str, ...], action: Action, memory_id: UUID | None, content: Any
) -> Flow[str]:
    """Carry out a model's change, and return the result in words for the model."""
    memory_tools.check_change(action, memory_id, content)
    plain = content.model_dump(mode="json") if isinstance(content, BaseModel) else content
    value: Any = None if action == "delete" else {"content": plain}
    put = PutOp(labels, str(memory_id or uuid4()), value)
    if not isinstance(store, OurStore):
        yield from invoke(store.put, labels, put.key, value)
    else:
        config = ensure_config()
        trust = yield from trust_in_run(messages_so_far(config), _GATE, config)
        result = yield from invoke(store.run, _change_item(store, put, action, trust))
        if result is not None and not result.stored:
            return prompts.NOT_STORED.format(reason=result.reason)
        if result is not None and result.quarantined:
            return prompts.HELD_BACK.format(id=put.key, reason=result.reason)
    verb = {"create": "created", "update": "updated", "delete": "Deleted"}[action]
    return f"{verb} memory {put.key}"


def _checked_labels(namespace: tuple[str, ...] | str) -> tuple[str, ...]:
    names = (namespace,) if isinstance(namespace, str) else namespace
    labels = tuple(checks.checked_list(names, "the namespace", "labels"))
    if not labels or "" in [label for label in labels if isinstance(label, str)]:
        raise InvalidInputError(
            f"the namespace is {short(namespace)}: name one label at least, and no empty one, such "
            "as ('memories', '{user_id}'); without any a tool would reach every tenant"
        )
    return tuple(map(runtime.checked_template, labels))


def _fill_labels(labels: Sequence[str]) -> tuple[str, ...]:
    config = ensure_config()
    return tuple(runtime.fill_template(label, config, _render_label) for label in labels)


def _render_label(name: str) -> str:
    """Return a name as `MemoryContext` writes it; one with a dot stays, and a store refuses it."""
    return name if "." in name else label_of(name)


def _run_user_id() -> str | None:
    """Return the user whom the run's context names; None outside of a graph."""
    with suppress(RuntimeError, KeyError):
        return runtime.user_of_context(
            getattr(get_runtime(), "context", None)
        )  # None outside of a graph
    return None


def _find_store(store: BaseStore | None) -> BaseStore:
    if store is not None:
        return store
    with suppress(RuntimeError, KeyError):
        if (graph_store := get_store()) is not None:
            return graph_store
    raise ConfigurationError(
        "the tool runs outside a graph, or in one without a store: create it with store=…, or the "
        "graph with compile(store=…) or create_agent(…, store=…)"
    )


# Changing and searching a store of ours, or any store


def _change_item(
    store: OurStore, put: PutOp, action: str, trust: float
) -> Flow[StoreResult | None]:
    """Carry out a model's change of a store of ours; return None for a deletion.

    Args:
        store, put, action: The store, and the change.
        trust: The trust in the model at most, after the answers of its tools.

    Raises:
        InvalidInputError: for a content that cannot be stored, or a memory that the model may not
            change; nothing was changed.
    """
    flows = store.flows
    tier = store.name if isinstance(store, TierView) else None
    wanted = operations.to_write(put, flows.options)
    if put.value is not None:
        content = checked_content(_gate_text(put.value["content"]))
        new_memory = NewMemory(content=content, memory_type=None, source=Source.AGENT, trust=trust)
        verdict = _GATE.judge(new_memory)
        if verdict.destination is None:
            return verdict_result(verdict)
        value = {**put.value, "source": Source.AGENT.value, "trust": verdict.trust}
        noted = put._replace(value=value, ttl=flows.default_ttl, index=["content"])
        held = verdict.reason if verdict.decision is Decision.QUARANTINE else None
        whole = operations.to_write(noted, flows.options)
        wanted = replace(whole, trust=verdict.trust, has_given_key=True, held=held)
    own_check = LockedCheck(
        partial(_current_under_key, wanted), partial(_check_own, put.key, action, tier, trust)
    )
    check = None if action == "create" else own_check
    applied = yield from commit_writes([wanted], flows, tier=tier, check=check)
    return None if put.value is None else unjudged_result(wanted, applied)


def _current_under_key(wanted: Write, moment: Moment) -> Call:
    """Return a query for the memory under a key, with a column that says if a recall shows it."""
    params = {**keys_of([wanted]), **recalls.visibility(moment)}
    return Call("standing_under_keys", params)


def _check_own(
    key: str, action: str, tier: Tier | None, trust: float, rows: Sequence[Sequence[Any]]
) -> None:
    """Refuse to change a memory that a recall does not show, or that a person answers for.

    A model that read a text which instructs its reader changes only memories trusted no more than
    that text.
    """
    shown = [value for value, lives_in, seen in rows if seen and lives_in == (tier or lives_in)]
    if not shown:
        raise InvalidInputError(prompts.NOT_THERE.format(id=key, action=action))
    most = trust if trust < TRUST_THRESHOLD else _GATE.policy.trust.of_source(Source.AGENT)
    if values.source_of(shown[0]) in PERSON_SOURCES or values.trust_of(shown[0]) > most:
        raise InvalidInputError(prompts.STANDS.format(id=key, action=action))


def _gate_text(content: Any, name: str = "") -> str:
    """Write a content as the gate reads it: a line for each text in a mapping or a list."""
    if isinstance(content, Mapping):
        return "\n".join(_gate_text(value, str(each)) for each, value in content.items())
    if isinstance(content, list):
        return "\n".join(_gate_text(value, name) for value in content)
    return f"{name}: {content}" if name else str(content)


def _search_tiered(store: OurStore, op: SearchOp, user_id: str | None) -> Flow[list[SearchItem]]:
    """Return a page of the memories that are recalled below a namespace, best first.

    They are the shared memories, and those of the user whom the namespace names, else the run.
    """
    flows, tiers = store.flows, (store.name,) if isinstance(store, TierView) else TIERS
    sought = operations.to_search(op, flows.options.bounds)
    place = nouns.encode_namespace(op.namespace_prefix)
    user = flows.options.user_of(place) or user_id
    ask = recalls.RecallQuery(
        query=sought.text or "",
        bounds=recalls.bounds_under(dict.fromkeys(tiers, sought.scope), place.tenant, user),
        tiers=frozenset(tiers),
        limit=sought.offset + sought.limit,
        conditions=sought.conditions,
        profile=ranking.PROFILES["match"],  # a read item keeps its place on the next page
        floor=ranking.DEFAULT_FLOOR,
    )
    best = yield from single(recalls.recall([ask], default_reader(store), flows))
    return [
        SearchItem(
            recollection.namespace,
            recollection.key,
            dict(recollection.value),
            recollection.created_at,
            recollection.updated_at,
            recollection.match,
        )
        for recollection in best[sought.offset :]
    ]


def _search_any(store: BaseStore, op: SearchOp) -> Flow[list[SearchItem]]:
    """Return a page of a search in any store, without items that only ask the query itself."""
    end = op.offset + op.limit
    size, start, results = end, 0, list[SearchItem]()
    while size and len(results) < end:
        about: Any = {"query": op.query, "filter": op.filter, "limit": size, "offset": start}
        items = yield from invoke(store.search, op.namespace_prefix, **about)
        results += [
            item for item in items if not question.is_repeated_question(item.value, str(op.query))
        ]
        if len(items) < size:
            break
        start, size = start + size, max(size, _FURTHER_ROWS)
    return results[op.offset : end]
