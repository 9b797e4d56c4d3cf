"""The sources of a turn: those built in, and whatever a user gives as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Protocol

from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.core.memory import RECALL_OPTIONS, Recollection
from langmem_tiers.core.values import storable
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Ask, Flow, unit
from langmem_tiers.recall.candidates import Candidate
from langmem_tiers.recall.recall import Inquiry
from langmem_tiers.remember.trivial import triviality
from langmem_tiers.state.flows import EMOTION, GOAL, TASK, Whose, look
from langmem_tiers.store.read import embed_texts
from langmem_tiers.turn.arguments import checked_parameters
from langmem_tiers.turn.conversation import Conversation
from langmem_tiers.turn.fragment import Fragment, Section
from langmem_tiers.turn.identity import Identity, awaited, called, items_of, naming
from langmem_tiers.turn.informed import (
    LEAST_INFORMED_MATCH,
    LEAST_MATCH,
    MOST_INFORMED,
    Circumstance,
    circumstances,
    matching,
    together,
)
from langmem_tiers.turn.layout import Layout, Stage
from langmem_tiers.turn.persona import OperationalState

_MOOD: Final = ("primary_emotion", "confidence_level")
_GOALS: Final = "What are my active goals?"


class FlowSource(Protocol):
    """A source that reads the turn's memories: it yields what it needs."""

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """What there is to say for a prompt."""


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Recalls memories, in one round trip, by its stage's options and the turn's filters.

    Options are those of `get_context`; `query` stands for the prompt, and an empty one asks for the
    newest, which then do not count as accessed; `other_than` names the memory types that are left
    out, `informed_by` the earlier stages whose words it asks for as well; `own` asks for what the
    agent remembered itself, where one is named.
    """

    name: str
    known_options: ClassVar = (*RECALL_OPTIONS, "query", "other_than", "informed_by", "own")

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """The memories that matter for a prompt, best first."""
        options = dict(metadata["options"])
        said = memory.tiered_store.options.bounds.beginning(prompt)
        query, stages = options.pop("query", said), options.pop("informed_by", ())
        types = _types(options, metadata["filters"], memory)
        if types == []:
            return Section()
        if options.pop("own", False) and metadata["agent_id"] is not None:
            options["agent_id"] = metadata["agent_id"]
        asked = {**options, **metadata["filters"], "memory_types": types}
        ask = memory.asking.ask(query, memory.context, **asked)
        alone = ask.blank or ask.max_tokens is not None
        told = [] if alone else circumstances(metadata["sections"], stages)
        found = yield from unit(_recalled(ask, told, metadata["vectors"], memory))
        return Section(tuple(Fragment.of_memory(one, self.name) for one in found))


@dataclass(frozen=True, slots=True)
class Goals:
    """What the agent is about, of a mapping: `active_goals`, `pending_actions`, `constraints`."""

    state: Mapping[str, Any]

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Section:  # noqa: ARG002 - a source's
        """The three lists; those that are empty are left out."""
        said: list[Fragment] = []
        for name, title in (
            ("active_goals", "Active goals"),
            ("pending_actions", "Pending actions"),
            ("constraints", "Constraints"),
        ):
            listed = [str(one) for one in self.state.get(name, ())]
            if listed:
                text = "\n".join([f"{title}:", *(f"- {one}" for one in listed)])
                said.append(
                    Fragment.own(text, "goals", f"{title.lower()} of the turn", rank=len(said))
                )
        return Section(tuple(said))


@dataclass(frozen=True, slots=True)
class KnownGoals:
    """What the agent is about, as its short-term state has it: goals, tasks and constraints."""

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """The three lists, as data: they were noted in other turns."""
        whose = Whose.of(memory.context)
        known = yield from unit(look(whose, metadata["now"], kinds=(GOAL, TASK)))
        goals = [one for one in known.goals if one.status == "active"]
        state = {
            "active_goals": [f"{one.description} ({one.progress:.0%} done)" for one in goals],
            "pending_actions": [f"{one.task_type} ({one.status})" for one in known.tasks],
            "constraints": dict.fromkeys(each for one in goals for each in one.constraints),
        }
        listed = Goals(state).remember(prompt, metadata)
        return Section(tuple(replace(one, data=True) for one in listed))


@dataclass(frozen=True, slots=True)
class KnownState:
    """The state the agent is in, as its short-term state has it."""

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """Its mood, and how much it is at."""
        whose = Whose.of(memory.context)
        known = yield from unit(look(whose, metadata["now"], kinds=(EMOTION, TASK)))
        mood = known.emotional_state
        told = None if mood is None else {name: getattr(mood, name) for name in _MOOD}
        state = OperationalState(emotional_state=told, active_tasks=known.tasks)
        return state.remember(prompt, metadata)


@dataclass(frozen=True, slots=True)
class Tools:
    """What the agent can call: LangChain tools, by name, arguments and description."""

    tools: Sequence[Any] | None = None

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Section:  # noqa: ARG002 - a source's
        """The tools, one a line."""
        tools = self.tools if self.tools is not None else metadata["tools"]
        return Section(tuple(_tool(one, place) for place, one in enumerate(tools or ())))


def built_in() -> dict[str, Any]:
    """The sources that a turn has by itself, by name."""
    recalling = ("working", "episodic", "semantic", "memories")
    return {
        "identity": Identity({}),
        "conversation": Conversation(),
        "goals": KnownGoals(),
        "state": KnownState(),
        "tools": Tools(),
        **{name: MemorySource(name) for name in recalling},
    }


def as_source(name: str, given: Any) -> Any:
    """What a user gives as a source, as one.

    Raises:
        InvalidTypeError: for what can answer nothing.
    """
    if callable(getattr(given, "flow", None)):
        return given
    if verbs := [one for one in ("remember", "aremember") if callable(getattr(given, one, None))]:
        for verb in verbs:
            checked_parameters(name, getattr(given, verb))
        return given
    if callable(getattr(given, "query", None)):
        return Identity(given) if name == "identity" else _Queried(given)
    if isinstance(given, Mapping) and name in ("identity", "goals"):
        return Identity(given) if name == "identity" else Goals(given)
    if isinstance(given, Sequence) and not isinstance(given, str) and name in _LISTED:
        return _LISTED[name](given)
    if callable(given):
        checked_parameters(name, given)
        return _Function(given)
    raise InvalidTypeError(
        f"a source is anything with remember(prompt, metadata), or such a function, not "
        f"{type(given).__name__}; identity and goals may be mappings, tools and conversation lists"
    )


_LISTED: Final[Mapping[str, Callable[[Any], Any]]] = {"tools": Tools, "conversation": Conversation}


@dataclass(frozen=True, slots=True)
class _Function:
    remember: Callable[[str, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class _Queried:
    """A daemon that answers questions, as a source."""

    daemon: Any

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Any:
        """What it answers to the one question that it is asked."""
        return self.daemon.query(_GOALS, {"prompt": prompt, **metadata})


def filled(
    layout: Layout,
    sources: Mapping[str, Any],
    prompt: str,
    told: Mapping[str, Any],
    memory: MemoryCoordinator,
) -> Flow[list[tuple[Stage, Section]]]:
    """What the sources of a layout answer, in its order, each told what the earlier ones did."""
    sections: dict[str, Section] = {}
    for stage in layout.stages:
        about = {"options": stage.options, "title": stage.title, "sections": dict(sections)}
        source = sources[stage.source]
        with naming(stage.source):
            sections[stage.source] = yield from asked(
                stage.source, source, prompt, {**told, **about}, memory
            )
    return [(stage, sections[stage.source]) for stage in layout.stages]


def asked(
    name: str, source: Any, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
) -> Flow[Section]:
    """What a source answers, as a section."""
    if callable(getattr(source, "flow", None)):
        answer = yield from source.flow(prompt, metadata, memory)
    else:
        verb = getattr(source, "remember", None)
        averb = getattr(source, "aremember", None) or verb
        answer = yield Ask(
            lambda: _called(name, verb or averb, prompt, metadata),
            lambda: _awaited(name, averb, prompt, metadata),
        )
    return section_of(answer, name, metadata["title"])


def _called(name: str, verb: Any, *given: Any) -> Any:
    with naming(name):
        return called(verb, *given)


async def _awaited(name: str, verb: Any, *given: Any) -> Any:
    with naming(name):
        return await awaited(verb, *given)


def section_of(answer: Any, name: str, title: str) -> Section:
    """An answer as a section; text is data, and a heading of its own goes.

    Raises:
        InvalidTypeError: for what is neither text, nor a section, nor nothing.
    """
    if answer is None:
        return Section()
    if isinstance(answer, Section):
        return answer
    if isinstance(answer, str):
        text = storable(answer).strip().removeprefix(title).strip()
        why = "what its source answered"
        return Section((Fragment(text=text, source=name, rationale=why),) if text else ())
    if isinstance(answer, Mapping) and "items" in answer:
        return Section(tuple(items_of(answer, name, "what its source answered")))
    raise InvalidTypeError(
        f"the source {name!r} answers a text, a Section or None, not {type(answer).__name__}"
    )


def _recalled(
    ask: Inquiry,
    told: Sequence[Circumstance],
    vectors: dict[str, Any],
    memory: MemoryCoordinator,
) -> Flow[list[Recollection]]:
    """Recall, in its circumstances too; a turn embeds each text once."""
    store = memory.tiered_store
    few = min(ask.limit, MOST_INFORMED)
    asks = [ask, *(replace(ask, query=one.query, embedding=None, limit=few) for one in told)]
    unready = (one.query for one in asks if one.embedding is None and one.query.strip())
    if fresh := [text for text in unready if text not in vectors]:
        vectors |= yield from embed_texts(fresh, store.options)
    ready = [replace(one, embedding=one.embedding or vectors.get(one.query)) for one in asks]
    if ask.blank:
        (found,) = yield from memory.flows.recall(ready, lambda _: True)  # shown, whatever is asked
        return found
    rows: dict[tuple[tuple[str, ...], str], Candidate] = {}

    def noted(row: Candidate) -> bool:
        rows[row.place] = row
        return True  # it counts as accessed once, below, if it is among the best

    direct, *informed = yield from memory.flows.recall(ready, noted)
    if ask.cutoff:
        direct = [] if triviality(ask.query) else matching(direct, LEAST_MATCH)
        informed = [matching(each, LEAST_INFORMED_MATCH) for each in informed]
    stages = [one.stage for one in told]
    found = together(direct, dict(zip(stages, informed, strict=True)), ask.limit)
    read = [rows[one.namespace, one.key] for one in found]
    yield from store.flows.mark(read, store.flows.moment())
    return found


def _types(
    options: dict[str, Any], filters: Mapping[str, Any], memory: MemoryCoordinator
) -> list[str] | None:
    """The memory types that a stage may recall, as far as the filters let it."""
    left_out = options.pop("other_than", None)
    own = options.pop("memory_types", None)
    if own is None and left_out is not None:
        own = [one.name for one in memory.types if one.name not in left_out]
    wanted = filters.get("memory_types")
    if own is None or wanted is None:
        found = own if wanted is None else wanted
        return None if found is None else list(found)
    return [one for one in own if one in wanted]


def _tool(one: Any, place: int) -> Fragment:
    """A tool as a line: its name, the names and types of its arguments, what it does."""
    name, told = getattr(one, "name", None), getattr(one, "description", "")
    if isinstance(one, Mapping):
        name, told, given = one.get("name"), one.get("description", ""), one.get("args", {})
    else:
        given = getattr(one, "args", {})
    if not isinstance(name, str) or not isinstance(given, Mapping):
        raise InvalidTypeError(f"a tool has a name, a description and args, not {short(one)}")
    arguments = ", ".join(f"{each}{_typed(schema)}" for each, schema in given.items())
    text = f"- {name}({arguments}): {' '.join(str(told).split())}"
    return Fragment.own(text, "tools", "the agent may call it", rank=place, key=name)


def _typed(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return f": {kind}" if isinstance(kind, str) else ""
