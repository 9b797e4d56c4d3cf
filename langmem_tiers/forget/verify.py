"""Whether what a receipt speaks of is gone: rows by their ids, contents by their hashes, files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from langmem_tiers.consolidate.archive import Files, archives
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.values import content_of
from langmem_tiers.forget import archive_lines
from langmem_tiers.forget.logged import Told
from langmem_tiers.forget.looking import PAGE
from langmem_tiers.forget.parts import left as unfinished
from langmem_tiers.forget.passages import sentences, sought, words_of
from langmem_tiers.forget.reach import Known
from langmem_tiers.forget.receipt import ForgetReceipt, Trace, Verification
from langmem_tiers.forget.scrub import SAYING, Recall, Shown, Waiting
from langmem_tiers.forget.subject import bare_words, labels_of, strings_of
from langmem_tiers.postgres.flow import Call, Flow, Query, apart, rows_of
from langmem_tiers.recall.replay import seen_in
from langmem_tiers.remember.tombstones import Hashes, hashes_of

_REMEMBERED = 100_000
"""Names that are looked at once, at most."""
_BY_ID = "a row of a memory that was forgotten"
_SAYS = "it says what was forgotten"
_NAMES = "it names the subject"


class Checking(NamedTuple):
    """What a receipt is checked with."""

    receipt: ForgetReceipt
    keyed: Hashes
    hashes: frozenset[str]
    sentences: frozenset[str]
    names: dict[str, bool]
    """Of so many words in a row, whether they are the subject's name."""

    def of_memory(self, one: Known) -> str | None:
        """Why a memory holds something of it; None if it does not."""
        if self.keyed.of(content_of(one.value)) in self.hashes:
            return _SAYS
        beside = [one.key, *labels_of(one.namespace), one.user_id, one.session, one.speaker]
        return self.of_value([one.value, *beside])

    def of_value(self, value: object) -> str | None:
        """Why JSON holds something of it; None if it does not."""
        for text in strings_of(value, names=True):
            if any(self._told(one) in self.sentences for one in _parts(text)):
                return _SAYS
            if self.receipt.names and self._named(text):
                return _NAMES
        return None

    def _told(self, text: str) -> str:
        return self.keyed.exact(" ".join(words_of(text)))

    def _named(self, text: str) -> bool:
        """Tell whether a text has a name of the subject as a phrase."""
        sizes = set(self.receipt.names.values())
        ways = {tuple(bare_words(text)), tuple(words_of(text))}  # a receipt may keep the accents
        return any(
            self._is_name(" ".join(said[start : start + size]))
            for said in ways
            for size in sizes
            for start in range(len(said) - size + 1)
        )

    def _is_name(self, words: str) -> bool:
        known = self.names.get(words)
        if known is None:
            known = self.keyed.exact(words) in self.receipt.names
            if len(self.names) < _REMEMBERED:
                self.names[words] = known
        return known


def _parts(text: str) -> Iterator[str]:
    return (one for one in dict.fromkeys(sentences(text)) if sought(one))


def verify(
    receipt: ForgetReceipt, tenant: str, options: StoreOptions, files: Callable[[], Files]
) -> Flow[Verification]:
    """Look whether anything of it is there, and name what is.

    Raises:
        InvalidInputError: if the receipt is another tenant's or database's, or was changed.
        ArchiveError: if an archive that is needed is missing or damaged.
    """
    keyed, new = yield from hashes_of(tenant)
    if receipt.tenant != tenant or new is not None:
        raise InvalidInputError(
            f"the receipt is of the tenant {receipt.tenant!r} of the database where that was "
            "forgotten: ask there, through a coordinator of that tenant"
        )
    yield from _check_given(receipt)
    one = Checking(receipt, keyed, frozenset(receipt.hashes), frozenset(receipt.sentences), {})
    parts = yield from unfinished(tenant)
    found = [
        *(Trace("unfinished export", str(one), "it may hold what was forgotten") for one in parts),
        *(yield from _removed(receipt, files)),
        *(yield from (_of_tenant(tenant) if receipt.kind == "tenant" else _rows(one, tenant))),
    ]
    if receipt.kind != "tenant":
        found += yield from _said(one, tenant)
        found += yield from _filed(one, tenant, options, files)
    return Verification(receipt=receipt.receipt, found=tuple(dict.fromkeys(found)))


