"""Match texts with the names of a subject, and with passages of forgotten memories.

Names are compared by their words without case, accents and points. A form with another ending or
spelling may be another name: it is near one, and is only ever told.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from unicodedata import combining, normalize

from langmem_tiers.core.context import name_of_label
from langmem_tiers.core.memory import decode_namespace
from langmem_tiers.core.texts import separate_characters, split_sentences

FORGOTTEN_HERE: Final = "(forgotten)"
"""The replacement of a forgotten text."""
_LEFT_OUT: Final = frozenset((*range(10, 37), *range(200, 255)))
"""The canonical combining classes of marks that writing may leave out: points of Hebrew and Arabic,
and accents. The classes between and before them are letters of other scripts."""
_SHORTEST: Final = 3
"""The fewest letters that two near words have in common."""
_LONG_WORD: Final = 6
"""The length from which on a word may differ in its last two letters, not one: our own choice."""
_ENDING: Final = 3
"""The most letters by which a near word may be longer: our own choice."""
_REPEAT_WORDS: Final = 7
"""Words in a row that repeat a text, whatever is around them: our own choice."""
_PART_WORDS: Final = 4
"""Words that a text must have to count as a part of another one: our own choice."""
_SENTENCE_WORDS, _SENTENCE_LETTERS = 3, 12
"""The fewest words, or letters, of a sentence that is searched in other texts."""
_WORD: Final = re.compile(r"[^\W_]+")
_ENDS: Final = re.compile(r"(?<=[.!?…\u3002\uff01\uff1f])\s+|\n+")
_TOKEN: Final = re.compile(r"[^\s\"'()\[\]{},;]+")
_DISTINCTIVE_KEY: Final = 8
"""Characters of a key that, if not all of them are letters, means nothing else."""


def fold_text(text: str) -> str:
    """Fold the case of a text."""
    return text.lower() if text.isascii() else separate_characters(text).casefold()


def words_of(text: str) -> list[str]:
    """Split a text into words: letters and digits, without case."""
    return _WORD.findall(fold_text(text))


def first_word(text: str) -> str | None:
    """Find the first word of a text; None if it has none."""
    match = _WORD.search(fold_text(text))
    return None if match is None else match[0]


def strip_accents(text: str) -> str:
    """Normalise a text: without case, accents and points."""
    if text.isascii():
        return text.lower()
    marked = normalize("NFD", fold_text(text))
    return normalize(
        "NFC", "".join(character for character in marked if combining(character) not in _LEFT_OUT)
    )


def name_words(text: str) -> list[str]:
    """Split a name into words, as names are compared."""
    return _WORD.findall(strip_accents(text))


sentences: Final = partial(split_sentences, ends=_ENDS)
"""Takes a text apart into its sentences and lines, as they are written."""


def is_distinctive(sentence_words: Sequence[str]) -> bool:
    """Tell whether a sentence of these words says enough to be known again in other texts."""
    return (
        len(sentence_words) >= _SENTENCE_WORDS or sum(map(len, sentence_words)) >= _SENTENCE_LETTERS
    )


def word_runs(text_words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """List all runs of `size` words."""
    return (tuple(text_words[start : start + size]) for start in range(len(text_words) - size + 1))


def strings_of(value: object, *, names: bool = False) -> Iterator[str]:
    """List every text in JSON, and with `names` the names of fields."""
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            rest += item.values()
            if names:
                yield from item
        elif isinstance(item, Sequence) and not isinstance(item, bytes | bytearray | memoryview):
            rest += item


def namespace_names(namespace: str) -> list[str]:
    """Decode the names in a stored namespace, without its tenant."""
    return [
        name
        for label in decode_namespace("", namespace)[1:]
        if (name := name_of_label(label)) is not None
    ]


class Subject:
    """A person or a thing, by one name or several."""

    def __init__(self, *names: str) -> None:
        """Hold the words of each name."""
        self.names = tuple(dict.fromkeys(tuple(name_words(name)) for name in names))
        self._heads = frozenset(word[:_SHORTEST] for name in self.names for word in name)

    def is_named_in(self, text: str) -> bool:
        """Tell whether a text has one of the names as a phrase."""
        stripped = strip_accents(text)
        possible = [name for name in self.names if all(word in stripped for word in name)]
        return any(name in word_runs(_WORD.findall(stripped), len(name)) for name in possible)

    def is_named_among(self, texts: Iterable[str | None]) -> bool:
        """Tell whether one of these texts has one of the names."""
        return any(text is not None and self.is_named_in(text) for text in texts)

    def is_meant_by(
        self, value: Mapping[str, Any], speaker: str | None, key: str = "", namespace: str = ""
    ) -> str | None:
        """Name the reason why a memory is about the subject, or by it; None if it is neither."""
        if speaker is not None and self._is(speaker):
            return "said by the subject"
        entities = value.get("entities")
        listed_entities = entities if isinstance(entities, list) else []
        if any(isinstance(entity, str) and self._is(entity) for entity in listed_entities):
            return "the subject is among its entities"
        if self.is_named_among(strings_of(value, names=True)):
            return "it names the subject"
        if self.is_named_in(key):
            return "its key names the subject"
        if self.is_named_among([speaker, *namespace_names(namespace)]):
            return "its place names the subject"
        return None

    def near_in(self, text: str) -> Iterator[str]:
        """Find the parts of a text that are near a name and are none, as they are written."""
        pairs = [(word, strip_accents(word)) for word in _WORD.findall(separate_characters(text))]
        if not any(word[:_SHORTEST] in self._heads for _, word in pairs):
            return
        near = [run for name in self.names for run in self._near(name, pairs)]
        parts = {part for name in self.names if len(name) > 1 for part in name}
        single = (written for written, word in pairs if any(_is_near(part, word) for part in parts))
        yield from near or single

    def _near(self, name: tuple[str, ...], pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
        """Find the runs of as many words as a name has that are near it."""
        for start in range(len(pairs) - len(name) + 1):
            run = pairs[start : start + len(name)]
            words = tuple(word for _, word in run)
            if words not in self.names and all(map(_is_near, name, words)):
                yield " ".join(written for written, _ in run)

    def _is(self, text: str) -> bool:
        return tuple(name_words(text)) in self.names


def _is_near(known_word: str, word: str) -> bool:
    """Tell whether a word begins as another one does, but for an ending."""
    if known_word == word:
        return True
    same = max(_SHORTEST, len(known_word) - (2 if len(known_word) >= _LONG_WORD else 1))
    return (
        len(word) <= len(known_word) + _ENDING
        and len(word) >= same
        and word[:same] == known_word[:same]
    )


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
        self._spaced = [key for key in self.keys if _TOKEN.fullmatch(key) is None]
        self._phrases = defaultdict[int, set[int]](set)
        self._inside = defaultdict[int, set[int]](set)
        for text in dict.fromkeys(texts):
            self._add(text)

    def _add(self, text: str) -> None:
        parts = {tuple(words_of(sentence)) for sentence in sentences(text)}
        own = [part for part in parts if part not in self._common]
        if len(own) == len(parts):
            own.append(tuple(words_of(text)))
        for sentence_words in own:
            for size in range(_PART_WORDS, _REPEAT_WORDS):
                self._inside[size].update(map(hash, word_runs(sentence_words, size)))
            self._phrases[_REPEAT_WORDS].update(map(hash, word_runs(sentence_words, _REPEAT_WORDS)))
            if is_distinctive(sentence_words) and len(sentence_words) < _REPEAT_WORDS:
                self._phrases[len(sentence_words)].add(hash(sentence_words))

    def repeated_in(self, text: str) -> bool:
        """Tell whether a text repeats what is forgotten."""
        if self.subject is not None and self.subject.is_named_in(text):
            return True
        text_words = words_of(text)
        if hash(tuple(text_words)) in self._inside.get(len(text_words), ()):
            return True
        return any(
            not phrases.isdisjoint(map(hash, word_runs(text_words, size)))
            for size, phrases in self._phrases.items()
        )

    def scrubbed(self, value: Any, *, related: bool = False) -> Any:
        """Replace the forgotten texts and keys in JSON.

        What repeats a text is replaced whole, and of what names a key the key; a key that may be
        anybody's word only where `related`.
        """
        if isinstance(value, str):
            if self.repeated_in(value):
                return FORGOTTEN_HERE
            return self._without_keys(value, related=related)
        if isinstance(value, Mapping):
            fields: dict[str, Any] = {}
            for name, part in value.items():
                fields[self._field(name, fields)] = self.scrubbed(part, related=related)
            return fields
        if isinstance(value, list):
            return [self.scrubbed(part, related=related) for part in value]
        return value

    def holds(self, value: Any) -> bool:
        """Tell whether JSON has anything of what is forgotten."""
        return bool(self.scrubbed(value) != value)

    def _field(self, name: str, taken: Collection[str]) -> str:
        """Scrub the name of a field, which may be a key of a memory."""
        if name not in self.keys and not self.repeated_in(name):
            return name
        number = sum(field.startswith(FORGOTTEN_HERE) for field in taken)
        return FORGOTTEN_HERE if not number else f"{FORGOTTEN_HERE} {number + 1}"

    def _without_keys(self, text: str, *, related: bool) -> str:
        if text in self.keys:
            return FORGOTTEN_HERE
        for key in self._spaced:
            text = text.replace(key, FORGOTTEN_HERE)

        def kept(match: re.Match[str]) -> str:
            token = match[0]
            key = token.rstrip(".:!?")
            quoted = text[match.start() - 1 : match.start()] in ("'", '"')
            telling = (
                len(key) >= _DISTINCTIVE_KEY and not key.isalpha()
            )  # hardly anybody else's word
            meant = related or quoted or telling
            return FORGOTTEN_HERE + token[len(key) :] if meant and key in self.keys else token

        return _TOKEN.sub(kept, text) if self.keys else text
