"""The plan and the receipt of forgetting, and the verification of a receipt."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, Self, cast

from pydantic import TypeAdapter, ValidationError

from langmem_tiers.consolidation.archive import ArchiveStorage, list_archives
from langmem_tiers.core.checks import checked_mapping
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.texts import printable_line
from langmem_tiers.core.values import content_of
from langmem_tiers.forget import unfinished_exports
from langmem_tiers.forget.find import FileLines, ForgetKind, read_files, row_of_line
from langmem_tiers.forget.passages import (
    is_distinctive,
    name_words,
    sentences,
    word_runs,
    words_of,
)
from langmem_tiers.forget.text_places import PLACES, MemoryRow, RecallRow, TextPlace, filter_rows
from langmem_tiers.postgres.flow import Call, Flow, Query, off_loop, rows_of
from langmem_tiers.remember.tombstones import KeyedHashes, load_hashes

_FOLLOWS: Final = frozenset(("threads", "named_threads", "unfinished"))
_REMEMBERED: Final = 100_000
"""Names that are looked at once, at most."""
_BY_ID: Final = "a row of a memory that was forgotten"
_SAYS: Final = "it says what was forgotten"
_NAMES: Final = "it names the subject"
_OWN: Final = "a row of the user"


def nonzero_counts(rows: Mapping[str, int]) -> dict[str, int]:
    """Keep the tables that have rows, in order of their names."""
    return {table: number for table, number in sorted(rows.items()) if number}


def describe_counts(rows: Mapping[str, int]) -> str:
    """Describe the numbers of rows by table."""
    return ", ".join(f"{n:,} of {table}" for table, n in rows.items() if n) or "nothing"


class PlannedMemory(NamedTuple):
    """A memory that goes, or is suspect then, and why."""

    key: str | None
    """The key; None if it is another project's or user's, beyond the context."""
    namespace: tuple[str, ...]
    tier: str
    """`archived` of one that is in a file alone, `gone` of one that was rejected or made room."""
    why: str

    def __str__(self) -> str:
        """Show the key, the place and the reason."""
        where = "/".join(self.namespace)
        key = printable_line(self.key or "(another one)")
        return f"{key} in {printable_line(where)} ({self.tier}): {self.why}"


class PlannedThread(NamedTuple):
    """A thread of a checkpointer that is called as a session is, and why it is named."""

    thread: str
    why: str

    def __str__(self) -> str:
        """Show the thread and the reason."""
        return f"{printable_line(self.thread)}: {self.why}"


class NearForm(NamedTuple):
    """A form that is written nearly as a subject's name is; it stays unless it is named too."""

    form: str
    """The form, as it is written in one place."""
    rows: int
    """The number of memories, states, events and reminders that have it."""

    def __str__(self) -> str:
        """Return the form, and how often it stands."""
        return f"{printable_line(self.form)} ({self.rows:,})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPlan:
    """The plan of `forget`; nothing was changed."""

    kind: ForgetKind
    erased: tuple[PlannedMemory, ...]
    """What goes: what was asked for, its twins, what came from it alone, and what repeats it of
    what came from others as well."""
    rewritten: tuple[PlannedMemory, ...]
    """What came from others as well, and repeats nothing of it: it stays, and is suspect."""
    counts: Mapping[str, int]
    """Numbers of erased rows, by table."""
    scrubbed: int
    """The number of other memories, and events of others, that lose a quote."""
    alike: tuple[PlannedMemory, ...] = ()
    """Other memories that say the same by themselves: they stay, and are named here."""
    files: tuple[str, ...]
    """The archives that are written anew without some lines, or removed."""
    threads: tuple[PlannedThread, ...]
    """Threads named as sessions where it was said or shown; only a `checkpointer` deletes them.

    A thread that has another name than its session is not known.
    """
    unfinished: tuple[str, ...] = ()
    """Files of exports that were broken off, which may hold it; those on this machine are removed.
    A file that an export has finished is yours to remove."""
    near: tuple[NearForm, ...] = ()
    """The forms written nearly as a subject's name is: they stay, unless they are named as well."""

    def __str__(self) -> str:
        """Show the plan, a line for each item."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"forgetting a {self.kind} would take away {describe_counts(self.counts)}"
        yield from (f"  goes: {memory}" for memory in self.erased)
        yield from (f"  stays, and is suspect: {memory}" for memory in self.rewritten)
        if self.scrubbed:
            yield f"  others that lose what they quote: {self.scrubbed:,}"
        yield from (f"  stays: {memory}" for memory in self.alike)
        if self.near:
            forms = ", ".join(map(str, self.near))
            yield f"  also found, and stays unless it is named too: {forms}"
        yield from (f"  archive without it: {printable_line(url)}" for url in self.files)
        yield from (f"  unfinished export: {part}" for part in self.unfinished)
        yield from (f"  thread {thread}" for thread in self.threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """The proof of forgetting, without a word of it; `admin.verify_forgotten` takes it.

    Hashes are HMAC-SHA256 under a key that the database keeps for the tenant.
    """

    receipt: str
    """Its name."""
    tenant: str
    kind: ForgetKind
    asked: str
    """The hash of what was asked for."""
    at: str
    """The time, as ISO 8601 in UTC."""
    ids: tuple[int, ...]
    """Ids of the erased memories."""
    rewritten: tuple[int, ...]
    """Ids of the memories that stay, and are suspect."""
    hashes: tuple[str, ...]
    """Hashes of the erased contents."""
    sentences: tuple[str, ...]
    """Hashes of the erased sentences that are long enough to be recognised."""
    counts: Mapping[str, int]
    """Numbers of erased rows, by table."""
    scrubbed: int
    """The number of other memories, and events of others, that lost a quote."""
    names: Mapping[str, int] = field(default_factory=dict)
    """The hash of each name of a subject, with the number of its words."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    """The archive files that were removed, each with the one in its place, if any."""
    threads: tuple[str, ...] = ()
    """The threads that were deleted: those called as the sessions, and no others."""
    named_threads: tuple[str, ...] = ()
    """Threads where it was said or shown; they stay, as no checkpointer was given."""
    unfinished: tuple[str, ...] = ()
    """Files of exports that were broken off on other machines, or by other accounts; they may hold
    it. Remove them there."""

    def __str__(self) -> str:
        """Show the receipt in a line."""
        return f"forgotten at {self.at}: {describe_counts(self.counts)} (receipt {self.receipt})"

    def to_json(self) -> dict[str, Any]:
        """Convert the receipt to JSON."""
        return asdict(self)

    @property
    def given(self) -> dict[str, Any]:
        """Build the database's record: without the fields on threads and unfinished files."""
        document = json.loads(json.dumps(self.to_json()))
        return {name: field for name, field in document.items() if name not in _FOLLOWS}

    @property
    def digest(self) -> str:
        """Compute the SHA-256 of the database's record, as the audit log has it."""
        text = json.dumps(self.given, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Self:
        """Read a receipt from JSON.

        Raises:
            InvalidInputError: if it is none.
        """
        fields = dict(checked_mapping(document, "a receipt", "that of to_json()"))
        asked, size = fields.get("asked"), fields.get("words")
        if "names" not in fields and size and isinstance(asked, str):  # as 0.1.0 gave it
            fields["names"] = {asked: size}
        try:
            return TypeAdapter(cls).validate_python(fields)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False)[0]
            where = short(".".join(map(str, wrong["loc"])))
            raise InvalidInputError(
                f"this is no receipt ({where}: {wrong['msg']}): pass what forget() answered, or "
                "its to_json()"
            ) from error


