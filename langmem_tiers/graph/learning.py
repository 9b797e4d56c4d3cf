"""Nodes and steps of an agent that learn from failures, outcomes and successes, and promote.

`ToolLessons` and `ToolReminders` put lessons and reminders around the calls of a `ToolNode`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.prebuilt.tool_node import ToolCallRequest

from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.learning import begin_reflection, take_learned
from langmem_tiers.core import checks, errors, prompts, settings, values
from langmem_tiers.core.memory import Recollection, StoreResult
from langmem_tiers.graph import messages, runtime
from langmem_tiers.graph.messages import (
    HELD_KEY,
    RAN_KEY,
    FailureTest,
    Handler,
    ToolAnswer,
    run_tool_call,
    text_of_call,
)
from langmem_tiers.graph.recall import DEFAULT_LESSONS, check_lessons
from langmem_tiers.graph.reminders import reminders_text
from langmem_tiers.graph.runtime import OnError, Scope, Step, Update, invoke
from langmem_tiers.graph.speakers import trust_in_run
from langmem_tiers.learning import promotion_policy, skills
from langmem_tiers.learning.evolution import WORTH_REMEMBERING, Entities
from langmem_tiers.learning.outcome import OutcomeReport, Run
from langmem_tiers.learning.reflexion import Experience, FailedAttempt
from langmem_tiers.learning.signature import signature
from langmem_tiers.postgres.flow import Flow, both
from langmem_tiers.recall.prompt_text import recalled_text

AttemptFinder = Callable[[Any], FailedAttempt | Iterable[FailedAttempt] | None]
"""Function that finds failed attempts in a graph's state."""
Success = str | Callable[[Any], bool | None]
"""A key or a function of the state: True if the run succeeded, False if not, None if unknown."""

MappingSource = str | Callable[[Any], Mapping[str, Any]]
"""A key of the state, or a function of the state, that holds a mapping."""

_NOT_JUDGED = StoreResult(stored=False, reason="the run was not judged a success")
_MEMORY_FAILED = StoreResult(stored=False, reason="memory failed, as the log tells")
_NODE_ERROR_KEY = "__pregel_node_error"
"""Key by which LangGraph (1.2 and later) hands a `NodeError` to an error handler."""


def create_reflexion_node(
    *,
    model: BaseChatModel | None = None,
    attempts: AttemptFinder | None = None,
    failed: FailureTest | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "reflexion",
) -> Runnable[Any, Update]:
    """Create a node that learns from failures, after tools or an evaluator, or as error handler.

    It keeps failed attempts, and stores the lessons that a model draws from them. It writes the
    state key `reflexions`, the keys of the lessons, or without a model of the attempts. A retry of
    the node stores nothing twice. It tells a call that a person rejected from one that failed if
    the tool node is wrapped by `ToolLessons` or `ToolClock`.

    Args:
        model: A chat model that draws the lessons, by structured output and one request: a lesson
            for each kind of failure, or none. Without a model the attempts are kept as evidence. A
            failed tool call is then kept only if a later call that worked can have been its cure;
            it is shown with that call.
        attempts: A function of the state that returns the failed attempts; all of them are kept.
            The default is each failed tool call of this turn among `messages`; and where the node
            is given to `add_node(error_handler=…)`, the exception of the node that failed after
            its retries.
        failed: A function of a tool's message that returns True if it reports a failure: for tools
            that return their errors as text.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context, coordinator, name: Options of every node; see `create_recall_node`.
    """
    runtime.check_helpers(model, attempts=attempts, failed=failed)

    def reflect(step: Step) -> Flow[Update]:
        if attempts is None:
            failures = _find_failures(step, failed, every=model is not None)
        else:
            failures = _call_attempts(step.state, attempts)
        reflecting = invoke(step.memory.learning.reflect, failures, model=model)
        learned = yield from step.run_or(reflecting, [])
        return {"reflexions": [result.key for result in learned]}

    return runtime.NodeConfig(context, coordinator, name, on_error).node(reflect)


