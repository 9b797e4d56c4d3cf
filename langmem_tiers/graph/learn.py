"""Learning from failures, outcomes, what has proven itself, and success: nodes, and an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.checks import checked_function, checked_list
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.settings import PromotionSettings
from langmem_tiers.core.structured import checked_model
from langmem_tiers.core.values import storable
from langmem_tiers.graph.messages import (
    Failing,
    Ran,
    as_marked,
    attempts_in,
    calls_in,
    failing,
    messages_of,
    said_in,
    task_of,
    this_turn,
)
from langmem_tiers.graph.node import (
    OnError,
    Remembered,
    Scope,
    asked,
    careful_of,
    checked_of_state,
    going_on,
    last_question,
    node,
    of_state,
    text_of,
    this_run,
)
from langmem_tiers.graph.speakers import trusting
from langmem_tiers.learn.evolve import WORTH_REMEMBERING, Entities
from langmem_tiers.learn.promote import Promotion
from langmem_tiers.learn.promotion_rules import promotion_policy
from langmem_tiers.learn.reflector import Experience
from langmem_tiers.learn.reflexion import FailedAttempt
from langmem_tiers.learn.rollback import Demotion
from langmem_tiers.learn.skills import MIN_SUPPORT, ToolCall, Trace, skill_candidates
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.reflecting import begin_reflection, learned_lately
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import share

Attempts = Callable[[Any], FailedAttempt | Iterable[FailedAttempt] | None]
"""What failed, of a graph's state."""
Success = str | Callable[[Any], bool | None]
"""A key of the state, or a function of the state: whether the run succeeded; None is not known."""

Found = str | Callable[[Any], Mapping[str, Any]]
"""A key of the state, or a function of the state, that holds a mapping."""

_NOT_JUDGED = StoreResult(stored=False, reason="the run was not judged a success")
_FAILED = StoreResult(stored=False, reason="memory failed, as the log tells")
_NODE_ERROR = "__pregel_node_error"
"""Where LangGraph (1.2 and later) puts the `NodeError` that it hands to an error handler."""


def create_reflexion_node(
    *,
    model: BaseChatModel | None = None,
    attempts: Attempts | None = None,
    failed: Failing | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "reflexion",
) -> Runnable[Any, dict[str, Any]]:
    """A node that learns from what failed, after a tool node, an evaluator, or as error handler.

    It keeps what failed, and stores the lessons that a model draws of it. It writes the state key
    `reflexions`, the keys of the lessons, or without a model of the attempts. A retry of the node
    stores nothing twice. A call that a person rejected
    is told from one that failed where the tool node is wrapped by `ToolLessons` or `ToolClock`.

    Args:
        model: A chat model that draws the lessons, by structured output and one request: a lesson
            for each kind of failure, or none. Without one what failed is evidence: it is kept and
            shown with the call that worked later, as far as that can have been the cure, and of
            tool calls nothing else is.
        attempts: What failed, as a function of the state; all of it is kept. If not given, it is
            each failed tool call of this turn among `messages`; and where the node is given to
            `add_node(error_handler=…)`, the exception of the node that failed after its retries.
        failed: Whether a tool's answer reports a failure, as a function of its message: for tools
            that return their errors as text.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.
    """
    careful = careful_of(on_error, "continue")
    if attempts is not None:
        checked_function(attempts, "attempts")
    if failed is not None:
        checked_function(failed, "failed")
    if model is not None:
        checked_model(model)

    def reflect(
        memory: MemoryCoordinator, state: Any, config: RunnableConfig
    ) -> Flow[dict[str, Any]]:
        found = (
            _failed(state, config, failed, every=model is not None)
            if attempts is None
            else _told(state, attempts)
        )
        reflecting = asked(memory.reflect, memory.areflect, found, model=model)
        learned = yield from going_on(careful, name, reflecting, [])
        return {"reflexions": [one.key for one in learned]}

    return node(name, reflect, Remembered(context, coordinator))