class RemainingTrace(NamedTuple):
    """A remaining trace."""

    table: str
    """The place: a table, `archive file` or `removed file`."""
    row: str
    """The id or the name of a row, or a URL."""
    why: str

    def __str__(self) -> str:
        """Show the place, the row and the reason."""
        return f"{self.table} {printable_line(self.row)}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The verification of a receipt. It is true if nothing was found."""

    receipt: str
    found: tuple[RemainingTrace, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether all of it is gone."""
        return not self.found

    def __str__(self) -> str:
        """List the remaining traces, a line each."""
        if not self.found:
            return f"nothing of {self.receipt} is left"
        return "\n".join(
            [f"of {self.receipt} there is still", *(f"  {trace}" for trace in self.found)]
        )


def checked_receipt(value: object) -> ForgetReceipt:
    """Check a receipt, or read it from JSON."""
    if isinstance(value, ForgetReceipt):
        return value
    if isinstance(value, Mapping):
        return ForgetReceipt.of_json(cast("Mapping[str, Any]", value))
    raise InvalidInputError(f"a receipt is what forget() answered, not {short(value)}")


# Whether it is gone


def verify_receipt(
    receipt: ForgetReceipt, tenant: str, options: StoreOptions, files: Callable[[], ArchiveStorage]
) -> Flow[Verification]:
    """Look whether anything of it is there, and name what is.

    Raises:
        InvalidInputError: if the receipt is another tenant's or database's, or was changed.
        FileError (archive): if an archive that is needed is missing or damaged.
    """
    hashes, new = yield from load_hashes(tenant)
    if receipt.tenant != tenant or new is not None:
        raise InvalidInputError(
            f"the receipt is of the tenant {receipt.tenant!r} of the database where that was "
            "forgotten: ask there, through a coordinator of that tenant"
        )
    yield from _check_unchanged(receipt)
    traces = [
        RemainingTrace("unfinished export", str(part), "it may hold what was forgotten")
        for part in (yield from unfinished_exports.list_unfinished(tenant))
    ]
    for url in receipt.files:
        if (yield from off_loop(partial(files().exists, url), sys.maxsize)):
            traces += [RemainingTrace("removed file", url, "it was to be removed")]
    if receipt.kind == "tenant":
        rows = yield from rows_of("tenant_left", tenant=tenant)
        traces += [
            RemainingTrace(table, "*", f"{n:,} rows of the tenant") for table, n in rows if n
        ]
    else:
        forgotten = _ForgottenHashes(receipt, hashes)
        traces += yield from _find_rows(forgotten, tenant)
        filed = yield from read_files((yield from list_archives(tenant)), files)
        traces += _find_lines(forgotten, filed, tenant, options)
    return Verification(receipt=receipt.receipt, found=tuple(dict.fromkeys(traces)))


def _check_unchanged(receipt: ForgetReceipt) -> Flow[None]:
    """Check that a receipt says what it said when it was given.

    Raises:
        InvalidInputError: if it does not, or the database's own record of it was changed.
    """
    rows = yield from rows_of("receipt_given", tenant=receipt.tenant, receipt=receipt.receipt)
    if not rows:
        raise InvalidInputError(
            f"no receipt {short(receipt.receipt)} was given here: ask the database where that was "
            "forgotten, or one that all of the tenant was brought to since"
        )
    ((kept_document, digest),) = rows
    kept = ForgetReceipt.of_json(kept_document)
    if odd := sorted(name for name, value in receipt.given.items() if kept.given[name] != value):
        raise InvalidInputError(
            f"the receipt was changed since it was given, in {short(odd)}: verify the one that "
            "forget() answered"
        )
    if digest is not None and digest != kept.digest:
        raise InvalidInputError(
            f"the receipt {short(receipt.receipt)} is another one in the audit log: somebody "
            "changed it and the database's record of it, so that it proves nothing"
        )


def _find_rows(forgotten: _ForgottenHashes, tenant: str) -> Flow[list[RemainingTrace]]:
    """Find rows by their ids, of the user, and what says it, whoever's it is."""
    receipt = forgotten.receipt
    ids = {"tenant": tenant, "ids": list(receipt.ids)}
    rows, events = yield Query(
        (Call("traces_left", {**ids, "user": None}), Call("events_left", ids)), commit=True
    )
    named = [*rows, *(("events", name) for (name,) in events)]
    traces = [RemainingTrace(table, str(name), _BY_ID) for table, name in named]
    if receipt.kind == "user":
        users = yield from rows_of("users_left", tenant=tenant)
        traces += [
            RemainingTrace(table, "*", _OWN) for table, user in users if forgotten.is_own(user)
        ]

    def see(table: str, row: Any) -> None:
        if why := forgotten.why(PLACES[table], row):
            traces.append(RemainingTrace(table, PLACES[table].name_of(row), why))

    for table in PLACES:
        if receipt.names or table != "exposures":  # which have nothing but names
            yield from filter_rows(table, tenant, partial(see, table), commit=True)
    return traces


def _find_lines(
    forgotten: _ForgottenHashes, filed: FileLines, tenant: str, options: StoreOptions
) -> Iterator[RemainingTrace]:
    """Find lines of archive files that are it, or say it."""
    gone = frozenset(forgotten.receipt.ids)
    for file, lines in filed:
        for line in lines:
            row = row_of_line(line, tenant, options)
            why = _BY_ID if line.id in gone else forgotten.why(PLACES["memories"], row)
            if why := _OWN if forgotten.is_own(row.user_id) else why:
                yield RemainingTrace("archive file", f"{file.url} line {line.id}", why)


class _ForgottenHashes:
    """The contents, sentences and names that a receipt speaks of, by their hashes alone."""

    def __init__(self, receipt: ForgetReceipt, hashes: KeyedHashes) -> None:
        """Look for what this receipt speaks of."""
        self.receipt = receipt
        self._hashes = hashes
        self._contents, self._sentences = frozenset(receipt.hashes), frozenset(receipt.sentences)
        self._sizes = set(receipt.names.values())
        self._is_name = lru_cache(_REMEMBERED)(lambda name: hashes.exact(name) in receipt.names)

    def why(self, place: TextPlace, row: Any) -> str | None:
        """Name the reason why a row has something forgotten; None if it has nothing."""
        contents = []
        if isinstance(row, MemoryRow):
            contents = [content_of(row.value)]
        elif isinstance(row, RecallRow):
            contents = [content_of(value) for _, value, _ in row.saw]
        if any(self._hashes.of(content) in self._contents for content in contents):
            return _SAYS
        for text in place.texts_of(row):
            if any(map(self._is_said, dict.fromkeys(sentences(text)))):
                return _SAYS
            if self._is_named_in(text):
                return _NAMES
        return None

    def is_own(self, user: str | None) -> bool:
        """Tell whether this is the user who was forgotten."""
        if user is None or self.receipt.kind != "user":
            return False
        return self._hashes.exact(user) == self.receipt.asked

    def _is_said(self, sentence: str) -> bool:
        sentence_words = words_of(sentence)
        return (
            is_distinctive(sentence_words)
            and self._hashes.exact(" ".join(sentence_words)) in self._sentences
        )

    def _is_named_in(self, text: str) -> bool:
        """Tell whether a text has a name of the subject as a phrase."""
        if not self._sizes:
            return False
        ways = {tuple(name_words(text)), tuple(words_of(text))}  # a receipt may keep the accents
        phrases = (
            run for spelling in ways for size in self._sizes for run in word_runs(spelling, size)
        )
        return any(map(self._is_name, map(" ".join, phrases)))
