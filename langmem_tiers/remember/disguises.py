"""What a text says behind a disguise: look-alike letters, hidden signs, codes, letters apart."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterator
from string import ascii_lowercase
from typing import Final
from urllib.parse import unquote

from langmem_tiers.core.reading import visible

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
_LONGEST: Final = 20_000
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
    return visible(html.unescape(text))


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
        for found in pattern.findall(text[:_LONGEST]):
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
