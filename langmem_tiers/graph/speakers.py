"""Speakers of a run's messages, the trust in them, and their notes and keys.

A person or the run around this one wrote a human message. An agent's words are trusted no further
than the answers of its tools.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_OID, UUID, uuid5

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.function import FunctionMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.managed.base import ManagedValue

from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.core.checks import MAX_NAMESPACE_BYTES
from langmem_tiers.core.memory import ROLES, Source
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.graph import runtime
from langmem_tiers.graph.messages import HELD_KEY, TAUGHT_KEY, WRITE_TODOS, answered_calls
from langmem_tiers.graph.runtime import (
    SUMMARY_KEY,
    Step,
    invoke,
    is_human,
    messages_since,
    read_channel,
    text_of,
)
from langmem_tiers.postgres.flow import Flow, off_loop
from langmem_tiers.remember.gate import Gate, judge_trust
from langmem_tiers.remember.new_memory import NewMemory
from langmem_tiers.turn.record import cut_middle
from langmem_tiers.turn.trace import holds_private_data

TRUST_KEY: Final = "langmem_tiers_trust"
"""Key in an answer of this package's own tools: the trust in the memories that it brings."""
_NO_TEXT_KEYS: Final = frozenset(("base64", "data", "url", "id", "type", "mime_type"))
"""Keys of a message's content that hold no text."""


def trust_after(
    messages: Sequence[BaseMessage],
    gate: Gate,
    person: Callable[[BaseMessage], bool] = is_human,
    trust: float = 1.0,
) -> float:
    """Return the trust, in 0…1, in what an agent says after these messages.

    It is that of the least trusted text that was brought since a person spoke, and 1 if none was.
    A tool's answer is brought, in whatever form, also a provider's, and so is a summary. The tools
    by which an agent keeps its tasks and this package's own bring nothing but the memories that a
    search found. A human message that no `person` wrote is brought too: it is trusted as far as
    `trust`, and no further than its text.
    """
    least, tools = 1.0, gate.policy.trust.of_source(Source.TOOL)
    heard: dict[tuple[str, Source], None] = {}
    for message in messages_since(messages, person):
        least = min(least, message.additional_kwargs.get(TRUST_KEY, 1.0))
        for text in _brought_texts(message):
            least = min(least, tools)
            heard[text, Source.TOOL] = None
        if is_human(message) and not person(message):
            least = min(least, trust)
            heard[replace_unstorable(str(message.text)), Source.AGENT] = None
    for text, source in heard:
        if text.strip():
            least = min(least, judge_trust(NewMemory(content=text, source=source), gate.policy))
    return least


def messages_so_far(config: RunnableConfig) -> list[BaseMessage]:
    """Return the messages of the run that a tool is called in; none outside of a run.

    If the run keeps its messages under another key, nobody knows what it heard. The empty answer
    of a tool stands for them.
    """
    value = read_channel(config, "messages")
    return [ToolMessage("", tool_call_id="")] if value is runtime.MISSING else _message_list(value)


def _message_list(value: Any) -> list[BaseMessage]:
    return (
        [item for item in value if isinstance(item, BaseMessage)] if isinstance(value, list) else []
    )


def _brought_texts(message: BaseMessage) -> Iterator[str]:
    """Yield the texts that a message brought from somebody else; a blank one where it has none."""
    if message.additional_kwargs.get(SUMMARY_KEY):
        yield from _content_texts(message.content)
    elif isinstance(message, ToolMessage | FunctionMessage):
        ours = not message.additional_kwargs.keys().isdisjoint((TRUST_KEY, HELD_KEY))
        if ours or message.name == WRITE_TODOS:
            return
        yield ""
        lessons = message.additional_kwargs.get(TAUGHT_KEY, 0)
        yield replace_unstorable(str(message.text)[lessons:])
        if not isinstance(message.content, str):
            yield from _content_texts(message.content)
    elif isinstance(message, AIMessage) and isinstance(message.content, list):
        for block in message.content:
            kind = str(block.get("type", "")) if isinstance(block, dict) else ""
            if kind.startswith("server_tool") or kind.endswith("_tool_result"):
                yield ""
                yield from _content_texts(block)


