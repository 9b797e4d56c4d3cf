"""Nodes by which a graph remembers a session's start and end, a prompt, and todos that are done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig

from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.structured import checked_model
from langmem_tiers.core.values import storable
from langmem_tiers.graph.careful import Careful, OnHookError, careful_of
from langmem_tiers.graph.driven import asked
from langmem_tiers.graph.messages import messages_of, steps_of
from langmem_tiers.graph.node import (
    OfState,
    checked_of_state,
    last_question,
    node,
    of_state,
    text_of,
)
from langmem_tiers.graph.recall import MemoryState
from langmem_tiers.graph.remind import LEASE_SECONDS, Asking, remind
from langmem_tiers.graph.scope import Remembered, Scope
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.hook_data import EXPIRE_DAYS, Intends, checked_options
from langmem_tiers.memory.hooks import MemoryHooks
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remind.intentions import DEFAULT_REMINDERS, Predicates
from langmem_tiers.remind.prompted import SESSION_STARTS
from langmem_tiers.state.tasks import Seen, newly_completed

_STARTED: Final = ("hooks", "reminders", "reminders_text")
"""What a session's start writes that must not be lost."""


def merged(known: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """What the hooks did last, each under its name."""
    return {**(known or {}), **(new or {})}


class HookState(MemoryState, total=False):
    """A graph's state with what hooks read and write; subclass it, or name its keys in your own."""

    hooks: Annotated[dict[str, Any], merged]
    """What each hook did last, by its name; its `error` where something went wrong."""
    reminders: list[dict[str, Any]]
    """What was raised, as JSON."""
    reminders_text: str
    """The same as a text for a prompt, or nothing."""
    intentions: list[dict[str, Any]]
    """What else was open when the session began, by priority."""
    todos: list[dict[str, Any]]
    """Todos, each with `content` and `status`; LangChain's `write_todos` writes them."""
    todos_seen: dict[str, Any]
    """Since when each is in progress, and which of them are remembered."""
    session_ended: bool
    session: dict[str, Any] | None
    """What became of the session; see `create_session_end_node`."""
    consolidated: dict[str, Any]
    """The last cycle; see `create_consolidation_graph`."""


def create_session_start_node(
    *,
    query: OfState | None = None,
    predicates: Predicates | None = None,
    limit: int = DEFAULT_REMINDERS,
    at_start: int | None = None,
    as_message: bool = False,
    lease_seconds: float | None = LEASE_SECONDS,
    on_error: OnHookError = "tell",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "session_start",
) -> Runnable[Any, dict[str, Any]]:
    """A node that begins a session: what is open by priority, and what is due.

    It is the reminder node, and may be passed with every message: on the session's first, when the
    state has no `reminders` yet, it lists what is open, and also raises what waits for a session to
    start. It writes `reminders`, `reminders_text` and `intentions`; `create_acknowledge_node`
    behind the model says that they were seen.

    Args:
        query: Where cues are looked for: a key of the state, or a function of it; see
            `create_reminder_node`.
        predicates: The functions of the state by the names that intentions know them by.
        limit: Reminders at most, and open intentions at most that are listed.
        at_start: Open intentions at most that are listed, if that is another number.
        as_message: Add the text to `messages` as well, as a system message.
        lease_seconds: After how many seconds what no model answered is due again.
        on_error: See `create_user_prompt_node`; a session whose start failed starts the next time.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        InvalidInputError: for an option that cannot be.
    """
    careful = careful_of(on_error)
    known = {SESSION_STARTS: session_starts, **(predicates or {})}
    listed = limit if at_start is None else at_start
    asking = Asking(query, known, limit, listed, as_message, lease_seconds)

    def start(
        memory: MemoryCoordinator, state: Any, config: RunnableConfig
    ) -> Flow[dict[str, Any]]:
        done = yield from careful(name, remind(memory, state, config, asking=asking))
        failed = "error" in done
        return {**({} if failed else done), "hooks": {name: done if failed else {}}}

    return node(name, start, Remembered(context, coordinator), _STARTED)


def session_starts(state: Any) -> bool:
    """Whether a state is that of a session's first message."""
    return of_state(state, "reminders", None) is None


def create_user_prompt_node(
    *,
    prompt: OfState | None = None,
    before_tools: Sequence[str] = (),
    intends: Intends = "keywords",
    expire_days: float | None = EXPIRE_DAYS,
    on_error: OnHookError = "tell",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "user_prompt",
) -> Runnable[Any, dict[str, Any]]:
    """A node that keeps what the user said, and what that intends, for `invoke` and `ainvoke`.

    See `MemoryHooks.on_user_prompt_submit`. It writes `hooks["user_prompt"]`. A retry of the node,
    and a loop that comes by with the same message, store nothing twice. The session is the
    context's, else the thread.

    Args:
        prompt: What the user said: a key of the state, or a function of it. If not given, it is
            what the last human message says.
        before_tools: Names of tools that a prompt may intend something before.
        intends: `keywords`, or `asked`; see `MemoryHooks`.
        expire_days: After how many days what names no occasion expires; None for never.
        on_error: `tell` writes what went wrong to the log and to `hooks["user_prompt"]["error"]`,
            and the graph goes on; `raise` leaves it to the graph and its retry policy.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`, `{thread_id}` for instance.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        InvalidInputError: for an option that cannot be.

    Example:
        ```python
        from langgraph.graph import StateGraph
        from langmem_tiers import HookState, MemoryContext, create_user_prompt_node

        builder = StateGraph(HookState, context_schema=MemoryContext)
        builder.add_node("user_prompt", create_user_prompt_node())
        builder.set_entry_point("user_prompt")
        graph = builder.compile(store=store)
        ```
    """
    if prompt is not None:
        checked_of_state(prompt, "prompt")
    options = checked_options(before_tools, intends, expire_days)
    careful = careful_of(on_error)

    def submit(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> Flow[dict[str, Any]]:
        said = Said.of(state, prompt)
        done = yield from careful(name, submitted(MemoryHooks(memory, **options), said))
        return {"hooks": {name: done}}

    return node(name, submit, Remembered(context, coordinator), ("hooks",))


def create_completed_task_node(
    *,
    tasks: OfState = "todos",
    on_error: OnHookError = "tell",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "completed_tasks",
) -> Runnable[Any, dict[str, Any]]:
    """A node that keeps how each todo was done that has been completed since it was passed last.

    See `MemoryHooks.on_todo_write_complete`. How long a todo took is known if the node saw it in
    progress; its steps, where it tells none, are the tool calls that worked since `write_todos` put
    it in progress. It writes `hooks["completed_tasks"]`, and `todos_seen`, which the state has to
    keep. A retry of the node stores nothing twice.

    Args:
        tasks: Todos, each with `content` and `status`: a key of the state, or a function of it.
        on_error: See `create_user_prompt_node`; what was not stored is tried again the next time.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        InvalidInputError: for an option that cannot be.
    """
    checked_of_state(tasks, "tasks")
    careful = careful_of(on_error)

    def capture(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> Flow[dict[str, Any]]:
        todos = of_state(state, tasks, None) or ()
        return (yield from noted(MemoryHooks(memory), todos, state, name, careful))

    return node(name, capture, Remembered(context, coordinator), ("hooks", "todos_seen"))


def create_session_end_node(
    *,
    ended: OfState = "session_ended",
    events: OfState | None = None,
    concepts: OfState | None = None,
    model: BaseChatModel | None = None,
    on_error: OnHookError = "raise",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "session_end",
) -> Runnable[Any, dict[str, Any]]:
    """A node that ends the run's session, if it has ended; see `MemoryHooks.on_session_stop`.

    It writes the state key `session`: the `SessionReport` as JSON, with the keys of the `events`
    and `concepts` that were kept, or None where the session goes on. A retry of the node keeps
    nothing twice. The session is the context's, else the thread.

    Args:
        ended: Whether the session has ended: a key of the state, or a function of the state. Until
            the key is written the session goes on; a state that does not know it is refused.
        events: Significant events, each with a `description` and a `type`: a key of the state, or a
            function of it. If not given, they are those that the session's notes tell of.
        concepts: What was learned, each with a `description` and a `category`, likewise.
        model: A chat model that sums up what happened, and what was learned; rules do if not given.
        on_error: `raise`, or `tell`: what went wrong is written to the log and to
            `session["error"]`, and the notes are there for another try.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`, `{thread_id}` for instance.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        ConfigurationError: when it runs, if the state has no key `session`, or none that `ended`
            names.
        InvalidInputError: when it runs, if no session is named.
        ModelError: when it runs, if the model gave nothing usable; the notes are as they were.
    """
    for what, given in {"ended": ended, "events": events, "concepts": concepts}.items():
        if given is not None:
            checked_of_state(given, what)
    if model is not None:
        checked_model(model)
    careful = careful_of(on_error)

    def end(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> Flow[dict[str, Any]]:
        if not _is_over(state, ended):
            return {"session": None}
        told = _told(state, events=events, concepts=concepts)
        done = yield from careful(name, _stopped(MemoryHooks(memory), told, model))
        return {"session": done}

    keys = ("session", ended) if isinstance(ended, str) else ("session",)
    return node(name, end, Remembered(context, coordinator), keys)


class Said(NamedTuple):
    """What the user said last, and the id of the message."""

    text: str
    id: str | None

    @classmethod
    def of(cls, state: Any, prompt: OfState | None = None) -> Said:
        """What `prompt` says, else the last human message; nothing if there is none."""
        if prompt is not None:
            return cls(str(of_state(state, prompt) or ""), None)
        question = last_question(messages_of(state))
        return cls(storable(text_of(question)), None if question is None else question.id)


def submitted(hooks: MemoryHooks, said: Said) -> Flow[dict[str, Any]]:
    """Keep a prompt; what became of it, as JSON. Where nothing was said, nothing is kept."""
    if not said.text.strip():
        return {}
    submit, asubmit = hooks.on_user_prompt_submit, hooks.aon_user_prompt_submit
    done = yield from asked(submit, asubmit, said.text, message_id=said.id)
    return {
        "working": facts(done.working),
        "intended": None if done.intended is None else facts(done.intended),
        "priority": None if done.priority is None else str(done.priority),
        "trigger": None if done.trigger is None else str(done.trigger),
    }


def noted(
    hooks: MemoryHooks, todos: Sequence[Mapping[str, Any]], state: Any, name: str, careful: Careful
) -> Flow[dict[str, Any]]:
    """Keep the todos that are newly completed; an update of the state."""
    seen = of_state(state, "todos_seen", None) or {"began": {}, "noted": []}
    done = yield from careful(name, _kept(hooks, todos, state, seen))
    update = {"todos_seen": done.pop("seen", seen)}
    return {**update, "hooks": {name: done}} if done else update


def _kept(
    hooks: MemoryHooks, todos: Sequence[Mapping[str, Any]], state: Any, seen: Mapping[str, Any]
) -> Flow[dict[str, Any]]:
    """Keep how todos were done; each is one thing in the turn of its message."""
    now = hooks.memory.tiered_store.flows.now
    before = Seen(seen["began"], tuple(seen["noted"]))
    fresh, seeing = newly_completed(map(_readable, todos), before, now)
    messages, about = messages_of(state), str(Said.of(state).id)
    stored = []
    complete, acomplete = hooks.on_todo_write_complete, hooks.aon_todo_write_complete
    for one in fresh:
        which = str(one.get("id") or one["content"])
        done = {"steps": steps_of(one["content"], messages), **one}
        key = hooks.key(about, which, "todo")
        result = yield from asked(complete, acomplete, done, key=key)
        if result is not None:
            stored.append(facts(result))
    told = {"seen": {"began": dict(seeing.began), "noted": list(seeing.noted)}}
    return {**told, "stored": stored} if stored else told


def _readable(todo: Any) -> Any:
    """A todo as Postgres can hold it: a model may write anything."""
    told = dict(todo) if isinstance(todo, Mapping) else todo
    if isinstance(told, dict):
        texts = {name: one for name, one in told.items() if isinstance(one, str)}
        told |= {name: storable(one) for name, one in texts.items()}
    return told


def facts(result: StoreResult) -> dict[str, Any]:
    """What became of a text, as JSON."""
    return {
        "stored": result.stored,
        "key": result.key,
        "quarantined": result.quarantined,
        "reason": result.reason,
    }


def _is_over(state: Any, ended: OfState) -> bool:
    over = of_state(state, ended, default=None)
    if over is not None and not isinstance(over, bool):
        raise InvalidTypeError(f"whether the session ended is True or False, not {short(over)}")
    return bool(over)


def _told(state: Any, **asked: OfState | None) -> dict[str, Any]:
    """What a state says of a session that ends, as far as it is asked."""
    return {name: of_state(state, of, None) for name, of in asked.items() if of is not None}


def _stopped(
    hooks: MemoryHooks, told: dict[str, Any], model: BaseChatModel | None
) -> Flow[dict[str, Any]]:
    stop = yield from asked(hooks.on_session_stop, hooks.aon_session_stop, told, model=model)
    return {
        **{key: _json(one) for key, one in asdict(stop.report).items()},
        "events": [one.key for one in stop.events if one.stored],
        "concepts": [one.key for one in stop.concepts if one.stored],
    }


def _json(one: Any) -> Any:
    return list(one) if isinstance(one, tuple) else one
