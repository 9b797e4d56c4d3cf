"""Find texts that instruct their reader, which tools, pages and files may bring.

What a user, an operator or the agent says is not looked at: their orders are memories like any
other ("Always use tabs"). Of all else disguises are undone first: look-alike letters, hidden signs,
codes, letters apart. How much a text reads like attacks on a memory rather than like other texts
was learned from both: a logistic regression over the words of a text, their pairs, and the first
word of each sentence (`^`). Its weights ship as the model `likeness`: `benchmarks/fit_likeness.py`
fitted them on attacks and notes by many authors, on ordinary texts of many kinds, and on what tools
bring with an order in it and without. How it fares with authors and
kinds it has not seen: docs/gate.md.

Nothing here is proof: a text reads like those that were written to steer an assistant. What is
found lowers the trust in a memory (see `gate.py`); it is kept, and not recalled until somebody
has looked at it.
"""

from __future__ import annotations

import base64
import binascii
import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from operator import attrgetter
from string import ascii_lowercase
from typing import Final, NamedTuple, TypeAlias
from unicodedata import normalize
from urllib.parse import unquote

from langmem_tiers.core import linear_model
from langmem_tiers.core.memory import PERSON_SOURCES, Source
from langmem_tiers.core.texts import BIAS, split_sentences, strip_invisible, tokens

SPEAKING_SOURCES: Final = (*PERSON_SOURCES, Source.AGENT)
"""Sources that speak for themselves; all others relay text that they did not write."""
HELD_FROM: Final = 0.3
"""The likeness from which on a text is held. Of kinds of what tools bring that were left out of the
fit one harmless text in twenty is held by it."""
_LONGEST: Final = 50_000
"""Characters that are looked at, in their plain form: of what is longer, the beginning and the end.
The gate holds back a longer text from outside, as nobody has read it."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A passage that may instruct its reader."""

    kind: str
    """`likeness`, `encoded` (the same behind a disguise), `hidden` or `unread`."""
    sure: float
    """How sure it is: 0.5 where it is just held, up to 1."""
    excerpt: str
    words: tuple[str, ...] = ()
    """The words with the largest weights."""

    def __str__(self) -> str:
        """Show the excerpt, the kind and the words."""
        return f"{self.excerpt!r} ({', '.join((self.kind, *self.words))})"


@lru_cache(maxsize=256)
def instructions_in(content: str, source: str) -> tuple[Instruction, ...]:
    """Find the instructions in a text from a source, the surest first.

    Nothing does that a user, an operator or the agent says.
    """
    if source in SPEAKING_SOURCES:
        return ()
    text = _bound_text(content)
    findings = [*_find_likeness(undisguise(text), "likeness"), *_find_disguised(text)]
    if text != content:
        findings.append(Instruction("unread", 0.5, f"{len(content):,} characters"))
    return tuple(sorted(findings, key=lambda finding: -finding.sure))


def _find_disguised(text: str) -> Iterator[Instruction]:
    concealment = find_concealment(text)
    if concealment is not None:
        yield Instruction("hidden", 1.0, concealment)
    for reading in decode_disguises(text):
        yield from _find_likeness(reading, "encoded")


def _find_likeness(text: str, kind: str) -> Iterator[Instruction]:
    score, passage = injection_likeness(text)
    if score >= HELD_FROM:
        sure = 1 / (1 + math.exp(HELD_FROM - score))
        yield Instruction(kind, sure, _excerpt(passage), _heaviest_words(passage, load_weights()))


def _bound_text(content: str) -> str:
    """Cut a long text to its beginning and end, by its length as it is and in plain form."""
    text = _head_and_tail(content)
    plainly = text if text.isascii() else normalize("NFKC", text)
    return text if len(plainly) <= _LONGEST + 1 else _head_and_tail(plainly)


