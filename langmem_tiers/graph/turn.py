"""Nodes by which a graph goes through a turn: its context, its tool calls, and its commit.

Example:
    ```python
    from langgraph.graph import StateGraph
    from langmem_tiers import MemoryContext
    from langmem_tiers.graph.recall import MemoryState
    from langmem_tiers.graph.turn import create_assemble_node, create_commit_node

    builder = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("assemble", create_assemble_node())
    builder.add_node("commit", create_commit_node())
    builder.add_edge("assemble", "commit")
    builder.set_entry_point("assemble")
    graph = builder.compile(store=store)
    graph.invoke({"messages": ["When do keys change?"]}, context=MemoryContext(tenant="acme"))
    ```
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypedDict, Unpack

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.prebuilt.tool_node import ToolCallRequest

from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.recall import unknown_option_text
from langmem_tiers.core.errors import BudgetExceededError, InvalidInputError, InvalidTypeError
from langmem_tiers.core.settings import OrchestratorSettings
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.graph import learning, messages, runtime, speakers
from langmem_tiers.graph.messages import Handler, ToolAnswer, run_tool_call
from langmem_tiers.graph.runtime import Scope, StateSource, Step, Update, invoke
from langmem_tiers.postgres.flow import Flow, both, unit
from langmem_tiers.turn import assembly, orchestrator, pending
from langmem_tiers.turn.layout import ORCHESTRATOR, Layout
from langmem_tiers.turn.orchestrator import MemoryOrchestrator
from langmem_tiers.turn.trace import Budget
from langmem_tiers.turn.turn import Router, check_turn_arguments

_log = logging.getLogger(__name__)


class TurnOptions(TypedDict, total=False):
    """Options of the nodes of a turn; give all of them the same."""

    budget: Budget | None
    """Budget of the turn."""
    settings: OrchestratorSettings | None
    """See `MemoryOrchestrator`."""
    context: Scope | None
    """Context of the memory: a `MemoryContext`, or a mapping of some of its fields. `{name}` in a
    field stands for `config["configurable"]["name"]`, `{thread_id}` for instance."""
    coordinator: Callable[..., MemoryCoordinator]
    """Function that makes the coordinator from a store and `context`."""


class _TurnConfig(NamedTuple):
    """Settings of a graph's turns: their rules, and the config of a node."""

    rules: Mapping[str, Any]
    config: runtime.NodeConfig

    def new_turn(self, step: Step, **further: Any) -> MemoryOrchestrator:
        """Return an orchestrator for one run of a node."""
        return MemoryOrchestrator(step.memory, **self.rules, **further)

    def open_turn(self, step: Step, **further: Any) -> MemoryOrchestrator:
        """Return an orchestrator in the turn that the state holds."""
        if not (open_turn := step.read("turn")):
            raise InvalidInputError(
                "no turn has begun: put the assemble node before this one, and add the key 'turn' "
                "to the state (MemoryState has it)"
            )
        return self.new_turn(step, **further).begin(open_turn)

    def node(self, body: Callable[[Step], Flow[Update]]) -> Runnable[Any, Update]:
        """Make a node of a turn's flow, which the store runs."""
        return self.config.node(lambda step: invoke(step.memory.tiered_store.run, body(step)))


def _turn_config(name: str, options: TurnOptions, **of_states: StateSource | None) -> _TurnConfig:
    """Check the options of a node, and the keys that it reads from a state."""
    runtime.check_state_sources(**of_states)
    if unknown := options.keys() - TurnOptions.__annotations__.keys():
        raise InvalidTypeError(unknown_option_text(min(unknown), [*TurnOptions.__annotations__]))
    rules = {rule: options.get(rule) for rule in ("budget", "settings")}
    coordinator = options.get("coordinator", MemoryCoordinator)
    return _TurnConfig(rules, runtime.NodeConfig(options.get("context"), coordinator, name))


