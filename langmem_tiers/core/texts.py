"""Read a text: as words, as one line, for comparison, and for learned weights."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from unicodedata import category, normalize

_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
)
"""Scripts that put no spaces between words, or hang endings on them: a character is a word."""
_MARKS: Final = (
    r"\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0903\u093a-\u0957\u0981-\u0dff"
)
"""Signs that stand on or beside letters."""
_LETTERS: Final = rf"(?:[^\W_]|[{_MARKS}])+"
_WORD: Final = re.compile(rf"{_LETTERS}(?:['.:/@#+_-]*{_LETTERS})*[+#]{{0,2}}")
_ENDING: Final = re.compile(
    r"'\w*$|(?<=\w{3})(?:ations?|at(?:e[ds]?|ing)|[ae]nces?|ments?|ions?|ings?|i?e[ds]|al|e"
    r"|(?<!s)s|(?<![aeiou])y)$"
)
_STEMMED: Final = 40
"""Letters of a word that are looked at for its stem."""
_DOUBLED: Final = re.compile(r"(?<=\w{2})([^\W\ds])\1$")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_INVISIBLE: Final = frozenset("\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u3164\ufeff\uffa0")

_SELECTORS: Final = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))


RULE_CHARACTERS: Final = 20_000
"""Characters that the rules look at which say what a text is worth and where it goes, and not
whether it may be trusted: what a text tells, it tells by then."""


def head_and_tail(text: str, longest: int = RULE_CHARACTERS) -> str:
    """Cut a long text to its beginning and its end, `longest` characters in all."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n{text[1 - half :]}"


def strip_invisible(text: str) -> str:
    """Normalise a text to NFKC and remove invisible characters."""
    if text.isascii() and not _CONTROL.search(text):
        return text
    hidden = {ord(character): None for character in set(text) if is_invisible(character)}
    return normalize("NFKC", text.translate(hidden))


def is_invisible(character: str) -> bool:
    """Tell whether a character has no width: joiners, marks of direction, tags, selectors."""
    if character in "\n\t\r":
        return False
    code = ord(character)
    return (
        category(character) in ("Cf", "Cc")
        or character in _INVISIBLE
        or any(code in some for some in _SELECTORS)
    )


def words(text: str) -> list[str]:
    """List the words in lower case; in scripts without spaces each character is a word."""
    return _WORD.findall(separate_characters(text).casefold())


def stem(word: str) -> str:
    """Remove the endings of a word in lower case: "deployment's" becomes "deploy"."""
    return _stem(word[:_STEMMED])


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    while (bare := _DOUBLED.sub(r"\1", _ENDING.sub("", word))) != word:
        word = bare
    return word


def separate_characters(text: str) -> str:
    """Strip invisible characters, and put spaces around characters of scripts without spaces."""
    return _UNSPACED.sub(
        r" \g<0> ", strip_invisible(text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    )


def word_set(text: str) -> frozenset[str]:
    """Split a list of words at its spaces."""
    return frozenset(text.split())


LINE_LENGTH: Final = 160
"""Characters of a memory that are shown in a line."""
UNPRINTABLE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, those that set the direction of text, and halves of characters."""


def printable_line(text: str) -> str:
    """Join a text into one line without characters that could steer a terminal."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def shorten_line(text: str, length: int) -> str:
    """Cut a text to one line of `length` characters that is safe to print."""
    line = printable_line(text)
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


_ENDS: Final = " .,;:!\N{IDEOGRAPHIC FULL STOP}"
"""Marks at the end of a sentence after NFKC, which has neither an ellipsis nor wide marks."""
_LONGEST: Final = 400
"""Characters without white space of which the forms are compared: to find that of a thousand
combining marks in a row takes Python the square of the time."""


def normalise(text: str) -> str:
    """Normalise a text: without case, runs of white space, and marks at its end.

    A question mark stays, as a question says something else.
    """
    line = " ".join(" ".join(map(_fold_word, text.split())).split())
    return line.rstrip(_ENDS) or line


def fold_case(text: str) -> str:
    """Normalise the case and the spaces of a text alone."""
    return " ".join(text.casefold().split())


def _fold_word(word: str) -> str:
    if word.isascii() or len(word) > _LONGEST:
        return word.casefold()
    return normalize("NFKC", normalize("NFKC", word).casefold())


SENTENCE_ENDS: Final = re.compile("(?<=[.!?\u3002\uff01\uff1f])\\s+|\\n+")
"""Where learned weights, and whatever does not say otherwise, take sentences apart."""


def split_sentences(text: str, ends: re.Pattern[str] = SENTENCE_ENDS) -> list[str]:
    """Take a text apart into the sentences and lines that say something."""
    return [*filter(str.strip, ends.split(text))]


# As texts are compared: by words to which signs belong that say something else


_EDGES: Final = ".,;:!?\"'()[]{}<>…“”«»¿¡"  # not "+" or "#": "C++" and "C#" are words
_EAST_ASIAN: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


def exact_words(text: str) -> list[str]:
    """List the words without case and the punctuation around them; "-5" and "5" differ.

    In scripts that put no spaces between words (Chinese, Japanese), each character is a word.
    """
    apart = _EAST_ASIAN.sub(r" \g<0> ", normalize("NFKC", text).casefold())
    return [word.strip(_EDGES) or word for word in apart.split()]


# As learned weights read it, to the character: words that have vectors, and words and signs

_PLAIN_WORD: Final = re.compile(r"[^\W_](?:[^\W_]|['\u2019](?=[^\W_]))*")
_READ: Final = 1_000
"""Characters of a text that are read for vectors: about two hundred words."""
_KEPT: Final = 4_096
"""Texts whose words are kept: what answers once is asked for again."""


def distinct_words(text: str) -> tuple[str, ...]:
    """List the distinct words of a text, in lower case; each may have a vector."""
    return _words_in(text[:_READ])  # so that no more of it is kept


@lru_cache(maxsize=_KEPT)
def _words_in(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_PLAIN_WORD.findall(text.lower())))


BIAS: Final = "of every text"
"""The name of the constant term; its three words tell it from features of two at most."""
_TOKEN: Final = re.compile(r"\w+|[<>{}\[\]#:!?$/@%*|`=]")
_CLASSES: Final = (
    (re.compile("@"), re.compile(r"(?<![^\s@])[^\s@]+@\S+"), " 0mail "),
    (
        re.compile(r"\.\S|://"),
        re.compile(
            r"https?://\S+|\bwww\.\S+|(?<![\w-])[\w-]{1,63}(?:\.[\w-]{1,63}){0,5}"
            r"\.(?:com|net|org|io|example|dev|test|ai|co|info|biz)\b\S*",
            re.IGNORECASE,
        ),
        " 0url ",
    ),
    (re.compile("[$€£]"), re.compile(r"[$€£]\s?\d[\d.,]*"), " 0sum "),
    (re.compile(r"\d"), re.compile(r"\b\d\w*"), " 0 "),
)
"""Classes of tokens: a quick test, the pattern, and the placeholder."""


def tokens(text: str) -> list[str]:
    """Find the words and signs of a text as they stand, or the kind of what counts as one."""
    for sign, pattern, kind in _CLASSES:
        if sign.search(text):
            text = pattern.sub(kind, text)
    return _TOKEN.findall(separate_characters(text))
