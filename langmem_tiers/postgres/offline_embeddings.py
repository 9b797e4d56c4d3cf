"""Offline embedding models on the CPU, and calls of any embedding model within a deadline.

An offline model needs no key and no download. A process reads it once, and checks that its files
are the expected ones. It embeds each text by itself, so that the batch of a text cannot change a
bit of its vector.
"""

import asyncio
import hashlib
import importlib.util
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from langchain_core.embeddings import Embeddings

from langmem_tiers.core import errors
from langmem_tiers.core.checks import checked_list, utf8_bytes
from langmem_tiers.core.concurrency import (
    DaemonPool,
    Work,
    agather_before,
    call_async,
    gather_before,
)
from langmem_tiers.core.texts import shorten_line
from langmem_tiers.postgres.driver import AWAITED, CallMode, Deadline
from langmem_tiers.postgres.flow import Ask, Embed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer


class OfflineEmbeddings(Embeddings):
    """Embed texts on this machine with a model that is read on first use, once for a process.

    The vectors have length 1. A blank text has a vector of zeros.
    """

    _extra: ClassVar[str]
    """The extra of this package that installs the model."""
    _key: Hashable
    """The key of its model in the process: the class, unless an instance sets another."""

    def __init_subclass__(cls) -> None:
        """Give each class a model of its own."""
        super().__init_subclass__()
        cls._key = cls

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
        checked = _check_texts(texts)
        model = self._model()
        return [list(_embed_cached(model, text)) for text in checked]

    def embed_query(self, text: str) -> list[float]:
        """Embed one text; queries and documents are embedded alike."""
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts without holding the event loop for long.

        Other tasks run between the texts of a call, and between the pieces of a long one.
        """
        checked = _check_texts(texts)
        if self._key in _models and self._is_quick(checked):
            return self.embed_documents(checked)
        return await asyncio.to_thread(self.embed_documents, checked)

    async def aembed_query(self, text: str) -> list[float]:
        """Embed one text without holding the event loop for long."""
        return (await self.aembed_documents([text]))[0]

    def _is_quick(self, texts: list[str]) -> bool:
        """Return True if embedding them here is faster than in a thread; by default for none."""
        return not texts

    def _model(self) -> "Model":
        key = self._key
        with _models_lock:
            if key not in _models:
                try:
                    _models[key] = self._load()
                except ImportError as error:
                    raise errors.MissingExtraError(
                        f"The {self._extra} embedding model is not installed: pip install "
                        f'"langmem-tiers[{self._extra}]", or pass another embedding model.'
                    ) from error
            return _models[key]

    @abstractmethod
    def _load(self) -> "Model":
        """Read the model from its files.

        Raises:
            ImportError: if a package is not installed.
        """

    def _read_files(
        self, files: Sequence[Path], expected: Mapping[str, str]
    ) -> tuple[list[bytes], str]:
        """Return the contents of files with the expected sums, and a short hash of all of them.

        Raises:
            EmbeddingError: the files cannot be read, or have other sums.
        """
        try:
            contents = [file.read_bytes() for file in files]
        except OSError as error:
            raise errors.EmbeddingError(
                f"The embedding model cannot be read ({error}): check the path and permissions."
            ) from error
        sums = [hashlib.sha256(content).hexdigest() for content in contents]
        digests = {file.name: digest for file, digest in zip(files, sums, strict=True)}
        for name, wanted in expected.items():
            if name not in digests:
                raise errors.EmbeddingError(
                    f"sha256 names {name!r}, but the model's files are {sorted(digests)}."
                )
            if digests[name] != wanted.lower():
                raise errors.EmbeddingError(
                    f"{name} of the embedding model is not the expected file (SHA-256 "
                    f"{digests[name]}, expected {wanted}). Vectors of another model do not compare "
                    "with stored ones: reinstall with pip install --force-reinstall "
                    f'"langmem-tiers[{self._extra}]", or pass path= of LocalEmbeddings to use a '
                    "model of your own."
                )
        return contents, hashlib.sha256("".join(sums).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True, eq=False)
class Model(ABC):
    """A loaded model, which embeds each text by itself."""

    model_id: str
    """The model's name and the first digits of a hash over its files."""
    dims: int
    """The number of components of each vector."""

    def embed(self, text: str) -> list[float]:
        """Return the vector of a text; all zero for a blank one."""
        import numpy as np

        total: NDArray[np.float64] = np.zeros(self.dims, dtype=np.float64)
        for part in self.parts(text) if text.strip() else ():
            total += part
        length = np.sqrt((total * total).sum())
        vector = total / length if length > 0 else total
        components: list[float] = vector.astype(np.float32).tolist()
        return components

    @abstractmethod
    def parts(self, text: str) -> Iterator["NDArray[np.floating[Any]]"]:
        """Yield the vectors of a text's parts, whose sum is the text's."""


_models: dict[Hashable, Model] = {}
_models_lock = threading.RLock()
_CACHED_TEXTS: Final = 1_000
"""Texts whose vectors are cached: a question is searched for, compared with topics, and stored."""


