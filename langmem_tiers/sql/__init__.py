"""The statements and migrations of the package, read from the files beside this one."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from langmem_tiers.config import StoreOptions, VectorOptions

_HEADER = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")

_QUOTED_LEXEME = "'''' || replace(replace(l.lexeme, '\\', '\\\\'), '''', '''''') || ''''"
_QUOTED_TENANT = _QUOTED_LEXEME.replace("l.lexeme", "chr(1) || %(tenant)s::text")

_TENANT_SCOPE = {
    "m_scope": (
        "m.tenant = %(tenant)s AND m.namespace >= %(low)s AND m.namespace < %(high)s"
    ),
    "v_scope": (
        "v.tenant = %(tenant)s AND v.namespace >= %(low)s AND v.namespace < %(high)s"
    ),
    "tenant_lexeme": f"{_QUOTED_TENANT} || ' & ('",
}
_EVERYWHERE = {"m_scope": "true", "v_scope": "true", "tenant_lexeme": "'('"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema's history; `checksum` is of the file as shipped."""

    version: int
    name: str
    text: str
    checksum: str


def statements(options: StoreOptions, vector: VectorOptions | None) -> dict[str, str]:
    """Every statement by name, filled in for this store and this shape of vectors."""
    shape = vector or VectorOptions(dims=1)
    common = {
        **_schemas(options),
        "operator": shape.distance.operator,
        "vector_type": shape.vector_type,
        "filter": _strip(_read("filter.sql")),
        "lexeme": _QUOTED_LEXEME,
    }
    loaded = {}
    for name, text in _named_statements().items():
        loaded[name] = _fill(text, {**common, **_TENANT_SCOPE})
        if "{v_scope}" in text or "{m_scope}" in text:
            loaded[f"{name}_everywhere"] = _fill(text, {**common, **_EVERYWHERE})
    return loaded


def migrations(options: StoreOptions) -> list[Migration]:
    """The schema's history in order, filled in for this store."""
    found = []
    for file in sorted(files(__package__).joinpath("migrations").iterdir(), key=lambda f: f.name):
        if match := _MIGRATION.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            found.append(
                Migration(
                    version=int(match[1]),
                    name=match[2],
                    text=_fill(text, _schemas(options)),
                    checksum=hashlib.sha256(text.encode()).hexdigest(),
                )
            )
    return found


def vector_tables(options: StoreOptions, vector: VectorOptions | None) -> str:
    """The script that (re)creates the empty vector tables in the shape asked for."""
    shape = vector or VectorOptions(dims=1)
    fill = {
        **_schemas(options),
        "vector": f"{shape.vector_type}({shape.dims})" if vector else shape.vector_type,
        "storage": "PLAIN" if shape.bytes <= 6000 else "EXTERNAL",
        "covering": "INCLUDE (embedding)" if shape.covering else "",
    }
    return _fill(_read("vectors.sql"), fill)


def bootstrap(options: StoreOptions) -> str:
    """The script that makes room for the migrations' own record."""
    return _fill(_read("bootstrap.sql"), _schemas(options))


def ann_index_name(vector: VectorOptions) -> str:
    """The name of the HNSW index in each tier's schema; one for each metric."""
    return f"vectors_hnsw_{vector.distance.value}"


def ann_index(options: StoreOptions, vector: VectorOptions, tier: str) -> list[str]:
    """The statements that build one tier's HNSW index, each outside a transaction."""
    suffix = {"cosine": "cosine_ops", "l2": "l2_ops", "inner_product": "ip_ops"}
    fill = {
        "schema": options.schema(tier),
        "index": ann_index_name(vector),
        "opclass": f"{vector.vector_type}_{suffix[vector.distance]}",
        "m": str(vector.m),
        "ef_construction": str(vector.ef_construction),
    }
    return [part.strip() for part in _fill(_read("ann_index.sql"), fill).split(";") if part.strip()]


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _named_statements() -> dict[str, str]:
    text = _read("queries.sql")
    parts = _HEADER.split(text)[1:]
    return {
        name: _strip(body).removesuffix(";")
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _strip(body: str) -> str:
    lines = (line for line in body.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip()


def _schemas(options: StoreOptions) -> dict[str, str]:
    names = ("memory", "short_term", "working", "long_term")
    return {name: options.schema(name) for name in names}


def _fill(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], text)