def _check_given(receipt: ForgetReceipt) -> Flow[None]:
    """Check that a receipt says what it said when it was given.

    Raises:
        InvalidInputError: if it does not, or the database's own record of it was changed.
    """
    known = {"tenant": receipt.tenant, "receipt": receipt.receipt}
    rows = yield from rows_of("receipt_given", **known)
    if not rows:
        raise InvalidInputError(
            f"no receipt {short(receipt.receipt)} was given here: ask the database where that was "
            "forgotten, or one that all of the tenant was brought to since"
        )
    ((told, digest),) = rows
    given = ForgetReceipt.of_json(told)
    if odd := sorted(name for name, one in receipt.given.items() if given.given[name] != one):
        raise InvalidInputError(
            f"the receipt was changed since it was given, in {short(odd)}: verify the one that "
            "forget() answered"
        )
    if digest is not None and digest != given.digest:
        raise InvalidInputError(
            f"the receipt {short(receipt.receipt)} is another one in the audit log: somebody "
            "changed it and the database's record of it, so that it proves nothing"
        )


def _removed(receipt: ForgetReceipt, files: Callable[[], Files]) -> Flow[list[Trace]]:
    """The files that were to be removed and are there."""
    found = []
    for url in receipt.files:
        there: bool = yield from apart(partial(files().exists, url), sys.maxsize)
        if there:
            found.append(Trace("removed file", url, "it was to be removed"))
    return found


def _of_tenant(tenant: str) -> Flow[list[Trace]]:
    rows = yield from rows_of("tenant_left", tenant=tenant)
    return [Trace(table, "*", f"{number:,} rows of the tenant") for table, number in rows if number]


def _rows(one: Checking, tenant: str) -> Flow[list[Trace]]:
    """Rows by their ids, and of the user."""
    ids = {"tenant": tenant, "ids": list(one.receipt.ids)}
    rows, events = yield Query(
        (Call("traces_left", {**ids, "user": None}), Call("events_left", ids)), commit=True
    )
    found = [Trace(table, str(id_), _BY_ID) for table, id_ in rows]
    found += [Trace("events", name, _BY_ID) for (name,) in events]
    if one.receipt.kind == "user":
        users = yield from rows_of("users_left", tenant=tenant)
        found += [
            Trace(table, "*", "rows of the user")
            for table, user in users
            if one.keyed.exact(user) == one.receipt.asked
        ]
    return found


def _said(one: Checking, tenant: str) -> Flow[list[Trace]]:
    """Rows that say it, whoever's they are."""
    found: list[Trace] = []
    page: dict[str, Any] = {"tenant": tenant, "user": None, "limit": PAGE, "after": 0}
    while rows := (yield from rows_of("memories_page", **page)):
        several = [Known(*row) for row in rows]
        found += yield from apart(partial(_memories, one, several), sys.maxsize)
        page["after"] = rows[-1][0]
    page = {"tenant": tenant, "limit": PAGE, "after": ""}
    while rows := (yield from rows_of("events_page", **page)):
        named = [(row[0], [row[4], unquote(row[0])]) for row in rows]
        found += yield from apart(partial(_values, one, "events", named), sys.maxsize)
        page["after"] = rows[-1][0]
    page = {"tenant": tenant, "limit": PAGE, "after": 0}
    while rows := (yield from rows_of("audit_told", **page)):
        named = [(str(row[0]), Told(*row).names) for row in rows]
        found += yield from apart(partial(_values, one, "audit", named), sys.maxsize)
        page["after"] = rows[-1][0]
    page = {"tenant": tenant, "owner": "", "kind": "", "name": "", "limit": PAGE}
    while rows := (yield from rows_of("states_page", **page)):
        named = [(" ".join(row[:3]), [*labels_of(row[0]), *row[2:]]) for row in rows]
        found += yield from apart(partial(_values, one, "states", named), sys.maxsize)
        page |= dict(zip(("owner", "kind", "name"), rows[-1], strict=False))
    page = {"tenant": tenant, "turn": "", "recall": "", "limit": PAGE}
    while rows := (yield from rows_of("recalls_page", **page)):
        recalls = [Recall(*row) for row in rows]
        found += yield from apart(partial(_recalls, one, recalls), sys.maxsize)
        page |= {"turn": rows[-1][0], "recall": rows[-1][1]}
    return found + (yield from _named(one, tenant))


