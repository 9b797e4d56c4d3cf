"""Coordinator of an agent's memory, and its verbs."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, cast

from langmem_tiers.coordinator import forgetting, learning, promotion, recall, remember, sessions
from langmem_tiers.coordinator.base import Memory
from langmem_tiers.coordinator.namespaces import Admin, Learning, Reminders, Truth
from langmem_tiers.postgres.flow import both


class MemoryCoordinator(Memory):
    """Coordinator that remembers and recalls for one `MemoryContext`, over a store's three tiers.

    Every verb has an async twin with an `a` in front, and is described where its flow is made.
    `reminders`, `learning`, `truth` and `admin` have the verbs of their kind. `state` is the
    `ShortTermState`. The owner of the store opens and closes it; many coordinators can share one.

    Args:
        store: A store with an index.
        context: The context that remembers and asks.
        types: The memory types; the built-in ones if not given.
        settings: Longest time of a recall (0.5 seconds if not given), how many memories
            it returns where no `limit` is given (10 if not given), and for how many days it is
            recorded for `admin.replay` (not at all if not given).
        policy: Conditions of a promotion; those of the specification if not given.
        count_tokens: Counts the tokens of a text; LangChain's approximate counter if not
            given, or a model's own: `model.get_num_tokens`.
        reranker: A LangChain document compressor that orders the 50 best again, such as a
            cross-encoder. Memories that it leaves out are not returned.
        weights: A file of weights fitted to one's own data (docs/recall.md); those that ship
            with the package if not given.
        gate: The policy by which new memories are judged; see docs/gate.md.
        reviewers: Reviewers that score new memories, and recalls with `review`, by functions or
            through the `review_model`; `default_reviewers()` if not given, which ask a model.
        review_model: A chat model that reviews memories before they are stored, and recalled ones
            with `get_context(review="model")`; see docs/review.md.
        detectors: Functions that find private data in memories, such as
            `detectors("credit_card")`.

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

    store, astore = both(remember.store, "tool")
    store_many, astore_many = both(remember.store_many, "tool")
    store_pattern, astore_pattern = both(learning.store_pattern, "tool")
    store_reflexion, astore_reflexion = both(learning.store_reflexion, "tool")

    get_context, aget_context = both(recall.get_context, "retriever")
    get_context_batch, aget_context_batch = both(recall.get_context_batch, "retriever")
    get, aget = both(recall.get)
    stats, astats = both(recall.stats)

    pin, apin = both(remember.pin, "tool")
    unpin, aunpin = both(remember.unpin, "tool")
    pinned, apinned = both(remember.pinned)

    promote_to_long_term, apromote_to_long_term = both(promotion.promote_to_long_term, "tool")
    delete_memory, adelete_memory = both(promotion.delete_memory, "tool")
    clear_working_memory, aclear_working_memory = both(sessions.clear_working_memory, "tool")

    forget: ClassVar[forgetting.Forget]
    aforget: ClassVar[forgetting.AForget]
    forget, aforget = cast(  # not traced: a trace would keep the name
        "tuple[forgetting.Forget, forgetting.AForget]", both(forgetting.forget)
    )

    reminders = cached_property(Reminders)
    learning = cached_property(Learning)
    truth = cached_property(Truth)
    admin = cached_property(Admin)
