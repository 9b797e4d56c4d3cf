"""What is asked of memory, as flows over a store: by question, by key, and what may be shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langgraph.store.base import SearchItem, SearchOp

from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.core.memory import Recollection, Tier
from langmem_tiers.core.namespaces import check_key
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.candidates import Candidate, read_columns
from langmem_tiers.recall.recall import Inquiry, Reader, answers, visibility
from langmem_tiers.store import ops
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.read import Found

_HIDDEN_AT_ONCE = 100
"""Rows of each further page of a search, where what came before is not all shown by a recall."""


def recall(
    asks: Sequence[Inquiry],
    reader: Reader,
    store: StoreFlows,
    hidden: Callable[[Candidate], bool] | None = None,
) -> Flow[list[list[Recollection]]]:
    """Recall for several questions at once; what is returned counts as read, if not hidden."""
    if store.options.index is None:
        raise ConfigurationError(
            "recall needs an index: open the store with index={'fields': ['content']} for "
            "words alone, or with `dims` and `embed` as well"
        )
    store.begin_to_flush()
    yield from store.refresh_state()
    moment = store.moment()
    found = yield from answers(asks, reader, moment, store.ann_tiers)
    read = [row for answer in found for row in answer.rows]
    yield from store.mark([row for row in read if not (hidden and hidden(row))], moment)
    return [answer.memories for answer in found]


def find(tenant: str, key: str, tiers: Sequence[Tier], store: StoreFlows) -> Flow[list[Candidate]]:
    """Memories of a tenant by key, short_term before working before long_term."""
    store.begin_to_flush()
    params = {
        "tenant": tenant,
        "key": check_key(key),
        "tiers": [tier.value for tier in tiers],
        "alive_at": store.moment().alive_at,
    }
    (rows,) = yield Query((Call("find", params),), commit=True)
    return read_columns(rows, store.distance)


def search_shown(op: SearchOp, tier: Tier | None, store: StoreFlows) -> Flow[list[SearchItem]]:
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
