"""What is looked at before anything is forgotten: memories, their kin, and what holds them.

All of it is read in the transaction that is open, so that it can be read again under locks; but for
files, which are read before.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final, NamedTuple

from langmem_tiers.consolidate.archive import ArchivedMemory, ArchiveFile, Files
from langmem_tiers.consolidate.lease import thread_of
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.namespaces import Place, decode
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.passages import (
    Passages,
    Subject,
    bare,
    first_word,
    sentences,
    strings_of,
    words_of,
)
from langmem_tiers.forget.places import Archived, Known, TextRow, Waiting, each_row
from langmem_tiers.forget.reach import ASKED, Family, Kin, Reach, reach
from langmem_tiers.forget.receipt import Kind, NearForm
from langmem_tiers.forget.scrub import Scrubber
from langmem_tiers.postgres.flow import Call, Flow, Query, apart

ARCHIVED: Final = "archived"
"""In place of a tier, of what is in a file."""
EARLIER: Final = "it was forgotten before"
_BESIDE: Final = "its session or its user names the subject"
_WAITS: Final = "what it waits for names the subject"
_FILED: Final = "its archive names the subject"
_USERS: Final = "it is the user's own"
_MOST: Final = 20
"""The number of near forms that are told, the most frequent first: our own choice."""


class Under(NamedTuple):
    """What a key means somewhere; a row of memories_under_key after tenant and key."""

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
        return decode(self.tenant, self.namespace), self.key


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be forgotten."""

    context: MemoryContext
    kind: Kind
    name: str
    also: tuple[str, ...] = ()
    """Further names of a subject."""
    under: tuple[Under, ...] = ()
    """What the key means."""
    earlier: Mapping[int, str] = field(default_factory=dict)
    """What was forgotten by the same name before, of which a file may be left."""

    @property
    def tenant(self) -> str:
        """As the database names it."""
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
        """Where the key is."""
        return frozenset((one.namespace, one.key) for one in self.under)

    def means(self, one: Known) -> str | None:
        """Why a memory is asked for; None if it is not."""
        if self.kind == "user":
            return _USERS if one.user_id == self.name else None
        if self.subject is not None:
            why = self.subject.is_meant_by(one.value, one.speaker, one.key, one.namespace)
            beside = self.subject.is_named_among([one.session, one.user_id])
            return why or (_BESIDE if beside else None)
        return ASKED if (one.namespace, one.key) in self.places else None

    def reaches(self, one: Known) -> bool:
        """Whether a memory may go along, and be named: a key is of what the context reaches."""
        place = decode(self.tenant, one.namespace)
        return self.kind != "key" or self.context.reaches(one.tier, place)


class Filed(NamedTuple):
    """An archive file and its lines."""

    file: ArchiveFile
    lines: tuple[ArchivedMemory, ...]


def filed(archives: Sequence[ArchiveFile], files: Callable[[], Files]) -> Flow[list[Filed]]:
    """What the files of a tenant hold. One that holds nothing alone any more may be gone.

    Raises:
        ArchiveError: if any other is missing, or one is not what was written.
        MissingExtraError: without the `archive` extra, if there is any.
    """
    found: list[Filed] = []
    for file in archives:
        lines = yield from apart(partial(_lines, files(), file), sys.maxsize)
        found.append(Filed(file, tuple(lines)))
    return found


def _lines(files: Files, file: ArchiveFile) -> list[ArchivedMemory]:
    if not file.remaining and not files.exists(file.url):
        return []
    return files.read(file.url, file.checksum)


