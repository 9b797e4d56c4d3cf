"""MemoryCoordinator: what an agent remembers and recalls, in a few verbs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from langchain_core.documents import BaseDocumentCompressor
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from langmem_tiers.core.config import CoordinatorSettings, PromotionSettings
from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError
from langmem_tiers.core.memory import MemoryContext, Recollection, Tier
from langmem_tiers.core.tracing import traced
from langmem_tiers.core.types import MemoryType, MemoryTypes
from langmem_tiers.learn.outcome import LearningStats
from langmem_tiers.memory.asking import DEFAULT_LIMIT, Asking
from langmem_tiers.memory.cold_storage import ColdStorageVerbs
from langmem_tiers.memory.consolidating import ConsolidatingVerbs
from langmem_tiers.memory.evolving import EvolvingVerbs
from langmem_tiers.memory.flows import MemoryFlows
from langmem_tiers.memory.learning import LearningVerbs
from langmem_tiers.memory.learning_flows import LearningFlows
from langmem_tiers.memory.promotion import PromotionVerbs, promotion_policy
from langmem_tiers.memory.quarantine import QuarantineVerbs
from langmem_tiers.memory.recalling import RecallingVerbs
from langmem_tiers.memory.remembering import RememberingVerbs
from langmem_tiers.memory.reminding import RemindingVerbs
from langmem_tiers.memory.reviews import UnderWay, later_panel, storage_panel
from langmem_tiers.memory.revising import RevisingVerbs
from langmem_tiers.memory.short_term import ShortTermState
from langmem_tiers.memory.teaching import TeachingVerbs
from langmem_tiers.postgres.embeddings import LocalEmbeddings
from langmem_tiers.recall.evidence import Weights, read_weights, shipped
from langmem_tiers.recall.recall import Reader
from langmem_tiers.recall.rerank import reranker_of
from langmem_tiers.remember.admit import Gate, checked_detectors
from langmem_tiers.remember.gate import DEFAULT_POLICY, Detector, GatePolicy
from langmem_tiers.remember.panel import default_reviewers
from langmem_tiers.remember.relevance import reviews_of
from langmem_tiers.remember.review import Reviewers
from langmem_tiers.store.ops import to_tier
from langmem_tiers.store.store import TieredStore


class MemoryCoordinator(
    RememberingVerbs,
    RecallingVerbs,
    LearningVerbs,
    TeachingVerbs,
    PromotionVerbs,
    EvolvingVerbs,
    RevisingVerbs,
    ConsolidatingVerbs,
    ColdStorageVerbs,
    RemindingVerbs,
    QuarantineVerbs,
):
    """Remembers and recalls for one `MemoryContext`, over the three tiers of a store.

    Every verb has an async twin with an `a` in front. The store is opened and closed by its
    owner; many coordinators can share one. `state` is what is going on at the moment: a
    `ShortTermState`.

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

    def __init__(
        self,
        store: TieredStore,
        *,
        context: MemoryContext,
        types: MemoryTypes | None = None,
        settings: CoordinatorSettings | None = None,
        policy: PromotionSettings | None = None,
        count_tokens: Callable[[str], int] | None = None,
        reranker: BaseDocumentCompressor | None = None,
        weights: str | os.PathLike[str] | None = None,
        gate: GatePolicy | None = None,
        reviewers: Reviewers | None = None,
        review_model: BaseChatModel | None = None,
        review_storage: Literal["rules", "before", "background"] = "rules",
        detectors: Sequence[Detector] = (),
    ) -> None:
        """Stand on a store.

        Args:
            store: A store with an index.
            context: Who remembers and who asks.
            types: The memory types; those built in if not given.
            settings: How long a recall may take (0.5 seconds if not given), and how many memories
                it returns where no `limit` is given (10 if not given).
            policy: What a memory must have shown to be promoted; as specified if not given.
            count_tokens: Counts the tokens of a text; LangChain's approximate counter if not
                given, or a model's own: `model.get_num_tokens`.
            reranker: A LangChain document compressor that orders the 50 best again, such as a
                cross-encoder. What it leaves out is left out.
            weights: A file of weights fitted to one's own data (docs/recall.md); those that ship
                with the package if not given.
            gate: How strict to be with what is to be stored; see docs/gate.md.
            reviewers: Who scores what is to be stored, and a recall with `review`;
                `default_reviewers()` if not given. An empty panel reviews nothing.
            review_model: A chat model that reviews in place of their rules where it is asked to:
                by `review_storage`, and by `get_context(review="model")`. Else it is asked nothing.
            review_storage: Who reviews what is stored, by `rules`, or by the model as well:
                `before` it is stored, or in the `background` afterwards; see docs/review.md.
            detectors: What finds private data in it, such as `detectors("credit_card")`.

        Raises:
            ConfigurationError: if the store has no index, the weights are none, or there is no
                model to review what is stored.
        """
        if not isinstance(store, TieredStore):
            raise InvalidTypeError(f"a coordinator needs a TieredStore, not {type(store).__name__}")
        _check(context, MemoryContext, "context")
        _check(types, MemoryTypes | None, "types")
        _check(settings, CoordinatorSettings | None, "settings")
        _check(reranker, BaseDocumentCompressor | None, "reranker")
        _check(reviewers, Reviewers | None, "reviewers")
        _check(gate, GatePolicy | None, "gate")
        if count_tokens is not None and not callable(count_tokens):
            raise InvalidTypeError("count_tokens is a function of a text, or None")
        if store.options.index is None:
            raise ConfigurationError(
                "a coordinator needs a store with an index: TieredStore.embedded(path), or "
                "index={'dims': …, 'embed': …}; index={} searches by words alone"
            )
        self._store = store
        self.context = context
        self.types = MemoryTypes() if types is None else types
        self.settings = settings or CoordinatorSettings()
        self.policy = promotion_policy(policy)
        self.state = ShortTermState(store, context)
        self.reviewers = default_reviewers() if reviewers is None else reviewers
        self.count_tokens = count_tokens or approximate_tokens
        panel = storage_panel(review_model, review_storage, self.reviewers, self.settings)
        self._later = later_panel(review_model, self.reviewers)
        self._under_way = UnderWay()
        reader = Reader(
            options=store.options,
            weights=shipped() if weights is None else _weights(weights),
            types=self.types,
            count_tokens=self.count_tokens,
            timeout_ms=self.settings.query_timeout_ms,
            reranker=None if reranker is None else reranker_of(reranker),
            reviews=reviews_of(self.reviewers, panel),
        )
        self._flows = MemoryFlows(
            store.flows,
            reader,
            Gate(
                policy=DEFAULT_POLICY if gate is None else gate,
                reviewers=self.reviewers,
                detectors=checked_detectors(detectors),
                panel=panel if review_storage == "before" else None,
                afterwards=review_storage == "background",
            ),
        )
        self._learning = LearningFlows(store.flows, self._flows)
        self._asking = Asking(
            self.types,
            limit=settings.max_context_items if settings else DEFAULT_LIMIT,
            cutoff=isinstance((store.index_config or {}).get("embed"), LocalEmbeddings),
            vector=store.options.index.vector,
            reviews=reader.reviews,
            bounds=store.options.bounds,
        )

    def __repr__(self) -> str:
        """Whose memory it is."""
        return f"MemoryCoordinator({self.context!r})"

    @property
    def tiered_store(self) -> TieredStore:
        """The store that it stands on."""
        return self._store

    @property
    def flows(self) -> MemoryFlows:
        """Its verbs as flows, for those who drive several as one."""
        return self._flows

    @property
    def gate(self) -> Gate:
        """What judges what is to be stored."""
        return self._flows.gate

    @property
    def asking(self) -> Asking:
        """What checks the arguments of a recall."""
        return self._asking

    def register_type(self, memory_type: MemoryType, *, replace: bool = False) -> None:
        """Add a memory type of one's own to this coordinator's registry."""
        self.types.register(memory_type, replace=replace)

    # One memory, and all of them

    def get(self, key: str, *, tier: Tier | str | None = None) -> Recollection | None:
        """A memory by its key: short_term, then working, then long_term.

        The context's own memory comes first, then the only one of that key in the project's other
        sessions or in long_term; what another project keeps is not there. It counts as accessed.
        With `tier`, only that tier is looked in.

        Raises:
            InvalidInputError: if several memories beside the context's own have the key.
        """
        return self._store.run(self._flows.get(key, _tier(tier), self.context))

    async def aget(self, key: str, *, tier: Tier | str | None = None) -> Recollection | None:
        """A memory by its key; see `get`."""
        return await self._store.arun(self._flows.get(key, _tier(tier), self.context))

    @traced("tool")
    def delete_memory(self, key: str) -> bool:
        """Delete the memory that `get` would return, or an archived one; False if none is.

        What was merged with it says the same, and goes as well; so does what was promoted with it
        and says the same in the same place. What it was promoted to is everybody's, and stays.
        """
        return self._store.run(self._flows.delete(key, self.context))

    @traced("tool")
    async def adelete_memory(self, key: str) -> bool:
        """Delete a memory; see `delete_memory`."""
        return await self._store.arun(self._flows.delete(key, self.context))

    @traced("tool")
    def clear_working_memory(self, session_id: str) -> int:
        """Delete a session's memories of type `working`, in whatever tier; how many.

        Of the context's project, or of all if it names none. The working tier is not touched
        otherwise.
        """
        return self._store.run(self._flows.clear_session(session_id, "working", self.context))

    @traced("tool")
    async def aclear_working_memory(self, session_id: str) -> int:
        """Delete a session's memories of type `working`; see `clear_working_memory`."""
        return await self._store.arun(
            self._flows.clear_session(session_id, "working", self.context)
        )

    def stats(self) -> LearningStats:
        """What the tenant has stored, and what memories that were held out do to runs."""
        return self._store.run(self._learning.stats(self.context))

    async def astats(self) -> LearningStats:
        """What the tenant has stored; see `stats`."""
        return await self._store.arun(self._learning.stats(self.context))


def approximate_tokens(text: str) -> int:
    """Tokens of a text as a message of its own, by LangChain's approximate counter."""
    return count_tokens_approximately([HumanMessage(text)])


def _weights(file: str | os.PathLike[str]) -> Weights:
    try:
        return read_weights(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the weights cannot be read: {error}") from error


def _check(given: object, kind: Any, what: str) -> None:
    if not isinstance(given, kind):
        kinds = [one for one in getattr(kind, "__args__", (kind,)) if one is not type(None)]
        wanted = " or ".join(one.__name__ for one in kinds)
        hint = "; pass its .coordinator" if hasattr(given, "coordinator") else ""
        raise InvalidTypeError(f"{what} is a {wanted}, not {type(given).__name__}{hint}")


def _tier(name: Tier | str | None) -> Tier | None:
    return None if name is None else to_tier(name)
