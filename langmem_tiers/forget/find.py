"""Finds what goes when something is forgotten: it, what came from it, and what else holds it.

All of it is read in the transaction that is open, so that it can be read again under locks; but for
files, which are read before.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from langmem_tiers.consolidation.archive import ArchivedMemory, ArchiveFile, ArchiveStorage
from langmem_tiers.consolidation.lease import thread_name
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import Place, decode_namespace
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.passages import Passages, Subject, first_word, sentences, words_of
from langmem_tiers.forget.text_places import PLACES, MemoryRow, Scrubber, filter_rows
from langmem_tiers.postgres.flow import Call, Flow, Query, off_loop

ForgetKind = Literal["key", "user", "subject", "tenant"]
Sentence: TypeAlias = tuple[str, ...]
"""A sentence by its words."""
FileLines: TypeAlias = Sequence[tuple[ArchiveFile, list[ArchivedMemory]]]
"""Archive files, each with lines of it."""

ARCHIVED: Final = "archived"
"""The tier of memories in archive files."""
ASKED: Final = "it was asked for"
TWIN: Final = "it was merged with one that goes, and says the same"
CAME_OF_IT: Final = "it came from what goes alone"
REPEATS: Final = "it came from what goes and others, and repeats it"
UNTOUCHED: Final = "it came from what goes and others, and repeats nothing of it"
EARLIER: Final = "it was forgotten before"
_BESIDE: Final = "its session or its user names the subject"
_WAITS: Final = "what it waits for names the subject"
_FILED: Final = "its archive names the subject"
_USERS: Final = "it is the user's own"
_RISEN: Final = ("promoted", "reinforced")
_OWN: Final = ("merged", "reinforced")
"""The moves that what came of them was there before: it has what it says by itself too."""


# What is asked for


class KeyMeaning(NamedTuple):
    """A meaning of a key; a row of memories_under_key after tenant and key."""

    tenant: str
    key: str
    origin: str
    """`lives`, `archived`, or `gone`."""
    id: int
    tier: str
    namespace: str

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Its namespace and key."""
        return decode_namespace(self.tenant, self.namespace), self.key


@dataclass(frozen=True, kw_only=True)
class ForgetRequest:
    """A request to forget something, and the means to do it."""

    context: MemoryContext
    kind: ForgetKind
    name: str
    also: tuple[str, ...] = ()
    """Further names of a subject."""
    under: tuple[KeyMeaning, ...] = ()
    """The meanings of the key."""
    earlier: Mapping[int, str] = field(default_factory=dict)
    """Memories forgotten under the same name before; a file may still have them."""
    options: StoreOptions
    files: Callable[[], ArchiveStorage]
    """Opens the archives; called only if there are any."""
    now: datetime
    checkpointer: Any = None
    """The LangGraph checkpointer whose threads are deleted."""
    advance: Callable[[int], object] = lambda _: None
    """Called with the number of finished memories and files."""

    @property
    def tenant(self) -> str:
        """Name the tenant as the database does."""
        return self.context.root

    @cached_property
    def subject(self) -> Subject | None:
        """The subject, if it is one."""
        return Subject(self.name, *self.also) if self.kind == "subject" else None

    @property
    def user(self) -> str | None:
        """The user, if it is one."""
        return self.name if self.kind == "user" else None

    @cached_property
    def places(self) -> frozenset[tuple[str, str]]:
        """List the places of the key."""
        return frozenset((row.namespace, row.key) for row in self.under)

    def why(self, row: MemoryRow) -> str | None:
        """Name the reason why the request names a memory; None if it does not."""
        if self.kind == "user":
            return _USERS if row.user_id == self.name else None
        if self.subject is not None:
            why = self.subject.is_meant_by(row.value, row.speaker, row.key, row.namespace)
            beside = self.subject.is_named_among([row.session, row.user_id])
            return why or (_BESIDE if beside else None)
        return ASKED if (row.namespace, row.key) in self.places else None

    def can_reach(self, row: MemoryRow) -> bool:
        """Tell whether a memory may be erased and named: a key's must be in the context's reach."""
        place = decode_namespace(self.tenant, row.namespace)
        return self.kind != "key" or self.context.can_reach(row.tier, place)


