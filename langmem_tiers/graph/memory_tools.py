"""The three tools by which a model keeps the memory of its run's context.

Each answers with one line. Its changes are also in the artifact of the answer, from which the
middleware collects those of the turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_core.tools.base import ArgsSchema
from langgraph.runtime import get_runtime
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from langmem_tiers.coordinator import recall
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.remember import check_room
from langmem_tiers.core import checks, errors, prompts, types, values
from langmem_tiers.core import memory as nouns
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection, StoreResult, bracket_handle, handle_of
from langmem_tiers.core.texts import LINE_LENGTH, shorten_line
from langmem_tiers.core.values import SMALL_TALK
from langmem_tiers.graph.messages import annotate_answer, last_failure
from langmem_tiers.graph.reminders import reminder_line
from langmem_tiers.graph.runtime import (
    NodeConfig,
    Scope,
    Step,
    both_forms,
    invoke,
    last_question,
    thread_of,
)
from langmem_tiers.graph.speakers import (
    TRUST_KEY,
    message_key,
    messages_so_far,
    speakers_in,
    trust_in_step,
)
from langmem_tiers.learning.reflexion import failure_fields
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.prompt_text import escape_fences, long_day, recalled_text
from langmem_tiers.recall.question import TALKS
from langmem_tiers.remember.new_memory import checked_text
from langmem_tiers.reminders.triggers import At

_log = logging.getLogger(__name__)
Action = Literal["create", "update", "delete"]
Kind = Literal["fact", "event", "procedure", "lesson"]
ReminderAction = Literal["set", "done", "snooze", "cancel"]
ToolResult: TypeAlias = tuple[str, Any]
"""Answer of a tool: a line for the model, and its changes, for the turn's result."""
Text: TypeAlias = str | SkipJsonSchema[None]

_TYPES: Final = {
    "fact": "semantic",
    "event": "episodic",
    "procedure": "procedural",
    "lesson": types.REFLEXION,
}
THIS: Final = "this"
"""Name by which a model refers to the message that it answers."""
_USER_MEMORIES: Final = 20
"""Memories about a user that are listed without a query: our own choice."""
_CALL_ID: Final[ContextVar[str | None]] = ContextVar("langmem_tiers_tool_call", default=None)
"""Id of the tool call that runs."""


# Arguments of the tools, and how a tool is made


def _optional(description: str | None = None) -> Any:
    """Make a field that may be left out; the model may send null as well."""
    return Field(None, description=description)


class SearchMemory(BaseModel):
    """Arguments of `search_memory`."""

    model_config = ConfigDict(title="search_memory")

    query: str = Field(description="Empty lists the newest")
    about: Literal["user"] | SkipJsonSchema[None] = _optional("Known of the user")
    limit: int = Field(10, ge=1, le=50)


class ManageMemory(BaseModel):
    """Arguments of `manage_memory`."""

    model_config = ConfigDict(title="manage_memory")

    action: Action
    content: Text = _optional()
    id: Text = _optional("Or 'this' message")
    kind: Kind | SkipJsonSchema[None] = _optional()
    pin: bool | SkipJsonSchema[None] = _optional("Show it always")


class ManageReminder(BaseModel):
    """Arguments of `manage_reminder`."""

    model_config = ConfigDict(title="manage_reminder")

    action: ReminderAction
    content: Text = _optional()
    id: Text = _optional()
    at: Text = _optional("ISO 8601, local")
    every: Text = _optional("RFC 5545 rule")
    cue: Text = _optional("When these words come up")
    before_tool: Text = _optional()


class OwnTool(StructuredTool):
    """Tool whose answers are marked as this package's own, whatever its name.

    The mark holds the trust in the memories that the answer brings.
    """

    schema_extra: Any = None
    """Change of the schema that a model is shown: a mapping or a function."""
    find_values: Callable[[ToolMessage], Sequence[Any]] = lambda _: ()
    """Function that returns the values of the memories in an answer."""
    artifact_is_changes: bool = False
    """True if the artifact of an answer may only be a mapping of changes."""

    @property
    def tool_call_schema(self) -> ArgsSchema:
        """Return the schema that a model is shown."""
        schema = super().tool_call_schema
        extra = self.schema_extra
        if extra is not None and isinstance(schema, type) and issubclass(schema, BaseModel):
            schema.model_config["json_schema_extra"] = extra
        return schema

    def run(self, tool_input: Any, *args: Any, **options: Any) -> Any:
        """Run the tool, blocking."""
        with _current_call(options):
            return self._mark_trust(super().run(tool_input, *args, **options))

    async def arun(self, tool_input: Any, *args: Any, **options: Any) -> Any:
        """Run the tool, awaiting."""
        with _current_call(options):
            return self._mark_trust(await super().arun(tool_input, *args, **options))

    def _mark_trust(self, answer: Any) -> Any:
        if not isinstance(answer, ToolMessage):
            return answer
        trust = min(map(values.trust_of, self.find_values(answer)), default=1.0)
        drops = self.artifact_is_changes and not isinstance(answer.artifact, dict)
        return annotate_answer(
            answer, {TRUST_KEY: trust}, artifact={} if drops else answer.artifact
        )


