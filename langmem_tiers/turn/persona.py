"""Who an agent is, from a SOUL.md, and the state that it is in, as sections."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from langmem_tiers.core.checks import checked_strings
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.recall.fence import labelled
from langmem_tiers.turn.layout import Fragment, Section

_NAME: Final = "**Name**: "
_BACKSTORY: Final = "**Backstory**: "
_RULES: Final = {"MUST": "must_do", "MUST NOT": "must_not_do"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    r"""Who an agent is, with the seven fields of the specification; a source of a turn.

    Raises:
        InvalidInputError: if it has no name, or a field is of another type than it says.

    Example:
        ```python
        from langmem_tiers import Persona

        soul = Persona.of_markdown("# Nova\n\n## Core Values\n- Honesty\n")
        assert (soul.persona_name, soul.core_values) == ("Nova", ("Honesty",))
        ```
    """

    persona_name: str
    backstory: str = ""
    communication_tone: str = ""
    voice_traits: Sequence[str] = ()
    core_values: Sequence[str] = ()
    must_do: Sequence[str] = ()
    must_not_do: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse who has no name."""
        for one in fields(self):
            given = getattr(self, one.name)
            if one.type == "str":
                if not isinstance(given, str):
                    raise InvalidTypeError(f"{one.name} is a text, not {type(given).__name__}")
                utf8_bytes(given, one.name)
                continue
            object.__setattr__(self, one.name, tuple(checked_strings(given, one.name)))
        if not self.persona_name.strip():
            raise InvalidInputError(
                "the persona has no name: begin its file with '# Name', or give persona_name"
            )

    @classmethod
    def of_markdown(cls, text: str | Path) -> Persona:
        """Read a SOUL.md: headings (`## Core Values`) or lines (`**Name**: Nova`) name the fields.

        So do the keys of a front matter in YAML, whose lists are taken whole. The first heading
        names the persona, unless a field does. A list is its bullets and lines, each as it stands;
        short lines are parted by commas. "MUST NOT: …" and "MUST: …" make that one line a rule,
        wherever it stands. What stands elsewhere is kept: a bullet that begins with "Must",
        "Always", "Must not", "Never" or "Do not" as a rule, and a line that begins with one of them
        in capitals; all else at the end of the backstory, under its heading.

        Args:
            text: The file's text, or its `Path`.

        Raises:
            InvalidInputError: if it names nobody, or the file or its front matter cannot be read.
        """
        if isinstance(text, Path):
            text = _file(text)
        if not isinstance(text, str):
            raise InvalidTypeError(f"a persona is a text or a Path, not {type(text).__name__}")
        return cls(**_read_soul(text, {one.name for one in fields(cls) if one.type == "str"}))

    @property
    def version(self) -> str:
        """The same for the same persona."""
        return hashlib.sha256(self._text().encode()).hexdigest()[:12]

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Section:  # noqa: ARG002 - a source's
        """The persona as a section; it is the same for every prompt.

        Where there is no room for all of it, the backstory is cut; its name and rules always stand.
        """
        name = f"{_NAME}{self.persona_name}"
        begin = len(f"{name}\n{_BACKSTORY}") if self.backstory else len(name)
        said = Fragment(
            text=self._text(),
            source="persona",
            version=self.version,
            rationale="who the agent is",
            data=False,
            cut=(begin, begin + len(self.backstory)),
            least="\n\n".join(one for one in (name, self._rules()) if one),
        )
        return Section((said,))

    def _text(self) -> str:
        values = "".join(f"\n- {one}" for one in self.core_values)
        parts = (
            _lines({_NAME: self.persona_name, _BACKSTORY: self.backstory}),
            _lines(
                {
                    "**Communication Style**: ": self.communication_tone,
                    "**Voice Traits**: ": ", ".join(self.voice_traits),
                }
            ),
            _lines({"**Core Values**:": values}),
            self._rules(),
        )
        return "\n\n".join(one for one in parts if one)

    def _rules(self) -> str:
        lists = {f"{name}: ": getattr(self, field) for name, field in _RULES.items()}
        told = {name: "\n".join(f"- {one}" for one in rules) for name, rules in lists.items()}
        return "\n".join(["**Behavioral Rules**:", _lines(told)]) if any(told.values()) else ""


