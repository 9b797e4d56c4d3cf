"""What one project learned, said so that everybody may read it: without a model.

`abstracted` puts placeholders in the place of all that identifies; `leaks` says what still does.
Both go by the same rules, so that nothing leaks from what was abstracted.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.learn.identifying import (
    END,
    IDS,
    NAME,
    PLACEHOLDERS,
    SECRETS,
    START,
    Rule,
)
from langmem_tiers.learn.places import PLACES

PROJECT: Final = "the project"
"""Stands for a private name where it is a word of a sentence; within code, `<name>` does."""

_KEPT: Final = f"{'|'.join(PLACEHOLDERS)}|{START}{PROJECT}{END}"
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_BETWEEN: Final = r"[\s_./-]?"
_GLUE_BEFORE: Final = frozenset("_-./\\@#$:=")
_GLUE_AFTER: Final = re.compile(r"[_\-/\\(=]|[.:@]\w")
_IN_CAMEL_CASE: Final = 4
"""Letters of a name from which on it is found within other names: `acme` in `AcmeClient`."""


class Generaliser(NamedTuple):
    """Says for everybody what was learned in one project; the names are private ones.

    What both return is checked by nobody else: it must not identify the project.
    """

    call: Callable[[str, Sequence[str]], str]
    acall: Callable[[str, Sequence[str]], Awaitable[str]]


def abstracted(content: str, private: Iterable[str]) -> str:
    """The text without what identifies anybody; abstracted again, it stays the same.

    `private` are names of projects, agents, sessions and tenants, found in any case and spelling
    (`billing-service`, `billing_service`, `BillingService`), as words of their own. Paths, URLs,
    hosts, e-mail addresses, ids, tickets and secrets are known by their form. Names of one
    character, or without a letter or digit, say nothing of anybody and are left.

    Takes time in proportion to the text and to the number of names.
    """
    rules = _rules(private)
    while True:  # ends: every round leaves less that is not a placeholder
        content, found = _swept(content, rules)
        if not found:
            return content


def leaks(text: str, private: Iterable[str]) -> tuple[str, ...]:
    """What identifies somebody in a text, each once and as it stands there; see `abstracted`."""
    return tuple(dict.fromkeys(_swept(text, _rules(private))[1]))


async def _aabstracted(content: str, private: Sequence[str]) -> str:
    return abstracted(content, private)


DETERMINISTIC: Final = Generaliser(abstracted, _aabstracted)
"""Without a model: the same text for the same memory, always."""


def _swept(text: str, rules: tuple[Rule, ...]) -> tuple[str, list[str]]:
    """The text after each rule was applied once, and what they found."""
    found: list[str] = []

    def put(rule: Rule, match: re.Match[str]) -> str:
        new = rule.put(match)
        if new != match[0]:
            found.append(match[rule.group])
        return new

    for rule in rules:
        text = rule.pattern.sub(partial(put, rule), text)
    return text, found


def _rules(private: Iterable[str]) -> tuple[Rule, ...]:
    """Names stand before ids, which may be parts of them, and after places, which hold them."""
    if isinstance(private, str):
        raise InvalidTypeError(
            f"private is a list of names, such as ['acme'], not {short(private)}"
        )
    return *SECRETS, *PLACES, *_names(frozenset(private)), *IDS


@lru_cache(maxsize=64)
def _names(private: frozenset[str]) -> tuple[Rule, ...]:
    spelt = {tuple(_WORDS.findall(name)) for name in private}
    names = sorted((one for one in spelt if len("".join(one)) > 1), key=_longest_first)
    if not names:
        return ()
    spoken = "|".join(map(_spoken, names))
    coded = "|".join(map(_coded, names))
    pattern = re.compile(
        rf"{_KEPT}|(?P<before>{START}(?i:the|our|my) )?"
        rf"(?P<name>{START}(?i:{spoken}){END}|{coded})"
        rf"(?P<after> (?i:project|repository|repo|codebase|service){END})?"
    )
    return (Rule(pattern, _named, "name"),)


def _longest_first(words: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    return -len("".join(words)), words


def _spoken(words: tuple[str, ...]) -> str:
    return _BETWEEN.join(map(re.escape, words))


def _coded(words: tuple[str, ...]) -> str:
    """The name within another one in camel case; a pattern that never matches if it is short."""
    if len("".join(words)) < _IN_CAMEL_CASE:
        return "(?!)"
    first, *others = (re.escape(one.capitalize()) for one in words)
    low = re.escape(words[0].lower())
    return f"(?:(?<=[a-z0-9]){first}|{START}(?:{first}|{low})){''.join(others)}(?![a-z0-9])"


def _named(found: re.Match[str]) -> str:
    name = found["name"]
    if name is None:
        return found[0]
    if _within_code(found.string, *found.span("name")):
        return f"{found['before'] or ''}{NAME}{found['after'] or ''}"
    return PROJECT


def _within_code(text: str, start: int, end: int) -> bool:
    before, after = text[max(start - 1, 0) : start], text[end : end + 1]
    if before in _GLUE_BEFORE or before.isalnum() or after.isalnum():
        return True
    return _GLUE_AFTER.match(text, end) is not None
