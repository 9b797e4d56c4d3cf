"""What nodes, tools and middleware stand on.

How a flow is driven where its caller stands, whose memory a run uses, what a step of a run reads of
its state, how it goes on where its memory fails, and how a node is made of it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial, wraps
from typing import Any, Final, Literal, ParamSpec, TypeAlias, TypeVar, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import get_runtime

from langmem_tiers.core import checks, errors, structured, threads, tracing
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.driver import drive
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.store.store import TieredStore

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
Update: TypeAlias = dict[str, Any]
"""What a node writes to the state."""

_log = logging.getLogger(__name__)


class LatestEntries(dict[K, V]):
    """The latest that was noted, by name, up to a number of them; several threads may use it."""

    def __init__(self, most: int) -> None:
        """Begin with none."""
        super().__init__()
        self._most = most

    def add(self, key: K, value: V) -> None:
        """Note something, in place of the oldest if there are too many; noted again, it is new."""
        self.pop(key, None)
        self[key] = value
        for oldest in list(self)[: -self._most]:
            self.pop(oldest, None)


# A flow, driven where its caller stands


class FlowDriver:
    """Drives a flow that does nothing but ask, where its caller stands.

    What it asks for are verbs, each of which is a unit of work, and what the graph handed over. No
    thread and no connection is held meanwhile, however long a model takes. Whatever ends the
    asking, an interruption as well, is raised where the flow asked.
    """

    def run(self, asking: Flow[T]) -> T:
        """Run a flow, blocking."""
        return threads.run_sync(drive(asking, _AskSession(Ask.ask), BaseException))

    async def arun(self, asking: Flow[T]) -> T:
        """Run a flow, awaiting."""
        return await threads.run_async(drive(asking, _AskSession(Ask.aask), BaseException))


@dataclass(frozen=True, slots=True)
class _AskSession:
    """What such a flow is driven on: there is nothing to end."""

    ask: Callable[[Any], Any]

    def perform(self, wanted: Any, /) -> threads.Work[Any]:
        return (yield self.ask(wanted))

    def end(self, _: BaseException | None, /) -> threads.Work[None]:
        yield from ()


DRIVER = FlowDriver()


def invoke(verb: Callable[P, T], *args: P.args, **options: P.kwargs) -> Flow[T]:
    """Ask a verb: itself where the flow blocks, where it is awaited its twin with an `a`.

    Example:
        ```python
        found = yield from asked(memory.get_context, "When do keys change?", limit=3)
        ```
    """
    method: Any = verb

    def twin() -> Any:  # it is looked up only where the flow is awaited
        return getattr(method.__self__, f"a{method.__name__}")(*args, **options)

    answer = yield Ask(partial(verb, *args, **options), twin)
    return cast("T", answer)


def both_forms(
    made: Callable[P, Flow[T]],
) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """The two forms, one that blocks and one that is awaited, of a function that makes a flow."""

    @wraps(made)
    def call(*args: P.args, **options: P.kwargs) -> T:
        return DRIVER.run(made(*args, **options))

    @wraps(made)
    async def acall(*args: P.args, **options: P.kwargs) -> T:
        return await DRIVER.arun(made(*args, **options))

    return call, acall


# Whose memory a run uses


_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BETWEEN = re.compile(r"\}([^{}]*)(?=\{)")
"""What stands between two placeholders."""
_COORDINATORS: Final = 256
"""The number of contexts, the latest, whose coordinators are kept: our own choice."""
_SCOPE = tuple(label.name for label in fields(MemoryContext))
OUTSIDE_GRAPH = (
    "a node runs in a graph: add it with builder.add_node('name', node), compile with "
    "store=TieredStore…, and invoke the graph; elsewhere use a MemoryCoordinator"
)

Scope: TypeAlias = MemoryContext | Mapping[str, str]
"""A context, or some of its fields; `{name}` in one is `config["configurable"]["name"]`."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """How the runs of a node, a middleware or a tool find their memory, and go on without it."""

    scope: Scope | None = None
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator
    name: str = ""
    on_error: str = "continue"
    lenient: Literal["continue", "tell"] = "continue"
    """The `on_error` by which a run goes on: a hook tells of every error, a node raises some."""
    _made: LatestEntries[MemoryContext, MemoryCoordinator] = field(
        default_factory=lambda: LatestEntries(_COORDINATORS), init=False, compare=False, repr=False
    )
    """What one `coordinator` made: a copy with another has its own."""

    def __post_init__(self) -> None:
        """Refuse what names nobody, and an `on_error` that there is not."""
        checks.checked_choice(self.on_error, (self.lenient, "raise"), "on_error")
        scope = self.scope
        if scope is not None and not isinstance(scope, MemoryContext | Mapping):
            wanted = "a MemoryContext, or a mapping with some of its fields"
            raise InvalidTypeError(f"context is {wanted}, not {type(scope).__name__}")
        if isinstance(scope, Mapping):
            if unknown := scope.keys() - set(_SCOPE):
                first = short(min(unknown, key=str), 40)
                raise InvalidInputError(f"a context has no {first}: use {', '.join(_SCOPE)}")
            plain = {name: label for name, label in scope.items() if "{" not in str(label)}
            MemoryContext(**{"tenant": "anyone", **plain})
        for text in _context_labels(scope).values():
            checked_template(text)

    def node(
        self, body: Callable[[Step], Flow[Update]], keys: Sequence[str] = ()
    ) -> Runnable[Any, Update]:
        """Make a node for `invoke` and `ainvoke` of one flow; the state has to have the keys."""

        def update(state: Any, config: RunnableConfig) -> Flow[Update]:
            check_keys(config, *keys)
            return body(self.step(state, get_runtime(), config))

        return RunnableLambda(*both_forms(update), name=self.name)

    def step(self, state: Any, runtime: Any, config: RunnableConfig | None = None) -> Step:
        """Begin a step of a run.

        Raises:
            ConfigurationError: outside a graph, or if it was not compiled with a TieredStore.
            InvalidInputError: if the run does not say whose memory it is.
        """
        if runtime is None:
            raise ConfigurationError(OUTSIDE_GRAPH)
        config = ensure_config() if config is None else config
        memory = self.memory(runtime, self.context(runtime.context, config))
        return Step(memory, state, config, runtime, self)

    def memory(self, runtime: Any, context: MemoryContext) -> MemoryCoordinator:
        """Return the coordinator of a context in a run: the one of earlier runs on its store."""
        store, coordinator = checked_store(runtime.store), self._made.get(context)
        if coordinator is None or coordinator.tiered_store is not store:
            coordinator = self.coordinator(store, context=context)
            self._made.add(context, coordinator)
        return coordinator

    def context(self, run_context: Any, config: RunnableConfig) -> MemoryContext:
        """Find who asks: the run's context, and over it what is named; else the thread's session.

        A run in a thread that names no session is in the session that is called as the thread is.
        What an application adds to a context of its own stays with it: coordinators and
        checkpoints are kept by these labels.
        """
        if type(run_context) is MemoryContext and self.scope is None:
            if run_context.session_id is None and (thread := thread_of(config)) is not None:
                return replace(run_context, session_id=thread)
            return run_context
        labels = self.labels(run_context, config)
        if "tenant" not in labels:
            raise InvalidInputError(
                "whose memory is it? The run's context names no tenant: run the graph with "
                "context=MemoryContext(tenant=…), or name a tenant here: "
                "context=MemoryContext(tenant='{user_id}') takes it from config['configurable']"
            )
        return MemoryContext(**labels)

    def labels(self, run_context: Any, config: RunnableConfig) -> dict[str, Any]:
        """The same, as far as it is said: a run that goes on may name nobody again."""
        named = {
            name: fill_template(text, config) for name, text in _context_labels(self.scope).items()
        }
        thread = thread_of(config)
        session = {} if thread is None else {"session_id": thread}
        return {**session, **_context_labels(run_context), **named}


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
    if not all(_separators(between) for between in _BETWEEN.findall(text)):
        raise InvalidInputError(
            f"{short(text)} has two placeholders without a sign between them, where 'a' and "
            "'bc' would be the same as 'ab' and 'c': give each a label of its own, or put a sign "
            "such as '-' between them"
        )
    return text


def _separators(text: str) -> set[str]:
    """The characters of a text by which two values can be told apart, once they hold none."""
    return {char for char in text if not (char.isascii() and char.isalnum()) and char != "%"}


def fill_template(
    text: str, config: RunnableConfig, written: Callable[[str], str] = lambda name: name
) -> str:
    """A text with each `{name}` replaced by that value of `config["configurable"]`.

    Of several, each is written without the signs between them (`%2D` for `-`), so that different
    values never make the same text. `written` makes of each what stands there.

    Raises:
        InvalidInputError: if there is no such value.
    """
    checked_template(text)
    configurable = config.get("configurable") or {}
    signs = {sign for between in _BETWEEN.findall(text) for sign in _separators(between)}
    escaped = {ord(sign): _percent_encode(sign) for sign in signs | {"%"}} if signs else {}

    def value(match: re.Match[str]) -> str:
        if (label := configurable.get(match[1])) is None:
            named = (
                ", ".join(sorted(key for key in configurable if not key.startswith("__")))
                or "nothing"
            )
            needed = f"config['configurable'][{match[1]!r}]"
            raise InvalidInputError(f"{text!r} needs {needed}, and the run has {named}")
        return written(str(label).translate(escaped))

    return _PLACEHOLDER.sub(value, text)


def _percent_encode(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode(errors="surrogatepass"))


def checked_store(store: object) -> TieredStore:
    """The store of a graph.

    Raises:
        ConfigurationError: if it is no TieredStore.
    """
    if isinstance(store, TieredStore):
        return store
    actual = "no store" if store is None else f"store={type(store).__name__}"
    raise ConfigurationError(
        f"the graph was compiled with {actual}: give compile() or create_agent() a TieredStore, "
        "store=TieredStore.embedded('./.memory') for instance"
    )


def user_of_context(run_context: Any) -> str | None:
    """The user that a run's context names."""
    return _context_labels(run_context).get("user_id")