# The memories that go


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetScope:
    """The memories that go, or are suspect then."""

    request: ForgetRequest
    rows: Mapping[int, MemoryRow]
    """Memories of the database that are asked for or akin to these, by id."""
    lines: Sequence[MemoryRow]
    """The erased lines of archive files."""
    files: FileLines
    """The files that hold something that goes, each with the lines that stay."""
    erased: Mapping[int, str]
    """The reason of each memory that goes, by its id."""
    suspect: Mapping[int, str]
    """The reason of each that came from these and from others, and stays."""
    common: frozenset[Sentence]
    """Sentences of what goes that others say too: these are not forgotten."""

    @property
    def forgotten(self) -> list[MemoryRow]:
        """List the erased memories of the database and of files."""
        return [*(self.rows[id_] for id_ in self.erased if id_ in self.rows), *self.lines]

    @property
    def ids(self) -> list[int]:
        """The memories that go."""
        return sorted(self.erased)


def read_files(
    archives: Sequence[ArchiveFile], files: Callable[[], ArchiveStorage]
) -> Flow[FileLines]:
    """Read what the files of a tenant hold. One that holds nothing alone any more may be gone.

    Raises:
        FileError (archive): if any other is missing, or one is not what was written.
        MissingExtraError: without the `archive` extra, if there is any.
    """
    contents = []
    for file in archives:
        lines = yield from off_loop(partial(_read_lines, files(), file), sys.maxsize)
        contents.append((file, lines))
    return contents


def _read_lines(files: ArchiveStorage, file: ArchiveFile) -> list[ArchivedMemory]:
    if not file.remaining and not files.exists(file.url):
        return []
    return files.read(file.url, file.checksum)


def row_of_line(line: ArchivedMemory, tenant: str, options: StoreOptions) -> MemoryRow:
    """Make of a line of a file what forgetting reads of a memory."""
    return MemoryRow(
        id=line.id,
        tier=ARCHIVED,
        namespace=line.namespace,
        key=line.key,
        value=json.loads(line.value),
        state=line.state,
        user_id=options.user_of(Place(tenant, line.namespace)),
        session=line.session,
        speaker=line.speaker,
    )


def find_scope(request: ForgetRequest, filed: FileLines) -> Flow[ForgetScope]:
    """Find the memories that go or are suspect then, with the lines of files."""
    lines = [row_of_line(line, request.tenant, request.options) for _, ls in filed for line in ls]
    seeds, rows = yield from _find_seeds(request)
    seeds = {row.id: why for row in lines if (why := request.why(row)) is not None} | seeds
    lineage = Lineage(
        rows, (yield from _load_lineage(request.tenant, seeds, rows)), request.can_reach
    )

    def going(erased: Collection[int]) -> list[MemoryRow]:
        here = [rows[id_] for id_ in erased if id_ in rows]
        return here + [row for row in lines if row.id in erased]

    first = dict(seeds)
    lineage.spread(first)
    related = first.keys() | lineage.below(first)
    common = yield from _common_sentences(request.tenant, going(related), related)
    erased, suspect = closure(
        seeds, lineage, lambda erased: _passages_of(request, going(erased), common)
    )
    return ForgetScope(
        request=request,
        rows=rows,
        lines=[row for row in lines if row.id in erased],
        files=[
            (file, [line for line in stored_lines if line.id not in erased])
            for file, stored_lines in filed
            if any(line.id in erased for line in stored_lines)
        ],
        erased=erased,
        suspect=suspect,
        common=common,
    )


