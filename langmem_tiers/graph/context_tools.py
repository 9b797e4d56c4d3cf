"""The three tools by which a model keeps the memory of its run's context.

Each answers in one line what it did. What was done is also in the artifact of the answer, from
which the middleware tells the turn's result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_core.tools.base import ArgsSchema
from langgraph.runtime import get_runtime
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from langmem_tiers.core import prompts
from langmem_tiers.core.checks import checked_kind
from langmem_tiers.core.errors import (
    DatabaseError,
    EmbeddingFailedError,
    InvalidInputError,
    MigrationError,
    NotSetUpError,
    OutcomeUnknownError,
)
from langmem_tiers.core.handles import bracketed, handle_of
from langmem_tiers.core.memory import (
    ASSISTANT_ROLES,
    THRESHOLD,
    USER_ROLES,
    Recollection,
    Source,
    StoreResult,
)
from langmem_tiers.core.namespaces import encode
from langmem_tiers.core.reading import LINE, shortened
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.core.values import source_of, trust_of
from langmem_tiers.graph.messages import failures_at_hand, this_turn
from langmem_tiers.graph.node import Remembered, Scope, asked, last_question, of_state, ways
from langmem_tiers.graph.speakers import TRUST, key_of, messages_so_far, speakers_in, trusting
from langmem_tiers.learn.reflexion import failure_fields
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.fence import long_day, quoted, recalled_text
from langmem_tiers.recall.question import SMALL_TALK, TALKS
from langmem_tiers.remember.new import checked_text
from langmem_tiers.remind.triggers import At

_log = logging.getLogger(__name__)
Action = Literal["create", "update", "delete"]
Kind = Literal["fact", "event", "procedure", "lesson"]
Told: TypeAlias = tuple[str, dict[str, Any]]
"""What a tool answers: a line for the model, and what was done, for the turn's result."""

_TYPES: Final = {
    "fact": "semantic",
    "event": "episodic",
    "procedure": "procedural",
    "lesson": REFLEXION,
}


class Asking(NamedTuple):
    """A call of a memory tool: whose memory it keeps, and in which run."""

    memory: MemoryCoordinator
    config: RunnableConfig
    call: str | None
    """The id of the call, if a model made it."""

    @classmethod
    def of(cls, whose: Remembered, call: str | None) -> Asking:
        """Take the memory of the run that the tool is called in."""
        config = ensure_config()
        return cls(whose.memory(get_runtime(), config), config, call)

    @property
    def key(self) -> str:
        """Return a key for what the call stores, which a repeated call has too."""
        return str(uuid4() if self.call is None else uuid5(NAMESPACE_OID, self.call))


THIS: Final = "this"
"""By which a model names the message that it answers."""
_KNOWN: Final = 20
"""Memories that tell what is known of a user, where nothing is asked: our own choice."""


def search(
    memory: MemoryCoordinator, query: str, about: str | None, limit: int
) -> Flow[tuple[str, list[dict[str, Any]]]]:
    """Find memories for a model; what is known of a user are pins and what the user said."""
    pins: Sequence[Recollection] = ()
    options: dict[str, Any] = {"limit": limit, "deduplicate": True, "min_match": 0}
    if about == "user":
        options["filter"] = {"speaker": {"$ne": "assistant"}}
        pins = yield from asked(memory.pinned, memory.apinned)
        options["exclude"] = [one.key for one in pins]
        options["limit"] = limit if query.strip() else max(limit, _KNOWN)
    found = yield from asked(memory.get_context, memory.aget_context, query, **options)
    told = [one for one in found if about is None or _tells(one)]
    text = recalled_text(told, pinned=pins, now=memory.now, asked=query or None)
    return text or prompts.NOTHING_FOUND, [dict(one.value) for one in (*pins, *told)]


def _tells(one: Recollection) -> bool:
    talk = one.value.get(SMALL_TALK)
    return not isinstance(talk, int | float) or talk < TALKS


