"""A SOUL.md as the fields that it names: by headings, by lines, or by a front matter in YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import yaml  # type: ignore[import-untyped]

from langmem_tiers.core.errors import InvalidInputError, short

_FRONT: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_HEADING: Final = re.compile(r"#{1,6}\s+(?P<name>\S.*)")
_NAMED: Final = re.compile(
    r"(?P<bullet>[-*+]\s+)?\*{0,2}(?P<name>[A-Za-z][\w ]{0,79}?)\*{0,2}\s*:\*{0,2}\s*(?P<said>.*)$"
)
_BULLET: Final = re.compile(r"(?:[-*+]|\d+[.)])\s+(?P<said>.+)$")
_BULLET_RULE: Final = re.compile(
    r"(?P<never>must not|must never|never|do not|don.t)\b|(?P<must>must|always)\b", re.IGNORECASE
)
"""How a bullet begins that is a rule, under whichever heading."""
_LINE_RULE: Final = re.compile(
    r"(?P<never>MUST NOT|MUST NEVER|NEVER|DO NOT)\b|(?P<must>MUST|ALWAYS)\b"
)
"""Likewise a line that is no bullet."""
_RULES: Final = ("must_do", "must_not_do")
_ALIASES: Final = {
    "name": "persona_name",
    "tone": "communication_tone",
    "communication": "communication_tone",
    "communication_style": "communication_tone",
    "style": "communication_tone",
    "background": "backstory",
    "story": "backstory",
    "voice": "voice_traits",
    "traits": "voice_traits",
    "values": "core_values",
    "must": "must_do",
    "do": "must_do",
    "always": "must_do",
    "must_not": "must_not_do",
    "do_not": "must_not_do",
    "never": "must_not_do",
}

Known = Mapping[str, bool]
"""The fields, and whether each is a text and no list."""


def read_soul(text: str, known: Known) -> dict[str, Any]:
    """What a SOUL.md says of each field, and under `persona_name` whom its first heading names.

    Raises:
        InvalidInputError: if its front matter is no YAML, or holds what no field can.
    """
    front, body = _parted(text)
    read = _Lines(known).read(_uncommented(body).splitlines())
    given: dict[str, Any] = {"persona_name": read.title} if read.title else {}
    told, further = _told(front, known)
    named = told.pop("persona_name", [])
    beside = _Lines(known, title="front matter").read(further)
    for said in (read.said, beside.said):
        for name, lines in said.items():
            told.setdefault(name, []).extend(_items(lines, name, known))
    rules, kept = _rules([*read.beside, *beside.beside])
    for name, several in rules.items():
        told.setdefault(name, []).extend(several)
    for name, several in told.items():
        if several or name not in _RULES:
            given[name] = "\n".join(several).strip() if known[name] else several
    if named:
        given["persona_name"] = " ".join(named).strip()
    given["backstory"] = "\n\n".join(one for one in (given.get("backstory"), kept) if one)
    return given


class _Beside(NamedTuple):
    """A line that belongs to no field."""

    text: str
    heading: bool = False


class _Lines:
    """Reads lines: the first heading that names no field, the lines of each field, and the rest."""

    def __init__(self, known: Known, *, title: str = "") -> None:
        self._known = known
        self.title = title
        self.said: dict[str, list[str]] = {}
        self.beside: list[_Beside] = []
        self._section: str | None = None
        """The field that the last heading names."""
        self._open: str | None = None
        """The field that what follows belongs to."""
        self._rule: str | None = None
        """The field of a rule on a line of its own, whose text may go on in the next."""

    def read(self, lines: Iterable[str]) -> _Lines:
        """Take each line."""
        for line in map(str.strip, lines):
            if heading := _HEADING.match(line):
                self._head(heading["name"].rstrip("#").rstrip() or heading["name"])
            elif not self._names(line):
                self._follows(line)
        return self

    def _head(self, name: str) -> None:
        self._section = self._open = _field(name, self._known)
        self._rule = None
        if self._section is None and self.title:
            self.beside.append(_Beside(f"{name}:", heading=True))
        self.title = self.title or (name if self._section is None else "")

    def _names(self, line: str) -> bool:
        """Whether a line names the field that it belongs to; a rule names it for itself alone."""
        named = _NAMED.match(line)
        field = named and _field(named["name"], self._known)
        if not named or not field:
            return False
        said = named["said"]
        if field in _RULES and said and not _BULLET.match(said):
            self.said.setdefault(field, []).append(f"- {said}")
            self._rule = field
            return True
        if named["bullet"] and self._section is not None:
            return False  # an item of the section's list
        self._open, self._rule = field, None
        self.said.setdefault(field, []).append(said)
        return True

    def _follows(self, line: str) -> None:
        if not line or _BULLET.match(line):
            self._end_of_rule()
        field = self._rule or self._open
        if field is not None:
            self.said.setdefault(field, []).append(line)
        elif line:
            self.beside.append(_Beside(line))

    def _end_of_rule(self) -> None:
        if self._rule is not None:
            self.said[self._rule].append("")
            self._rule = None


def _items(lines: Sequence[str], name: str, known: Known) -> list[str]:
    """The text of these lines; of a list its items.

    They are its bullets, each with its further lines, and what stands beside them, parted by
    commas. Rules of several words are not parted.
    """
    if known[name]:
        return ["\n".join(lines).strip()]
    items: list[list[str]] = []
    bullet = False
    for line in lines:
        found = _BULLET.match(line)
        if found:
            items.append([found["said"].strip()])
        elif bullet and line:
            items[-1].append(line)
        else:
            parts = [[part] for one in line.split(",") if (part := one.strip())]
            whole = name in _RULES and any(" " in part for (part,) in parts)
            items += [[line]] if whole else parts
        bullet = bool(found) or (bullet and bool(line))
    return [" ".join(one) for one in items]


def _rules(beside: Sequence[_Beside]) -> tuple[dict[str, list[str]], str]:
    """The rules among lines of no field, by field, and the other lines as a text."""
    rules: dict[str, list[str]] = {name: [] for name in _RULES}
    kept: list[_Beside] = []
    for one in beside:
        bullet = None if one.heading else _BULLET.match(one.text)
        said = bullet["said"] if bullet else one.text
        rule = None if one.heading else (_BULLET_RULE if bullet else _LINE_RULE).match(said)
        if rule and (told := said[rule.end() :].lstrip(" ,:")):
            rules["must_do" if rule["must"] else "must_not_do"].append(told)
        else:
            kept.append(one)
    ends = [*(one.heading for one in kept[1:]), True]  # a heading of nothing goes
    lines = (one.text for one, end in zip(kept, ends, strict=False) if not (one.heading and end))
    return rules, "\n".join(lines)


# A front matter


def _parted(text: str) -> tuple[dict[str, Any], str]:
    """The front matter as texts, lists and mappings, and what stands after it."""
    found = _FRONT.match(text)
    if not found:
        return {}, text
    try:
        # every scalar is a text, as it is written: "no" is no truth value
        front = yaml.load(found["yaml"], Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing else
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the persona's front matter is no YAML: {error}; quote what holds ': ' or begins with "
            "a mark, or leave out the lines of ---"
        ) from error
    return (front, text[found.end() :]) if isinstance(front, dict) else ({}, text)


def _told(front: Mapping[str, Any], known: Known) -> tuple[dict[str, list[str]], list[str]]:
    """What a front matter says of fields, and the rest as lines of Markdown."""
    told: dict[str, list[str]] = {}
    further: list[str] = []
    for key, value in front.items():
        within = value if isinstance(value, dict) and not _field(key, known) else {key: value}
        for name, one in within.items():
            field = _field(name, known)
            if field is None:
                further += [f"# {name}", *(f"- {each}" for each in _written(name, one))]
            elif isinstance(one, str):
                told.setdefault(field, []).extend(_items(one.splitlines(), field, known))
            else:
                told.setdefault(field, []).extend(_written(name, one))
    return told, further


def _written(name: str, value: Any) -> Iterator[str]:
    """The items of a list as they are written; `Cite: sources` is no mapping there."""
    for one in value if isinstance(value, list) else [value]:
        pair = next(iter(one.items())) if isinstance(one, dict) and len(one) == 1 else None
        text = f"{pair[0]}: {pair[1]}" if pair and isinstance(pair[1], str) else one
        if not isinstance(text, str):
            raise InvalidInputError(
                f"{name} in the persona's front matter is a text or a list of texts, not "
                f"{short(one)}"
            )
        yield " ".join(text.split())


def _uncommented(text: str) -> str:
    """The text without the comments that end."""
    pieces, at = [], 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        pieces.append(text[at:begin])
        at = end + 3
    return "".join((*pieces, text[at:]))


def _field(name: str, known: Known) -> str | None:
    """The field that a heading names."""
    words = "_".join(re.findall(r"[a-z]+", name.lower()))
    found = _ALIASES.get(words, words)
    return found if found in known else None