def create_outcome_node(
    success: Success,
    *,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "outcome",
) -> Runnable[Any, Update]:
    """Create a node that credits the memories which the recall node showed with the run's outcome.

    If the state has `messages`, it credits the memories that the answer used, and notes of the
    others that they were shown. Each recall is credited once, however often this node is retried.
    The node writes the state key `credited`, the number of credited memories.

    Args:
        success: True if the run succeeded: a key of the state, or a function of it. While it is
            None nothing is credited.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context, coordinator, name: Options of every node; see `create_recall_node`.
    """
    runtime.check_state_sources(["success"], success=success)

    def outcome(step: Step) -> Flow[Update]:
        if (judged := read_success(step.state, success)) is None:
            return {"credited": 0}
        report = yield from step.run_or(
            credit_outcome(step, _recalled_run(step), success=judged), None
        )
        return {"credited": 0 if report is None else report.credited}

    return runtime.NodeConfig(context, coordinator, name, on_error).node(outcome)


def create_promotion_node(
    *,
    policy: settings.PromotionSettings | None = None,
    model: BaseChatModel | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "promotion",
) -> Runnable[Any, Update]:
    """Create a node that promotes proven memories, and demotes those that have failed since.

    It looks at the whole tenant. It writes the state keys `promoted` and `demoted`, each a list of
    the moves that were made, as JSON; `learning.rollback` takes the `move` of each.

    Args:
        policy: The evidence that a promotion needs; the coordinator's own if not given.
        model: A chat model that generalises promoted memories; without one rules do.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context, coordinator, name: Options of every node; see `create_recall_node`.
    """
    promotion_policy.promotion_policy(policy)  # refuses an invalid one
    runtime.check_helpers(model)

    def promote(step: Step) -> Flow[Update]:
        demoted = yield from step.run_or(invoke(step.memory.learning.demote, policy=policy), [])
        promoting = invoke(step.memory.learning.promote, policy=policy, model=model)
        promoted = yield from step.run_or(promoting, [])
        return {
            "promoted": [
                {
                    "key": move.key,
                    "successor": move.successor,
                    "move": move.move,
                    "reason": move.reason,
                }
                for move in promoted
                if move.promoted
            ],
            "demoted": [{"key": move.key, "move": move.move} for move in demoted if move.demoted],
        }

    return runtime.NodeConfig(context, coordinator, name, on_error).node(promote)


def create_evolution_node(
    *,
    interaction: MappingSource,
    success_metrics: MappingSource,
    judged: Success | None = None,
    threshold: float = WORTH_REMEMBERING,
    extract_entities: Entities | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "evolution",
) -> Runnable[Any, Update]:
    """Create a node that stores an interaction that succeeded and is important enough.

    It writes the state key `evolved`: a mapping of `stored`, `key` and `reason`. A retry of the
    node stores nothing twice.

    Args:
        interaction: The interaction, as `learning.evolve` takes it: a key of the state, or a
            function of it.
        success_metrics: Its metrics; likewise.
        judged: True if it succeeded; likewise. With False or None it is not stored. Without this
            option the metrics alone decide.
        threshold: The importance from which on it is stored, from 0 to 1.
        extract_entities: A function that finds people and things in texts; see `learning.evolve`.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context, coordinator, name: Options of every node; see `create_recall_node`.
    """
    inputs = {"interaction": interaction, "success_metrics": success_metrics}
    runtime.check_state_sources(inputs, **inputs, judged=judged)
    checks.checked_share(threshold, "threshold")
    runtime.check_helpers(extract_entities=extract_entities)

    def evolve(step: Step) -> Flow[Update]:
        result = _NOT_JUDGED
        if judged is None or read_success(step.state, judged):
            happened, metrics = (
                runtime.read_state(step.state, source) for source in inputs.values()
            )
            options: Any = {"threshold": threshold, "extract_entities": extract_entities}
            evolving = invoke(step.memory.learning.evolve, happened, metrics, **options)
            result = yield from step.run_or(evolving, _MEMORY_FAILED)
        return {"evolved": {"stored": result.stored, "key": result.key, "reason": result.reason}}

    return runtime.NodeConfig(context, coordinator, name, on_error).node(evolve)


