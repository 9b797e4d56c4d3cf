"""Remembering what was said: a node for a `StateGraph`, and a step of an agent's middleware."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langmem_tiers.core.checks import checked_flag
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.core.prompts import CORRECTED
from langmem_tiers.core.structured import checked_model
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.core.values import storable
from langmem_tiers.graph.extra import get_runtime
from langmem_tiers.graph.messages import messages_of
from langmem_tiers.graph.node import (
    RECALLED,
    Careful,
    OnError,
    careful_of,
    node,
    of_state,
    text_of,
)
from langmem_tiers.graph.runs import Remembered, Scope, asked
from langmem_tiers.graph.speakers import Speakers, messages_around, speakers_in, trusting
from langmem_tiers.graph.spoken import (
    Answer,
    answer_in,
    kept,
    keys_of,
    keys_seen,
    note_of,
    unanswered,
)
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.revising import Revision
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.question import TALKS
from langmem_tiers.remember.intending import requesting
from langmem_tiers.remember.means import means

_log = logging.getLogger(__name__)

_MORE: Final = 1 / 3
"""Of a message that asks to be reminded, the share that tells more than that."""
_SHORT: Final = 500
"""Characters up to which a message that asks to be reminded is the reminder, as the sentence that
asks may not say of what; our own choice."""


def create_remember_node(
    *,
    revise: bool = True,
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
    Where the human asks to be reminded of something, the message is a `prospective` memory. Of a
    long one only the sentences that ask are, and the rest is an `episodic` one. In a graph within
    a graph a human message may be an agent's; docs/agents.md says when. A second such node, before
    the model, keeps what a graph removes. A message of more than 20,000 characters keeps both its
    ends. What the answer repeats of the state's `recalled` is no news. A retry of the node, and a
    run that is repeated, store nothing twice. It writes the state keys `remembered`, the keys of
    what was stored, `revised`, and `memory_errors` if that fails.

    Args:
        revise: Retract what the human's message takes back of what was said before ("forget that"),
            and supersede what it corrects ("no, 15"); docs/truth.md says when. False leaves all as
            it is.
        judge: A chat model that says what a message takes back or corrects, in one request each.
            Without one fitted weights do, which find what is said plainly.
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
    """
    careful = careful_of(on_error, "continue")
    body = partial(_remember, careful=careful, decides=decided_by(judge, revise=revise))
    return node(name, body, Remembered(context, coordinator))


def _remember(
    memory: MemoryCoordinator,
    state: Any,
    config: RunnableConfig,
    *,
    careful: Careful,
    decides: BaseChatModel | bool,
) -> Flow[dict[str, Any]]:
    told: dict[str, str] = {}
    done = Kept([], [], told)
    with careful("remember", get_runtime(), told):
        recalled = of_state(state, "recalled", None) or ()
        said = yield from told_in(memory, messages_of(state), config, recalled)
        done = yield from remember(said, decides=decides)
    written: dict[str, Any] = {"remembered": [one.key for one in done.results if one.stored]}
    if decides is not False:
        written["revised"] = done.revised
    before = of_state(state, "memory_errors", None) or {}
    others = {of: error for of, error in before.items() if of not in ("judge", "remember")}
    if decides is not False or {**others, **done.errors} != before:
        written["memory_errors"] = {**others, **done.errors}
    return written


def decided_by(judge: BaseChatModel | None, *, revise: bool) -> BaseChatModel | bool:
    """What says what a message takes back: a model, the fitted weights (True), or nothing (False).

    Raises:
        InvalidInputError: for a judge that nobody would ask, or that is no chat model.
    """
    if judge is None:
        return checked_flag(revise, "revise")
    checked_model(judge)
    if not revise:
        raise InvalidInputError("a judge is named and `revise` is False: leave one of both out")
    return judge


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

    @property
    def question(self) -> BaseMessage | None:
        """Return the last message, if a person wrote it."""
        last = self.humans[-1] if self.humans else None
        return last if last is not None and self.speakers.person(last) else None

    def note_of(self, message: BaseMessage) -> list[dict[str, Any]]:
        """Return a human message as it is stored before it is answered."""
        return note_of(message, self.speakers, self.memory, self.config)


class _Notes(NamedTuple):
    """The memories to write, and the keys of those that they replace."""

    notes: list[dict[str, Any]]
    gone: list[str]


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


def remember(told: Told, *, decides: BaseChatModel | bool) -> Flow[Kept]:
    """Store what was said to an agent, and the agent's last word on it.

    People spoke before anything was `recalled`. If the assistant repeats that, it is no evidence.
    What the assistant says after its tools did is trusted no further than what these brought.
    A memory that the last message takes back goes first (`decided_by`). Where that message says
    nothing else, it and its answer come from that, and so are not recalled either.
    """
    memory, question = told.memory, told.question
    answered = "" if told.answer is None else storable(told.answer.text)
    revision = yield from _revision(told, answered, decides=decides)
    before = [_settled(told, one, _notes(told, one, "")) for one in told.humans if one != question]
    asking = [] if question is None else _notes(told, question, answered)
    corrections = _corrected(asking, revision)
    says = _answer(told, asking, answered)
    if revision.retracted and not (revision.tells_more or _wants(asking)):
        gone = [one.key for one in revision.retracted]
        asking, says = ([{**one, "derived_from": gone} for one in some] for some in (asking, says))
    last = _Notes([], []) if question is None else _settled(told, question, asking)
    results = yield from _written(told, before, last, says)
    revised = [{"retracted": one.key, "move": one.move} for one in revision.retracted]
    errors = {} if revision.failed is None else {"judge": revision.failed}
    by = next((one for one in results if corrections and one.key == asking[0]["key"]), None)
    if by is not None and by.stored and not by.quarantined:
        revised += yield from _superseded(memory, corrections, str(by.key), errors)
    return Kept(results, revised, errors)