def _content_texts(part: Any) -> Iterator[str]:
    """Yield the texts in the content of a message."""
    if isinstance(part, str):
        yield replace_unstorable(part)
    elif isinstance(part, Mapping):
        for name, value in part.items():
            if name not in _NO_TEXT_KEYS:
                yield from _content_texts(value)
    elif isinstance(part, Sequence):
        for value in part:
            yield from _content_texts(value)


HEARD_KEY: Final = "memory_heard"
"""Key of an agent's state under which the middleware keeps the messages of its turn."""
_PARENT_TASK: Final[ContextVar[RunnableConfig | None]] = ContextVar(
    "langmem_tiers_begun", default=None
)
_OUTERMOST_DEPTH: Final = 1
"""Number of tasks that a task of the outermost run is in, itself included."""
_NODE_CHANNEL: Final = "branch:to:{}"
"""Channel by which LangGraph (1.2 and later) calls a node."""


class ParentTask(ManagedValue[None]):
    """Managed value that notes the task which began the run; in the state it is None.

    LangGraph reads such a key before each step of the run, in the context of the task that began
    it. It hands a run nothing else of the state of the run around it.
    """

    @staticmethod
    def get(scratchpad: object) -> None:  # noqa: ARG004 - as LangGraph calls it
        """Note the task for the step."""
        _PARENT_TASK.set(var_child_runnable_config.get())


class Speakers(NamedTuple):
    """Speakers of the human messages of a run."""

    person_ids: frozenset[str] | None
    """Ids of people's messages; None in the outermost run, where people wrote all messages but
    those that a node signed."""
    is_node: Callable[[str], bool]
    """Function that tells whether a node of the graph has a name."""
    trust: float
    """Trust in a message that no person wrote."""

    def is_person(self, message: BaseMessage) -> bool:
        """Tell whether a person wrote a message."""
        if not is_human(message) or (
            self.person_ids is not None and message.id not in self.person_ids
        ):
            return False
        return not (message.name and self.is_node(message.name))

    def options(self, message: BaseMessage) -> dict[str, Any]:
        """Return the speaker of a human message as options of `store`: its name, else the user."""
        named = replace_unstorable(message.name or "").strip().encode()[:MAX_NAMESPACE_BYTES]
        name = named.decode(errors="ignore")
        if self.is_person(message):
            has_name = name and name.lower() not in ROLES  # a person speaks for no assistant
            return {"speaker": name if has_name else "user", "source": Source.USER.value}
        agent = {"speaker": name or "assistant", "source": Source.AGENT.value}
        return {**agent, "trust": self.trust}


def speakers_in(config: RunnableConfig, gate: Gate) -> Flow[Speakers]:
    """Return the speakers of the run that a node, a tool or a hook runs in.

    In the outermost run people wrote the human messages, but for those that a node of the graph
    signed with its own name. In a run within another one people wrote those whose ids the outermost
    run's state holds. The run around it wrote all others; they are trusted no further than what
    that run had heard by then. If the outermost run's state is not known, no message counts as a
    person's.
    """
    is_own_node, tool_trust = partial(_is_node, config), gate.policy.trust.of_source(Source.TOOL)
    levels = _task_path(config)
    if len(levels) <= _OUTERMOST_DEPTH:
        return Speakers(None, is_own_node, tool_trust)
    parent = parent_task(config)
    trust = tool_trust
    if parent is not None:
        trust = yield from off_loop(partial(_trust_in_parent, parent, gate), sys.maxsize)
    within = len(levels) == _OUTERMOST_DEPTH + 1
    if parent is None or not within:
        # Nobody knows what the runs between the two have heard.
        trust = min(trust, tool_trust)
    is_node: Callable[[str], bool]
    if parent is not None and within:
        state, is_node = _state_values(parent), partial(_is_node, parent)
    else:
        state = yield from _saved_state(config)
        nodes = [
            key.removeprefix(_NODE_CHANNEL.format("")) for key in state if key.startswith("branch:")
        ]
        is_node = nodes.__contains__
    return Speakers(
        _person_message_ids(state, is_node), lambda name: is_own_node(name) or is_node(name), trust
    )


