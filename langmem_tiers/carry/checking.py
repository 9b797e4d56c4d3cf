"""What is looked at before an import writes anything: all of the file, and where it is to come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from langmem_tiers.carry.exporting import counted
from langmem_tiers.carry.file import Batch, Line, Reader
from langmem_tiers.carry.rows import MOST_ID, Gone, Tables, check_row, ids_of, known_of
from langmem_tiers.core.carried import KEPT
from langmem_tiers.core.config import Bounds
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, short
from langmem_tiers.core.roles import Role
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.places import Known
from langmem_tiers.postgres.flow import Call, Flow, Query, aside, rows_of
from langmem_tiers.postgres.migrate import NO_HURRY
from langmem_tiers.remember.tombstones import buried
from langmem_tiers.remember.trust import TrustPolicy

MOST_IDS: Final = 2**40
"""How far the ids of a file may be apart, where they are drawn anew: our own choice."""
_IDS_AT_ONCE: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Importing:
    """What is imported, and how."""

    tenant: str
    path: Any
    source: str | None
    """Who answers for the file; None if whoever runs the import does."""
    policy: TrustPolicy
    readmit: bool
    model: str | None
    """The embedding model, if it is known."""
    acting: Callable[[], Role]
    now: Callable[[], datetime]
    advance: Callable[[int], object]
    bounds: Bounds
    """How large a value may be."""

    def reader(self) -> Reader:
        """What reads the file from its beginning."""
        return Reader(self.path, self.bounds)


class Begun(NamedTuple):
    """How far an import has come; a row of begun_import, the columns are in this order."""

    export: str
    done: int
    shift: int
    source: str | None
    readmit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of a file while it was checked."""

    low: int
    high: int
    """The least and the largest id; it has none if the largest is 0."""
    gone: Gone
    hashes: Collection[str]
    """Of what was forgotten, and is to be let back."""


def check_header(reader: Reader, how: Importing, told: Mapping[str, Any]) -> None:
    """See that a database that is set up as `told` can hold what the file has.

    Raises:
        InvalidInputError: if it cannot.
    """
    header = reader.header
    if header.tenant != how.tenant:
        raise reader.refuse(
            1,
            f"this is an export of the tenant {short(header.tenant)} and not of {how.tenant!r}: a "
            "tenant keeps its name, which is in its namespaces and words",
        )
    if header.schema_version != told["schema"]:
        raise reader.refuse(
            1,
            f"the export is of schema version {header.schema_version} and this database at "
            f"{told['schema']}: bring both to the same by setup() of one version of "
            "langmem-tiers, and export again",
        )
    here = None if told["vectors"] is None else dict(told["vectors"])
    there = None if header.vectors is None else header.vectors.model_dump()
    if there != here or header.language != told["language"]:
        raise reader.refuse(
            1,
            f"the export has {_shape(there)} and words of {header.language}, this database "
            f"{_shape(here)} and words of {told['language']}: set one up with the same index",
        )
    if None not in (how.model, header.model) and how.model != header.model:
        raise reader.refuse(
            1, f"its vectors are of the model {header.model}, and this store has {how.model}"
        )


def _shape(vectors: Mapping[str, Any] | None) -> str:
    return "no vectors" if vectors is None else f"{vectors['vector_type']}s of {vectors['dims']}"


def check_owner(how: Importing) -> None:
    """Raise ConfigurationError where a store does not see other tenants."""
    if (acting := how.acting()) != "owner":
        raise ConfigurationError(
            "an import keeps ids and has to see whether others have them, which takes the rights "
            f"of the database's owner, and this store has those of a role {acting!r}: open it as "
            "the owner"
        )


def begun(how: Importing, export: str) -> Flow[Begun | None]:
    """The import of this export that goes on, if one does; else nothing of the tenant is there.

    Raises:
        InvalidInputError: if the tenant has anything, or what goes on is another import.
    """
    found = yield from rows_of("begun_import", tenant=how.tenant)
    if not found:
        yield from check_empty(how.tenant)
        return None
    one = Begun(*found[0])
    if one.export != export:
        raise InvalidInputError(
            f"the import of another export of {how.tenant!r} was begun: finish that one, or forget "
            "the tenant first"
        )
    if (one.source, one.readmit) != (how.source, how.readmit):
        raise InvalidInputError(
            f"this import was begun with source={one.source!r} and readmit={one.readmit}: go on "
            "with the same"
        )
    return one


