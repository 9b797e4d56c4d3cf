"""Shared parts of nodes, tools and middleware.

They drive a flow for its caller, find the memory of a run, read the state of a step, let a run go
on where its memory fails, and make a node of a flow.
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

from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.core import chat_models, checks, concurrency, errors, tracing
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.learning.outcome import Run
from langmem_tiers.postgres.driver import drive
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.store.store import TieredStore

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
Update: TypeAlias = dict[str, Any]
"""Keys that a node writes to the state."""

_log = logging.getLogger(__name__)


class LatestEntries(dict[K, V]):
    """Dictionary of the latest entries, up to a number of them; several threads may use it."""

    def __init__(self, most: int) -> None:
        """Begin empty; `most` is the number of entries to keep."""
        super().__init__()
        self._most = most

    def add(self, key: K, value: V) -> None:
        """Set an entry as the newest, and drop the oldest of too many."""
        self.pop(key, None)
        self[key] = value
        for oldest in list(self)[: -self._most]:
            self.pop(oldest, None)


# Driving a flow for a blocking or an awaiting caller


class FlowDriver:
    """Driver of flows that yield nothing but `Ask`, for blocking and awaiting callers.

    Such a flow asks verbs, each of which is a unit of work, and functions that the graph handed
    over. No thread and no connection is held meanwhile, however long a model takes. An error that
    ends an `Ask`, also an interrupt, is raised in the flow at that `Ask`.
    """

    def run(self, flow: Flow[T]) -> T:
        """Run a flow, blocking."""
        return concurrency.run_sync(drive(flow, _AskSession(Ask.ask), BaseException))

    async def arun(self, flow: Flow[T]) -> T:
        """Run a flow, awaiting."""
        return await concurrency.run_async(drive(flow, _AskSession(Ask.aask), BaseException))


@dataclass(frozen=True, slots=True)
class _AskSession:
    """Session of a flow that only asks: it has no transaction to end."""

    ask: Callable[[Any], Any]

    def perform(self, effect: Any, /) -> concurrency.Work[Any]:
        return (yield self.ask(effect))

    def end(self, _: BaseException | None, /) -> concurrency.Work[None]:
        yield from ()


DRIVER = FlowDriver()


def invoke(verb: Callable[P, T], *args: P.args, **options: P.kwargs) -> Flow[T]:
    """Call a method; where the flow is awaited, call its twin with an `a` before the name.

    Example:
        ```python
        found = yield from asked(memory.get_context, "When do keys change?", limit=3)
        ```
    """
    method: Any = verb

    def twin() -> Any:  # only an awaited flow looks it up
        return getattr(method.__self__, f"a{method.__name__}")(*args, **options)

    answer = yield Ask(partial(verb, *args, **options), twin)
    return cast("T", answer)


def both_forms(
    made: Callable[P, Flow[T]],
) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """Return the blocking and the awaited form of a function that makes a flow."""

    @wraps(made)
    def call(*args: P.args, **options: P.kwargs) -> T:
        return DRIVER.run(made(*args, **options))

    @wraps(made)
    async def acall(*args: P.args, **options: P.kwargs) -> T:
        return await DRIVER.arun(made(*args, **options))

    return call, acall


# Finding the memory of a run


_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BETWEEN = re.compile(r"\}([^{}]*)(?=\{)")
"""Matches the text between two placeholders."""
_COORDINATORS: Final = 256
"""Number of the latest contexts whose coordinators are kept: our own choice."""
_SCOPE = tuple(label.name for label in fields(MemoryContext))
OUTSIDE_GRAPH = (
    "a node runs in a graph: add it with builder.add_node('name', node), compile with "
    "store=TieredStore…, and invoke the graph; elsewhere use a MemoryCoordinator"
)

Scope: TypeAlias = MemoryContext | Mapping[str, str]
"""A context, or some of its fields; `{name}` in a field is `config["configurable"]["name"]`."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Settings by which a node, a middleware or a tool finds its memory, and goes on without it."""

    scope: Scope | None = None
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator
    name: str = ""
    on_error: str = "continue"
    lenient: Literal["continue", "tell"] = "continue"
    """Value of `on_error` by which a run goes on: a hook reports all errors, a node raises some."""
    _made: LatestEntries[MemoryContext, MemoryCoordinator] = field(
        default_factory=lambda: LatestEntries(_COORDINATORS), init=False, compare=False, repr=False
    )
    """Coordinators that `coordinator` made; a copy of this config with another one has its own."""

    def __post_init__(self) -> None:
        """Refuse a scope that names nobody, and an unknown `on_error`."""
        checks.checked_choice(self.on_error, (self.lenient, "raise"), "on_error")
        scope = self.scope
        if scope is not None and not isinstance(scope, MemoryContext | Mapping):
            expected = "a MemoryContext, or a mapping with some of its fields"
            raise InvalidTypeError(f"context is {expected}, not {type(scope).__name__}")
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
        """Make a node for `invoke` and `ainvoke` from a flow; the state has to have the `keys`."""

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
        """Return the coordinator of a context, which runs on the same store share."""
        store, coordinator = checked_store(runtime.store), self._made.get(context)
        if coordinator is None or coordinator.tiered_store is not store:
            coordinator = self.coordinator(store, context=context)
            self._made.add(context, coordinator)
        return coordinator

    def context(self, run_context: Any, config: RunnableConfig) -> MemoryContext:
        """Return the run's context; the fields of `scope` take precedence.

        If no session is named, the session has the name of the run's thread. Fields that an
        application adds to a context class of its own are left out: coordinators and checkpoints
        are kept by these labels.
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
        """Return the labels of the context that are named: a resumed run may name none again."""
        named = {
            name: fill_template(text, config) for name, text in _context_labels(self.scope).items()
        }
        thread = thread_of(config)
        session = {} if thread is None else {"session_id": thread}
        return {**session, **_context_labels(run_context), **named}


def thread_of(config: RunnableConfig) -> str | None:
    """Return the thread that a run is in; None if it names none."""
    thread = (config.get("configurable") or {}).get("thread_id")
    return None if thread is None else str(thread) or None


def checked_template(text: str) -> str:
    """Return the text if its braces are all `{name}`, with a sign between any two.

    Raises:
        InvalidInputError: for any other brace, which would stand for everybody; and for two
            placeholders without a sign between them, whose values cannot be told apart.
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
    """Return the characters of a text that separate two values, if these are free of them."""
    return {char for char in text if not (char.isascii() and char.isalnum()) and char != "%"}