def create_assemble_node(
    *,
    prompt: StateSource | None = None,
    layout: Layout = ORCHESTRATOR,
    sources: Mapping[str, Any] | None = None,
    tools: Sequence[Any] | None = None,
    mode: StateSource | None = None,
    filters: Mapping[str, Any] | None = None,
    show_messages: bool = True,
    name: str = "assemble",
    **options: Unpack[TurnOptions],
) -> Runnable[Any, Update]:
    """Create a node that begins a turn and assembles its context, for `invoke` and `ainvoke`.

    It writes two keys of the state: `context`, a text for a prompt, and `turn`, the turn as JSON
    (see `MemoryState`). Passed again for the same message, the turn goes on and spends the same
    budget. For another message a new turn begins; of an earlier one that was not committed only the
    trace is kept. A retry of the node is the same turn.

    Args:
        prompt: The subject of the turn: a key of the state, or a function of it. The default is
            the text of the last human message.
        layout: `ORCHESTRATOR`, `PERSONA`, or a layout of one's own.
        sources: See `MemoryOrchestrator`.
        tools: The tools of the agent.
        mode: The mode that the agent is in: a key of the state, or a function of it.
        filters: Options of `get_context` for every recall of the turn.
        show_messages: False if the model is sent the state's messages itself: they steer the
            recall, and do not stand in the context a second time.
        name: The node's name, in traces too.
        options: See `TurnOptions`; give the other nodes of the turn the same.

    """
    turns = _turn_config(name, options, prompt=prompt, mode=mode)
    check_turn_arguments(layout=layout, filters=filters, **turns.rules)
    about = {"filters": filters, "tools": tools, "show_messages": show_messages}

    def assemble(step: Step) -> Flow[Update]:
        now_in = None if mode is None else runtime.read_state(step.state, mode)
        made = {"mode": now_in, "layout": layout, "sources": sources}
        turn = turns.new_turn(step, turn_id=step.run.id, **made)
        yield from _begin_or_resume(turn, step)
        if prompt is None:
            before = "" if turn.record is None else turn.record.prompt  # or a summary
            question = runtime.text_of(runtime.last_question(step.messages)) or before
        else:
            question = runtime.read_state(step.state, prompt)
        text = yield from _assemble_context(turn, step, replace_unstorable(str(question)), **about)
        return {"context": text, "turn": turn.to_state(), **step.errors(same_turn=None)}

    return turns.node(assemble)


def create_tool_tracking_node(
    *, name: str = "track", **options: Unpack[TurnOptions]
) -> Runnable[Any, Update]:
    """Create a node that tracks the tool calls of the turn, after a tool node.

    It reads the calls since the last human message, tracks each once however often the node is
    passed, and writes the state key `turn`. The duration of a call is known if the tool node is
    timed (see `ToolClock`). A call without a budget is left out, and the trace says so.

    Args:
        name: The node's name, in traces too.
        options: Options of the assemble node.

    Raises:
        InvalidInputError: when it runs, if no turn has begun.
    """
    turns = _turn_config(name, options)

    def track(step: Step) -> Flow[Update]:
        turn = turns.open_turn(step)
        _track_calls(turn, step.messages)
        yield from ()
        return {"turn": turn.to_state()}

    return turns.node(track)


def create_commit_node(
    *,
    success: learning.Success | None = None,
    memorize: StateSource | None = None,
    router: Router | None = None,
    name: str = "commit",
    **options: Unpack[TurnOptions],
) -> Runnable[Any, Update]:
    """Create a node that commits the turn's pending writes, all or none; a retry repeats none.

    It writes two keys of the state: `committed`, the report of the turn as JSON, and `turn`, None.

    Args:
        success: True if the turn succeeded: a key of the state, or a function of it. By default it
            is the success of its last tool call.
        memorize: Further items to memorize: a key of the state, or a function of it, that holds
            an argument of `MemoryOrchestrator.memorize`, or a list of them.
        router: See `MemoryOrchestrator`.
        name: The node's name, in traces too.
        options: Options of the assemble node.

    Raises:
        InvalidInputError: when it runs, if no turn has begun.
    """
    turns = _turn_config(name, options, success=success, memorize=memorize)

    def commit(step: Step) -> Flow[Update]:
        turn = turns.open_turn(step, router=router)
        yield from _memorize_items(
            turn, None if memorize is None else runtime.read_state(step.state, memorize, None)
        )
        judged = None if success is None else learning.read_success(step.state, success)
        report = yield from unit(orchestrator.commit(turn, success=judged))
        return {"committed": report.to_state(), "turn": None}

    return turns.node(commit)


