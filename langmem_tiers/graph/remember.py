"""Remembering what was said: a node for a `StateGraph`, and a step of an agent's middleware."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
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
from langmem_tiers.graph.heard import trusting
from langmem_tiers.graph.messages import messages_of
from langmem_tiers.graph.node import (
    RECALLED,
    Careful,
    OnError,
    careful_of,
    last_question,
    node,
    of_state,
    text_of,
)
from langmem_tiers.graph.runs import Remembered, Scope, asked, thread_of
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.revising import Revision
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.question import TALKS
from langmem_tiers.remember.intending import requesting
from langmem_tiers.remember.means import means
from langmem_tiers.turn.record import both_ends
from langmem_tiers.turn.trace import private

_log = logging.getLogger(__name__)

_LONGEST: Final = 20_000
"""Characters that are kept of a message: some 5,000 tokens, so that it still fits into a context
by itself; our own choice."""
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
    The last message of the human and, if it is the last message, the assistant's answer are
    `episodic` memories of the session with their speakers. Where the human asks to be reminded of
    something, the message, or of a long one the sentences that ask, is a `prospective` memory, and
    what else it says an `episodic` one. Of a message of more than 20,000 characters both ends are
    kept. What the answer repeats of the state's `recalled` is no news. A retry of the node, and a
    run that is repeated, store nothing twice. It writes the state keys `remembered`, the keys of
    what was stored, `revised`, and `memory_errors` if that fails.

    Args:
        revise: Retract what the human's message takes back of what was said before ("forget that"),
            and supersede what it corrects ("no, 15"); docs/truth.md says when. False leaves all as
            it is.
        judge: A chat model that says what a message takes back or corrects, in one request each.
            Without one fitted weights do, which find what is said plainly.
        on_error: `continue` where Postgres or a model fails: the log, the stream and
            `memory_errors` tell it; `raise` leaves it to the graph and its retry policy.
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
    kept, messages = Kept([], [], told), messages_of(state)
    with careful("remember", get_runtime(), told):
        recalled = of_state(state, "recalled", None) or ()
        kept = yield from remember(memory, messages, config, recalled, decides=decides)
    written: dict[str, Any] = {"remembered": [one.key for one in kept.results if one.stored]}
    if decides is not False:
        written["revised"] = kept.revised
    before = of_state(state, "memory_errors", None) or {}
    others = {of: error for of, error in before.items() if of not in ("judge", "remember")}
    if decides is not False or {**others, **kept.errors} != before:
        written["memory_errors"] = {**others, **kept.errors}
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
    """What was made of a message and its answer."""

    results: list[StoreResult]
    revised: list[dict[str, Any]]
    """What the message took back (`retracted`) or corrected (`superseded`): the key of each, and
    the move, which `rollback` undoes."""
    errors: dict[str, str]
    """What the judge failed by, if it did."""


def remember(
    memory: MemoryCoordinator,
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    recalled: Sequence[object],
    *,
    decides: BaseChatModel | bool,
) -> Flow[Kept]:
    """Store the last thing that the user said, and the assistant's last word on it.

    The user spoke before anything was `recalled`; what the assistant repeats of it is no evidence.
    What the assistant says after its tools did is trusted no further than what these brought.
    What the user takes back is taken back first (`decided_by`). Where the message says nothing
    else, it and its answer come from that, and so are not recalled either.
    """
    question, last = last_question(messages), messages[-1] if messages else None
    answer = last if isinstance(last, AIMessage) and not last.tool_calls else None
    trust = yield from trusting(messages, memory.gate)
    told = {"speaker": "assistant", "source": "agent", "recalled": recalled, "trust": trust}
    answered = storable(text_of(answer))
    revision = yield from _revision(memory, question, config, answered, decides=decides)
    said = {"speaker": "user", "source": "user"}
    notes = [*_notes(memory, question, config, answered, **said)]
    corrections = _corrected(notes, revision)
    rest = sum(len(one["content"]) for one in notes if "memory_type" not in one)
    wants = any("memory_type" in one for one in notes)
    if not wants or rest >= _MORE * len(text_of(question)):
        # What answers little but a request to be reminded says nothing further.
        notes += _notes(memory, answer, config, "", **told)
    if revision.retracted and not (revision.tells_more or wants):
        gone = [one.key for one in revision.retracted]
        notes = [{**one, "derived_from": gone} for one in notes]
    results = yield from asked(memory.store_many, memory.astore_many, notes)
    revised = [{"retracted": one.key, "move": one.move} for one in revision.retracted]
    errors = {} if revision.failed is None else {"judge": revision.failed}
    if corrections and results[0].stored and not results[0].quarantined:
        revised += yield from _superseded(memory, corrections, str(results[0].key), errors)
    return Kept(results, revised, errors)


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


def _revision(
    memory: MemoryCoordinator,
    question: BaseMessage | None,
    config: RunnableConfig,
    answer: str,
    *,
    decides: BaseChatModel | bool,
) -> Flow[Revision]:
    """What a message takes back."""
    if decides is False or question is None or not (text := storable(text_of(question))):
        return Revision()
    key, _ = keys_of(question, config)
    judge = None if decides is True else decides
    how: Any = {"judge": judge, "key": key, "answer": answer}
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


def keys_of(message: BaseMessage, config: RunnableConfig) -> tuple[str, str]:
    """What a message is remembered under, and what it asks to be reminded of.

    The same for the same message of a thread; without a thread, of the same words.
    """
    origin = thread_of(config) or storable(text_of(message))
    key = uuid5(NAMESPACE_OID, f"{origin}\0{message.id}")
    return str(key), str(uuid5(key, PROSPECTIVE))


def beside(
    messages: Sequence[BaseMessage],
    options: RecallOptions,
    memory: MemoryCoordinator,
    config: RunnableConfig,
) -> dict[str, Any]:
    """Options of a turn's recall: what its messages were remembered as is seen anyway."""
    told = (one for one in messages if isinstance(one, HumanMessage | AIMessage))
    said = (one for one in told if not getattr(one, "tool_calls", None))
    seen = {key for one in said for key in keys_of(one, config)}
    asked = {**options, "exclude": seen.union(options.get("exclude", ()))}
    if options.get("limit") is None and options.get("max_tokens") is None:
        asked["limit"] = min(RECALLED, memory.settings.max_context_items)
    return asked


def _notes(
    memory: MemoryCoordinator,
    message: BaseMessage | None,
    config: RunnableConfig,
    answer: str,
    **told: Any,
) -> Iterator[dict[str, Any]]:
    """A message as memories: what a user asks to be reminded of is one of its own."""
    if message is None or not (text := storable(text_of(message))):
        return
    key, intended = keys_of(message, config)
    told |= {"session_id": memory.context.session_id}
    # What is private is not cut: the gate is to judge all of it.
    whole = private(text, memory.gate)
    wants = requesting(text, answer) if told["speaker"] == "user" else []
    if wants:
        asked_for = text if len(text) <= _SHORT else " ".join(one.strip() for one in wants)
        yield {**told, "content": asked_for, "key": intended, "memory_type": PROSPECTIVE}
    for one in wants:
        text = text.replace(one, "", 1)
    text = text.strip()
    if text and not (wants and means(text).talk >= TALKS):
        yield {**told, "content": text if whole else both_ends(text, _LONGEST), "key": key}
