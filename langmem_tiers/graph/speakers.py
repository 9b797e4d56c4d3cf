"""The speakers of a run's human messages: people, or an agent that began the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from langmem_tiers.core.memory import ROLES, Source
from langmem_tiers.core.namespaces import MAX_NAMESPACE_BYTES
from langmem_tiers.core.values import storable
from langmem_tiers.graph.extra import ManagedValue
from langmem_tiers.graph.heard import trust_after
from langmem_tiers.graph.node import MISSING, READ, SUMMARY, channel
from langmem_tiers.graph.runs import asked
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.gate import Gate

HEARD: Final = "memory_heard"
"""The key of an agent's state under which the middleware keeps what it heard in its turn."""
_BEGUN: Final[ContextVar[RunnableConfig | None]] = ContextVar("langmem_tiers_begun", default=None)
_OUTERMOST: Final = 1
"""The number of tasks that a task of the outermost run is in, itself included."""
_NODE: Final = "branch:to:{}"
"""The channel by which LangGraph (1.2 and later) calls a node."""


class Begun(ManagedValue[None]):
    """Notes the task that began the run; in the state it is None.

    A key of this kind is read where the run was begun, before each of its steps. LangGraph hands a
    run nothing else of the state of the run around it.
    """

    @staticmethod
    def get(scratchpad: object) -> None:  # noqa: ARG004
        """Note it for the step."""
        _BEGUN.set(var_child_runnable_config.get())


class Speakers(NamedTuple):
    """The speakers of the human messages of a run."""

    spoken: frozenset[str] | None
    """The ids of people's messages; None if all are theirs but for those that a node signed."""
    named: Callable[[str], bool]
    """Tells whether a node of the graph has this name."""
    trust: float
    """The trust in a message that no person wrote."""

    def person(self, message: BaseMessage) -> bool:
        """Tell whether a person wrote a message."""
        if not isinstance(message, HumanMessage) or message.additional_kwargs.get(SUMMARY):
            return False
        if self.spoken is not None and message.id not in self.spoken:
            return False
        return not (message.name and self.named(message.name))

    def of(self, message: BaseMessage) -> dict[str, Any]:
        """Return the speaker of a human message, as options of `store`: its name, else the user."""
        named = storable(message.name or "").strip().encode()[:MAX_NAMESPACE_BYTES]
        name = named.decode(errors="ignore")
        if self.person(message):
            own = name and name.lower() not in ROLES  # a person speaks for no assistant
            return {"speaker": name if own else "user", "source": Source.USER.value}
        return {
            "speaker": name or "assistant",
            "source": Source.AGENT.value,
            "trust": self.trust,
        }


def speakers_in(config: RunnableConfig, gate: Gate) -> Flow[Speakers]:
    """Find who said the human messages of the run that a node, a tool or a hook runs in.

    In the outermost run people said them, but for those that a node of the graph signed with its
    own name. In a run within another one people said those whose ids the outermost run's state
    holds. The run around it wrote all others, and they are trusted no further than what that run
    had heard by then. Where the outermost run's state is not known, none counts as a person's.
    """
    own, usual = partial(_is_node, config), gate.policy.trust.of_source(Source.TOOL)
    levels = _levels(config)
    if len(levels) <= _OUTERMOST:
        return Speakers(None, own, usual)
    begun = begun_in(config)
    trust = usual
    if begun is not None:
        ask = partial(_trusted, begun, gate)
        trust = yield from asked(ask, partial(asyncio.to_thread, ask))
    within = len(levels) == _OUTERMOST + 1
    if begun is None or not within:
        # Nobody knows what the runs between the two have heard.
        trust = min(trust, usual)
    if begun is not None and within:
        known = partial(_is_node, begun)
        return Speakers(_spoken(_held(begun), known), _either(own, known), trust)
    saved = yield from _saved(config)
    nodes = {name.removeprefix(_NODE.format("")) for name in saved if name.startswith("branch:")}
    among = nodes.__contains__
    return Speakers(_spoken(saved, among), _either(own, among), trust)


def trusting(messages: Sequence[BaseMessage], gate: Gate, config: RunnableConfig) -> Flow[float]:
    """Return how far to trust what is said after these messages in a run; see `trust_after`.

    Answers may be long, so a thread computes it where a loop waits.
    """
    speakers = yield from speakers_in(config, gate)
    said = said_of(channel(config, HEARD))
    if said is not None and speakers.spoken is None:
        speakers = speakers._replace(spoken=said)
    ask = partial(trust_after, messages, gate, speakers.person, speakers.trust)
    return (yield from asked(ask, partial(asyncio.to_thread, ask)))


