"""Texts that instruct whoever reads them: what tools, pages and files bring is held back for it.

What a user, an operator or the agent says is not looked at: their orders are memories like any
other ("Always use tabs"). Of all else disguises are undone first: look-alike letters, hidden signs,
codes, letters apart. How much a text reads like attacks on a memory rather than like other texts
was learned from both: a logistic regression over the words of a text, their pairs, and the first
word of each sentence (`^`). Its weights ship as the model `likeness`: `benchmarks/fit_likeness.py`
fitted them on attacks and notes by many authors, on ordinary texts of many kinds, and on what tools
bring with an order in it and without. How it fares with authors and
kinds it has not seen: docs/gate.md.

Nothing here is proof: a text reads like those that were written to steer an assistant. What is
found lowers the trust in a memory (see `trust.py`); it is kept, and not recalled until somebody
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
from langmem_tiers.core.reading import BIAS, split_sentences, strip_invisible, tokens

OUR_OWN: Final = (*PERSON_SOURCES, Source.AGENT)
"""Who tells something; all others bring it."""
ALIKE: Final = 0.3
"""The likeness from which on a text is held. Of kinds of what tools bring that were left out of the
fit one harmless text in twenty is held by it."""
_LONGEST: Final = 50_000
"""Characters that are looked at, in their plain form: of what is longer, the beginning and the end.
What is longer from outside is held back, as nobody has read it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What in a text may instruct its reader."""

    kind: str
    """`likeness`, `encoded` (the same behind a disguise), `hidden` or `unread`."""
    sure: float
    """How sure it is: 0.5 where it is just held, up to 1."""
    excerpt: str
    words: tuple[str, ...] = ()
    """Those that weighed most."""

    def __str__(self) -> str:
        """Where it shows, and why."""
        return f"{self.excerpt!r} ({', '.join((self.kind, *self.words))})"


@lru_cache(maxsize=256)
def instructions_in(content: str, source: str) -> tuple[Finding, ...]:
    """What instructs the reader in a text from this source, the surest first; none if nothing does.

    Nothing does that a user, an operator or the agent says.
    """
    if source in OUR_OWN:
        return ()
    text = _bounded(content)
    found = [*_alike(plain(text), "likeness"), *_disguised(text)]
    if text != content:
        found.append(Finding("unread", 0.5, f"{len(content):,} characters"))
    return tuple(sorted(found, key=lambda one: -one.sure))


def _disguised(text: str) -> Iterator[Finding]:
    how = conceals(text)
    if how is not None:
        yield Finding("hidden", 1.0, how)
    for one in hidden_in(text):
        yield from _alike(one, "encoded")


def _alike(text: str, kind: str) -> Iterator[Finding]:
    score, passage = likeness(text)
    if score >= ALIKE:
        sure = 1 / (1 + math.exp(ALIKE - score))
        yield Finding(kind, sure, _excerpt(passage), _weightiest(passage, shipped()))


def _bounded(content: str) -> str:
    """The text, or its beginning and end if it is long, as it is or in its plain form."""
    text = _ends(content)
    plainly = text if text.isascii() else normalize("NFKC", text)
    return text if len(plainly) <= _LONGEST + 1 else _ends(plainly)


def _ends(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST // 2] + "\n" + text[-_LONGEST // 2 :]


def _excerpt(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= 80 else said[:79] + "…"  # noqa: PLR2004 - one line


TOGETHER: Final = 3
"""Sentences that are read together: an order is given in a breath."""
_TOLD: Final = 3
"""Words that are named as those that weighed most."""
_FIRST: Final = "^ "
"""Stands before the first word of a sentence."""
_STEM: Final = 6
"""Characters of a word that count."""


Weights: TypeAlias = Mapping[str, float]


class Likeness(NamedTuple):
    """How much a text reads like an attack, and where it does so most."""

    score: float
    """The logarithm of the odds, by the shares of the texts that it was fitted on."""
    passage: str
    """Up to three sentences."""


def likeness(text: str) -> Likeness:
    """The passage of a text that reads most like an attack."""
    weights = shipped()
    several = (Likeness(scored(weights, names), one) for one, names in _read(text))
    return max(several, default=Likeness(-math.inf, ""), key=attrgetter("score"))


def _weightiest(passage: str, weights: Weights) -> tuple[str, ...]:
    """The words and pairs that speak most for an attack, as they are written."""
    shown = {}
    for words in map(tokens, split_sentences(passage)):
        both = map(_alone_and_in_pairs, (_stems(words), words))
        for name, one in zip(*both, strict=True):
            written = one.removeprefix(_FIRST)
            if weights.get(name, 0.0) > 0 and all(word in passage for word in written.split()):
                shown[name] = written
    told = dict.fromkeys(shown[one] for one in sorted(shown, key=lambda one: -weights[one]))
    return tuple(one for one in told if any(map(str.isalpha, one)))[:_TOLD]


def passages(text: str) -> list[str]:
    """Each sentence, and each three that follow each other: neither hides among others."""
    return list(dict.fromkeys(one for one, _ in _read(text)))


def _read(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The passages, and what counts of each: of several sentences, what counts of any."""
    sentences = split_sentences(text)
    each = [*map(_names, sentences)]
    yield from zip(sentences, each, strict=True)
    for place in range(max(1, len(sentences) - TOGETHER + 1) if len(sentences) > 1 else 0):
        run = slice(place, place + TOGETHER)
        yield "\n".join(sentences[run]), frozenset[str]().union(*each[run])


