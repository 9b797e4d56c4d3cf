"""Options of a store, checked once at the door.

The `index` mapping is the one LangGraph's own `PostgresStore` takes, so that a store can be
swapped without touching its configuration.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from langmem_tiers.core.bounds import DEFAULT, Bounds, checked_whole
from langmem_tiers.core.errors import ConfigurationError, short
from langmem_tiers.core.memory import Tier

SHORT_TERM_TTL_MINUTES = 60.0
"""Life of a short_term memory after its last read (design: sliding, one hour)."""

SESSION_IDLE_MINUTES = 24 * 60.0
"""Life of a session's short_term memories after its last write or read: our own choice."""

TRACE_DAYS = 90.0
"""Days for which the traces of turns are kept: our own choice."""

EXACT_LIMIT = 10_000
"""Largest tenant or namespace, in vectors, that is searched exactly. Measured with 384
dimensions: an index-only exact scan takes 0.6 ms at 1,000 vectors and 8 ms at 10,000, where
HNSW with an iterative filter begins to win."""

EF_SEARCH = 400
"""Candidates HNSW keeps while searching: recall@10 of 0.99 and more at 100,000 vectors."""

LEXICAL_BYTES = 262_144
"""Bytes of a text that the lexical leg covers: a tsvector holds 1 MB at most."""

MAX_NAMESPACE_BYTES = 400
MAX_KEY_BYTES = 1024
MAX_FIELD_BYTES = 128
_INDEX_TUPLE_BYTES = 2704
_INDEX_OVERHEAD_BYTES = 96

_ENDLESS = re.compile(r"\S{250}(?=\S)")
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,39}")


class Distance(StrEnum):
    """How far apart two vectors are; the names are LangGraph's."""

    COSINE = "cosine"
    L2 = "l2"
    INNER_PRODUCT = "inner_product"

    @property
    def operator(self) -> str:
        """The pgvector operator that yields the distance (lower is nearer)."""
        return {"cosine": "<=>", "l2": "<->", "inner_product": "<#>"}[self.value]

    def score(self, distance: float) -> float:
        """Turn a pgvector distance into a score: higher is nearer."""
        return 1.0 - distance if self is Distance.COSINE else -distance

    def cosine(self, distance: float) -> float:
        """The cosine behind a pgvector distance; exact if vectors have length 1."""
        if self is Distance.L2:
            return 1.0 - distance * distance / 2
        return self.score(distance)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorOptions:
    """How vectors are stored and searched."""

    dims: int
    distance: Distance = Distance.COSINE
    vector_type: str = "halfvec"
    ann: bool = True
    """Whether an HNSW index may be built once a tenant outgrows `exact_limit`."""
    m: int = 16
    ef_construction: int = 64

    @property
    def bytes(self) -> int:
        """Bytes of one stored vector."""
        return 8 + self.dims * (2 if self.vector_type == "halfvec" else 4)

    @property
    def covering(self) -> bool:
        """Whether the vector fits into a B-tree tuple beside the longest namespace and field."""
        taken = MAX_NAMESPACE_BYTES + MAX_FIELD_BYTES + _INDEX_OVERHEAD_BYTES
        return self.bytes <= _INDEX_TUPLE_BYTES - taken


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """What of an item is searchable. `vector` is None for a lexical-only index."""

    vector: VectorOptions | None
    fields: tuple[str, ...] = ("$",)
    language: str = "english"

    @property
    def several(self) -> bool:
        """Whether the fields are likely to give an item more than one vector."""
        return len(self.fields) > 1 or any(set(path) & set("*[{") for path in self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Everything a flow needs to know about the store it runs on."""

    index: IndexOptions | None = None
    schema_prefix: str = ""
    tier_ttl: Mapping[Tier, float] = field(
        default_factory=lambda: {Tier.SHORT_TERM: SHORT_TERM_TTL_MINUTES}
    )
    exact_limit: int = EXACT_LIMIT
    trace_days: float | None = TRACE_DAYS
    bounds: Bounds = DEFAULT

    def __post_init__(self) -> None:
        """Check what a caller may have set."""
        reserved = self.schema_prefix.startswith("pg_")
        if reserved or (self.schema_prefix and not _PREFIX.fullmatch(self.schema_prefix)):
            raise ConfigurationError(
                f"schema_prefix {self.schema_prefix!r} must be 1 to 40 lower-case letters, "
                "digits or underscores, start with a letter or an underscore, and not with pg_"
            )
        for tier, minutes in self.tier_ttl.items():
            positive_minutes(minutes, f"the TTL of {tier}")
        if not isinstance(self.bounds, Bounds):
            raise ConfigurationError(f"bounds is a Bounds, not {short(self.bounds)}")
        if self.exact_limit < 1:
            raise ConfigurationError("exact_limit must be at least 1 vector")
        if self.trace_days is not None and not 0 < self.trace_days <= sys.float_info.max:
            raise ConfigurationError(
                f"trace_days is {self.trace_days}: use more than 0 days, or None to keep all"
            )

    @property
    def brief(self) -> list[str]:
        """How it is searched, and how its schemas are called."""
        told = [f"schemas {self.schema_prefix}…"] if self.schema_prefix else []
        if self.index is None:
            return told
        vector = self.index.vector
        return ["searched by words" if vector is None else f"{vector.dims} dimensions", *told]

    @property
    def session_ttl(self) -> float | None:
        """Minutes that the notes of a session live while it is idle; None: for ever."""
        own = self.tier_ttl.get(Tier.SHORT_TERM)
        return None if own is None else max(own, SESSION_IDLE_MINUTES)

    def schema(self, name: str) -> str:
        """The database schema that stands for `name` (memory, short_term, …)."""
        return f"{self.schema_prefix}{name}"


_INDEX_KEYS = ("dims", "embed", "fields", "distance_type", "ann_index_config", "language")
_ANN_KEYS = ("kind", "vector_type", "m", "ef_construction")
_MAX_DIMS = {"vector": 2000, "halfvec": 4000}


def parse_index(index: Mapping[str, Any]) -> IndexOptions:
    """Read LangGraph's index mapping.

    Keys: `dims` and `embed` (leave both out for a lexical-only index), `fields`,
    `distance_type` (cosine, l2, inner_product), `ann_index_config` (`kind` hnsw or flat,
    `vector_type` halfvec or vector, `m`, `ef_construction`) and our own `language`, a
    Postgres text search configuration.

    Raises:
        ConfigurationError: for an unknown key or a value that cannot work.
    """
    check_known(index, _INDEX_KEYS, "index")
    if (index.get("dims") is None) != (index.get("embed") is None):
        raise ConfigurationError(
            "index needs both `dims` and `embed`, or neither for lexical search alone"
        )
    fields = index.get("fields")
    if fields is None:
        fields = ["$"]
    if isinstance(fields, str) or not all(isinstance(path, str) for path in fields):
        raise ConfigurationError('index `fields` is a list of paths, such as ["content"]')
    language = index.get("language", "english")
    if not isinstance(language, str) or not re.fullmatch(r"\w+", language):
        raise ConfigurationError("index `language` names a Postgres text search configuration")
    vector = None if index.get("dims") is None else _parse_vector(index)
    return IndexOptions(vector=vector, fields=tuple(fields), language=language)


_TTL_KEYS = ("default_ttl", "refresh_on_read", "omit_expired", "sweep_interval_minutes")


def check_ttl(ttl: object) -> None:
    """Check LangGraph's TTL mapping, which stays the caller's own.

    Raises:
        ConfigurationError: for an unknown key, or minutes that are no positive number.
    """
    if ttl is None:
        return
    if not isinstance(ttl, Mapping):
        raise ConfigurationError("ttl is a mapping, such as {'default_ttl': 60}, in minutes")
    check_known(ttl, _TTL_KEYS, "ttl")
    for key in ("default_ttl", "sweep_interval_minutes"):
        if ttl.get(key) is not None:
            positive_minutes(ttl[key], f"ttl[{key!r}]")


def positive_minutes(value: object, what: str) -> float:
    """A number of minutes above zero, or a ConfigurationError."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= sys.float_info.max
    ):
        raise ConfigurationError(f"{what} is a positive number of minutes, not {value!r}")
    return value


