"""The places of a tenant's texts, how they are read, and what becomes of a row in each.

`forget` and `admin.verify_forgotten` both read them.
tests/integration/test_forgotten_everywhere.py names every column, compares them
with the database's catalog, and tries each place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from langmem_tiers.core.context import USER_PREFIX, name_of_label, user_labels
from langmem_tiers.core.memory import decode_namespace
from langmem_tiers.core.texts import normalise
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.passages import Passages, namespace_names, strings_of
from langmem_tiers.postgres.flow import Call, Flow, Query, call_blocking
from langmem_tiers.recall.replay import unpack_seen_rows

STRUCTURE: Final = frozenset(
    (
        *("memory_type", "tier", "source", "platform_source", "project_id", "agent_id"),
        *("session_id", "occurred_at", "valid_from", "valid_to", "signature", "tool", "turn"),
        "trust",
    )
)
"""Fields of a value without words of its content."""
_SAYING: Final = ("key", "value", "speaker")
"""Fields with words in a memory that a recall saw."""
_GONE: Final = frozenset(("rejected", "evicted"))
"""Events that are all that is left of a memory."""
_FORGET: Final = "forget"
_IDS: Final = ("sources", "again")
PAGE: Final = 200
"""Rows that are read at once: our own choice."""


class MemoryRow(NamedTuple):
    """A memory as forgetting reads it.

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
    """The time of its last put; None for a line of a file."""

    @property
    def texts(self) -> list[str]:
        """List all texts of the memory."""
        fields = {name: field for name, field in self.value.items() if name not in STRUCTURE}
        return [content_of(self.value), *strings_of(fields)]

    @property
    def says(self) -> str:
        """Normalise the content for comparison."""
        return normalise(content_of(self.value))


class EventRow(NamedTuple):
    """An event of a memory."""

    event: str
    kind: str
    id: int | None
    target: int | None
    detail: dict[str, Any]

    @property
    def turn(self) -> str | None:
        """The turn that decided it."""
        turn = self.detail.get("turn")
        return turn if self.event.startswith("turn/") and isinstance(turn, str) else None


class StateRow(NamedTuple):
    """A short-term state."""

    owner: str
    kind: str
    name: str
    value: Any

    @property
    def user(self) -> str | None:
        """The label of the user whose own it is."""
        last = decode_namespace("", self.owner)[-1]
        return last if last.startswith(USER_PREFIX) else None

    @property
    def session(self) -> str | None:
        """The session of a message: the second label of a conversation's owner."""
        _, *labels = decode_namespace("", self.owner)
        return name_of_label(labels[1]) if self.kind == "message" and len(labels) > 1 else None


class RecallRow(NamedTuple):
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
        """List key, value and speaker of the memories that it saw."""
        return [[row[name] for name in _SAYING] for row in unpack_seen_rows(self.seen)]

    @property
    def names(self) -> list[str | None]:
        """The texts that may name somebody, beside what was asked, seen and answered."""
        return [self.turn, self.recall, self.user_id, self.root, self.project]


class IntentionRow(NamedTuple):
    """The trigger of an intention, and the run that holds it."""

    id: int
    trigger: Any
    words: Sequence[str] | None
    name: str | None
    holder: str | None

    @property
    def awaited(self) -> list[str]:
        """The texts of what it waits for."""
        return list(strings_of([self.trigger, self.words, self.name], names=True))


class ArchivedRow(NamedTuple):
    """The place of an archived memory."""

    id: int
    namespace: str
    key: str
    user_id: str | None


class ExposureRow(NamedTuple):
    """An exposure of a memory to a run."""

    run: str
    id: int
    root: str | None
    project: str | None
    session: str | None
    settled_by: str | None
    user_id: str | None


class LoggedText(NamedTuple):
    """A row of the audit log."""

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
    def names(self) -> list[str]:
        """The names of places, of a user, and of who acted."""
        whose = [self.told[name] for name in ("user", "actor") if name in self.told]
        places = ((*namespace_names(namespace), key) for namespace, key in self.places)
        return [*(name for place in places for name in place), *whose]


_READ_AS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "namespace": lambda row: namespace_names(row.namespace),
    "owner": lambda row: namespace_names(row.owner),
    "event": lambda row: unquote(row.event),
    "seen": lambda row: row.saw,
    "told": lambda row: row.names,
}
"""The columns that are not read as they stand, each with how they are."""


class TextPlace(NamedTuple):
    """A table that is read a page after another."""

    page: str
    """The statement."""
    row: Callable[..., Any]
    start: Mapping[str, Any]
    """The start of the first page: parameters for the leading columns of a row."""
    columns: tuple[str, ...]
    """The columns that may name somebody."""

    def name_of(self, row: Any) -> str:
        """Name a row in its table."""
        return " ".join(map(str, row[: len(self.start)]))

    def texts_of(self, row: Any) -> Iterator[str]:
        """List the texts of a row that may name somebody."""
        for name in self.columns:
            read = _READ_AS[name](row) if name in _READ_AS else getattr(row, name)
            yield from strings_of(read, names=True)