def _lines(told: Mapping[str, str]) -> str:
    """What is told under each name, as far as anything is."""
    return "\n".join(f"{name}{one}" for name, one in told.items() if one)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationalState:
    """The state an agent is in, as a source of a turn.

    `emotional_state` has a `primary_emotion`, and a `confidence_level` in 0…1 if that is known. If
    it is None, the mood is not known.
    """

    emotional_state: Mapping[str, Any] | None = None
    active_tasks: Sequence[Any] = ()
    system_status: str = "Operational"

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Section:  # noqa: ARG002 - a source's
        """The state as a section."""
        text = "\n".join(
            (
                f"**Emotional State**: {self._emotion()}",
                f"**Active Workload**: {len(self.active_tasks)} active tasks",
                f"**System Status**: {self.system_status}",
            )
        )
        return Section((Fragment.own(text, "state", "how the agent is"),))

    def _emotion(self) -> str:
        if not self.emotional_state:
            return "Unknown"
        try:
            emotion = labelled(str(self.emotional_state["primary_emotion"]))
            level = self.emotional_state.get("confidence_level")
            return emotion if level is None else f"{emotion} (confidence: {float(level):.2f})"
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                "an emotional state has a primary_emotion and a confidence_level in 0…1, not "
                f"{short(dict(self.emotional_state))}"
            ) from error


# A SOUL.md: headings, lines, or a front matter in YAML name the fields

_FRONT: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING: Final = re.compile(r"#{1,6}\s+(?P<name>\S.*)")
_NAMED: Final = re.compile(
    r"(?:[-*+]\s+)?\*{0,2}(?P<name>[A-Za-z][\w ]{0,79}?)\*{0,2}\s*:\*{0,2}\s*(?P<said>.*)$"
)
_BULLET: Final = re.compile(r"(?:[-*+]|\d+[.)])\s+(?P<said>.+)$")
_RULE: Final = re.compile(
    r"\*{0,2}(?P<word>(?P<never>must not|must never|never|do not|don.t)|must|always)\b"
    r"\*{0,2}\s*(?P<colon>:?)\*{0,2}[ ,]*(?P<said>.*)$",
    re.IGNORECASE,
)
"""A rule: with a colon wherever it stands, else as a bullet of no field, or in capitals."""
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


def _file(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"the persona {short(str(path))} cannot be read ({error}): name a file in UTF-8"
        ) from error


def _read_soul(text: str, texts: Collection[str]) -> dict[str, Any]:
    """What a SOUL.md says of each field; `texts` are those that are no lists.

    Raises:
        InvalidInputError: if its front matter is no YAML, or holds what no field can.
    """
    front, body = _parted(text)
    read = _SoulReader(texts)
    further = read.take(front)
    commented, end, rest = body.rpartition("-->")
    read.lines(f"{_COMMENT.sub('', commented + end)}{rest}".splitlines())
    title, read.title = read.title, "front matter"
    read.lines(further)
    told: dict[str, Any] = {
        field: "\n".join(lines).strip() if field in texts else _items(lines, field)
        for field, lines in read.said.items()
    }
    kept = "\n".join("\n".join([*head, *lines]) for head, lines in read.beside if lines)
    name, _, beside = (told.get("persona_name") or title).partition("\n")
    parts = (told.get("backstory"), beside.strip(), kept)
    told["backstory"] = "\n\n".join(one for one in parts if one)
    return {**told, "persona_name": name}


