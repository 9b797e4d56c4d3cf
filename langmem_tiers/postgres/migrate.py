"""Migrations of a database to this package's schema, and builds of its vector indexes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from langmem_tiers.core import errors
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import TIERS, Tier
from langmem_tiers.core.vectors import VectorOptions
from langmem_tiers.postgres import sql
from langmem_tiers.postgres.flow import BuildIndex, Call, Flow, Query, Rows, Script

SETUP_LOCK = 0x6C616E676D656D
"""The key of the advisory lock that setups wait for (the bytes of "langmem")."""

BUILD_LOCK = SETUP_LOCK + 1
"""The key of the advisory lock of index builds; a build that finds it taken is skipped."""

_ROW_BYTES = 100
"""The bytes of a row of vectors beside the vector, about."""
_DOCUMENTS = 2
"""The version of documents.sql; setup replaces an older one."""

_WALLS = 5
"""The version of walls.sql; setup replaces an older one."""

_LOCK = Call("lock_setup", {"lock": SETUP_LOCK})

NO_HURRY = Call("no_hurry", {})
"""Removes the time-out of the rest of a transaction."""


def set_up(options: StoreOptions, now: datetime) -> Flow[None]:
    """Create or migrate the schema, in one transaction, one process at a time.

    Raises:
        DatabaseError (migration): if the database is newer than this package or older than its
            first migration, or one that has run differs from the one shipped.
        ConfigurationError (dimension_mismatch): if the database holds vectors of another shape.
        ConfigurationError: if it holds words of another language.
    """
    migrations = {"migrations": f"{options.schema('memory')}.migrations"}
    _, _, ((exists,),) = yield Query((NO_HURRY, _LOCK, Call("has_migrations", migrations)))
    (applied,) = (yield Query((Call("applied_migrations", {}),))) if exists else ((),)
    if not applied:
        yield from _create_schemas(options)
    for migration in pending_migrations(sql.migrations(options), dict(applied)):
        yield Script(migration.text)
        record = {name: getattr(migration, name) for name in ("version", "name", "checksum")}
        yield Query((Call("record_migration", {**record, "now": now}),))
    (rows,) = yield Query((Call("settings", {}),))
    settings = dict(rows)
    reshaped = yield from _set_vector_shape(options, settings)
    if settings.get("documents", 0) < _DOCUMENTS:
        yield Script(sql.document_views(options))
        yield _change_setting("documents", _DOCUMENTS)
    yield from _choose_language(options, settings)
    logs = options.audit.writes  # None leaves the database as it is
    if logs is not None and logs != settings.get("audit", True):
        yield Script(sql.audit_switch(options, on=logs))
        yield _change_setting("audit", logs)
    yield from _build_walls(options, None if reshaped else settings.get("walls"))


def _create_schemas(options: StoreOptions) -> Flow[None]:
    """Create the extension and the schemas that are missing.

    Raises:
        DatabaseError: if this role may not; its text has the statements for a role that may.
    """
    schemas = {"schemas": [options.schema(name) for name in ("memory", *TIERS)]}
    (((role, database, may_create, extended, missing, foreign),),) = yield Query(
        (Call("room", schemas),)
    )
    todo = [] if extended else ["CREATE EXTENSION vector;"]
    if not may_create:
        todo += [f"CREATE SCHEMA {schema} AUTHORIZATION {role};" for schema in missing]
    todo += [f"ALTER SCHEMA {schema} OWNER TO {role};" for schema in foreign]
    advice = (
        f"have an administrator run in the database {database}\n\n    "
        + "\n    ".join(todo)
        + "\n\n"
        "and call setup again"
    )
    if todo and extended:
        raise errors.DatabaseError(f"the role {role} may not create what is missing: {advice}")
    if not extended:  # some servers allow it to a role whose rights do not show that
        yield Script("SET LOCAL search_path TO DEFAULT; CREATE EXTENSION vector", advice)
        yield Query((Call("find_vectors", {}),))
    for schema in missing:
        yield Script(f"CREATE SCHEMA {schema}")


def pending_migrations(
    shipped: Sequence[sql.Migration], applied: Mapping[int, str]
) -> list[sql.Migration]:
    """Check the migrations that have run, and return those still to run."""
    versions = {migration.version: migration for migration in shipped}
    if applied and min(applied) < min(versions):
        raise errors.DatabaseError(
            f"this database is at schema version {max(applied)}, older than what this package can "
            f"bring up to date ({min(versions)}); nothing was changed. Give the store a new "
            "database or a schema_prefix of its own and put the memories there again, read with "
            "the version that wrote them; or drop the schemas of this one and set it up anew",
            code="migration",
        )
    if unknown := sorted(set(applied) - set(versions)):
        raise errors.DatabaseError(
            f"this database is at schema version {unknown[-1]}, newer than this package knows "
            f"({max(versions)}): upgrade langmem-tiers",
            code="migration",
        )
    for version, checksum in applied.items():
        if versions[version].checksum != checksum:
            raise errors.DatabaseError(
                f"migration {version} ({versions[version].name}) ran here with other contents "
                "than this package ships: install the version that created the database, or "
                "restore the file",
                code="migration",
            )
    return [migration for migration in shipped if migration.version not in applied]


def check_shape(stored: Mapping[str, Any] | None, wanted: VectorOptions) -> None:
    """Compare the shape of the stored vectors with the one configured.

    Raises:
        DatabaseError (not_set_up): if the database was set up without a vector index.
        ConfigurationError (dimension_mismatch): if they differ.
    """
    if stored is None:
        raise errors.DatabaseError(
            "this database was set up without a vector index: call store.setup() once with "
            "this index; items that are there already are found by search once they are put again",
            code="not_set_up",
        )
    if stored != _shape(wanted):
        raise errors.ConfigurationError(
            f"this database holds {stored['vector_type']} vectors of {stored['dims']} dimensions "
            f"and the store is configured for {wanted.vector_type} of {wanted.dims}: open it "
            f"with index['dims'] = {stored['dims']} and the model it was filled with, or give "
            "the new model a schema_prefix of its own and put the memories there again",
            code="dimension_mismatch",
        )


def check_language(stored: str | None, wanted: str) -> None:
    """Compare the language of the stored words with the one configured; None is no language yet.

    Raises:
        ConfigurationError: if they differ.
    """
    if stored not in {None, wanted}:
        raise errors.ConfigurationError(
            f"this database holds words as {stored!r} reads them and the store is configured for "
            f"{wanted!r}, which would not find them: open it with index['language'] = {stored!r}, "
            "or give the new language a schema_prefix of its own and put the memories there "
            "again; while nothing is indexed, store.setup() changes the language"
        )


def _change_setting(name: str, value: object) -> Query:
    """Make the query that changes a setting of the database."""
    return Query((Call("change_setting", {"name": name, "value": json.dumps(value)}),))


def _set_vector_shape(options: StoreOptions, settings: Mapping[str, Any]) -> Flow[bool]:
    """Create the tables of vectors again if their shape changed; return True then."""
    wanted = options.index.vector if options.index else None
    stored = settings.get("vector")
    if "vector" in settings and (wanted is None or stored == _shape(wanted)):
        return False
    if stored is not None and wanted is not None:
        ((any_row,),) = yield Query((Call("any_vector", {}),))
        if any_row[0]:
            check_shape(stored, wanted)
    yield Script(sql.vector_tables(options, wanted))
    yield _change_setting("vector", _shape(wanted) if wanted else None)
    return True


def _build_walls(options: StoreOptions, stored: object) -> Flow[None]:
    """Build the wall between tenants, unless it stands, for those of its roles that exist."""
    names = options.roles.names
    there = Call("roles", {"names": [*names.values()]})
    (before,) = yield Query((there,))
    if stored == _wall_setting(names, before):
        return
    yield Script(sql.wall_script(options))
    (after,) = yield Query((there,))
    yield _change_setting("walls", _wall_setting(names, after))


def _wall_setting(names: Mapping[str, str], there: Rows) -> dict[str, Any]:
    return {"version": _WALLS, "roles": names, "there": [name for (name,) in there]}


def _choose_language(options: StoreOptions, settings: Mapping[str, Any]) -> Flow[None]:
    stored = settings.get("language")
    if options.index is None or stored == options.index.language:
        return
    if stored is not None:
        ((any_row,),) = yield Query((Call("any_lexeme", {}),))
        if any_row[0]:
            check_language(stored, options.index.language)
    yield _change_setting("language", options.index.language)


def _shape(vector: VectorOptions) -> dict[str, Any]:
    return {"dims": vector.dims, "vector_type": vector.vector_type}


def state_call(options: StoreOptions) -> Call:
    """Make the call whose rows `read_state` reads."""
    vector = options.index.vector if options.index else None
    params = {
        "index": sql.ann_index_name(vector) if vector else "",
        "schemas": [options.schema(tier) for tier in TIERS],
    }
    return Call("state", params)


class IndexState(NamedTuple):
    """The state of a database's indexes and counts."""

    ann_tiers: tuple[Tier, ...]
    """The tiers that have an HNSW index for the configured metric."""
    unindexed: int
    """The vectors of the largest tier without such an index, estimated from its size on disk."""
    stored_since_count: int = 0
    """The memories stored since the tenants were last counted."""
    stored_at_count: int = 0
    """The memories stored until then."""


