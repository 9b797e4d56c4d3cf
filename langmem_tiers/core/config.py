"""A store's options, checked once at the door, and the bounds of what it takes of one call.

The `index` mapping is the one LangGraph's own `PostgresStore` takes, so that a store can be
swapped without touching its configuration.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from langmem_tiers.core import checks
from langmem_tiers.core.checks import (
    check_known,
    checked_choice,
    checked_mapping,
    checked_switch,
    record,
    validated_by,
    whole_between,
)
from langmem_tiers.core.context import check_template, user_of
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Place, Tier
from langmem_tiers.core.vectors import EF_CONSTRUCTION, HNSW_M, Distance, VectorOptions

T = TypeVar("T")

SHORT_TERM_TTL_MINUTES = 60.0
"""Life of a short_term memory after its last read (design: sliding, one hour)."""

SESSION_IDLE_MINUTES = 24 * 60.0
"""Time after the last write or read in a session, after which a cycle ends it: our own choice."""

TRACE_DAYS = 90.0
"""Days for which the traces of turns are kept: our own choice."""

EXACT_LIMIT = 10_000
"""Largest tenant or namespace, in vectors, that is searched exactly. Measured with 384
dimensions: an index-only exact scan takes 0.6 ms at 1,000 vectors and 8 ms at 10,000, where
HNSW with an iterative filter begins to win."""

EF_SEARCH = 400
"""Candidates HNSW keeps while searching: recall@10 of 0.99 and more at 100,000 vectors."""

_PREFIX = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,39}")


_MOST_BYTES: Final = 268_435_455
"""The most bytes of a jsonb value."""
_MOST_LEVELS: Final = 1_000
"""Python's own recursion limit, unless it is raised."""
_MOST: Final = 2**31 - 1
"""The largest integer of Postgres."""
_MANY: Final = sys.maxsize - 1


def _milliseconds(value: object, key: str) -> int:
    if type(value) is int and 0 <= value <= _MOST:
        return value
    raise ConfigurationError(
        f"{key} is a whole number of milliseconds up to {_MOST:,}, or null for no end, "
        f"not {short(value)}"
    )