def known(one: ArchivedMemory, tenant: str, options: StoreOptions) -> Known:
    """A line of a file as forgetting looks at it."""
    return Known(
        id=one.id,
        tier=ARCHIVED,
        namespace=one.namespace,
        key=one.key,
        value=json.loads(one.value),
        state=one.state,
        user_id=options.user_of(Place(tenant, one.namespace)),
        session=one.session,
        speaker=one.speaker,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The memories that go, or are suspect then."""

    asked: Asked
    known: Mapping[int, Known]
    reach: Reach
    lines: Sequence[Known]
    """What goes of archive files."""
    common: frozenset[tuple[str, ...]]
    """Sentences of what goes, by their words, that others say too: these are not forgotten."""

    @property
    def forgotten(self) -> list[Known]:
        """All that goes and is known."""
        return [*(self.known[one] for one in self.reach.erased if one in self.known), *self.lines]

    @property
    def ids(self) -> list[int]:
        """The memories that go."""
        return sorted(self.reach.erased)


def memories(asked: Asked, files: Sequence[Filed], options: StoreOptions) -> Flow[Found]:
    """The memories that go or are suspect then, with the lines of files."""
    seeds, found = yield from _seeds(asked)
    lines = [known(line, asked.tenant, options) for one in files for line in one.lines]
    seeds = {one.id: why for one in lines if (why := asked.means(one)) is not None} | seeds
    kin = yield from _add_family(asked.tenant, seeds, found)
    family = Family(found, kin, asked.reaches)

    def going(erased: Collection[int]) -> list[Known]:
        here = [found[one] for one in erased if one in found]
        return here + [one for one in lines if one.id in erased]

    first = dict(seeds)
    family.spread(first)
    related = first.keys() | family.below(first)
    common = yield from _common(asked.tenant, going(related), related)
    reached = reach(seeds, family, lambda erased: _passages(asked, going(erased), common))
    gone = [one for one in lines if one.id in reached.erased]
    return Found(asked=asked, known=found, reach=reached, lines=gone, common=common)


def _common(
    tenant: str, going: Sequence[Known], kin: Collection[int]
) -> Flow[frozenset[tuple[str, ...]]]:
    """The sentences of what may go that others say by themselves."""
    theirs = {tuple(words_of(part)) for one in going for t in one.texts for part in sentences(t)}
    begin = {one[0] for one in theirs if one}
    found: set[tuple[str, ...]] = set()

    def see(one: Known) -> None:
        if one.id not in kin:
            parts = (part for part in sentences(content_of(one.value)) if first_word(part) in begin)
            found.update(theirs.intersection(tuple(words_of(part)) for part in parts))

    yield from each_row("memories", tenant, see)
    return frozenset(found)


def _passages(asked: Asked, gone: Sequence[Known], common: Collection[tuple[str, ...]]) -> Passages:
    """What all of these say, and others do not."""
    keys = {one.key for one in gone} | {one.key for one in asked.under}
    return Passages((text for one in gone for text in one.texts), keys, asked.subject, common)


def _seeds(asked: Asked) -> Flow[tuple[dict[int, str], dict[int, Known]]]:
    """What is asked for."""
    seeds: dict[int, str] = dict(asked.earlier)
    found: dict[int, Known] = {}
    if asked.kind == "key":
        return seeds | {one.id: ASKED for one in asked.under}, found

    def see(one: Known) -> None:
        if (why := asked.means(one)) is not None:
            seeds[one.id], found[one.id] = why, one

    yield from each_row("memories", asked.tenant, see, user=asked.user)
    if asked.subject is not None:
        seeds = {**(yield from _named(asked.tenant, asked.subject)), **seeds}
    if asked.user is not None:
        whose = {"tenant": asked.tenant, "user": asked.user}
        (rows,) = yield Query((Call("archived_of_user", whose),))
        seeds |= {row[0]: _USERS for row in rows}
    return seeds, found


def _named(tenant: str, subject: Subject) -> Flow[dict[int, str]]:
    """Find memories whose intentions, or whose archived places, name a subject."""
    seeds: dict[int, str] = {}

    def see_waiting(one: Waiting) -> None:
        if subject.is_named_among(strings_of(one.awaited, names=True)):
            seeds[one.id] = _WAITS

    def see_archived(one: Archived) -> None:
        if subject.is_named_among(one.said):
            seeds[one.id] = _FILED

    yield from each_row("intentions", tenant, see_waiting)
    yield from each_row("archived", tenant, see_archived)
    return seeds


def _add_family(tenant: str, seeds: Iterable[int], found: dict[int, Known]) -> Flow[list[Kin]]:
    """All that came from these and what these came from, and so on; they are added to `found`."""
    kin: dict[tuple[int, int], Kin] = {}
    seen: set[int] = set()
    rest = set(seeds)
    while rest:
        ids = {"tenant": tenant, "ids": sorted(rest)}
        unknown = {"tenant": tenant, "ids": sorted(rest - found.keys())}
        edges, rows = yield Query((Call("kin", ids), Call("memories_by_id", unknown)))
        found |= {row[0]: Known(*row) for row in rows}
        several = [Kin(*row) for row in edges]
        kin |= {(one.id, one.source): one for one in several}
        seen |= rest
        rest = {each for one in several for each in (one.id, one.source)} - seen
    return list(kin.values())


def traces(found: Found) -> Flow[Scrubber]:
    """What else holds any of it: rows that go with it, or stay without it."""
    asked = found.asked
    turns: frozenset[str] = frozenset()
    if asked.user is not None:
        whose = {"tenant": asked.tenant, "user": asked.user}
        (rows,) = yield Query((Call("turns_of_user", whose),))
        turns = frozenset(row[0] for row in rows)
    users = {one.user_id for one in found.forgotten}
    scrubber = Scrubber(
        erased=frozenset(found.reach.erased),
        suspect=found.reach.suspect,
        passages=_passages(asked, found.forgotten, found.common),
        user=asked.user,
        turns=turns,
        owner=next(iter(users)) if len(users) == 1 and asked.kind != "subject" else None,
        places=asked.places.union((one.namespace, one.key) for one in found.forgotten),
    )
    yield from each_row("events", asked.tenant, scrubber.add_event)
    yield from each_row("states", asked.tenant, scrubber.add_state)
    yield from each_row("recalls", asked.tenant, scrubber.add_recall)
    yield from each_row("intentions", asked.tenant, scrubber.add_waiting)
    if asked.subject is not None:
        yield from each_row("exposures", asked.tenant, scrubber.add_shown)
    yield from each_row("memories", asked.tenant, scrubber.add_memory)
    yield from each_row("audit", asked.tenant, scrubber.add_logged)
    return scrubber


def threads(found: Found, scrubber: Scrubber) -> Flow[dict[str, str]]:
    """The threads where it was said or shown, each with why it is named."""
    asked = found.asked
    whose = {"tenant": asked.tenant, "ids": found.ids, "user": asked.user}
    (rows,) = yield Query((Call("sessions_shown", whose),))
    told = dict(_threads(found, scrubber, sorted(row[0] for row in rows)))
    return dict(sorted(told.items()))


def _threads(found: Found, scrubber: Scrubber, shown: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is said of a thread last counts."""
    yield thread_of(found.asked.tenant), "cycles of consolidation may name it"
    yield from ((one, "a run was shown it there") for one in shown)
    for turn in sorted(scrubber.turned & scrubber.sessions.keys()):
        yield scrubber.sessions[turn], "a turn of it kept it"
    for state in scrubber.states:
        if state.session is not None:
            yield state.session, "its conversation holds it"
    for one in found.forgotten:
        told = one.value.get("session_id")
        session = one.session or (told if isinstance(told, str) and told else None)
        if session is not None:
            yield session, "it was said there"


def near_forms(found: Found) -> Flow[tuple[NearForm, ...]]:
    """Find other spellings of the subject's names in what stays, which may mean it."""
    subject, gone = found.asked.subject, found.reach.erased
    if subject is None:
        return ()
    counted, written = Counter[str](), dict[str, str]()

    def see(one: TextRow) -> None:
        if isinstance(one, Known | Waiting) and one.id in gone:
            return
        told = one.trigger if isinstance(one, Waiting) else one.said
        forms = [form for text in strings_of(told, names=True) for form in subject.near_in(text)]
        counted.update({bare(form) for form in forms})
        for form in forms:
            written.setdefault(bare(form), form)

    for table in ("memories", "intentions", "events", "states"):
        yield from each_row(table, found.asked.tenant, see)
    most = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:_MOST]
    return tuple(NearForm(written[form], number) for form, number in most)
