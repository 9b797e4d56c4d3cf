"""Nodes by which a graph remembers when a session starts, a prompt comes, or a task is completed.

That a session ends says `create_session_end_node`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from traceback import walk_tb
from typing import Annotated, Any, Final, Literal, NamedTuple

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langmem_tiers.core.errors import (
    ConfigurationError,
    InvalidInputError,
    MissingExtraError,
    TieredMemoryError,
    short,
)
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.values import storable
from langmem_tiers.graph.attempts import messages_of
from langmem_tiers.graph.hook_steps import steps_of
from langmem_tiers.graph.node import (
    OfState,
    Remembered,
    at_once,
    awaitable,
    blocking,
    check_keys,
    checked_of_state,
    last_question,
    of_state,
    text_of,
)
from langmem_tiers.graph.recall import MemoryState
from langmem_tiers.graph.remind import create_reminder_node
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.hook_data import (
    EXPIRE_DAYS,
    Intends,
    checked_options,
)
from langmem_tiers.memory.hooks import MemoryHooks
from langmem_tiers.remind.asked import DEFAULT_LIMIT, Predicates
from langmem_tiers.remind.prompted import SESSION_STARTS
from langmem_tiers.state.tasks import Seen, newly_completed

try:
    from langgraph.errors import GraphBubbleUp
    from langgraph.runtime import get_runtime
except ImportError as error:
    raise MissingExtraError(
        "nodes need LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error

HookBody = Callable[[MemoryHooks, Any], Coroutine[Any, Any, dict[str, Any]]]
"""What a node does with the run's hooks and the state; it returns an update."""
OnError = Literal["tell", "raise"]
"""What becomes of an error of a hook: it is told and the run goes on, or it is raised."""