def trust_in_run(
    messages: Sequence[BaseMessage],
    gate: Gate,
    config: RunnableConfig,
    speakers: Speakers | None = None,
) -> Flow[float]:
    """Return the trust in what is said after these messages in a run; see `trust_after`.

    Answers may be long, so a thread computes it where an event loop waits. Without `speakers` it
    finds those of the run.
    """
    if speakers is None:
        speakers = yield from speakers_in(config, gate)
    person_ids = heard_ids(read_channel(config, HEARD_KEY))
    if person_ids is not None and speakers.person_ids is None:
        speakers = speakers._replace(person_ids=person_ids)
    compute = partial(trust_after, messages, gate, speakers.is_person, speakers.trust)
    return (yield from off_loop(compute, sys.maxsize))


def trust_in_step(step: Step) -> Flow[float]:
    """Return the trust in what an agent says after the messages of a step; see `trust_in_run`."""
    return trust_in_run(step.messages, step.memory.gate, step.config)


def heard_ids(heard: Any) -> frozenset[str] | None:
    """Return the ids of people's messages from the middleware's key; None without it."""
    is_heard = isinstance(heard, Mapping) and "said" in heard
    return frozenset(heard["said"]) if is_heard else None


def parent_task(config: RunnableConfig) -> RunnableConfig | None:
    """Return the config of the task that began the run; None in the outermost run, or if unknown.

    The path of that task is the run's own without its last task. A run that keeps its state over
    calls (`checkpointer=True`) has no task ids in its path.
    """
    parent, levels = _PARENT_TASK.get(), _task_path(config)
    if (
        parent is None
        or len(levels) <= _OUTERMOST_DEPTH
        or len(_task_path(parent)) != len(levels) - 1
    ):
        return None
    pairs = zip(_task_path(parent), levels[:-1], strict=True)
    around = all(task == other or task.partition(":")[0] == other for task, other in pairs)
    return parent if around else None


def _task_path(config: RunnableConfig) -> list[str]:
    """Return the tasks that a run is in, the outermost first, its own last."""
    place = (config.get("configurable") or {}).get("checkpoint_ns") or ""
    return [part for part in str(place).split("|") if part and not part.isdigit()]


def _is_node(config: RunnableConfig, name: str) -> bool:
    """Tell whether the graph of a task's run has a node of this name."""
    value = read_channel(config, _NODE_CHANNEL.format(name))
    return runtime.READ_KEY in (config.get("configurable") or {}) and value is not runtime.MISSING


def _state_values(config: RunnableConfig) -> dict[str, Any]:
    """Return all values in the state of a task's run, by key."""
    read: Any = (config.get("configurable") or {}).get(runtime.READ_KEY)
    if read is None:
        return {}
    mappings = (argument for argument in getattr(read, "args", ()) if isinstance(argument, Mapping))
    names = [*next(mappings, {"messages": None})]
    return {name: read_channel(config, name) for name in names}


def _saved_state(config: RunnableConfig) -> Flow[dict[str, Any]]:
    """Return the outermost run's state at the start of its step; empty without a checkpointer."""
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    saver: Any = configurable.get("__pregel_checkpointer")
    first = (configurable.get("checkpoint_map") or {}).get("")
    if first is None or not hasattr(saver, "aget_tuple"):
        return {}
    at: Any = {
        "thread_id": configurable.get("thread_id"),
        "checkpoint_ns": "",
        "checkpoint_id": first,
    }
    saved = yield from invoke(saver.get_tuple, {"configurable": at})
    return {} if saved is None else dict(saved.checkpoint["channel_values"])


def _person_message_ids(state: Mapping[str, Any], is_node: Callable[[str], bool]) -> frozenset[str]:
    """Return the ids of people's messages in a run's state."""
    humans = [human for value in state.values() for human in _human_messages(value)]
    if (person_ids := heard_ids(state.get(HEARD_KEY))) is not None:
        humans = [human for human in humans if human.id in person_ids]
    by_people = (human for human in humans if not (human.name and is_node(human.name)))
    return frozenset(
        human.id for human in by_people if human.id and not human.additional_kwargs.get(SUMMARY_KEY)
    )


def _human_messages(value: Any) -> Iterator[HumanMessage]:
    """Yield the human messages in the value of a key: a message, messages, or a run's input."""
    if isinstance(value, HumanMessage):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _human_messages(item) if isinstance(item, list | tuple) else ()
    elif isinstance(value, list | tuple):
        yield from (item for item in value if isinstance(item, HumanMessage))


