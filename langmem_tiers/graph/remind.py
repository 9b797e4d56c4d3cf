"""A node that raises what was intended, without being asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import Runnable

from langmem_tiers.core import checks, handles, prompts, values, zones
from langmem_tiers.graph import node
from langmem_tiers.graph.messages import about_to_run
from langmem_tiers.graph.node import OfState, OnError, Scope, Step, Update, asked, of_state
from langmem_tiers.memory.asking import checked_limit
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.fence import indented, labelled, long_day, quoted, recalled_text
from langmem_tiers.remind import intentions
from langmem_tiers.remind.intentions import DEFAULT_REMINDERS, Intention, Predicates, Reminder
from langmem_tiers.remind.triggers import At, latest_of

LEASE_SECONDS: Final = 300.0
"""Seconds after which what no model saw is due again, longer than its call: our own choice."""


def create_reminder_node(
    *,
    query: OfState | None = None,
    predicates: Predicates | None = None,
    limit: int = DEFAULT_REMINDERS,
    at_start: int = DEFAULT_REMINDERS,
    as_message: bool = False,
    lease_seconds: float | None = LEASE_SECONDS,
    judge: BaseChatModel | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "remind",
) -> Runnable[Any, Update]:
    """A node that raises the intentions that are due, for `invoke` and `ainvoke`.

    Due are those whose time has come, whose cue the question shows, whose tool the last message
    calls, and whose predicate holds of the state. Each is leased to the run: a retry of the node,
    and a run that is resumed, are given the same ones again. Delivered they are once the model has
    answered, as `create_acknowledge_node` says behind it; else they are due again when the lease
    has run out. It writes `reminders`, as JSON, and `reminders_text`, a text for a prompt, or
    nothing. At a session's start, when the state has no `reminders` yet, it also writes
    `intentions`: what else is open, by priority; nothing is raised by that, and the text does not
    say it. A state without the key `reminders` would lose what is leased: a run is refused there,
    with a `ConfigurationError`, unless `lease_seconds` is None.

    Args:
        query: The question: a key of the state, or a function of the state. If not given, it is
            what the last human message says.
        predicates: The functions of the state by the names that intentions know them by.
        limit: Reminders at most.
        at_start: Open intentions at most that are listed at a session's start; 0 for none.
        as_message: Add the text to `messages` as well, as a system message.
        lease_seconds: After how many seconds what no model answered is due again; None delivers at
            once, so that a model that fails has used it up.
        judge: A chat model that says which cues the question shows; see `MemoryCoordinator.remind`.
        on_error: As for the recall node.
        context, coordinator, name: Those of every node; see `create_recall_node`.

    Raises:
        InvalidInputError: for an option that cannot be.

    Example:
        ```python
        from langgraph.graph import StateGraph
        from langmem_tiers import MemoryContext, create_reminder_node

        builder = StateGraph(State, context_schema=MemoryContext)
        builder.add_node("remind", create_reminder_node())
        builder.set_entry_point("remind")
        graph = builder.compile(store=store)
        ```
    """
    asking = Reminding(query, predicates, limit, at_start, as_message, lease_seconds, judge)
    body = partial(_reminded, asking=asking)
    return node.node(name, body, context, coordinator, on_error=on_error)


def _reminded(step: Step, *, asking: Reminding) -> Flow[Update]:
    """Raise what is due; where that fails, show nothing, also not what was raised before.

    So nobody acknowledges a reminder that was not shown.
    """
    with step.without("remind"):
        return (yield from remind(step, asking))
    return {**nothing_due(step), **step.errors(known=True)}


def nothing_due(step: Step) -> Update:
    """What the state is to hold where nothing could be raised."""
    nothing: Update = {"reminders_text": ""}
    return nothing if step.read("reminders") is None else {**nothing, "reminders": []}


def create_acknowledge_node(
    *,
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "acknowledge",
) -> Runnable[Any, Update]:
    """A node that says that the model has answered: what it was reminded of is raised no more.

    It stands after the model, which was shown the state's `reminders`, and writes nothing to the
    state. To be passed again does no harm, and writes nothing. Where Postgres refuses, that is
    logged, and what was leased is raised once more. In a graph whose state lacks that key a run is
    refused, with a `ConfigurationError`.

    Args:
        context, coordinator, name: Those of every node; see `create_recall_node`.
    """
    return node.node(name, _acknowledge, context, coordinator, keys=("reminders",))


@dataclass(frozen=True, slots=True)
class Reminding:
    """What a node asks of a state, checked when it is made."""

    query: OfState | None = None
    predicates: Predicates | None = None
    limit: int = DEFAULT_REMINDERS
    at_start: int = DEFAULT_REMINDERS
    as_message: bool = False
    lease_seconds: float | None = LEASE_SECONDS
    judge: BaseChatModel | None = None

    def __post_init__(self) -> None:
        """Refuse what could only fail in a run."""
        node.checked_of_state(query=self.query)
        for named, predicate in intentions.checked_predicates(self.predicates).items():
            checks.checked_function(predicate, f"the predicate {named!r}")
        checked_limit(self.limit)
        checked_limit(self.at_start)
        intentions.checked_seconds(self.lease_seconds)
        node.checked_helpers(self.judge)
        checks.checked_flag(self.as_message, "as_message")

    def question(self, step: Step) -> str | None:
        """What cues are looked for in."""
        if self.query is None:
            return values.storable(node.text_of(node.last_question(step.messages))) or None
        given = of_state(step.state, self.query)
        return None if given is None else str(given)


def remind(step: Step, asking: Reminding) -> Flow[Update]:
    """Raise what is due, and at a session's start list what else is open."""
    if asking.lease_seconds is not None:
        node.check_keys(step.config, "reminders")
    memory, before = step.memory, step.read("reminders")
    answers = [one for one in step.messages if isinstance(one, AIMessage)]
    # A model's last message is known by its id, else by how many there are.
    answer = (answers[-1].id if answers else None) or len(answers)
    yield from _delivered(step, [one for one in before or () if _newer(answer, one.get("after"))])
    raised = yield from asked(
        memory.remind,
        asking.question(step),
        tool=about_to_run(step.messages) or None,
        state=None if asking.predicates is None else step.state,
        predicates=asking.predicates,
        limit=asking.limit,
        lease_seconds=asking.lease_seconds,
        run_id=step.run,
        judge=asking.judge,
    )
    text = reminders_text(raised, zone=memory.context.zone, now=memory.now)
    told = [{**intentions.facts(one), "after": answer} for one in raised]
    update: Update = {"reminders": told, "reminders_text": text}
    if before is None:
        listed = (yield from asked(memory.intentions)) if asking.at_start else []
        keys = {(one.namespace, one.key) for one in raised}
        others = [one for one in listed if (one.namespace, one.key) not in keys]
        update["intentions"] = [
            {"key": one.key, "content": one.content, "priority": str(one.priority)}
            for one in others[: asking.at_start]
        ]
    if asking.as_message and text:
        update["messages"] = [SystemMessage(text, id=str(uuid5(NAMESPACE_OID, step.run.id)))]
    return update


