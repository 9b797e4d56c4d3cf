"""What a model keeps, changes and finds by its tools, in a store of ours.

It writes through the gate, as an agent, and finds what a recall shows. A memory of a person's, or
of the application's own, stands: a model may note something beside it, and changes and deletes no
more than what a recall shows and no person answers for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from langchain_core.tools import ToolException
from langgraph.store.base import PutOp, SearchItem, SearchOp

from langmem_tiers.core import prompts
from langmem_tiers.core.errors import (
    DatabaseError,
    EmbeddingFailedError,
    InvalidInputError,
    MigrationError,
    NotSetUpError,
    OutcomeUnknownError,
)
from langmem_tiers.core.memory import (
    PERSONS,
    THRESHOLD,
    TIERS,
    Moment,
    Recollection,
    Source,
    StoreResult,
    Tier,
)
from langmem_tiers.core.namespaces import encode
from langmem_tiers.core.prompts import NOT_THERE, STANDS
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.values import source_of, trust_of
from langmem_tiers.memory.base import weights_for, words_of
from langmem_tiers.postgres.flow import Call, Flow, only
from langmem_tiers.recall.floor import DEFAULT_FLOOR
from langmem_tiers.recall.inquiry import Inquiry, Reader, approximate_tokens, below, visibility
from langmem_tiers.recall.ranking import PROFILES
from langmem_tiers.recall.recall import recall
from langmem_tiers.remember.gate import Decision, Gate
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.remember.pipeline import result_of, unjudged_as
from langmem_tiers.remember.transaction import Check, write
from langmem_tiers.store import ops
from langmem_tiers.store.store import TieredStore, TierView
from langmem_tiers.store.write import Write, keys_of

_log = logging.getLogger(__name__)
T = TypeVar("T")
OurStore: TypeAlias = TieredStore | TierView
GATE: Final = Gate()
_TRUST: Final = GATE.policy.trust.of_source(Source.AGENT)
_FURTHER: Final = 100
"""Rows of each further page of a search, where not all of what came before is an answer."""


def changed(
    store: OurStore, put: PutOp, action: str, trust: float = 1.0
) -> Flow[StoreResult | None]:
    """Carry out what a model wants of a store of ours; None once something is deleted.

    Args:
        store, put, action: What is wanted, and where.
        trust: How far at most the model is trusted, after what it heard from its tools.

    Raises:
        InvalidInputError: for what cannot be stored, or a memory that is not the model's to change;
            nothing was.
    """
    flows = store.flows
    tier = store.name if isinstance(store, TierView) else None
    wanted, held = ops.to_write(put, flows.options), None
    if put.value is not None:
        content = _read(put.value["content"])
        said = NewMemory(content=content, memory_type=None, source=Source.AGENT, trust=trust)
        verdict = GATE.of(GATE.candidate(said))
        if verdict.destination is None:
            return result_of(verdict)
        told = {**put.value, "source": Source.AGENT.value, "trust": verdict.trust}
        noted = put._replace(value=told, ttl=flows.default_ttl, index=["content"])
        whole = ops.to_write(noted, flows.options)
        held = verdict.reason if verdict.decision is Decision.QUARANTINE else None
        wanted = replace(whole, trust=verdict.trust, named=True, held=held)
    asks = partial(_check_own, put.key, action, tier, trust)
    own = Check(partial(_standing, wanted), asks)
    check = None if action == "create" else own
    applied = yield from write([wanted], flows, tier=tier, check=check)
    return None if put.value is None else unjudged_as(wanted, applied)


def _standing(one: Write, moment: Moment) -> Call:
    """Asks what stands under its key, and whether a recall shows it."""
    params = {**keys_of([one]), "alive_at": moment.alive_at, **visibility(moment.now)}
    return Call("standing_under_keys", params)


def _check_own(
    key: str, action: str, tier: Tier | None, trust: float, rows: Sequence[Sequence[Any]]
) -> None:
    """Refuse to change what a recall does not show, and what a person answers for.

    A model that heard what instructs its reader changes only what is trusted no more than that.
    """
    shown = [value for value, lives_in, seen in rows if seen and lives_in == (tier or lives_in)]
    if not shown:
        raise InvalidInputError(NOT_THERE.format(id=key, action=action))
    if source_of(shown[0]) in PERSONS or trust_of(shown[0]) > _most(trust):
        raise InvalidInputError(STANDS.format(id=key, action=action))


def _most(trust: float) -> float:
    return trust if trust < THRESHOLD else _TRUST


def _read(content: Any, name: str = "") -> str:
    """What a content says, as the gate reads it: a line for each text of what is no text itself."""
    if isinstance(content, Mapping):
        return "\n".join(_read(value, str(each)) for each, value in content.items())
    if isinstance(content, list):
        return "\n".join(_read(value, name) for value in content)
    return f"{name}: {content}" if name else str(content)


def found(store: OurStore, op: SearchOp, user_id: str | None) -> Flow[list[SearchItem]]:
    """A page of what is recalled below a namespace, best first.

    Shown is what is shared, and of a user what is the own of the one whom the namespace or, if it
    does not, the run names.
    """
    flows, tiers = store.flows, (store.name,) if isinstance(store, TierView) else TIERS
    asked = ops.to_search(op, flows.options.bounds)
    place = encode(op.namespace_prefix)
    user = flows.options.user_of(place) or user_id
    ask = Inquiry(
        query=asked.text or "",
        reach=below(dict.fromkeys(tiers, asked.scope), place.tenant, user),
        limit=asked.offset + asked.limit,
        conditions=asked.conditions,
        profile=PROFILES["match"],  # what is read stays where it is on the next page
        floor=DEFAULT_FLOOR,
    )
    best = yield from only(recall([ask], _reader(store), flows))
    return [_item(one) for one in best[asked.offset :]]


def _item(one: Recollection) -> SearchItem:
    """A memory as LangGraph's search item, with its match as the score."""
    moments = one.created_at, one.updated_at
    return SearchItem(one.namespace, one.key, dict(one.value), *moments, one.match)


def _reader(store: TieredStore | TierView) -> Reader:
    weights, words = weights_for(store), words_of(store)
    counted = approximate_tokens
    return Reader(weights=weights, words=words, types=MemoryTypes(), count_tokens=counted)


def paged(page: Callable[[int, int], Flow[tuple[int, list[T]]]], op: SearchOp) -> Flow[list[T]]:
    """What a search is to answer, of pages that say how many rows they had and what is an answer.

    An earlier asking of the query itself is none.
    """
    size, start, found = op.offset + op.limit, 0, list[T]()
    while size and len(found) < op.offset + op.limit:
        rows, answers = yield from page(size, start)
        found += answers
        if rows < size:
            break
        start, size = start + size, max(size, _FURTHER)
    return found[op.offset : op.offset + op.limit]


@contextmanager
def told_to_model() -> Iterator[None]:
    """Tell the model what it got wrong, or that memory is away, and let the run go on."""
    try:
        yield
    except InvalidInputError as error:
        raise ToolException(str(error)) from error
    except (NotSetUpError, MigrationError):
        raise  # these do not mend themselves
    except (DatabaseError, EmbeddingFailedError) as error:
        _log.warning("a tool goes without its memory: %s", error)
        unknown = isinstance(error, OutcomeUnknownError)
        raise ToolException(prompts.MEMORY_IN_DOUBT if unknown else prompts.MEMORY_AWAY) from error