def _parse_vector(index: Mapping[str, Any]) -> VectorOptions:
    ann = index.get("ann_index_config") or {}
    check_known(ann, _ANN_KEYS, "ann_index_config")
    vector_type = _choice(ann.get("vector_type", "halfvec"), _MAX_DIMS, "vector_type")
    distance = index.get("distance_type", Distance.COSINE)
    kind = _choice(ann.get("kind", "hnsw"), ("hnsw", "flat"), "kind")
    dims = checked_whole(index["dims"], "dims", 1, 16_000)
    if dims > _MAX_DIMS[vector_type]:
        raise ConfigurationError(
            f"{dims} dimensions do not fit: {vector_type} takes {_MAX_DIMS[vector_type]}; "
            'use ann_index_config={"vector_type": "halfvec"} (4,000) or a smaller embedding'
        )
    return VectorOptions(
        dims=dims,
        distance=Distance(_choice(distance, tuple(Distance), "distance_type")),
        vector_type=vector_type,
        ann=kind == "hnsw",
        m=checked_whole(ann.get("m", 16), "m", 2, 100),
        ef_construction=checked_whole(ann.get("ef_construction", 64), "ef_construction", 4, 1000),
    )


def check_known(given: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    """Refuse an option that is not known, and say which may be meant."""
    for key in given:
        if key not in known and not str(key).startswith("__"):
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
            raise ConfigurationError(f"{what} has no option {key!r}{hint}")


def _choice(value: object, choices: Iterable[str], what: str) -> str:
    if value not in tuple(choices):
        raise ConfigurationError(f"{what} {value!r} is not one of {', '.join(choices)}")
    return str(value)


def lexical_text(text: str) -> str:
    """As much of a text as the lexical leg covers, in words of a length that Postgres parses.

    It reads a run without blanks anew from each of its signs, and indexes no word of 2 KB.
    """
    if len(text) * 4 > LEXICAL_BYTES:
        text = text.encode()[:LEXICAL_BYTES].decode(errors="ignore")
    return _ENDLESS.sub(r"\g<0> ", text)
