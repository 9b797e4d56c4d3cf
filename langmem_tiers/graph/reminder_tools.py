"""The tool by which a model sets reminders, closes them, and puts them off."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from langmem_tiers.core import prompts
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.handles import bracketed
from langmem_tiers.core.memory import Source
from langmem_tiers.graph.heard import messages_so_far
from langmem_tiers.graph.memory_tools import Asking, Told, handle_of_key
from langmem_tiers.graph.runs import asked
from langmem_tiers.graph.speakers import trusting
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.fence import long_day
from langmem_tiers.remind.triggers import At

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
