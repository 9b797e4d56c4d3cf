"""The sources of a turn: who the agent is, what it is about and may do, and what a user gives.

Each has a `flow`, which is told the prompt, what `assemble_context` was, and the turn's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from langmem_tiers.core.errors import (
    ConfigurationError,
    InvalidTypeError,
    short,
)
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, unit
from langmem_tiers.state.flows import EMOTION, GOAL, TASK, Whose, look
from langmem_tiers.state.state import ShortTermSnapshot
from langmem_tiers.turn.asking import FunctionSource, answers
from langmem_tiers.turn.layout import Fragment, Layout, Section
from langmem_tiers.turn.memories import Conversation, MemorySource
from langmem_tiers.turn.persona import OperationalState, Persona
from langmem_tiers.turn.pieces import words

_MOOD: Final = ("primary_emotion", "confidence_level")
_GOALS: Final = "What are my active goals?"
_QUERIES: Final = (
    ("What is my core identity and charter?", "identity", False),
    ("What mandates apply to my current mode?", "mandates", True),
    ("What capabilities do I have?", "capabilities", True),
    ("What governance rules apply?", "governance", False),
)
"""What an identity is asked, where a mapping has the answer, and whether the mode is told."""
_LISTS: Final = ("active_goals", "pending_actions", "constraints")
"""What a mapping of goals says."""


def built_in() -> dict[str, Any]:
    """The sources that a turn has by itself, by name."""
    recalling = ("working", "episodic", "semantic", "memories")
    return {
        "identity": Identity({}),
        "conversation": Conversation(),
        "goals": FromState((GOAL, TASK), _known_goals),
        "state": FromState((EMOTION, TASK), _known_state),
        "tools": FunctionSource.at_hand(
            lambda _, metadata: _tools(() if metadata["tools"] is None else metadata["tools"])
        ),
        **{name: MemorySource(name) for name in recalling},
    }


def as_source(name: str, given: Any) -> Any:
    """What a user gives as a source, as one.

    Raises:
        InvalidTypeError: for what can answer nothing.
    """
    if callable(getattr(given, "flow", None)):
        return given
    verbs = [getattr(given, one, None) for one in ("remember", "aremember")]
    if any(map(callable, verbs)):
        source = FunctionSource.of(*filter(callable, verbs), name=name)
        return replace(source, waits=not isinstance(given, Persona | OperationalState))
    queried = getattr(given, "query", None)
    if callable(queried):
        if name == "identity":
            return Identity(given)
        return FunctionSource.of(lambda prompt, told: queried(_GOALS, {"prompt": prompt, **told}))
    kind, made = _FORMS.get(name, (object, None))
    if made is not None and isinstance(given, kind) and not isinstance(given, str):
        return made(given)
    if callable(given):
        return FunctionSource.of(given, name=name)
    raise InvalidTypeError(
        f"a source is anything with remember(prompt, metadata), or such a function, not "
        f"{type(given).__name__}; identity and goals may be mappings, tools and conversation lists"
    )


def waits(source: Any, metadata: Mapping[str, Any]) -> bool:
    """Tell whether a source may take time."""
    if isinstance(source, FunctionSource):
        return source.waits
    if isinstance(source, Identity):
        return not isinstance(source.answers, Mapping)
    given = isinstance(source, Conversation) and (
        source.messages is not None or metadata["messages"] is not None
    )
    return not given


def checked_stages(layout: Layout, sources: Mapping[str, Any]) -> None:
    """Refuse a layout whose stages ask what is not there, or tell it what it does not know.

    Raises:
        ConfigurationError: for a stage without a source.
        InvalidTypeError: for an option that its source does not take.
    """
    for stage in layout.stages:
        if stage.source not in sources:
            raise ConfigurationError(
                f"the layout {layout.name!r} has a stage {stage.source!r} and nothing that "
                f"answers it: give sources={{{stage.source!r}: …}}"
            )
        known = getattr(sources[stage.source], "known_options", None)
        if known is not None:
            checked_names(stage.options, known, f"the options of the stage {stage.source!r}")


def checked_names(given: Mapping[Any, Any], known: Collection[str], what: str) -> None:
    """Refuse a mapping that names what is not known."""
    for name in given:
        if not isinstance(name, str) or name not in known:
            raise InvalidTypeError(
                f"{what}: there is no {short(name)}: use one of {', '.join(known)}"
            )


# Who the agent is


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the agent is and what it may do: four queries, which run side by side.

    Of a mapping, or of an object with `query(question, metadata)`. Each answers
    `{"items": [{"id", "content", "rationale"}], "effective_at": …}`.
    """

    answers: Any

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """Return the answers in the order of the queries; a text that two of them say stands once.

        An `id` names an item within the answer to one query.
        """
        del prompt, memory
        mode = metadata["mode"]
        if isinstance(self.answers, Mapping):
            found = [_of_mapping(self.answers, name, mode) for _, name, _ in _QUERIES]
        else:
            verb = self.answers.query
            asked = [(text, {"current_mode": mode} if moded else {}) for text, _, moded in _QUERIES]
            found = yield from answers(verb, verb, asked, metadata["seconds"])
        named = [
            (question, one)
            for (question, *_), answer in zip(_QUERIES, found, strict=True)
            for one in items_of(answer, "identity", question)
        ]
        return Section(tuple(_once(named)))


