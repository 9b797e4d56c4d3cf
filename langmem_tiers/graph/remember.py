"""Remember messages: a node for a `StateGraph`, and the steps of an agent's middleware."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import Runnable

from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.reminders import mark_reminding
from langmem_tiers.coordinator.truth import Revision
from langmem_tiers.core import errors, prompts, types, values
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.graph import runtime, speakers
from langmem_tiers.graph.runtime import OnError, Scope, Step, Update, invoke
from langmem_tiers.graph.speakers import HEARD_KEY, FinalAnswer, Speakers
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.question import REMINDER_SET

_log = logging.getLogger(__name__)

ToolChanges: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""Changes that a model made in a turn by its memory tools, by kind; see `tool_changes`."""
_SHORT_LENGTH: Final = 500
"""Characters up to which a memory stands beside its correction; our own choice."""


def create_remember_node(
    *,
    judge: BaseChatModel | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "remember",
) -> Runnable[Any, Update]:
    """Create a node that stores the user's and the assistant's words, for `invoke` and `ainvoke`.

    It stands behind the model, and does what `TieredMemoryMiddleware` does when the agent is done.
    The human messages since the last answer and, if it is the last message, the assistant's answer
    become `episodic` memories of the session with their speakers: the message's `name`, else
    `user`. In a graph within a graph a human message may be an agent's; docs/agents.md says when.
    A second such node, before the model, keeps messages that a graph removes. A message of more
    than 20,000 characters keeps both its ends. An answer that repeats memories of the state's
    `recalled` is no evidence for them. A retry of the node, and a run that is repeated, store
    nothing twice. It writes the state keys `remembered`, the keys of the memories, with a judge
    `revised`, and `memory_errors` if that fails.

    Args:
        judge: A chat model that finds the memories which the human's message takes back ("forget
            that"): they are retracted; and those which it corrects ("no, 15"): they are superseded.
            It costs one request each, for agents that have no tools for it; docs/truth.md says
            when. Without a judge nothing is taken back.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log, the stream
            and `memory_errors`; `raise` leaves it to the graph and its retry policy.
        context, coordinator, name: Options of every node; see `create_recall_node`.

    Example:
        ```python
        from langgraph.graph import StateGraph
        from langmem_tiers import MemoryContext, MemoryState, create_remember_node

        builder = StateGraph(MemoryState, context_schema=MemoryContext)
        builder.add_sequence([("model", model), ("remember", create_remember_node())])
        builder.set_entry_point("model")
        graph = builder.compile(store=store)
        ```

    Raises:
        InvalidInputError: for a judge that is no chat model.
    """
    runtime.check_helpers(judge)
    body = partial(_remember, judge=judge)
    return runtime.NodeConfig(context, coordinator, name, on_error).node(body)


def _remember(step: Step, *, judge: BaseChatModel | None) -> Flow[Update]:
    done = RememberResult([], [], step.failures)
    with step.tolerate("remember"):
        people = yield from speakers.speakers_in(step.config, step.memory.gate)
        humans, answer = (
            speakers.unanswered_messages(step.messages),
            speakers.plain_answer(step.messages),
        )
        recalled = step.read("recalled") or ()
        done = yield from remember(step, people, humans, answer, recalled, judge=judge)
    written: Update = {"remembered": [result.key for result in done.results if result.stored]}
    if judge is not None:
        written["revised"] = done.revised
    before = step.read("memory_errors") or {}
    others = {task: error for task, error in before.items() if task not in ("judge", "remember")}
    if judge is not None or {**others, **done.errors} != before:
        written["memory_errors"] = {**others, **done.errors}
    return written


class RememberResult(NamedTuple):
    """Memories that messages and their answer became."""

    results: list[StoreResult]
    revised: list[dict[str, Any]]
    """Memories that a message took back (`retracted`) or corrected (`superseded`): the key of each,
    and the move, which `learning.rollback` undoes."""
    errors: dict[str, str]
    """Error of the judge, if it failed."""