def manage(
    asking: Asking,
    *,
    action: Action,
    content: str | None,
    named: str | None,
    kind: Kind | None,
    pin: bool | None,
) -> Flow[Told]:
    """Create, update or delete a memory, as a model decides.

    Raises:
        InvalidInputError: for what cannot be, in words for the model; nothing was changed.
    """
    if action == "create":
        if named is not None:
            raise InvalidInputError(prompts.NO_ID_TO_CREATE)
        if content is None:
            raise InvalidInputError(prompts.CONTENT_NEEDED.format(action=action))
        return (yield from _created(asking, content, _TYPES[kind or "fact"], pin=bool(pin)))
    if named is None:
        raise InvalidInputError(prompts.ID_NEEDED.format(action=action))
    if action == "update" and content is None and pin is None:
        raise InvalidInputError(prompts.CONTENT_NEEDED.format(action=action))
    old = yield from _meant(asking, named, action)
    if action == "delete":
        return (yield from _deleted(asking.memory, old))
    if content is None:
        return (yield from _pinned(asking.memory, old, on=bool(pin)))
    memory_type = old.memory_type if kind is None else _TYPES[kind]
    return (yield from _updated(asking, old, content, memory_type, pin=pin))


def _created(asking: Asking, content: str, memory_type: str, *, pin: bool) -> Flow[Told]:
    result = yield from _noted(asking, content, memory_type, pin=pin)
    if not result.stored:
        return prompts.NOT_STORED.format(reason=result.reason), {}
    handle = yield from handle_of_key(asking.memory, str(result.key))
    if result.quarantined:
        held = {"key": result.key, "quarantined": True, "reason": result.reason}
        return prompts.HELD_BACK.format(id=handle, reason=result.reason), {"learned": [held]}
    word = "Pinned" if pin else "Noted"
    return f"{word} as {bracketed(handle)}.", {"noted": [{"key": result.key, "handle": handle}]}


def _noted(asking: Asking, content: str, memory_type: str, *, pin: bool) -> Flow[StoreResult]:
    """Store what a model notes: as its own word, trusted no further than what it has heard."""
    memory, messages = asking.memory, messages_so_far(asking.config)
    trust = yield from trusting(messages, memory.gate, asking.config)
    options: dict[str, Any] = {
        "memory_type": memory_type,
        "source": Source.AGENT.value,
        "trust": trust,
        "key": asking.key,
        "pinned": pin,
    }
    if memory_type == REFLEXION:
        options["personal"] = None if memory.context.user_id is None else True
        failed = failures_at_hand(messages)
        options["further"] = failure_fields(failed[0]) if failed else {}
    return (yield from asked(memory.store, memory.astore, content, **options))


def _updated(
    asking: Asking, old: Recollection, content: str, memory_type: str, *, pin: bool | None
) -> Flow[Told]:
    """Store what is so now, and let it take the place of what was; a pin goes with it."""
    memory = asking.memory
    said, done = yield from _created(asking, content, memory_type, pin=False)
    if "noted" not in done:
        return said, done
    (new,) = done["noted"]
    move = yield from asked(memory.supersede, memory.asupersede, old.key, by=new["key"])
    if pin or (pin is None and old.value.get("pinned") is True):
        yield from asked(memory.pin, memory.apin, new["key"])  # the old one's room is free now
    handle = handle_of(old.namespace, old.key)
    revised = {"superseded": old.key, "handle": handle, "move": move}
    text = prompts.MEMORY_UPDATED.format(new=bracketed(new["handle"]), old=bracketed(handle))
    return text, {**done, "revised": [revised]}


def _deleted(memory: MemoryCoordinator, old: Recollection) -> Flow[Told]:
    why: Any = {"reason": prompts.MODEL_DELETED, "answers": True}
    retraction = yield from asked(memory.retract, memory.aretract, old.key, **why)
    handle = handle_of(old.namespace, old.key)
    revised = {"retracted": old.key, "handle": handle, "move": retraction.move}
    said = quoted(shortened(old.content, LINE))
    return prompts.MEMORY_DELETED.format(id=bracketed(handle), said=said), {"revised": [revised]}


def _pinned(memory: MemoryCoordinator, old: Recollection, *, on: bool) -> Flow[Told]:
    call, acall = (memory.pin, memory.apin) if on else (memory.unpin, memory.aunpin)
    yield from asked(call, acall, old.key)
    handle = handle_of(old.namespace, old.key)
    word = "Pinned" if on else "Unpinned"
    return f"{word} {bracketed(handle)}.", {}