_WHOSE: Final = ("root", "project", "user_id")
PLACES: Final[Mapping[str, TextPlace]] = {
    "memories": TextPlace(
        "memories_page",
        MemoryRow,
        {"after": 0},
        ("namespace", "key", "value", "session", "speaker", "user_id"),
    ),
    "events": TextPlace("events_page", EventRow, {"after": ""}, ("event", "detail")),
    "audit": TextPlace("audit_told", LoggedText, {"after": 0}, ("told",)),
    "states": TextPlace(
        "states_page", StateRow, {"owner": "", "kind": "", "name": ""}, ("owner", "name", "value")
    ),
    "recalls": TextPlace(
        "recalls_page",
        RecallRow,
        {"turn": "", "recall": ""},
        ("turn", "recall", *_WHOSE, "asked", "seen", "answered"),
    ),
    "intentions": TextPlace(
        "intentions_page", IntentionRow, {"after": 0}, ("trigger", "words", "name", "holder")
    ),
    "archived": TextPlace(
        "archived_page", ArchivedRow, {"after": 0}, ("namespace", "key", "user_id")
    ),
    "exposures": TextPlace(
        "exposures_page",
        ExposureRow,
        {"run": "", "after": 0},
        ("run", *_WHOSE, "session", "settled_by"),
    ),
}
"""The tables in which names are looked for."""


def filter_rows(
    table: str,
    tenant: str,
    see: Callable[[Any], object],
    *,
    user: str | None = None,
    commit: bool = False,
) -> Flow[list[Any]]:
    """Show every row of a tenant in a table, and return those of which `see` says something true.

    Of memories those of one user are shown if one is named. A page is read in the transaction that
    is open, or in one of its own.
    """
    place = PLACES[table]
    page = {"tenant": tenant, "user": user, "limit": PAGE, **place.start}
    matches: list[Any] = []
    while True:
        (rows,) = yield Query((Call(place.page, page),), commit)
        if not rows:
            return matches
        entries = [place.row(*row) for row in rows]
        matches += yield from call_blocking(partial(list, filter(see, entries)))
        page |= dict(zip(place.start, rows[-1], strict=False))


# What becomes of a row


