"""A graph's run: whose memory it is, and how to recall from it."""

from __future__ import annotations

import inspect
import re
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, fields
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, TypeVar, cast

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig

from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import MemoryContext, Tier
from langmem_tiers.core.tracing import trace_id
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.asking import Asking
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.learning import lesson_limit
from langmem_tiers.recall.rank import ProfileFunction
from langmem_tiers.remember.new import share
from langmem_tiers.store.store import TieredStore

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BETWEEN = re.compile(r"\}([^{}]*)(?=\{)")
"""What stands between two placeholders."""
_SCOPE = tuple(one.name for one in fields(MemoryContext))
_OUTSIDE = (
    "a node runs in a graph: add it with builder.add_node('name', node), compile with "
    "store=TieredStore…, and invoke the graph; elsewhere use a MemoryCoordinator"
)
_NEEDED: Any = object()
_OTHERS_WORDS = {"k": "limit", "top_k": "limit", "max_items": "limit"}
"""What others call our options, where that looks nothing like them."""

DEFAULT_LESSONS = 3
"""Lessons that come before what is recalled."""

OfState = str | Callable[[Any], Any]
"""A key of the state, or a function of the state."""

T = TypeVar("T")


class RecallOptions(TypedDict, total=False):
    """The options of `MemoryCoordinator.get_context` that a graph may fix; it says what they mean.

    Those that say whose memory is asked, `project_id` and `session_id`, belong to the scope.
    """

    tiers: Sequence[Tier | str] | None
    memory_types: Sequence[str] | None
    tags: Iterable[str]
    agent_id: str | None
    limit: int | None
    max_tokens: int | None
    since: datetime | str | None
    as_of: datetime | str | None
    known_at: datetime | str | None
    min_importance: float | None
    filter: Mapping[str, Any] | None
    deduplicate: bool
    similarity_threshold: float
    profile: str | ProfileFunction | None
    cutoff: bool | None
    review: Literal["rules", "model"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Whose memory the runs of a graph use, and what makes their coordinators."""

    tenant: str | None = None
    """A label, in which `{name}` stands for a value of `configurable`; so are the next two."""
    project_id: str | None = None
    session_id: str | None = None
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator

    def __post_init__(self) -> None:
        """Refuse a template that names nobody."""
        for text in _labels(self).values():
            checked_template(text)

    def memory(self, runtime: Any, config: RunnableConfig) -> MemoryCoordinator:
        """The coordinator of one run.

        Raises:
            ConfigurationError: outside a graph, or if it was not compiled with a TieredStore.
            InvalidInputError: if the run does not say whose memory it is.
        """
        if runtime is None:
            raise ConfigurationError(_OUTSIDE)
        context = self.context(runtime.context, config)
        return self.coordinator(tiered(runtime.store), context=context)

    def context(self, given: Any, config: RunnableConfig) -> MemoryContext:
        """Who asks: the run's context, and over it what is named here; else the thread's session.

        A run in a thread that names no session is in the session that is called as the thread is.
        """
        named = {name: filled(text, config) for name, text in _labels(self).items() if text}
        thread = thread_of(config)
        session = {} if thread is None else {"session_id": thread}
        labels = {**session, **_labels(given), **named}
        if "tenant" not in labels:
            raise InvalidInputError(
                f"whose memory is it? {_without_tenant(given)}: run the graph with "
                "context=MemoryContext(tenant=…), or name a tenant here: tenant='{user_id}' "
                "takes it from config['configurable']"
            )
        return MemoryContext(**labels)


def checked(options: Mapping[str, Any], surface: Callable[..., Any] | None = None) -> RecallOptions:
    """Options that a recall can take; the names of memory types are looked up when it runs.

    `surface` is what was given them: an unknown one may be a misspelt option of its own.

    Raises:
        InvalidInputError: for what `get_context` does not know or would refuse.
    """
    known = RecallOptions.__annotations__
    if unknown := options.keys() - known.keys():
        raise InvalidTypeError(_no_option(min(unknown), [*_own(surface), *known]))
    _check_names(options.get("memory_types"))
    general = {name: one for name, one in options.items() if name != "memory_types"}
    Asking(MemoryTypes()).ask("", MemoryContext(tenant="anyone"), **general)
    return cast("RecallOptions", {"cutoff": False, **options})


def checked_lessons(lessons: object, holdout: object) -> None:
    """Refuse a number of lessons, or a share to hold out, that no recall could take.

    Raises:
        InvalidInputError: for either.
    """
    lesson_limit(lessons, "lessons")
    share(holdout, "holdout")


def checked_blocking(function: object, what: str) -> None:
    """Refuse an `async def` where a function is asked without being awaited.

    Raises:
        InvalidTypeError: for one, and for an object whose `__call__` is one.
    """
    called = getattr(type(function), "__call__", None)  # noqa: B004 - which of the two it is
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        raise InvalidTypeError(
            f"{what} is an async function, and is asked without being awaited: give a plain one, "
            "or await yours in a node before, which writes what it found to the state"
        )


def run_of(runtime: Any) -> Run:
    """The attempt that a node makes: the same when it is retried or resumed, new in each loop.

    Raises:
        ConfigurationError: outside a graph.
    """
    info = getattr(runtime, "execution_info", None)
    if info is None:
        raise ConfigurationError(_OUTSIDE)
    root = trace_id() or info.run_id
    return Run(str(info.task_id), None if root is None else str(root))


def thread_of(config: RunnableConfig) -> str | None:
    """The thread that a run is in; None if it names none."""
    thread = (config.get("configurable") or {}).get("thread_id")
    return None if thread is None else str(thread) or None


def checked_template(text: str) -> str:
    """A text whose braces are all `{name}`, with a sign between any two.

    Raises:
        InvalidInputError: for any other brace, which would stand for everybody; and for two without
            a sign between them, which would stand for the same in two ways.
    """
    if set("{}") & set(_PLACEHOLDER.sub("", text)):
        raise InvalidInputError(
            f"{text!r} has a brace that is no placeholder: write {{user_id}}, with letters, digits "
            "and underscores, for config['configurable']['user_id']"
        )
    if not all(_signs(between) for between in _BETWEEN.findall(text)):
        raise InvalidInputError(
            f"{text!r} has two placeholders without a sign between them, where 'a' and 'bc' would "
            "be the same as 'ab' and 'c': give each a label of its own, or put a sign such as '-' "
            "between them"
        )
    return text


def _signs(text: str) -> set[str]:
    """The characters of a text by which two values can be told apart, once they hold none."""
    return {one for one in text if not (one.isascii() and one.isalnum()) and one != "%"}


def filled(
    text: str, config: RunnableConfig, written: Callable[[str], str] = lambda name: name
) -> str:
    """A text with each `{name}` replaced by that value of `config["configurable"]`.

    Of several, each is written without the signs between them (`%2D` for `-`), so that different
    values never make the same text. `written` makes of each what stands there.

    Raises:
        InvalidInputError: if there is no such value.
    """
    checked_template(text)
    known = config.get("configurable") or {}
    signs = {one for between in _BETWEEN.findall(text) for one in _signs(between)}
    escaped = {ord(one): _escaped(one) for one in signs | {"%"}} if signs else {}

    def value(found: re.Match[str]) -> str:
        if (label := known.get(found[1])) is None:
            named = ", ".join(sorted(name for name in known if not name.startswith("__")))
            raise InvalidInputError(
                f"{text!r} needs config['configurable'][{found[1]!r}], and the run has "
                f"{named or 'nothing'} there"
            )
        return written(str(label).translate(escaped))

    return _PLACEHOLDER.sub(value, text)


def _escaped(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode(errors="surrogatepass"))


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
    read = (config.get("configurable") or {}).get("__pregel_read")
    missing = [name for name in names if read is not None and not _readable(read, name)]
    if missing:
        raise ConfigurationError(
            f"the graph's state has no key {' and no key '.join(map(repr, missing))}: subclass "
            "HookState, or name the key in the state's schema"
        )


def _readable(read: Callable[[str], Any], name: str) -> bool:
    try:
        read(name)
    except KeyError:
        return False
    return True


def checked_of_state(given: object, what: str) -> None:
    """Refuse what is neither a key of the state nor a function of it.

    Raises:
        InvalidTypeError: for anything else, and for a function that must be awaited.
    """
    if not isinstance(given, str) and not callable(given):
        raise InvalidTypeError(f"{what} is a key of the state, or a function of the state")
    checked_blocking(given, what)


class _Blocking:
    """Something whose async verbs block, so that one body serves `invoke` and `ainvoke`."""

    def __init__(self, memory: object) -> None:
        self._memory = memory

    def __getattr__(self, name: str) -> Any:
        twin = name.removeprefix("a")
        found = getattr(self._memory, twin)
        return found if twin == name else awaitable(found)


def blocking(memory: T) -> T:
    """A coordinator, or what has verbs and their twins as it has, for a body that is run `at_once`.

    What that body awaits is done when it is called.
    """
    return cast("T", _Blocking(memory))


def awaitable(function: Callable[..., T]) -> Callable[..., Awaitable[T]]:
    """A function that blocks, as one that is awaited."""

    async def call(*given: Any, **options: Any) -> T:
        return function(*given, **options)

    return call


def at_once(body: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing but what is `blocking` or `awaitable`, without a loop."""
    try:
        body.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    raise AssertionError("it waits for something else")


def last_question(messages: Sequence[Any]) -> HumanMessage | None:
    """The last message of a human."""
    known = convert_to_messages(messages)
    return next((one for one in reversed(known) if isinstance(one, HumanMessage)), None)


def text_of(message: BaseMessage | None) -> str:
    """What a message says in words; nothing if there is none."""
    return "" if message is None else str(message.text).strip()


def tiered(store: object) -> TieredStore:
    """The store of a graph.

    Raises:
        ConfigurationError: if it is no TieredStore.
    """
    if isinstance(store, TieredStore):
        return store
    found = "no store" if store is None else f"store={type(store).__name__}"
    raise ConfigurationError(
        f"the graph was compiled with {found}: give compile() or create_agent() a TieredStore, "
        "store=TieredStore.embedded('./.memory') for instance"
    )


def _labels(given: Any) -> dict[str, str]:
    """The labels of a run's context: a MemoryContext, a mapping, or an object that has some."""
    if isinstance(given, Mapping):
        labels = {name: given.get(name) for name in _SCOPE}
    else:
        labels = {name: getattr(given, name, None) for name in _SCOPE}
    return cast("dict[str, str]", {name: one for name, one in labels.items() if one is not None})


def _without_tenant(given: Any) -> str:
    if given is None:
        return "The run has no context"
    if isinstance(given, Mapping):
        return "The context has no 'tenant'"
    return f"The context is of type {type(given).__name__} and has no tenant"


def _own(surface: Callable[..., Any] | None) -> list[str]:
    """The options that a surface has beside those of a recall."""
    taken = inspect.signature(surface).parameters.values() if surface else ()
    return [one.name for one in taken if one.kind is inspect.Parameter.KEYWORD_ONLY]


def _no_option(name: str, known: Sequence[str]) -> str:
    ours = [_OTHERS_WORDS[name]] if name in _OTHERS_WORDS else []
    near = ours or get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"
    return f"there is no option {name!r}: {hint}"


def _check_names(names: object) -> None:
    if names is None:
        return
    several = isinstance(names, Collection) and not isinstance(names, str | bytes | Mapping)
    if not (several and all(isinstance(one, str) for one in cast("Collection[object]", names))):
        raise InvalidTypeError(f"memory_types is a list of names, not {short(names)}")
