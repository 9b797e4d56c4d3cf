"""What nodes and middleware stand on.

How a node is made of a flow, its run, how it reads the state and what it is given, and how a run
goes on where its memory fails.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langmem_tiers.core.checks import checked_choice, checked_function
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import (
    ConfigurationError,
    InvalidInputError,
    InvalidTypeError,
    MigrationError,
    NotSetUpError,
    TieredMemoryError,
    TooLargeError,
    short,
)
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.core.tracing import trace_id
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.graph.extra import GraphBubbleUp, get_runtime
from langmem_tiers.graph.runs import OUTSIDE, Remembered, ways
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.asking import Asking, checked_limit, no_option
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.learning import MOST_LESSONS
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.floor import TURN_FLOOR
from langmem_tiers.remember.new import share

_log = logging.getLogger(__name__)
_NEEDED: Any = object()
T = TypeVar("T")
SUMMARY: Final = "lc_source"
"""What marks the messages that LangChain's middleware writes as a human's."""
MISSING: Any = object()
"""What a key holds that the state does not have."""
READ = "__pregel_read"
"""Where LangGraph (1.2 and later) lets a node read its state; it has no public name for it."""

DEFAULT_LESSONS = 3
"""Lessons that come before what is recalled."""
RECALLED = 5
"""Memories of a turn that names neither a limit nor a budget, beside those that match nearly as
well (`TURN_FLOOR`); our own choice, if the settings say no fewer: each is paid for with every call
of the model. In an earlier state 8 and 10 showed what was needed to 3 and 5 % more of 428
questions, for 47 and 91 tokens more each (`benchmarks/data/life.jsonl`)."""

OfState = str | Callable[[Any], Any]
"""A key of the state, or a function of the state."""

OnError = Literal["continue", "raise"]
"""What becomes of an agent whose memory fails: it goes on without, or it fails as well."""
OnHookError = Literal["tell", "raise"]
"""What becomes of an error of a hook: it is told and the run goes on, or it is raised."""

NodeBody = Callable[[MemoryCoordinator, Any, RunnableConfig], Flow[dict[str, Any]]]
"""What a node does with the run's memory, the state and the config; it returns an update."""


def node(
    name: str, body: NodeBody, whose: Remembered, keys: Sequence[str] = ()
) -> Runnable[Any, dict[str, Any]]:
    """A node for `invoke` and `ainvoke`, of one flow; the state has to have the keys."""

    def update(state: Any, config: RunnableConfig) -> Flow[dict[str, Any]]:
        check_keys(config, *keys)
        return body(whose.memory(get_runtime(), config), state, config)

    return RunnableLambda(*ways(update), name=name)


def this_run() -> Run:
    """The attempt that the node which calls this makes; see `run_of`."""
    return run_of(get_runtime())


def checked(options: Mapping[str, Any], surface: Callable[..., Any] | None = None) -> RecallOptions:
    """Options that a recall can take; the names of memory types are looked up when it runs.

    `surface` is what was given them: an unknown one may be a misspelt option of its own.

    Raises:
        InvalidInputError: for what `get_context` does not know or would refuse.
    """
    known = RecallOptions.__annotations__
    if unknown := options.keys() - known.keys():
        taken = inspect.signature(surface).parameters.values() if surface else ()
        own = [one.name for one in taken if one.kind is inspect.Parameter.KEYWORD_ONLY]
        raise InvalidTypeError(no_option(min(unknown), [*own, *known]))
    names: Any = options.get("memory_types")
    several = isinstance(names, Collection) and not isinstance(names, str | bytes | Mapping)
    if names is not None and not (several and all(isinstance(one, str) for one in names)):
        raise InvalidTypeError(f"memory_types is a list of names, not {short(names)}")
    general: Any = {name: one for name, one in options.items() if name != "memory_types"}
    Asking(MemoryTypes()).ask("", MemoryContext(tenant="anyone"), **general)
    return cast("RecallOptions", options)


def of_a_turn(options: Mapping[str, Any], surface: Callable[..., Any]) -> RecallOptions:
    """Options by which a model is shown what matters for a turn, checked.

    Raises:
        InvalidInputError: for what `get_context` does not know or would refuse.
    """
    return checked({"deduplicate": True, "min_match": TURN_FLOOR, **options}, surface)


def checked_lessons(lessons: object, holdout: object) -> None:
    """Refuse a number of lessons, or a share to hold out, that no recall could take.

    Raises:
        InvalidInputError: for either.
    """
    checked_limit(lessons, MOST_LESSONS, "lessons")
    share(holdout, "holdout")


def run_of(runtime: Any) -> Run:
    """The attempt that a node makes: the same when it is retried or resumed, new in each loop.

    Raises:
        ConfigurationError: outside a graph.
    """
    info = getattr(runtime, "execution_info", None)
    if info is None:
        raise ConfigurationError(OUTSIDE)
    root = trace_id() or info.run_id
    return Run(str(info.task_id), None if root is None else str(root))


