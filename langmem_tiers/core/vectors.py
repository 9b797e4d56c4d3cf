"""Vectors: how they are stored and compared, and checked and packed on their way into Postgres."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from numbers import Real
from typing import Final

from langmem_tiers.core.checks import MAX_NAMESPACE_BYTES, checked_list
from langmem_tiers.core.errors import EmbeddingError

MAX_FIELD_BYTES = 128
_INDEX_TUPLE_BYTES = 2704
_INDEX_OVERHEAD_BYTES = 96
_MAX = {"halfvec": 65504.0, "vector": 3.4e38}
_SHORT = 0.25
"""Vectors shorter than this may lose components in half precision."""


class Distance(StrEnum):
    """The metric of two vectors; the names are LangGraph's."""

    COSINE = "cosine"
    L2 = "l2"
    INNER_PRODUCT = "inner_product"

    @property
    def operator(self) -> str:
        """The pgvector operator that yields the distance (lower is nearer)."""
        return {"cosine": "<=>", "l2": "<->", "inner_product": "<#>"}[self.value]

    def score(self, distance: float) -> float:
        """Turn a pgvector distance into a score: higher is nearer."""
        return 1.0 - distance if self is Distance.COSINE else -distance

    def cosine(self, distance: float) -> float:
        """Turn a pgvector distance into a cosine; exact if vectors have length 1."""
        if self is Distance.COSINE:
            return 1.0 - distance
        return 1.0 - distance * distance / 2 if self is Distance.L2 else -distance


HNSW_M: Final = 16
"""Neighbours of a vector in a layer of HNSW: pgvector's default."""
EF_CONSTRUCTION: Final = 128
"""Candidates while an index is built: twice pgvector's default, by which one index of six lost all
that is near to one question of two hundred (80,000 vectors of our own, in a hundred clusters); by
this none of six lost any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorOptions:
    """The options of stored and searched vectors."""

    dims: int
    distance: Distance = Distance.COSINE
    vector_type: str = "halfvec"
    ann: bool = True
    """True if an HNSW index may be built once a tenant outgrows `exact_limit`."""
    m: int = HNSW_M
    ef_construction: int = EF_CONSTRUCTION

    @property
    def bytes(self) -> int:
        """Bytes of one stored vector."""
        return 8 + self.dims * (2 if self.vector_type == "halfvec" else 4)

    @property
    def fits_btree(self) -> bool:
        """Tell whether a vector fits into a B-tree tuple beside the longest namespace and field."""
        taken = MAX_NAMESPACE_BYTES + MAX_FIELD_BYTES + _INDEX_OVERHEAD_BYTES
        return self.bytes <= _INDEX_TUPLE_BYTES - taken


@dataclass(frozen=True, slots=True)
class PackedVector:
    """A vector in the binary form of pgvector's `vector` or `halfvec`."""

    data: bytes


class PackedVectors(list[PackedVector]):
    """An array of vectors, as one parameter of a statement."""


def pack_all(
    vectors: Iterable[Iterable[float]], expected: int, options: VectorOptions
) -> list[PackedVector | None]:
    """Pack what a model returned for `expected` texts; None for a vector of length zero.

    Raises:
        EmbeddingError: for too few or too many vectors, wrong dimensions, or components that
            are no finite numbers or do not fit the column.
    """
    try:
        vectors = list(vectors)
    except TypeError as error:
        raise EmbeddingError(f"the embedding model returned no list of vectors: {error}") from error
    if len(vectors) != expected:
        raise EmbeddingError(
            f"the embedding model returned {len(vectors)} vectors for {expected} texts; check "
            "that `embed` returns one vector for each"
        )
    return [pack(vector, options) for vector in vectors]


def pack(vector: Iterable[float], options: VectorOptions) -> PackedVector | None:
    """Pack one vector; None if it has no direction and the metric needs one."""
    try:
        numbers = list(checked_list(vector, "a vector", "numbers"))
        _check_kinds(set(map(type, numbers)))
        length = math.hypot(*numbers)
    except (TypeError, ValueError, OverflowError) as error:
        raise EmbeddingError(
            f"the embedding model returned no vector of numbers: {error}"
        ) from error
    if len(numbers) != options.dims:
        raise EmbeddingError(
            f"the embedding model returned {len(numbers)} dimensions where the index has "
            f"{options.dims}; correct index['dims'] or use the model the store was set up with"
        )
    if not _SHORT < length < _MAX["halfvec"]:
        numbers = _fitted(numbers, options)
        if not numbers:
            return None
    return PackedVector(_layout(options).pack(options.dims, 0, *numbers))


def _check_kinds(kinds: Iterable[type]) -> None:
    """Refuse what is no number by its type, before it is asked for one."""
    for kind in kinds:
        if not issubclass(kind, Real):
            raise TypeError(f"it holds a {kind.__name__}")


def unpack(vector: PackedVector, options: VectorOptions) -> tuple[float, ...]:
    """Unpack the numbers of a stored vector."""
    return _layout(options).unpack(vector.data)[2:]


def _fitted(numbers: list[float], options: VectorOptions) -> list[float]:
    """Scale an unusual vector into the column's range; [] if it has no direction."""
    if not all(map(math.isfinite, numbers)):
        raise EmbeddingError("the embedding model returned NaN or infinite numbers")
    largest = max(map(abs, numbers))
    if options.distance is Distance.COSINE:
        return [number / largest for number in numbers] if largest else []
    if largest > _MAX[options.vector_type]:
        raise EmbeddingError(
            f"a component of {largest:g} does not fit {options.vector_type} "
            f"({_MAX[options.vector_type]:g} at most): normalise the embeddings"
        )
    return numbers


@cache
def _layout(options: VectorOptions) -> struct.Struct:
    letter = "e" if options.vector_type == "halfvec" else "f"
    return struct.Struct(f">HH{options.dims}{letter}")