def _trust_in_parent(parent: RunnableConfig, gate: Gate) -> float:
    """Return the trust in what a run says to a run that it begins."""
    value, tool_trust = read_channel(parent, "messages"), gate.policy.trust.of_source(Source.TOOL)
    if not isinstance(value, list):  # nobody knows what the run heard
        return tool_trust
    person_ids = heard_ids(read_channel(parent, HEARD_KEY))
    theirs = Speakers(person_ids, partial(_is_node, parent), tool_trust).is_person
    return trust_after(
        _message_list(value), gate, is_human if person_ids is None else theirs, tool_trust
    )


_LONGEST_MESSAGE: Final = 20_000
"""Characters of a message that are kept: some 5,000 tokens, so that it still fits into a context
by itself; our own choice."""
_AGENT_NAME: Final = "agent"


class FinalAnswer(NamedTuple):
    """Final answer of an agent."""

    message: AIMessage
    text: str
    heard: Sequence[BaseMessage]
    """Messages that the agent had heard by then."""


def unanswered_messages(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the human messages since an agent's last answer; before it if that is the last one."""
    humans: list[BaseMessage] = []
    for place, message in enumerate(reversed(messages)):
        if place and isinstance(message, AIMessage) and not message.tool_calls:
            break
        if is_human(message):
            humans.append(message)
    return humans[::-1]


def plain_answer(messages: Sequence[BaseMessage]) -> FinalAnswer | None:
    """Return the agent's answer if that is the last message and calls no tool; else None."""
    last = messages[-1] if messages else None
    if not isinstance(last, AIMessage) or last.tool_calls:
        return None
    return FinalAnswer(last, text_of(last), messages)


def final_answer(messages: Sequence[BaseMessage], response: object) -> FinalAnswer | None:
    """Return an agent's final answer: in words, in a form (`response`), or a tool's answer."""
    until = len(messages)
    while until and isinstance(messages[until - 1], ToolMessage):
        until -= 1
    caller = messages[until - 1] if until else None
    if until == len(messages) or not isinstance(caller, AIMessage):
        return plain_answer(messages)
    for call in caller.tool_calls:
        if response is not None and (
            response == call["args"] or type(response).__name__ == call["name"]
        ):
            arguments = json.dumps(call["args"], ensure_ascii=False, default=str)
            after = [
                message
                for message in messages
                if getattr(message, "tool_call_id", "") != call["id"]
            ]
            return FinalAnswer(caller, "\n".join(filter(None, (text_of(caller), arguments))), after)
    calls = [
        answered
        for answered in answered_calls(messages[until - 1 :])
        if not (answered.failed or answered.held)
    ]
    brought = [
        answered.text for answered in calls if TRUST_KEY not in answered.answer.additional_kwargs
    ]
    return FinalAnswer(caller, "\n".join(brought), messages)


def session_note(text: str, memory: MemoryCoordinator, key: str) -> dict[str, Any]:
    """Return options of `store` for a text of the session; a long text keeps both its ends.

    A private text is not cut, so that the gate judges all of it.
    """
    if len(text) > _LONGEST_MESSAGE and not holds_private_data(text, memory.gate):
        text = cut_middle(text, _LONGEST_MESSAGE)
    return {"content": text, "key": key, "session_id": memory.context.session_id}


def message_key(
    message: BaseMessage, config: RunnableConfig, speakers: Speakers | None = None
) -> str:
    """Return the key of a message's memory.

    The same message of a thread has the same key; without a thread, so have the same words. With
    `speakers`, a human message that no person wrote has another key: a run around this one may know
    that a person wrote it.
    """
    text = replace_unstorable(text_of(message))
    key = uuid5(NAMESPACE_OID, f"{runtime.thread_of(config) or text}\0{message.id or text}")
    if (
        speakers is not None
        and isinstance(message, HumanMessage)
        and not speakers.is_person(message)
    ):
        key = uuid5(key, _AGENT_NAME)
    return str(key)


def message_keys(messages: Sequence[BaseMessage], config: RunnableConfig) -> set[str]:
    """Return all keys under which messages may be remembered, whoever wrote them.

    The messages of the run around this one count too, as far as they are known.
    """
    parent, seen = parent_task(config), set[str]()
    around = [] if parent is None else _message_list(read_channel(parent, "messages"))
    for message in (*around, *messages):
        if isinstance(message, HumanMessage | AIMessage):
            key = message_key(message, config)
            seen |= {key, str(uuid5(UUID(key), _AGENT_NAME))}
    return seen