@contextmanager
def _current_call(options: Mapping[str, Any]) -> Iterator[None]:
    token = _CALL_ID.set(options.get("tool_call_id"))
    try:
        yield
    finally:
        _CALL_ID.reset(token)


def _strip_schema(schema: dict[str, Any]) -> None:
    """Drop defaults and limits from a schema: a model pays for it at each call."""
    for field_schema in schema["properties"].values():
        for name in ("default", "minimum", "maximum"):
            field_schema.pop(name, None)


def _found_values(answer: ToolMessage) -> Sequence[Any]:
    """Return the values of the found memories."""
    return answer.artifact if isinstance(answer.artifact, list) else ()


def make_tool(
    does: Callable[..., Flow[Any]],
    name: str,
    description: str,
    takes: type[BaseModel],
    **further: Any,
) -> BaseTool:
    """Make a tool for `invoke` and `ainvoke` from a flow."""
    checked_text(name, "name")
    call, acall = both_forms(does)
    return OwnTool(
        name=name,
        description=description.strip(),
        args_schema=takes,
        func=call,
        coroutine=acall,
        handle_tool_error=True,
        **further,
    )


@contextmanager
def errors_to_model() -> Iterator[None]:
    """Tell the model its mistake, or that memory is away, and let the run go on."""
    try:
        yield
    except InvalidInputError as error:
        raise ToolException(str(error)) from error
    except (errors.DatabaseError, errors.EmbeddingError) as error:
        away = isinstance(error, errors.DatabaseError) or error.code == "model_failed"
        if not away or error.code in errors.PERMANENT_CODES:
            raise
        _log.warning("a tool goes without its memory: %s", error)
        unknown = isinstance(error, errors.OutcomeUnknownError)
        raise ToolException(prompts.MEMORY_IN_DOUBT if unknown else prompts.MEMORY_AWAY) from error


def _call_key(step: Step) -> str:
    """Return the key of the memory that a tool call stores; a repeated call has the same key.

    The id of the call is not enough: some servers count calls anew in each answer.
    """
    call = _CALL_ID.get()
    if call is None:
        return str(uuid4())
    for message in reversed(step.messages):
        if isinstance(message, AIMessage) and call in [
            tool_call["id"] for tool_call in message.tool_calls
        ]:
            return str(uuid5(NAMESPACE_OID, f"{thread_of(step.config)}\0{message.id}\0{call}"))
    return str(uuid5(NAMESPACE_OID, f"{step.run.id}\0{call}"))


def make_context_tool(
    tool: Literal["search", "manage", "remind"], name: str, instructions: str, config: NodeConfig
) -> BaseTool:
    """Make one of the three tools for the memory of the run's context."""
    does, takes, text = _TOOLS[tool]

    def doing(**arguments: Any) -> Flow[ToolResult]:
        step = config.step(messages_so_far(ensure_config()), get_runtime())
        with errors_to_model():
            return (yield from does(step, takes(**arguments)))

    description = f"{text}\n{checks.checked_instance(instructions, str, 'instructions')}"
    return make_tool(
        doing,
        name,
        description,
        takes,
        schema_extra=_strip_schema,
        find_values=_found_values,
        artifact_is_changes=True,
        response_format="content_and_artifact",
    )


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
    nothing, and is then due at once. The tool's message names the model's mistakes, such as a time
    in the past.

    Args:
        instructions: The text at the end of the tool's description.
        context, coordinator: Options of every node; see `create_recall_node`.
        name: The tool's name for the model.

    Example:
        ```python
        from langmem_tiers import create_manage_reminder_tool

        reminders = create_manage_reminder_tool()
        ```
    """
    return make_context_tool("remind", name, instructions, NodeConfig(context, coordinator))


def make_memory_tools(config: NodeConfig) -> list[BaseTool]:
    """Make the three tools that an agent's model is given."""
    return [
        make_context_tool("search", "search_memory", "", config),
        make_context_tool("manage", "manage_memory", "", config),
        make_context_tool("remind", "manage_reminder", "", config),
    ]


