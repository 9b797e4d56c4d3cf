"""The statements and migrations of the package, read from the files beside this one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.exported_tables import EXPORTED_TABLES, statement_for
from langmem_tiers.core.memory import TIERS
from langmem_tiers.core.vectors import VectorOptions

_HEADER = re.compile(r"^-- (name|leg|part): (\w+)\n", re.MULTILINE)
_PARTS = re.compile(r"\{part (\w+)(?: (\w+))?\}")
_LEGS = re.compile(r"\{legs(?: (\w+))?\}")
_PARAMETER = re.compile(r"%\((\w+)\)s")
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")
_MAKES_ROOM = re.compile(r"^CREATE (?:EXTENSION|SCHEMA)\b[^;]*;\n", re.MULTILINE)
"""The statements that setup runs apart, as an administrator may have run them before."""
_WITHOUT_TENANT = "tier|memory_ids|settings|migrations|sees_rows|pass_ids|draw_ids"
_WALLED_TABLE = re.compile(rf"\{{memory\}}\.(?!(?:{_WITHOUT_TENANT})\b)\w+")
_TENANT_ROWS = re.compile(r"unnest\(((?:[^()]|\(\w+\))*%\(tenants\)s(?:[^()]|\(\w+\))*)\)")
_CHANGE = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE)\b")
_FILES = (
    "gate.sql",
    "queries.sql",
    "learning.sql",
    "consolidation.sql",
    "truth.sql",
    "archive.sql",
    "forget.sql",
    "audit.sql",
    "carry.sql",
    "reminders.sql",
    "turn.sql",
    "trace.sql",
    "recalls.sql",
    "doctor.sql",
)
_MEAN_DISTANCE = {
    "<=>": "avg(n.distance)",
    "<#>": "avg(n.distance)",
    "<->": "sqrt(avg(n.distance ^ 2))",
}
"""The distance for the mean of the cosines, by the distance operator."""
_ASYNCHRONOUS_COMMIT = "set_config('synchronous_commit', 'off', true)"

_QUOTED_LEXEME = "'''' || replace(replace(l.lexeme, '\\', '\\\\'), '''', '''''') || ''''"
_QUOTED_TENANT = _QUOTED_LEXEME.replace("l.lexeme", "chr(1) || %(tenant)s::text")

_TENANT = {
    "m_scope": "m.tenant = %(tenant)s",
    "v_scope": "v.tenant = %(tenant)s",
    "s_scope": "s.tenant = %(tenant)s",
    "n_scope": "true",
    "m_tenant": "m.tenant = %(tenant)s",
    "tenant_lexeme": f"{_QUOTED_TENANT} || ' & ('",
}
_RANGE = "{0}.namespace >= %(low)s AND {0}.namespace < %(high)s"
_SCOPES: Mapping[str, Mapping[str, str]] = {
    "tenant": _TENANT,
    "prefix": {
        **_TENANT,
        "n_scope": _RANGE.format("n"),
        "m_scope": f"{_TENANT['m_scope']} AND {_RANGE.format('m')}",
        "v_scope": f"{_TENANT['v_scope']} AND {_RANGE.format('v')}",
    },
    "everywhere": {
        "s_scope": "false",
        "n_scope": "false",
        "m_scope": "true",
        "v_scope": "true",
        "m_tenant": "true",
        "tenant_lexeme": "'('",
    },
}
_FILTER_JOIN = re.compile(r"\{filter_join (\w+)\}")
_JOINED_VALUES = (
    r"CROSS JOIN LATERAL (SELECT m.value FROM {memory}.memories m "
    r"WHERE m.tenant = v.tenant AND m.id = v.id AND m.tier = '\1' LIMIT 1) m"
)


_EACH_TIER: Sequence[tuple[str, Sequence[str]]] = (
    ("", TIERS),
    *((f"_{tier}", (tier,)) for tier in TIERS),
)
"""The suffixes under which a statement with legs is loaded, with the tiers of each."""
_PLACES = """unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[])
         WITH ORDINALITY AS w (tenant, namespace, key, ord)"""

_PLAIN_BYTES = 6000
"""A vector up to this size stays in its row, which must fit into a page of 8 kB."""


class Statement(NamedTuple):
    """A statement's text for the server, and the names of its parameters in order."""

    text: bytes
    names: tuple[str, ...]
    writes: bool
    """True if it changes rows, and does not itself allow its commit to be lost."""
    walled: bool
    """True if it reads or writes rows of a tenant."""
    rows: frozenset[str]
    """The parameters that are lists parallel to `tenants`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema's history; `checksum` is that of the file in the package."""

    version: int
    name: str
    text: str
    checksum: str


