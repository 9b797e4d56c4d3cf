"""LangGraph's store operations, checked at the door and turned into reads and writes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import lru_cache
from typing import Any

from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from langmem_tiers.config import MAX_FIELD_BYTES, Distance, IndexOptions, StoreOptions
from langmem_tiers.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.memory import TIERS, Tier
from langmem_tiers.namespaces import Place, check_key, decode, encode, scope, utf8_bytes
from langmem_tiers.recall.filters import compile_filter, text_array
from langmem_tiers.recall.flow import Found, Get, ListNamespaces, Read, Search
from langmem_tiers.remember.flow import Write
from langmem_tiers.values import encode_value

_MAX_TTL_MINUTES = 1e9
_MAX_ROWS = 2**31 - 1

_NOWHERE = Place("", "")
"""Where get looks for the empty namespace: nothing can be stored there."""

_tokens = lru_cache(maxsize=1024)(tokenize_path)


def to_read(op: Op) -> Read:
    """Check and translate an operation that reads.

    Raises:
        InvalidInputError: for anything that cannot be asked; LangGraph's own
            InvalidNamespaceError for labels it refuses.
    """
    if isinstance(op, GetOp):
        return to_get(op)
    if isinstance(op, SearchOp):
        return _search(op)
    if isinstance(op, ListNamespacesOp):
        return _list_namespaces(op)
    raise InvalidTypeError(
        f"unknown operation {type(op).__name__}: batch takes GetOp, PutOp, SearchOp and "
        "ListNamespacesOp"
    )


def to_get(op: GetOp) -> Get:
    """Check and translate a get."""
    _check_labels(op, op.namespace)
    place = encode(op.namespace) if op.namespace else _NOWHERE
    return Get(place, check_key(op.key), bool(op.refresh_ttl))


def to_write(op: PutOp, options: StoreOptions) -> Write:
    """Check and translate a put or, if the value is None, a deletion."""
    _check_labels(op, op.namespace)
    place, key = encode(op.namespace), check_key(op.key)
    if op.value is None:
        return Write(place=place, key=key, value=None)
    paths = _index_paths(op.index, options.index)
    return Write(
        place=place,
        key=key,
        value=encode_value(op.value),
        texts=tuple(_texts(op.value, paths)),
        ttl=_minutes(op.ttl),
    )


def to_search(
    prefix: Sequence[str],
    *,
    query: str,
    limit: int,
    filter: Mapping[str, Any] | None,  # noqa: A002 - LangGraph's word
) -> Search:
    """Check and translate a search by words."""
    return _search(SearchOp(prefix, filter=filter, limit=limit, query=query))  # type: ignore[arg-type]


def to_tier(name: object) -> Tier:
    """The tier of that name.

    Raises:
        InvalidInputError: if there is none.
    """
    if name not in tuple(Tier):
        raise InvalidInputError(f"there is no tier {name!r}: use one of {', '.join(TIERS)}")
    return Tier(str(name))


def to_item(found: Found) -> Item:
    """A row as LangGraph's item."""
    return Item(
        value=found.value,
        key=found.key,
        namespace=decode(found.tenant, found.namespace),
        created_at=found.created_at.astimezone(UTC),
        updated_at=found.updated_at.astimezone(UTC),
    )


def to_search_item(found: Found, distance: Distance) -> SearchItem:
    """A row as LangGraph's search item, with its score where there was a query."""
    return SearchItem(
        namespace=decode(found.tenant, found.namespace),
        key=found.key,
        value=found.value,
        created_at=found.created_at.astimezone(UTC),
        updated_at=found.updated_at.astimezone(UTC),
        score=None if found.distance is None else distance.score(found.distance),
    )


def _check_labels(op: Op, labels: Sequence[str]) -> None:
    if not isinstance(labels, (tuple, list)):
        raise InvalidTypeError(
            f"a namespace is a tuple of labels, such as ('acme', 'notes'), not {labels!r}"
        )
    validate_op_namespace(op)