def remember(
    step: Step,
    people: Speakers,
    humans: Sequence[BaseMessage],
    answer: FinalAnswer | None,
    recalled: Sequence[object],
    *,
    judge: BaseChatModel | None = None,
    left: Sequence[dict[str, Any]] | None = None,
    done: ToolChanges = MappingProxyType({}),
) -> Flow[RememberResult]:
    """Store the messages to an agent, and its answer.

    The agent was shown `recalled` only after people spoke, so an answer that repeats it is no
    evidence. A memory that the judge says the last message takes back is retracted first. If that
    message says nothing else, it and its answer are derived from that memory, and so are not
    recalled either; nor is the answer to a message that the model itself took back.

    Args:
        step, people: The step of the run, and the speakers of its messages.
        humans, answer: The messages to the agent since its last answer, and its answer, if any.
        recalled: The memories that the agent was shown.
        judge: A model that finds the memories which the last message takes back or corrects.
        left: The notes that are not stored yet; None if none of these messages is stored.
        done: The changes that the agent's model made by its memory tools.
    """
    memory, last, revision = step.memory, humans[-1] if humans else None, Revision()
    question = last if last is not None and people.is_person(last) else None
    if judge is not None and question is not None:
        revision = yield from _find_revision(step, people, question, judge)
    before = [
        note
        for human in humans
        if human != question and (note := message_note(step, human, people))
    ]
    last_note = None if question is None else message_note(step, question, people)
    answer_note = yield from _answer_note(step, people, answer, recalled)
    corrections = _add_corrected(last_note, revision) if last_note and revision.corrects else []
    of_answer: dict[str, Any] = {}
    taken_back = (each.get("retracted") for each in done.get("revised", ()))
    if revision.retracted and not revision.tells_more:
        of_answer["derived_from"] = [each.key for each in revision.retracted]
        last_note = last_note and {**last_note, **of_answer}
    elif last_note and last_note["key"] in taken_back:
        of_answer["derived_from"] = [last_note["key"]]
    if reminds := "set" in [change["action"] for change in done.get("reminded", ())]:
        of_answer["further"] = {REMINDER_SET: True}
    notes = _unstored_notes([*before, last_note] if last_note else before, left)
    notes += [{**answer_note, **of_answer}] if answer_note else []
    results = (yield from invoke(memory.store_many, notes)) if notes else []
    if reminds and last_note:
        with suppress(errors.InvalidInputError):  # it is not stored
            marking = mark_reminding(memory, str(last_note["key"]))
            yield from invoke(memory.tiered_store.run, marking)
    revised = [{"retracted": each.key, "move": each.move} for each in revision.retracted]
    failed = {} if revision.failed is None else {"judge": revision.failed}
    if last_note and corrections:
        key = last_note["key"]
        revised += yield from _supersede_corrected(memory, corrections, key, results, failed)
    return RememberResult(results, revised, failed)


def _answer_note(
    step: Step, people: Speakers, answer: FinalAnswer | None, recalled: Sequence[object]
) -> Flow[dict[str, Any] | None]:
    """Return the options of `store` for the answer; None if it has no text.

    It is trusted no further than the answers of the tools before it.
    """
    if answer is None or not (text := values.replace_unstorable(answer.text)):
        return None
    trust = yield from speakers.trust_in_run(answer.heard, step.memory.gate, step.config, people)
    note = speakers.session_note(
        text, step.memory, speakers.message_key(answer.message, step.config)
    )
    return {"speaker": "assistant", "source": "agent", "recalled": recalled, "trust": trust, **note}


def _unstored_notes(
    notes: Sequence[dict[str, Any]], left: Sequence[dict[str, Any]] | None
) -> list[dict[str, Any]]:
    """Return the notes of messages without those that are stored already."""
    if left is None:
        return [*notes]
    keys, pending_keys = [note["key"] for note in notes], [note["key"] for note in left]
    others = [note for note in left if note["key"] not in keys]
    return [*others, *[note for note in notes if note["key"] in pending_keys]]


def _supersede_corrected(
    memory: MemoryCoordinator,
    keys: Sequence[str],
    by: str,
    results: Sequence[StoreResult],
    failed: dict[str, str],
) -> Flow[list[dict[str, Any]]]:
    """Supersede the memories that a stored message corrects; `failed` gets those not current."""
    revised = []
    current = [result.key for result in results if result.stored and not result.quarantined]
    for key in keys if by in current else ():
        try:
            move = yield from invoke(memory.truth.supersede, key, by=by)
        except errors.InvalidInputError as error:
            failed["judge"] = f"{type(error).__name__}: {error}"
            _log.warning("what the user corrected is not superseded: %s", error)
        else:
            revised.append({"superseded": key, "move": move})
    return revised