def _once(named: Iterable[tuple[str, Fragment]]) -> Iterator[Fragment]:
    """Return items, each by the question that it answers; one that was there before says so."""
    ids: set[tuple[str, str]] = set()
    said: dict[str, str] = {}
    for question, one in named:
        text, why = words(one.text), ""
        if (question, one.key) in ids:
            why = f"another answer to {question!r} has the id {one.key!r}"
        elif text in said:
            why = f"the answer to {said[text]!r} says the same"
        else:
            said[text] = question
        if one.key is not None:
            ids.add((question, one.key))
        yield replace(one, repeats=why)


def _of_mapping(answers: Mapping[str, Any], name: str, mode: str | None) -> dict[str, Any]:
    """What a mapping answers to a query; `mandates` may be one for each mode."""
    told = answers.get(name, ())
    if name == "mandates" and isinstance(told, Mapping):
        told = (*told.get("*", ()), *(() if mode is None else told.get(mode, ())))
    items = [{"content": one} if isinstance(one, str) else one for one in told]
    return {"items": items, "effective_at": answers.get("effective_at")}


def items_of(answer: Any, name: str, question: str) -> Iterator[Fragment]:
    """The items that a daemon answered, each with its id, version and rationale.

    Raises:
        InvalidTypeError: for an answer of another form.
    """
    if not isinstance(answer, Mapping) or not isinstance(answer.get("items", ()), Sequence):
        raise InvalidTypeError(
            f"{name} answers {question!r} with {{'items': […], 'effective_at': …}}, not "
            f"{short(answer)}"
        )
    effective = answer.get("effective_at")
    version = effective.isoformat() if isinstance(effective, datetime) else str(effective or "")
    for place, one in enumerate(answer.get("items", ())):
        if not isinstance(one, Mapping) or not isinstance(one.get("content"), str):
            raise InvalidTypeError(
                f"an item of {name} is a mapping with id, content and rationale, not {short(one)}"
            )
        key = None if one.get("id") is None else str(one["id"])
        why = str(one.get("rationale") or question)
        yield Fragment.own(f"- {one['content']}", name, why, rank=place, key=key, version=version)


# What it is about and may do


@dataclass(frozen=True, slots=True)
class FromState:
    """What the agent's short-term state says of these kinds."""

    kinds: Sequence[str]
    shown: Callable[[ShortTermSnapshot], Section]

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """It, as a section."""
        del prompt
        known = yield from unit(look(Whose.of(memory.context), metadata["now"], kinds=self.kinds))
        return self.shown(known)


def _goals(state: Mapping[str, Any], *, data: bool = False) -> Section:
    """What the agent is about: three lists; those that are empty are left out."""
    told = [(name.replace("_", " "), state.get(name, ())) for name in _LISTS]
    shown = ((f"{name.capitalize()}:", name, items) for name, items in told if items)
    return Section(
        tuple(
            Fragment(
                text="\n- ".join([title, *map(str, items)]),
                source="goals",
                rationale=f"{name} of the turn",
                rank=rank,
                data=data,
            )
            for rank, (title, name, items) in enumerate(shown)
        )
    )


def _known_goals(known: ShortTermSnapshot) -> Section:
    """Goals, tasks and constraints, as data: they were noted in other turns."""
    goals = [one for one in known.goals if one.status == "active"]
    state = {
        "active_goals": [f"{one.description} ({one.progress:.0%} done)" for one in goals],
        "pending_actions": [f"{one.task_type} ({one.status})" for one in known.tasks],
        "constraints": dict.fromkeys(each for one in goals for each in one.constraints),
    }
    return _goals(state, data=True)


def _known_state(known: ShortTermSnapshot) -> Section:
    """A mood, and how much the agent is at."""
    mood = known.emotional_state
    told = None if mood is None else {name: getattr(mood, name) for name in _MOOD}
    return OperationalState(emotional_state=told, active_tasks=known.tasks).remember("", {})


def _tools(tools: Iterable[Any]) -> Section:
    """What the agent can call, one a line: LangChain tools, or mappings."""
    return Section(tuple(_tool(one, place) for place, one in enumerate(tools)))


def _tool(one: Any, place: int) -> Fragment:
    """A tool as a line: its name, the names and types of its arguments, what it does."""
    told = one.get if isinstance(one, Mapping) else partial(getattr, one)
    name, given = told("name", None), told("args", {})
    if not isinstance(name, str) or not isinstance(given, Mapping):
        raise InvalidTypeError(f"a tool has a name, a description and args, not {short(one)}")
    arguments = ", ".join(f"{each}{_typed(schema)}" for each, schema in given.items())
    text = f"- {name}({arguments}): {' '.join(str(told('description', '')).split())}"
    return Fragment.own(text, "tools", "the agent may call it", rank=place, key=name)


def _typed(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return f": {kind}" if isinstance(kind, str) else ""


_FORMS: Final[Mapping[str, tuple[type, Callable[[Any], Any]]]] = {
    "identity": (Mapping, Identity),
    "goals": (Mapping, lambda given: FunctionSource.at_hand(lambda *_: _goals(given))),
    "tools": (Sequence, lambda given: FunctionSource.at_hand(lambda *_: _tools(given))),
    "conversation": (Sequence, Conversation),
}
"""What may be given as a source that is neither asked nor called, and what is made of it."""
