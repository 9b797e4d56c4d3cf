"""MemoryCoordinator: what an agent remembers and recalls, in a few verbs."""

from __future__ import annotations

from typing import ClassVar, cast

from langmem_tiers.memory import (
    administration,
    feedback,
    forgetting,
    learning,
    moving,
    recalling,
    remembering,
    reminding,
    tending,
    truth,
)
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import both


class MemoryCoordinator(Memory):
    """Remembers and recalls for one `MemoryContext`, over the three tiers of a store.

    Every verb has an async twin with an `a` in front, and is described where its flow is made. The
    store is opened and closed by its owner; many coordinators can share one. `state` is what is
    going on at the moment: a `ShortTermState`.

    Args:
        store: A store with an index.
        context: Who remembers and who asks.
        types: The memory types; those built in if not given.
        settings: How long a recall may take (0.5 seconds if not given), how many memories
            it returns where no `limit` is given (10 if not given), and for how many days it is
            recorded for `replay` (not at all if not given).
        policy: What a memory must have shown to be promoted; as specified if not given.
        count_tokens: Counts the tokens of a text; LangChain's approximate counter if not
            given, or a model's own: `model.get_num_tokens`.
        reranker: A LangChain document compressor that orders the 50 best again, such as a
            cross-encoder. What it leaves out is left out.
        weights: A file of weights fitted to one's own data (docs/recall.md); those that ship
            with the package if not given.
        gate: How strict to be with what is to be stored; see docs/gate.md.
        reviewers: Who scores what is to be stored, and a recall with `review`, by functions of
            one's own or as the `review_model`; `default_reviewers()` if not given, who ask a model.
        review_model: A chat model that reviews what is to be stored, before it is, and what is
            recalled with `get_context(review="model")`; see docs/review.md.
        detectors: What finds private data in it, such as `detectors("credit_card")`.

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
    replay, areplay = both(recalling.replay)
    get, aget = both(recalling.get)
    delete_memory, adelete_memory = both(moving.delete_memory, "tool")
    clear_working_memory, aclear_working_memory = both(tending.clear_working_memory, "tool")
    stats, astats = both(recalling.stats)

    pin, apin = both(remembering.pin, "tool")
    unpin, aunpin = both(remembering.unpin, "tool")
    pinned, apinned = both(remembering.pinned)

    forget: ClassVar[forgetting.Forget]
    aforget: ClassVar[forgetting.AForget]
    forget, aforget = cast(  # not traced: a trace would keep the name
        "tuple[forgetting.Forget, forgetting.AForget]", both(forgetting.forget)
    )
    verify_forgotten, averify_forgotten = both(forgetting.verify_forgotten)

    audit, aaudit = both(administration.audit)
    audit_head, aaudit_head = both(administration.audit_head)
    verify_audit, averify_audit = both(administration.verify_audit)
    export_tenant, aexport_tenant = both(administration.export_tenant)
    import_tenant, aimport_tenant = both(administration.import_tenant)

    reflect, areflect = both(learning.reflect, "tool")
    finish_reflections = learning.finish_reflections
    afinish_reflections = learning.afinish_reflections
    get_lessons, aget_lessons = both(learning.get_lessons, "retriever")
    stop_holding, astop_holding = both(learning.stop_holding, "tool")
    expose, aexpose = both(feedback.expose, "tool")
    record_outcome, arecord_outcome = both(feedback.record_outcome, "tool")
    store_pattern, astore_pattern = both(learning.store_pattern, "tool")
    store_reflexion, astore_reflexion = both(learning.store_reflexion, "tool")
    evolve, aevolve = both(learning.evolve, "tool")
    learn_skills, alearn_skills = both(learning.learn_skills, "tool")

    promote_to_long_term, apromote_to_long_term = both(moving.promote_to_long_term, "tool")
    promote, apromote = both(moving.promote, "tool")
    demote, ademote = both(moving.demote, "tool")
    rollback, arollback = both(moving.rollback, "tool")
    explain, aexplain = both(moving.explain)

    supersede, asupersede = both(truth.supersede, "tool")
    retract, aretract = both(truth.retract, "tool")
    restore, arestore = both(truth.restore, "tool")
    history, ahistory = both(truth.history)
    revise, arevise = both(truth.revise, "tool")

    intend, aintend = both(reminding.intend, "tool")
    remind, aremind = both(reminding.remind, "tool")
    acknowledge, aacknowledge = both(reminding.acknowledge, "tool")
    snooze, asnooze = both(reminding.snooze, "tool")
    complete, acomplete = both(reminding.complete, "tool")
    cancel, acancel = both(reminding.cancel, "tool")
    intentions, aintentions = both(reminding.intentions)

    consolidate_session, aconsolidate_session = both(tending.consolidate_session, "tool")
    session_notes, asession_notes = both(tending.session_notes)
    archive, aarchive = both(administration.archive, "tool")
    restore_archive, arestore_archive = both(administration.restore_archive, "tool")
    archives, aarchives = both(administration.archives)

    list_quarantined, alist_quarantined = both(tending.list_quarantined)
    release, arelease = both(tending.release, "tool")
    reject, areject = both(tending.reject, "tool")
    decisions, adecisions = both(tending.decisions)