def _find_revision(
    step: Step, people: Speakers, question: BaseMessage, judge: BaseChatModel
) -> Flow[Revision]:
    """Ask the judge which memories the last message takes back or corrects."""
    if not (text := values.replace_unstorable(runtime.text_of(question))):
        return Revision()
    name, key = people.options(question)["speaker"], speakers.message_key(question, step.config)
    speaker = None if name == "user" else name
    return (
        yield from invoke(step.memory.truth.revise, text, judge=judge, key=key, speaker=speaker)
    )


def _add_corrected(note: dict[str, Any], revision: Revision) -> list[str]:
    """Add the memories that a message corrects to its note, unless long; return their keys."""
    keys = []
    for corrected in revision.corrects:
        if corrected.memory_type != types.PROSPECTIVE and len(corrected.content) <= _SHORT_LENGTH:
            note["content"] = prompts.CORRECTED.format(
                said=note["content"], earlier=corrected.content
            )
            keys.append(corrected.key)
    return keys


def message_note(step: Step, message: BaseMessage, people: Speakers) -> dict[str, Any] | None:
    """Return the options of `store` for a human message; None if it has no text."""
    if not (text := values.replace_unstorable(runtime.text_of(message))):
        return None
    key = speakers.message_key(message, step.config, people)
    return {**people.options(message), **speakers.session_note(text, step.memory, key)}


# An agent's middleware notes its turn, and stores the messages before the answer


class PendingMessage(TypedDict):
    """Message that is still to be stored."""

    note: dict[str, Any]
    """Options of `store`."""
    whose: dict[str, Any]
    """Fields of the context that it was said in."""
    at: str
    """Time at which it was said, as ISO 8601."""


class HeardTurn(TypedDict):
    """Messages that an agent heard in its turn."""

    said: list[str]
    """Ids of the messages given to its runs since its last answer."""
    others: list[str]
    """Ids of the other human messages: a tool, say, put them there, or they are answered."""
    left: list[PendingMessage]
    """Messages that are not stored yet."""
    whose: dict[str, Any]
    """Fields of the context that the turn began in: another user may go on with its run."""
    at: str
    """Time at which the turn's messages came, as ISO 8601."""


def hear_turn(step: Step, *, keep: bool) -> Flow[Update]:
    """Note a run's new messages in the state, before anybody can drop them.

    Without `keep` it notes their ids alone, by which later messages are told from them.
    """
    memory = step.memory
    people = yield from speakers.speakers_in(step.config, memory.gate)
    fields, at = asdict(memory.context), memory.now.isoformat()
    before: HeardTurn | None = step.read(HEARD_KEY)
    heard = before or HeardTurn(said=[], others=[], left=[], whose=fields, at=at)
    spoken, others, left = heard["said"], [*heard["others"]], [*heard["left"]]
    if heard["whose"] != fields:  # messages of another user
        spoken, others = [], [*others, *spoken]
    own_ids, is_new = list[str](), False
    for message in speakers.unanswered_messages(step.messages):
        name = str(message.id)
        if keep and people.person_ids is not None and name not in (*heard["said"], *others):
            key = speakers.message_key(message, step.config, people)
            if (yield from invoke(memory.get, key)) is not None:  # another agent has stored it
                others.append(name)
        if name not in others:
            own_ids.append(name)
        if name not in (*others, *spoken):
            is_new = True
            if keep and (note := message_note(step, message, people)):
                left.append(PendingMessage(note=note, whose=fields, at=at))
    present = {str(message.id) for message in step.messages}
    return {
        HEARD_KEY: HeardTurn(
            # A run without new messages goes on with those before.
            said=own_ids if is_new else spoken,
            others=[message_id for message_id in others if message_id in present],
            left=left if keep else [],
            whose=fields,
            at=at,
        )
    }