@lru_cache(maxsize=_CACHED_TEXTS)
def _embed_cached(model: Model, text: str) -> tuple[float, ...]:
    return tuple(model.embed(text))


def split_text(text: str, most: int) -> Iterator[str]:
    """Split a text into pieces at spaces, which are left out: the tokenizer puts one before each.

    So the words have the same tokens as in the whole text, except a word that is cut because it is
    longer than a piece, and blanks beside a cut.
    """
    start = 0
    while len(text) - start > most:
        end = text.rfind(" ", start + 1, start + most + 1)
        cut = end if end > 0 else start + most
        yield text[start:cut]
        start = cut + (end > 0)
    yield text[start:]


def parse_tokenizer(contents: bytes) -> "Tokenizer":
    """Parse a tokenizer's file; the tokenizer neither pads nor truncates texts."""
    from tokenizers import Tokenizer

    parsed = Tokenizer.from_str(contents.decode())
    parsed.no_padding()
    parsed.no_truncation()
    return parsed


def locate_files(sums: Mapping[str, str]) -> tuple[list[Path], dict[str, str]]:
    """Locate files of installed packages without importing them; return also each sum by file name.

    The keys of `sums` are package and path.

    Raises:
        ImportError: if a package is not installed.
    """
    files = []
    for package, _, path in (name.partition("/") for name in sums):
        spec = importlib.util.find_spec(package)
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError(package)
        files.append(Path(next(iter(spec.submodule_search_locations))) / path)
    return files, {file.name: digest for file, digest in zip(files, sums.values(), strict=True)}


def _check_texts(texts: object) -> list[str]:
    checked = list(checked_list(texts, "texts"))
    for text in checked:
        if not isinstance(text, str):
            raise errors.InvalidTypeError(
                f"only a str can be embedded, not a {type(text).__name__}"
            )
        utf8_bytes(text, "text")
    return checked


# Calls of a model, within the deadline of a call


_LONGEST_ERROR: Final = 400
"""Characters of a model's error that our error repeats: our own choice."""
THREADS: Final = DaemonPool(100, idle_seconds=5.0)
"""The threads for models that can only block: one that never answers holds a thread, and no call.
To begin a thread takes as long as a fast model's call, so an idle thread waits for a moment."""


def embed(effect: Embed, model: Embeddings, mode: CallMode, deadline: Deadline) -> Work[Any]:
    """Return the vectors of texts.

    A search goes on by words alone if the model fails, so a query's vector has half the time.

    Raises:
        EmbeddingError (model_failed): if the model raises, or does not answer in time.
    """
    texts, limit = list(effect.texts), deadline
    if effect.purpose == "query" and deadline.left is not None:
        limit = Deadline(deadline.left / 2)
    try:
        if isinstance(model, OfflineEmbeddings):  # it only computes, so it needs no deadline
            awaits = mode is AWAITED
            return (yield model.aembed_documents(texts) if awaits else model.embed_documents(texts))
        ask = (_ask_queries if effect.purpose == "query" else _ask_documents)(model, texts, limit)
        if limit.left is None:
            return (yield mode.ask(ask))
        if mode is AWAITED:
            answers = yield agather_before(limit.left, [ask.acall], 1, _raise_timeout)
        else:
            answers = gather_before(limit.left, [ask.call], THREADS, _raise_timeout)
        return answers[0]
    except (errors.TieredMemoryError, CancelledError):
        raise
    except Exception as error:  # a user's model can raise anything
        reason = errors.describe_error(error)
        if isinstance(error, TimeoutError) and limit.passed:
            reason = (
                f"it gave no answer within {limit.seconds:g} of the {deadline.seconds:g} seconds "
                "that a call has; for more time open the store with "
                "bounds=Bounds(call_timeout_ms=…)"
            )
        message = shorten_line(errors.mask_passwords(reason), _LONGEST_ERROR)
        raise errors.EmbeddingError.from_model(message) from error


def _raise_timeout() -> NoReturn:
    raise TimeoutError


def _ask_documents(model: Embeddings, texts: list[str], _: Deadline) -> Ask:
    awaited: Any = partial(model.aembed_documents, texts)
    if type(model).aembed_documents is Embeddings.aembed_documents:
        awaited = partial(_call_in_thread, model.embed_documents, texts)
    return Ask(partial(model.embed_documents, texts), awaited)


def _ask_queries(model: Embeddings, texts: list[str], limit: Deadline) -> Ask:
    def ask() -> list[Any]:
        embedded = []
        for text in texts:
            if limit.passed:
                raise TimeoutError
            embedded.append(model.embed_query(text))
        return embedded

    async def aask() -> list[Any]:
        if type(model).aembed_query is Embeddings.aembed_query:
            return [await _call_in_thread(model.embed_query, text) for text in texts]
        return [await model.aembed_query(text) for text in texts]

    return Ask(ask, aask)


_call_in_thread: Final = partial(call_async, daemons=THREADS)
"""Calls a model that can only block on our threads, not on those of the event loop."""
