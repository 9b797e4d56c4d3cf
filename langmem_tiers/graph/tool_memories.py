"""What a model keeps, changes and finds by its tools, in a store of ours.

It writes through the gate, as an agent, and finds what a recall shows.

A memory of a person's, or of the application's own, stands: a model may note something beside it,
and changes and deletes no more than what a recall shows and no person answers for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from langgraph.store.base import PutOp, SearchItem, SearchOp

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Moment, Source, StoreResult, Tier
from langmem_tiers.core.prompts import NOT_THERE, STANDS
from langmem_tiers.core.values import source_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.recall import visibility
from langmem_tiers.remember.admission import apply
from langmem_tiers.remember.admit import Gate, result_of, unjudged_as
from langmem_tiers.remember.gate import Decision
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.remember.panel import default_reviewers
from langmem_tiers.store import ops
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.read import Found
from langmem_tiers.store.store import TieredStore
from langmem_tiers.store.tier import TierView
from langmem_tiers.store.write import Write, Writing, embed, keys_of, lock_writes

OurStore: TypeAlias = TieredStore | TierView
_Items: TypeAlias = list[SearchItem]

_GATE: Final = Gate(reviewers=default_reviewers())
_TRUST: Final = _GATE.policy.trust.of_source(Source.AGENT)
_PERSONS: Final = frozenset({Source.USER, Source.SYSTEM})
"""Who answers for a memory that no model changes; what names no source is the application's own."""

_HIDDEN_AT_ONCE = 100
"""Rows of each further page of a search, where what came before is not all shown by a recall."""


class Change(NamedTuple):
    """What a model wants of the memory of a key."""

    namespace: tuple[str, ...]
    key: str
    content: Any = None
    """What it is to say, as JSON; None where it is to be deleted."""
    new: bool = False
    """Whether nothing stands under the key yet."""


def changed(store: OurStore, change: Change) -> Flow[StoreResult | None]:
    """Carry out what a model wants; None once something is deleted.

    Raises:
        InvalidInputError: for what cannot be stored, or a memory that is not the model's to change;
            nothing was.
    """
    flows, tier = store.flows, tier_of(store)
    if change.content is None:
        deletion = ops.to_write(PutOp(change.namespace, change.key, None), flows.options)
        yield from _carried_out(flows, deletion, change, tier)
        return None
    write = _checked(flows, change)
    verdict = _GATE.judge(NewMemory(content=_said(change.content), source=Source.AGENT))
    if not verdict.stored:
        return result_of(verdict)
    held = verdict.reason if verdict.decision is Decision.QUARANTINE else None
    write = _checked(flows, change, trust=verdict.trust)
    return (yield from _carried_out(flows, replace(write, held=held), change, tier))


def found(store: OurStore, namespace: tuple[str, ...], asked: Mapping[str, Any]) -> Flow[_Items]:
    """What a search finds of what a recall shows."""
    refresh = (store.ttl_config or {}).get("refresh_on_read", True)
    op = SearchOp(namespace, refresh_ttl=refresh, **asked)
    return _search_shown(op, tier_of(store), store.flows)


def _search_shown(op: SearchOp, tier: Tier | None, store: StoreFlows) -> Flow[list[SearchItem]]:
    """A page of a search among what a recall shows; its lives begin again as in any search."""
    asked, wanted = ops.to_read(op), op.offset + op.limit
    size, start, found = wanted, 0, list[Found]()
    while size and len(found) < wanted:
        page = op._replace(limit=size, offset=start)
        (rows,) = yield from store.read([ops.to_read(page)], tier)
        found += yield from _shown(rows, store)
        if len(rows) < size:
            break
        start, size = start + size, max(size, _HIDDEN_AT_ONCE)
    answer = found[op.offset : wanted]
    yield from store.note([asked], [answer])
    return list(ops.to_search_items(answer, store.distance))


def _shown(found: Sequence[Found], store: StoreFlows) -> Flow[list[Found]]:
    if not found:
        return []
    params = {"tenants": [one.tenant for one in found], "ids": [one.id for one in found]}
    call = Call("shown_by_recall", {**params, **visibility(store.moment().now)})
    (rows,) = yield Query((call,), commit=True)
    known = {(tenant, number) for tenant, number in rows}
    return [one for one in found if (one.tenant, one.id) in known]


def tier_of(store: OurStore) -> Tier | None:
    """The tier that a store is of, if it is of one alone."""
    return store.name if isinstance(store, TierView) else None


def _checked(flows: StoreFlows, change: Change, trust: float = _TRUST) -> Write:
    """The write of what a model says, with whose it is."""
    value = {"content": change.content, "source": Source.AGENT.value, "trust": trust}
    put = PutOp(change.namespace, change.key, value, ttl=flows.default_ttl)
    return replace(ops.to_write(put, flows.options), trust=trust, named=True)


def _carried_out(
    flows: StoreFlows, write: Write, change: Change, tier: Tier | None
) -> Flow[StoreResult]:
    """Write, if the model may change what stands there once the key is locked."""
    yield from flows.refresh_state()
    vectors = yield from embed([write], flows.options)
    moment = flows.moment()
    calls = (lock_writes([write], flows.options), _standing(write, moment))
    _, rows = yield Query(calls)
    if not change.new:
        _check_own(rows, change, tier)
    writing = Writing([write], vectors, moment)
    applied = yield from apply(writing, options=flows.options, tier=tier, locked=True)
    return unjudged_as(write, applied)


def _standing(write: Write, moment: Moment) -> Call:
    params = {**keys_of([write]), "alive_at": moment.alive_at, **visibility(moment.now)}
    return Call("standing_under_keys", params)


def _check_own(rows: Sequence[Sequence[Any]], change: Change, tier: Tier | None) -> None:
    """Refuse to change what a recall does not show, and what a person answers for."""
    action = "delete" if change.content is None else "update"
    shown = [
        value for value, lives_in, visible in rows if visible and lives_in == (tier or lives_in)
    ]
    if not shown:
        raise InvalidInputError(NOT_THERE.format(id=change.key, action=action))
    if _is_persons(shown[0]):
        raise InvalidInputError(STANDS.format(id=change.key, action=action))


def _is_persons(value: Mapping[str, Any]) -> bool:
    return source_of(value) in _PERSONS or trust_of(value) > _TRUST


def _said(content: Any) -> str:
    """What a content says, as the gate reads it: a line for each text of what is no text itself."""
    return content if isinstance(content, str) else "\n".join(_lines(content))


def _lines(content: Any, name: str = "") -> Iterator[str]:
    if isinstance(content, Mapping):
        for each, value in content.items():
            yield from _lines(value, str(each))
    elif isinstance(content, list):
        for value in content:
            yield from _lines(value, name)
    else:
        yield f"{name}: {content}" if name else str(content)