def create_skill_node(
    success: Success,
    *,
    min_support: int = skills.MIN_SUPPORT,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "skills",
) -> Runnable[Any, Update]:
    """Create a node that stores the tool calls of a run, and proposes recurring ones as a skill.

    It looks at the calls since the last human message, and belongs at the end of a run, after a
    loop of attempts: each pass counts as a run, a retry does not. It writes the state key `skills`,
    the keys of the skills whose evidence changed. See `learning.learn_skills`.

    Args:
        success: True if the run succeeded: a key of the state, or a function of it. While it is
            None, and if no tool was called, nothing is stored.
        min_support: Runs that a sequence of calls has to succeed in.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log and the
            stream; `raise` leaves it to the graph and its retry policy.
        context, coordinator, name: Options of every node; see `create_recall_node`.
    """
    runtime.check_state_sources(["success"], success=success)
    skills.skill_candidates((), min_support=min_support)  # refuses an invalid number

    def learn(step: Step) -> Flow[Update]:
        if (trace := _tool_trace(step, success)) is None:
            return {"skills": []}
        learning = invoke(step.memory.learning.learn_skills, trace, min_support=min_support)
        results = yield from step.run_or(learning, [])
        return {"skills": [result.key for result in results if result.stored]}

    return runtime.NodeConfig(context, coordinator, name, on_error).node(learn)


def _call_attempts(state: Any, attempts: AttemptFinder) -> list[FailedAttempt]:
    """Return the failed attempts that a function of the caller's finds."""
    returned: Any = attempts(state)
    failures = (
        [returned] if isinstance(returned, FailedAttempt) else () if returned is None else returned
    )
    return list(checks.checked_list(failures, "what attempts returned", "failed attempts"))


def _find_failures(step: Step, failed: FailureTest | None, *, every: bool) -> list[FailedAttempt]:
    """Return the error of a node, and the failed calls: `every` one, or those with a cure."""
    caught = (step.config.get("configurable") or {}).get(_NODE_ERROR_KEY)
    conversation = messages.mark_failures(step.messages, failed)
    failures = [
        attempt
        for attempt in messages.failed_attempts(conversation)
        if every or attempt.succeeded_with is not None
    ]
    if caught is None:
        return failures
    of_node = FailedAttempt(
        task_id=messages.task_of(conversation),
        approach=f"ran the node {caught.node}",
        error=values.replace_unstorable(f"{type(caught.error).__name__}: {caught.error}"),
        tool=caught.node,
    )
    return [of_node, *failures]


def read_success(state: Any, success: Success) -> bool | None:
    """Return True if a run succeeded, as its state says; None if that is not known.

    Raises:
        InvalidInputError: for a state without that key, or a value of another type.
    """
    judged = runtime.read_state(state, success)
    if judged is not None and not isinstance(judged, bool):
        raise errors.InvalidTypeError(
            f"whether the run succeeded is True, False or None, not {errors.short(judged)}"
        )
    return judged


def _recalled_run(step: Step) -> str:
    """Return the run that the recall node noted."""
    run = step.read("recalled_run")
    if not run:
        raise errors.InvalidInputError(
            "the graph's state has no 'recalled_run': put the recall node before this one, and "
            "add the key to the state (MemoryState has it)"
        )
    return str(run)


def _tool_trace(step: Step, success: Success) -> skills.Trace | None:
    """Return the tool calls of the run; None if it made none, or its success is not known."""
    judged, conversation = read_success(step.state, success), step.messages
    calls = [
        skills.ToolCall(
            call.tool, frozenset(map(values.replace_unstorable, call.call["args"])), not call.failed
        )
        for call in messages.turn_calls(conversation)
        if call.tool is not None
    ]
    return None if judged is None or not calls else skills.Trace(step.run.id, calls, judged)


# An agent learns at the end of its turn: from failures, and later by a model's lessons


def credit_outcome(step: Step, run_id: str, *, success: bool) -> Flow[OutcomeReport]:
    """Credit the memories that a run was shown with its outcome."""
    options: Any = {"run_id": run_id, "success": success, **messages.outcome_texts(step.messages)}
    return invoke(step.memory.learning.record_outcome, **options)