def statements(
    options: StoreOptions, vector: VectorOptions | None, *, walled: bool = False
) -> Mapping[str, Statement]:
    """Return every statement by name, filled in for this store and this shape of vectors.

    For a `walled` role, functions search where no index can be used behind the wall.
    """
    shape = vector or VectorOptions(dims=1)
    return _load_statements(
        options.schema_prefix, shape.distance.operator, shape.vector_type, walled
    )


@lru_cache(maxsize=16)
def _load_statements(
    schema_prefix: str,
    operator: str,
    vector_type: str,
    walled: bool,  # noqa: FBT001 - a part of the cache's key
) -> Mapping[str, Statement]:
    """Fill in the statements, and cache them: that takes 20 ms, longer than to open a store."""
    common = {
        **_schemas(StoreOptions(schema_prefix=schema_prefix)),
        "operator": operator,
        "mean_distance": _MEAN_DISTANCE[operator],
        "vector_type": vector_type,
        "lexeme": _QUOTED_LEXEME,
        "places": _PLACES,
        "few": "w.ord > 0 AND w.ord < 1000000000",
        "further": "",
    }
    names, legs = _sections()
    return {
        name: _number_parameters(_choose_by_role(text, walled=walled), {**common, **variant})
        for base, body in (*names.items(), *_derived_statements(names))
        for suffix, tiers in (_EACH_TIER if base in legs else _EACH_TIER[:1])
        for name, text, variant in _variants(base, _expand_legs(base, body, legs, tiers), suffix)
    }


def migrations(options: StoreOptions) -> list[Migration]:
    """Return the schema's history in order, filled in for this store, in existing schemas."""
    shipped = []
    for file in sorted(files(__package__).joinpath("migrations").iterdir(), key=lambda f: f.name):
        if match := _MIGRATION.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            shipped.append(
                Migration(
                    version=int(match[1]),
                    name=match[2],
                    text=_fill(_MAKES_ROOM.sub("", text), _schemas(options)),
                    checksum=hashlib.sha256(text.encode()).hexdigest(),
                )
            )
    return shipped


def vector_tables(options: StoreOptions, vector: VectorOptions | None) -> str:
    """Return the script that (re)creates the empty vector tables in a shape, and the views."""
    shape = vector or VectorOptions(dims=1)
    fill = {
        **_schemas(options),
        "vector": f"{shape.vector_type}({shape.dims})" if vector else shape.vector_type,
        "storage": "PLAIN" if shape.bytes <= _PLAIN_BYTES else "EXTERNAL",
        "covering": "INCLUDE (embedding)" if shape.fits_btree else "",
    }
    return _fill(_read("vectors.sql"), fill) + document_views(options)


def document_views(options: StoreOptions) -> str:
    """Return the script that (re)creates each tier's view of documents."""
    text = _read("documents.sql")
    fills = ({"schema": options.schema(tier), "tier": tier} for tier in TIERS)
    return "".join(_fill(text, fill) for fill in fills)


def snapshot_script() -> str:
    """Return the script that begins a transaction with one snapshot for all its statements."""
    return _strip(_read("snapshot.sql"))


def wall_script(options: StoreOptions) -> str:
    """Return the script that builds the wall between tenants, also over an old one."""
    return _fill(_read("walls.sql"), {**_schemas(options), **options.roles.names})


def audit_switch(options: StoreOptions, *, on: bool) -> str:
    """Return the script that enables or disables the triggers of the audit log."""
    tables = (options.schema(name) for name in ("memory", *TIERS))
    switch = "ENABLE" if on else "DISABLE"
    return "".join(
        f"ALTER TABLE ONLY {schema}.memories {switch} TRIGGER USER;\n" for schema in tables
    )


def ann_index_name(vector: VectorOptions) -> str:
    """Return the name of the HNSW index in each tier's schema; each metric has its own."""
    return f"vectors_hnsw_{vector.distance.value}"


def ann_index(
    options: StoreOptions, vector: VectorOptions, tier: str, vectors_in: str = "public"
) -> str:
    """Return the statement that builds one tier's HNSW index, outside a transaction.

    It names the schema of pgvector, `vectors_in`, as the building session has no search path to it.
    """
    suffix = {"cosine": "cosine_ops", "l2": "l2_ops", "inner_product": "ip_ops"}
    fill = {
        "schema": options.schema(tier),
        "index": ann_index_name(vector),
        "opclass": f"{vectors_in}.{vector.vector_type}_{suffix[vector.distance]}",
        "m": str(vector.m),
        "ef_construction": str(vector.ef_construction),
    }
    return _fill(_read("ann_index.sql"), fill)


