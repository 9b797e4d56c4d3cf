"""Remembering what was said: a node for a `StateGraph`, and the steps of an agent's middleware."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable

from langmem_tiers.core import errors, prompts, types, values
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.graph import node, speakers
from langmem_tiers.graph.node import OnError, Scope, Step, Update, asked
from langmem_tiers.graph.speakers import HEARD, Answer, Heard, Left, Speakers, is_of_turn
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.reminding import mark_reminding
from langmem_tiers.memory.truth import Revision
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.question import REMINDER_SET

_log = logging.getLogger(__name__)

Done: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""What a model did in a turn by its memory tools, by kind: see `done_in`."""
_SHORT: Final = 500
"""Characters up to which a memory stands beside what corrects it; our own choice."""


def create_remember_node(
    *,
    judge: BaseChatModel | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "remember",
) -> Runnable[Any, Update]:
    """A node that stores what the user and the assistant said, for `invoke` and `ainvoke`.

    It stands behind the model, and does what `TieredMemoryMiddleware` does when the agent is done.
    The human messages since the last answer and, if it is the last message, the assistant's answer
    are `episodic` memories of the session with their speakers: the message's `name`, else `user`.
    In a graph within a graph a human message may be an agent's; docs/agents.md says when. A second
    such node, before the model, keeps what a graph removes. A message of more than 20,000
    characters keeps both its ends. What the answer repeats of the state's `recalled` is no news. A
    retry of the node, and a run that is repeated, store nothing twice. It writes the state keys
    `remembered`, the keys of what was stored, with a judge `revised`, and `memory_errors` if that
    fails.

    Args:
        judge: A chat model that says what the human's message takes back of what was said before
            ("forget that"), which is retracted, and what it corrects ("no, 15"), which is
            superseded: one request each, for agents that have no tools to say so; docs/truth.md
            says when. Without one nothing is taken back.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log, the stream
            and `memory_errors`; `raise` leaves it to the graph and its retry policy.
        context, coordinator, name: Those of every node; see `create_recall_node`.

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
    node.checked_helpers(judge)
    body = partial(_remember, judge=judge)
    return node.node(name, body, context, coordinator, on_error=on_error)


def _remember(step: Step, *, judge: BaseChatModel | None) -> Flow[Update]:
    done = Kept([], [], step.told)
    with step.without("remember"):
        by = yield from speakers.speakers_in(step.config, step.memory.gate)
        trust = yield from speakers.trusting(step.messages, step.memory.gate, step.config)
        humans, answer = speakers.unanswered(step.messages), speakers.answer_in(step.messages)
        told = Told(step, by, humans, answer, trust, step.read("recalled") or ())
        done = yield from remember(told, judge)
    written: Update = {"remembered": [one.key for one in done.results if one.stored]}
    if judge is not None:
        written["revised"] = done.revised
    before = step.read("memory_errors") or {}
    others = {of: error for of, error in before.items() if of not in ("judge", "remember")}
    if judge is not None or {**others, **done.errors} != before:
        written["memory_errors"] = {**others, **done.errors}
    return written


class Kept(NamedTuple):
    """The memories that messages and their answer became."""

    results: list[StoreResult]
    revised: list[dict[str, Any]]
    """The memories that a message took back (`retracted`) or corrected (`superseded`): the key of
    each, and the move, which `rollback` undoes."""
    errors: dict[str, str]
    """What the judge failed by, if it did."""


class Told(NamedTuple):
    """The messages of a turn, and what else is known of it."""

    step: Step
    speakers: Speakers
    humans: Sequence[BaseMessage]
    """The messages to the agent since its last answer."""
    answer: Answer | None
    trust: float
    """The trust in the agent by then."""
    recalled: Sequence[object]
    """The memories that the agent was shown: what it repeats of them is no news."""
    left: Sequence[dict[str, Any]] | None = None
    """The part of what was said that is not stored yet; None if nothing of it is stored."""
    done: Done = MappingProxyType({})
    """What the model did by its memory tools."""

    @property
    def retracted(self) -> list[str]:
        """Return the keys of what the model took back."""
        return [one["retracted"] for one in self.done.get("revised", ()) if "retracted" in one]

    @property
    def sets_reminder(self) -> bool:
        """Tell whether the model set a reminder."""
        return any(one["action"] == "set" for one in self.done.get("reminded", ()))

    @property
    def question(self) -> BaseMessage | None:
        """Return the last message, if a person wrote it."""
        last = self.humans[-1] if self.humans else None
        return last if last is not None and self.speakers.person(last) else None

    def note_of(self, message: BaseMessage) -> list[dict[str, Any]]:
        """Return a human message as it is stored before it is answered."""
        return speakers.note_of(self.step, message, self.speakers)

    @property
    def says(self) -> list[dict[str, Any]]:
        """Return the answer as it is stored; nothing if it says nothing."""
        if self.answer is None or not (answered := values.storable(self.answer.text)):
            return []
        key = speakers.key_of(self.answer.message, self.step.config)
        note = speakers.kept(answered, self.step.memory, key)
        says = {"speaker": "assistant", "source": "agent", "recalled": self.recalled}
        return [{**says, "trust": self.trust, **note}]


def remember(told: Told, judge: BaseChatModel | None = None) -> Flow[Kept]:
    """Store what was said to an agent, and the agent's last word on it.

    People spoke before anything was `recalled`. If the assistant repeats that, it is no evidence.
    What the assistant says after its tools did is trusted no further than what these brought.
    A memory that the last message takes back, as a judge says, goes first. Where that message says
    nothing else, it and its answer come from that, and so are not recalled either; nor is the
    answer to a message that the model itself took back.
    """
    memory, question, says = told.step.memory, told.question, told.says
    revision = yield from _revision(told, judge)
    before = [note for one in told.humans if one != question for note in told.note_of(one)]
    asking = [] if question is None else told.note_of(question)
    corrections = _corrected(asking, revision)
    if revision.retracted and not revision.tells_more:
        gone = [one.key for one in revision.retracted]
        asking, says = ([{**one, "derived_from": gone} for one in some] for some in (asking, says))
    elif gone := [one["key"] for one in asking if one["key"] in told.retracted]:
        says = [{**one, "derived_from": gone} for one in says]
    if told.sets_reminder:
        says = [{**one, "further": {REMINDER_SET: True}} for one in says]
    notes = [*_unstored([*before, *asking], told.left), *says]
    results = (yield from asked(memory.store_many, notes)) if notes else []
    if told.sets_reminder and asking:
        with suppress(errors.InvalidInputError):  # it is not stored
            marking = mark_reminding(memory, str(asking[0]["key"]))
            yield from asked(memory.tiered_store.run, marking)
    revised = [{"retracted": one.key, "move": one.move} for one in revision.retracted]
    failed = {} if revision.failed is None else {"judge": revision.failed}
    by = next((one for one in results if corrections and one.key == asking[0]["key"]), None)
    if by is not None and by.stored and not by.quarantined:
        revised += yield from _superseded(memory, corrections, str(by.key), failed)
    return Kept(results, revised, failed)


def _unstored(
    said: Sequence[dict[str, Any]], left: Sequence[dict[str, Any]] | None
) -> list[dict[str, Any]]:
    """Return the notes of what was said, but for what is stored before its answer."""
    if left is None:
        return [*said]
    mine, still = ({one["key"] for one in notes} for notes in (said, left))
    others = [one for one in left if one["key"] not in mine]
    return [*others, *(one for one in said if one["key"] in still)]


def _superseded(
    memory: MemoryCoordinator, keys: Sequence[str], by: str, failed: dict[str, str]
) -> Flow[list[dict[str, Any]]]:
    """Supersede what a message corrects; what is not current any more is told."""
    revised = []
    for key in keys:
        try:
            move = yield from asked(memory.supersede, key, by=by)
        except errors.InvalidInputError as error:
            failed["judge"] = f"{type(error).__name__}: {error}"
            _log.warning("what the user corrected is not superseded: %s", error)
        else:
            revised.append({"superseded": key, "move": move})
    return revised


def _revision(told: Told, judge: BaseChatModel | None) -> Flow[Revision]:
    """Find what the last message takes back, as a judge says."""
    question = told.question
    if judge is None or question is None or not (text := values.storable(node.text_of(question))):
        return Revision()
    name = told.speakers.of(question)["speaker"]
    speaker, key = None if name == "user" else name, speakers.key_of(question, told.step.config)
    return (yield from asked(told.step.memory.revise, text, judge=judge, key=key, speaker=speaker))


def _corrected(notes: list[dict[str, Any]], revision: Revision) -> list[str]:
    """Let the note of a message say what it corrects, unless that is long; whose keys they are."""
    several = [
        one
        for one in revision.corrects
        if notes and one.memory_type != types.PROSPECTIVE and len(one.content) <= _SHORT
    ]
    for one in several:
        said = notes[0]["content"]
        notes[0]["content"] = prompts.CORRECTED.format(said=said, earlier=one.content)
    return [one.key for one in several]


# An agent's middleware hears its turn, and stores what was said before the answer


def hear_turn(step: Step, *, keep: bool) -> Flow[Update]:
    """Note a run's new messages in the state, before anybody can drop them.

    Unless they are to be kept, they are only told from what else comes.
    """
    by = yield from speakers.speakers_in(step.config, step.memory.gate)
    before: Heard | None = step.read(HEARD)
    known = () if before is None else (*before["said"], *before["others"])
    elsewhere: list[str] = []
    if keep and speakers.is_within(step.config):  # another agent of the message may have heard it
        for one in speakers.unanswered(step.messages):
            key = speakers.key_of(one, step.config, by)
            if str(one.id) not in known and (yield from asked(step.memory.get, key)) is not None:
                elsewhere.append(str(one.id))
    heard = speakers.hear(step, by, before, elsewhere)
    return {HEARD: heard if keep else Heard(**{**heard, "left": []})}


def store_heard(
    memory_of: Callable[[Mapping[str, Any]], MemoryCoordinator], heard: Heard | None
) -> Flow[tuple[Update, list[errors.TieredMemoryError]]]:
    """Store what was said and is not stored yet, after its recall and before its answer.

    If it were stored sooner, it and its words would count among what is recalled for it. It goes
    to the memory of whoever said it, which is made from the fields of a context. The errors of what
    could not be stored are returned too; what is too large for the store is left no longer.
    """
    if not heard or not heard["left"]:
        return {}, []
    left: list[Left] = []
    failed: list[errors.TieredMemoryError] = []
    for whose, several in groupby(heard["left"], key=lambda one: one["whose"]):
        memory, waiting = memory_of(whose), [[*several]]
        while waiting:
            mine = waiting.pop(0)
            try:
                yield from asked(memory.store_many, [_note(one, heard) for one in mine])
            except errors.TieredMemoryError as error:
                if len(mine) > 1 and not isinstance(error, errors.DatabaseError):
                    waiting = [[one] for one in mine]
                    continue
                left += [] if isinstance(error, errors.TooLargeError) else mine
                failed.append(error)
    return {HEARD: Heard(**{**heard, "left": left})}, failed


def _note(one: Left, heard: Heard) -> dict[str, Any]:
    """Return a message as it is stored; what was said in an earlier turn happened then."""
    return one["note"] if is_of_turn(one, heard) else {**one["note"], "occurred_at": one["at"]}


def remember_turn(
    step: Step,
    asking: Sequence[BaseMessage],
    recalled: Sequence[object],
    done: Done,
) -> Flow[Kept]:
    """Store the answer and what is left of the turn.

    Its question is `asking`, what was shown for it `recalled`, what its model did by tools `done`.
    """
    config, gate = step.config, step.memory.gate
    heard: Heard | None = step.read(HEARD)
    by = yield from speakers.speakers_in(config, gate)
    answer = speakers.last_word(step.messages, step.read("structured_response"))
    trust = yield from speakers.trusting(answer.after if answer else step.messages, gate, config)
    humans = speakers.unanswered(step.messages)
    left = None
    if heard:  # else nothing could be noted as the run began
        there = {one.id for one in humans}
        humans += [one for one in asking if one.id not in there]  # a summary dropped it
        humans = [one for one in humans if str(one.id) in heard["said"]]
        left = [one["note"] for one in heard["left"] if is_of_turn(one, heard)]
    told = Told(step, by, humans, answer, trust, recalled, left, done)
    return (yield from remember(told))


def ended_of(step: Step) -> Update:
    """Return the update of the state once the turn is over."""
    heard: Heard | None = step.read(HEARD)
    if not heard:
        return {}
    done = speakers.ended(heard, step.messages, stored="remember" not in step.told)
    return {} if done == heard else {HEARD: done}