# Searching and changing memories


def _search_memory(step: Step, args: SearchMemory) -> Flow[ToolResult]:
    """Find memories for a model; those about a user are pins and the user's own words."""
    memory, query = step.memory, args.query
    pins: Sequence[Recollection] = ()
    options: Any = {"limit": args.limit, "deduplicate": True, "min_match": 0}
    question = last_question(step.messages)  # the question is no answer
    options["exclude"] = [] if question is None else [message_key(question, step.config)]
    if args.about == "user":
        options["filter"] = {"speaker": {"$ne": "assistant"}}
        pins = yield from invoke(memory.pinned)
        options["exclude"] += [pin.key for pin in pins]
        options["limit"] = args.limit if query.strip() else max(args.limit, _USER_MEMORIES)
    results = yield from invoke(memory.get_context, query, **options)
    shown = [result for result in results if args.about is None or _is_informative(result)]
    notes = [result for result in shown if result.memory_type != types.PROSPECTIVE]
    lines: list[str] = []
    if places := {result.place for result in shown if result.memory_type == types.PROSPECTIVE}:
        intentions = yield from invoke(memory.reminders.list)
        lines = [
            reminder_line(intention, memory.context.zone, memory.now)
            for intention in intentions
            if intention.place in places
        ]
    when: Any = {"now": memory.now, "asked": query or None}
    text = recalled_text(notes, pinned=pins, intended=lines, **when)
    return text or prompts.NOTHING_FOUND, [dict(result.value) for result in (*pins, *shown)]


def _is_informative(recollection: Recollection) -> bool:
    talk = recollection.value.get(SMALL_TALK)
    return not isinstance(talk, int | float) or talk < TALKS


def check_change(action: Action, named: object, content: object, *, pins: bool = False) -> None:
    """Refuse a change without the id or the content that it needs; one that only `pins` needs none.

    Raises:
        InvalidInputError: for such a change, in words for the model.
    """
    if action == "create" and named is not None:
        raise InvalidInputError(prompts.NO_ID_TO_CREATE)
    if action != "create" and named is None:
        raise InvalidInputError(prompts.ID_NEEDED.format(action=action))
    if content is None and (action == "create" or (action == "update" and not pins)):
        raise InvalidInputError(prompts.CONTENT_NEEDED.format(action=action))


def _manage_memory(step: Step, args: ManageMemory) -> Flow[ToolResult]:
    """Create, update or delete a memory, as a model decides.

    Raises:
        InvalidInputError: for an impossible change, in words for the model; nothing was changed.
    """
    memory, action, content, pin = step.memory, args.action, args.content, args.pin
    check_change(action, args.id, content, pins=pin is not None)
    if args.id is None:
        creating = _create_memory(step, content or "", _TYPES[args.kind or "fact"], pin=bool(pin))
        return (yield from creating)
    old = yield from _find_changeable(step, args.id, action)
    handle = handle_of(old.namespace, old.key)
    if action == "delete":
        retracting = invoke(
            memory.truth.retract, old.key, reason=prompts.MODEL_DELETED, answers=True
        )
        move = (yield from retracting).move
        fields = {
            "id": bracket_handle(handle),
            "said": escape_fences(shorten_line(old.content, LINE_LENGTH)),
        }
        revised = {"retracted": old.key, "handle": handle, "move": move}
        return prompts.MEMORY_DELETED.format_map(fields), {"revised": [revised]}
    if content is None:
        yield from invoke(memory.pin if pin else memory.unpin, old.key)
        return f"{'Pinned' if pin else 'Unpinned'} {bracket_handle(handle)}.", {}
    memory_type = old.memory_type if args.kind is None else _TYPES[args.kind]
    return (yield from _update_memory(step, old, content, memory_type, pin=pin))


def _create_memory(step: Step, content: str, memory_type: str, *, pin: bool) -> Flow[ToolResult]:
    """Store a model's note as its own words, trusted no further than the messages before it."""
    memory = step.memory
    trust = yield from trust_in_step(step)
    options: Any = {
        "memory_type": memory_type,
        "trust": trust,
        "key": _call_key(step),
        "pinned": pin,
    }
    if memory_type == types.REFLEXION:
        options["personal"] = None if memory.context.user_id is None else True
        failed = last_failure(step.messages)
        options["further"] = {} if failed is None else failure_fields(failed)
    result = yield from invoke(memory.store, content, source=nouns.Source.AGENT.value, **options)
    handle, refusal = yield from _handle_and_refusal(memory, result)
    if refusal:
        held = {"key": result.key, "quarantined": True, "reason": result.reason}
        return refusal, {"learned": [held]} if result.quarantined else {}
    word = "Pinned" if pin else "Noted"
    return f"{word} as {bracket_handle(handle)}.", {
        "noted": [{"key": result.key, "handle": handle}]
    }