def _find_seeds(request: ForgetRequest) -> Flow[tuple[dict[int, str], dict[int, MemoryRow]]]:
    """Find what is asked for: why, by id, and what of it is in the database."""
    tenant, user, subject = request.tenant, request.user, request.subject
    seeds: dict[int, str] = dict(request.earlier)
    if request.kind == "key":
        return seeds | {row.id: ASKED for row in request.under}, {}

    def is_meant(row: MemoryRow) -> bool:
        if (why := request.why(row)) is not None:
            seeds[row.id] = why
        return why is not None

    meant = yield from filter_rows("memories", tenant, is_meant, user=user)
    if subject is not None:
        waiting = yield from filter_rows(
            "intentions", tenant, lambda row: subject.is_named_among(row.awaited)
        )
        texts_of = PLACES["archived"].texts_of
        archived = yield from filter_rows(
            "archived", tenant, lambda row: subject.is_named_among(texts_of(row))
        )
        seeds = {
            **{row.id: _WAITS for row in waiting},
            **{row.id: _FILED for row in archived},
            **seeds,
        }
    if user is not None:
        (rows,) = yield Query((Call("archived_of_user", {"tenant": tenant, "user": user}),))
        seeds |= {id_: _USERS for (id_,) in rows}
    return seeds, {row.id: row for row in meant}


class DerivedEdge(NamedTuple):
    """An edge from a memory to its origin; a row of kin."""

    id: int
    source: int
    derived: bool
    kind: str | None


def _load_lineage(
    tenant: str, seeds: Iterable[int], rows: dict[int, MemoryRow]
) -> Flow[list[DerivedEdge]]:
    """Find all that came from these and what these came from, and so on; add them to `rows`."""
    kin: dict[tuple[int, int], DerivedEdge] = {}
    seen: set[int] = set()
    rest = set(seeds)
    while rest:
        ids = {"tenant": tenant, "ids": sorted(rest)}
        unknown = {"tenant": tenant, "ids": sorted(rest - rows.keys())}
        edges, rows_found = yield Query((Call("kin", ids), Call("memories_by_id", unknown)))
        rows |= {row[0]: MemoryRow(*row) for row in rows_found}
        new_edges = [DerivedEdge(*edge) for edge in edges]
        kin |= {(edge.id, edge.source): edge for edge in new_edges}
        seen |= rest
        rest = {id_ for edge in new_edges for id_ in (edge.id, edge.source)} - seen
    return list(kin.values())


class Lineage:
    """Memories, and which came from which."""

    def __init__(
        self,
        rows: Mapping[int, MemoryRow],
        kin: Iterable[DerivedEdge],
        within: Callable[[MemoryRow], bool] = lambda _: True,
    ) -> None:
        """`within` says of what lives on in one that goes whether it may go along."""
        self.rows = rows
        self._within = within
        self._came = defaultdict[int, list[DerivedEdge]](list)
        self._became = defaultdict[int, list[DerivedEdge]](list)
        for edge in kin:
            self._came[edge.id].append(edge)
            self._became[edge.source].append(edge)

    def spread(self, erased: dict[int, str]) -> None:
        """Add what goes along, until nothing does any more."""
        rest = list(erased)
        while rest:
            id_ = rest.pop()
            along = dict.fromkeys(self._twins(id_), TWIN)
            for edge in self._became[id_]:
                if all(e.source in erased and e.kind not in _OWN for e in self._came[edge.id]):
                    along.setdefault(edge.id, CAME_OF_IT)
            new = {k: why for k, why in along.items() if k in self.rows and k not in erased}
            erased |= new
            rest += new

    def below(self, erased: Iterable[int]) -> set[int]:
        """Find all that came from these, directly or not."""
        descendants: set[int] = set()
        rest = list(erased)
        while rest:
            new = {edge.id for edge in self._became[rest.pop()]} - descendants
            descendants |= new
            rest += new
        return descendants

    def _twins(self, id_: int) -> Iterator[int]:
        """Find what says the same as a memory, as moves said: merged with it, or promoted to it."""
        here = self.rows.get(id_)
        for edge in (*self._came[id_], *self._became[id_]):
            other = edge.source if edge.id == id_ else edge.id
            risen = edge.kind in _RISEN and other == edge.source
            there = self.rows.get(other) if risen else None
            same = here and there and here.says == there.says and self._within(there)
            if edge.kind == "merged" or same:
                yield other