@record
class Bounds:
    """The limits of one call to a store: the configuration's `memory.bounds`.

    They are generous: whoever meets one has made a mistake, or knows why to raise it. What goes
    beyond is refused by an `InvalidInputError` (too_large) before anything is embedded or written.
    All are our own choice, for the reasons given.

    Raises:
        ConfigurationError: for a value that cannot work; the message begins with its key.

    Example:
        ```python
        from langmem_tiers import Bounds, TieredStore

        bounds = Bounds(batch=500_000, statement_timeout_ms=10_000)
        store = TieredStore.embedded("./.memory", bounds=bounds)
        ```
    """

    value_bytes: Annotated[int, whole_between(1, _MOST_BYTES)] = 8 * 1024 * 1024
    """Bytes of a value as JSON in UTF-8. A content of a million characters fits, whichever they
    are: JSON writes none of them in more than six bytes."""
    value_depth: Annotated[int, whole_between(1, _MOST_LEVELS)] = 600
    """Levels of mappings and lists in a value, and of keys in a filter. PHP's JSON reads 512;
    Python gives up a few hundred later, depending on who calls."""
    query_characters: Annotated[int, whole_between(1, _MANY)] = 100_000
    """Characters of a query. Embedding models read about 8,000 tokens, which is a third of it, and
    the search by words 4,000 characters."""
    filter_conditions: Annotated[int, whole_between(1, _MANY)] = 1_000
    """Conditions of a filter, or of `list_namespaces`. Each is looked at for each memory in
    scope."""
    limit: Annotated[int, whole_between(1, _MOST)] = 100_000
    """Items that a `search`, or namespaces that a `list_namespaces`, may ask for. All of them are
    in memory at once; further pages are had by `offset`. A coordinator's recall has its own limit,
    1,000 memories."""
    batch: Annotated[int, whole_between(1, _MANY)] = 100_000
    """Operations in a `batch`, memories in a `store_many`, queries in a `get_context_batch`: one
    transaction. So many tags, entities, origins and recalled texts may a memory list as well, and
    so many texts of a value are indexed."""
    statement_timeout_ms: Annotated[int, validated_by(_milliseconds)] | None = 60_000
    """Milliseconds that Postgres may take for one statement, waiting for locks included; None or 0
    for as long as it takes. A shorter one of the database or the role stays. A recall has its own,
    the coordinator's `query_timeout_ms`; migrations and index builds have none."""
    call_timeout_ms: Annotated[int, validated_by(_milliseconds)] | None = 10_000
    """Milliseconds that a call may take, waits for a connection, for locks, for the embedding model
    and for Postgres included; None or 0 for no limit. A call of more than 200 items has as much for
    each further 200. Opening has as much for itself. A call that tends, moves or forgets all of a
    tenant's memory has no limit."""

    def check_value(self, value: object, text: str) -> None:
        """Refuse a value, of which `text` is the JSON, that is too large or nested too deeply."""
        if len(text) * 4 > self.value_bytes:
            size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
            if size > self.value_bytes:
                raise self._beyond("value_bytes", f"a value of {size:,} bytes of JSON")
        if text.count("{") + text.count("[") > self.value_depth:
            self.check_depth(value)

    def check_depth(self, value: object) -> None:
        """Refuse a value that is nested too deeply, however deep it is."""
        level: Iterable[object] = (value,)
        for _ in range(self.value_depth):
            inner = (
                part for item in level for part in _children(item) if isinstance(part, _NESTED)
            )
            level = {id(part): part for part in inner}.values()  # each once, however often it is in
            if not level:
                return
        raise self.too_deep("a value")

    def too_deep(self, what: str) -> InvalidInputError:
        """Make the error for a value that is nested too deeply."""
        return self._beyond("value_depth", f"{what} of more than {self.value_depth:,} levels")

    def check_content(self, content: object) -> None:
        """Refuse a text that is too large for a value, before anybody looks into it."""
        if isinstance(content, str) and len(content) > self.value_bytes:
            raise self._beyond("value_bytes", f"a content of {len(content):,} characters")

    def check_query(self, query: str) -> None:
        """Refuse a query that is too long."""
        if len(query) > self.query_characters:
            raise self._beyond("query_characters", f"a query of {len(query):,} characters")

    def truncate_query(self, text: str) -> str:
        """Cut a message to the length of a query; only a caller's own query may be refused."""
        return text[: self.query_characters]

    def check_limit(self, limit: int) -> None:
        """Refuse to answer with too much at once."""
        if limit > self.limit:
            raise self._beyond("limit", f"a limit of {limit:,}")

    def checked_conditions(self, conditions: Iterable[T]) -> list[T]:
        """Check the number of conditions of a filter; return them as a list."""
        return self._few("filter_conditions", conditions, "a list of conditions")

    def checked_items(self, items: Iterable[T], what: str) -> Iterable[T]:
        """Check the length of a memory's list; return an iterable that can be read again."""
        if not isinstance(items, Iterable):  # whose field it is says what it must be
            return items
        if isinstance(items, Iterator) or (isinstance(items, Sized) and len(items) > self.batch):
            return self._few("batch", items, what)
        return items

    def checked_batch(self, items: Iterable[T]) -> list[T]:
        """Check the number of items of a batch; return them as a list."""
        return self._few("batch", items, "a batch")

    def _few(self, name: str, items: Iterable[T], what: str) -> list[T]:
        most: int = getattr(self, name)
        limited = list(islice(checks.checked_list(items, what, "several"), most + 1))
        if len(limited) > most:
            number = f"{len(items):,}" if isinstance(items, Sized) else f"more than {most:,}"
            raise self._beyond(name, f"{what} of {number}")
        return limited

    def _beyond(self, name: str, what: str) -> InvalidInputError:
        return InvalidInputError(
            f"{what} is beyond {name}, which is {getattr(self, name):,}: give less, or open the "
            f"store with bounds=Bounds({name}=…)",
            code="too_large",
        )


_NESTED: Final = (dict, list, tuple)


def _children(value: object) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


DEFAULT_BOUNDS: Final = Bounds()


_LONGEST_ACTOR = 255
"""Characters of an actor's name, as of a label: our own choice."""


def _actor(value: object, what: str) -> str:
    if isinstance(value, str) and value.isprintable() and 0 < len(value.strip()) <= _LONGEST_ACTOR:
        return value
    raise ConfigurationError(
        f"{what} is a name of up to {_LONGEST_ACTOR} printable characters, not {short(value)}"
    )