def _update_memory(
    step: Step, old: Recollection, content: str, memory_type: str, *, pin: bool | None
) -> Flow[ToolResult]:
    """Store a new content that supersedes an old memory, and move its pin.

    Raises:
        InvalidInputError: if the memory is not current, or for lack of room; nothing was changed.
    """
    memory, store = step.memory, step.memory.tiered_store
    current = recall.read_current(memory, [old.place])
    handle = handle_of(old.namespace, old.key)
    if not (yield from invoke(store.run, current)):
        done = yield from invoke(memory.get, _call_key(step))
        if done is not None and done.replaces is not None and done.replaces.handle == handle:
            text = prompts.MEMORY_UPDATED  # an earlier try of this call did it
            return text.format(new=bracket_handle(done.handle), old=bracket_handle(handle)), {}
        raise InvalidInputError(prompts.NOT_CURRENT.format(id=bracket_handle(handle)))
    stays_pinned = pin or (pin is None and old.value.get("pinned") is True)
    if stays_pinned:
        yield from invoke(store.run, check_room(memory, content, but=old.key))
    reply, done = yield from _create_memory(step, content, memory_type, pin=False)
    if "noted" not in done:
        return reply, done
    (new,) = done["noted"]
    move = yield from invoke(memory.truth.supersede, old.key, by=new["key"])
    if stays_pinned:
        yield from invoke(memory.pin, new["key"])  # superseding freed the old pin's room
    revised = {"superseded": old.key, "handle": handle, "move": move}
    text = prompts.MEMORY_UPDATED.format(
        new=bracket_handle(new["handle"]), old=bracket_handle(handle)
    )
    return text, {**done, "revised": [revised]}


def _find_changeable(step: Step, named: str, action: str) -> Flow[Recollection]:
    """Find the memory that a model names and may change.

    Raises:
        InvalidInputError: if there is none or several, or the model may not change it.
    """
    memory, question = step.memory, last_question(step.messages)
    this = named == THIS and question is not None
    if named == THIS and question is not None:
        named = message_key(question, step.config)
    recollection = yield from invoke(memory.get, named)
    if recollection is None:
        absent = prompts.NOT_THERE_YET if this else prompts.NOT_THERE
        raise InvalidInputError(absent.format(id=named, action=action))
    owner = memory.tiered_store.options.user_of(nouns.encode_namespace(recollection.namespace))
    is_own = memory.context.user_id is None or owner == memory.context.user_id
    if not is_own and values.source_of(recollection.value) != nouns.Source.AGENT:
        raise InvalidInputError(prompts.STANDS.format(id=named, action=action))
    trust = yield from trust_in_step(step)
    if trust < nouns.TRUST_THRESHOLD and values.trust_of(recollection.value) > trust:
        raise InvalidInputError(prompts.HEARD_TOO_MUCH.format(action=action))
    speaker = (recollection.speaker or "").lower()
    if speaker and speaker not in nouns.USER_ROLES | nouns.ASSISTANT_ROLES:
        speakers = yield from speakers_in(step.config, memory.gate)
        asker = "" if question is None else str(speakers.options(question)["speaker"])
        if asker.lower() != speaker:
            whose_words = {"id": named, "speaker": recollection.speaker, "action": action}
            raise InvalidInputError(prompts.OTHERS_WORDS.format_map(whose_words))
    return recollection


def _handle_and_refusal(memory: MemoryCoordinator, result: StoreResult) -> Flow[tuple[str, str]]:
    """Return the handle of a stored memory, and the gate's refusal in words for the model."""
    if not result.stored:
        return "", prompts.NOT_STORED.format(reason=result.reason)
    key = str(result.key)
    recollection = yield from invoke(memory.get, key)
    handle = key if recollection is None else handle_of(recollection.namespace, recollection.key)
    held = prompts.HELD_BACK.format(id=handle, reason=result.reason)
    return handle, held if result.quarantined else ""


# Reminders