def _acknowledge(step: Step) -> Flow[Update]:
    """Say that what the state holds was seen."""
    yield from _delivered(step, step.read("reminders") or ())
    return {}


def _delivered(step: Step, told: Sequence[Mapping[str, Any]]) -> Flow[None]:
    """Say that a model has seen what it was told: no answer is lost where that is refused."""
    with node.GOING_ON("acknowledge", None):
        yield from asked(step.memory.acknowledge, *[one["token"] for one in told])


def _newer(answer: str | int, before: str | int | None) -> bool:
    """Whether a model has answered since; messages that are trimmed are no answer."""
    if isinstance(answer, int) and isinstance(before, int):
        return answer > before
    return bool(answer) and before is not None and answer != before


def reminders_text(
    reminders: Sequence[Reminder], *, zone: tzinfo = UTC, now: datetime | None = None
) -> str:
    """Write reminders as one text for a prompt, a line each; nothing if there are none.

    Times are told in the zone; of what recurs, with `now`, the latest that has come.

    Example:
        ```python
        from langmem_tiers.graph.remind import reminders_text

        prompt = reminders_text(memory.remind("Anna asked about the budget"))
        ```
    """
    return recalled_text((), reminders=[reminder_line(one, zone, now) for one in reminders])


def reminder_line(
    one: Reminder | Intention, zone: tzinfo = UTC, now: datetime | None = None
) -> str:
    """Write a reminder as a line of a prompt: its handle, what is to be done, when, how urgent."""
    usual = one.priority is intentions.Priority.MEDIUM
    told = [*_when(one, zone, now)]
    told += [] if usual else [prompts.REMINDERS_PRIORITY.format(priority=one.priority)]
    return prompts.REMINDERS_ONE.format(
        handle=f"{handles.bracketed(handles.handle_of(one.namespace, one.key))} ",
        content=indented(quoted(one.content)),
        why=prompts.REMINDERS_WHY.format(why="; ".join(told)) if told else "",
    )


def _when(one: Reminder | Intention, zone: tzinfo, now: datetime | None) -> Iterator[str]:
    """Tell when, or why, a reminder is raised; nothing of one that waits for no moment."""
    trigger = one.trigger
    if not isinstance(trigger, At):
        yield labelled(quoted(str(trigger)))
    elif trigger.moment is not None:
        due_at = one.due_at if now is None else latest_of(trigger, one.due_at, now)
        there = due_at.astimezone(zones.zone_of(trigger.timezone) if trigger.every else zone)
        yield f"{long_day(there.date())}, {there:%H:%M}"
        if trigger.every:
            yield f"repeats {trigger.every}"