@record
class Audit:
    """The content of a store's audit log, and the actor's name; docs/audit.md describes it.

    Raises:
        ConfigurationError: for a value that cannot work.

    Example:
        ```python
        from langmem_tiers import Audit, TieredStore

        store = TieredStore.embedded("./.memory", audit=Audit(reads=True, actor="support-bot"))
        ```
    """

    writes: Annotated[bool, validated_by(checked_switch)] | None = None
    """True if the database logs what is written, whoever writes: `setup` switches it on or off for
    all. None leaves it as it is: a new database logs."""
    reads: Annotated[bool, validated_by(checked_switch)] = False
    """True if this store logs which memories it returns. A read then waits for one commit more."""
    actor: Annotated[str, validated_by(_actor)] | None = None
    """The actor whom this store writes and reads for, beside the role that logged in."""


def checked_audit(value: object) -> Audit:
    """Check the options of the audit log; None takes the defaults."""
    if not isinstance(value, Audit | None):
        raise ConfigurationError(f"audit is Audit(reads=True) or the like, not {short(value)}")
    return Audit() if value is None else value


Role: TypeAlias = Literal["owner", "application", "worker"]
"""The rights of a store: all, one tenant's in each transaction, or all rows alone."""

_ROLE_NAME: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The names of the Postgres roles, and the one that a store takes."""

    application: str = "langmem_application"
    worker: str = "langmem_worker"
    taken: Literal["application", "worker"] | None = None
    """The role that a store takes; with None it has the rights of the user who connects."""

    def check(self) -> None:
        """Raise ConfigurationError for an invalid name of a role."""
        named: tuple[object, ...] = (self.application, self.worker)
        for name in named:
            if not (isinstance(name, str) and _ROLE_NAME.fullmatch(name)):
                raise ConfigurationError(
                    f"a role is called by 1 to 63 lower-case letters, digits or underscores, not "
                    f"{short(name)}: it begins with a letter or an underscore, and not with pg_"
                )
        if self.application == self.worker:
            raise ConfigurationError("the roles of applications and of workers are two")

    @property
    def names(self) -> dict[str, str]:
        """Name both roles by their kinds."""
        return {"application": self.application, "worker": self.worker}

    @property
    def role_name(self) -> str | None:
        """Name the role that a store takes; None if it takes none."""
        return None if self.taken is None else self.names[self.taken]


def parse_roles(prefix: object, taken: object, names: Mapping[str, str] | None) -> Roles:
    """Make the roles of a store: with these `names`, else with names after its schemas' prefix.

    Raises:
        ConfigurationError: for a role that there is not.
    """
    prefix = prefix if isinstance(prefix, str) else ""  # what it must be is said elsewhere
    named = {"application": f"{prefix}langmem_application", "worker": f"{prefix}langmem_worker"}
    own = {} if names is None else checked_mapping(names, "roles", "{'application': 'web_role'}")
    check_known(own, named, "roles")
    if taken is not None:
        taken = checked_choice(taken, named, "role", ConfigurationError)
    return Roles(**{**named, **own}, taken=taken)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """The searchable fields of an item. `vector` is None for a lexical-only index."""

    vector: VectorOptions | None
    fields: tuple[str, ...] = ("$",)
    language: str = "english"

    @property
    def has_many_vectors(self) -> bool:
        """Tell whether the fields are likely to give an item more than one vector."""
        return len(self.fields) > 1 or any(set(path) & set("*[{") for path in self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The options of the store on which a flow runs."""

    index: IndexOptions | None = None
    schema_prefix: str = ""
    tier_ttl: Mapping[Tier, float] = field(
        default_factory=lambda: {Tier.SHORT_TERM: SHORT_TERM_TTL_MINUTES}
    )
    exact_limit: int = EXACT_LIMIT
    trace_days: float | None = TRACE_DAYS
    bounds: Bounds = DEFAULT_BOUNDS
    user_namespaces: tuple[tuple[str, ...], ...] = ()
    roles: Roles = field(default_factory=Roles)
    audit: Audit = field(default_factory=Audit)

    def __post_init__(self) -> None:
        """Check what a caller may have set."""
        prefix: object = self.schema_prefix
        if not isinstance(prefix, str) or (prefix and not _PREFIX.fullmatch(prefix)):
            raise ConfigurationError(
                f"schema_prefix {short(prefix)} must be 1 to 40 lower-case letters, "
                "digits or underscores, start with a letter or an underscore, and not with pg_"
            )
        for tier, minutes in self.tier_ttl.items():
            _check_minutes(minutes, f"the TTL of {tier}")
        if not isinstance(self.bounds, Bounds):
            raise ConfigurationError(f"bounds is a Bounds, not {short(self.bounds)}")
        for template in self.user_namespaces:
            check_template(template)
        self.roles.check()
        checks.checked_whole(self.exact_limit, "exact_limit", 1, sys.maxsize, ConfigurationError)
        if self.trace_days is not None:
            _check_positive(self.trace_days, "trace_days", "more than 0 days, or None to keep all")

    @property
    def summary(self) -> list[str]:
        """Describe the search and the schemas of the store."""
        parts = [f"schemas {self.schema_prefix}…"] if self.schema_prefix else []
        if self.index is None:
            return parts
        vector = self.index.vector
        return ["searched by words" if vector is None else f"{vector.dims} dimensions", *parts]

    @property
    def session_idle(self) -> float | None:
        """Count the minutes without a write or a read that end a session; None: never."""
        own = self.tier_ttl.get(Tier.SHORT_TERM)
        return None if own is None else max(own, SESSION_IDLE_MINUTES)

    def user_of(self, place: Place) -> str | None:
        """Name the user whose memories a namespace holds; None for shared memories."""
        return user_of(place, self.user_namespaces)

    def schema(self, name: str) -> str:
        """Name the database schema of `name` (memory, short_term, …)."""
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
    if not isinstance(index, Mapping):
        raise ConfigurationError(f"index is a mapping, such as {{'dims': 384}}, not {short(index)}")
    keys: Iterable[object] = index
    # LangGraph's are none of ours.
    own = [key for key in keys if not (isinstance(key, str) and key.startswith("__"))]
    checks.check_known(own, _INDEX_KEYS, "index")
    if (index.get("dims") is None) != (index.get("embed") is None):
        raise ConfigurationError(
            "index needs both `dims` and `embed`, or neither for lexical search alone"
        )
    fields = index.get("fields")
    if fields is None:
        fields = ["$"]
    try:
        paths = checks.checked_strings(fields, "index `fields`")
    except InvalidTypeError as error:
        raise ConfigurationError(f'{error}; give paths, such as ["content"]') from error
    language = index.get("language", "english")
    if not isinstance(language, str) or not re.fullmatch(r"(\w+\.)?\w+", language):
        raise ConfigurationError("index `language` names a Postgres text search configuration")
    vector = None if index.get("dims") is None else _parse_vector(index)
    return IndexOptions(vector=vector, fields=tuple(paths), language=language)


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
    checks.check_known(ttl, _TTL_KEYS, "ttl")
    for key in ("default_ttl", "sweep_interval_minutes"):
        if ttl.get(key) is not None:
            _check_minutes(ttl[key], f"ttl[{key!r}]")
    for key in ("refresh_on_read", "omit_expired"):
        if ttl.get(key) is not None:
            checks.checked_switch(ttl[key], f"ttl[{key!r}]")


