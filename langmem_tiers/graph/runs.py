"""Runs of a graph: whose memory they use, and how a flow is driven where its caller stands."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.threads import Work
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.driving import arun, run
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.store.store import TieredStore

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


class _AtCaller:
    """What a flow is driven on that does nothing but ask."""

    def __init__(self, ask: Callable[[Ask], Any]) -> None:
        self._ask = ask

    def perform(self, effect: Any) -> Work[Any]:
        return (yield self._ask(effect))

    def end(self, _: BaseException | None) -> Work[None]:
        yield from ()  # nothing was opened


class Caller:
    """Drives a flow that does nothing but ask, where its caller stands.

    What it asks for are verbs, each of which is a unit of work, and what the graph handed over. No
    thread and no connection is held meanwhile, however long a model takes.
    """

    def run(self, asking: Flow[T]) -> T:
        """Run a flow, blocking."""
        return run(asking, _AtCaller(Ask.ask))

    async def arun(self, asking: Flow[T]) -> T:
        """Run a flow, awaiting."""
        return await arun(asking, _AtCaller(Ask.aask))


CALLER = Caller()


def asked(
    call: Callable[P, Any], acall: Callable[P, Awaitable[T]], *given: P.args, **options: P.kwargs
) -> Flow[T]:
    """What a verb, or whatever has two forms, answers: by that of them that the flow is driven."""
    answer = yield Ask(partial(call, *given, **options), partial(acall, *given, **options))
    return cast("T", answer)


def handed_over(handler: Callable[[U], Any], request: U) -> Flow[Any]:
    """What a handler answers, one that blocks or one that is awaited, as its caller wants it."""
    call = partial(handler, request)
    return (yield Ask(call, call))


def ways(made: Callable[P, Flow[T]]) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """The two forms, one that blocks and one that is awaited, of a function that makes a flow."""

    @wraps(made)
    def call(*given: P.args, **options: P.kwargs) -> T:
        return CALLER.run(made(*given, **options))

    @wraps(made)
    async def acall(*given: P.args, **options: P.kwargs) -> T:
        return await CALLER.arun(made(*given, **options))

    return call, acall


_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BETWEEN = re.compile(r"\}([^{}]*)(?=\{)")
"""What stands between two placeholders."""
_SCOPE = tuple(one.name for one in fields(MemoryContext))
OUTSIDE = (
    "a node runs in a graph: add it with builder.add_node('name', node), compile with "
    "store=TieredStore…, and invoke the graph; elsewhere use a MemoryCoordinator"
)

Scope: TypeAlias = MemoryContext | Mapping[str, str]
"""A context, or some of its fields; `{name}` in one is `config["configurable"]["name"]`."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Whose memory the runs of a graph use, and what makes their coordinators."""

    scope: Scope | None = None
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator

    def __post_init__(self) -> None:
        """Refuse what names nobody."""
        given = self.scope
        if given is not None and not isinstance(given, MemoryContext | Mapping):
            raise InvalidTypeError(
                "context is a MemoryContext, or a mapping with some of its fields, not "
                f"{type(given).__name__}"
            )
        if isinstance(given, Mapping):
            if unknown := given.keys() - set(_SCOPE):
                raise InvalidInputError(
                    f"a context has no {short(min(unknown, key=str), 40)}: use {', '.join(_SCOPE)}"
                )
            plain = {name: one for name, one in given.items() if "{" not in str(one)}
            MemoryContext(**{"tenant": "anyone", **plain})
        for text in _labels(given).values():
            checked_template(text)

    def memory(self, runtime: Any, config: RunnableConfig) -> MemoryCoordinator:
        """The coordinator of one run.

        Raises:
            ConfigurationError: outside a graph, or if it was not compiled with a TieredStore.
            InvalidInputError: if the run does not say whose memory it is.
        """
        if runtime is None:
            raise ConfigurationError(OUTSIDE)
        return self.memory_of(runtime, self.context(runtime.context, config))

    def memory_of(self, runtime: Any, context: MemoryContext) -> MemoryCoordinator:
        """Make the coordinator of a context in a run."""
        return self.coordinator(tiered(runtime.store), context=context)

    def context(self, given: Any, config: RunnableConfig) -> MemoryContext:
        """Who asks: the run's context, and over it what is named here; else the thread's session.

        A run in a thread that names no session is in the session that is called as the thread is.
        """
        labels = self.labels(given, config)
        if "tenant" not in labels:
            raise InvalidInputError(
                "whose memory is it? The run's context names no tenant: run the graph with "
                "context=MemoryContext(tenant=…), or name a tenant here: "
                "context=MemoryContext(tenant='{user_id}') takes it from config['configurable']"
            )
        return MemoryContext(**labels)

    def labels(self, given: Any, config: RunnableConfig) -> dict[str, Any]:
        """The same, as far as it is said: a run that goes on may name nobody again."""
        named = {name: filled(text, config) for name, text in _labels(self.scope).items()}
        thread = thread_of(config)
        session = {} if thread is None else {"session_id": thread}
        return {**session, **_labels(given), **named}


class Remembering:
    """What has a memory, and methods that `both` makes, driven where an agent stands."""

    runner = CALLER
    _whose: Remembered

    def _memory(self, runtime: Any) -> MemoryCoordinator:
        return self._whose.memory(runtime, ensure_config())


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
    if not isinstance(text, str):
        raise InvalidTypeError(f"a label is a string, such as '{{user_id}}', not {short(text)}")
    if set("{}") & set(_PLACEHOLDER.sub("", text)):
        raise InvalidInputError(
            f"{short(text)} has a brace that is no placeholder: write {{user_id}}, with letters, "
            "digits and underscores, for config['configurable']['user_id']"
        )
    if not all(_signs(between) for between in _BETWEEN.findall(text)):
        raise InvalidInputError(
            f"{short(text)} has two placeholders without a sign between them, where 'a' and "
            "'bc' would be the same as 'ab' and 'c': give each a label of its own, or put a sign "
            "such as '-' between them"
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


def user_in(given: Any) -> str | None:
    """The user that a run's context names."""
    return _labels(given).get("user_id")


def _labels(given: Any) -> dict[str, str]:
    """The labels of a run's context: a MemoryContext, a mapping, or an object that has some."""
    label = given.get if isinstance(given, Mapping) else partial(getattr, given)
    return {name: one for name in _SCOPE if (one := label(name, None)) is not None}
