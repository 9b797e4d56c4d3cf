"""Sources of a turn: the agent's identity, goals and tools, its memories, and a user's own.

A source is a function, or has a `flow`, which gets the prompt, the metadata of `assemble_context`,
and the turn's memory. Functions are asked within their time, several side by side.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from langmem_tiers.agent_state.models import (
    EMOTION,
    GOAL,
    TASK,
    ShortTermSnapshot,
    StateOwner,
    read_snapshot,
)
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.core.concurrency import DaemonPool, agather_before, call_async, gather_before
from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError, short
from langmem_tiers.core.texts import fold_case
from langmem_tiers.postgres.flow import Ask, Flow, unit
from langmem_tiers.turn.layout import Fragment, Layout, Section
from langmem_tiers.turn.memory_sources import Conversation, MemorySource
from langmem_tiers.turn.persona import OperationalState, Persona

_MOOD: Final = ("primary_emotion", "confidence_level")
_GOALS: Final = "What are my active goals?"
_QUERIES: Final = {
    "What is my core identity and charter?": ("identity", False),
    "What mandates apply to my current mode?": ("mandates", True),
    "What capabilities do I have?": ("capabilities", True),
    "What governance rules apply?": ("governance", False),
}
"""Questions to an identity, each with its key in a mapping, and True if the mode is passed."""
_ASIDE: Final = DaemonPool(32)
"""Threads for functions that are asked side by side or within a time. A function that hangs keeps
its thread, so their number is limited: as many as `asyncio` has at most."""


CallArguments = tuple[Any, ...]
"""Arguments of one call of a function."""


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """Source that asks a function, or its async twin, once or several times side by side."""

    verb: Callable[..., Any]
    averb: Callable[..., Any] | None = None
    waits: bool = True
    """True if it may take time; False for a function that only arranges data."""
    arguments: Callable[[str, Mapping[str, Any]], Sequence[CallArguments]] = lambda *asked: (asked,)
    """Function that makes the arguments of each call from the prompt and the metadata."""
    combine: Callable[[Sequence[Any]], Any] = lambda answers: answers[0]
    """Function that makes one answer of the answers."""


def built_in_sources() -> dict[str, Any]:
    """Return the built-in sources of a turn by name."""
    recalling = ("working", "episodic", "semantic", "memories")
    return {
        "identity": FunctionSource(lambda *_: None, waits=False),
        "conversation": Conversation(),
        "goals": StateSource((GOAL, TASK), _goals_section),
        "state": StateSource((EMOTION, TASK), _state_section),
        "tools": FunctionSource(_tools_section, waits=False),
        **{name: MemorySource(name) for name in recalling},
    }


def to_source(name: str, value: Any) -> Any:
    """Make a source of what a user gives.

    Raises:
        InvalidTypeError: for what can answer nothing.
    """
    if name == "identity" and isinstance(value, Mapping):
        return FunctionSource(partial(_identity_of_mapping, value), waits=False)
    queried = getattr(value, "query", None)
    named = (getattr(value, name, None) for name in ("remember", "aremember"))
    verbs = [verb for verb in named if callable(verb)]
    if not verbs and callable(queried):
        if name == "identity":
            return FunctionSource(queried, arguments=_identity_queries, combine=_identity_section)
        verbs = [lambda prompt, metadata: queried(_GOALS, {"prompt": prompt, **metadata})]
    elif not verbs and callable(value):
        verbs = [value]
    if not verbs:
        raise InvalidTypeError(
            f"a source is anything with remember(prompt, metadata), or such a function, not "
            f"{type(value).__name__}; identity may be a mapping as well"
        )
    for verb in verbs:
        _check_parameters(name, verb)
    return FunctionSource(
        verbs[0], verbs[-1], waits=not isinstance(value, Persona | OperationalState)
    )


def _check_parameters(name: str, verb: Callable[..., Any]) -> None:
    """Refuse a function that does not take the prompt and the metadata."""
    try:
        signature = inspect.signature(verb)
    except (TypeError, ValueError):  # it is not written in Python
        return
    try:
        signature.bind("", {})
    except TypeError as error:
        raise InvalidTypeError(
            f"the source {name!r} takes (prompt, metadata), not {signature}"
        ) from error


def check_stages(layout: Layout, sources: Mapping[str, Any]) -> None:
    """Refuse a layout with a stage without a source, or with an unknown option.

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
        known_options = getattr(sources[stage.source], "known_options", None)
        if known_options is not None:
            check_known_names(
                stage.options, known_options, f"the options of the stage {stage.source!r}"
            )