def drop_ann_index(schema: str, vector: VectorOptions) -> str:
    """Return the statement that drops the index of a broken-off build in a schema."""
    return f"DROP INDEX CONCURRENTLY IF EXISTS {schema}.{ann_index_name(vector)}"


def _derived_statements(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the statements that are made from another one, with other legs."""
    further = "UNION ALL SELECT l.id, l.tier, NULL FROM ({legs lessons}) l"
    lessons = names["recall"].replace("{further}", further)
    yield "recall_lessons", lessons
    for name, text in (("recall", names["recall"]), ("recall_lessons", lessons)):
        yield f"{name}_ann", text.replace("{legs recall_near}", "{legs recall_near_ann}")


def _variants(base: str, text: str, suffix: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield each name under which a statement is loaded, its text, and its scope's values."""
    if "{table}" in text:
        for table, order in EXPORTED_TABLES.items():
            yield statement_for(base, table), text.replace("{table}", table), {"order": order}
        return
    plain = _FILTER_JOIN.sub("", text).replace("{filter}", "")
    filtered = _FILTER_JOIN.sub(_JOINED_VALUES, text)
    filtered = filtered.replace("{filter}", "AND " + _strip(_read("filter.sql")))
    scopes = _SCOPES if "_scope}" in text else {"": _TENANT}
    for scope, fill in scopes.items():
        ending = f"_{scope}{suffix}" if scope else suffix
        yield f"{base}{ending}", plain, fill
        if filtered != plain:
            yield f"{base}_filtered{ending}", filtered, fill


def _expand_legs(base: str, text: str, legs: Mapping[str, str], tiers: Sequence[str]) -> str:
    """Fill in a statement's legs, once for each tier."""

    def union(match: re.Match[str]) -> str:
        texts = [legs[match[1] or base].replace("{tier}", tier) for tier in tiers]
        if len(texts) == 1:
            return f"SELECT * FROM ({texts[0]}) AS leg"  # noqa: S608 - the text of our own files
        return "\nUNION ALL\n".join(texts)

    return _LEGS.sub(union, text)


def _choose_by_role(text: str, *, walled: bool) -> str:
    """Choose a statement's text for one kind of role, where it has `[owner: … | walled: …]`."""
    chosen, *choices = text.split("[owner: ")
    for choice in choices:
        open_text, _, rest = choice.partition(" | walled: ")
        behind, _, after = rest.partition("]")
        chosen += (behind if walled else open_text) + after
    return chosen


def _number_parameters(template: str, values: Mapping[str, str]) -> Statement:
    """Turn named parameters into numbered ones, so that psycopg need not parse the text."""
    text, names = _fill(template, values), list[str]()
    along = _TENANT_ROWS.search(text)

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    numbered = _PARAMETER.sub(number, text).encode()
    return Statement(
        numbered,
        tuple(names),
        writes=bool(_CHANGE.search(text)) and _ASYNCHRONOUS_COMMIT not in text,
        walled=bool(_WALLED_TABLE.search(template)),
        rows=frozenset(_PARAMETER.findall(along[1])) if along else frozenset(),
    )


@cache
def _sections() -> tuple[dict[str, str], dict[str, str]]:
    """Read the named statements of our files, with their parts filled in, and the legs.

    A part may have parts in turn, which stand before it.
    """
    parts = [part for file in _FILES for part in _HEADER.split(_read(file))[1:]]
    sections: dict[str, dict[str, str]] = {"name": {}, "leg": {}, "part": {}}
    for kind, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        sections[kind][name] = _strip(body).removesuffix(";")
    shared: dict[str, str] = {}

    def fill_parts(body: str) -> str:
        """Fill in the parts of a text, each for the row's alias that the text names."""
        return _PARTS.sub(
            lambda part: re.sub(r"\bm\.", f"{part[2] or 'm'}.", shared[part[1]]), body
        )

    for name, body in sections["part"].items():
        shared[name] = fill_parts(body)
    names, legs = (
        {name: fill_parts(body) for name, body in sections[kind].items()}
        for kind in ("name", "leg")
    )
    return names, legs


@cache
def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _strip(body: str) -> str:
    lines = (line for line in body.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip()


def _schemas(options: StoreOptions) -> dict[str, str]:
    return {name: options.schema(name) for name in ("memory", *TIERS)}


def _fill(text: str, values: Mapping[str, str]) -> str:
    for word in re.findall(r"\{(\w+)\}", text):
        if word not in values:
            raise KeyError(f"{{{word}}} stands for nothing; for an array write ARRAY[…]: {text}")
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], text)