def _meant(asking: Asking, named: str, action: str) -> Flow[Recollection]:
    """Find the memory that a model names and may change.

    Raises:
        InvalidInputError: if there is none or several, or it is not the model's to change.
    """
    memory, messages = asking.memory, messages_so_far(asking.config)
    question = last_question(messages)
    if named == THIS and question is not None:
        named = key_of(question, asking.config)
    found = yield from asked(memory.get, memory.aget, named)
    if found is None:
        raise InvalidInputError(prompts.NOT_THERE.format(id=named, action=action))
    whose = memory.tiered_store.options.user_of(encode(found.namespace))
    own = memory.context.user_id is None or whose == memory.context.user_id
    if not own and source_of(found.value) != Source.AGENT:
        raise InvalidInputError(prompts.STANDS.format(id=named, action=action))
    trust = yield from trusting(messages, memory.gate, asking.config)
    if trust < THRESHOLD and trust_of(found.value) > trust:
        raise InvalidInputError(prompts.HEARD_TOO_MUCH.format(action=action))
    speaker = (found.speaker or "").lower()
    if speaker and speaker not in USER_ROLES | ASSISTANT_ROLES:
        speakers = yield from speakers_in(asking.config, memory.gate)
        by = "" if question is None else str(speakers.of(question)["speaker"])
        if by.lower() != speaker:
            whose_words = {"id": named, "speaker": found.speaker, "action": action}
            raise InvalidInputError(prompts.OTHERS_WORDS.format_map(whose_words))
    return found


def handle_of_key(memory: MemoryCoordinator, key: str) -> Flow[str]:
    """Return the handle of the memory that has a key."""
    found = yield from asked(memory.get, memory.aget, key)
    return key if found is None else handle_of(found.namespace, found.key)


Reminding = Literal["set", "done", "snooze", "cancel"]


def remind(
    asking: Asking,
    *,
    action: Reminding,
    content: str | None,
    named: str | None,
    at: str | None,
    every: str | None,
    cue: str | None,
    before_tool: str | None,
) -> Flow[Told]:
    """Set, close or put off a reminder, as a model decides.

    Raises:
        InvalidInputError: for what cannot be, in words for the model; nothing was changed.
    """
    memory = asking.memory
    moment = None if at is None else local_moment(at, memory)
    if action == "set":
        if content is None:
            raise InvalidInputError(prompts.CONTENT_NEEDED.format(action=action))
        waits = _waits(memory, moment, every, cue, before_tool)
        return (yield from _set(asking, content, waits))
    if named is None:
        raise InvalidInputError(prompts.ID_NEEDED.format(action=action))
    done = {"reminded": [{"action": action, "id": named}]}
    if action == "snooze":
        if moment is None:
            raise InvalidInputError(prompts.TIME_NEEDED)
        yield from asked(memory.snooze, memory.asnooze, named, moment)
        return prompts.REMINDER_SNOOZED.format(id=named, when=_told(moment, memory)), done
    if action == "done":
        closed = yield from asked(memory.complete, memory.acomplete, named)
    else:
        closed = yield from asked(memory.cancel, memory.acancel, named)
    if not closed:
        return prompts.REMINDER_WAS_CLOSED.format(id=named), {}
    said = prompts.REMINDER_DONE if action == "done" else prompts.REMINDER_CANCELLED
    return said.format(id=named), done


def _waits(
    memory: MemoryCoordinator,
    moment: datetime | None,
    every: str | None,
    cue: str | None,
    before_tool: str | None,
) -> dict[str, Any]:
    """Return what a reminder waits for, as options of `intend`."""
    if every is not None:
        zone = memory.context.timezone or "UTC"
        return {"at": At(moment or memory.now, every=every, timezone=zone)}
    named = {"at": moment, "cue": cue, "before_tool": before_tool}
    return {name: one for name, one in named.items() if one is not None}


def _set(asking: Asking, content: str, waits: dict[str, Any]) -> Flow[Told]:
    memory, config = asking.memory, asking.config
    trust = yield from trusting(messages_so_far(config), memory.gate, config)
    noted: Any = {"source": Source.AGENT.value, "trust": trust, "key": asking.key}
    result = yield from asked(memory.intend, memory.aintend, content, **waits, **noted)
    if not result.stored:
        return prompts.NOT_STORED.format(reason=result.reason), {}
    handle = yield from handle_of_key(memory, str(result.key))
    if result.quarantined:
        return prompts.HELD_BACK.format(id=handle, reason=result.reason), {}
    at = waits.get("at")
    moment = at.moment if isinstance(at, At) else at
    when = "" if moment is None else f" for {_told(moment, memory)}"
    done = {"reminded": [{"action": "set", "id": handle}]}
    return prompts.REMINDER_SET.format(id=bracketed(handle), when=when), done


