"""The vectors of questions: each text is embedded once, and what is sought where none can be."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import EmbeddingFailedError
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.store.read import embed_texts

_log = logging.getLogger(__name__)


class Vectors(dict[str, PackedVector | None]):
    """The vectors of questions by their text, which the recalls of a turn share."""

    failed: str | None = None
    """What the embedding model failed by: it is asked no more, and words alone are sought."""

    def add(self, queries: Iterable[str], options: StoreOptions) -> Flow[None]:
        """Embed those that have no vector yet; the log says if the model fails.

        Raises:
            EmbeddingError: for a model that does not fit the store.
            MissingExtraError: for one that is not there at all.
        """
        new = [one for one in queries if one not in self]
        if self.failed is not None or not new:
            return
        try:
            self.update((yield from embed_texts(new, options)))
        except EmbeddingFailedError as error:
            self.failed = error.said
            _log.warning("recall goes by words alone, as the model fails: %s", self.failed)
