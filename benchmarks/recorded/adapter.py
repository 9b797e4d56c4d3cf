"""What the record knows of the inside of the package: adapt this when modules move, nothing else.

`noted` has every statement that any session sends noted by its name, round trip by round trip.
`at_rest` keeps what the package does after some seconds from happening in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from langmem_tiers import accesses, session, store_flows
from langmem_tiers.flow import Query

SESSIONS: tuple[type[Any], ...] = (session.Session, session.AsyncSession)
MIGRATIONS = "migrations"
"""The table of versions, which is not recorded."""
PACKAGE = "langmem_tiers"

_ASIDE = {"_script": "(script)", "_build": "(build)"}
"""What a session sends that is no named statement."""


@contextmanager
def noted(note: Callable[[str], object]) -> Iterator[None]:
    """Note what sessions send: names joined by `+` for a round trip, with `.` where it commits."""
    with ExitStack() as stack:
        for one in SESSIONS:
            stack.enter_context(_told(one, "_execute", lambda args: note(_names(args[-1]))))
            for method, said in _ASIDE.items():
                stack.enter_context(_told(one, method, lambda _, said=said: note(said)))
        yield


@contextmanager
def at_rest() -> Iterator[None]:
    """Accesses are written when they are asked for, and what is known of the index is kept."""
    with (
        patch.object(accesses, "FLUSH_SECONDS", math.inf),
        patch.object(store_flows, "_STATE_SECONDS", math.inf),
    ):
        yield


def _told(owner: type[Any], method: str, tell: Callable[[tuple[Any, ...]], object]) -> Any:
    does = getattr(owner, method)

    def telling(*args: Any) -> Any:
        tell(args)
        return does(*args)

    return patch.object(owner, method, telling)


def _names(query: Query) -> str:
    return "+".join(call.name for call in query.calls) + "." * query.commit
