"""What is looked at before anything is forgotten: memories, their kin, and what holds them.

All of it is read in the transaction that is open, so that it can be read again under locks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from langmem_tiers.consolidate.lease import thread_of
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.namespaces import decode
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.archive_lines import Filed, known
from langmem_tiers.forget.how import Forgetting
from langmem_tiers.forget.logged import Meant, Told
from langmem_tiers.forget.passages import Passages, first_word, sentences, words_of
from langmem_tiers.forget.reach import ASKED, Family, Kin, Known, Reach, reach
from langmem_tiers.forget.receipt import Kind
from langmem_tiers.forget.scrub import Event, Recall, Scrubber, Scrubbing, Shown, State, Waiting
from langmem_tiers.forget.subject import Subject, labels_of, strings_of
from langmem_tiers.postgres.flow import Call, Flow, Query, Rows

PAGE: Final = 200
"""Rows that are read at once, which a loop waits for: our own choice."""
EARLIER: Final = "it was forgotten before"
BESIDE: Final = "its session or its user names the subject"
WAITS: Final = "what it waits for names the subject"
FILED: Final = "its archive names the subject"


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

    def means(self, one: Known) -> str | None:
        """Why a memory is asked for; None if it is not."""
        if self.kind == "tenant":
            return "it is the tenant's"
        if self.kind == "user":
            return "it is the user's own" if one.user_id == self.name else None
        if self.subject is not None:
            why = self.subject.is_meant_by(one.value, one.speaker, one.key, one.namespace)
            beside = self.subject.is_named_among([one.session, one.user_id])
            return why or (BESIDE if beside else None)
        places = {(each.namespace, each.key) for each in self.under}
        return ASKED if (one.namespace, one.key) in places else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What goes, and what of it is where."""

    asked: Asked
    known: Mapping[int, Known]
    reach: Reach
    lines: Sequence[Known] = ()
    """What goes of archive files."""
    quoting: Mapping[int, Known] = field(default_factory=dict)
    """Other memories without what they quote beside their content, by id."""
    common: frozenset[tuple[str, ...]] = frozenset()
    """Sentences of what goes, by their words, that others say too: these are not forgotten."""
    alike: Sequence[Known] = ()
    """Other memories that say the same by themselves, and stay."""
    scrubbing: Scrubbing = field(default_factory=Scrubbing)
    threads: Mapping[str, str] = field(default_factory=dict)
    logged: Sequence[int] = ()
    """Rows of the audit log that tell of it."""

    @property
    def meant(self) -> Meant:
        """Of which rows the audit log is to forget what they tell."""
        places = {(one.namespace, one.key) for one in self.forgotten}
        places |= {(one.namespace, one.key) for one in self.asked.under}
        ids = self.reach.erased.keys() | self.reach.rewritten.keys() | self.quoting.keys()
        return Meant(ids, places, self.asked.user, self.asked.subject)

    @property
    def forgotten(self) -> list[Known]:
        """All that goes and is known."""
        return [*(self.known[one] for one in self.reach.erased if one in self.known), *self.lines]

    @property
    def scrubbed(self) -> int:
        """Return how many others lose what they quote, or who holds them."""
        some = self.scrubbing
        return len(some.changed) + len(self.quoting) + len({*some.held} - {*some.intentions})

    @property
    def ids(self) -> list[int]:
        """The memories that go."""
        return sorted(self.reach.erased)

    def goes(self, one: Known) -> bool:
        """Whether a line of a file goes."""
        return one.id in self.reach.erased or self.asked.means(one) is not None


def memories(asked: Asked, files: Sequence[Filed], how: Forgetting) -> Flow[Found]:
    """The memories that go or say less, with the lines of files."""
    seeds, found = yield from _seeds(asked)
    lines = [known(line, asked.tenant, how.options) for one in files for line in one.lines]
    meant = [(one, asked.means(one)) for one in lines]
    seeds |= {one.id: why for one, why in meant if why is not None and one.id not in seeds}
    kin, found = yield from _family(asked.tenant, seeds, found)
    family = Family(found, kin, lambda one: _reached(asked, one))

    def going(erased: Collection[int]) -> list[Known]:
        here = [found[one] for one in erased if one in found]
        return here + [one for one in lines if one.id in erased or asked.means(one)]

    first = dict(seeds)
    family.spread(first)
    kin_of_it = first.keys() | family.below(first)
    common = yield from _common(asked.tenant, going(first), kin_of_it)
    reached = reach(seeds, family, lambda erased: passages_of(asked, going(erased), common))
    gone = [one for one in lines if one.id in reached.erased or asked.means(one)]
    return Found(asked=asked, known=found, reach=reached, lines=gone, common=common)


