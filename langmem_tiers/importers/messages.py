"""Lists of chat messages: one list is one conversation, one message is one record."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from langmem_tiers.importers.dates import utc_date
from langmem_tiers.importers.records import BadRecord, Draft, Drafts, Format, Unit, Units
from langmem_tiers.importers.settle import attempt

_DATES = ("occurred_at", "timestamp", "created_at", "created", "create_time", "date")
_SESSIONS = ("session", "session_id", "thread_id", "conversation_id", "id")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a message stands: its line, its session, its turn and the session's date."""

    where: Callable[[], int]
    session: str
    turn: int
    date: object


def first_message(value: object) -> object:
    """Return the first message of a list, of an object with `messages`, or the value itself."""
    found = value.get("messages", value) if isinstance(value, dict) else value
    return (found[0] if found else None) if isinstance(found, list) else found


def read_messages(
    units: Units, *, form: Format, stem: str, facts: Callable[[object], dict[str, Any]]
) -> Drafts:
    """Yield one draft a message; `facts` says what a message of this form holds.

    Messages that stand alone make up one session, named after the file; each list is one of
    its own, named by the identifier beside it or by the file and its number.
    """
    alone = 0
    for number, unit in enumerate(units, start=1):
        if isinstance(unit, BadRecord):
            yield unit
        elif _is_list(unit.value):
            yield from _conversation(unit, f"{stem}-{number}", form, facts)
        else:
            alone += 1
            where = partial(unit.where, ())
            place = _Place(where=where, session=stem, turn=alone, date=None)
            yield attempt(where, unit.value, partial(_draft, unit.value, place, form, facts))


def _is_list(value: object) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and "messages" in value)


def _conversation(
    unit: Unit, name: str, form: Format, facts: Callable[[object], dict[str, Any]]
) -> Drafts:
    around = unit.value if isinstance(unit.value, dict) else {}
    messages = around.get("messages", unit.value)
    if not isinstance(messages, list) or not messages:
        reason = "this conversation is not a list of messages, or has none"
        yield BadRecord(line=unit.where(()), reason=reason)
        return
    session, date = _session(around, name), date_in(around)
    for index, message in enumerate(messages):
        path = ("messages", index) if around else (index,)
        where = partial(unit.where, path)
        place = _Place(where=where, session=session, turn=index + 1, date=date)
        yield attempt(where, message, partial(_draft, message, place, form, facts))


def _session(around: Mapping[str, Any], name: str) -> str:
    named = (around.get(field) for field in _SESSIONS)
    return next((found for found in named if isinstance(found, str) and found.strip()), name)


def date_in(fields: Mapping[str, Any]) -> object:
    """Return the date written in the first date field that has one."""
    return next(_present(fields, _DATES), None)


def _present(fields: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[Any]:
    return (fields[name] for name in names if fields.get(name) is not None)


def _draft(
    message: object, place: _Place, form: Format, facts: Callable[[object], dict[str, Any]]
) -> Draft:
    value = {
        **facts(message),
        "session_id": place.session,
        "turn": place.turn,
        "source": form.value,
    }
    date = value.pop("occurred_at", None) or place.date
    if date is not None:
        value["occurred_at"] = utc_date(date)
    return Draft(value=value, where=place.where)
