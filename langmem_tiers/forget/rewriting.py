"""How memories that are to say less are written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from langmem_tiers.core.config import IndexOptions
from langmem_tiers.core.values import content_of, lexical_text
from langmem_tiers.core.vectors import PackedVectors
from langmem_tiers.forget.how import Forgetting
from langmem_tiers.forget.looking import Found
from langmem_tiers.postgres.flow import Call, Flow
from langmem_tiers.remember.new import FIELD
from langmem_tiers.store.ops import indexed_texts
from langmem_tiers.store.read import embed_texts
from langmem_tiers.store.write import columns


def vectors_of(found: Found, how: Forgetting) -> Flow[Mapping[str, Any]]:
    """The vectors of what is said from now on; embedded before any transaction."""
    texts = [text for _, _, text in _fields(found, how)]
    return (yield from embed_texts(texts, how.options, "documents"))


def quote_calls(found: Found) -> Iterator[Call]:
    """The call by which other memories lose what they quote."""
    if found.quoting:
        several = [json.dumps(one.value, ensure_ascii=False) for one in found.quoting.values()]
        params = {"tenant": found.asked.tenant, "ids": list(found.quoting), "values": several}
        versions = [one.version for one in found.quoting.values()]
        yield Call("unquote_memories", {**params, "versions": versions})


def rewrite_calls(found: Found, how: Forgetting, vectors: Mapping[str, Any]) -> Iterator[Call]:
    """The calls that write them, with their words and their vectors."""
    values = found.reach.values
    if not values:
        return
    tenant, index = found.asked.tenant, how.options.index
    ids = sorted(values)
    yield Call(
        "rewrite_memories",
        {
            "tenant": tenant,
            "ids": ids,
            "values": [json.dumps(values[one], ensure_ascii=False) for one in ids],
            "texts": [_words(values[one], index) for one in ids],
            "events": [f"forgot-{one}-{uuid4()}" for one in ids],
            "language": None if index is None else index.language,
            "now": how.now,
        },
    )
    places = [(tenant, found.known[one].namespace, found.known[one].key) for one in ids]
    yield Call("delete_vectors", columns(("tenants", "namespaces", "keys"), places))
    rows, packed = [], PackedVectors()
    for place, field, text in _fields(found, how):
        if (vector := vectors.get(text)) is not None:
            rows.append((*place, field))
            packed.append(vector)
    if rows:
        named = columns(("tenants", "namespaces", "keys", "fields"), rows)
        yield Call("put_vectors", {**named, "embeddings": packed})


def _fields(found: Found, how: Forgetting) -> Iterator[tuple[tuple[str, str, str], str, str]]:
    """Of each, where it is, and its indexed fields that are texts."""
    index, tenant = how.options.index, found.asked.tenant
    if index is None or index.vector is None:
        return
    for id_ in sorted(found.reach.values):
        one = found.known[id_]
        for name, text in _texts(found.reach.values[id_], index):
            if text.strip():
                yield (tenant, one.namespace, one.key), name, text


def _words(value: Mapping[str, Any], index: IndexOptions | None) -> str:
    several = [("", content_of(value))] if index is None else _texts(value, index)
    return lexical_text("\n".join(text for _, text in several))


def _texts(value: Mapping[str, Any], index: IndexOptions) -> list[tuple[str, str]]:
    """What is embedded of a value, and what its words are: as a coordinator, or a put, would."""
    if isinstance(value.get(FIELD), str):
        return [(FIELD, value[FIELD])]
    return indexed_texts(value, index.fields)
