"""Remembering what was said: a node for a `StateGraph`, and the steps of an agent's middleware."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.runtime import get_runtime

from langmem_tiers.core.errors import (
    DatabaseError,
    InvalidInputError,
    TieredMemoryError,
    TooLargeError,
)
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.prompts import CORRECTED
from langmem_tiers.core.structured import checked_model
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.core.values import storable
from langmem_tiers.graph.messages import messages_of
from langmem_tiers.graph.node import (
    Careful,
    OnError,
    Remembered,
    Scope,
    asked,
    careful_of,
    node,
    of_state,
    text_of,
)
from langmem_tiers.graph.shown import noted_in, question_of
from langmem_tiers.graph.speakers import (
    HEARD,
    Answer,
    Heard,
    Left,
    Speakers,
    answer_in,
    ended,
    hear,
    is_of_turn,
    is_within,
    kept,
    key_of,
    last_word,
    note_of,
    speakers_in,
    trusting,
    unanswered,
)
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.revising import Revision
from langmem_tiers.postgres.flow import Flow

_log = logging.getLogger(__name__)

_SHORT: Final = 500
"""Characters up to which a memory stands beside what corrects it; our own choice."""


def create_remember_node(
    *,
    judge: BaseChatModel | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "remember",
) -> Runnable[Any, dict[str, Any]]:
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
    if judge is not None:
        checked_model(judge)
    careful = careful_of(on_error, "continue")
    body = partial(_remember, careful=careful, judge=judge)
    return node(name, body, Remembered(context, coordinator))


def _remember(
    memory: MemoryCoordinator,
    state: Any,
    config: RunnableConfig,
    *,
    careful: Careful,
    judge: BaseChatModel | None,
) -> Flow[dict[str, Any]]:
    told: dict[str, str] = {}
    done = Kept([], [], told)
    with careful("remember", get_runtime(), told):
        recalled = of_state(state, "recalled", None) or ()
        said = yield from told_in(memory, messages_of(state), config, recalled)
        done = yield from remember(said, judge)
    written: dict[str, Any] = {"remembered": [one.key for one in done.results if one.stored]}
    if judge is not None:
        written["revised"] = done.revised
    before = of_state(state, "memory_errors", None) or {}
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

    memory: MemoryCoordinator
    config: RunnableConfig
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
    retracted: Sequence[str] = ()
    """The keys of what the model took back meanwhile."""

    @property
    def question(self) -> BaseMessage | None:
        """Return the last message, if a person wrote it."""
        last = self.humans[-1] if self.humans else None
        return last if last is not None and self.speakers.person(last) else None

    def note_of(self, message: BaseMessage) -> list[dict[str, Any]]:
        """Return a human message as it is stored before it is answered."""
        return note_of(message, self.speakers, self.memory, self.config)


def told_in(
    memory: MemoryCoordinator,
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    recalled: Sequence[object],
) -> Flow[Told]:
    """Find what was said and answered in the messages of a graph, which end with the answer."""
    speakers = yield from speakers_in(config, memory.gate)
    trust = yield from trusting(messages, memory.gate, config)
    humans, answer = unanswered(messages), answer_in(messages)
    return Told(memory, config, speakers, humans, answer, trust, recalled)


def remember(told: Told, judge: BaseChatModel | None = None) -> Flow[Kept]:
    """Store what was said to an agent, and the agent's last word on it.

    People spoke before anything was `recalled`. If the assistant repeats that, it is no evidence.
    What the assistant says after its tools did is trusted no further than what these brought.
    A memory that the last message takes back, as a judge says, goes first. Where that message says
    nothing else, it and its answer come from that, and so are not recalled either; nor is the
    answer to a message that the model itself took back.
    """
    memory, question = told.memory, told.question
    answered = "" if told.answer is None else storable(told.answer.text)
    revision = yield from _revision(told, judge)
    before = [note for one in told.humans if one != question for note in told.note_of(one)]
    asking = [] if question is None else told.note_of(question)
    corrections = _corrected(asking, revision)
    says = _answer(told, answered)
    if revision.retracted and not revision.tells_more:
        gone = [one.key for one in revision.retracted]
        asking, says = ([{**one, "derived_from": gone} for one in some] for some in (asking, says))
    elif gone := [one["key"] for one in asking if one["key"] in told.retracted]:
        says = [{**one, "derived_from": gone} for one in says]
    results = yield from _written(told, [*before, *asking], says)
    revised = [{"retracted": one.key, "move": one.move} for one in revision.retracted]
    errors = {} if revision.failed is None else {"judge": revision.failed}
    by = next((one for one in results if corrections and one.key == asking[0]["key"]), None)
    if by is not None and by.stored and not by.quarantined:
        revised += yield from _superseded(memory, corrections, str(by.key), errors)
    return Kept(results, revised, errors)


def _written(
    told: Told,
    said: Sequence[dict[str, Any]],
    says: Sequence[dict[str, Any]],
) -> Flow[list[StoreResult]]:
    """Write what was said and answered, but for what is stored before its answer."""
    memory, left = told.memory, told.left
    mine = {one["key"] for one in said}
    still = mine if left is None else {one["key"] for one in left}
    notes = [
        *(one for one in left or () if one["key"] not in mine),
        *(one for one in said if one["key"] in still),
        *says,
    ]
    if not notes:
        return []
    return (yield from asked(memory.store_many, memory.astore_many, notes))


def _answer(told: Told, answered: str) -> list[dict[str, Any]]:
    """Make a memory of the answer."""
    if told.answer is None or not answered:
        return []
    key = key_of(told.answer.message, told.config)
    says = {"speaker": "assistant", "source": "agent", "recalled": told.recalled}
    return [{**says, "trust": told.trust, **kept(answered, told.memory, key)}]


def _superseded(
    memory: MemoryCoordinator, keys: Sequence[str], by: str, errors: dict[str, str]
) -> Flow[list[dict[str, Any]]]:
    """Supersede what a message corrects; what is not current any more is told."""
    revised = []
    for key in keys:
        try:
            move = yield from asked(memory.supersede, memory.asupersede, key, by=by)
        except InvalidInputError as error:
            errors["judge"] = f"{type(error).__name__}: {error}"
            _log.warning("what the user corrected is not superseded: %s", error)
        else:
            revised.append({"superseded": key, "move": move})
    return revised


def _revision(told: Told, judge: BaseChatModel | None) -> Flow[Revision]:
    """Find what the last message takes back, as a judge says."""
    memory, question = told.memory, told.question
    if judge is None or question is None or not (text := storable(text_of(question))):
        return Revision()
    name = told.speakers.of(question)["speaker"]
    how: Any = {
        "judge": judge,
        "key": key_of(question, told.config),
        "speaker": None if name == "user" else name,
    }
    return (yield from asked(memory.revise, memory.arevise, text, **how))


def _corrected(notes: list[dict[str, Any]], revision: Revision) -> list[str]:
    """Let the note of a message say what it corrects, unless that is long; whose keys they are."""
    several = [
        one
        for one in revision.corrects
        if one.memory_type != PROSPECTIVE and len(one.content) <= _SHORT
    ]
    if not notes:
        return []
    for one in several:
        said = notes[0]["content"]
        notes[0]["content"] = CORRECTED.format(said=said, earlier=one.content)
    return [one.key for one in several]


MemoryOf = Callable[[Mapping[str, Any]], MemoryCoordinator]
"""Makes the memory of a context from its fields."""


def hear_turn(memory: MemoryCoordinator, state: Any, *, keep: bool) -> Flow[dict[str, Any]]:
    """Note a run's new messages in the state, before anybody can drop them.

    Unless they are to be kept, they are only told from what else comes.
    """
    config, messages = ensure_config(), messages_of(state)
    speakers = yield from speakers_in(config, memory.gate)
    before: Heard | None = of_state(state, HEARD, None)
    known = () if before is None else (*before["said"], *before["others"])
    elsewhere: list[str] = []
    if keep and is_within(config):  # another agent of the same message may have heard it
        new = [one for one in unanswered(messages) if str(one.id) not in known]
        elsewhere = yield from _stored_already(memory, new, config, speakers)
    heard = hear(messages, before, speakers, memory, config, elsewhere=elsewhere)
    return {HEARD: heard if keep else Heard(**{**heard, "left": []})}


def _stored_already(
    memory: MemoryCoordinator,
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    speakers: Speakers,
) -> Flow[list[str]]:
    """Find the ids of messages that are stored."""
    found = list[str]()
    for one in messages:
        known = yield from asked(memory.get, memory.aget, key_of(one, config, speakers))
        found += [] if known is None else [str(one.id)]
    return found


def store_heard(memory_of: MemoryOf, state: Any) -> Flow[tuple[dict[str, Any], list[Exception]]]:
    """Store what was said and is not stored yet, after its recall and before its answer.

    If it were stored sooner, it and its words would count among what is recalled for it. It goes
    to the memory of whoever said it. The errors of what could not be stored are returned too; what
    is too large for the store is left no longer.
    """
    heard: Heard | None = of_state(state, HEARD, None)
    if not heard or not heard["left"]:
        return {}, []
    left: list[Left] = []
    errors: list[Exception] = []
    for whose, several in groupby(heard["left"], key=lambda one: one["whose"]):
        mine = list(several)
        memory = memory_of(whose)
        try:
            yield from _stored(memory, mine, heard)
            continue
        except DatabaseError as error:  # which would be the same of each
            left += mine
            errors.append(error)
            continue
        except TieredMemoryError as error:
            if len(mine) == 1:
                left += [] if isinstance(error, TooLargeError) else mine
                errors.append(error)
                continue
        for one in mine:
            try:
                yield from _stored(memory, [one], heard)
            except TieredMemoryError as error:
                left += [] if isinstance(error, TooLargeError) else [one]
                errors.append(error)
    return {HEARD: Heard(**{**heard, "left": left})}, errors


def _stored(memory: MemoryCoordinator, several: Sequence[Left], heard: Heard) -> Flow[None]:
    """Store messages; what was said in an earlier turn happened then."""
    notes = [
        one["note"] if is_of_turn(one, heard) else {**one["note"], "occurred_at": one["at"]}
        for one in several
    ]
    yield from asked(memory.store_many, memory.astore_many, notes)


def remember_turn(
    memory: MemoryCoordinator,
    state: Any,
    recalled: Sequence[object],
    retracted: Sequence[str] = (),
) -> Flow[Kept]:
    """Store the answer and what is left of the turn, in which these keys were taken back."""
    config, messages = ensure_config(), messages_of(state)
    heard: Heard | None = of_state(state, HEARD, None)
    speakers = yield from speakers_in(config, memory.gate)
    answer = last_word(messages, of_state(state, "structured_response", None))
    after = messages if answer is None else answer.after
    trust = yield from trusting(after, memory.gate, config)
    humans: list[BaseMessage] = [*unanswered(messages)]
    left = None
    if heard:  # else an earlier version began the run, and noted nothing
        there, noted = {one.id for one in humans}, noted_in(state)
        asking = () if noted is None else question_of(noted, state)[1]
        humans += [one for one in asking if one.id not in there]  # a summary dropped it
        humans = [one for one in humans if str(one.id) in heard["said"]]
        left = [one["note"] for one in heard["left"] if is_of_turn(one, heard)]
    told = Told(memory, config, speakers, humans, answer, trust, recalled, left, retracted)
    return (yield from remember(told))


def ended_of(state: Any, errors: Mapping[str, str]) -> dict[str, Any]:
    """Return the update of the state once the turn is over."""
    heard: Heard | None = of_state(state, HEARD, None)
    if not heard:
        return {}
    done = ended(heard, messages_of(state), stored="remember" not in errors)
    return {} if done == heard else {HEARD: done}