def check_known_names(mapping: Mapping[Any, Any], known_names: Collection[str], what: str) -> None:
    """Refuse a mapping with an unknown name."""
    for name in mapping:
        if not isinstance(name, str) or name not in known_names:
            raise InvalidTypeError(
                f"{what}: there is no {short(name)}: use one of {', '.join(known_names)}"
            )


# Asking

Outcome = tuple[Any, Exception | None]
"""Answer of a source, or its error."""


def ask_sources(
    asked: Sequence[tuple[Any, Mapping[str, Any]]], prompt: str, memory: MemoryCoordinator
) -> Flow[list[Outcome]]:
    """Ask a source of ours, or one or several functions, each with its metadata.

    Blocking functions are called on one thread, unless there is a time limit; several calls of one
    function are made side by side.
    """
    functions = [
        (source, metadata) for source, metadata in asked if isinstance(source, FunctionSource)
    ]
    if not functions:
        ((source, metadata),) = asked
        try:
            return [((yield from source.flow(prompt, metadata, memory)), None)]
        except Exception as error:  # noqa: BLE001 - a user's source can raise anything: it is told
            return [(None, error)]
    requests = [
        (source, each)
        for source, metadata in functions
        for each in source.arguments(prompt, metadata)
    ]
    seconds = functions[0][1]["seconds"] if any(source.waits for source, _ in functions) else None
    aside = seconds is not None or len(requests) > len(functions)
    daemons = _ASIDE if aside else None
    calls = [partial(_call_source, source.verb, *each) for source, each in requests]
    acalls = [
        partial(_acall_source, source.averb or source.verb, daemons, *each)
        for source, each in requests
    ]

    def call() -> list[Outcome | None]:
        return (
            [each() for each in calls]
            if daemons is None
            else gather_before(seconds, calls, daemons)
        )

    outcomes: list[Outcome | None] = yield Ask(
        call, partial(agather_before, seconds, acalls, len(acalls))
    )
    late = TimeoutError(f"there was no answer within {seconds or 0:g} seconds")
    by_source = {id(source): list[Outcome]() for source, _ in functions}
    for (source, _), outcome in zip(requests, outcomes, strict=True):
        by_source[id(source)].append((None, late) if outcome is None else outcome)
    return [_combine_outcomes(source, by_source[id(source)]) for source, _ in functions]


def _combine_outcomes(source: FunctionSource, outcomes: Sequence[Outcome]) -> Outcome:
    """Return the combined answer of a source, or its first error."""
    for _, error in outcomes:
        if error is not None:
            return None, error
    try:
        return source.combine([answer for answer, _ in outcomes]), None
    except Exception as error:  # noqa: BLE001 - a user's source can answer anything: it is told
        return None, error


def _call_source(verb: Any, *arguments: Any) -> Outcome:
    """Return the answer of a blocking function; one that must be awaited is an error."""
    try:
        answer = verb(*arguments)
        if isinstance(answer, Future):
            answer = answer.result()
        elif inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            return None, ConfigurationError(
                "a source is async and cannot be asked here: use `async with` and "
                "aassemble_context, or give it a blocking twin, `remember`"
            )
    except Exception as error:  # noqa: BLE001 - a user's source can raise anything: it is told
        return None, error
    return answer, None


async def _acall_source(averb: Any, daemons: DaemonPool | None, *arguments: Any) -> Outcome:
    try:
        return await call_async(averb, *arguments, daemons=daemons), None
    except Exception as error:  # noqa: BLE001 - a user's source can raise anything: it is told
        return None, error


# Identity


def _identity_queries(_: str, metadata: Mapping[str, Any]) -> list[CallArguments]:
    """Return the arguments for an object with `query(question, metadata)`.

    Each is answered by `{"items": [{"id", "content", "rationale"}], "effective_at": …}`.
    """
    mode = {"current_mode": metadata["mode"]}
    return [(text, mode if with_mode else {}) for text, (_, with_mode) in _QUERIES.items()]


def _identity_of_mapping(
    mapping: Mapping[str, Any], _: str, metadata: Mapping[str, Any]
) -> Section:
    """Make the identity from a mapping of answers; `mandates` may have one for each mode."""
    mode, answers = metadata["mode"], []
    for name, _moded in _QUERIES.values():
        stated = mapping.get(name, ())
        if name == "mandates" and isinstance(stated, Mapping):
            stated = (*stated.get("*", ()), *(() if mode is None else stated.get(mode, ())))
        items = [{"content": item} if isinstance(item, str) else item for item in stated]
        answers.append({"items": items, "effective_at": mapping.get("effective_at")})
    return _identity_section(answers)


