"""The fields of a row that verbs read: a row that one of them could not read is refused at import.

Triggers, states and receipts are read by the very models that write them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, StrictInt, ValidationError

from langmem_tiers.carry.file import as_read
from langmem_tiers.core.errors import InvalidInputError, TieredMemoryError, short
from langmem_tiers.core.memory import STATES, TIERS
from langmem_tiers.core.namespaces import decode, encode
from langmem_tiers.forget.receipt import ForgetReceipt
from langmem_tiers.remind.intentions import PRIORITIES, STORED_AS
from langmem_tiers.remind.triggers import of_json
from langmem_tiers.state.flows import EMOTION, GOAL, SPEND, TASK, TRANSACTION
from langmem_tiers.state.state import DailySpend, EmotionalState, Goal, Message, Task, of_value

_TURN: Final = "turn/"
"""The beginning of the names of events that a turn decided."""
_COMMITTED: Final = "committed"
_GONE: Final = frozenset(("rejected", "evicted"))
_INFINITE: Final = ("infinity", "-infinity")
_CHECKSUM: Final = re.compile(r"[0-9a-f]{64}")
M = TypeVar("M", bound=BaseModel)


def _moment(text: str) -> str:
    if text not in _INFINITE and datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a moment says its time zone")
    return text


Moment = Annotated[str, AfterValidator(_moment)]


class _Read(BaseModel):
    """Fields that verbs read; others may stand beside them."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)


class Counters(_Read):
    """The counters of a memory, as a move notes them."""

    tenant: str | None = None
    id: int | None = None
    access_count: int | None = None
    success_count: int | None = None
    failure_count: int | None = None
    last_accessed_at: Moment | None = None
    strength: float | None = None
    strength_at: Moment | None = None


class Told(_Read):
    """The detail of any event."""

    reasons: list[str] = []
    turn: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    session_id: str | None = None


class Move(Told):
    """The detail of an event of a memory."""

    key: str | None = None
    namespace: str | None = None
    tier: Literal["short_term", "working", "long_term"] | None = None
    sources: list[StrictInt] = []
    again: list[StrictInt] = []
    versions: dict[str, Moment] | None = {}
    """None where a promotion marked nothing."""
    handed: Counters = Counters()
    had: Counters | None = None
    updated_at: Moment | None = None
    valid_to: Moment | None = None
    expires_at: Moment | None = None
    ttl_minutes: float | None = None
    trust: float | None = None


class Gone(Move):
    """The detail of what is left of a memory that was rejected, or made room."""

    key: str
    namespace: str


class Kept(_Read):
    """A memory that a turn stored."""

    key: str
    namespace: str
    tier: Literal["short_term", "working", "long_term"]
    held: str | None
    evicted: list[str]


class Committed(Told):
    """The detail of the end of a committed turn."""

    began: Moment
    summary: dict[str, int]
    wanted: list[str]
    stored: list[Kept]
    refused: dict[str, str] = {}
    goals: list[dict[str, Any]]
    lessons: list[str]
    skills: list[str]


def check_read(table: str, row: Mapping[str, Any]) -> None:
    """Check that every verb can read a row whose columns are of their types.

    Raises:
        InvalidInputError: if one could not.
    """
    if (check := _CHECKS.get(table)) is None:
        return
    try:
        check(row)
    except TieredMemoryError as error:
        raise InvalidInputError(f"a row of {table} that no verb reads: {error}") from error


def _check_memory(row: Mapping[str, Any]) -> None:
    _check_among("state", row["state"], {None, *STATES})
    if row["ttl_minutes"] is not None:
        _check_count("ttl_minutes", row["ttl_minutes"])
    if not isinstance(row["value"], dict):
        raise InvalidInputError("memories.value is no object")


def _check_event(row: Mapping[str, Any]) -> None:
    model: type[_Read] = Gone if row["kind"] in _GONE else Move
    if row["event"].startswith(_TURN):
        model = Committed if row["kind"] == _COMMITTED else Told
    _checked(model, row["detail"], "detail")


def _check_intention(row: Mapping[str, Any]) -> None:
    _check_among("priority", row["priority"], set(range(len(PRIORITIES))))
    _check_among("status", row["status"], {str(each) for one in STORED_AS.values() for each in one})
    trigger = of_json(as_read(row["trigger"]))
    _check_among("kind", row["kind"], {trigger.kind})
    words = row["words"]
    if words is not None and not all(isinstance(one, str) for one in words):
        raise InvalidInputError("words are texts")


def _check_state(row: Mapping[str, Any]) -> None:
    value, name = as_read(row["value"]), row["name"]
    if encode(decode(row["tenant"], row["owner"])).namespace != row["owner"]:
        raise InvalidInputError(f"owner is {short(row['owner'])}: nobody is called so")
    match row["kind"]:
        case "message" if isinstance(value, dict):
            of_value(Message, {**value, "message_id": name, "at": row["at"]})
            called = name
        case kind if kind == TASK:
            called = of_value(Task, value).task_id
        case kind if kind == GOAL:
            called = of_value(Goal, value).goal_id
        case kind if kind == SPEND:
            called = of_value(DailySpend, value).date.isoformat()
        case kind if kind == EMOTION:
            of_value(EmotionalState, value)
            called = ""
        case kind if kind == TRANSACTION and isinstance(value, dict):
            called = name
        case kind:
            raise InvalidInputError(f"{short(kind)} is no kind of state, or its value no object")
    _check_among("name", name, {called})


def _check_forgetting(row: Mapping[str, Any]) -> None:
    receipt = ForgetReceipt.of_json(as_read(row["detail"]))
    _check_among("receipt", row["receipt"], {receipt.receipt})
    _check_among("tenant", row["tenant"], {receipt.tenant})


def _check_sizes(row: Mapping[str, Any]) -> None:
    if len(row["words"]) != len(row["counts"]) or len(row["crowded"]) != len(row["tiers"]):
        raise InvalidInputError("words have counts, and crowded places tiers, as many as they are")
    _check_count("memories", row["memories"])
    for one in row["counts"]:
        _check_count("counts", one)
    for one in row["tiers"]:
        _check_among("tiers", one, set(TIERS))


def _check_archive(row: Mapping[str, Any]) -> None:
    if not row["url"].strip() or _CHECKSUM.fullmatch(row["checksum"]) is None:
        raise InvalidInputError("an archive has the URL of a file, and its SHA-256")


def _check_count(name: str, found: object) -> None:
    number = as_read(found)
    if not isinstance(number, int | float) or not 0 <= number < float("inf"):
        raise InvalidInputError(f"{name} is {short(number)}: it is a number from 0 on")


def _check_among(name: str, found: object, known: set[Any]) -> None:
    if not (found is None or isinstance(found, str | int)) or found not in known:
        among = short(sorted(map(str, known)))
        raise InvalidInputError(f"{name} is {short(found)}, and none of {among}")


def _checked(model: type[M], value: object, where: str) -> M:
    try:
        return model.model_validate(as_read(value))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        at = short(".".join(map(str, (where, *wrong["loc"]))))
        raise InvalidInputError(f"{at}: {wrong['msg']}") from error


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    "memories": _check_memory,
    "events": _check_event,
    "intentions": _check_intention,
    "archives": _check_archive,
    "states": _check_state,
    "forgettings": _check_forgetting,
    "tenant_sizes": _check_sizes,
}
