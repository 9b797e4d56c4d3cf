"""Whether what a receipt speaks of is gone: rows by their ids, contents by their hashes, files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from langmem_tiers.consolidate.archive import Files, archives
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.values import content_of
from langmem_tiers.forget import looking, parts
from langmem_tiers.forget.passages import (
    bare_words,
    is_telling,
    runs,
    sentences,
    strings_of,
    words_of,
)
from langmem_tiers.forget.places import PLACES, Known, Recall, TextRow, each_row
from langmem_tiers.forget.receipt import ForgetReceipt, Trace, Verification
from langmem_tiers.postgres.flow import Call, Flow, Query, apart, rows_of
from langmem_tiers.remember.tombstones import Hashes, hashes_of

_REMEMBERED = 100_000
"""Names that are looked at once, at most."""
_BY_ID = "a row of a memory that was forgotten"
_SAYS = "it says what was forgotten"
_NAMES = "it names the subject"
_OWN = "a row of the user"


class _Checking:
    """What a receipt is checked with, and what is found."""

    def __init__(self, receipt: ForgetReceipt, keyed: Hashes) -> None:
        """Look for what this receipt speaks of."""
        self.receipt = receipt
        self._keyed = keyed
        self._hashes, self._sentences = frozenset(receipt.hashes), frozenset(receipt.sentences)
        self._sizes = set(receipt.names.values())
        self._names: dict[str, bool] = {}
        """Of so many words in a row, whether they are the subject's name."""
        self.found: list[Trace] = []

    def add(self, table: str, one: TextRow) -> None:
        """Note a row that holds something of it."""
        if why := self.why(one):
            self.found.append(Trace(table, PLACES[table].name_of(one), why))

    def why(self, one: TextRow) -> str | None:
        """Why a row holds something of it; None if it does not."""
        match one:
            case Known():
                contents = [content_of(one.value)]
            case Recall():
                contents = [content_of(value) for _, value, _ in one.saw]
            case _:
                contents = []
        if any(self._keyed.of(each) in self._hashes for each in contents):
            return _SAYS
        for text in strings_of(one.said, names=True):
            if any(map(self._is_said, dict.fromkeys(sentences(text)))):
                return _SAYS
            if self._is_named_in(text):
                return _NAMES
        return None

    def is_own(self, user: str | None) -> bool:
        """Whether this is the user who was forgotten."""
        if user is None or self.receipt.kind != "user":
            return False
        return self._keyed.exact(user) == self.receipt.asked

    def _is_said(self, sentence: str) -> bool:
        said = words_of(sentence)
        return is_telling(said) and self._keyed.exact(" ".join(said)) in self._sentences

    def _is_named_in(self, text: str) -> bool:
        """Tell whether a text has a name of the subject as a phrase."""
        if not self._sizes:
            return False
        ways = {tuple(bare_words(text)), tuple(words_of(text))}  # a receipt may keep the accents
        several = (run for said in ways for size in self._sizes for run in runs(said, size))
        return any(map(self._is_name, map(" ".join, several)))

    def _is_name(self, words: str) -> bool:
        known = self._names.get(words)
        if known is None:
            known = self._keyed.exact(words) in self.receipt.names
            if len(self._names) < _REMEMBERED:
                self._names[words] = known
        return known


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
    one = _Checking(receipt, keyed)
    for part in (yield from parts.left(tenant)):
        one.found.append(Trace("unfinished export", str(part), "it may hold what was forgotten"))
    for url in receipt.files:
        if (yield from apart(partial(files().exists, url), sys.maxsize)):
            one.found.append(Trace("removed file", url, "it was to be removed"))
    if receipt.kind == "tenant":
        rows = yield from rows_of("tenant_left", tenant=tenant)
        several = ((table, f"{number:,} rows of the tenant") for table, number in rows if number)
        one.found += [Trace(table, "*", why) for table, why in several]
    else:
        yield from _add_rows(one, tenant)
        yield from _add_filed(one, tenant, options, files)
    return Verification(receipt=receipt.receipt, found=tuple(dict.fromkeys(one.found)))


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


def _add_rows(one: _Checking, tenant: str) -> Flow[None]:
    """Note rows by their ids, of the user, and what says it, whoever's it is."""
    ids = {"tenant": tenant, "ids": list(one.receipt.ids)}
    rows, events = yield Query(
        (Call("traces_left", {**ids, "user": None}), Call("events_left", ids)), commit=True
    )
    named = [*rows, *(("events", name) for (name,) in events)]
    one.found += [Trace(table, str(name), _BY_ID) for table, name in named]
    if one.receipt.kind == "user":
        users = yield from rows_of("users_left", tenant=tenant)
        one.found += [Trace(table, "*", _OWN) for table, user in users if one.is_own(user)]
    for table in PLACES:
        if one.receipt.names or table != "exposures":  # which have nothing but names
            yield from each_row(table, tenant, partial(one.add, table), commit=True)


def _add_filed(
    one: _Checking, tenant: str, options: StoreOptions, files: Callable[[], Files]
) -> Flow[None]:
    """Note lines of archive files that are it, or say it."""
    held = yield from looking.filed((yield from archives(tenant)), files)
    gone = frozenset(one.receipt.ids)
    for file, lines in held:
        for line in lines:
            known = looking.known(line, tenant, options)
            why = _BY_ID if line.id in gone else one.why(known)
            if why := _OWN if one.is_own(known.user_id) else why:
                one.found.append(Trace("archive file", f"{file.url} line {line.id}", why))