@dataclass(slots=True, kw_only=True)
class Scrubber:
    """Judges the rows of a tenant by what is forgotten, and notes what becomes of them."""

    erased: frozenset[int]
    passages: Passages
    suspect: Collection[int] = ()
    """Memories that came from it, whoever's they are."""
    user: str | None = None
    """The user who is forgotten."""
    turns: Collection[str] = ()
    """Turns of that user."""
    owner: str | None = None
    """The owner of all erased memories; other users' rows are not about them."""
    places: frozenset[tuple[str, str]] = frozenset()
    """The places of erased memories: rows of the log on these places go too."""

    events: list[str] = field(default_factory=list)
    """Events that go."""
    changed: list[EventRow] = field(default_factory=list)
    """Events that stay without it."""
    states: list[StateRow] = field(default_factory=list)
    recalls: list[RecallRow] = field(default_factory=list)
    intentions: list[int] = field(default_factory=list)
    """Intentions whose memories stay."""
    held: list[int] = field(default_factory=list)
    """Intentions that a run holds whose name goes."""
    shown: list[ExposureRow] = field(default_factory=list)
    quoting: dict[int, MemoryRow] = field(default_factory=dict)
    """Other memories without what they quote beside their content, by id."""
    alike: list[MemoryRow] = field(default_factory=list)
    """Other memories that say the same by themselves, and stay."""
    logged: list[int] = field(default_factory=list)
    """Rows of the audit log that tell of it."""
    turned: set[str] = field(default_factory=set)
    """Turns of whose events some go or change."""
    sessions: dict[str, str] = field(default_factory=dict)
    """Sessions of turns."""
    _judged: dict[str, bool] = field(default_factory=dict)
    """Cached judgements on the contents of recalls: many saw the same."""

    @property
    def scrubbed(self) -> int:
        """Count the rows that stay, without a quote or a holder."""
        return len(self.changed) + len(self.quoting) + len({*self.held} - {*self.intentions})

    def add_event(self, event: EventRow) -> None:
        """Judge an event."""
        session = event.detail.get("session_id")
        if event.turn is not None and isinstance(session, str):
            self.sessions[event.turn] = session
        kept = self.without(event)
        if kept is event:
            return
        if kept is None:
            self.events.append(event.event)
        else:
            self.changed.append(kept)
        if event.turn is not None:
            self.turned.add(event.turn)

    def without(self, event: EventRow) -> EventRow | None:
        """Return an event without what is forgotten: itself if it holds none, None if it goes."""
        told_user = event.detail.get("user_id")
        of_user = told_user == self.user or event.turn in self.turns
        if (self.user is not None and of_user) or self._named(unquote(event.event)):
            return None
        parties = {event.id, event.target} - {None}
        mine = parties & self.erased
        if mine and mine == parties:
            return None
        if not mine and self.owner is not None and told_user not in (None, self.owner):
            return event
        below = [i for name in _IDS for i in _ints_in(event.detail.get(name))]
        keyed = not self.passages.keys.isdisjoint(strings_of(event.detail, names=True))
        related = bool(mine) or not self.erased.isdisjoint(below) or keyed
        detail = self._without_ids(self.passages.scrubbed(event.detail, related=related))
        if detail == event.detail and not mine:
            return event
        if event.kind in _GONE:
            return None
        return event._replace(
            id=None if event.id in mine else event.id,
            target=None if event.target in mine else event.target,
            detail=detail,
        )

    def add_memory(self, memory: MemoryRow) -> None:
        """Judge a memory, unless it is another user's own and did not come from it."""
        mine = (
            self.owner is None or memory.user_id in (None, self.owner) or memory.id in self.suspect
        )
        if mine and memory.id not in self.erased:
            value = self.unquoted(memory.value)
            if value != memory.value:
                self.quoting[memory.id] = memory._replace(value=value)
            if self.passages.repeated_in(content_of(memory.value)):
                self.alike.append(memory)

    def unquoted(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the value of another memory without what it quotes beside its content."""
        texts = (name for name in ("content", "text") if isinstance(value.get(name), str))
        kept = STRUCTURE | {next(texts, "content")}
        return {
            name: part if name in kept else self.passages.scrubbed(part)
            for name, part in value.items()
        }

    def is_state_gone(self, state: StateRow) -> bool:
        """Tell whether a state goes."""
        if self.user is not None and state.user == user_labels(self.user)[0]:
            return True
        if self.owner is not None and state.user not in (None, user_labels(self.owner)[0]):
            return False
        named = self._named(*namespace_names(state.owner))
        return named or self.passages.holds([state.name, state.value])

    def is_recall_gone(self, recall: RecallRow) -> bool:
        """Tell whether a recall goes: who is forgotten asked it, or it holds what is forgotten."""
        if self.user is not None and recall.user_id == self.user:
            return True
        if not self.erased.isdisjoint(recall.ids):
            return True
        theirs = self.owner is not None and recall.user_id not in (None, self.owner)
        if theirs and frozenset(self.suspect).isdisjoint(recall.ids):
            return False
        parts = (recall.asked, recall.answered, *recall.saw)
        return self._named(*recall.names) or any(map(self._holds, parts))

    def is_shown_gone(self, shown: ExposureRow) -> bool:
        """Tell whether a row goes: its memory stays, and it names the subject."""
        return shown.id not in self.erased and self._named(*PLACES["exposures"].texts_of(shown))

    def add_waiting(self, waiting: IntentionRow) -> None:
        """Judge an intention of a memory that stays."""
        if waiting.id in self.erased:
            return
        if any(map(self.passages.repeated_in, waiting.awaited)):
            self.intentions.append(waiting.id)
        if self._named(waiting.holder):
            self.held.append(waiting.id)

    def add_logged(self, row: LoggedText) -> None:
        """Judge a row of the audit log, once the memories are judged; its id alone is kept."""
        gone = any(id_ in self.erased or id_ in self.quoting for id_ in row.memories)
        who = any(map(self.is_who, row.names))
        if (gone and row.verb != _FORGET) or who or not self.places.isdisjoint(row.places):
            self.logged.append(row.id)

    def is_who(self, name: str) -> bool:
        """Tell whether this is, or has in it, who is to be forgotten."""
        return name == self.user or self._named(name)

    def _named(self, *texts: str | None) -> bool:
        """Tell whether one of these texts names the subject."""
        subject = self.passages.subject
        return subject is not None and subject.is_named_among(texts)

    def _holds(self, part: Any) -> bool:
        """Tell whether JSON holds anything of it."""
        text = repr(part)
        if text not in self._judged:
            self._judged[text] = self.passages.holds(part)
        return self._judged[text]

    def _without_ids(self, detail: dict[str, Any]) -> dict[str, Any]:
        """Remove the ids of erased memories from an event's detail."""
        left = dict(detail)
        for name in _IDS:
            if isinstance(detail.get(name), list):
                left[name] = [id_ for id_ in detail[name] if id_ not in self.erased]
        versions = detail.get("versions")
        if isinstance(versions, dict):
            gone = set(map(str, self.erased))
            left["versions"] = {id_: at for id_, at in versions.items() if id_ not in gone}
        return left


def _ints_in(value: object) -> list[int]:
    return (
        [number for number in value if isinstance(number, int)] if isinstance(value, list) else []
    )