def _track_calls(turn: MemoryOrchestrator, conversation: Sequence[BaseMessage]) -> None:
    """Track the tool calls since the last human message; log those that cannot be tracked."""
    for call in messages.turn_calls(conversation):
        is_own = speakers.TRUST_KEY in call.answer.additional_kwargs
        if is_own and call.call["name"] in turn.settings.untracked_tools:
            continue
        try:
            turn.track_tool_invocation(
                call.call["name"],
                call.call["args"],
                result=call.text,
                error=call.text if call.failed else None,
                duration=seconds_of(call.answer),
                call_id=call.call["id"],
            )
        except (BudgetExceededError, InvalidInputError) as refused:  # a model calls any name
            _log.warning("a tool call is not tracked: %s", refused)
            if isinstance(refused, InvalidInputError):
                turn.leave_out(f"track the call {call.call['id']}", str(refused))


def _memorize_items(turn: MemoryOrchestrator, items: Any) -> Flow[None]:
    """Memorize one or several items; log those without a budget, and let the turn go on."""
    alone = isinstance(items, str | Mapping)
    listed = ([items] if items else []) if alone else [] if items is None else items
    for batch in turn.memory.tiered_store.options.bounds.checked_batch(listed):
        try:
            yield from pending.memorize(turn, batch)
        except BudgetExceededError as refused:
            _log.warning("something is not memorized: %s", refused)


def _assemble_context(
    turn: MemoryOrchestrator, step: Step, prompt: str, **options: Any
) -> Flow[str]:
    """Return the text of a turn's context; without a budget it is empty, and the log says so.

    The step notes whether words alone were sought, and which sources failed.
    """
    conversation = step.messages or None
    try:
        assembled = yield from assembly.assemble_context(
            turn, prompt, messages=conversation, **options
        )
    except BudgetExceededError as refused:
        _log.warning("no context is assembled: %s", refused)
        return ""
    step.note_words_only(assembled.by_words)
    step.failures.update(assembled.failed)
    return assembled.text


def _begin_or_resume(turn: MemoryOrchestrator, step: Step) -> Flow[None]:
    """Go on with the turn of a message, or begin a new one if another message came.

    A summary that takes the place of all human messages is no other message.
    """
    open_turn, question = step.read("turn"), runtime.last_question(step.messages)
    about = None if question is None else question.id
    if open_turn and (question is None or open_turn["about"] == about):
        turn.begin(open_turn)
        return
    if open_turn:
        left = MemoryOrchestrator(turn.memory).begin(open_turn)
        leaving = orchestrator.leave_turn(left, "another message came")
        if leaving is not None:
            yield from unit(leaving)
    turn.begin(about=about)


SECONDS_KEY = "langmem_tiers_seconds"
"""Key among an answer's `additional_kwargs`: the seconds that the tool took."""


class ToolClock:
    """Wrapper of a `ToolNode` that times its calls by the store's clock, for the tracking node.

    A `ToolNode` is given its two methods, one for `invoke` and one for `ainvoke`.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers import ToolClock

        clock = ToolClock()
        node = ToolNode(
            tools, wrap_tool_call=clock.wrap_tool_call, awrap_tool_call=clock.awrap_tool_call
        )
        ```
    """

    runner = runtime.DRIVER

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[ToolAnswer]:
        """Run a tool call, and note its duration."""
        began = _now(request)
        answer = yield from run_tool_call(handler, request)
        if not isinstance(answer, ToolMessage):
            return answer
        seconds = max(0.0, (_now(request) - began).total_seconds())
        return messages.annotate_answer(answer, {SECONDS_KEY: seconds})

    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)


def seconds_of(answer: ToolMessage) -> float | None:
    """Return the seconds that an answer's call took; None if nobody timed it."""
    seconds = answer.additional_kwargs.get(SECONDS_KEY)
    return seconds if isinstance(seconds, float) else None


def _now(request: ToolCallRequest) -> datetime:
    return runtime.checked_store(request.runtime.store).flows.now