def _context_labels(run_context: Any) -> dict[str, str]:
    """The labels of a run's context: a MemoryContext, a mapping, or an object that has some."""
    label = run_context.get if isinstance(run_context, Mapping) else partial(getattr, run_context)
    return {name: value for name in _SCOPE if (value := label(name, None)) is not None}


# What a state says


SUMMARY_KEY: Final = "lc_source"
"""What marks the messages that LangChain's middleware writes as a human's."""
MISSING: Any = object()
"""What a key holds that the state does not have."""
READ_KEY = "__pregel_read"
"""Where LangGraph (1.2 and later) lets a node read its state; it has no public name for it."""
_NEEDED: Any = object()

StateSource = str | Callable[[Any], Any]
"""A key of the state, or a function of the state."""


def read_state(state: Any, what: StateSource, default: Any = _NEEDED) -> Any:
    """Return what a key of a graph's state, a mapping or an object, or a function of it says.

    Raises:
        InvalidInputError: if the state has no such key, and no default is given.
    """
    if not isinstance(what, str):
        return what(state)
    mapped = isinstance(state, Mapping)
    value = state.get(what, default) if mapped else getattr(state, what, default)
    if value is _NEEDED:
        raise InvalidInputError(
            f"the graph's state has no {what!r} yet: write it before this node, None if it is not "
            "known, or give a function of the state"
        )
    return value