def learn_from_turn(
    step: Step,
    ran: messages.DidRun,
    model: BaseChatModel | None,
    failed: FailureTest | None,
    *,
    judged: bool | None,
) -> Flow[list[dict[str, Any]]]:
    """Store the evidence of a turn; a model, if one is named, draws the lessons later.

    It returns the results since the last report: the model's lessons come in a later turn, and so
    does its error.
    """
    memory, conversation = step.memory, messages.mark_failures(step.messages, failed)
    attempts = messages.failed_attempts(conversation, ran)
    if model is None:
        kept = [attempt for attempt in attempts if attempt.succeeded_with is not None]
        learned: Sequence[StoreResult] = yield from invoke(memory.learning.reflect, kept)
    else:
        earlier = conversation[: len(conversation) - len(runtime.turn_messages(conversation))]
        answers = (
            runtime.text_of(message)
            for message in reversed(earlier)
            if isinstance(message, AIMessage)
        )
        question = values.replace_unstorable(runtime.text_of(runtime.last_question(conversation)))
        experience = Experience(
            attempts=attempts,
            asked=memory.tiered_store.options.bounds.truncate_query(question),
            answered=messages.outcome_texts(conversation).get("answer", ""),
            before=values.replace_unstorable(next(filter(None, answers), "")),
            failed=judged is False,
            trust=(yield from trust_in_run(conversation, memory.gate, step.config)),
        )
        if experience.teaches:
            begin_reflection(memory, experience, model)
        learned = take_learned(memory)
    return [
        {"key": result.key, "quarantined": result.quarantined, "reason": result.reason}
        for result in learned
    ]


HELD_BY_LESSONS: Final = "lessons"
"""Mark of an answer in place of a call that lessons held."""


class ToolLessons:
    """Wrapper of a `ToolNode` that puts lessons before its errors, and may hold repeated calls.

    A `ToolNode` is given its two methods, not the object itself: one for `invoke` and one for
    `ainvoke`.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers import ToolLessons

        lessons = ToolLessons()
        node = ToolNode(
            tools,
            wrap_tool_call=lessons.wrap_tool_call,
            awrap_tool_call=lessons.awrap_tool_call,
        )
        ```
    """

    runner = runtime.DRIVER

    def __init__(
        self,
        *,
        hold_repeats: bool = False,
        with_errors: bool = True,
        lessons: int = DEFAULT_LESSONS,
        holdout: float | None = None,
        context: Scope | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
        run: Callable[[ToolCallRequest], str | Run | None] | None = None,
    ) -> None:
        """Set up the wrapper.

        Args:
            hold_repeats: Answer a call in exactly the form that failed in a lesson with that
                lesson, and do not run it. This happens once for each call, so that the model can
                think again; not for a failure that passes by itself. The same call after that runs,
                as does one that has worked in the thread. If it works, that lesson holds it no
                more, in any thread. No call is held if the state has no `messages`, which tell
                the calls held before, or if the tool's answer is returned directly.
            with_errors: Put the lessons of a failure before the error that the tool reports.
            lessons: Lessons at most for one call.
            holdout: The share of lessons that a run goes without; see `get_context`. A call
                without a run gets them all.
            context: Whose memory it is, a `MemoryContext` or a mapping with some of its fields:
                `{name}` in a field stands for `config["configurable"]["name"]`.
            coordinator: A function that makes the coordinator from a store and `context`.
            run: A function of a request that returns the run which a lesson is shown to; by
                default the run that the recall node noted in the state.
        """
        checks.checked_flag(hold_repeats, "hold_repeats")
        checks.checked_flag(with_errors, "with_errors")
        check_lessons(lessons, holdout)
        runtime.check_helpers(run=run)
        self._config = runtime.NodeConfig(context, coordinator)
        self._hold_repeats, self._with_errors = hold_repeats and lessons > 0, with_errors
        self._lessons, self._holdout = lessons, holdout
        self._run = run or (lambda request: runtime.read_state(request.state, "recalled_run", None))

    def _note_started(self, request: ToolCallRequest, ran: str) -> None:
        """Note the digest of a call whose tool has run, also if it failed."""

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[ToolAnswer]:
        """Run a tool call, with its lessons."""
        before = _earlier_calls(request) if self._hold_repeats else []
        if self._hold_repeats and _may_be_held(request, before):
            call = request.tool_call
            same = {"tools": call["name"], "approach": text_of_call(call)}
            if lessons := (yield from self._find_lessons(request, **same)):
                text = prompts.BEFORE_THE_CALL.format(lessons=recalled_text((), lessons))
                return _hold_call(request, text, HELD_BY_LESSONS)
        answer = yield from run_tool_call(handler, request, partial(self._note_started, request))
        if not isinstance(answer, ToolMessage) or RAN_KEY not in answer.additional_kwargs:
            return answer  # a person or a guard answered it
        if answer.status != "error":
            if before and before[-1].answer.additional_kwargs.get(HELD_KEY) == HELD_BY_LESSONS:
                step, call = self._config.step(request.state, request.runtime), request.tool_call
                with step.tolerate("lessons of a tool call"):  # the lessons hold it no more
                    yield from invoke(
                        step.memory.learning.allow, text_of_call(call), tool=call["name"]
                    )
            return answer
        if not self._with_errors:
            return answer
        tool = messages.tool_of(request.tool_call)
        failure = signature(runtime.text_of(answer), tool=tool)
        return messages.prepend_lessons(
            answer, (yield from self._find_lessons(request, failures=failure))
        )

    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)

    def _find_lessons(
        self, request: ToolCallRequest, **concern: Any
    ) -> Flow[Sequence[Recollection]]:
        """Find the lessons of a call; where memory fails, the call runs without them."""
        step, run = self._config.step(request.state, request.runtime), self._run(request)
        shown_to: dict[str, Any] = {} if run is None else {"run_id": run, "holdout": self._holdout}
        concern |= {"limit": self._lessons, **shown_to}
        with step.tolerate("lessons of a tool call"):
            return (yield from invoke(step.memory.learning.get_lessons, **concern))
        return ()