def local_moment(text: str, memory: MemoryCoordinator) -> datetime:
    """Read a moment in ISO 8601; without a zone it is the context's.

    Raises:
        InvalidInputError: if it is no moment, or over.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidInputError(prompts.NO_TIME.format(at=text)) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=memory.context.zone)
    if moment < memory.now.replace(second=0, microsecond=0):
        raise InvalidInputError(prompts.TIME_OVER.format(at=text, now=_told(memory.now, memory)))
    return moment


def _told(moment: datetime, memory: MemoryCoordinator) -> str:
    there = moment.astimezone(memory.context.zone)
    return f"{long_day(there.date())}, {there:%H:%M}"


def _optional(description: str | None = None) -> Any:
    """Make a field that may be left out; the model may send null as well."""
    return Field(None, description=description)


Text: TypeAlias = str | SkipJsonSchema[None]


class SearchMemory(BaseModel):
    """What `search_memory` takes."""

    model_config = ConfigDict(title="search_memory")

    query: str = Field(description="Empty lists the newest")
    about: Literal["user"] | SkipJsonSchema[None] = _optional("Known of the user")
    limit: int = Field(10, ge=1, le=50)


class ManageMemory(BaseModel):
    """What `manage_memory` takes."""

    model_config = ConfigDict(title="manage_memory")

    action: Action
    content: Text = _optional()
    id: Text = _optional("Or 'this' message")
    kind: Kind | SkipJsonSchema[None] = _optional()
    pin: bool | SkipJsonSchema[None] = _optional("Show it always")


class ManageReminder(BaseModel):
    """What `manage_reminder` takes."""

    model_config = ConfigDict(title="manage_reminder")

    action: Reminding
    content: Text = _optional()
    id: Text = _optional()
    at: Text = _optional("ISO 8601, local")
    every: Text = _optional("RFC 5545 rule")
    cue: Text = _optional("When these words come up")
    before_tool: Text = _optional()


def create_manage_reminder_tool(
    *,
    instructions: str = "",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "manage_reminder",
) -> BaseTool:
    """Make a tool by which a model sets reminders, closes them, and puts them off.

    A reminder waits for a time in ISO 8601, in the context's zone if it names none, which may recur
    by a rule of RFC 5545; for a cue, words that somebody says; for a tool to be called; or for
    nothing, and is then due at once. What the model gets wrong, such as a time that is over, it is
    told in the tool's message.

    Args:
        instructions: The text at the end of the tool's description.
        context, coordinator: Those of every node; see `create_recall_node`.
        name: What the model calls it.

    Example:
        ```python
        from langmem_tiers import create_manage_reminder_tool

        reminders = create_manage_reminder_tool()
        ```
    """
    whose = Remembered(context, coordinator)

    def manage_reminder(  # noqa: PLR0917 - the model names them
        action: Reminding,
        content: str | None = None,
        id: str | None = None,  # noqa: A002 - as the model knows it
        at: str | None = None,
        every: str | None = None,
        cue: str | None = None,
        before_tool: str | None = None,
    ) -> Flow[Told]:
        waits = {"at": at, "every": every, "cue": cue, "before_tool": before_tool}
        asking = Asking.of(whose, _CALL.get())
        with told_to_model():
            return (yield from remind(asking, action=action, content=content, named=id, **waits))

    told = _described(prompts.REMIND_CONTEXT, instructions)
    return made(manage_reminder, name, told, ManageReminder, _ContextTool, **_TELLS)


def search_of_context(instructions: str, name: str, whose: Remembered) -> BaseTool:
    """Make a tool that searches the memory of the run's context."""

    def search_memory(query: str, about: str | None = None, limit: int = 10) -> Flow[Any]:
        asking = Asking.of(whose, _CALL.get())
        with told_to_model():
            return (yield from search(asking.memory, query, about, limit))

    told = _described(prompts.SEARCH_CONTEXT, instructions)
    return made(search_memory, name, told, SearchMemory, _ContextTool, **_TELLS)


def manage_of_context(instructions: str, name: str, whose: Remembered) -> BaseTool:
    """Make a tool that keeps the memory of the run's context."""

    def manage_memory(
        action: Action = "create",
        content: str | None = None,
        id: str | None = None,  # noqa: A002 - langmem's word
        kind: Kind | None = None,
        pin: bool | None = None,  # noqa: FBT001 - the model names it
    ) -> Flow[Told]:
        asking = Asking.of(whose, _CALL.get())
        named: Any = {"named": id, "kind": kind, "pin": pin}
        with told_to_model():
            return (yield from manage(asking, action=action, content=content, **named))

    told = _described(prompts.MANAGE_CONTEXT, instructions)
    return made(manage_memory, name, told, ManageMemory, _ContextTool, **_TELLS)