def check_state_sources(needed: Collection[str] = (), /, **sources: object) -> None:
    """Refuse what is neither a key of the state nor a function of it; None only where it is needed.

    Raises:
        InvalidTypeError: for anything else, and for a function that must be awaited.
    """
    for what, source in sources.items():
        if isinstance(source, str) or (source is None and what not in needed):
            continue
        if not callable(source):
            raise InvalidTypeError(f"{what} is a key of the state, or a function of the state")
        checks.checked_function(source, what)


def check_helpers(model: object = None, **functions: object) -> None:
    """Refuse what is no chat model, and what is no function or has to be awaited, if it is given.

    Raises:
        InvalidTypeError: for either.
    """
    if model is not None:
        structured.checked_model(model)
    for what, function in functions.items():
        if function is not None:
            checks.checked_function(function, what)


def check_keys(config: RunnableConfig, *names: str) -> None:
    """Refuse to run in a graph whose state lacks a key that a node writes: it would be lost.

    Raises:
        ConfigurationError: if a key is missing; outside a graph nothing is looked at.
    """
    missing = [name for name in names if read_channel(config, name) is MISSING]
    if missing:
        raise ConfigurationError(
            f"the graph's state has no key {' and no key '.join(map(repr, missing))}: subclass "
            "HookState, or name the key in the state's schema"
        )


def read_channel(config: RunnableConfig, name: str) -> Any:
    """Read a key of the run's state; None outside of a run, `MISSING` if there is no key."""
    read = (config.get("configurable") or {}).get(READ_KEY)
    try:
        return None if read is None else read(name)
    except KeyError:
        return MISSING


def messages_of(state: Any) -> list[BaseMessage]:
    """The messages of a state, be it a mapping, an object or the messages themselves."""
    if isinstance(state, list):  # messages, or a tool node's calls
        return [message for message in state if isinstance(message, BaseMessage)]
    return convert_to_messages(read_state(state, "messages", None) or ())


def is_human(message: BaseMessage) -> bool:
    """Tell a human message; a summary that a model made in a human's place is none."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get(SUMMARY_KEY)


def last_question(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    """The last message of a human."""
    return next(filter(is_human, reversed(messages)), None)


def messages_since(
    messages: Sequence[BaseMessage], begins: Callable[[BaseMessage], bool]
) -> Sequence[BaseMessage]:
    """The messages from the last one on that begins something; all if there is none."""
    for place in range(len(messages) - 1, -1, -1):
        if begins(messages[place]):
            return messages[place:]
    return messages


def turn_messages(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The messages from the last human one on; all if there is none."""
    return messages_since(messages, is_human)


