"""What is asked of memory, as flows over a store: by question, and by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.core.memory import Recollection, Tier
from langmem_tiers.core.namespaces import check_key
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.candidates import Candidate, read_columns
from langmem_tiers.recall.recall import Inquiry, Reader, answers
from langmem_tiers.store.flows import StoreFlows


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
