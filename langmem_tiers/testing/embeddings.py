"""Embeddings for tests: no model, no network, the same vector for the same text."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from hashlib import shake_128

from langchain_core.embeddings import Embeddings

_CENTRE = 127.5
_START, _END = "\x02", "\x03"


class TrigramEmbeddings(Embeddings):
    """Sum one fixed pseudo-random vector for each character trigram of a text.

    Texts that share trigrams are near each other, unrelated texts are near orthogonal (cosine
    about 0, of either sign), distinct texts have distinct vectors. Vectors are `dims` floats
    long and not of unit length. A blank text is the zero vector, as some models return it:
    a store must cope with its missing direction.

    >>> TrigramEmbeddings(dims=3).embed_query(" ")
    [0.0, 0.0, 0.0]
    """

    def __init__(self, dims: int = 64) -> None:
        self.dims = dims

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text, in order."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the text's vector; a query is embedded as a document is."""
        features = Counter(_features(text))
        vectors = (
            [count * byte for byte in _feature_vector(feature, self.dims)]
            for feature, count in features.items()
        )
        centre = _CENTRE * features.total()
        columns = zip(bytes(self.dims), *vectors, strict=True)
        return [(sum(column) - centre) / _CENTRE for column in columns]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return what `embed_documents` does."""
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Return what `embed_query` does."""
        return self.embed_query(text)


def _features(text: str) -> Iterable[str]:
    if not text.strip():
        return
    framed = f"{_START}{text}{_END}"
    yield framed
    yield from (framed[at : at + 3] for at in range(len(framed) - 2))


@lru_cache(maxsize=2**13)
def _feature_vector(feature: str, dims: int) -> bytes:
    """Whole numbers, whose sum does not depend on their order."""
    return shake_128(feature.encode("utf-8", "surrogatepass")).digest(dims)