def _named(one: Checking, tenant: str) -> Flow[list[Trace]]:
    """Find rows whose triggers or names hold it."""
    found: list[Trace] = []
    page: dict[str, Any] = {"tenant": tenant, "limit": PAGE, "after": 0}
    while rows := (yield from rows_of("intentions_page", **page)):
        waiting = (Waiting(*row) for row in rows)
        named: list[tuple[str, Any]] = [(str(w.id), [*w.told, w.holder]) for w in waiting]
        found += yield from apart(partial(_values, one, "intentions", named), sys.maxsize)
        page["after"] = rows[-1][0]
    page["after"] = 0
    while rows := (yield from rows_of("archived_page", **page)):
        named = [(str(row[0]), [*labels_of(row[1]), *row[2:]]) for row in rows]
        found += yield from apart(partial(_values, one, "archived", named), sys.maxsize)
        page["after"] = rows[-1][0]
    page |= {"run": "", "after": 0}
    while one.receipt.names and (rows := (yield from rows_of("exposures_page", **page))):
        named = [(f"{row[0]} {row[1]}", Shown(*row).names) for row in rows]
        found += yield from apart(partial(_values, one, "exposures", named), sys.maxsize)
        page |= {"run": rows[-1][0], "after": rows[-1][1]}
    return found


def _recalls(one: Checking, several: Sequence[Recall]) -> list[Trace]:
    judged = ((each.recall, _held(one, each)) for each in several)
    return [Trace("recalls", name, why) for name, why in judged if why is not None]


def _held(one: Checking, recall: Recall) -> str | None:
    """Why a recorded recall holds something of it; None if it does not."""
    for row in seen_in(recall.seen):
        if one.keyed.of(content_of(row["value"])) in one.hashes:
            return _SAYS
        if why := one.of_value([row[name] for name in SAYING]):
            return why
    return one.of_value([recall.asked, recall.answered, *recall.names])


def _memories(one: Checking, several: Sequence[Known]) -> list[Trace]:
    judged = ((each, one.of_memory(each)) for each in several)
    return [Trace("memories", str(each.id), why) for each, why in judged if why is not None]


def _values(one: Checking, table: str, named: Sequence[tuple[str, Any]]) -> list[Trace]:
    judged = ((name, one.of_value(value)) for name, value in named)
    return [Trace(table, name, why) for name, why in judged if why is not None]


def _filed(
    one: Checking, tenant: str, options: StoreOptions, files: Callable[[], Files]
) -> Flow[list[Trace]]:
    """Lines of archive files that are it, or say it."""
    held = yield from archive_lines.read((yield from archives(tenant)), files)
    found = []
    gone = frozenset(one.receipt.ids)
    for file, lines in held:
        for line in lines:
            known = archive_lines.known(line, tenant, options)
            why = _BY_ID if line.id in gone else one.of_memory(known)
            user = known.user_id
            if one.receipt.kind == "user" and user is not None:
                why = "a row of the user" if one.keyed.exact(user) == one.receipt.asked else why
            if why is not None:
                found.append(Trace("archive file", f"{file.url} line {line.id}", why))
    return found
