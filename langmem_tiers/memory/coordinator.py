"""MemoryCoordinator: what an agent remembers and recalls, in a few verbs."""

from __future__ import annotations

from langmem_tiers.memory import (
    cold_storage,
    consolidating,
    feedback,
    learning,
    lookup,
    promotion,
    quarantine,
    recalling,
    remembering,
    reminding,
    reviews,
    revising,
)
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import both


class MemoryCoordinator(Memory):
    """Remembers and recalls for one `MemoryContext`, over the three tiers of a store.

    Every verb has an async twin with an `a` in front, and is described where its flow is made. The
    store is opened and closed by its owner; many coordinators can share one. `state` is what is
    going on at the moment: a `ShortTermState`.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore

        with TieredStore.embedded("./.memory") as store:
            memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
            memory.store("The API key rotates on Mondays", memory_type="semantic")
            for found in memory.get_context("When do keys change?"):
                print(found)
        ```
    """

    store, astore = both(remembering.store, "tool")
    store_many, astore_many = both(remembering.store_many, "tool")

    get_context, aget_context = both(recalling.get_context, "retriever")
    get_context_batch, aget_context_batch = both(recalling.get_context_batch, "retriever")
    get, aget = both(lookup.get)
    delete_memory, adelete_memory = both(lookup.delete_memory, "tool")
    clear_working_memory, aclear_working_memory = both(lookup.clear_working_memory, "tool")
    stats, astats = both(lookup.stats)

    reflect, areflect = both(learning.reflect, "tool")
    get_lessons, aget_lessons = both(learning.get_lessons, "retriever")
    expose, aexpose = both(feedback.expose, "tool")
    record_outcome, arecord_outcome = both(feedback.record_outcome, "tool")
    store_pattern, astore_pattern = both(learning.store_pattern, "tool")
    store_reflexion, astore_reflexion = both(learning.store_reflexion, "tool")
    evolve, aevolve = both(learning.evolve, "tool")
    learn_skills, alearn_skills = both(learning.learn_skills, "tool")

    promote_to_long_term, apromote_to_long_term = both(promotion.promote_to_long_term, "tool")
    promote, apromote = both(promotion.promote, "tool")
    demote, ademote = both(promotion.demote, "tool")
    rollback, arollback = both(promotion.rollback, "tool")
    explain, aexplain = both(promotion.explain)

    supersede, asupersede = both(revising.supersede, "tool")
    retract, aretract = both(revising.retract, "tool")
    restore, arestore = both(revising.restore, "tool")
    history, ahistory = both(revising.history)

    intend, aintend = both(reminding.intend, "tool")
    remind, aremind = both(reminding.remind, "tool")
    acknowledge, aacknowledge = both(reminding.acknowledge, "tool")
    snooze, asnooze = both(reminding.snooze, "tool")
    complete, acomplete = both(reminding.complete, "tool")
    cancel, acancel = both(reminding.cancel, "tool")
    intentions, aintentions = both(reminding.intentions)

    consolidate_session, aconsolidate_session = both(consolidating.consolidate_session, "tool")
    session_notes, asession_notes = both(consolidating.session_notes)
    archive, aarchive = both(cold_storage.archive, "tool")
    restore_archive, arestore_archive = both(cold_storage.restore_archive, "tool")
    archives, aarchives = both(cold_storage.archives)

    list_quarantined, alist_quarantined = both(quarantine.list_quarantined)
    release, arelease = both(quarantine.release, "tool")
    reject, areject = both(quarantine.reject, "tool")
    decisions, adecisions = both(quarantine.decisions)
    review_waiting, areview_waiting = both(reviews.review_waiting, "tool")
    begin_reviews = reviews.begin_reviews
    finish_reviews, afinish_reviews = reviews.finish_reviews, reviews.afinish_reviews
