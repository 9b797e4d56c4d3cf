"""What every verb of a coordinator stands on: whose memory it is, the store, and the rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from langchain_core.documents import BaseDocumentCompressor
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError
from langmem_tiers.core.memory import MemoryContext, Tier
from langmem_tiers.core.options import CoordinatorSettings, PromotionSettings
from langmem_tiers.core.types import MemoryType, MemoryTypes
from langmem_tiers.learn.policy import promotion_policy
from langmem_tiers.memory.asking import DEFAULT_LIMIT, Asking
from langmem_tiers.memory.flows import MemoryFlows
from langmem_tiers.memory.panels import UnderWay, later_panel, storage_panel
from langmem_tiers.memory.short_term import ShortTermState
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


class Memory:
    """A `MemoryCoordinator` without its verbs."""

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
        self.tiered_store = store
        """The store that it stands on."""
        self.context = context
        self.types = MemoryTypes() if types is None else types
        self.settings = settings or CoordinatorSettings()
        self.policy = promotion_policy(policy)
        self.state = ShortTermState(store, context)
        self.reviewers = default_reviewers() if reviewers is None else reviewers
        self.count_tokens = count_tokens or approximate_tokens
        panel = storage_panel(review_model, review_storage, self.reviewers, self.settings)
        self.later = later_panel(review_model, self.reviewers)
        self.under_way = UnderWay()
        reader = Reader(
            weights=shipped() if weights is None else _weights(weights),
            types=self.types,
            count_tokens=self.count_tokens,
            timeout_ms=self.settings.query_timeout_ms,
            reranker=None if reranker is None else reranker_of(reranker),
            reviews=reviews_of(self.reviewers, panel),
        )
        self.flows = MemoryFlows(
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
        self.asking = Asking(
            self.types,
            limit=settings.max_context_items if settings else DEFAULT_LIMIT,
            cutoff=isinstance((store.index_config or {}).get("embed"), LocalEmbeddings),
            vector=store.options.index.vector,
            reviews=reader.reviews,
            bounds=store.options.bounds,
        )

    def __repr__(self) -> str:
        """Whose memory it is."""
        return f"{type(self).__name__}({self.context!r})"

    @property
    def runner(self) -> TieredStore:
        """What runs its flows."""
        return self.tiered_store

    @property
    def gate(self) -> Gate:
        """What judges what is to be stored."""
        return self.flows.gate

    def register_type(self, memory_type: MemoryType, *, replace: bool = False) -> None:
        """Add a memory type of one's own to this coordinator's registry."""
        self.types.register(memory_type, replace=replace)


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