def _head_and_tail(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST // 2] + "\n" + text[-_LONGEST // 2 :]


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"  # noqa: PLR2004 - one line


TOGETHER: Final = 3
"""Sentences that are read together: an order is given in a breath."""
_NAMED_WORDS: Final = 3
"""Words that are named as those that weighed most."""
_FIRST: Final = "^ "
"""Stands before the first word of a sentence."""
_STEM: Final = 6
"""Characters of a word that count."""


Weights: TypeAlias = Mapping[str, float]


class Likeness(NamedTuple):
    """The likeness of a text to attacks, and its most similar passage."""

    score: float
    """The logarithm of the odds, by the shares of the texts that it was fitted on."""
    passage: str
    """Up to three sentences."""


def injection_likeness(text: str) -> Likeness:
    """Find the passage of a text that reads most like an attack."""
    weights = load_weights()
    likenesses = (
        Likeness(score_features(weights, names), passage) for passage, names in _read_passages(text)
    )
    return max(likenesses, default=Likeness(-math.inf, ""), key=attrgetter("score"))


def _heaviest_words(passage: str, weights: Weights) -> tuple[str, ...]:
    """Find the words and pairs with the largest weights, as they are written."""
    shown = {}
    for words in map(tokens, split_sentences(passage)):
        both = map(_words_and_pairs, (_stems(words), words))
        for name, feature in zip(*both, strict=True):
            written = feature.removeprefix(_FIRST)
            if weights.get(name, 0.0) > 0 and all(word in passage for word in written.split()):
                shown[name] = written
    written_words = dict.fromkeys(
        shown[name] for name in sorted(shown, key=lambda name: -weights[name])
    )
    return tuple(word for word in written_words if any(map(str.isalpha, word)))[:_NAMED_WORDS]


def passages(text: str) -> list[str]:
    """List each sentence, and each three in a row: neither hides among others."""
    return list(dict.fromkeys(passage for passage, _ in _read_passages(text)))


def _read_passages(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """List the passages, each with the features of its sentences."""
    sentences = split_sentences(text)
    each = [*map(_feature_names, sentences)]
    yield from zip(sentences, each, strict=True)
    for place in range(max(1, len(sentences) - TOGETHER + 1) if len(sentences) > 1 else 0):
        run = slice(place, place + TOGETHER)
        yield "\n".join(sentences[run]), frozenset[str]().union(*each[run])


def injection_features(text: str) -> frozenset[str]:
    """Collect the features of a text: its words, alone and in pairs."""
    return frozenset[str]().union(*map(_feature_names, split_sentences(text)))


@lru_cache(maxsize=2_000)
def _feature_names(sentence: str) -> frozenset[str]:
    return frozenset(_words_and_pairs(_stems(tokens(sentence))))


def _stems(words: Sequence[str]) -> list[str]:
    return [word[:_STEM].lower() for word in words]


def _words_and_pairs(words: Sequence[str]) -> tuple[str, ...]:
    """List each word, each pair, and the first word as such."""
    return (*words, *map(" ".join, pairwise(words)), *map(_FIRST.__add__, words[:1]))


def score_features(weights: Weights, features: frozenset[str]) -> float:
    """Score features; those without a weight only dilute the others."""
    weight_sum = math.fsum(map(weights.__getitem__, features & weights.keys()))
    return weights[BIAS] + weight_sum / math.sqrt(max(1, len(features)))


@cache
def load_weights() -> Weights:
    """Load the shipped weights."""
    model = linear_model.read_weights(files(__package__), "likeness")
    return {name: weight for name, (weight,) in model.items()}


_LOOK_ALIKE: Final = str.maketrans(
    "абвгдеёзіїјкмнорстухѕһԁԛԝɡαβεηικνορτυχӏ",
    "a6brdee3iijkmhopctyxshdqwgabenikvoptuxl",
)
_LATIN_LETTER: Final = re.compile(r"[a-z]")
_OTHER_LETTER: Final = re.compile(r"[\u0370-\u052f\u0261]")
_LEET: Final = str.maketrans("013457@$!", "oieastasi")
_ROT13: Final = str.maketrans(ascii_lowercase, ascii_lowercase[13:] + ascii_lowercase[:13])
_TOKEN: Final = re.compile(r"\S+")
_ENTITY: Final = re.compile(r"&#x?[0-9a-fA-F]{2,7};")
_LETTERS_APART: Final = re.compile(r"(?<!\S)(?:[^\W\d_]\s{1,3}){5,}[^\W\d_](?!\S)")
"""Single letters, a blank or a few between them."""
_BLANKS: Final = re.compile(r"\s{2,}")
_DIGIT_LIKE: Final = re.compile(r"[013457@$!]")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2}[ :]?){12,}")
_PERCENT: Final = re.compile(r"%[0-9a-fA-F]{2}")
_TIMES_PERCENT: Final = 3
_WORDS: Final = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,40}(?:[ ,.:'-]{1,3}[A-Za-z]{2,40}){2}")
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]{4,}")
_LONGEST_CODE: Final = 20_000
"""Characters in which a code is looked for."""
_ZEROS: Final = re.compile(r"&#0++(?=[0-9])")
_BEYOND: Final = re.compile(r"&#[0-9]{8,}+;?")
"""Numbers of no character, in as many digits as somebody likes."""
_REVERSING: Final = re.compile("[\u202d\u202e]")
_APART: Final = re.compile("(?<=[A-Za-z])[\u200b-\u200d\u2060]+(?=[A-Za-z])")
_TIMES_APART: Final = 3


def undisguise(text: str) -> str:
    """Undo disguises: hidden characters, entities, look-alike letters."""
    shown = _unescape(text)
    if shown.isascii() or not _OTHER_LETTER.search(shown.casefold()):
        return shown
    return _TOKEN.sub(lambda token: _to_latin(token[0]), shown)


def _unescape(text: str) -> str:
    if "&#" in text:
        text = _BEYOND.sub("\N{REPLACEMENT CHARACTER}", _ZEROS.sub("&#", text))
    return strip_invisible(html.unescape(text))


def _to_latin(word: str) -> str:
    """Write a word of mixed alphabets in Latin letters."""
    folded = word.casefold()
    if not (_LATIN_LETTER.search(folded) and _OTHER_LETTER.search(folded)):
        return word
    return folded.translate(_LOOK_ALIKE)


def decode_disguises(text: str) -> Iterator[str]:
    """List the readings of a text behind each possible disguise."""
    shown = undisguise(text)
    entities = map(html.unescape, _ENTITY.findall(text))
    if any(map(str.isalpha, entities)) or shown != _unescape(text):
        yield shown
    readings = (
        " ".join(
            token.translate(_LEET) for token in _TOKEN.findall(shown) if _has_digit_letters(token)
        ),
        "\n".join(_join_letters(letters) for letters in _LETTERS_APART.findall(shown)),
        shown[::-1],
        shown.lower().translate(_ROT13),
        *map(undisguise, _decode_codes(text)),
    )
    yield from (reading for reading in readings if reading not in ("", shown, shown.lower()))


def _has_digit_letters(word: str) -> bool:
    """Tell whether digits may stand for letters in it."""
    return bool(_DIGIT_LIKE.search(word) and _LATIN_LETTER.search(word.casefold()))


def _join_letters(apart: str) -> str:
    """Join letters that stand apart into words; more than one blank divides words."""
    return " ".join("".join(word.split()) for word in _BLANKS.split(apart))


def _decode_codes(text: str) -> Iterator[str]:
    """Decode base64, hex, %xx and tags in a text, where the result is words."""
    for code in _TAGS.findall(text):
        yield "".join(chr(ord(tag) - 0xE0000) for tag in code)
    for code in _TOKEN.findall(text):
        if "%" in code and len(_PERCENT.findall(code)) >= _TIMES_PERCENT:
            yield unquote(code)
    for pattern, decode in ((_BASE64, _from_base64), (_HEX, _from_hex)):
        for code in pattern.findall(text[:_LONGEST_CODE]):
            decoded = decode(code)
            if decoded is not None and _WORDS.search(decoded):
                yield decoded


def find_concealment(text: str) -> str | None:
    """Describe the invisible characters by which a text hides words; None without any."""
    if _TAGS.search(text):
        return "letters that are not shown"
    if _REVERSING.search(text):
        return "signs that turn the direction of reading"
    if len(_APART.findall(text)) >= _TIMES_APART:
        return "signs without width inside words"
    return None


def _from_base64(code: str) -> str | None:
    try:
        raw = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=False)
        return raw.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None


def _from_hex(code: str) -> str | None:
    try:
        return bytes.fromhex(re.sub("[ :]", "", code)).decode("utf-8")
    except (ValueError, UnicodeDecodeError):
        return None