def _common(
    tenant: str, going: Sequence[Known], kin: Collection[int]
) -> Flow[frozenset[tuple[str, ...]]]:
    """The sentences of what goes that others say by themselves."""
    theirs = {tuple(words_of(part)) for one in going for t in one.texts for part in sentences(t)}
    begin = {one[0] for one in theirs if one}
    found: set[tuple[str, ...]] = set()
    page = {"tenant": tenant, "user": None, "limit": PAGE, "after": 0}
    while rows := (yield from _rows("memories_page", page)):
        others = (one for one in (Known(*row) for row in rows) if one.id not in kin)
        for one in others:
            parts = (part for part in sentences(content_of(one.value)) if first_word(part) in begin)
            found.update(theirs.intersection(tuple(words_of(part)) for part in parts))
        page["after"] = rows[-1][0]
    return frozenset(found)


def _reached(asked: Asked, one: Known) -> bool:
    """Whether what lives on in what goes may go along."""
    place = decode(asked.tenant, one.namespace)
    return asked.kind != "key" or asked.context.reaches(one.tier, place)


def passages_of(
    asked: Asked, gone: Sequence[Known], common: Collection[tuple[str, ...]]
) -> Passages:
    """What all of these say, and others do not."""
    keys = {one.key for one in gone} | {one.key for one in asked.under}
    texts = (text for one in gone for text in one.texts)
    return Passages(texts, keys, asked.subject, common)


def _seeds(asked: Asked) -> Flow[tuple[dict[int, str], dict[int, Known]]]:
    """What is asked for."""
    seeds: dict[int, str] = dict(asked.earlier)
    found: dict[int, Known] = {}
    if asked.kind == "key":
        seeds |= {one.id: ASKED for one in asked.under}
        return seeds, found
    page = {"tenant": asked.tenant, "user": asked.user, "limit": PAGE, "after": 0}
    while rows := (yield from _rows("memories_page", page)):
        for one in (Known(*row) for row in rows):
            if (why := asked.means(one)) is not None:
                seeds[one.id], found[one.id] = why, one
        page["after"] = rows[-1][0]
    if asked.subject is not None:
        seeds = {**(yield from _named(asked.tenant, asked.subject)), **seeds}
    if asked.user is not None:
        rows = yield from _rows("archived_of_user", {"tenant": asked.tenant, "user": asked.user})
        seeds |= {row[0]: "it is the user's own" for row in rows}
    return seeds, found


def _named(tenant: str, subject: Subject) -> Flow[dict[int, str]]:
    """Find memories whose intentions, or whose archived places, name a subject."""
    seeds: dict[int, str] = {}
    page = {"tenant": tenant, "limit": PAGE, "after": 0}
    while rows := (yield from _rows("intentions_page", page)):
        for one in (Waiting(*row) for row in rows):
            if any(map(subject.is_named_in, strings_of(one.told, names=True))):
                seeds[one.id] = WAITS
        page["after"] = rows[-1][0]
    page["after"] = 0
    while rows := (yield from _rows("archived_page", page)):
        for id_, namespace, *names in rows:
            if subject.is_named_among([*labels_of(namespace), *names]):
                seeds[id_] = FILED
        page["after"] = rows[-1][0]
    return seeds


def _family(
    tenant: str, seeds: Iterable[int], found: dict[int, Known]
) -> Flow[tuple[list[Kin], dict[int, Known]]]:
    """All that came from these and what these came from, and so on; and who they are."""
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
    return list(kin.values()), found


def traces(found: Found) -> Flow[Found]:
    """The same with what goes of events, states and recalls, and where it was said or shown."""
    asked = found.asked
    users = {one.user_id for one in found.forgotten}
    turns = yield from _turns(asked)
    scrubber = Scrubber(
        tenant=asked.tenant,
        erased=frozenset(found.reach.erased),
        rewritten=frozenset(found.reach.rewritten),
        passages=passages_of(asked, found.forgotten, found.common),
        user=asked.user,
        turns=turns,
        owner=next(iter(users)) if len(users) == 1 and asked.kind != "subject" else None,
    )
    scrubbing = Scrubbing()
    page: dict[str, Any] = {"tenant": asked.tenant, "after": "", "limit": PAGE}
    while rows := (yield from _rows("events_page", page)):
        for row in rows:
            scrubber.add_event(Event(*row), scrubbing)
        page["after"] = rows[-1][0]
    page = {"tenant": asked.tenant, "owner": "", "kind": "", "name": "", "limit": PAGE}
    while rows := (yield from _rows("states_page", page)):
        scrubbing.states.extend(filter(scrubber.state, (State(*row) for row in rows)))
        page |= dict(zip(("owner", "kind", "name"), rows[-1], strict=False))
    yield from _recalls(asked.tenant, scrubber, scrubbing)
    yield from _waiting(asked.tenant, scrubber, scrubbing)
    shown = yield from _rows(
        "sessions_shown", {"tenant": asked.tenant, "ids": found.ids, "user": asked.user}
    )
    threads = dict(_threads(found, scrubbing, scrubber, [row[0] for row in shown]))
    quoting, alike = yield from _quoting(found, scrubber)
    told = replace(found, quoting=quoting, alike=alike, scrubbing=scrubbing, threads=threads)
    return replace(told, logged=(yield from _logged(told)))