def _earlier_calls(request: ToolCallRequest) -> list[messages.AnsweredCall]:
    """Return the earlier calls of the thread that equal this one."""
    approach = text_of_call(request.tool_call)
    answered = messages.answered_calls(runtime.messages_of(request.state))
    return [call for call in answered if call.approach == approach]


def _may_be_held(request: ToolCallRequest, before: Sequence[messages.AnsweredCall]) -> bool:
    """Tell whether a model will see the lesson, and the state shows that the call was never held.

    A call that has worked in the thread is no mistake any more.
    """
    tool = messages.tool_of(request.tool_call)
    if tool is None or getattr(request.tool, "return_direct", False):
        return False
    return bool(runtime.messages_of(request.state)) and all(
        call.failed and not call.held for call in before
    )


def _hold_call(request: ToolCallRequest, text: str, holder: str) -> ToolMessage:
    """Answer a call that is not run."""
    call = request.tool_call
    return ToolMessage(
        text,
        name=call["name"],
        tool_call_id=call["id"],
        status="error",
        additional_kwargs={HELD_KEY: holder},
    )


class ToolReminders:
    """Wrapper of a `ToolNode` that answers a call with its reminders, once, in place of running it.

    The model then thinks again. The same call after that runs, as each reminder is raised at most
    once. A call that is repeated after a crash is held again. If a tool's answer is returned
    directly, no model would see it, and nothing is raised.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers import ToolLessons, ToolReminders

        lessons, reminders = ToolLessons(), ToolReminders()
        node = ToolNode(
            tools,
            wrap_tool_call=lambda request, run: reminders.wrap_tool_call(
                request, lambda held: lessons.wrap_tool_call(held, run)
            ),
        )
        ```
    """

    runner = runtime.DRIVER

    def __init__(
        self,
        *,
        context: Scope | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    ) -> None:
        """Set up the wrapper.

        Args:
            context: Whose memory it is, a `MemoryContext` or a mapping with some of its fields:
                `{name}` in a field stands for `config["configurable"]["name"]`.
            coordinator: A function that makes the coordinator from a store and `context`.
        """
        self._config = runtime.NodeConfig(context, coordinator)

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[ToolAnswer]:
        """Run a tool call, unless a reminder holds it."""
        held = yield from hold_for_reminder(
            request, self._config.step(request.state, request.runtime)
        )
        return held or (yield from run_tool_call(handler, request))

    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)


def hold_for_reminder(request: ToolCallRequest, step: Step) -> Flow[ToolMessage | None]:
    """Return the answer to a tool call that a reminder holds; None if there is no reminder.

    Where memory fails, the call runs without one.
    """
    call: Any = request.tool_call
    if getattr(request.tool, "return_direct", False):
        return None
    run = str(uuid5(NAMESPACE_OID, f"{step.run.id} {call['id']}"))
    with step.tolerate("reminders of a tool call"):
        raised = yield from invoke(step.memory.reminders.due, tool=call, kinds=["tool"], run_id=run)
        if raised:
            text = prompts.REMINDED_BEFORE_THE_CALL.format(
                reminders=reminders_text(raised, zone=step.memory.context.zone)
            )
            return _hold_call(request, text, "reminders")
    return None
