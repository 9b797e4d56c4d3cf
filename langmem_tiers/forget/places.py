"""The places of a tenant's texts, and how they are read: `forget` and `verify_forgotten` both do.

A test compares them with the database's catalog, and tries each place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

from langmem_tiers.core.context import USER, named_by
from langmem_tiers.core.namespaces import decode
from langmem_tiers.core.reading import normalised
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.passages import labels_of, strings_of
from langmem_tiers.postgres.flow import Call, Flow, Query, aside
from langmem_tiers.recall.replay import seen_in

_OURS: Final = "a name of ours, or one of a few words"
_HASH: Final = "a hash"
_OF_VALUE: Final = "it is read from the value of its memory"
_GOES: Final = "it goes with its memory"

LOOKED_AT: Final[Mapping[str, tuple[str, ...]]] = {
    "memories": ("namespace", "key", "value", "session", "speaker", "user_id"),
    "exposures": ("run", "root", "project", "session", "settled_by", "user_id"),
    "events": ("event", "detail"),
    "intentions": ("trigger", "words", "name", "holder"),
    "states": ("owner", "name", "value"),
    "archived": ("namespace", "key", "user_id"),
    "recalls": ("turn", "recall", "user_id", "root", "project", "asked", "seen", "answered"),
    "audit": ("told",),
}
"""The columns of each table that may name somebody."""

STAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "memories": {
        "lexemes": _OF_VALUE,
        "signature": _OF_VALUE,
        "tool": _OF_VALUE,
        "state": _OURS,
    },
    "vectors": {"namespace": _GOES, "field": "the name of an indexed field, of the settings"},
    "lineage": {"event": "the name of a move, of ours"},
    "events": {"kind": _OURS},
    "intentions": {"kind": _OURS, "status": _OURS},
    "states": {"kind": _OURS},
    "cycles": {"step": _OURS},
    "leases": {"holder": "who consolidates, for a few minutes"},
    "exports": {"part": "where an export was put", "machine": "where an export was begun"},
    "imports": {"export": _OURS, "source": "who answers for an import, until it ends"},
    "tenant_sizes": {
        "words": "it is counted anew",
        "crowded": "it is counted anew",
    },
    "archives": {
        "archive": "the name of a file, by the number of a memory",
        "url": "where the settings put archives",
        "checksum": _HASH,
    },
    "archived": {"archive": "the name of a file, by the number of a memory"},
    "recalls": {"by": "versions of packages and names of models"},
    "audit": {
        "verb": _OURS,
        "told_hash": _HASH,
        "salt": "the key of hashes",
        "value_hash": _HASH,
        "hash": _HASH,
    },
    "audit_links": {"hash": _HASH},
    "tombstones": {"hash": _HASH},
    "tombstone_keys": {"secret": "the key of hashes"},
    "forgettings": {
        "receipt": _OURS,
        "asked": _HASH,
        "detail": "ids, counts, hashes and names of files",
        "files": "names of files that are to be removed",
        "threads": "names of threads that are to be deleted",
    },
}
"""All other columns of texts, each with the reason why nobody has to look at it."""

STRUCTURE: Final = frozenset(
    (
        *("memory_type", "tier", "source", "platform_source", "project_id", "agent_id"),
        *("session_id", "occurred_at", "valid_from", "valid_to", "signature", "tool", "turn"),
        "trust",
    )
)
"""What of a value says where and when, and nothing in words."""
_SAYING: Final = ("key", "value", "speaker")
"""What of a memory that a recall saw says anything."""
PAGE: Final = 200
"""Rows that are read at once: our own choice."""


class Known(NamedTuple):
    """A memory as forgetting looks at it.

    It is a row of memories_page, as the next ones are of their pages; columns are in this order.
    """

    id: int
    tier: str
    namespace: str
    key: str
    value: dict[str, Any]
    state: str | None
    user_id: str | None
    session: str | None
    speaker: str | None
    version: datetime | None = None
    """When it was last put; None of a line of a file."""

    @property
    def texts(self) -> list[str]:
        """All that it says."""
        told = {name: one for name, one in self.value.items() if name not in STRUCTURE}
        return [content_of(self.value), *strings_of(told)]

    @property
    def says(self) -> str:
        """What it says, as texts are compared."""
        return normalised(content_of(self.value))

    @property
    def said(self) -> list[Any]:
        """What it says, and whose and where it is."""
        place = [self.key, *labels_of(self.namespace)]
        return [self.value, *place, self.user_id, self.session, self.speaker]


class Event(NamedTuple):
    """What happened."""

    event: str
    kind: str
    id: int | None
    target: int | None
    detail: dict[str, Any]

    @property
    def turn(self) -> str | None:
        """The turn that decided it."""
        found = self.detail.get("turn")
        return found if self.event.startswith("turn/") and isinstance(found, str) else None

    @property
    def said(self) -> list[Any]:
        """What is told of it, and its name."""
        return [self.detail, unquote(self.event)]


class State(NamedTuple):
    """A short-term state."""

    owner: str
    kind: str
    name: str
    value: Any

    @property
    def user(self) -> str | None:
        """The label of the user whose own it is."""
        last = decode("", self.owner)[-1]
        return last if last.startswith(USER) else None

    @property
    def session(self) -> str | None:
        """The session of a message: the second label of a conversation's owner."""
        _, *labels = decode("", self.owner)
        return named_by(labels[1]) if self.kind == "message" and len(labels) > 1 else None

    @property
    def said(self) -> list[Any]:
        """Its value, its name, and whose it is."""
        return [*labels_of(self.owner), self.name, self.value]


