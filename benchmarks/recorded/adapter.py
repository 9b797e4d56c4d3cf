"""What the record knows of the inside of the package: adapt this when modules move, nothing else.

`noted` has every statement that any session sends noted by its name, round trip by round trip.
`at_rest` keeps what the package does after some seconds from happening in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any
from unittest.mock import patch

from langmem_tiers import TieredStore
from langmem_tiers.cli.app import app
from langmem_tiers.cli.memories import import_records
from langmem_tiers.importers import count_records, detect_format, read_records
from langmem_tiers.interop import (
    aimport_chat_history,
    aopen_tier,
    import_chat_history,
    open_tier,
)
from langmem_tiers.learn.skills import ToolCall, Trace
from langmem_tiers.memory.feedback import arecord_feedback, record_feedback
from langmem_tiers.postgres.flow import Query
from langmem_tiers.postgres.session import Session
from langmem_tiers.recall.fence import with_recalled
from langmem_tiers.remember.candidate import Candidate
from langmem_tiers.remember.private import detectors
from langmem_tiers.remind.triggers import Occasion
from langmem_tiers.store import accesses
from langmem_tiers.store import flows as store_flows
from langmem_tiers.turn.assembly import assemble_context
from langmem_tiers.turn.ending import commit, fail, leave
from langmem_tiers.turn.keeping import memorized

__all__ = [
    "Candidate",
    "Occasion",
    "ToolCall",
    "Trace",
    "aimport_chat_history",
    "aopen_tier",
    "app",
    "arecord_feedback",
    "assemble_context",
    "at_rest",
    "commit",
    "count_records",
    "detect_format",
    "detectors",
    "fail",
    "import_chat_history",
    "import_records",
    "leave",
    "memorized",
    "noted",
    "open_tier",
    "read_records",
    "record_feedback",
    "statements",
    "with_recalled",
]
"""What scenarios use that the package does not offer at its top, and what is done to it."""

MIGRATIONS = "migrations"
"""The table of versions, which is not recorded."""
PACKAGE = "langmem_tiers"


@contextmanager
def noted(note: Callable[[str], object]) -> Iterator[None]:
    """Note what sessions send: names joined by `+` for a round trip, with `.` where it commits."""
    with (
        _told(Session, "_execute", lambda args: note(_names(args[-1]))),
        _told(Session, "_script", lambda _: note("(script)")),
        _told(Session, "_build", lambda _: note("(build)")),
    ):
        yield


@contextmanager
def at_rest() -> Iterator[None]:
    """Accesses are written when they are asked for, and what is known of the index is kept."""
    with (
        patch.object(accesses, "FLUSH_SECONDS", math.inf),
        patch.object(store_flows, "_STATE_SECONDS", math.inf),
    ):
        yield


def statements(store: TieredStore) -> list[str]:
    """A line for each statement of an open store: its parameters, and the digest of its text."""
    known = store.target.statements
    lines = []
    for name, (text, names, writes) in sorted(known.items()):
        digest = sha256(b" ".join(text.split())).hexdigest()[:16]
        lines.append(f"{name}({', '.join(names)}){' writes' if writes else ''} {digest}")
    return lines


def _told(owner: type[Any], method: str, tell: Callable[[tuple[Any, ...]], object]) -> Any:
    """A patch of a method that tells its arguments first."""
    does = getattr(owner, method)

    def telling(*args: Any) -> Any:
        tell(args)
        return does(*args)

    return patch.object(owner, method, telling)


def _names(query: Query) -> str:
    return "+".join(call.name for call in query.calls) + "." * query.commit