def check_empty(tenant: str) -> Flow[None]:
    """Raise InvalidInputError if a tenant has anything, and commit what was done before."""
    there = yield from counted(tenant)
    held = [f"{number:,} of {name}" for name, number in there.items() if number]
    if any(number for name, number in there.items() if name not in KEPT):
        raise InvalidInputError(
            f"{tenant!r} has rows already ({', '.join(held)}), and an export is all of a tenant: "
            "import it into a database where the tenant has none"
        )
    yield Query((), commit=True)


def checked(reader: Reader, how: Importing, tables: Tables, one: Begun | None) -> Flow[Seen]:
    """Check all of a file, and what of it was forgotten here; nothing is written."""
    secret = yield from rows_of("tombstone_key", tenant=how.tenant)
    told = sum(number for table, number in reader.header.rows.items() if table not in KEPT)
    if one is not None and one.done >= told:
        secret = []  # what was forgotten may be the file's own by now
    low, high, gone, hashes = MOST_ID, 0, dict[int, Known](), set[str]()
    while (batch := (yield from aside(partial(look, reader, how.tenant, tables)))) is not None:
        ids = ids_of(batch.table, (line.row for line in batch.lines))
        low, high = min(low, *ids, MOST_ID), max(high, *ids, 0)
        if batch.table == "tombstone_keys" and secret and how.source is None:
            _check_key(reader, batch.lines[0], secret[0][0])
        if batch.table == "memories" and secret:
            said, those = yield from _forgotten(how.tenant, batch)
            hashes |= said
            gone |= those
        how.advance(len(batch.lines))
    left_out = () if how.readmit else tuple(gone.values())
    return Seen(low=low, high=high, gone=_gone(how.tenant, left_out), hashes=hashes)


def _forgotten(tenant: str, batch: Batch) -> Flow[tuple[set[str], dict[int, Known]]]:
    """What of these memories was forgotten: hashes, and the memories by id."""
    known = [known_of(line.row) for line in batch.lines]
    said = yield from buried(tenant, [content_of(one.value) for one in known])
    return set(said.values()), {one.id: one for one in known if content_of(one.value) in said}


def _gone(tenant: str, several: Collection[Known]) -> Gone:
    return Gone(
        tenant=tenant,
        ids=frozenset(one.id for one in several),
        texts=tuple(text for one in several for text in one.texts),
        keys=frozenset(one.key for one in several),
    )


def _check_key(reader: Reader, line: Line, secret: str) -> None:
    if line.row["secret"] != f"\\x{secret}":
        raise reader.refuse(
            line.number,
            "the file and this database both know what was forgotten of the tenant, by keys of "
            "their own, so that neither reads the other's: import it into another database",
        )


def look(reader: Reader, tenant: str, tables: Tables) -> Batch | None:
    """The next rows of a file, each of them checked."""
    batch = reader.batch()
    if batch is None:
        return None
    for line in batch.lines:
        try:
            check_row(batch.table, line.row, tables[batch.table], tenant)
        except InvalidInputError as error:
            raise reader.refuse(line.number, str(error)) from error
    return batch


def shift(how: Importing, seen: Seen) -> Flow[int]:
    """What is to be added to each id: nothing, unless other tenants have any of them."""
    if not seen.high:
        return 0
    yield Query((NO_HURRY, Call("pass_ids", {"most": seen.high})), commit=True)
    between = Call("ids_between", {"tenant": how.tenant, "low": seen.low, "high": seen.high})
    _, ((others,),) = yield Query((NO_HURRY, between), commit=True)
    if not others or not (yield from _taken(how)):
        return 0
    many = seen.high - seen.low + 1
    if many > MOST_IDS:
        raise InvalidInputError(
            f"the ids of this export are {many:,} apart, too far to draw as many anew, and other "
            "tenants have some of them: import it into another database"
        )
    _, ((drawn,),) = yield Query((NO_HURRY, Call("draw_ids", {"many": many})), commit=True)
    return int(drawn) + 1 - seen.low


def _taken(how: Importing) -> Flow[bool]:
    """Whether other tenants have any of the ids of a file."""
    reader = yield from aside(how.reader)
    try:
        found = set[int]()
        while (batch := (yield from aside(reader.batch))) is not None:
            found |= set(ids_of(batch.table, (line.row for line in batch.lines)))
            if len(found) >= _IDS_AT_ONCE:
                if (yield from _any_of(how.tenant, found)):
                    return True
                found = set()
        return (yield from _any_of(how.tenant, found))
    finally:
        reader.close()


def _any_of(tenant: str, ids: Collection[int]) -> Flow[bool]:
    among = Call("ids_among", {"tenant": tenant, "ids": sorted(ids)})
    _, ((taken,),) = yield Query((NO_HURRY, among), commit=True)
    return bool(taken)