def _settled(told: Told, message: BaseMessage, notes: list[dict[str, Any]]) -> _Notes:
    """Find what is still to be written of a message, parts of which may be stored."""
    whole = told.note_of(message)
    left = None if told.left is None else {one["key"] for one in told.left}
    if left is None or any(one["key"] in left for one in whole):
        return _Notes(notes, [])
    if notes == whole:
        return _Notes([], [])
    keys = {one["key"] for one in notes}
    return _Notes(notes, [one["key"] for one in whole if one["key"] not in keys])


def _written(
    told: Told, before: Sequence[_Notes], last: _Notes, says: Sequence[dict[str, Any]]
) -> Flow[list[StoreResult]]:
    """Write what was said and answered; a message may be stored whole before its answer."""
    memory = told.memory
    mine = {note["key"] for one in told.humans for note in told.note_of(one)}
    notes = [
        *(one for one in told.left or () if one["key"] not in mine),
        *(note for one in (*before, last) for note in one.notes),
        *says,
    ]
    results: list[StoreResult] = []
    if notes:
        results = yield from asked(memory.store_many, memory.astore_many, notes)
    for key in (key for one in (*before, last) for key in one.gone):
        yield from asked(memory.delete_memory, memory.adelete_memory, key)
    return results


def _answer(told: Told, asking: Sequence[dict[str, Any]], answered: str) -> list[dict[str, Any]]:
    """Make a memory of the answer, unless its message does little but ask to be reminded."""
    rest = sum(len(one["content"]) for one in asking if "memory_type" not in one)
    if told.answer is None or not answered:
        return []
    if _wants(asking) and rest < _MORE * len(text_of(told.question)):
        return []
    key, _ = keys_of(told.answer.message, told.config)
    says = {"speaker": "assistant", "source": "agent", "recalled": told.recalled}
    return [{**says, "trust": told.trust, **kept(answered, told.memory, key)}]


def _wants(notes: Sequence[dict[str, Any]]) -> bool:
    """Tell whether notes ask to be reminded of something."""
    return any("memory_type" in one for one in notes)


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


def _revision(told: Told, answer: str, *, decides: BaseChatModel | bool) -> Flow[Revision]:
    """Find what the last message takes back."""
    memory, question = told.memory, told.question
    if decides is False or question is None or not (text := storable(text_of(question))):
        return Revision()
    key, intended = keys_of(question, told.config)
    done = keys_of(told.answer.message, told.config)[0] if answer and told.answer else intended
    name = told.speakers.of(question)["speaker"]
    how: Any = {
        "judge": None if decides is True else decides,
        "key": key,
        "answer": answer,
        "speaker": None if name == "user" else name,
        "done": None if told.left is None else done,
    }
    return (yield from asked(memory.revise, memory.arevise, text, **how))


def _corrected(notes: list[dict[str, Any]], revision: Revision) -> list[str]:
    """Let the note of a message say what it corrects, unless that is long; whose keys they are."""
    several = [
        one
        for one in revision.corrects
        if one.memory_type != PROSPECTIVE and len(one.content) <= _SHORT
    ]
    if len(notes) != 1 or "memory_type" in notes[0]:
        return []
    for one in several:
        said = notes[0]["content"]
        notes[0]["content"] = CORRECTED.format(said=said, earlier=one.content)
    return [one.key for one in several]


def beside(
    messages: Sequence[BaseMessage],
    options: RecallOptions,
    memory: MemoryCoordinator,
    config: RunnableConfig,
) -> dict[str, Any]:
    """Return options of a turn's recall, which leave out the memories of its own messages.

    They also leave out what was said to the run around this one, which handed it on.
    """
    seen = keys_seen([*messages_around(config), *messages], config)
    asked = {**options, "exclude": seen.union(options.get("exclude", ()))}
    if options.get("limit") is None and options.get("max_tokens") is None:
        asked["limit"] = min(RECALLED, memory.settings.max_context_items)
    return asked


def _notes(told: Told, message: BaseMessage, answer: str) -> list[dict[str, Any]]:
    """Make memories of a human message: a wish to be reminded is one of its own."""
    if not (whole := told.note_of(message)):
        return []
    text = storable(text_of(message))
    wants = requesting(text, answer) if told.speakers.person(message) else []
    if not wants:
        return whole
    (said,), found = whole, list[dict[str, Any]]()
    asked_for = text if len(text) <= _SHORT else " ".join(one.strip() for one in wants)
    _, intended = keys_of(message, told.config)
    found.append({**said, "content": asked_for, "key": intended, "memory_type": PROSPECTIVE})
    rest = text
    for one in wants:
        rest = rest.replace(one, "", 1)
    if (rest := rest.strip()) and means(rest).talk < TALKS:
        found.append({**said, **kept(rest, told.memory, said["key"], whole=text)})
    return found
