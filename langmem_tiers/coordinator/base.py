"""Base of a coordinator: its context, its store and its rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from langchain_core.documents import BaseDocumentCompressor
from langchain_core.language_models import BaseChatModel

from langmem_tiers.coordinator.resolve import locate_memories
from langmem_tiers.coordinator.short_term import ShortTermState
from langmem_tiers.core.checks import (
    check_key,
    checked_function,
    checked_list,
    checked_path,
    checked_whole,
)
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError, short
from langmem_tiers.core.settings import CoordinatorSettings, PromotionSettings
from langmem_tiers.core.types import MemoryType, MemoryTypes
from langmem_tiers.learning.promotion_policy import promotion_policy
from langmem_tiers.postgres.embeddings import LocalEmbeddings, MiniLMEmbeddings
from langmem_tiers.recall.budget import reranker_for
from langmem_tiers.recall.matching import (
    OTHER,
    Weights,
    WordVectors,
    read_weights,
    weights_for_model,
)
from langmem_tiers.recall.recall import RecallConfig, approximate_tokens
from langmem_tiers.remember.gate import DEFAULT_POLICY, Detector, Gate, GatePolicy
from langmem_tiers.remember.pipeline import Pipeline
from langmem_tiers.remember.review import Panel, Reviewers, default_reviewers, make_rerankers
from langmem_tiers.store.store import LOCAL_MODELS, TieredStore

MAX_LIMIT = 1000
"""Most memories, or other items, that one call returns."""


class Memory:
    """Base of `MemoryCoordinator`, without its verbs."""

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
        detectors: Sequence[Detector] = (),
    ) -> None:
        """Prepare a store's memory; `MemoryCoordinator` says what each argument means.

        Raises:
            ConfigurationError: if the store has no index, or the weights are none.
        """
        self.tiered_store = _checked_store(store)
        self.runner = store.runner
        for what, value, kind in (
            ("context", context, MemoryContext),
            ("types", types, MemoryTypes | None),
            ("settings", settings, CoordinatorSettings | None),
            ("reranker", reranker, BaseDocumentCompressor | None),
            ("reviewers", reviewers, Reviewers | None),
            ("gate", gate, GatePolicy | None),
        ):
            _check_argument(value, kind, what)
        if count_tokens is not None:
            checked_function(count_tokens, "count_tokens")
        self.context, self.caller = context, context.caller
        self.types = MemoryTypes() if types is None else types
        self.settings = settings or CoordinatorSettings()
        self.policy = promotion_policy(policy)
        self.state = ShortTermState(store, context)
        self.reviewers = default_reviewers() if reviewers is None else reviewers
        self.count_tokens = count_tokens or approximate_tokens
        panel = None if review_model is None else self._make_panel(review_model)
        self.gate = Gate(
            policy=DEFAULT_POLICY if gate is None else gate,
            reviewers=self.reviewers,
            detectors=_checked_detectors(detectors),
            panel=panel,
        )
        self.reader = RecallConfig(
            weights=weights_for_model(model_name(store))
            if weights is None
            else _read_own_weights(weights, store),
            words=word_vectors(store),
            types=self.types,
            count_tokens=self.count_tokens,
            timeout_ms=self.settings.query_timeout_ms,
            reranker=None if reranker is None else reranker_for(reranker),
            reviews=make_rerankers(self.reviewers, panel),
        )
        self.pipeline = Pipeline(store.flows, self.gate, self.types, self.caller, locate_memories)

    def __repr__(self) -> str:
        """Return the class and the context."""
        return f"{type(self).__name__}({self.context!r})"

    @property
    def now(self) -> datetime:
        """Time of the store, in the user's time zone."""
        return self.tiered_store.flows.now.astimezone(self.context.zone)

    @property
    def local(self) -> bool:
        """True if a model of ours embeds its texts: our thresholds hold for it."""
        return model_name(self.tiered_store) != OTHER

    def _make_panel(self, model: BaseChatModel) -> Panel:
        """Return the panel in which a model speaks for the reviewers."""
        return Panel(
            model,
            self.reviewers,
            seconds=self.settings.review_timeout_ms / 1000,
            relevance_seconds=self.settings.relevance_timeout_ms / 1000,
        )

    def register_type(self, memory_type: MemoryType, *, replace: bool = False) -> None:
        """Add a memory type of one's own to this coordinator's registry."""
        self.types.register(memory_type, replace=replace)


def model_name(store: object) -> str:
    """Return the name of a store's embedding model if it comes from a wheel; else `other`."""
    embed = (getattr(store, "index_config", None) or {}).get("embed")
    return next((name for name, kind in LOCAL_MODELS.items() if isinstance(embed, kind)), OTHER)


def word_vectors(store: object) -> WordVectors | None:
    """Return the store's embedding model if it has vectors of words; else None."""
    embed = (getattr(store, "index_config", None) or {}).get("embed")
    return embed if isinstance(embed, LocalEmbeddings | MiniLMEmbeddings) else None


def default_reader(store: object) -> RecallConfig:
    """Return the recall settings of a store without a coordinator."""
    return RecallConfig(
        weights=weights_for_model(model_name(store)),
        words=word_vectors(store),
        types=MemoryTypes(),
        count_tokens=approximate_tokens,
    )


def _read_own_weights(file: str | os.PathLike[str], store: TieredStore) -> Weights:
    """Read a file of the caller's own weights; check them against the store's vectors."""
    try:
        weights = read_weights(checked_path(file, "weights").read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the weights cannot be read: {short(str(error), 400)}") from error
    index = store.options.index
    dims = 0 if index is None or index.vector is None else index.vector.dims
    if weights.meaning and len(weights.meaning) != dims:
        raise ConfigurationError(
            f"these weights are for vectors of {len(weights.meaning)} dimensions, the store's "
            f"have {dims}: fit them with the store's model"
        )
    return weights


def _checked_store(store: object) -> TieredStore:
    if not isinstance(store, TieredStore):
        raise InvalidTypeError(f"a coordinator needs a TieredStore, not {type(store).__name__}")
    if store.options.index is None:
        raise ConfigurationError(
            "a coordinator needs a store with an index: TieredStore.embedded(path), or "
            "index={'dims': …, 'embed': …}; index={} searches by words alone"
        )
    return store


def _checked_detectors(value: object) -> tuple[Detector, ...]:
    functions = tuple(checked_list(value, "detectors", "functions: detectors('credit_card')"))
    for function in functions:
        checked_function(function, "a detector")
    return functions


def _check_argument(value: object, kind: Any, what: str) -> None:
    if not isinstance(value, kind):
        kinds = [part for part in getattr(kind, "__args__", (kind,)) if part is not type(None)]
        wanted = " or ".join(part.__name__ for part in kinds)
        hint = "; pass its .coordinator" if hasattr(value, "coordinator") else ""
        raise InvalidTypeError(f"{what} is a {wanted}, not {type(value).__name__}{hint}")


def checked_limit(limit: object, most: int = MAX_LIMIT, what: str = "limit") -> int:
    """Return a limit if it is a whole number from 0 to `most`."""
    return checked_whole(limit, what, 0, most)


def checked_memory_key(key: object) -> str:
    """Return the key of one memory; an object that has a key is refused with a hint."""
    if key is None:
        raise InvalidTypeError("there is no memory to look at: the key is None")
    if not isinstance(key, str):
        hint = f": pass the {type(key).__name__}'s .key" if hasattr(key, "key") else ""
        raise InvalidTypeError(f"a key is a string, not {type(key).__name__}{hint}")
    return check_key(key)
