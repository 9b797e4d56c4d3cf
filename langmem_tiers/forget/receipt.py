"""What is said of forgetting: the plan before it, the receipt after it, and whether that holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple, Self, cast

from pydantic import TypeAdapter, ValidationError

from langmem_tiers.core.checks import checked_mapping
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.reading import plain

_FOLLOWS: Final = frozenset(("threads", "named_threads", "unfinished"))
Kind = Literal["key", "user", "subject", "tenant"]


def counted(rows: Mapping[str, int]) -> dict[str, int]:
    """How many rows there are, by the tables that have any."""
    return {table: number for table, number in sorted(rows.items()) if number}


class PlannedMemory(NamedTuple):
    """A memory that goes, or is suspect then, and why."""

    key: str | None
    """None of another project's or user's, where a context reaches neither."""
    namespace: tuple[str, ...]
    tier: str
    """`archived` of one that is in a file alone, `gone` of one that was rejected or made room."""
    why: str

    def __str__(self) -> str:
        """Which, where, and why."""
        where = "/".join(self.namespace)
        return f"{plain(self.key or '(another one)')} in {plain(where)} ({self.tier}): {self.why}"


class PlannedThread(NamedTuple):
    """A thread of a checkpointer that is called as a session is, and why it is named."""

    thread: str
    why: str

    def __str__(self) -> str:
        """Which, and why."""
        return f"{plain(self.thread)}: {self.why}"


class NearForm(NamedTuple):
    """A form that is written nearly as a subject's name is; it stays unless it is named too."""

    form: str
    """The form, as it is written in one place."""
    rows: int
    """The number of memories, states, events and reminders that have it."""

    def __str__(self) -> str:
        """Return the form, and how often it stands."""
        return f"{plain(self.form)} ({self.rows:,})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPlan:
    """What `forget` would do; nothing was changed."""

    kind: Kind
    erased: tuple[PlannedMemory, ...]
    """What goes: what was asked for, its twins, what came from it alone, and what repeats it of
    what came from others as well."""
    rewritten: tuple[PlannedMemory, ...]
    """What came from others as well, and repeats nothing of it: it stays, and is suspect."""
    counts: Mapping[str, int]
    """How many rows go, by table."""
    scrubbed: int
    """How many other memories, and events of others, lose what they quote."""
    alike: tuple[PlannedMemory, ...] = ()
    """Other memories that say the same by themselves: they stay, and are named here."""
    files: tuple[str, ...]
    """The archives that are written anew without some lines, or removed."""
    threads: tuple[PlannedThread, ...]
    """Those called as the sessions where it was said or shown: deleted with a `checkpointer` alone.

    A thread that has another name than its session is not known.
    """
    unfinished: tuple[str, ...] = ()
    """Files of exports that were broken off, which may hold it; those on this machine are removed.
    A file that an export has finished is yours to remove."""
    near: tuple[NearForm, ...] = ()
    """The forms written nearly as a subject's name is: they stay, unless they are named as well."""

    def __str__(self) -> str:
        """A line for each thing."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        rows = ", ".join(
            f"{number:,} of {table}" for table, number in self.counts.items() if number
        )
        yield f"forgetting a {self.kind} would take away {rows or 'nothing'}"
        yield from (f"  goes: {one}" for one in self.erased)
        yield from (f"  stays, and is suspect: {one}" for one in self.rewritten)
        if self.scrubbed:
            yield f"  others that lose what they quote: {self.scrubbed:,}"
        yield from (f"  stays: {one}" for one in self.alike)
        if self.near:
            forms = ", ".join(map(str, self.near))
            yield f"  also found, and stays unless it is named too: {forms}"
        yield from (f"  archive without it: {plain(one)}" for one in self.files)
        yield from (f"  unfinished export: {one}" for one in self.unfinished)
        yield from (f"  thread {one}" for one in self.threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """What was forgotten, without a word of it; `verify_forgotten` takes it.

    Hashes are HMAC-SHA256 under a key that the database keeps for the tenant.
    """

    receipt: str
    """Its name."""
    tenant: str
    kind: Kind
    asked: str
    """The hash of what was asked for."""
    at: str
    """When, as ISO 8601 in UTC."""
    ids: tuple[int, ...]
    """Of the memories that are gone."""
    rewritten: tuple[int, ...]
    """Of those that stay, and are suspect."""
    hashes: tuple[str, ...]
    """Of what those said that are gone, whole."""
    sentences: tuple[str, ...]
    """Of the sentences of what went that say enough to be known again."""
    counts: Mapping[str, int]
    """How many rows went, by table."""
    scrubbed: int
    """How many other memories, and events of others, lost what they quoted."""
    names: Mapping[str, int] = field(default_factory=dict)
    """The hash of each name of a subject, with the number of its words."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    """The archive files that were removed, each with the one in its place, if any."""
    threads: tuple[str, ...] = ()
    """The threads that were deleted: those called as the sessions, and no others."""
    named_threads: tuple[str, ...] = ()
    """Those where it was said or shown, and which stand, as no checkpointer was given."""
    unfinished: tuple[str, ...] = ()
    """Files of exports that were broken off on other machines, or by other accounts; they may hold
    it. Remove them there."""

    def __str__(self) -> str:
        """What went, in a line."""
        rows = ", ".join(
            f"{number:,} of {table}" for table, number in self.counts.items() if number
        )
        return f"forgotten at {self.at}: {rows or 'nothing'} (receipt {self.receipt})"

    def to_json(self) -> dict[str, Any]:
        """The receipt as JSON can hold it."""
        return asdict(self)

    @property
    def given(self) -> dict[str, Any]:
        """Return what the database keeps of it: all but the parts on the checkpointer and files."""
        told = json.loads(json.dumps(self.to_json()))
        return {name: one for name, one in told.items() if name not in _FOLLOWS}

    @property
    def digest(self) -> str:
        """Return the SHA-256 of what the database keeps of it, as the audit log has it."""
        told = json.dumps(self.given, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(told.encode()).hexdigest()

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Self:
        """The receipt of that JSON.

        Raises:
            InvalidInputError: if it is none.
        """
        given = dict(checked_mapping(told, "a receipt", "that of to_json()"))
        asked, size = given.get("asked"), given.get("words")
        if "names" not in given and size and isinstance(asked, str):  # as 0.1.0 gave it
            given["names"] = {asked: size}
        try:
            return TypeAdapter(cls).validate_python(given)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False)[0]
            where = short(".".join(map(str, wrong["loc"])))
            raise InvalidInputError(
                f"this is no receipt ({where}: {wrong['msg']}): pass what forget() answered, or "
                "its to_json()"
            ) from error


class Trace(NamedTuple):
    """Something that is still there."""

    table: str
    """Where: a table, `archive file` or `removed file`."""
    row: str
    """Which: the id or the name of a row, or a URL."""
    why: str

    def __str__(self) -> str:
        """Where, which and why."""
        return f"{self.table} {plain(self.row)}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Whether what a receipt speaks of is gone. It is true if nothing was found."""

    receipt: str
    found: tuple[Trace, ...] = ()

    def __bool__(self) -> bool:
        """Whether all of it is gone."""
        return not self.found

    def __str__(self) -> str:
        """What is still there, a line each."""
        if not self.found:
            return f"nothing of {self.receipt} is left"
        return "\n".join([f"of {self.receipt} there is still", *(f"  {one}" for one in self.found)])


def checked_receipt(given: object) -> ForgetReceipt:
    """A receipt, or what it is as JSON."""
    if isinstance(given, ForgetReceipt):
        return given
    if isinstance(given, Mapping):
        return ForgetReceipt.of_json(cast("Mapping[str, Any]", given))
    raise InvalidInputError(f"a receipt is what forget() answered, not {short(given)}")
