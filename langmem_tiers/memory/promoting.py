"""The verbs by which a coordinator promotes, demotes, and goes back."""

from __future__ import annotations

from collections.abc import Callable

from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.settings import PromotionSettings
from langmem_tiers.core.types import BUILT_IN
from langmem_tiers.learn.explain import Explanation
from langmem_tiers.learn.explain import explain as explanation
from langmem_tiers.learn.models import generaliser_of
from langmem_tiers.learn.promotable import Promoting, evidence
from langmem_tiers.learn.promote import Promotion, promote_all, promote_one
from langmem_tiers.learn.promotion_rules import PromotionPolicy, promotion_policy
from langmem_tiers.learn.rollback import Demotion, demote_all
from langmem_tiers.learn.rollback import rollback as undo
from langmem_tiers.memory.asking import memory_key
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import label

_BUILT_IN = frozenset(one.name for one in BUILT_IN)


def promote_to_long_term(
    memory: Memory,
    key: str,
    *,
    policy: PromotionSettings | None = None,
    model: BaseChatModel | None = None,
) -> Flow[Promotion]:
    """Promote a memory of working to everybody's, if it has proven itself; else it stays.

    What is promoted is a new, generalised memory in long_term. The original is kept, marked
    `consolidated`, and no longer recalled while its successor lives. A lesson that is there
    already is given the evidence instead. One move is one transaction.

    Args:
        key: Of the memory in working.
        policy: What it must have shown; the coordinator's own if not given.
        model: A chat model that generalises what the memory says. Without one, names, paths
            and ids are replaced by rules.

    Raises:
        InvalidInputError: if there is no such memory.
        ModelError: if the model gave nothing usable; nothing was promoted.
    """
    return _promoted(memory, memory_key(key), _promoting(memory, policy, model))


def _promoted(memory: Memory, key: str, promoting: Callable[[], Promoting]) -> Flow[Promotion]:
    how = yield from _ready(memory, promoting)
    one = yield from memory.flows.known(key, memory.context)
    sources = yield from evidence(how.tenant, [one.id])
    if not sources:
        raise InvalidInputError(f"the memory {key!r} was deleted meanwhile")
    return (yield from promote_one(sources[0], how))


def promote(
    memory: Memory, *, policy: PromotionSettings | None = None, model: BaseChatModel | None = None
) -> Flow[list[Promotion]]:
    """Promote all that has proven itself in the tenant, whatever the project.

    It can run in many workers at once, and a second run finds nothing to do. What comes back
    are the moves, and what was near enough to be judged and stays: a memory of which the model
    made nothing usable stays with that reason, and the others go on.

    Raises:
        InvalidInputError: if the policy looks at a memory type that nobody registered.
    """
    return _all_promoted(memory, _promoting(memory, _for_all(memory, policy), model))


def _all_promoted(memory: Memory, promoting: Callable[[], Promoting]) -> Flow[list[Promotion]]:
    how = yield from _ready(memory, promoting)
    return (yield from promote_all(how))


def _ready(memory: Memory, promoting: Callable[[], Promoting]) -> Flow[Promoting]:
    """What was read counts, and the index fits."""
    store = memory.tiered_store.flows
    yield from store.flush()
    yield from store.refresh_state()
    return promoting()


def _promoting(
    memory: Memory, policy: PromotionSettings | None, model: BaseChatModel | None = None
) -> Callable[[], Promoting]:
    """What holds for the moves of a call, by the time at which it begins."""
    store, tenant, chosen = memory.tiered_store.flows, memory.context.root, _policy(memory, policy)
    general = None if model is None else generaliser_of(model)
    return lambda: Promoting(tenant, chosen, general, store.options, store.moment(), store.moment)


def demote(memory: Memory, *, policy: PromotionSettings | None = None) -> Flow[list[Demotion]]:
    """Take back what was promoted and has failed since.

    It leaves recall, marked `demoted`, and what it came from is current again, but is not
    promoted a second time.
    """
    store = memory.tiered_store.flows
    chosen = _policy(memory, policy)
    return demote_all(memory.context.root, chosen, store.options, store.moment())


def rollback(memory: Memory, move: str) -> Flow[bool]:
    """Undo a move by its id; False if it was undone before.

    A move is a promotion, a demotion, or what consolidation and `supersede` and `retract` do.
    The tables are then as they were before it. What a new memory has earned since goes to its
    source. What came from something that is retracted stays out of recall.

    Raises:
        InvalidInputError: if there is no such move.
        RollbackError: if a later move stands on it, or the new memory was changed since.
    """
    return _rolled_back(memory, _move(move))


def _rolled_back(memory: Memory, move: str) -> Flow[bool]:
    store = memory.tiered_store.flows
    yield from store.flush()
    return (yield from undo(memory.context, move, store.options, store.moment()))


def explain(
    memory: Memory, key: str, *, policy: PromotionSettings | None = None
) -> Flow[Explanation]:
    """Why a memory stands where it stands: evidence, decision, history and relatives.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    return _explained(memory, memory_key(key), _promoting(memory, policy))


def _explained(memory: Memory, key: str, promoting: Callable[[], Promoting]) -> Flow[Explanation]:
    yield from memory.tiered_store.flows.flush_aside()
    one = yield from memory.flows.known(key, memory.context)
    return (yield from explanation(one.id, promoting(), memory.context))


def _policy(memory: Memory, policy: PromotionSettings | None) -> PromotionPolicy:
    return memory.policy if policy is None else promotion_policy(policy)


def _for_all(memory: Memory, policy: PromotionSettings | None) -> PromotionPolicy:
    """The policy of a run over all memories, whose types are known here or built in."""
    chosen = _policy(memory, policy)
    for name in chosen.memory_types:
        if name not in _BUILT_IN:
            memory.types.get(name)
    return chosen


def _move(move: object) -> str:
    what = type(move).__name__
    if hasattr(move, "move"):
        raise InvalidTypeError(f"a move is a string: pass the {what}'s .move")
    if isinstance(move, list | tuple | set) or hasattr(move, "moves"):
        whose = f"a {what}'s .moves" if hasattr(move, "moves") else f"those of a {what}"
        raise InvalidTypeError(
            f"rollback takes one move: pass {whose} one by one, the latest first"
        )
    found = label(move, "move")
    if found is None:
        raise InvalidTypeError(
            "nothing was promoted or demoted: the move is None. The moves of a memory are in "
            "explain(key).history"
        )
    return found