def closure(
    seeds: Mapping[int, str], lineage: Lineage, passages: Callable[[Collection[int]], Passages]
) -> tuple[dict[int, str], dict[int, str]]:
    """Tell what goes with the memories that are asked for, and what is suspect then; both with why.

    A memory that came from them and others goes as well if it repeats them, else it is suspect.
    `passages` are what memories say.
    """
    erased = dict(seeds)
    while True:
        lineage.spread(erased)
        below = sorted((lineage.below(erased) & lineage.rows.keys()) - erased.keys())
        forgotten = passages(erased)
        repeats = [
            id_ for id_ in below if forgotten.repeated_in(content_of(lineage.rows[id_].value))
        ]
        if not repeats:
            return erased, dict.fromkeys(below, UNTOUCHED)
        erased |= dict.fromkeys(repeats, REPEATS)


def _common_sentences(
    tenant: str, going: Sequence[MemoryRow], kin: Collection[int]
) -> Flow[frozenset[Sentence]]:
    """Find the sentences of what may go that others say by themselves."""
    theirs = {tuple(words_of(part)) for row in going for t in row.texts for part in sentences(t)}
    begin = {sentence[0] for sentence in theirs if sentence}
    shared: set[Sentence] = set()

    def see(row: MemoryRow) -> None:
        if row.id not in kin:
            parts = (part for part in sentences(content_of(row.value)) if first_word(part) in begin)
            shared.update(theirs.intersection(tuple(words_of(part)) for part in parts))

    yield from filter_rows("memories", tenant, see)
    return frozenset(shared)


def _passages_of(
    request: ForgetRequest, gone: Sequence[MemoryRow], common: Collection[Sentence]
) -> Passages:
    """Collect the passages of these memories that no other memory says."""
    keys = {row.key for row in gone} | {row.key for row in request.under}
    return Passages((text for row in gone for text in row.texts), keys, request.subject, common)


# What else holds any of it


def find_traces(scope: ForgetScope) -> Flow[Scrubber]:
    """Find the rows that go with what goes, or stay without it."""
    request, tenant = scope.request, scope.request.tenant
    turns: frozenset[str] = frozenset()
    if request.user is not None:
        whose = {"tenant": tenant, "user": request.user}
        (rows,) = yield Query((Call("turns_of_user", whose),))
        turns = frozenset(turn for (turn,) in rows)
    users = {row.user_id for row in scope.forgotten}
    scrubber = Scrubber(
        erased=frozenset(scope.erased),
        suspect=scope.suspect,
        passages=_passages_of(request, scope.forgotten, scope.common),
        user=request.user,
        turns=turns,
        owner=next(iter(users)) if len(users) == 1 and request.subject is None else None,
        places=request.places.union((row.namespace, row.key) for row in scope.forgotten),
    )
    yield from filter_rows("events", tenant, scrubber.add_event)
    scrubber.states = yield from filter_rows("states", tenant, scrubber.is_state_gone)
    scrubber.recalls = yield from filter_rows("recalls", tenant, scrubber.is_recall_gone)
    yield from filter_rows("intentions", tenant, scrubber.add_waiting)
    if request.subject is not None:
        scrubber.shown = yield from filter_rows("exposures", tenant, scrubber.is_shown_gone)
    yield from filter_rows("memories", tenant, scrubber.add_memory)
    yield from filter_rows("audit", tenant, scrubber.add_logged)
    return scrubber


def find_threads(scope: ForgetScope, gone: Scrubber) -> Flow[dict[str, str]]:
    """Find the threads where it was said or shown, each with why it is named."""
    tenant = scope.request.tenant
    whose = {"tenant": tenant, "ids": scope.ids, "user": scope.request.user}
    (shown,) = yield Query((Call("sessions_shown", whose),))
    why = {thread_name(tenant): "cycles of consolidation may name it"}
    why |= {thread: "a run was shown it there" for (thread,) in shown}
    turned = gone.turned & gone.sessions.keys()
    why |= {gone.sessions[turn]: "a turn of it kept it" for turn in turned}
    states = (row.session for row in gone.states)
    why |= {thread: "its conversation holds it" for thread in states if thread is not None}
    spoken = (row.session or row.value.get("session_id") for row in scope.forgotten)
    why |= {thread: "it was said there" for thread in spoken if thread and isinstance(thread, str)}
    return dict(sorted(why.items()))