def features(text: str) -> frozenset[str]:
    """What counts of a text: its words, alone and in pairs."""
    return frozenset[str]().union(*map(_names, split_sentences(text)))


@lru_cache(maxsize=2_000)
def _names(sentence: str) -> frozenset[str]:
    return frozenset(_alone_and_in_pairs(_stems(tokens(sentence))))


def _stems(words: Sequence[str]) -> list[str]:
    return [one[:_STEM].lower() for one in words]


def _alone_and_in_pairs(words: Sequence[str]) -> tuple[str, ...]:
    """Each word, each pair of them, and the first as such."""
    return (*words, *map(" ".join, pairwise(words)), *map(_FIRST.__add__, words[:1]))


def scored(weights: Weights, found: frozenset[str]) -> float:
    """The score of these features; what has no weight counts for nothing, and dilutes the rest."""
    several = math.fsum(map(weights.__getitem__, found & weights.keys()))
    return weights[BIAS] + several / math.sqrt(max(1, len(found)))


@cache
def shipped() -> Weights:
    """The weights that ship."""
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


def plain(text: str) -> str:
    """The text as it is read: nothing hidden, entities written out, look-alikes as they look."""
    shown = _unescaped(text)
    if shown.isascii() or not _OTHER_LETTER.search(shown.casefold()):
        return shown
    return _TOKEN.sub(lambda found: _lettered(found[0]), shown)


def _unescaped(text: str) -> str:
    if "&#" in text:
        text = _BEYOND.sub("\N{REPLACEMENT CHARACTER}", _ZEROS.sub("&#", text))
    return strip_invisible(html.unescape(text))


def _lettered(word: str) -> str:
    """A word that mixes alphabets, in Latin letters."""
    folded = word.casefold()
    if not (_LATIN_LETTER.search(folded) and _OTHER_LETTER.search(folded)):
        return word
    return folded.translate(_LOOK_ALIKE)


def hidden_in(text: str) -> Iterator[str]:
    """What a text may say behind each disguise: whatever reads like nothing was none."""
    shown = plain(text)
    entities = map(html.unescape, _ENTITY.findall(text))
    if any(map(str.isalpha, entities)) or shown != _unescaped(text):
        yield shown
    readings = (
        " ".join(one.translate(_LEET) for one in _TOKEN.findall(shown) if _mixed(one)),
        "\n".join(_joined(one) for one in _LETTERS_APART.findall(shown)),
        shown[::-1],
        shown.lower().translate(_ROT13),
        *map(plain, _decoded(text)),
    )
    yield from (one for one in readings if one not in ("", shown, shown.lower()))


def _mixed(word: str) -> bool:
    """Whether digits may stand for letters in it."""
    return bool(_DIGIT_LIKE.search(word) and _LATIN_LETTER.search(word.casefold()))


def _joined(apart: str) -> str:
    """Letters that stand apart, as words: more than one blank divides those."""
    return " ".join("".join(one.split()) for one in _BLANKS.split(apart))


def _decoded(text: str) -> Iterator[str]:
    """What stands in the text in a code, where that is words: base64, hex, %xx, tags."""
    for found in _TAGS.findall(text):
        yield "".join(chr(ord(one) - 0xE0000) for one in found)
    for found in _TOKEN.findall(text):
        if "%" in found and len(_PERCENT.findall(found)) >= _TIMES_PERCENT:
            yield unquote(found)
    for pattern, decode in ((_BASE64, _from_base64), (_HEX, _from_hex)):
        for found in pattern.findall(text[:_LONGEST_CODE]):
            said = decode(found)
            if said is not None and _WORDS.search(said):
                yield said


def conceals(text: str) -> str | None:
    """How a text hides what it says by signs that nobody sees; None if it does not."""
    if _TAGS.search(text):
        return "letters that are not shown"
    if _REVERSING.search(text):
        return "signs that turn the direction of reading"
    if len(_APART.findall(text)) >= _TIMES_APART:
        return "signs without width inside words"
    return None


def _from_base64(found: str) -> str | None:
    try:
        raw = base64.b64decode(found + "=" * (-len(found) % 4), altchars=b"-_", validate=False)
        return raw.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None


def _from_hex(found: str) -> str | None:
    try:
        return bytes.fromhex(re.sub("[ :]", "", found)).decode("utf-8")
    except (ValueError, UnicodeDecodeError):
        return None