def said_of(heard: Any) -> frozenset[str] | None:
    """Return the ids of people's messages in a turn that the middleware heard; None without it."""
    known = isinstance(heard, Mapping) and "said" in heard
    return frozenset(heard["said"]) if known else None


def is_within(config: RunnableConfig) -> bool:
    """Tell whether a run is within another one."""
    return len(_levels(config)) > _OUTERMOST


def begun_in(config: RunnableConfig) -> RunnableConfig | None:
    """Find the task that began the run; None for the outermost one, and where it is not known."""
    begun, levels = _BEGUN.get(), _levels(config)
    if begun is None or len(levels) <= _OUTERMOST or not _are_around(_levels(begun), levels):
        return None
    return begun


def messages_around(config: RunnableConfig) -> list[BaseMessage]:
    """Return the messages of the run around this one, as far as they are known."""
    begun = begun_in(config)
    found: Any = None if begun is None else channel(begun, "messages")
    return [one for one in found if isinstance(one, BaseMessage)] if isinstance(found, list) else []


def _levels(config: RunnableConfig) -> list[str]:
    """Return the tasks that a run is in, the outermost first, and its own last."""
    place = (config.get("configurable") or {}).get("checkpoint_ns") or ""
    return [one for one in str(place).split("|") if one and not one.isdigit()]


def _are_around(begun: Sequence[str], levels: Sequence[str]) -> bool:
    """Tell whether a run's tasks are those around another one.

    A run that keeps its state over calls (`checkpointer=True`) has no task ids among these.
    """
    pairs = list(zip(begun, levels[:-1], strict=False))
    same = all(one == other or one.partition(":")[0] == other for one, other in pairs)
    return len(begun) == len(levels) - 1 and same


def _is_node(config: RunnableConfig, name: str) -> bool:
    """Tell whether the graph of a task's run has a node of this name."""
    found = channel(config, _NODE.format(name))
    return READ in (config.get("configurable") or {}) and found is not MISSING


def _either(one: Callable[[str], bool], other: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda name: one(name) or other(name)


def _held(config: RunnableConfig) -> dict[str, Any]:
    """Return all that the state of a task's run holds, by key."""
    read: Any = (config.get("configurable") or {}).get(READ)
    if read is None:
        return {}
    given = (one for one in getattr(read, "args", ()) if isinstance(one, Mapping))
    names = [*next(given, {"messages": None})]
    return {name: channel(config, name) for name in names}


def _saved(config: RunnableConfig) -> Flow[Mapping[str, Any]]:
    """Return the outermost run's state when its step began, if a checkpointer tells it."""
    known: Mapping[str, Any] = config.get("configurable") or {}
    saver: Any = known.get("__pregel_checkpointer")
    first = (known.get("checkpoint_map") or {}).get("")
    if first is None or not hasattr(saver, "aget_tuple"):
        return {}
    at: Any = {"thread_id": known.get("thread_id"), "checkpoint_ns": "", "checkpoint_id": first}
    found = yield from asked(saver.get_tuple, saver.aget_tuple, {"configurable": at})
    return {} if found is None else dict(found.checkpoint["channel_values"])


def _spoken(state: Mapping[str, Any], named: Callable[[str], bool]) -> frozenset[str]:
    """Return the ids of people's messages in the run that has this state."""
    several = [one for found in state.values() for one in _humans(found)]
    if (said := said_of(state.get(HEARD))) is not None:
        several = [one for one in several if one.id in said]
    mine = (one for one in several if not (one.name and named(one.name)))
    return frozenset(one.id for one in mine if one.id and not one.additional_kwargs.get(SUMMARY))


def _humans(found: Any) -> Iterator[HumanMessage]:
    """Find the human messages in the value of a key: a message, messages, or a run's input."""
    if isinstance(found, HumanMessage):
        yield found
    elif isinstance(found, Mapping):
        for one in found.values():
            yield from _humans(one) if isinstance(one, list | tuple) else ()
    elif isinstance(found, list | tuple):
        yield from (one for one in found if isinstance(one, HumanMessage))


def _trusted(begun: RunnableConfig, gate: Gate) -> float:
    """Return how far to trust what a run says to a run that it begins."""
    found, usual = channel(begun, "messages"), gate.policy.trust.of_source(Source.TOOL)
    if not isinstance(found, list):  # nobody knows what the run heard
        return usual
    messages: Sequence[BaseMessage] = [one for one in found if isinstance(one, BaseMessage)]
    said, person = said_of(channel(begun, HEARD)), None
    if said is not None:
        person = Speakers(said, partial(_is_node, begun), usual).person
    return trust_after(messages, gate, person, usual)