_STARTED: Final = ("hooks", "reminders", "reminders_text")
"""What a session's start writes that must not be lost."""
_log = logging.getLogger(__name__)


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
    predicates: Predicates | None = None,
    limit: int = DEFAULT_LIMIT,
    on_error: OnError = "tell",
    name: str = "session_start",
    **options: Any,
) -> Runnable[Any, dict[str, Any]]:
    """A node that begins a session: what is open by priority, and what is due.

    It is the reminder node, and may be passed with every message: on the session's first, when the
    state has no `reminders` yet, it lists what is open, and also raises what waits for a session to
    start. It writes `reminders`, `reminders_text` and `intentions`; `create_acknowledge_node`
    behind the model says that they were seen.

    Args:
        predicates: The functions of the state by the names that intentions know them by.
        limit: Reminders at most, and open intentions at most that are listed.
        on_error: See `create_user_prompt_node`; a session whose start failed starts the next time.
        name: The node's name, in traces too.
        options: Those of `create_reminder_node`: `query`, `lease_seconds`, `tenant`, ….

    Raises:
        InvalidInputError: for an option that cannot be.
    """
    known = {SESSION_STARTS: session_starts, **(predicates or {})}
    careful = careful_of(on_error)
    node = create_reminder_node(
        predicates=known, limit=limit, **{"at_start": limit, **options}, name=name
    )

    async def start(raised: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        done = await careful(name, raised)
        failed = "error" in done
        return {**({} if failed else done), "hooks": {name: done if failed else {}}}

    def step(state: Any, config: RunnableConfig) -> dict[str, Any]:
        check_keys(config, *_STARTED)
        return at_once(start(awaitable(node.invoke)(state, config)))

    async def astep(state: Any, config: RunnableConfig) -> dict[str, Any]:
        check_keys(config, *_STARTED)
        return await start(node.ainvoke(state, config))

    return RunnableLambda(step, astep, name=name)


def session_starts(state: Any) -> bool:
    """Whether a state is that of a session's first message."""
    return of_state(state, "reminders", None) is None


def create_user_prompt_node(
    *,
    prompt: OfState | None = None,
    before_tools: Sequence[str] = (),
    intends: Intends = "keywords",
    expire_days: float | None = EXPIRE_DAYS,
    on_error: OnError = "tell",
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
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
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise; `{thread_id}` for instance.
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
    whose = Remembered(
        tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
    )

    async def submit(hooks: MemoryHooks, state: Any) -> dict[str, Any]:
        return {"hooks": {name: await careful(name, submitted(hooks, Said.of(state, prompt)))}}

    return hook_node(name, whose, submit, ("hooks",), options)


def create_completed_task_node(
    *,
    tasks: OfState = "todos",
    on_error: OnError = "tell",
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
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
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        InvalidInputError: for an option that cannot be.
    """
    checked_of_state(tasks, "tasks")
    careful = careful_of(on_error)
    whose = Remembered(
        tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
    )

    async def capture(hooks: MemoryHooks, state: Any) -> dict[str, Any]:
        return await noted(hooks, of_state(state, tasks, None) or (), state, name, careful)

    return hook_node(name, whose, capture, ("hooks", "todos_seen"))


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


class Careful(NamedTuple):
    """How the errors of a hook are dealt with."""

    on_error: OnError

    async def __call__(self, name: str, doing: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """Await what a hook of that name does; what it did, or what went wrong."""
        try:
            return await doing
        except (ConfigurationError, GraphBubbleUp):
            raise  # a mistake of who built the graph, or no error at all
        except Exception as refused:  # a model's client can raise anything; no answer is lost by it
            if self.on_error == "raise" or _is_defect(refused):
                raise
            ours = isinstance(refused, TieredMemoryError)  # whose message says it all
            _log.warning(
                "the hook %r did not do all of its work: %s", name, refused, exc_info=not ours
            )
            return {"error": f"{type(refused).__name__}: {refused}"}


def _is_defect(error: Exception) -> bool:
    """Whether code of this package raised it, itself or through Python's own, and not on purpose.

    What a model's client or any other code raises is none, nor is what the machine refuses.
    """
    if isinstance(error, TieredMemoryError | OSError):
        return False
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    packages = [name.partition(".")[0] for name in modules]
    raised_by = [one for one in packages if one not in sys.stdlib_module_names]
    return raised_by[-1:] == ["langmem_tiers"]


def careful_of(on_error: OnError) -> Careful:
    """How errors are dealt with, checked.

    Raises:
        InvalidInputError: for what is neither `tell` nor `raise`.
    """
    if on_error not in {"tell", "raise"}:
        raise InvalidInputError(f"on_error is 'tell' or 'raise', not {short(on_error, 40)}")
    return Careful(on_error)


def hook_node(
    name: str,
    whose: Remembered,
    body: HookBody,
    keys: Sequence[str],
    options: Mapping[str, Any] | None = None,
) -> Runnable[Any, dict[str, Any]]:
    """A node for `invoke` and `ainvoke`, of one body; the state has to have the keys."""

    def step(state: Any, config: RunnableConfig) -> dict[str, Any]:
        check_keys(config, *keys)
        return at_once(body(blocking(hooks_of(whose, get_runtime(), config, options)), state))

    async def astep(state: Any, config: RunnableConfig) -> dict[str, Any]:
        check_keys(config, *keys)
        return await body(hooks_of(whose, get_runtime(), config, options), state)

    return RunnableLambda(step, astep, name=name)


def hooks_of(
    whose: Remembered,
    runtime: Any,
    config: RunnableConfig,
    options: Mapping[str, Any] | None = None,
) -> MemoryHooks:
    """The hooks of a run, and so of its session."""
    return MemoryHooks(whose.memory(runtime, config), **(options or {}))


async def submitted(hooks: MemoryHooks, said: Said) -> dict[str, Any]:
    """Keep a prompt; what became of it, as JSON. Where nothing was said, nothing is kept."""
    if not said.text.strip():
        return {}
    done = await hooks.aon_user_prompt_submit(said.text, message_id=said.id)
    return {
        "working": facts(done.working),
        "intended": None if done.intended is None else facts(done.intended),
        "priority": None if done.priority is None else str(done.priority),
        "trigger": None if done.trigger is None else str(done.trigger),
    }


async def noted(
    hooks: MemoryHooks, todos: Sequence[Mapping[str, Any]], state: Any, name: str, careful: Careful
) -> dict[str, Any]:
    """Keep the todos that are newly completed; an update of the state."""
    seen = of_state(state, "todos_seen", None) or {"began": {}, "noted": []}
    done = await careful(name, _kept(hooks, todos, state, seen))
    update = {"todos_seen": done.pop("seen", seen)}
    return {**update, "hooks": {name: done}} if done else update


async def _kept(
    hooks: MemoryHooks, todos: Sequence[Mapping[str, Any]], state: Any, seen: Mapping[str, Any]
) -> dict[str, Any]:
    """Keep how todos were done; each is one thing in the turn of its message."""
    now = hooks.memory.tiered_store.flows.now
    before = Seen(seen["began"], tuple(seen["noted"]))
    fresh, seeing = newly_completed(map(_readable, todos), before, now)
    messages, about = messages_of(state), str(Said.of(state).id)
    stored = []
    for one in fresh:
        which = str(one.get("id") or one["content"])
        flow = {"steps": steps_of(one["content"], messages), **one}
        result = await hooks.aon_todo_write_complete(flow, key=hooks.key(about, which, "todo"))
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
