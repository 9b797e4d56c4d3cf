"""Embeddings on the CPU, without a key, a download or torch, from a model inside a wheel.

The model is a table of token vectors. A text's embedding is the mean of the vectors of its
tokens, scaled to length 1: every word counts, their order does not.

Only the files of the wheel `wordllama` are used. Importing the package would configure the
application's logging.
"""

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from langmem_tiers.core.checks import checked_mapping, checked_path
from langmem_tiers.core.errors import EmbeddingError, InvalidInputError, InvalidTypeError, short
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
_WORDS: Final = 20_000
"""Single words whose vectors are kept, 20 MB of them at most."""
_ASKED: Final = 32
"""Words of a question that are compared, those with the longest vectors."""
_ORDINARY: Final = 4.5
"""The longest vector of a word that can stand for another: i 3.9, my 3.9, not 6.8."""
_NEAR: Final = 0.6
"""The least similarity of such words: i and you 0.64, my and your 0.75, he and she 0.05."""
_DIGITS: Final = 5
"""Of how alike words are: sums of 32 bits differ beyond, by what else is compared."""
_UNTHREADED: Final = 200_000
"""Products in one multiplication: OpenBLAS begins threads from 262,144 on."""

# Handing work to a thread and back costs about as much as embedding thirty short texts, and
# below these bounds the event loop is held for a few milliseconds at most.
_INLINE_TEXTS: Final = 32
_INLINE_CHARACTERS: Final = 20_000


class LocalEmbeddings(OfflineEmbeddings):
    """Embed texts on this machine with a small model of token vectors.

    Without `path` the model is the one in the wheel `wordllama` (256 dimensions, MIT licence,
    English; `MultilingualEmbeddings` knows more languages), whose files must have the SHA-256 sums
    known to this package. It is loaded on first use and shared by all instances of a process. The
    whole text counts; nothing is cut off.

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
        self._path = None if path is None else checked_path(path, "path").expanduser().absolute()
        sums = {} if sha256 is None else checked_mapping(sha256, "sha256", "{file: sum}")
        self._sha256 = dict(sums)

    def alike(self, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
        """How alike the words of each text are to those asked, each word in its own right.

        Each word asked, up to 32, counts by its nearest one in the text, that is by the cosine of
        both, and by the length of its own vector, which is longest for rare words. 1 is for a text
        that has them all, and 0 for one without a word.

        Raises:
            EmbeddingError: the model's files are damaged, or not the expected ones.
            MissingExtraError: the wheel with the model is not installed.

        Example:
            >>> words = LocalEmbeddings()
            >>> near, far = words.alike(["dog", "name"], [["my", "puppy", "rex"], ["tax", "law"]])
            >>> near > far
            True

        """
        try:
            return _alike(self._table(), asked, texts)
        except (TypeError, ValueError) as error:  # hot: nothing is looked at beforehand
            raise InvalidTypeError(
                f"asked is a list of words, and texts are lists of words, not {short(asked)} and "
                f"{short(texts)}"
            ) from error

    def interchangeable(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Tell whether the two words of each pair, ordinary and near, can stand for each other.

        "My" and "your" can. An ordinary word has a short vector. Names, numbers and negations have
        long ones, so that none of them stands for another, however near.

        Raises:
            EmbeddingError: the model's files are damaged, or not the expected ones.
            MissingExtraError: the wheel with the model is not installed.

        Example:
            >>> words = LocalEmbeddings()
            >>> words.interchangeable([("i", "you"), ("my", "your")])
            True
            >>> words.interchangeable([("lisbon", "porto")])
            False

        """
        table = self._table()
        try:
            return all(_interchangeable(table, one, other) for one, other in pairs)
        except (TypeError, ValueError) as error:
            msg = f"pairs is a list of two words each, such as ('my', 'your'), not {short(pairs)}"
            raise InvalidTypeError(msg) from error

    def _table(self) -> "_Table":
        model = self._model()
        assert isinstance(model, _Table)  # noqa: S101 - as _load makes it
        return model

    def _quick(self, texts: list[str]) -> bool:
        return len(texts) < _INLINE_TEXTS and sum(map(len, texts)) < _INLINE_CHARACTERS

    def _key(self) -> Hashable:
        return (self._path, tuple(sorted(self._sha256.items())))

    def _load(self) -> Model:
        return _load(self._path, self._sha256)


@dataclass(frozen=True, slots=True, eq=False)
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


@lru_cache(maxsize=_WORDS)
def _word(table: _Table, word: str) -> "tuple[NDArray[np.float32], float]":
    """A word's vector at length 1, and how long it was."""
    import numpy as np

    tokens = table.tokenizer.encode(word, add_special_tokens=False).ids
    total = table.vectors[np.asarray(tokens, dtype=np.intp)].sum(axis=0)
    length = float(np.linalg.norm(total))
    return total / (length or 1.0), length


def _interchangeable(table: _Table, one: str, other: str) -> bool:
    (vector, length), (beside, long) = _word(table, one), _word(table, other)
    return max(length, long) <= _ORDINARY and float(vector @ beside) >= _NEAR


def _alike(table: _Table, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
    import numpy as np

    places = {word: n for n, word in enumerate(dict.fromkeys(chain.from_iterable(texts)))}
    sought = nlargest(_ASKED, (_word(table, word) for word in asked), key=itemgetter(1))
    total = sum(length for _, length in sought)
    if not places or not total:
        return [0.0] * len(texts)
    shares = np.array([[length / total] for _, length in sought], dtype=np.float32)
    counts = [len(text) for text in texts]
    starts = np.cumsum([0, *counts[:-1]])[np.array(counts) > 0]
    each = [places[word] for text in texts for word in text]
    near = _cosines([vector for vector, _ in sought], [_word(table, word)[0] for word in places])
    best = (np.maximum.reduceat(near[:, each], starts, axis=1) * shares).sum(axis=0)
    found = iter(best.tolist())
    return [round(max(0.0, next(found)), _DIGITS) if count else 0.0 for count in counts]


def _cosines(
    some: "list[NDArray[np.float32]]", others: "list[NDArray[np.float32]]"
) -> "NDArray[np.float32]":
    """Of each with each, in pieces that BLAS multiplies without threads, which it waits for."""
    import numpy as np

    left, dims = np.stack(some), len(some[0])
    every = np.concatenate(others).reshape(-1, dims)
    piece = max(1, _UNTHREADED // (len(some) * dims))
    parts = [left @ every[at : at + piece].T for at in range(0, len(every), piece)]
    return np.concatenate(parts, axis=1)


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