def _described(text: str, instructions: str) -> str:
    return f"{text}\n{checked_kind(instructions, str, 'instructions')}"


_TELLS: Final = {"response_format": "content_and_artifact"}


def memory_tools(whose: Remembered) -> list[BaseTool]:
    """Make the three tools that an agent's model is given."""
    return [
        search_of_context("", "search_memory", whose),
        manage_of_context("", "manage_memory", whose),
        create_manage_reminder_tool(context=whose.scope, coordinator=whose.coordinator),
    ]


class Done(NamedTuple):
    """What a model did in a turn by its memory tools, or learned, for the turn's result."""

    revised: list[dict[str, Any]]
    reminded: list[dict[str, Any]]
    learned: list[dict[str, Any]]

    @classmethod
    def of(cls, messages: Sequence[BaseMessage]) -> Done:
        """Find what was done in the turn that these messages end with."""
        answers = [one for one in this_turn(messages) if isinstance(one, ToolMessage)]
        ours = [one.artifact for one in answers if TRUST in one.additional_kwargs]
        told = [one for one in ours if isinstance(one, Mapping)]
        return cls(*([each for one in told for each in one.get(name, ())] for name in cls._fields))

    @property
    def retracted(self) -> list[str]:
        """Return the keys of what was taken back."""
        return [one["retracted"] for one in self.revised if "retracted" in one]

    def of_state(self, state: Any) -> dict[str, Any]:
        """Return the update of the state: what was done, in place of what an earlier turn did."""
        return {
            name: done
            for name, done in self._asdict().items()
            if done or of_state(state, name, None)
        }


_CALL: Final[ContextVar[str | None]] = ContextVar("langmem_tiers_tool_call", default=None)
"""The id of the tool call that is carried out."""


class _ContextTool(StructuredTool):
    """A tool of a context's memory; its answers say so, and how far what they bring is trusted."""

    @property
    def tool_call_schema(self) -> ArgsSchema:
        """What a model is told, which pays for it at each call: types and meanings, no defaults."""
        schema = super().tool_call_schema
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            schema.model_config["json_schema_extra"] = _bare
        return schema

    def run(self, tool_input: Any, *given: Any, **options: Any) -> Any:
        """Run it, blocking."""
        with _called(options):
            return _trusted(super().run(tool_input, *given, **options))

    async def arun(self, tool_input: Any, *given: Any, **options: Any) -> Any:
        """Run it, awaiting."""
        with _called(options):
            return _trusted(await super().arun(tool_input, *given, **options))


def _bare(schema: dict[str, Any]) -> None:
    for one in schema["properties"].values():
        for name in ("default", "minimum", "maximum"):
            one.pop(name, None)


@contextmanager
def _called(options: Mapping[str, Any]) -> Iterator[None]:
    token = _CALL.set(options.get("tool_call_id"))
    try:
        yield
    finally:
        _CALL.reset(token)


def _trusted(answer: Any) -> Any:
    """Mark an answer to a model with the trust in what it brings: the memories that were found."""
    if not isinstance(answer, ToolMessage):
        return answer
    found = answer.artifact if isinstance(answer.artifact, list) else []
    noted = {**answer.additional_kwargs, TRUST: min(map(trust_of, found), default=1.0)}
    done = answer.artifact if isinstance(answer.artifact, dict) else {}
    return answer.model_copy(update={"additional_kwargs": noted, "artifact": done})


def made(
    does: Callable[..., Flow[Any]],
    name: str,
    description: str,
    takes: type[BaseModel],
    kind: type[StructuredTool],
    **further: Any,
) -> BaseTool:
    """Make a tool for `invoke` and `ainvoke` of one flow."""
    checked_text(name, "name")
    call, acall = ways(does)
    return kind(
        name=name,
        description=description.strip(),
        args_schema=takes,
        func=call,
        coroutine=acall,
        handle_tool_error=True,
        **further,
    )


@contextmanager
def told_to_model() -> Iterator[None]:
    """Tell the model what it got wrong, or that memory is away, and let the run go on."""
    try:
        yield
    except InvalidInputError as error:
        raise ToolException(str(error)) from error
    except (NotSetUpError, MigrationError):
        raise  # these do not mend themselves
    except (DatabaseError, EmbeddingFailedError) as error:
        _log.warning("a tool goes without its memory: %s", error)
        unknown = isinstance(error, OutcomeUnknownError)
        raise ToolException(prompts.MEMORY_IN_DOUBT if unknown else prompts.MEMORY_AWAY) from error
