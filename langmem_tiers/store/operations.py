"""Checks of LangGraph's store operations, and their translation into reads and writes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from langgraph.store import base
from langgraph.store.base import GetOp, Op, PutOp, SearchItem, SearchOp

from langmem_tiers.core.checks import (
    check_key,
    checked_choice,
    checked_flag,
    checked_number,
    checked_whole,
    utf8_bytes,
)
from langmem_tiers.core.config import DEFAULT_BOUNDS, Bounds, IndexOptions, StoreOptions
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import (
    TIERS,
    Place,
    Tier,
    decode_namespace,
    encode_namespace,
    prefix_scope,
)
from langmem_tiers.core.values import encode_value, read_recall_fields
from langmem_tiers.core.vectors import MAX_FIELD_BYTES, Distance
from langmem_tiers.store.filters import compile_filter, text_array
from langmem_tiers.store.read import GetRequest, ItemRow, ListRequest, ReadRequest, SearchRequest
from langmem_tiers.store.write import Write

_MAX_TTL_MINUTES = 1e9
_MAX_ROWS = 2**31 - 1

_GROUP = re.compile(r"\[[^\[\]{}]+\]|\{([^{}]+)\}")
"""An index or a selection of fields in an index path."""

_NOWHERE = Place("", "")
"""The place of the empty namespace: nothing can be stored there."""

_tokens = lru_cache(maxsize=1024)(base.tokenize_path)


class _Never(float):
    """A type of our own, so that a caller's infinite TTL is still refused."""


NEVER: Final = _Never("inf")
"""The TTL into which a tier's view turns None: no expiry, whatever the tier's own life is."""


def to_read(op: Op, bounds: Bounds = DEFAULT_BOUNDS) -> ReadRequest:
    """Check and translate an operation that reads.

    Raises:
        InvalidInputError: for an invalid operation.
        InvalidNamespaceError: LangGraph's own, for labels that it refuses.
    """
    if isinstance(op, GetOp):
        return to_get(op)
    if isinstance(op, SearchOp):
        return to_search(op, bounds)
    if isinstance(op, base.ListNamespacesOp):
        return _list_namespaces(op, bounds)
    raise InvalidTypeError(
        f"unknown operation {type(op).__name__}: batch takes GetOp, PutOp, SearchOp and "
        "ListNamespacesOp"
    )


def to_get(op: GetOp) -> GetRequest:
    """Check and translate a get."""
    _check_labels(op, op.namespace)
    place = encode_namespace(op.namespace) if op.namespace else _NOWHERE
    return GetRequest(place, check_key(op.key), _refresh(op.refresh_ttl))


def to_write(op: PutOp, options: StoreOptions) -> Write:
    """Check and translate a put or, if the value is None, a deletion."""
    _check_labels(op, op.namespace)
    place, key = encode_namespace(op.namespace), check_key(op.key)
    if op.value is None:
        return Write(place=place, key=key, value=None, twins="stay")
    paths = _index_paths(op.index, options.index)
    return Write(
        place=place,
        key=key,
        value=encode_value(op.value, options.bounds),
        texts=tuple(
            options.bounds.checked_items(indexed_texts(op.value, paths), "a list of texts to index")
        ),
        ttl=_minutes(op.ttl),
        recall_fields=read_recall_fields(op.value),
    )


def to_tier(name: object) -> Tier:
    """Return the tier of a name.

    Raises:
        InvalidInputError: if there is none.
    """
    if not isinstance(name, str) or name not in tuple(Tier):
        raise InvalidInputError(f"there is no tier {short(name)}: use one of {', '.join(TIERS)}")
    return Tier(str(name))


