"""A coordinator's arguments, checked at the door: what to recall, and what to remember."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Unpack

from langmem_tiers.core.checks import checked_list, checked_whole, hint, share
from langmem_tiers.core.config import DEFAULT, Bounds, IndexOptions
from langmem_tiers.core.errors import EmbeddingError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import TIERS, Tier
from langmem_tiers.core.namespaces import check_key, utf8_bytes
from langmem_tiers.core.options import RECALL_DEFAULTS, RecallOptions
from langmem_tiers.core.settings import CoordinatorSettings
from langmem_tiers.core.vectors import PackedVector, pack
from langmem_tiers.learn.promote import LISTS
from langmem_tiers.memory.base import Memory
from langmem_tiers.recall.ranking import DEFAULT_FLOOR, NO_FLOOR, Floor
from langmem_tiers.recall.recall import POOL, RecallQuery, reach
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.remember.review import MODEL, OWN
from langmem_tiers.store.filters import compile_filter
from langmem_tiers.store.ops import to_tier

MAX_LIMIT = 1000
"""Memories, or what else there are many of, that one call answers at most."""
_ROUTED = "memory_type"
"""What may be None and means something: it is left to what the content says."""
_OF_THE_GATE = frozenset(("parts", "stored", "echoes", "held", "threshold"))
"""What no caller says of a memory."""
_OF_STORE = [name for name in NewMemory.__dataclass_fields__ if name not in _OF_THE_GATE]
DEFAULT_LIMIT = CoordinatorSettings().max_context_items
"""Memories of a recall that names no limit, with settings and without."""
_OTHERS_WORDS = {
    **dict.fromkeys(
        ("k", "top_k", "max_items", "max_memories", "max_results", "n", "top_n"), "limit"
    ),
    **dict.fromkeys(("tenant", "project_id", "session_id"), "context"),
}
"""What others call our options, where that looks nothing like them."""


def checked_options(options: Mapping[str, Any], bounds: Bounds = DEFAULT) -> dict[str, Any]:
    """Check the options of a recall as far as no coordinator has to be asked, as fields of one.

    Raises:
        InvalidInputError: for one that makes no sense, or that there is not.
    """
    known = RecallOptions.__annotations__
    if unknown := options.keys() - known.keys():
        raise InvalidTypeError(no_option(min(unknown), [*known]))
    fields: dict[str, Any] = {}
    for name, given in options.items():
        if given is None and name not in RECALL_DEFAULTS:
            continue
        if name == "filter":
            fields["conditions"] = compile_filter(_among_lists(given), bounds)
        elif name == "min_match":
            fields["floor"] = floor_of(given)
        else:
            check = _CHECKS.get(name)  # all else is checked as the query is made
            fields[name] = given if check is None else check(given)
    return fields


def recall_query(
    memory: Memory,
    query: str,
    *,
    project_id: str | None = None,
    session_id: str | None = None,
    embedding: Sequence[float] | None = None,
    **options: Unpack[RecallOptions],
) -> RecallQuery:
    """Check the arguments of `get_context`, which says what they mean."""
    store = memory.tiered_store.options
    fields = checked_options(options, store.bounds)
    where = memory.context
    if project_id is not None:
        where = replace(where, project_id=project_id)
    if session_id is not None:
        where = replace(where, session_id=session_id)
    tiers = fields.pop("tiers", TIERS)
    if "memory_types" in fields:
        names = checked_list(fields["memory_types"], "memory_types", "names")
        fields["memory_types"] = [memory.types.get(name).name for name in names]
    if "review" in fields:
        _check_reviewed(fields["review"], memory)
    limit = fields.pop("limit", None)
    if limit is None:
        limit = memory.settings.max_context_items
        if "max_tokens" in fields and "review" not in fields:
            limit = max(limit, POOL)  # the budget says how many
    return RecallQuery(
        query=_checked_query(query, store.bounds),
        embedding=None if embedding is None else _packed(embedding, store.index),
        bounds=reach(where, tiers),
        tiers=frozenset(tiers),
        project_id=where.project_id,
        limit=limit,
        **{"floor": DEFAULT_FLOOR, **fields},
    )


def recall_queries(memory: Memory, queries: Sequence[str], **options: Any) -> list[RecallQuery]:
    """Check the same for many queries."""
    if isinstance(queries, str) or not isinstance(queries, Iterable):
        raise InvalidTypeError("queries is a list of texts; for one, use get_context")
    if "embedding" in options:
        raise InvalidTypeError("an embedding is of one query: use get_context")
    several = memory.tiered_store.options.bounds.batched(queries)
    return [recall_query(memory, query, **options) for query in several]


def _checked_query(query: object, bounds: Bounds) -> str:
    if not isinstance(query, str):
        raise InvalidTypeError(f"a query is a string, not {type(query).__name__}")
    bounds.check_query(query)
    utf8_bytes(query, "query")
    return query


def _packed(embedding: Sequence[float], index: IndexOptions | None) -> PackedVector:
    if index is None or index.vector is None:
        raise InvalidInputError("this store searches by words alone: give the text instead")
    try:
        packed = pack(embedding, index.vector)
    except EmbeddingError as error:
        raise InvalidInputError(
            "the embedding does not fit: it is a list of "
            f"{index.vector.dims} finite numbers, by the model that the store was set up with"
        ) from error
    if packed is None:
        raise InvalidInputError("the embedding is zero, and so near to nothing: give the text")
    return packed


def _checked_review(name: object) -> str:
    if not isinstance(name, str) or name not in (OWN, MODEL):
        raise InvalidInputError(f"review is one of {OWN}, {MODEL}, not {short(name, 40)}")
    return name


def _check_reviewed(name: str, memory: Memory) -> None:
    if name == MODEL and memory.gate.panel is None:
        raise InvalidInputError("no model is there to review: give the coordinator a review_model")
    if name == OWN and not memory.reviewers.score_recalls:
        raise InvalidInputError(
            "no reviewer has a function for relevance: register one with `relevance`, or give "
            "the coordinator a review_model and ask with review='model'"
        )


def no_option(name: str, known: Sequence[str]) -> str:
    """What to say of an option that there is not."""
    ours = _OTHERS_WORDS.get(name)
    return f"there is no option {short(name)}: {hint(ours if ours in known else name, known)}"


def _tiers(names: Sequence[Tier | str]) -> Sequence[Tier]:
    chosen = tuple(to_tier(name) for name in checked_list(names, "tiers", "names"))
    if not chosen:
        raise InvalidInputError(f"no tier to look in: name one of {', '.join(TIERS)}, or none")
    return chosen


def checked_limit(limit: object, most: int = MAX_LIMIT, what: str = "limit") -> int:
    """How many there are at most: a number from 0 on."""
    return checked_whole(limit, what, 0, most)


def floor_of(given: object) -> Floor:
    """The least match as it can be given: a number, or two, each from 0 to 1."""
    if isinstance(given, Floor):
        return given
    several = given if isinstance(given, tuple | list) else (given,)
    numbers = [share(one, "min_match") for one in several]
    if len(numbers) not in (1, 2) or None in numbers:
        raise InvalidInputError(
            "min_match is a number from 0 to 1, or two: the least match, and the least share of "
            f"the best one's; not {short(given)}"
        )
    match, share_of_best = [*(one or 0.0 for one in numbers), 0.0][:2]
    return Floor(match, share_of_best) if any(numbers) else NO_FLOOR


def _among_lists(given: Any) -> Any:
    """A filter in which a text stands for one that a list holds, where memories have lists."""
    if not isinstance(given, Mapping):
        return given
    asked = {name for name in LISTS if isinstance(given.get(name), str)}
    return {**given, **{name: {"$contains": given[name]} for name in asked}}


def memory_key(key: object) -> str:
    """The key of one memory, and not what has one."""
    if key is None:
        raise InvalidTypeError("there is no memory to look at: the key is None")
    if not isinstance(key, str):
        hint = f": pass the {type(key).__name__}'s .key" if hasattr(key, "key") else ""
        raise InvalidTypeError(f"a key is a string, not {type(key).__name__}{hint}")
    return check_key(key)


_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "tiers": _tiers,
    "limit": checked_limit,
    "exclude": lambda given: frozenset(map(memory_key, checked_list(given, "exclude", "keys"))),
    "review": _checked_review,
}


def new_memories(
    memories: Iterable[Mapping[str, Any] | str], bounds: Bounds = DEFAULT
) -> list[NewMemory]:
    """The arguments of `store_many`, each a text or a mapping of those of `store`."""
    if isinstance(memories, str | Mapping) or not isinstance(memories, Iterable):
        raise InvalidTypeError("store_many takes a list of memories; for one, use store")
    return [_new_memory(one) for one in bounds.batched(memories)]


def _new_memory(one: Mapping[str, Any] | str) -> NewMemory:
    if isinstance(one, str):
        return NewMemory(content=one)
    if not isinstance(one, Mapping):
        raise InvalidTypeError(
            f"a memory is a text or a mapping of store's arguments, not {type(one).__name__}"
        )
    named: Mapping[Any, Any] = one
    return new_memory(
        **{name if isinstance(name, str) else short(name): given for name, given in named.items()}
    )


def new_memory(content: str = "", **fields: Any) -> NewMemory:
    """The arguments of `store`, which says what they mean."""
    for name in fields:
        if name not in _OF_STORE:
            raise InvalidTypeError(
                f"store takes no {short(name)}: use one of {', '.join(_OF_STORE)}"
            )
    given = {name: one for name, one in fields.items() if one is not None or name == _ROUTED}
    if "tier" in given:
        given["tier"] = to_tier(given["tier"])
    return NewMemory(content=content, **given)