def read_state(options: StoreOptions) -> Flow[IndexState]:
    """Check the database's settings against the store's, and read the state of its indexes."""
    ((row,),) = yield Query((state_call(options),), commit=True)
    stored, schemas, _, language, sizes, last, counted = row
    since = (last - (counted or 0), counted or 0)
    vector = options.index.vector if options.index else None
    if options.index is not None:
        check_language(language, options.index.language)
        if vector is not None:
            check_shape(stored, vector)
    have = tuple(tier for tier in TIERS if options.schema(tier) in schemas)
    if vector is None or not vector.ann:
        return IndexState(have, 0, *since)
    without = [options.schema(tier) for tier in TIERS if tier not in have]
    largest = max(((sizes or {}).get(schema, 0) for schema in without), default=0)
    return IndexState(have, largest // (vector.bytes + _ROW_BYTES), *since)


def build_ann_indexes(options: StoreOptions) -> Flow[tuple[Tier, ...]]:
    """Build the HNSW index of each tier that has outgrown exact search, and return those tiers.

    Writers are not blocked. If another process builds already, nothing is done. A tier has
    outgrown exact search when one tenant has more than `exact_limit` vectors in it.
    """
    vector = options.index.vector if options.index else None
    if vector is None or not vector.ann:
        return ()
    calls = (state_call(options), Call("largest_tenants", {}), Call("find_vectors", {}))
    _, ((stored, have, broken, *_),), rows, ((vectors_in, _),) = yield Query(
        (NO_HURRY, *calls), commit=True
    )
    check_shape(stored, vector)
    outgrown = {tier for tier, largest in rows if largest > options.exact_limit}
    missing = tuple(t for t in TIERS if t in outgrown and options.schema(t) not in have)
    if not missing:
        return ()
    statements = [sql.drop_ann_index(schema, vector) for schema in broken]
    statements += [sql.ann_index(options, vector, tier, vectors_in) for tier in missing]
    built = yield BuildIndex(tuple(statements), BUILD_LOCK)
    return missing if built else ()