def of_state(state: Any, what: OfState, default: Any = _NEEDED) -> Any:
    """What a key of a graph's state, a mapping or an object, or a function of it says.

    Raises:
        InvalidInputError: if the state has no such key, and no default is given.
    """
    if not isinstance(what, str):
        return what(state)
    mapped = isinstance(state, Mapping)
    found = state.get(what, default) if mapped else getattr(state, what, default)
    if found is _NEEDED:
        raise InvalidInputError(
            f"the graph's state has no {what!r} yet: write it before this node, None if it is not "
            "known, or give a function of the state"
        )
    return found


def check_keys(config: RunnableConfig, *names: str) -> None:
    """Refuse to run in a graph whose state lacks a key that a node writes: it would be lost.

    Raises:
        ConfigurationError: if a key is missing; outside a graph nothing is looked at.
    """
    missing = [name for name in names if channel(config, name) is MISSING]
    if missing:
        raise ConfigurationError(
            f"the graph's state has no key {' and no key '.join(map(repr, missing))}: subclass "
            "HookState, or name the key in the state's schema"
        )


def channel(config: RunnableConfig, name: str) -> Any:
    """What a key of the run's state holds; None outside of a run, `MISSING` if there is no key."""
    read = (config.get("configurable") or {}).get(READ)
    try:
        return None if read is None else read(name)
    except KeyError:
        return MISSING


def checked_of_state(needed: Collection[str] = (), /, **several: object) -> None:
    """Refuse what is neither a key of the state nor a function of it; None only where it is needed.

    Raises:
        InvalidTypeError: for anything else, and for a function that must be awaited.
    """
    for what, given in several.items():
        if isinstance(given, str) or (given is None and what not in needed):
            continue
        if not callable(given):
            raise InvalidTypeError(f"{what} is a key of the state, or a function of the state")
        checked_function(given, what)


def last_question(messages: Sequence[Any]) -> HumanMessage | None:
    """The last message of a human; a summary that a model made in a human's place is none."""
    known = convert_to_messages(messages)
    said = (one for one in reversed(known) if not one.additional_kwargs.get(SUMMARY))
    return next((one for one in said if isinstance(one, HumanMessage)), None)


def text_of(message: BaseMessage | None) -> str:
    """What a message says in words; nothing if there is none."""
    return "" if message is None else str(message.text).strip()


class Careful(NamedTuple):
    """How errors of memory are dealt with: the run goes on after some, and fails by all others."""

    spares: tuple[type[Exception], ...]
    fails: tuple[type[Exception], ...]
    """Those of them that fail the run all the same, but for the refusal of too long a text."""

    @contextmanager
    def __call__(
        self, during: str, runtime: Any, told: dict[str, str] | None = None
    ) -> Iterator[None]:
        """Do something; where it fails and the run goes on, that is told under its name.

        It is `told`, written to the log, and to a stream of mode `custom` if there is a runtime.
        """
        try:
            yield
        except self.spares as error:
            if isinstance(error, self.fails) and not isinstance(error, TooLargeError):
                raise
            kind, text = type(error).__name__, "the run goes on without its memory (%s): %s"
            if told is not None:
                told[during] = f"{kind}: {error}"
            _log.warning(text, during, error, exc_info=not isinstance(error, TieredMemoryError))
            if runtime is not None:
                runtime.stream_writer({"memory": "failed", "during": during, "error": kind})

    def hook(self, name: str, doing: Flow[dict[str, Any]]) -> Flow[dict[str, Any]]:
        """What the hook of that name did, or its `error`."""
        told: dict[str, str] = {}
        with self(name, None, told):
            return (yield from doing)
        return {"error": told[name]}


# A model's client can raise anything. A mistake in the graph, an error that does not mend itself
# and an exception that is no error are raised, not told.
GOING_ON: Final = Careful(
    (Exception,),
    (NotSetUpError, MigrationError, ConfigurationError, InvalidInputError, GraphBubbleUp),
)
_TELLING: Final = Careful((Exception,), (ConfigurationError, GraphBubbleUp))


def careful_of(on_error: str, goes_on: Literal["continue", "tell"]) -> Careful:
    """How the errors of an agent, or where it is to `tell` of them those of a hook, are dealt with.

    Raises:
        InvalidInputError: for what is neither that word nor `raise`.
    """
    checked_choice(on_error, (goes_on, "raise"), "on_error")
    if on_error == "raise":
        return Careful((), ())
    return GOING_ON if goes_on == "continue" else _TELLING


def going_on(careful: Careful, name: str, doing: Flow[T], instead: T) -> Flow[T]:
    """Do what a node does; where that fails and the run goes on, return `instead`."""
    with careful(name, get_runtime()):
        return (yield from doing)
    return instead


def by_words(failed: str | None) -> dict[str, str]:
    """What is told of a recall that sought words alone, as the embedding model failed."""
    return {} if failed is None else {"recall": f"recalled by words alone: {failed}"}


def errors_of(
    state: Any, told: Mapping[str, str], known: object, mended: str | None = None
) -> dict[str, Any]:
    """Return the errors for the state: those of its turn, if that is `known`, and those `told`.

    The error `mended` was tried again: it stays only if it is told again.
    """
    before: Mapping[str, str] = of_state(state, "memory_errors", None) or {}
    still = {name: one for name, one in before.items() if known and name != mended}
    errors = {**still, **told}
    return {} if errors == before else {"memory_errors": errors}