class Recall(NamedTuple):
    """A recorded recall."""

    turn: str
    recall: str
    user_id: str | None
    ids: Sequence[int]
    asked: dict[str, Any]
    seen: bytes
    answered: list[Any]
    root: str | None = None
    project: str | None = None

    @property
    def saw(self) -> list[list[Any]]:
        """What the memories that it saw say: key, value and speaker of each."""
        return [[row[name] for name in _SAYING] for row in seen_in(self.seen)]

    @property
    def names(self) -> list[str | None]:
        """The texts that may name somebody, beside what was asked, seen and answered."""
        return [self.turn, self.recall, self.user_id, self.root, self.project]

    @property
    def said(self) -> list[Any]:
        """All of them."""
        return [*self.names, self.asked, self.answered, *self.saw]


class Waiting(NamedTuple):
    """What an intention waits for, and who holds it."""

    id: int
    trigger: Any
    words: Sequence[str] | None
    name: str | None
    holder: str | None

    @property
    def awaited(self) -> list[Any]:
        """What it waits for."""
        return [self.trigger, *(self.words or ()), self.name]

    @property
    def said(self) -> list[Any]:
        """What it waits for, and who holds it."""
        return [*self.awaited, self.holder]


class Archived(NamedTuple):
    """The place of an archived memory."""

    id: int
    namespace: str
    key: str
    user_id: str | None

    @property
    def said(self) -> list[Any]:
        """Its place, and whose it is."""
        return [*labels_of(self.namespace), self.key, self.user_id]


class Shown(NamedTuple):
    """What a run was shown."""

    run: str
    id: int
    root: str | None
    project: str | None
    session: str | None
    settled_by: str | None
    user_id: str | None

    @property
    def said(self) -> list[Any]:
        """Its names."""
        return [self.run, *self[2:]]


class Logged(NamedTuple):
    """What the audit log tells."""

    id: int
    memories: list[int]
    verb: str
    told: Mapping[str, Any]

    @property
    def places(self) -> Iterator[tuple[str, str]]:
        """The namespaces and keys that it tells."""
        if "key" in self.told:
            yield self.told["namespace"], self.told["key"]
        yield from ((namespace, key) for namespace, key in self.told.get("read", ()))

    @property
    def said(self) -> list[Any]:
        """The names of places, of a user, and of who acted."""
        whose = [self.told[name] for name in ("user", "actor") if name in self.told]
        places = ((*labels_of(namespace), key) for namespace, key in self.places)
        return [*(name for place in places for name in place), *whose]


class TextRow(Protocol):
    """A row of any of these tables."""

    @property
    def said(self) -> list[Any]:
        """All of it that may name somebody, as JSON."""
        ...


class Place(NamedTuple):
    """A table that is read a page after another."""

    page: str
    """The statement."""
    row: Callable[..., TextRow]
    start: Mapping[str, Any]
    """What the first page comes after: parameters for the columns that lead a row."""

    def name_of(self, one: Any) -> str:
        """The name of a row in its table."""
        return " ".join(map(str, one[: len(self.start)]))


PLACES: Final[Mapping[str, Place]] = {
    "memories": Place("memories_page", Known, {"after": 0}),
    "events": Place("events_page", Event, {"after": ""}),
    "audit": Place("audit_told", Logged, {"after": 0}),
    "states": Place("states_page", State, {"owner": "", "kind": "", "name": ""}),
    "recalls": Place("recalls_page", Recall, {"turn": "", "recall": ""}),
    "intentions": Place("intentions_page", Waiting, {"after": 0}),
    "archived": Place("archived_page", Archived, {"after": 0}),
    "exposures": Place("exposures_page", Shown, {"run": "", "after": 0}),
}


def each_row(
    table: str,
    tenant: str,
    see: Callable[[Any], object],
    *,
    user: str | None = None,
    commit: bool = False,
) -> Flow[None]:
    """Show every row of a tenant in a table, of memories those of one user if one is named.

    A page is read in the transaction that is open, or in one of its own.
    """
    place = PLACES[table]
    page = {"tenant": tenant, "user": user, "limit": PAGE, **place.start}
    while True:
        (rows,) = yield Query((Call(place.page, page),), commit)
        if not rows:
            return
        several = [place.row(*row) for row in rows]
        yield from aside(partial(list, map(see, several)))
        page |= dict(zip(place.start, rows[-1], strict=False))
