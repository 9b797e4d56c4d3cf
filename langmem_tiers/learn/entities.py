"""Who and what an interaction is about: the names in its texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from langmem_tiers.learn.interaction import context_of, parts_of, texts_of


def entities_of(interaction: Mapping[str, Any]) -> tuple[str, ...]:
    """Who and what an interaction is about, in order of appearance, each once whatever its case.

    Its own `entities`, if it has that field; else, of all its texts, @handles, #tags, names in
    quotation marks (up to five words) and capitalised names. An opening word counts as a name
    only if it looks like one: it is spelled like PostgreSQL, is a name elsewhere, or begins a
    name of several words and is no usual opening. Of scripts without capitals, only the marked.

    Raises:
        InvalidTypeError: `entities` is no list of texts, or a text is of the wrong type.
    """
    parts, context = parts_of(interaction), context_of(interaction)
    given = interaction.get("entities")
    told = [*parts.values(), *([context] if isinstance(context, str) else [])]
    found = _named("\n".join(told)) if given is None else texts_of(given, "entities")
    # Turned round, so that the first spelling of a name wins.
    spelled = {name.casefold(): name for name in reversed(found)}
    return tuple(spelled[name] for name in dict.fromkeys(map(str.casefold, found)))


_LINKS = frozenset(["of", "de", "del", "van", "von", "der", "da", "di", "la"])
"""Words inside names: Bank of America."""
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
        a an the i we you he she it they me us him her them my our your his its their this that
        these those there here one some any all no not yes ok okay and or but so if when while as
        because since although though then than however also too in on at by for from to of with
        without after before during about into over under between per via who what which where
        why how whose is are was were be been am has have had do does did can could will would
        shall should may might must let please thanks thank hi hello hey sorry sure use try make
        get give take see set run add ask tell show find create write read open check fix note
        remember never always only just now today tomorrow yesterday next last first finally asked
        added fixed built wrote made ran sent got gave took saw said told met found kept left went
        put using used noted monday tuesday wednesday thursday friday saturday sunday january
        february march april june july august september october november december pm utc todo
        """,
    )
)
"""Words that are capitalised for their place or by custom, and are no names by themselves."""
_MOST_WORDS = 5  # longer runs of capitalised words are headlines, or shouting
_SHORT_WORD = 6  # a longer one in -ed or -ing that opens a sentence is taken for a verb
_WORD = r"[^\W_]\w*(?:[.'&-]\w+)*[+#]*"
_TOKEN = re.compile(
    r"(?:https?://\S+|(?<![\w.+-])[\w.+-]+@[\w.-]+)"
    r"|(?P<mark>(?<![\w@/&])@\w+(?:[.-]\w+)*|(?<![\w#/&])#\w*[^\W\d_]\w*)"
    rf"|[\"“«「](?P<quoted>{_WORD}(?: {_WORD}){{0,{_MOST_WORDS - 1}}})[.,]?[\"”»」]"
    rf"|(?P<word>(?:Dr|Mr|Mrs|Ms|Prof)\.|{_WORD})"
)
_OPENS = re.compile(r"[.!?…:;\n\"“«「]")


class _Mention(NamedTuple):
    """Words that may be a name; `opens` says whether they open a sentence."""

    words: list[str]
    opens: bool = False
    marked: bool = False


def _named(text: str) -> list[str]:
    mentions = list(_mentions(text.replace("\u2019", "'")))
    inside = {word for one in mentions if not one.marked for word in one.words[one.opens :]}
    names = (one.words[0] if one.marked else _name(one, inside) for one in mentions)
    return [name for name in names if name and not _is_common(name)]


def _mentions(text: str) -> Iterator[_Mention]:
    """Marked names and runs of capitalised words, in order."""
    run, end = _Mention([]), 0
    for token in _TOKEN.finditer(text):
        word, between = token["word"] or "", text[end : token.start()]
        if run.words and between == " " and (word[:1].isupper() or word in _LINKS):
            run.words.append(word)
        else:
            yield run
            opens = not end or bool(_OPENS.search(between))
            run = _Mention([word] if word[:1].isupper() else [], opens)
        if marked := token["mark"] or token["quoted"]:
            yield _Mention([marked], marked=True)
        end = token.end()
    yield run


def _name(mention: _Mention, inside: set[str]) -> str:
    """The name in a run of words; empty if there is none."""
    words = mention.words
    if len(words) > _MOST_WORDS:
        return ""
    while words and _is_common(words[0]):
        words = words[1:]
    while words and _is_common(words[-1]):
        words = words[:-1]
    if words and mention.opens and words[0] not in inside and not _looks_named(words):
        words = words[1:]
    return " ".join(words).removesuffix("'s")


def _is_common(word: str) -> bool:
    stem, _, ending = word.casefold().partition("'")
    return ending == "t" or stem in _COMMON or stem in _LINKS


def _looks_named(words: list[str]) -> bool:
    """Whether the word that opens a sentence is (part of) a name, by its looks."""
    first = words[0]
    if not first.replace("-", "").isalpha() or any(letter.isupper() for letter in first[1:]):
        return True
    is_verb = len(first) > _SHORT_WORD and first.endswith(("ed", "ing"))
    return len(words) > 1 and not is_verb