class _SoulReader:
    """Reads lines: the first heading that names no field, the lines of each field, and the rest."""

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = texts
        self.title = ""
        self.said: dict[str, list[str]] = defaultdict(list)
        self.beside: list[tuple[list[str], list[str]]] = [([], [])]
        """What belongs to no field: each heading with its lines."""
        self._section: str | None = None
        """The field that the last heading names."""
        self._open: str | None = None
        """The field that what follows belongs to."""
        self._rule: str | None = None
        """The field of a rule on a line of its own, whose text may go on in the next."""

    def take(self, front: Mapping[str, Any]) -> list[str]:
        """Take what a front matter says of fields; the rest of it, as lines of Markdown."""
        further: list[str] = []
        for key, value in front.items():
            field = _field(key)
            if isinstance(value, dict) and not field:
                further += self.take(value)
            elif field is not None and isinstance(value, str):
                self.said[field] += [*value.splitlines(), ""]
            elif field is not None:
                mark = "" if field in self._texts else "- "
                self.said[field] += [*(f"{mark}{each}" for each in _listed(key, value)), ""]
            else:
                further += [f"# {key}", *(f"- {each}" for each in _listed(key, value))]
        return further

    def lines(self, lines: Iterable[str]) -> None:
        """Take each line."""
        for line in map(str.strip, lines):
            if heading := _HEADING.match(line):
                self._head(heading["name"].rstrip("#").rstrip() or heading["name"])
            elif not self._is_rule(line) and not self._names(line):
                self._follows(line)

    def _head(self, name: str) -> None:
        self._begin(_field(name))
        self._section = self._open
        if self._open is None and self.title:
            self.beside.append(([f"{name}:"], []))
        elif self._open is None:
            self.title = name

    def _begin(self, field: str | None) -> None:
        self._open, self._rule = field, None
        if field is not None:
            self.said[field].append("")  # what follows belongs to no bullet before it

    def _is_rule(self, line: str) -> bool:
        """Whether a line is a rule by itself; then it is taken, and the field goes on after it."""
        bullet = _BULLET.match(line)
        rule = _RULE.match(bullet["said"] if bullet else line)
        if not rule or not rule["said"] or _BULLET.match(rule["said"]):
            return False
        if not rule["colon"] and (self._open or not (bullet or rule["word"].isupper())):
            return False
        field = "must_not_do" if rule["never"] else "must_do"
        self.said[field].append(f"- {rule['said']}")
        self._rule = field if rule["colon"] else None
        return True

    def _names(self, line: str) -> bool:
        """Whether a line names the field that it belongs to, and is no item of a section's list."""
        named = _NAMED.match(line)
        field = named and _field(named["name"])
        if not named or not field or (self._section is not None and _BULLET.match(line)):
            return False
        self._begin(field)
        self.said[field].append(named["said"])
        return True

    def _follows(self, line: str) -> None:
        if self._rule and (not line or _BULLET.match(line)):
            self.said[self._rule].append("")
            self._rule = None
        if field := self._rule or self._open:
            self.said[field].append(line)
        elif line:
            self.beside[-1][1].append(line)


def _field(name: str) -> str | None:
    """The field that a heading names."""
    words = "_".join(re.findall(r"[a-z]+", name.lower()))
    found = _ALIASES.get(words, words)
    return found if found in Persona.__dataclass_fields__ else None


def _items(lines: Sequence[str], field: str) -> list[str]:
    """The items of a list.

    They are its bullets, each with its further lines, and what stands beside them, parted by
    commas. Rules of several words are not parted.
    """
    items: list[list[str]] = []
    bullet = False
    for line in lines:
        found = _BULLET.match(line)
        if found:
            items.append([found["said"].strip()])
        elif bullet and line:
            items[-1].append(line)
        else:
            parts = [part for one in line.split(",") if (part := one.strip())]
            whole = field in _RULES.values() and any(" " in part for part in parts)
            items += [[line]] if whole else [[part] for part in parts]
        bullet = bool(found) or (bullet and bool(line))
    return [" ".join(one) for one in items]


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


def _listed(name: str, value: Any) -> Iterator[str]:
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