def has_new_tool_answer(messages: Sequence[BaseMessage]) -> bool:
    """Tell whether a tool's answer stands behind what the model said last."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage | AIMessage):
            return isinstance(message, ToolMessage)
    return False


def text_of(message: BaseMessage | None) -> str:
    """Return what a message says in words; nothing if there is none."""
    return "" if message is None else str(message.text).strip()


# Where memory fails


OnError = Literal["continue", "raise"]
"""What becomes of an agent whose memory fails: it goes on without, or it fails as well."""
OnHookError = Literal["tell", "raise"]
"""What becomes of an error of a hook: it is told and the run goes on, or it is raised."""


# A mistake in the graph, an error that does not mend itself and an exception that is no error are
# raised, not told.
_ALWAYS_RAISED: Final = (ConfigurationError, GraphBubbleUp)
_RAISED_BY: Final[Mapping[str, tuple[type[Exception], ...]]] = {
    "raise": (Exception,),
    "tell": _ALWAYS_RAISED,
    "continue": (*_ALWAYS_RAISED, InvalidInputError),
}
"""The errors that fail the run, by what is to become of it."""


@contextmanager
def continue_on_error(
    during: str,
    on_error: str = "continue",
    runtime: Any = None,
    failures: dict[str, str] | None = None,
) -> Iterator[None]:
    """Do something; where it fails and the run goes on, that is told under its name.

    It is `told`, written to the log, and to a stream of mode `custom` if there is a runtime. Too
    long a text fails only a run that is to `raise`.
    """
    try:
        yield
    except Exception as error:  # an outermost edge: a model's client can raise anything
        spared = errors.has_code(error, "too_large") and on_error != "raise"
        lasts = errors.has_code(error, *errors.PERMANENT_CODES) and on_error == "continue"
        if lasts or (isinstance(error, _RAISED_BY[on_error]) and not spared):
            raise
        kind, text = errors.error_kind(error), "the run goes on without its memory (%s): %s"
        if failures is not None:
            failures[during] = f"{kind}: {error}"
        ours = isinstance(error, errors.TieredMemoryError)
        _log.warning(text, during, error, exc_info=not ours)
        if runtime is not None:
            runtime.stream_writer({"memory": "failed", "during": during, "error": kind})


# A step of a run


@dataclass
class Step:
    """A step of a run: whose memory it uses, what it reads, and what it goes without."""

    memory: MemoryCoordinator
    state: Any
    config: RunnableConfig
    runtime: Any
    node: NodeConfig
    failures: dict[str, str] = field(default_factory=dict)
    """The errors that the run went on after, by what was to be done."""

    @cached_property
    def messages(self) -> list[BaseMessage]:
        """The messages of its state."""
        return messages_of(self.state)

    @property
    def run(self) -> Run:
        """The attempt that it makes: the same when it is retried or resumed, new in each loop.

        Raises:
            ConfigurationError: outside a graph.
        """
        info = getattr(self.runtime, "execution_info", None)
        if info is None:
            raise ConfigurationError(OUTSIDE_GRAPH)
        root = tracing.trace_id() or info.run_id
        return Run(str(info.task_id), None if root is None else str(root))

    def read(self, key: str) -> Any:
        """Return what a key of its state holds; None without it."""
        return read_state(self.state, key, None)

    def tolerate(self, during: str) -> AbstractContextManager[None]:
        """Go on without what is done here, where that fails."""
        return continue_on_error(during, self.node.on_error, self.runtime, self.failures)

    def run_or(self, flow: Flow[T], fallback: T) -> Flow[T]:
        """Do what the node does; where that fails and the run goes on, return `instead`."""
        with self.tolerate(self.node.name):
            return (yield from flow)
        return fallback

    def run_hook(self, flow: Flow[Update]) -> Flow[Update]:
        """Return what the hook of its name did, or its `error`; no stream is told."""
        with continue_on_error(self.node.name, self.node.on_error, failures=self.failures):
            return (yield from flow)
        return {"error": self.failures[self.node.name]}

    def errors(self, *, same_turn: object, mended: str | None = None) -> Update:
        """Return the errors for the state: those of its turn, if that is `known`, and those told.

        The error `mended` was tried again: it stays only if it is told again.
        """
        before: Mapping[str, str] = self.read("memory_errors") or {}
        still = {**before} if same_turn else {}
        if mended is not None:
            still.pop(mended, None)
        current = {**still, **self.failures}
        return {} if current == before else {"memory_errors": current}

    def note_words_only(self, failed: str | None) -> None:
        """Tell of a recall that sought words alone, as the embedding model failed."""
        if failed is not None:
            self.failures["recall"] = f"recalled by words alone: {failed}"
