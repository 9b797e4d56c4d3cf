"""Verbs that promote, demote, undo, explain and delete memories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from langchain_core.language_models import BaseChatModel

from langmem_tiers.consolidation.archive import ArchivedPlace, find_archived
from langmem_tiers.coordinator import recall
from langmem_tiers.coordinator.base import Memory, checked_memory_key
from langmem_tiers.coordinator.resolve import pick_memory
from langmem_tiers.core.checks import checked_label, checked_list
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import TIERS, Place
from langmem_tiers.core.settings import PromotionSettings
from langmem_tiers.core.types import BUILT_IN
from langmem_tiers.learning import moves
from langmem_tiers.learning import promote as promoting
from langmem_tiers.learning import promotion_policy as rules
from langmem_tiers.learning.generalise import Generaliser, generaliser_of
from langmem_tiers.learning.promote import Promotion
from langmem_tiers.postgres.flow import Flow, without_deadline
from langmem_tiers.recall.matching import Candidate
from langmem_tiers.recall.recall import find_by_key
from langmem_tiers.remember.commit import commit_writes
from langmem_tiers.remember.new_memory import checked_text
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
    """Promote a working memory to long_term, for everybody, if it has proven itself.

    The promotion stores a new memory in long_term: the same text, or general words that a person or
    a model wrote. The original stays: its own project recalls it, all others recall the new one. A
    lesson that long_term has already gets the evidence instead. One move is one transaction.

    A text that identifies nobody is promoted unchanged. Others stay, with that reason, until
    somebody writes them in general words: what was said in a conversation, a lesson that quotes
    one, and a text with a mail address, an id, a path, a label of its context or a capitalised word
    that no other project knows.

    Args:
        key: The key of the memory in working.
        policy: Conditions of a promotion; the coordinator's own if not given.
        model: A chat model that writes it in general words, or says that it concerns its project
            alone.
        same: Keys of working memories, of any project, that you judge to say the same in other
            words (`Promotion.near` and a cycle's report name them): their evidence counts, and they
            are promoted along.
        general: Your own general words for the memory.

    Raises:
        InvalidInputError: if there is no such memory, or none of a key of `same` near to it.
        ModelError: if the model gave nothing usable; nothing was promoted.
    """
    named, chosen, generaliser = (
        checked_memory_key(key),
        _chosen_policy(memory, policy),
        _generaliser(model),
    )
    alike = [checked_memory_key(same_key) for same_key in checked_list(same, "same", "keys")]
    words = None if general is None else checked_text(general, "general")
    yield from _prepare_tables(memory)
    run = _make_job(memory, chosen, generaliser)
    candidate = yield from recall.find_memory(memory, named)
    sources = yield from promoting.read_evidence(run.tenant, [candidate.id])
    if not sources:
        raise InvalidInputError(f"the memory {key!r} was deleted meanwhile")
    source = sources[0]
    run = run._replace(
        judged_same={source.id: [_find_near(source, same_key) for same_key in alike]}
    )
    return (yield from promoting.promote_one(promoting.plan_promotion(source, run), run, words))


def _find_near(source: rules.PromotionCandidate, key: str) -> int:
    """Return the id of the memory of that key among those near to another.

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
    """Promote all memories of the tenant that have proven themselves, of any project.

    Shared memories are promoted for everybody, those of the context's user for this user alone.
    Consolidation (docs/consolidation.md) promotes for all users.

    Many workers can run it at once, and a second run finds nothing to do. It returns the moves, and
    the memories that were judged and stay, with the reason. If the model gave nothing usable for a
    memory, that one stays and the others are still promoted.

    Raises:
        InvalidInputError: if the policy looks at a memory type that nobody registered.
    """
    chosen = _chosen_policy(memory, policy)
    for name in sorted(set(chosen.memory_types) - _BUILT_IN):
        memory.types.get(name)
    generaliser = _generaliser(model)
    yield from _prepare_tables(memory)
    return (yield from promoting.promote_all(_make_job(memory, chosen, generaliser)))


def _generaliser(model: BaseChatModel | None) -> Generaliser | None:
    return None if model is None else generaliser_of(model)


def _prepare_tables(memory: Memory) -> Flow[None]:
    """Write pending read counts, and refresh the state of the index."""
    yield from memory.tiered_store.flows.flush()
    yield from memory.tiered_store.flows.refresh_state()


def _make_job(
    memory: Memory, policy: rules.PromotionPolicy, generaliser: Generaliser | None = None
) -> promoting.PromotionJob:
    """Return the settings of the moves of a call that begins now."""
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
    """Demote promoted memories that failed since, and learned ones that harm beyond doubt.

    A demoted memory leaves recall, marked `demoted`. Its sources are current again, but are not
    promoted a second time. A learned memory harms beyond doubt if runs with it do worse than runs
    without it, with a probability of `demote_confidence`. `rollback` takes the `move`.
    """
    store = memory.tiered_store.flows
    chosen = _chosen_policy(memory, policy)
    return moves.demote_all(memory.context, chosen, store.options, store.moment())


def rollback(memory: Memory, move: str) -> Flow[bool]:
    """Undo a move by its id; return False if it was undone before.

    A move is a promotion, a demotion, or a change by consolidation, `supersede` or `retract`. The
    tables are then as they were before it. Evidence that a new memory has earned since goes to its
    source. Memories derived from a retracted one stay out of recall.

    Raises:
        InvalidInputError: if there is no such move.
        RollbackError: if a later move stands on it, or the new memory was changed since.
    """
    named, store = _checked_move(move), memory.tiered_store.flows
    yield from store.flush()
    return (yield from moves.undo_move(memory.context, named, store.options, store.moment()))


def explain(
    memory: Memory, key: str, *, policy: PromotionSettings | None = None
) -> Flow[moves.Explanation]:
    """Explain the standing of a memory: evidence, decision, history and relatives.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    named, chosen = checked_memory_key(key), _chosen_policy(memory, policy)
    yield from memory.tiered_store.flows.flush_before_read()
    candidate = yield from recall.find_memory(memory, named)
    return (
        yield from moves.read_explanation(candidate.id, _make_job(memory, chosen), memory.context)
    )


def _chosen_policy(memory: Memory, policy: PromotionSettings | None) -> rules.PromotionPolicy:
    return memory.policy if policy is None else rules.promotion_policy(policy)


def _checked_move(move: object) -> str:
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
    """Delete the memory that `get` would return, or an archived one; return False if there is none.

    Memories merged with it say the same, and are deleted as well. The memory that it was promoted
    to belongs to everybody and stays: this project recalls it from then on.
    """
    store, context = memory.tiered_store.flows, memory.context
    candidates = yield from find_by_key(context, key, TIERS, store)
    candidate: Candidate | ArchivedPlace | None = pick_memory(candidates, key, context)
    if candidate is None:
        candidate = pick_memory((yield from find_archived(context, key)), key, context)
    if candidate is not None:
        gone = Write(
            place=Place(candidate.tenant, candidate.namespace), key=candidate.key, value=None
        )
        yield from commit_writes([replace(gone, twins="go")], store)
    return candidate is not None
