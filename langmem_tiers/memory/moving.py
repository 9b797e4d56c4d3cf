"""The verbs by which what is known is promoted, demoted, undone and deleted, and explained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from langchain_core.language_models import BaseChatModel

from langmem_tiers.consolidate.archive import ArchivedPlace, find_archived
from langmem_tiers.core.checks import checked_label, checked_list
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import TIERS, Place
from langmem_tiers.core.settings import PromotionSettings
from langmem_tiers.core.types import BUILT_IN
from langmem_tiers.learn import moves
from langmem_tiers.learn import promote as promoting
from langmem_tiers.learn import promotion_rules as rules
from langmem_tiers.learn.general import Generaliser, generaliser_of
from langmem_tiers.learn.promote import Promotion
from langmem_tiers.memory import recalling
from langmem_tiers.memory.base import Memory, memory_key
from langmem_tiers.memory.meant import meant
from langmem_tiers.postgres.flow import Flow, without_deadline
from langmem_tiers.recall.matching import Candidate
from langmem_tiers.recall.recall import find_by_key
from langmem_tiers.remember.new import checked_text
from langmem_tiers.remember.transaction import commit_writes
from langmem_tiers.store.write import Write

_BUILT_IN = frozenset(memory_type.name for memory_type in BUILT_IN)


def promote_to_long_term(
    memory: Memory,
    key: str,
    *,
    policy: PromotionSettings | None = None,
    model: BaseChatModel | None = None,
    same: Iterable[str] = (),
    general: str | None = None,
) -> Flow[Promotion]:
    """Promote a memory of working to everybody's, if it has proven itself; else it stays.

    What is promoted is a new memory in long_term: the very text, or general words that a person or
    a model wrote. The original stays as it is: in its own project it is recalled, elsewhere what it
    was promoted to. A lesson that is there already is given the evidence instead. One move is one
    transaction.

    As it stands goes what identifies nobody. What was said in a conversation, a lesson that quotes
    one, and what holds a mail address, an id, a path, a label of its context or a capitalised word
    that no other project knows stays, with that reason, until somebody says it in general words.

    Args:
        key: Of the memory in working.
        policy: What it must have shown; the coordinator's own if not given.
        model: A chat model that says it in general words, or that it is about its project alone.
        same: Keys of memories in working, of any project, that say the same in other words, as you
            judged (`Promotion.near` and a cycle's report name them): they count, and go along.
        general: What it says in general words, as you say it for everybody.

    Raises:
        InvalidInputError: if there is no such memory, or none of a key of `same` near to it.
        ModelError: if the model gave nothing usable; nothing was promoted.
    """
    named, chosen, generaliser = memory_key(key), _policy(memory, policy), _generaliser(model)
    alike = [memory_key(same_key) for same_key in checked_list(same, "same", "keys")]
    words = None if general is None else checked_text(general, "general")
    yield from _ready(memory)
    run = _promoting(memory, chosen, generaliser)
    candidate = yield from recalling.known(memory, named)
    sources = yield from promoting.read_evidence(run.tenant, [candidate.id])
    if not sources:
        raise InvalidInputError(f"the memory {key!r} was deleted meanwhile")
    source = sources[0]
    run = run._replace(judged_same={source.id: [_near(source, same_key) for same_key in alike]})
    return (yield from promoting.promote_one(promoting.plan_promotion(source, run), run, words))


def _near(source: rules.PromotionCandidate, key: str) -> int:
    """The memory of that key among those that are near to another.

    Raises:
        InvalidInputError: if there is none, or several projects have one.
    """
    ids = [row["id"] for row in source.near if row["key"] == key]
    if len(ids) != 1:
        what = "no memory" if not ids else "more than one memory"
        raise InvalidInputError(
            f"{what} of the key {key!r} is near to {source.key!r} in working: take the keys that "
            "`near` or a cycle's report names"
        )
    return int(ids[0])


@without_deadline
def promote(
    memory: Memory, *, policy: PromotionSettings | None = None, model: BaseChatModel | None = None
) -> Flow[list[Promotion]]:
    """Promote all that has proven itself in the tenant, whatever the project.

    It is what is shared, and what is the context's user's: that is promoted for this user alone.
    Consolidation (docs/consolidation.md) does it for all users.

    It can run in many workers at once, and a second run finds nothing to do. What comes back
    are the moves, and what was near enough to be judged and stays: a memory of which the model
    made nothing usable stays with that reason, and the others go on.

    Raises:
        InvalidInputError: if the policy looks at a memory type that nobody registered.
    """
    chosen = _policy(memory, policy)
    for name in sorted(set(chosen.memory_types) - _BUILT_IN):
        memory.types.get(name)
    generaliser = _generaliser(model)
    yield from _ready(memory)
    return (yield from promoting.promote_all(_promoting(memory, chosen, generaliser)))


def _generaliser(model: BaseChatModel | None) -> Generaliser | None:
    return None if model is None else generaliser_of(model)


def _ready(memory: Memory) -> Flow[None]:
    """What was read counts, and the index fits."""
    yield from memory.tiered_store.flows.flush()
    yield from memory.tiered_store.flows.refresh_state()


def _promoting(
    memory: Memory, policy: rules.PromotionPolicy, generaliser: Generaliser | None = None
) -> promoting.PromotionJob:
    """What holds for the moves of a call that begins now."""
    store, context = memory.tiered_store.flows, memory.context
    user_params = {"user_id": context.user_id, "everybody": False}
    moment = store.moment()
    return promoting.PromotionJob(
        context.root,
        policy,
        generaliser,
        store.options,
        moment,
        store.moment,
        user_params=user_params,
    )


@without_deadline
def demote(
    memory: Memory, *, policy: PromotionSettings | None = None
) -> Flow[list[moves.Demotion]]:
    """Take back what was promoted and has failed since, and hold back what harms beyond doubt.

    It leaves recall, marked `demoted`. What was promoted to it is current again, but is not
    promoted a second time. What was learned harms beyond doubt if runs do worse with it than those
    that went without it, with a chance of `demote_confidence`. `rollback` takes the `move`.
    """
    store = memory.tiered_store.flows
    chosen = _policy(memory, policy)
    return moves.demote_all(memory.context, chosen, store.options, store.moment())


def rollback(memory: Memory, move: str) -> Flow[bool]:
    """Undo a move by its id; False if it was undone before.

    A move is a promotion, a demotion, or what consolidation and `supersede` and `retract` do.
    The tables are then as they were before it. What a new memory has earned since goes to its
    source. What came from something that is retracted stays out of recall.

    Raises:
        InvalidInputError: if there is no such move.
        RollbackError: if a later move stands on it, or the new memory was changed since.
    """
    named, store = _move(move), memory.tiered_store.flows
    yield from store.flush()
    return (yield from moves.undo_move(memory.context, named, store.options, store.moment()))


def explain(
    memory: Memory, key: str, *, policy: PromotionSettings | None = None
) -> Flow[moves.Explanation]:
    """Why a memory stands where it stands: evidence, decision, history and relatives.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    named, chosen = memory_key(key), _policy(memory, policy)
    yield from memory.tiered_store.flows.flush_before_read()
    candidate = yield from recalling.known(memory, named)
    return (
        yield from moves.read_explanation(candidate.id, _promoting(memory, chosen), memory.context)
    )


def _policy(memory: Memory, policy: PromotionSettings | None) -> rules.PromotionPolicy:
    return memory.policy if policy is None else rules.promotion_policy(policy)


def _move(move: object) -> str:
    what = type(move).__name__
    if hasattr(move, "move"):
        raise InvalidTypeError(f"a move is a string: pass the {what}'s .move")
    if isinstance(move, list | tuple | set) or hasattr(move, "moves"):
        whose = f"a {what}'s .moves" if hasattr(move, "moves") else f"those of a {what}"
        raise InvalidTypeError(
            f"rollback takes one move: pass {whose} one by one, the latest first"
        )
    if move is None:
        raise InvalidTypeError(
            "nothing was promoted or demoted: the move is None. The moves of a memory are in "
            "learning.explain(key).history"
        )
    return str(checked_label(move, "move"))


def delete_memory(memory: Memory, key: str) -> Flow[bool]:
    """Delete the memory that `get` would return, or an archived one; False if none is.

    What was merged with it says the same, and goes as well. What it was promoted to is everybody's,
    and stays: without the original it is shown here as everywhere.
    """
    store, context = memory.tiered_store.flows, memory.context
    candidates = yield from find_by_key(context, key, TIERS, store)
    candidate: Candidate | ArchivedPlace | None = meant(candidates, key, context)
    if candidate is None:
        candidate = meant((yield from find_archived(context, key)), key, context)
    if candidate is not None:
        gone = Write(
            place=Place(candidate.tenant, candidate.namespace), key=candidate.key, value=None
        )
        yield from commit_writes([replace(gone, twins="go")], store)
    return candidate is not None