def _logged(found: Found) -> Flow[list[int]]:
    """The rows of the audit log that tell of it."""
    logged: list[int] = []
    meant = found.meant
    page = {"tenant": found.asked.tenant, "after": 0, "limit": PAGE}
    while rows := (yield from _rows("audit_told", page)):
        logged += [one.id for one in (Told(*row) for row in rows) if meant.has(one)]
        page["after"] = rows[-1][0]
    return logged


def _waiting(tenant: str, scrubber: Scrubber, to: Scrubbing) -> Flow[None]:
    """Add the intentions of others that wait for it, and what was shown under its name."""
    page: dict[str, Any] = {"tenant": tenant, "limit": PAGE, "after": 0}
    while rows := (yield from _rows("intentions_page", page)):
        others = [one for one in (Waiting(*row) for row in rows) if one.id not in scrubber.erased]
        to.intentions.extend(one.id for one in others if scrubber.waits(one))
        to.held.extend(one.id for one in others if scrubber.named(one.holder))
        page["after"] = rows[-1][0]
    if scrubber.passages.subject is None:
        return
    page |= {"run": "", "after": 0}
    while rows := (yield from _rows("exposures_page", page)):
        several = (Shown(*row) for row in rows if row[1] not in scrubber.erased)
        to.shown.extend(one for one in several if scrubber.named(*one.names))
        page |= {"run": rows[-1][0], "after": rows[-1][1]}


def _recalls(tenant: str, scrubber: Scrubber, to: Scrubbing) -> Flow[None]:
    """Add the recorded recalls that hold it."""
    page: dict[str, Any] = {"tenant": tenant, "turn": "", "recall": "", "limit": PAGE}
    while rows := (yield from _rows("recalls_page", page)):
        to.recalls.extend(filter(scrubber.recall, (Recall(*row) for row in rows)))
        page |= {"turn": rows[-1][0], "recall": rows[-1][1]}


def _quoting(found: Found, scrubber: Scrubber) -> Flow[tuple[dict[int, Known], list[Known]]]:
    """Other memories that quote it beside their content, without that; and those that say it."""
    quoting: dict[int, Known] = {}
    alike: list[Known] = []
    kin = found.reach.erased.keys() | found.reach.rewritten.keys()
    page = {"tenant": found.asked.tenant, "user": None, "limit": PAGE, "after": 0}
    while rows := (yield from _rows("memories_page", page)):
        others = (one for one in (Known(*row) for row in rows) if one.id not in kin)
        for one in filter(scrubber.is_about, others):
            value = scrubber.unquoted(one.value)
            if value != one.value:
                quoting[one.id] = one._replace(value=value)
            if scrubber.passages.repeated_in(content_of(one.value)):
                alike.append(one)
        page["after"] = rows[-1][0]
    return quoting, alike


def _turns(asked: Asked) -> Flow[frozenset[str]]:
    if asked.user is None:
        return frozenset()
    rows = yield from _rows("turns_of_user", {"tenant": asked.tenant, "user": asked.user})
    return frozenset(row[0] for row in rows)


def _threads(
    found: Found, scrubbing: Scrubbing, scrubber: Scrubber, shown: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Threads, each with why it is named; what is said of one last counts."""
    yield thread_of(found.asked.tenant), "cycles of consolidation may name it"
    yield from ((one, "a run was shown it there") for one in sorted(shown))
    for turn in sorted(scrubbing.turns & scrubbing.sessions.keys()):
        yield scrubbing.sessions[turn], "a turn of it kept it"
    for state in scrubbing.states:
        if (session := scrubber.session_of(state)) is not None:
            yield session, "its conversation holds it"
    for one in found.forgotten:
        told = one.value.get("session_id")
        session = one.session or (told if isinstance(told, str) and told else None)
        if session is not None:
            yield session, "it was said there"


def _rows(statement: str, params: Mapping[str, Any]) -> Flow[Rows]:
    """What a statement answers, in the transaction that is open."""
    (rows,) = yield Query((Call(statement, params),))
    return list(rows)