def create_outcome_node(
    success: Success,
    *,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "outcome",
) -> Runnable[Any, dict[str, Any]]:
    """A node that credits what the recall node showed with what came of it.

    Where the state has `messages`, what the answer took up is credited, and of the others it is
    noted that they were shown.
    Each recall is credited once, however often this node is retried. It writes nothing to the
    state but `credited`, how many memories were.

    Args:
        success: Whether it succeeded: a key of the state, or a function of it. While that is
            None nothing is credited.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.
    """
    careful = careful_of(on_error, "continue")
    checked_of_state(["success"], success=success)

    def credit(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> Flow[dict[str, Any]]:
        if (judged := judged_of(state, success)) is None:
            return {"credited": 0}
        said = said_in(messages_of(state))
        credited: Any = {"success": judged, "run_id": _run(state), **said}
        crediting = asked(memory.record_outcome, memory.arecord_outcome, **credited)
        report = yield from going_on(careful, name, crediting, None)
        return {"credited": 0 if report is None else report.credited}

    return node(name, credit, Remembered(context, coordinator))


def create_promotion_node(
    *,
    policy: PromotionSettings | None = None,
    model: BaseChatModel | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "promotion",
) -> Runnable[Any, dict[str, Any]]:
    """A node that promotes what has proven itself, and demotes what has failed since.

    It looks at the whole tenant. It writes the state keys `promoted` and `demoted`, each a list of
    the moves that were made, as JSON; `rollback` takes the `move` of each.

    Args:
        policy: What a memory must have shown; the coordinator's own if not given.
        model: A chat model that generalises what is promoted; rules do if not given.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.
    """
    careful = careful_of(on_error, "continue")
    promotion_policy(policy)  # refuses what is none
    if model is not None:
        checked_model(model)

    def promote(memory: MemoryCoordinator, _: Any, __: RunnableConfig) -> Flow[dict[str, Any]]:
        demoting = asked(memory.demote, memory.ademote, policy=policy)
        demoted = yield from going_on(careful, name, demoting, [])
        promoting = asked(memory.promote, memory.apromote, policy=policy, model=model)
        promoted = yield from going_on(careful, name, promoting, [])
        return _moved(demoted, promoted)

    return node(name, promote, Remembered(context, coordinator))


def create_evolution_node(
    *,
    interaction: Found,
    success_metrics: Found,
    judged: Success | None = None,
    threshold: float = WORTH_REMEMBERING,
    extract_entities: Entities | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "evolution",
) -> Runnable[Any, dict[str, Any]]:
    """A node that remembers an interaction that succeeded, if it was worth it.

    It writes the state key `evolved`: a mapping of `stored`, `key` and `reason`. A retry of the
    node stores nothing twice.

    Args:
        interaction: What happened, as `evolve` takes it: a key of the state, or a function of it.
        success_metrics: What came of it; likewise.
        judged: Whether it succeeded; likewise. What is False or None is not remembered. If not
            given, the metrics alone decide.
        threshold: The importance from which on it is stored, from 0 to 1.
        extract_entities: Finds who and what its texts are about; see `evolve`.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.
    """
    careful = careful_of(on_error, "continue")
    told = {"interaction": interaction, "success_metrics": success_metrics}
    checked_of_state(told, **told, judged=judged)
    share(threshold, "threshold")
    if extract_entities is not None:
        checked_function(extract_entities, "extract_entities")

    def evolve(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> Flow[dict[str, Any]]:
        if judged is not None and not judged_of(state, judged):
            return _evolved(_NOT_JUDGED)
        happened, metrics = of_state(state, interaction), of_state(state, success_metrics)
        options: Any = {"threshold": threshold, "extract_entities": extract_entities}
        evolving = asked(memory.evolve, memory.aevolve, happened, metrics, **options)
        return _evolved((yield from going_on(careful, name, evolving, _FAILED)))

    return node(name, evolve, Remembered(context, coordinator))


def create_skill_node(
    success: Success,
    *,
    min_support: int = MIN_SUPPORT,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "skills",
) -> Runnable[Any, dict[str, Any]]:
    """A node that keeps which tools a run called, and proposes what recurs as a skill.

    It looks at the calls since the last human message, and belongs at the end of a run, after a
    loop of attempts: each time it is passed counts as a run, a retry does not. It writes the
    state key `skills`, the keys of the skills whose evidence changed. See `learn_skills`.

    Args:
        success: Whether the run succeeded: a key of the state, or a function of it. While that is
            None, and where no tool was called, nothing is kept.
        min_support: Runs that a sequence of calls has to succeed in.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.
    """
    careful = careful_of(on_error, "continue")
    checked_of_state(["success"], success=success)
    skill_candidates((), min_support=min_support)  # refuses a number that cannot be

    def learn(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> Flow[dict[str, Any]]:
        if (trace := _trace(state, success)) is None:
            return {"skills": []}
        how: Any = {"min_support": min_support}
        learning = asked(memory.learn_skills, memory.alearn_skills, trace, **how)
        found = yield from going_on(careful, name, learning, [])
        return {"skills": [one.key for one in found if one.stored]}

    return node(name, learn, Remembered(context, coordinator))


def _told(state: Any, attempts: Attempts) -> list[FailedAttempt]:
    """The failed attempts that a function of the caller's finds."""
    found: Any = attempts(state)
    several = [found] if isinstance(found, FailedAttempt) else () if found is None else found
    return list(checked_list(several, "what attempts returned", "failed attempts"))


def _failed(
    state: Any, config: RunnableConfig, failed: Failing | None, *, every: bool
) -> list[FailedAttempt]:
    """The error of a node, and failed calls: each, or those that a later call speaks for."""
    caught = (config.get("configurable") or {}).get(_NODE_ERROR)
    messages = failing(messages_of(state), failed)
    found = [one for one in attempts_in(messages) if every or one.succeeded_with is not None]
    if caught is None:
        return found
    of_node = FailedAttempt(
        task_id=task_of(messages),
        approach=f"ran the node {caught.node}",
        error=storable(f"{type(caught.error).__name__}: {caught.error}"),
        tool=caught.node,
    )
    return [of_node, *found]


def judged_of(state: Any, success: Success) -> bool | None:
    """Whether a run succeeded, as its state says; None if that is not known.

    Raises:
        InvalidInputError: for a state without that key, or a judgement that is none.
    """
    judged = of_state(state, success)
    if judged is not None and not isinstance(judged, bool):
        raise InvalidTypeError(
            f"whether the run succeeded is True, False or None, not {short(judged)}"
        )
    return judged


def _run(state: Any) -> str:
    """The run that the recall node noted."""
    run = of_state(state, "recalled_run", None)
    if not run:
        raise InvalidInputError(
            "the graph's state has no 'recalled_run': put the recall node before this one, and "
            "add the key to the state (MemoryState has it)"
        )
    return str(run)


def _moved(demotions: list[Demotion], promotions: list[Promotion]) -> dict[str, Any]:
    return {
        "promoted": [
            {"key": one.key, "successor": one.successor, "move": one.move, "reason": one.reason}
            for one in promotions
            if one.promoted
        ],
        "demoted": [{"key": one.key, "move": one.move} for one in demotions if one.demoted],
    }


def _trace(state: Any, success: Success) -> Trace | None:
    """What this run called; None if nothing, or if it is not known how it ended."""
    judged = judged_of(state, success)
    messages = messages_of(state)
    calls = [
        ToolCall(one.tool, frozenset(map(storable, one.call["args"])), not one.failed)
        for one in calls_in(this_turn(messages), as_marked(messages))
        if one.tool is not None
    ]
    if not calls or judged is None:
        return None
    return Trace(this_run().id, calls, judged)


def _evolved(result: StoreResult) -> dict[str, Any]:
    told = {"stored": result.stored, "key": result.key, "reason": result.reason}
    return {"evolved": told}


class Reflecting(NamedTuple):
    """How an agent learns from its turns."""

    wanted: bool = False
    model: BaseChatModel | None = None
    failed: Failing | None = None

    def marked(self, messages: Sequence[Any]) -> list[BaseMessage]:
        """Return the messages, with a mark on the answers that report a failure."""
        return failing(messages, self.failed)

    def after(
        self, memory: MemoryCoordinator, state: Any, ran: Ran, *, judged: bool | None
    ) -> Flow[list[dict[str, Any]]]:
        """Keep what of a turn is evidence; where a model is named, let it draw the lessons later.

        What is returned was learned since it was told last: the model's lessons in a later turn, as
        is the error where it failed.
        """
        if not self.wanted:
            return []
        messages = self.marked(messages_of(state))
        attempts = attempts_in(messages, ran)
        if self.model is not None:
            trust = yield from trusting(messages, memory.gate, ensure_config())
            told = _experience(messages, attempts, failed=judged is False)
            bounds = memory.tiered_store.options.bounds
            told = replace(told, asked=bounds.beginning(told.asked), trust=trust)
            if told.teaches:
                begin_reflection(memory, told, self.model)
            return [*map(_told_of, learned_lately(memory))]
        kept = [one for one in attempts if one.succeeded_with is not None]
        return [*map(_told_of, (yield from asked(memory.reflect, memory.areflect, kept)))]


Outcome = Callable[[Any], bool | None]
"""Tells of an agent's state whether the turn succeeded; None is not known."""


def taught_by(
    outcome: Outcome | None,
    reflect: bool | BaseChatModel,  # noqa: FBT001 - of the middleware
    failed: Failing | None,
) -> tuple[Outcome | None, Reflecting]:
    """Return what judges a turn, and how an agent learns from it, as its middleware is told."""
    if outcome is not None:
        checked_function(outcome, "outcome")
    model = None if isinstance(reflect, bool) else reflect
    if model is not None:
        checked_model(model)
    if failed is not None:
        checked_function(failed, "failed")
    return outcome, Reflecting(reflect is not False, model, failed)


def _experience(
    messages: Sequence[BaseMessage],
    attempts: Sequence[FailedAttempt],
    *,
    failed: bool,
) -> Experience:
    """What a turn went through, as its messages tell it."""
    earlier = messages[: len(messages) - len(this_turn(messages))]
    answers = (text_of(one) for one in reversed(earlier) if isinstance(one, AIMessage))
    return Experience(
        attempts=attempts,
        asked=storable(text_of(last_question(messages))),
        answered=said_in(messages).get("answer", ""),
        before=storable(next(filter(None, answers), "")),
        failed=failed,
    )


def _told_of(one: StoreResult) -> dict[str, Any]:
    return {"key": one.key, "quarantined": one.quarantined, "reason": one.reason}