def _manage_reminder(step: Step, args: ManageReminder) -> Flow[ToolResult]:
    """Set, close or snooze a reminder, as a model decides.

    Raises:
        InvalidInputError: for an impossible change, in words for the model; nothing was changed.
    """
    memory, action, named = step.memory, args.action, args.id
    moment = None if args.at is None else _parse_moment(args.at, memory)
    if action == "set":
        if args.content is None:
            raise InvalidInputError(prompts.REMINDER_CONTENT_NEEDED)
        return (yield from _set_reminder(step, args.content, moment, args))
    if named is None:
        raise InvalidInputError(prompts.REMINDER_ID_NEEDED.format(action=action))
    changes = {"reminded": [{"action": action, "id": named}]}
    if action != "snooze":
        text, was_open = yield from _close_reminder(memory, named, done=action == "done")
        return text, changes if was_open else {}
    if moment is None:
        raise InvalidInputError(prompts.TIME_NEEDED)
    yield from invoke(memory.reminders.snooze, named, moment)
    return prompts.REMINDER_SNOOZED.format(
        id=_bracketed_id(named), when=_format_moment(moment, memory)
    ), changes


def _close_reminder(memory: MemoryCoordinator, named: str, *, done: bool) -> Flow[tuple[str, bool]]:
    """Close a reminder, and tell if it was open; a recurring one is done until its next time."""
    if (yield from invoke(memory.get, named)) is None:
        raise InvalidInputError(prompts.NO_REMINDER.format(id=named))
    shown = _bracketed_id(named)
    if not (
        yield from invoke(memory.reminders.complete if done else memory.reminders.cancel, named)
    ):
        return prompts.REMINDER_WAS_CLOSED.format(id=shown), False
    if not done:
        return prompts.REMINDER_CANCELLED.format(id=shown), True
    still_open = yield from invoke(memory.reminders.list)
    again = next(
        (
            intention
            for intention in still_open
            if shown in map(bracket_handle, (intention.key, intention.handle))
        ),
        None,
    )
    if again is None:
        return prompts.REMINDER_DONE.format(id=shown), True
    when = _format_moment(again.due_at, memory)
    return prompts.REMINDER_COMES_AGAIN.format(id=shown, when=when), True


def _bracketed_id(named: str) -> str:
    return bracket_handle(named.strip().strip("[]"))


def _set_reminder(
    step: Step, content: str, moment: datetime | None, args: ManageReminder
) -> Flow[ToolResult]:
    memory = step.memory
    waits: dict[str, Any] = {"at": moment, "cue": args.cue, "before_tool": args.before_tool}
    if args.every is not None:
        zone = memory.context.timezone or "UTC"
        moment = moment or memory.now
        waits = {"at": At(moment, every=args.every, timezone=zone)}
    noted_as = {name: value for name, value in waits.items() if value is not None}
    noted_as |= {"trust": (yield from trust_in_step(step)), "key": _call_key(step)}
    result = yield from invoke(
        memory.reminders.add, content, source=nouns.Source.AGENT.value, **noted_as
    )
    handle, refusal = yield from _handle_and_refusal(memory, result)
    if refusal:
        return refusal, {}
    when = "" if moment is None else f" for {_format_moment(moment, memory)}"
    done = {"reminded": [{"action": "set", "id": handle}]}
    return prompts.REMINDER_SET.format(id=bracket_handle(handle), when=when), done


def _parse_moment(text: str, memory: MemoryCoordinator) -> datetime:
    """Read a moment in ISO 8601; without a zone it is in the context's.

    Raises:
        InvalidInputError: if it is no moment, or in the past.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidInputError(prompts.NO_TIME.format(at=text)) from error
    if moment.tzinfo is None:
        # a time that clocks skip in spring means an hour later, also in the confirmation
        moment = moment.replace(tzinfo=memory.context.zone).astimezone(UTC)
    if moment < memory.now.replace(second=0, microsecond=0):
        raise InvalidInputError(
            prompts.TIME_OVER.format(at=text, now=_format_moment(memory.now, memory))
        )
    return moment


def _format_moment(moment: datetime, memory: MemoryCoordinator) -> str:
    local = moment.astimezone(memory.context.zone)
    return f"{long_day(local.date())}, {local:%H:%M}"


_TOOLS: Final[dict[str, tuple[Callable[..., Flow[ToolResult]], type[BaseModel], str]]] = {
    "search": (_search_memory, SearchMemory, prompts.SEARCH_CONTEXT),
    "manage": (_manage_memory, ManageMemory, prompts.MANAGE_CONTEXT),
    "remind": (_manage_reminder, ManageReminder, prompts.REMIND_CONTEXT),
}
"""Flow, arguments and description of each tool."""