def _check_minutes(value: object, what: str) -> None:
    _check_positive(value, what, "a positive number of minutes")


def _check_positive(value: object, what: str, use: str) -> None:
    most = sys.float_info.max
    checks.checked_number(value, what, 0, most, but=(0,), use=use, error=ConfigurationError)


def _parse_vector(index: Mapping[str, Any]) -> VectorOptions:
    config = index.get("ann_index_config")
    ann = {} if config is None else config
    if not isinstance(ann, Mapping):
        raise ConfigurationError(
            f"ann_index_config is a mapping, such as {{'kind': 'hnsw'}}, not {short(ann)}"
        )
    checks.check_known(ann, _ANN_KEYS, "ann_index_config")
    vector_type = _chosen(ann.get("vector_type", "halfvec"), _MAX_DIMS, "vector_type")
    distance = index.get("distance_type", Distance.COSINE)
    kind = _chosen(ann.get("kind", "hnsw"), ("hnsw", "flat"), "kind")
    dims = _whole(index["dims"], "dims", 1, 16_000)
    if dims > _MAX_DIMS[vector_type]:
        raise ConfigurationError(
            f"{dims} dimensions do not fit: {vector_type} takes {_MAX_DIMS[vector_type]}; "
            'use ann_index_config={"vector_type": "halfvec"} (4,000) or a smaller embedding'
        )
    return VectorOptions(
        dims=dims,
        distance=Distance(_chosen(distance, tuple(Distance), "distance_type")),
        vector_type=vector_type,
        ann=kind == "hnsw",
        m=_whole(ann.get("m", HNSW_M), "m", 2, 100),
        ef_construction=_whole(
            ann.get("ef_construction", EF_CONSTRUCTION), "ef_construction", 4, 1000
        ),
    )


_whole = partial(checks.checked_whole, error=ConfigurationError)


def _chosen(value: object, choices: Iterable[str], what: str) -> str:
    return str(checks.checked_choice(value, choices, what, ConfigurationError))
