"""How near a turn's tool calls are to what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import hypot
from operator import mul

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.vectors import PackedVector, pack_all
from langmem_tiers.postgres.flow import Embed, Flow
from langmem_tiers.recall.dedupe import words
from langmem_tiers.turn.record import Invocation, TurnRecord


def weigh_calls(
    record: TurnRecord, options: StoreOptions
) -> Flow[Mapping[str, PackedVector | None]]:
    """Say of each tool call how near it is to the prompt, unless that was told.

    That is the cosine of the prompt and of the memory of the call, from 0 up; without an
    embedding model, the share of the prompt's words that the call and its answer have.

    Returns:
        The vectors of the memories, by text, as they are written with these.
    """
    untold = {one.key: one for one in record.calls if one.relevance is None}
    if not (untold and words(record.prompt)):
        return {}
    contents = {str(one.key): one.content for one in record.pending if one.key in untold}
    vector = None if options.index is None else options.index.vector
    if vector is None:
        _told(record, {key: _shared(record.prompt, one) for key, one in untold.items()})
        return {}
    if not contents:
        return {}
    texts = tuple(dict.fromkeys(contents.values()))
    (asked,) = yield Embed((record.prompt,), "query")
    said = yield Embed(texts, "documents")
    packed = pack_all(said, len(texts), vector)
    near = dict(zip(texts, (_cosine(asked, one) for one in said), strict=True))
    _told(record, {key: near[text] for key, text in contents.items()})
    return dict(zip(texts, packed, strict=True))


def _told(record: TurnRecord, relevance: Mapping[str, float]) -> None:
    """Keep it with the calls, and with their memories."""
    found = {key: round(one, 2) for key, one in relevance.items()}
    for place, call in enumerate(record.calls):
        if call.key in found:
            record.calls[place] = replace(call, relevance=found[call.key])
    for place, memory in enumerate(record.pending):
        if (key := str(memory.key)) in found:
            told = {**memory.further["tool_call"], "relevance": found[key]}
            record.pending[place] = replace(memory, further={**memory.further, "tool_call": told})


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two vectors of any length; 0 for what points away, or nowhere."""
    long = hypot(*one) * hypot(*other)
    return max(0.0, min(1.0, sum(map(mul, one, other)) / long)) if long else 0.0


def _shared(prompt: str, one: Invocation) -> float:
    """How much of what the turn is about a call names."""
    sought = set(words(prompt))
    said = set(words(f"{one.tool.replace('_', ' ')} {one.approach} {one.result or ''}"))
    return len(sought & said) / len(sought)