def _search(op: SearchOp) -> Search:
    _check_labels(op, op.namespace_prefix)
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidTypeError(f"a query is a string, not {type(op.query).__name__}")
    if op.query:
        utf8_bytes(op.query, "query")
    return Search(
        scope=scope(op.namespace_prefix),
        conditions=compile_filter(op.filter),
        text=op.query or None,
        limit=_rows(op.limit, "limit"),
        offset=_rows(op.offset, "offset"),
        refresh=bool(op.refresh_ttl),
    )


def _list_namespaces(op: ListNamespacesOp) -> ListNamespaces:
    given = op.match_conditions or ()
    if not isinstance(given, tuple | list):
        raise InvalidTypeError(f"match_conditions is a tuple of MatchCondition, not {given!r}")
    conditions = [_match(condition) for condition in given]
    tenants = {labels[0] for kind, labels in conditions if kind == "prefix" and labels}
    depth = op.max_depth
    return ListNamespaces(
        tenant=tenants.pop() if len(tenants) == 1 and "*" not in tenants else None,
        matches=[(kind, text_array(labels)) for kind, labels in conditions],
        max_depth=None if depth is None else _rows(depth, "max_depth"),
        limit=_rows(op.limit, "limit"),
        offset=_rows(op.offset, "offset"),
    )


def _match(condition: object) -> tuple[str, tuple[str, ...]]:
    path: object = condition.path if isinstance(condition, MatchCondition) else None
    if not isinstance(condition, MatchCondition) or not isinstance(path, str | tuple | list):
        raise InvalidTypeError(
            f"a match condition is MatchCondition('prefix' or 'suffix', labels), not {condition!r}"
        )
    kind = str(condition.match_type)
    if kind not in ("prefix", "suffix"):
        raise InvalidInputError(f"unknown match type {kind!r}: use 'prefix' or 'suffix'")
    labels = (path,) if isinstance(path, str) else tuple(path)
    if labels:
        _check_labels(GetOp(labels, ""), labels)
    for label in labels:
        utf8_bytes(label, "namespace")
    return kind, labels


def _rows(number: object, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidTypeError(f"{what} is a whole number, not {type(number).__name__}")
    if not 0 <= number <= _MAX_ROWS:
        raise InvalidInputError(f"{what} is {number}: use a number from 0 to {_MAX_ROWS:,}")
    return number


def _minutes(ttl: object) -> float | None:
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float):
        raise InvalidTypeError(f"a TTL is a number of minutes, not {type(ttl).__name__}")
    if ttl != math.inf and not 0 <= ttl <= _MAX_TTL_MINUTES:
        raise InvalidInputError(
            f"a TTL of {ttl} minutes makes no sense: use 0 to {_MAX_TTL_MINUTES:,.0f}, or None"
        )
    return float(ttl)


def _index_paths(index: object, configured: IndexOptions | None) -> Sequence[str]:
    if index is None:
        return configured.fields if configured else ()
    if index is False:
        return ()
    if not isinstance(index, list | tuple) or not all(isinstance(path, str) for path in index):
        raise InvalidInputError(
            f"index is None, False or a list of paths, not {index!r}; for one path: ['text']"
        )
    return tuple(dict.fromkeys(index)) if configured else ()


def _texts(value: Mapping[str, Any], paths: Sequence[str]) -> list[tuple[str, str]]:
    """Each text at each path, under a name of its own: the path, numbered if it has several."""
    named: dict[str, str] = {}
    for path in paths:
        try:
            texts = get_text_at_path(value, path if path == "$" else _tokens(path))
        except TypeError as error:
            raise InvalidTypeError(f"the value cannot be indexed at {path!r}: {error}") from error
        for i, text in enumerate(texts):
            name = path if len(texts) == 1 else f"{path}.{i}"
            while name in named:
                name += "+"
            if utf8_bytes(name, "index path") > MAX_FIELD_BYTES:
                raise InvalidInputError(
                    f"the index path {path[:40]!r}… is longer than {MAX_FIELD_BYTES} bytes"
                )
            named[name] = text
    return list(named.items())