def to_item(row: ItemRow) -> base.Item:
    """Turn a row into LangGraph's item."""
    return base.Item(
        value=row.value,
        key=row.key,
        namespace=decode_namespace(row.tenant, row.namespace),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def to_search_items(page: Sequence[ItemRow], distance: Distance) -> list[SearchItem]:
    """Turn rows into LangGraph's search items, with scores if there was a query."""
    score = distance.score
    return [
        SearchItem(
            decode_namespace(row.tenant, row.namespace),
            row.key,
            row.value,
            row.created_at,
            row.updated_at,
            None if row.distance is None else score(row.distance),
        )
        for row in page
    ]


def _check_labels(op: Op, labels: Sequence[str]) -> None:
    if not isinstance(labels, (tuple, list)):
        raise InvalidTypeError(
            f"a namespace is a tuple of labels, such as ('acme', 'notes'), not {short(labels)}"
        )
    for label in labels:
        if not isinstance(label, str):
            raise InvalidTypeError(f"a label of a namespace is a string, not {short(label)}")
    base.validate_op_namespace(op)


def to_search(op: SearchOp, bounds: Bounds = DEFAULT_BOUNDS) -> SearchRequest:
    """Check and translate a search."""
    _check_labels(op, op.namespace_prefix)
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidTypeError(f"a query is a string, not {type(op.query).__name__}")
    if op.query:
        bounds.check_query(op.query)
        utf8_bytes(op.query, "query")
    return SearchRequest(
        scope=prefix_scope(op.namespace_prefix),
        conditions=compile_filter(op.filter, bounds),
        text=op.query or None,
        limit=_limit(op.limit, bounds),
        offset=checked_whole(op.offset, "offset", 0, _MAX_ROWS),
        refresh=_refresh(op.refresh_ttl),
    )


def _list_namespaces(op: base.ListNamespacesOp, bounds: Bounds) -> ListRequest:
    matches: object = () if op.match_conditions is None else op.match_conditions
    if not isinstance(matches, tuple | list):
        raise InvalidTypeError(
            f"match_conditions is a tuple of MatchCondition, not {short(matches)}"
        )
    conditions = [_match(condition) for condition in bounds.checked_conditions(matches)]
    tenants = {labels[0] for kind, labels in conditions if kind == "prefix" and labels}
    depth = op.max_depth
    return ListRequest(
        tenant=tenants.pop() if len(tenants) == 1 and "*" not in tenants else None,
        matches=[(kind, text_array(labels)) for kind, labels in conditions],
        max_depth=None if depth is None else checked_whole(depth, "max_depth", 0, _MAX_ROWS),
        limit=_limit(op.limit, bounds),
        offset=checked_whole(op.offset, "offset", 0, _MAX_ROWS),
    )


def _match(condition: object) -> tuple[str, tuple[str, ...]]:
    path: object = condition.path if isinstance(condition, base.MatchCondition) else None
    if not isinstance(condition, base.MatchCondition) or not isinstance(path, str | tuple | list):
        raise InvalidTypeError(
            "a match condition is MatchCondition('prefix' or 'suffix', labels), not "
            f"{short(condition)}"
        )
    kind = checked_choice(condition.match_type, ("prefix", "suffix"), "a match type")
    labels = (path,) if isinstance(path, str) else tuple(path)
    if labels:
        _check_labels(GetOp(labels, ""), labels)
    for label in labels:
        utf8_bytes(label, "namespace")
    return kind, labels


def _limit(number: object, bounds: Bounds) -> int:
    limit = checked_whole(number, "limit", 0, _MAX_ROWS)
    bounds.check_limit(limit)
    return limit


def _refresh(value: object) -> bool:
    return value is not None and checked_flag(value, "refresh_ttl")


def _minutes(ttl: object) -> float | None:
    if ttl is None:
        return None
    if isinstance(ttl, _Never):
        return math.inf
    use = f"minutes, from 0 to {_MAX_TTL_MINUTES:,.0f}, or None"
    return float(checked_number(ttl, "a TTL", 0, _MAX_TTL_MINUTES, use=use))


def _index_paths(index: object, configured: IndexOptions | None) -> Sequence[str]:
    if index is None:
        return _checked_paths(configured.fields) if configured else ()
    if index is False:
        return ()
    if not isinstance(index, list | tuple) or not all(isinstance(path, str) for path in index):
        raise InvalidInputError(
            f"index is None, False or a list of paths, not {short(index)}; for one path: ['text']"
        )
    paths = _checked_paths(index)
    return tuple(dict.fromkeys(paths)) if configured else ()


def _checked_paths(paths: Sequence[str]) -> Sequence[str]:
    for path in paths:
        if not _is_well_formed(path):
            raise InvalidInputError(
                f"the index path {short(path)} has an empty part or an unpaired bracket: "
                "write it like a.b, a[0].b, a[*], {a,b.c} or $"
            )
    return paths


@lru_cache(maxsize=1024)
def _is_well_formed(path: str) -> bool:
    """Return True if no part of a path is empty; LangGraph reads "" as the whole value."""
    if not path:
        return True
    chosen = [
        name.strip() for group in _GROUP.finditer(path) for name in (group[1] or "*").split(",")
    ]
    bare = _GROUP.sub("*", path)
    paired = not set(bare) & set("[]{}")
    return (
        paired and all(bare.split(".")) and all(name and _is_well_formed(name) for name in chosen)
    )


def indexed_texts(value: Mapping[str, Any], paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return each text at each path with a name: the path, numbered if it has several texts."""
    named: dict[str, str] = {}
    for path in paths:
        try:
            texts = base.get_text_at_path(value, path if path == "$" else _tokens(path))
        except TypeError as error:
            raise InvalidTypeError(
                f"the value cannot be indexed at {short(path)}: {error}"
            ) from error
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