def _identity_section(answers: Sequence[Any]) -> Section:
    """Make a section of answers in the order of the queries; repeated texts stand once.

    An `id` names an item within the answer to one query. A repeated item names the one before.
    """
    question_of: dict[str, str] = {}
    fragments: list[Fragment] = []
    for question, answer in zip(_QUERIES, answers, strict=True):
        ids: set[str] = set()
        for fragment in read_items(answer, "identity", question):
            text, why = fold_case(fragment.text), ""
            if fragment.key in ids:
                why = f"another answer to {question!r} has the id {fragment.key!r}"
            elif text in question_of:
                why = f"the answer to {question_of[text]!r} says the same"
            else:
                question_of[text] = question
            ids |= set() if fragment.key is None else {fragment.key}
            fragments.append(replace(fragment, repeats=why))
    return Section(tuple(fragments))


def read_items(answer: Any, name: str, question: str) -> Iterator[Fragment]:
    """Yield the items of an answer, each with its id, version and rationale.

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
    for place, item in enumerate(answer.get("items", ())):
        if not isinstance(item, Mapping) or not isinstance(item.get("content"), str):
            raise InvalidTypeError(
                f"an item of {name} is a mapping with id, content and rationale, not {short(item)}"
            )
        key = None if item.get("id") is None else str(item["id"])
        why = str(item.get("rationale") or question)
        yield Fragment(
            text=f"- {item['content']}",
            source=name,
            version=version,
            rationale=why,
            key=key,
            rank=place,
            data=False,
        )


# Goals, state and tools


@dataclass(frozen=True, slots=True)
class StateSource:
    """Source that shows these kinds of the agent's short-term state."""

    kinds: Sequence[str]
    to_section: Callable[[ShortTermSnapshot], Section]

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """Return the state as a section."""
        del prompt
        snapshot = yield from unit(
            read_snapshot(
                StateOwner.from_context(memory.context), metadata["now"], kinds=self.kinds
            )
        )
        return self.to_section(snapshot)


def _goals_section(snapshot: ShortTermSnapshot) -> Section:
    """Return goals, tasks and constraints, as data: they were noted in other turns."""
    goals = [goal for goal in snapshot.goals if goal.status == "active"]
    state = {
        "Active goals:": [f"{goal.description} ({goal.progress:.0%} done)" for goal in goals],
        "Pending actions:": [f"{task.task_type} ({task.status})" for task in snapshot.tasks],
        "Constraints:": list(dict.fromkeys(each for goal in goals for each in goal.constraints)),
    }
    shown = [[title, *items] for title, items in state.items() if items]
    why = "noted in the agent's state"
    return Section(
        tuple(
            Fragment(text="\n- ".join(lines), source="goals", rationale=why, rank=rank)
            for rank, lines in enumerate(shown)
        )
    )


def _state_section(snapshot: ShortTermSnapshot) -> Section:
    """Return the mood, and the number of tasks."""
    mood = snapshot.emotional_state
    mood_fields = None if mood is None else {name: getattr(mood, name) for name in _MOOD}
    return OperationalState(emotional_state=mood_fields, active_tasks=snapshot.tasks).remember(
        "", {}
    )


def _tools_section(_: str, metadata: Mapping[str, Any]) -> Section:
    """Return the agent's tools, one a line: LangChain tools, or mappings.

    A line has the tool's name, the names and types of its arguments, and what it does.
    """
    fragments = []
    for place, tool in enumerate(metadata["tools"] or ()):
        field_of = tool.get if isinstance(tool, Mapping) else partial(getattr, tool)
        name, schemas = field_of("name", None), field_of("args", {})
        if not isinstance(name, str) or not isinstance(schemas, Mapping):
            raise InvalidTypeError(f"a tool has a name, a description and args, not {short(tool)}")
        arguments = []
        for each, schema in schemas.items():
            kind = schema.get("type") if isinstance(schema, Mapping) else None
            arguments.append(f"{each}: {kind}" if isinstance(kind, str) else f"{each}")
        does = " ".join(str(field_of("description", "")).split())
        about: dict[str, Any] = {"rationale": "the agent may call it", "data": False}
        text = f"- {name}({', '.join(arguments)}): {does}"
        fragments.append(Fragment(text=text, source="tools", key=name, rank=place, **about))
    return Section(tuple(fragments))
