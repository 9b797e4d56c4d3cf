"""Embeddings on the CPU, without a key or a download: what their models share.

A model is read once for a process, its files must be the expected ones, and each text is embedded
by itself, so that the batch it came in cannot change a bit of its vector.
"""

import asyncio
import hashlib
import importlib.util
import threading
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from langchain_core.embeddings import Embeddings

from langmem_tiers.core.checks import checked_list
from langmem_tiers.core.errors import (
    EmbeddingError,
    InvalidInputError,
    InvalidTypeError,
    MissingExtraError,
    short,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class OfflineEmbeddings(Embeddings):
    """Embed texts on this machine with a model that is read on first use, once for a process.

    The vectors have length 1, or are all zero for a text that is blank.
    """

    @property
    def dims(self) -> int:
        """The number of components of each vector."""
        return self._model().dims

    @property
    def model_id(self) -> str:
        """The model's name and the first digits of a hash over its files."""
        return self._model().model_id

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts, one vector each, in order.

        Raises:
            InvalidInputError: a text holds a NUL or half of a surrogate pair.
            EmbeddingError: the model's files are damaged, or not the expected ones.
            MissingExtraError: the wheel with the model is not installed.

        """
        for text in checked_list(texts, "texts"):
            _check(text)
        model = self._model()
        return [list(_embedded(model, text)) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed one text; queries and documents are embedded alike."""
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts without holding the event loop for long.

        Other tasks run between the texts of a call, and between the pieces of a long one.
        """
        several = list(checked_list(texts, "texts"))
        for text in several:
            _check(text)
        if self._key() in _loaded and self._quick(several):
            return self.embed_documents(several)
        return await asyncio.to_thread(self.embed_documents, several)

    async def aembed_query(self, text: str) -> list[float]:
        """Embed one text without holding the event loop for long."""
        return (await self.aembed_documents([text]))[0]

    def _quick(self, texts: list[str]) -> bool:
        """Whether they are embedded sooner than a thread could be asked to: none are, if any."""
        return not texts

    def _key(self) -> Hashable:
        """What names its model among those of the process."""
        return type(self)

    def _model(self) -> "Model":
        key = self._key()
        with _loading:
            if key not in _loaded:
                _loaded[key] = self._load()
            return _loaded[key]

    @abstractmethod
    def _load(self) -> "Model":
        """The model, read from its files."""


class Model(Protocol):
    """What is loaded once: it embeds a text by itself."""

    @property
    def model_id(self) -> str:
        """Its name and the first digits of a hash over its files."""

    @property
    def dims(self) -> int:
        """The number of components of each vector."""

    def embed(self, text: str) -> list[float]:
        """The vector of a text; all zero for one that is blank."""

    def __hash__(self) -> int:
        """That of the object: a model is loaded once."""


_loaded: dict[Hashable, Model] = {}
_loading = threading.RLock()
_KEPT: Final = 1_000
"""Texts whose vectors are kept: what is asked is sought, looked for in topics, and stored."""


@lru_cache(maxsize=_KEPT)
def _embedded(model: Model, text: str) -> tuple[float, ...]:
    return tuple(model.embed(text))


def unit(total: "NDArray[np.float64]") -> list[float]:
    """A vector at length 1, or as it is if it has none."""
    import numpy as np

    length = np.sqrt((total * total).sum())
    components: list[float] = (total / length if length > 0 else total).astype(np.float32).tolist()
    return components


def pieces(text: str, most: int) -> Iterator[str]:
    """A text in pieces, without the space between two: the model reads one before each.

    So its words have the tokens that they have in the whole, but for one that is cut, as it is
    longer than a piece, and for blanks beside a cut.
    """
    start = 0
    while len(text) - start > most:
        end = text.rfind(" ", start + 1, start + most + 1)
        cut = end if end > 0 else start + most
        yield text[start:cut]
        start = cut + (end > 0)
    yield text[start:]


def wheel_files(package: str, names: Sequence[str], extra: str) -> list[Path]:
    """Files of an installed package, which is not imported.

    Raises:
        MissingExtraError: it is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise missing_extra(extra)
    root = Path(next(iter(spec.submodule_search_locations)))
    return [root / name for name in names]


def read_verified(
    files: Sequence[Path], expected: Mapping[str, str], extra: str
) -> tuple[list[bytes], str]:
    """What files hold, whose sums are the expected ones, and the digits that name all of it.

    Raises:
        EmbeddingError: they cannot be read, or are others.
    """
    try:
        contents = [file.read_bytes() for file in files]
    except OSError as error:
        msg = f"The embedding model cannot be read ({error}): check the path and permissions."
        raise EmbeddingError(msg) from error
    sums = [hashlib.sha256(content).hexdigest() for content in contents]
    _verify(files, sums, expected, extra)
    return contents, hashlib.sha256("".join(sums).encode()).hexdigest()[:8]


def _verify(
    files: Sequence[Path], sums: list[str], expected: Mapping[str, str], extra: str
) -> None:
    found = {file.name: digest for file, digest in zip(files, sums, strict=True)}
    for name, wanted in expected.items():
        if name not in found:
            msg = f"sha256 names {name!r}, but the model's files are {sorted(found)}."
            raise EmbeddingError(msg)
        if found[name] != wanted.lower():
            msg = (
                f"{name} of the embedding model is not the expected file (SHA-256 {found[name]}, "
                f"expected {wanted}). Vectors of another model do not compare with stored ones: "
                f'reinstall with pip install --force-reinstall "langmem-tiers[{extra}]", or pass '
                "path= of LocalEmbeddings to use a model of your own."
            )
            raise EmbeddingError(msg)


def missing_extra(extra: str) -> MissingExtraError:
    """What to do where the wheel of an extra is missing."""
    return MissingExtraError(
        f"The {extra} embedding model is not installed: "
        f'pip install "langmem-tiers[{extra}]", or pass another embedding model.'
    )


def _check(text: str) -> None:
    if not isinstance(text, str):
        msg = f"Only text can be embedded, not {type(text).__name__}: pass a str."
        raise InvalidTypeError(msg)
    if "\0" in text:
        msg = (
            f"Text with a NUL character cannot be embedded or stored: remove it from {short(text)}"
        )
        raise InvalidInputError(msg)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        msg = (
            f"Half of a surrogate pair at position {error.start} is not text: decode with "
            'errors="replace", or remove it.'
        )
        raise InvalidInputError(msg) from error
