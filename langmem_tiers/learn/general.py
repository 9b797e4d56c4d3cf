"""Whether what one project learned goes to everybody as it stands, or needs somebody's words.

Nothing is rewritten here and nothing is guessed: what holds a text back is said, and a person or a
model says it in general words, or it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langmem_tiers.core.reading import LOOKED_AT, normalised, words
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.core.values import content_of
from langmem_tiers.learn.identifying import identifying
from langmem_tiers.learn.reflexion import LESSON_FROM

TAUGHT: Final = ("original_approach", "failure_reason", "improved_approach")
"""Fields of a lesson that say what was learned."""
_CAPITALISE_NOUNS: Final = frozenset({"german"})
"""The languages of an index in which a capital says nothing of a word."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_BEGINS: Final = re.compile(r"(?:\A|\n|[.!?:;…][^\w\s]*\s)[^\w\n]*\Z")
"""What stands before the first word of a sentence."""
_LOOKED_BACK: Final = 12
"""Characters before a word in which the end of another sentence is sought."""
_IN_A_ROW: Final = 5
"""So many words of what somebody said, one after another, are a quotation."""
_NAMED: Final = 3
"""So many of the words that hold a text back are told."""


class Neighbourhood(NamedTuple):
    """What is known of the words of a tenant, as a project's memory is compared with them."""

    labels: Sequence[str]
    """What its own context and those who used it are called, where that is no common word."""
    known: frozenset[str]
    """Words of the tenant's other projects, without case."""
    titled: frozenset[str]
    """Words that the project itself capitalises inside a sentence."""
    said: Sequence[str]
    """What somebody said in the project's conversations."""
    capitals: bool
    """Whether a capital tells a name from other words."""


def neighbourhood(
    content: str,
    labels: Iterable[str],
    own: Iterable[str],
    others: Sequence[str],
    *,
    said: Sequence[str] = (),
    language: str = "",
) -> Neighbourhood:
    """Read what the project's own memories say, those of the others, and its conversations.

    A label is a common word if it is one word, and another project's memory, that does not say
    what the content does, has it in small letters.
    """
    same = normalised(content)
    beside = (text for text in others if normalised(text) != same)
    small = {word for text in beside for word in _WORD.findall(text) if word.islower()}
    return Neighbourhood(
        [one for one in dict.fromkeys(labels) if one.casefold() not in small],
        frozenset[str]().union(*map(_folded, others)),
        frozenset(
            word
            for text in own
            for word, begins in _titled(text.removeprefix(LESSON_FROM))
            if not begins
        ),
        said,
        language.rpartition(".")[2] not in _CAPITALISE_NOUNS,
    )


def _titled(text: str) -> Iterator[tuple[str, bool]]:
    """Words that begin with a capital, and whether each begins a sentence as well; "I" is none."""
    for found in _WORD.finditer(text):
        start = found.start()
        if len(found[0]) > 1 and found[0][0].isupper():
            yield found[0], bool(_BEGINS.search(text, max(0, start - _LOOKED_BACK), start))


def needs_words(value: Mapping[str, Any], around: Neighbourhood) -> str | None:
    """Why a memory goes to everybody only in words that somebody wrote; None if it need not."""
    content = content_of(value).removeprefix(LESSON_FROM)
    lesson = value.get("memory_type") == REFLEXION
    texts = [content, *(value[name] for name in TAUGHT if isinstance(value.get(name), str))]
    if value.get("speaker"):
        return "it was said in a conversation"
    if lesson and (_asked(value, content) or any(quotes(one, around.said) for one in texts)):
        return "it quotes a conversation"
    if sum(map(len, texts)) > LOOKED_AT:
        return "it is too long to be looked at as a whole"
    found = dict.fromkeys(one for text in texts for one in names_in(text, around))
    more = ", …" if len(found) > _NAMED else ""
    return f"it names {', '.join(list(found)[:_NAMED])}{more}" if found else None


def _asked(value: Mapping[str, Any], content: str) -> bool:
    """Whether a lesson is told with what somebody asked for, in more words than a task's name."""
    task = str(value.get("task_id"))
    return f"\nAsked: {task}\n" in content and any(True for _ in _rows(task))


def quotes(text: str, said: Iterable[str]) -> bool:
    """Whether five words of a text stand in a row in what somebody said."""
    rows = set(_rows(text))
    return any(not rows.isdisjoint(_rows(one)) for one in said) if rows else False


def _rows(text: str) -> Iterator[tuple[str, ...]]:
    found = words(text)
    return zip(*(found[start:] for start in range(_IN_A_ROW)), strict=False)


def names_in(text: str, around: Neighbourhood) -> Iterator[str]:
    """What a text names: what identifies by its form, then words by their capitals.

    A word does that begins with a capital inside a sentence, or does so elsewhere in its project,
    and that no other project of the tenant knows.
    """
    yield from identifying(text, around.labels)
    if not around.capitals:
        return
    for word, begins in _titled(text):
        if (not begins or word in around.titled) and word.casefold() not in around.known:
            yield word


def is_plain(word: str, around: Neighbourhood, general: str | None = None) -> bool:
    """Whether a word that stands alone, such as a tag, names nobody: each capital is known.

    Beside `general` words of somebody it is known itself, to these or to another project.
    """
    known = around.known if general is None else around.known | _folded(general)
    every = general is not None
    named = (one for one in _WORD.findall(word) if every or (around.capitals and one[0].isupper()))
    return all(one.casefold() in known for one in named) and not identifying(word, around.labels)


def _folded(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))
