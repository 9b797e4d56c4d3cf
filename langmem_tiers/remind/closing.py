"""Putting off and closing what is intended, as flows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.remind.intentions import OPEN, Status
from langmem_tiers.remind.raising import Here
from langmem_tiers.remind.triggers import At, of_json


def snooze(one: int, until: datetime, here: Here) -> Flow[None]:
    """Put off an intention.

    Raises:
        InvalidInputError: if it is none, is closed, or will have expired by then.
    """
    if not (yield from _changed("snooze", one, here, until=until)):
        found = yield from _standing(one, here)
        if found.status in OPEN:
            raise InvalidInputError(
                f"it expires at {found.expires_at}, and would never be raised after {until}: "
                "snooze it for less, or intend it anew with another `expires_at`"
            )
        raise InvalidInputError(f"it is {found.status}, and cannot be put off: intend it anew")


def close(one: int, status: Status, here: Here) -> Flow[bool]:
    """Close an intention for good; False if it was closed already.

    One that recurs is done until its next time.

    Raises:
        InvalidInputError: if it is none.
    """
    if status is Status.DONE and (yield from _done_until_next(one, here)):
        return True
    changed = yield from _changed("close_intention", one, here, status=status.value)
    if not changed:
        yield from _standing(one, here)
    return changed


def _done_until_next(one: int, here: Here) -> Flow[bool]:
    """Whether it recurs and is open: then it is not raised before its next time."""
    standing, now = (yield from _standing(one, here)), here.moment.now
    trigger = of_json(standing.trigger)
    again = trigger.again(now, standing.expires_at) if isinstance(trigger, At) else None
    if again is None or standing.status not in OPEN:
        return False
    if standing.due_at <= now:
        yield from _changed("snooze", one, here, until=again)
    return True


def _changed(statement: str, one: int, here: Here, **params: Any) -> Flow[bool]:
    known = {"tenant": here.context.root, "id": one, "now": here.moment.now, **params}
    (rows,) = yield Query((Call(statement, known),), commit=True)
    return bool(rows)


class _Standing(NamedTuple):
    """What an intention is; a row of intention, the columns are in this order."""

    status: Status
    expires_at: datetime | None
    trigger: Mapping[str, Any]
    due_at: datetime


def _standing(one: int, here: Here) -> Flow[_Standing]:
    params = {"tenant": here.context.root, "id": one, "now": here.moment.now}
    (rows,) = yield Query((Call("intention", params),), commit=True)
    if not rows:
        raise InvalidInputError(
            "the memory is there, but nothing is intended by it: use intend(…) in place of store(…)"
        )
    status, *others = rows[0]
    return _Standing(Status(status), *others)