def fill_template(
    text: str, config: RunnableConfig, render: Callable[[str], str] = lambda name: name
) -> str:
    """Replace each `{name}` in a text by that value of `config["configurable"]`.

    Of several values, each has the signs between them escaped (`%2D` for `-`), so that different
    values never make the same text. `render` makes the text that stands for a value.

    Raises:
        InvalidInputError: if the run has no such value.
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
        return render(str(label).translate(escaped))

    return _PLACEHOLDER.sub(value, text)


def _percent_encode(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode(errors="surrogatepass"))


def checked_store(store: object) -> TieredStore:
    """Return the store of a graph.

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
    """Return the user that a run's context names; None if it names none."""
    return _context_labels(run_context).get("user_id")


def _context_labels(run_context: Any) -> dict[str, str]:
    """Return the labels of a run's context: a MemoryContext, a mapping, or an object with some."""
    label = run_context.get if isinstance(run_context, Mapping) else partial(getattr, run_context)
    return {name: value for name in _SCOPE if (value := label(name, None)) is not None}


# Reading the state of a graph


SUMMARY_KEY: Final = "lc_source"
"""Key that marks the messages which LangChain's middleware writes as a human's."""
MISSING: Any = object()
"""Value of a key that the state does not have."""
READ_KEY = "__pregel_read"
"""Key by which LangGraph (1.2 and later) lets a node read its state; no public name exists."""
_NEEDED: Any = object()

StateSource = str | Callable[[Any], Any]
"""A key of the state, or a function of the state."""


def read_state(state: Any, source: StateSource, default: Any = _NEEDED) -> Any:
    """Read a graph's state, a mapping or an object, by a key or a function of it.

    Raises:
        InvalidInputError: if the state has no such key, and no default is given.
    """
    if not isinstance(source, str):
        return source(state)
    mapped = isinstance(state, Mapping)
    value = state.get(source, default) if mapped else getattr(state, source, default)
    if value is _NEEDED:
        raise InvalidInputError(
            f"the graph's state has no {source!r} yet: write it before this node, None if it is "
            "not known, or give a function of the state"
        )
    return value


def check_state_sources(needed: Collection[str] = (), /, **sources: object) -> None:
    """Refuse a source that is neither a key nor a function of the state; None if it is `needed`.

    Raises:
        InvalidTypeError: for such a source, and for a function that must be awaited.
    """
    for name, source in sources.items():
        if isinstance(source, str) or (source is None and name not in needed):
            continue
        if not callable(source):
            raise InvalidTypeError(f"{name} is a key of the state, or a function of the state")
        checks.checked_function(source, name)


def check_helpers(model: object = None, **functions: object) -> None:
    """Refuse a `model` that is no chat model, and functions that cannot be called; None may stand.

    Raises:
        InvalidTypeError: for either, and for a function that must be awaited.
    """
    if model is not None:
        chat_models.checked_model(model)
    for name, function in functions.items():
        if function is not None:
            checks.checked_function(function, name)


