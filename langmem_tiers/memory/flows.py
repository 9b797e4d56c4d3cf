"""What several verbs of a coordinator do, as flows: recall, and find memories that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import TIERS, Recollection, Recollections
from langmem_tiers.core.namespaces import encode
from langmem_tiers.learn.outcome import Showing, noted
from langmem_tiers.memory.asking import memory_key
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.meant import meant, own_or_only, reached, why_absent
from langmem_tiers.postgres.flow import Call, Flow, Query, lasts
from langmem_tiers.recall import recall as recalls
from langmem_tiers.recall.matching import Candidate, read_columns, recollection
from langmem_tiers.recall.recall import RecallQuery, Vectors, visibility
from langmem_tiers.recall.replay import Recording
from langmem_tiers.remember.echo import Recalled, RecalledLately


def known(
    memory: Memory,
    key: str,
    absent: type[InvalidInputError] = InvalidInputError,
    *,
    everywhere: bool = False,
) -> Flow[Candidate]:
    """Return the memory of that key: the context's own, else the only one it reaches.

    It is sought `everywhere` in the tenant by those who look after all of it.

    Raises:
        InvalidInputError: for what is no key, if it reaches none (as `absent`), or if it reaches
            several elsewhere.
    """
    context = memory.context
    found = yield from recalls.find(context, memory_key(key), TIERS, memory.tiered_store.flows)
    one = own_or_only(found, key, context) if everywhere else meant(found, key, context)
    if one is None:
        raise absent((yield from why_absent(key, context)))
    return one


def recall(
    memory: Memory,
    asks: Sequence[RecallQuery],
    hidden: Callable[[Candidate], bool] | None = None,
    vectors: Vectors | None = None,
    *,
    turn: str | None = None,
    shown_to: Showing | None = None,
) -> Flow[list[Recollections]]:
    """Recall for several questions at once; what is hidden does not count as accessed.

    It is noted what a run is shown; what it goes without is not returned. Where recalls are
    recorded it is, as one of the turn or the run of that name, or of a new one.
    """
    yield from lasts(len(asks))
    store, days, root = memory.tiered_store.flows, memory.settings.recall_days, None
    shown_of = None
    if shown_to is not None and asks:
        turn, root = shown_to.run
        context = memory.context
        if context.project_id is None and asks[0].project_id is not None:  # one question's option
            context = replace(context, project_id=asks[0].project_id)
        shown_of = partial(noted, context=context, showing=shown_to, now=store.now)
    recording = None if days is None else Recording(days, turn or str(uuid4()), root)
    answers = yield from recalls.recall(
        asks, memory.reader, store, hidden, vectors, shown_of=shown_of, recording=recording
    )
    for found in answers:
        note(memory, found)
    return answers


def standing(
    memory: Memory, places: Sequence[tuple[tuple[str, ...], str]]
) -> Flow[list[Recollection]]:
    """Find those that a recall could still return, in this order; it accesses none."""
    if not places:
        return []
    store, context = memory.tiered_store.flows, memory.context
    moment = store.moment()
    params = {
        **context.whose,
        "namespaces": [encode(namespace).namespace for namespace, _ in places],
        "keys": [key for _, key in places],
        "alive_at": moment.alive_at,
        **visibility(moment.now),
    }
    (rows,) = yield Query((Call("read_again", params),), commit=True)
    current = reached(read_columns(rows, store.distance), context)
    found = [recollection(one, 0.0, {}) for one in current]
    note(memory, found)
    return found


def looked_up(memory: Memory, asks: Sequence[RecallQuery]) -> Flow[list[Recollections]]:
    """Return what several questions find, for rules and not for whoever asks.

    None counts as read or recalled, nothing orders them anew, and it takes the time it takes.
    """
    reader = replace(memory.reader, reranker=None, timeout_ms=None)
    return (yield from recalls.recall(asks, reader, memory.tiered_store.flows, lambda _: True))


def note(memory: Memory, found: Iterable[Recalled]) -> None:
    """Keep in mind what is recalled: whoever says it again tells nothing new."""
    store = memory.tiered_store.flows
    store.kept.one(RecalledLately).note(memory.context.caller, found, store.now)