def store_pending(step: Step) -> Flow[Update]:
    """Store the turn's pending messages, after the recall for them and before their answer.

    Stored sooner, a message and its words would count in its own recall. Each goes to the memory
    of the context that it was said in. A message that cannot be stored stays pending, unless it is
    too large for the store.
    """
    heard: HeardTurn | None = step.read(HEARD_KEY)
    if not heard or not heard["left"]:
        return {}
    update: Update = {}
    with step.tolerate("remember"):
        left: list[PendingMessage] = []
        failed: list[errors.TieredMemoryError] = []
        own = asdict(step.memory.context)
        for fields, group in groupby(heard["left"], key=itemgetter("whose")):
            memory = step.memory
            if fields != own:
                memory = step.node.memory(step.runtime, MemoryContext(**fields))
            waiting = [[*group]]
            while waiting:
                batch = waiting.pop(0)
                notes = [  # a message of an earlier turn happened then
                    message["note"]
                    if _is_of_turn(message, heard)
                    else {**message["note"], "occurred_at": message["at"]}
                    for message in batch
                ]
                try:
                    yield from invoke(memory.store_many, notes)
                except errors.TieredMemoryError as error:
                    if len(batch) > 1 and not isinstance(error, errors.DatabaseError):
                        waiting = [[message] for message in batch]
                        continue
                    left += [] if error.code == "too_large" else batch
                    failed.append(error)
        update = {HEARD_KEY: HeardTurn(**{**heard, "left": left})}
        if failed:
            raise failed[0]
    return update


def _is_of_turn(left: PendingMessage, heard: HeardTurn) -> bool:
    """Tell whether a pending message was said in the turn."""
    return (left["at"], left["whose"]) == (heard["at"], heard["whose"])


def tool_changes(messages: Sequence[BaseMessage]) -> dict[str, list[dict[str, Any]]]:
    """Return the changes that a model made by its memory tools in the last turn of the messages."""
    done: dict[str, list[dict[str, Any]]] = {"revised": [], "reminded": [], "learned": []}
    for message in runtime.turn_messages(messages):
        if isinstance(message, ToolMessage) and speakers.TRUST_KEY in message.additional_kwargs:
            artifact = message.artifact if isinstance(message.artifact, Mapping) else {}
            for kind in done:
                done[kind] += artifact.get(kind, ())
    return done


def remember_turn(
    step: Step,
    unanswered: Sequence[BaseMessage],
    asking: Sequence[BaseMessage],
    recalled: Sequence[object],
    done: ToolChanges,
) -> Flow[RememberResult]:
    """Store the answer of a turn, and its pending messages.

    Args:
        step: The step of the run.
        unanswered: The human messages since the last answer.
        asking: The message that the turn answers.
        recalled: The memories that the turn was shown.
        done: The changes that its model made by tools.
    """
    heard: HeardTurn | None = step.read(HEARD_KEY)
    people = yield from speakers.speakers_in(step.config, step.memory.gate)
    answer = speakers.final_answer(step.messages, step.read("structured_response"))
    humans, left = unanswered, None
    if heard:  # else nothing was noted as the run began
        known_ids = [human.id for human in humans]
        dropped = [message for message in asking if message.id not in known_ids]  # by a summary
        humans = [human for human in (*humans, *dropped) if str(human.id) in heard["said"]]
        left = [pending["note"] for pending in heard["left"] if _is_of_turn(pending, heard)]
    return (yield from remember(step, people, humans, answer, recalled, left=left, done=done))


def end_turn(step: Step, unanswered: Sequence[BaseMessage]) -> Update:
    """Return the update of the state once the turn is over.

    Other messages that came meanwhile count as no person's, and stored ones as answered.
    """
    heard: HeardTurn | None = step.read(HEARD_KEY)
    if not heard:
        return {}
    stored = "remember" not in step.failures
    came = [str(message.id) for message in unanswered if str(message.id) not in heard["said"]]
    done = heard["said"] if stored else []
    left = [pending for pending in heard["left"] if not (stored and _is_of_turn(pending, heard))]
    others = [*dict.fromkeys((*heard["others"], *done, *came))]
    ended = HeardTurn(**{**heard, "others": others, "left": left})
    return {} if ended == heard else {HEARD_KEY: ended}