def check_keys(config: RunnableConfig, *names: str) -> None:
    """Refuse a graph whose state lacks a key that a node writes: its value would be lost.

    Raises:
        ConfigurationError: if a key is missing; outside a graph nothing is checked.
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
    """Return the messages of a state: a mapping, an object or the messages themselves."""
    if isinstance(state, list):  # messages, or a tool node's calls
        return [message for message in state if isinstance(message, BaseMessage)]
    return convert_to_messages(read_state(state, "messages", None) or ())


def is_human(message: BaseMessage) -> bool:
    """Tell whether it is a human message; a summary that a model wrote as a human's is none."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get(SUMMARY_KEY)


def last_question(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    """Return the last message of a human; None if there is none."""
    return next(filter(is_human, reversed(messages)), None)


def messages_since(
    messages: Sequence[BaseMessage], begins: Callable[[BaseMessage], bool]
) -> Sequence[BaseMessage]:
    """Return the messages from the last one that `begins` accepts; all if there is none."""
    for place in range(len(messages) - 1, -1, -1):
        if begins(messages[place]):
            return messages[place:]
    return messages


def turn_messages(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages from the last human one on; all if there is none."""
    return messages_since(messages, is_human)


def has_new_tool_answer(messages: Sequence[BaseMessage]) -> bool:
    """Tell whether a tool has answered since the model's last message."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage | AIMessage):
            return isinstance(message, ToolMessage)
    return False


def text_of(message: BaseMessage | None) -> str:
    """Return the text of a message; an empty one if there is no message."""
    return "" if message is None else str(message.text).strip()


# Going on where memory fails


OnError = Literal["continue", "raise"]
"""Reaction of an agent to a failure of its memory: it goes on without, or it fails as well."""
OnHookError = Literal["tell", "raise"]
"""Reaction to an error of a hook: it is reported and the run goes on, or it is raised."""


# A mistake in the graph, an error that lasts and an exception that is no error fail the run.
_ALWAYS_RAISED: Final = (ConfigurationError, GraphBubbleUp)
_RAISED_BY: Final[Mapping[str, tuple[type[Exception], ...]]] = {
    "raise": (Exception,),
    "tell": _ALWAYS_RAISED,
    "continue": (*_ALWAYS_RAISED, InvalidInputError),
}
"""Errors that fail the run, by its `on_error`."""


@contextmanager
def continue_on_error(
    during: str,
    on_error: str = "continue",
    runtime: Any = None,
    failures: dict[str, str] | None = None,
) -> Iterator[None]:
    """Catch an error of the block where `on_error` lets the run go on, and report it.

    It goes to `failures` under the name `during`, to the log, and with a runtime to the stream of
    mode `custom`. Too long a text fails a run only with `raise`.
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
    """A step of a run: its memory, its state, and the errors that it went on after."""

    memory: MemoryCoordinator
    state: Any
    config: RunnableConfig
    runtime: Any
    node: NodeConfig
    failures: dict[str, str] = field(default_factory=dict)
    """Errors that the run went on after, by the task that failed."""

    @cached_property
    def messages(self) -> list[BaseMessage]:
        """Return the messages of its state."""
        return messages_of(self.state)

    @property
    def run(self) -> Run:
        """Return the run of the step: the same when it is retried or resumed, new in each loop.

        Raises:
            ConfigurationError: outside a graph.
        """
        info = getattr(self.runtime, "execution_info", None)
        if info is None:
            raise ConfigurationError(OUTSIDE_GRAPH)
        root = tracing.trace_id() or info.run_id
        return Run(str(info.task_id), None if root is None else str(root))

    def read(self, key: str) -> Any:
        """Return the value of a key of its state; None without it."""
        return read_state(self.state, key, None)

    def tolerate(self, during: str) -> AbstractContextManager[None]:
        """Catch an error of the block where the node's `on_error` lets the run go on."""
        return continue_on_error(during, self.node.on_error, self.runtime, self.failures)

    def run_or(self, flow: Flow[T], fallback: T) -> Flow[T]:
        """Run the node's flow; where it fails and the run goes on, return `fallback`."""
        with self.tolerate(self.node.name):
            return (yield from flow)
        return fallback

    def run_hook(self, flow: Flow[Update]) -> Flow[Update]:
        """Run a hook's flow and return its update, or its `error`; no stream is told."""
        with continue_on_error(self.node.name, self.node.on_error, failures=self.failures):
            return (yield from flow)
        return {"error": self.failures[self.node.name]}

    def errors(self, *, same_turn: object, mended: str | None = None) -> Update:
        """Return the update of `memory_errors`: earlier ones of the `same_turn`, and the step's.

        The task `mended` was tried again: its error stays only if it failed again.
        """
        before: Mapping[str, str] = self.read("memory_errors") or {}
        kept = {**before} if same_turn else {}
        if mended is not None:
            kept.pop(mended, None)
        current = {**kept, **self.failures}
        return {} if current == before else {"memory_errors": current}

    def note_words_only(self, failed: str | None) -> None:
        """Note the error of the embedding model after which a recall sought words alone."""
        if failed is not None:
            self.failures["recall"] = f"recalled by words alone: {failed}"
