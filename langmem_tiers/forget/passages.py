"""What is forgotten, as texts: found where it is repeated, and left out there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from langmem_tiers.core.reading import spaced
from langmem_tiers.forget.subject import Subject

FORGOTTEN_HERE: Final = "(forgotten)"
"""What stands in place of what was forgotten."""
_RUN: Final = 7
"""Words in a row that repeat a text, whatever is around them: our own choice."""
_INSIDE: Final = 4
"""Words that a text must have to count as a part of another one: our own choice."""
_SENTENCE_WORDS, _SENTENCE_LETTERS = 3, 12
"""What of a sentence is enough to be sought in other texts: so many words, or so many letters."""
_WORD: Final = re.compile(r"[^\W_]+")
_SENTENCES: Final = re.compile(r"(?<=[.!?…\u3002\uff01\uff1f])\s+|\n+")
_TOKEN: Final = re.compile(r"[^\s\"'()\[\]{},;]+")
_TELLING: Final = 8
"""Characters of a key that, if not all of them are letters, means nothing else."""


def words_of(text: str) -> list[str]:
    """The words of a text in order: its letters and digits, without case."""
    return _WORD.findall(_folded(text))


def first_word(text: str) -> str | None:
    """The first of them."""
    found = _WORD.search(_folded(text))
    return None if found is None else found[0]


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else spaced(text).casefold()


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, as they are written."""
    return [one for one in _SENTENCES.split(text) if one.strip()]


def sought(text: str) -> bool:
    """Whether a sentence says enough to be known again in other texts."""
    said = words_of(text)
    return len(said) >= _SENTENCE_WORDS or sum(map(len, said)) >= _SENTENCE_LETTERS


class Passages:
    """Texts that are forgotten, the keys of these memories, and a subject, if one is.

    A text repeats them if it has a sentence of theirs, seven words of theirs in a row, or the
    subject's name; or if it is itself a part of one, of four words or more.
    """

    def __init__(
        self,
        texts: Iterable[str],
        keys: Collection[str] = (),
        subject: Subject | None = None,
        common: Collection[tuple[str, ...]] = (),
    ) -> None:
        """Take the texts apart; sentences that are `common`, by their words, are not theirs."""
        self._common = common
        self.keys = frozenset(keys)
        self.subject = subject
        self._spaced = [one for one in self.keys if _TOKEN.fullmatch(one) is None]
        self._phrases: dict[int, set[int]] = {}
        self._inside: dict[int, set[int]] = {}
        for text in dict.fromkeys(texts):
            self._add(text)

    def _add(self, text: str) -> None:
        parts = {tuple(words_of(one)) for one in sentences(text)}
        own = [one for one in parts if one not in self._common]
        if len(own) == len(parts):
            own.append(tuple(words_of(text)))
        for said in own:
            for size in range(_INSIDE, _RUN):
                self._inside.setdefault(size, set()).update(_runs(said, size))
            self._phrases.setdefault(_RUN, set()).update(_runs(said, _RUN))
            enough = len(said) >= _SENTENCE_WORDS or sum(map(len, said)) >= _SENTENCE_LETTERS
            if enough and len(said) < _RUN:
                self._phrases.setdefault(len(said), set()).add(hash(said))

    def repeated_in(self, text: str) -> bool:
        """Whether a text repeats what is forgotten."""
        if self.subject is not None and self.subject.is_named_in(text):
            return True
        said = words_of(text)
        if hash(tuple(said)) in self._inside.get(len(said), ()):
            return True
        return any(not known.isdisjoint(_runs(said, size)) for size, known in self._phrases.items())

    def left_of(self, text: str) -> str:
        """A text without the sentences and lines that repeat what is forgotten."""
        if not self.repeated_in(text):
            return text
        lines = []
        for line in text.split("\n"):
            kept = [one for one in sentences(line) if not self.repeated_in(one)]
            if kept or not line.strip():
                lines.append(" ".join(kept))
        left = "\n".join(lines).strip()
        return "" if self.repeated_in(left) or not words_of(left) else left

    def names(self, text: str, *, related: bool) -> bool:
        """Whether a text has a key of theirs; a word that may be anybody's only where `related`."""
        return self._without_keys(text, related=related) != text

    def scrubbed(self, value: Any, *, related: bool = False) -> Any:
        """JSON without what is forgotten.

        What repeats a text is replaced whole, and of what names a key the key.
        """
        if isinstance(value, str):
            if self.repeated_in(value):
                return FORGOTTEN_HERE
            return self._without_keys(value, related=related)
        if isinstance(value, Mapping):
            fields: dict[str, Any] = {}
            for name, one in value.items():
                fields[self._field(name, fields)] = self.scrubbed(one, related=related)
            return fields
        if isinstance(value, list):
            return [self.scrubbed(one, related=related) for one in value]
        return value

    def _field(self, name: str, taken: Collection[str]) -> str:
        """A name of a field, which may be a key, such as in what a commit refused."""
        if name not in self.keys and not self.repeated_in(name):
            return name
        number = sum(one.startswith(FORGOTTEN_HERE) for one in taken)
        return FORGOTTEN_HERE if not number else f"{FORGOTTEN_HERE} {number + 1}"

    def _without_keys(self, text: str, *, related: bool) -> str:
        if text in self.keys:
            return FORGOTTEN_HERE
        for key in self._spaced:
            text = text.replace(key, FORGOTTEN_HERE)

        def kept(found: re.Match[str]) -> str:
            token = found[0]
            bare = token.rstrip(".:!?")
            quoted = text[found.start() - 1 : found.start()] in ("'", '"')
            meant = related or quoted or _tells(bare)
            return FORGOTTEN_HERE + token[len(bare) :] if meant and bare in self.keys else token

        return _TOKEN.sub(kept, text) if self.keys else text


def _tells(key: str) -> bool:
    """Whether a key is hardly a word of anybody else's."""
    return len(key) >= _TELLING and not key.isalpha()


def _runs(said: Sequence[str], size: int) -> set[int]:
    """So many words in a row, each of them as a number."""
    return {hash(tuple(said[start : start + size])) for start in range(len(said) - size + 1)}
