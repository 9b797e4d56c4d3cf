"""Who an agent is, from a SOUL.md, and the state that it is in, as sections."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from langmem_tiers.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.namespaces import utf8_bytes
from langmem_tiers.turn.fence import labelled
from langmem_tiers.turn.fragment import Fragment, Section

_HEADING: Final = re.compile(r"#{1,6}\s+(?P<name>\S.*)")
_NAMED: Final = re.compile(
    r"(?:[-*+]\s+)?\*{0,2}(?P<name>[A-Za-z][\w ]{0,79}?)\*{0,2}\s*:\*{0,2}\s*(?P<said>.*)$"
)
_BULLET: Final = re.compile(r"(?:[-*+]|\d+[.)])\s+(?P<said>.+)$")
_RULE: Final = re.compile(
    r"(?P<never>must not|must never|never|do not|don.t)\b|(?P<must>must|always)\b", re.IGNORECASE
)
"""How a bullet begins that is a rule, under whichever heading."""
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
            if isinstance(given, str) or not all(isinstance(each, str) for each in given):
                raise InvalidTypeError(f"{one.name} is a list of texts, not {short(given)}")
            object.__setattr__(self, one.name, tuple(given))
        if not self.persona_name.strip():
            raise InvalidInputError(
                "the persona has no name: begin its file with '# Name', or give persona_name"
            )

    @classmethod
    def of_markdown(cls, text: str | Path) -> Persona:
        """Read a SOUL.md: headings (`## Core Values`) or lines (`**Name**: Nova`) name the fields.

        The first heading names the persona, unless a field does. A list is its bullets, or what
        commas part. What stands elsewhere is kept: a bullet that begins with "Must", "Always",
        "Must not", "Never" or "Do not" as a rule, all else at the end of the backstory, under its
        heading.

        Args:
            text: The file's text, or its `Path`.

        Raises:
            InvalidInputError: if it names nobody.
            OSError: if there is no such file.
        """
        if isinstance(text, Path):
            text = text.read_text("utf-8")
        if not isinstance(text, str):
            raise InvalidTypeError(f"a persona is a text or a Path, not {type(text).__name__}")
        title, said, beside = _read(text)
        texts = [one.name for one in fields(cls) if one.type == "str"]
        given: dict[str, Any] = {
            name: "\n".join(lines).strip() if name in texts else _listed(lines)
            for name, lines in said.items()
        }
        rules, kept = _rules(beside)
        for name, further in rules.items():
            given[name] = [*given.get(name, ()), *further]
        given["backstory"] = "\n\n".join(one for one in (given.get("backstory"), kept) if one)
        return cls(**{"persona_name": title, **given})

    @property
    def version(self) -> str:
        """The same for the same persona."""
        return hashlib.sha256(self._text().encode()).hexdigest()[:12]

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Section:  # noqa: ARG002 - a source's
        """The persona as a section; it is the same for every prompt."""
        said = Fragment(
            text=self._text(),
            source="persona",
            version=self.version,
            rationale="who the agent is",
            data=False,
        )
        return Section((said,))

    def _text(self) -> str:
        who = (("Name", self.persona_name), ("Backstory", self.backstory))
        voice = (
            ("Communication Style", self.communication_tone),
            ("Voice Traits", ", ".join(self.voice_traits)),
        )
        values = [f"- {one}" for one in self.core_values]
        rules = (("MUST", self.must_do), ("MUST NOT", self.must_not_do))
        told = [f"{name}: {_bullets(several)}" for name, several in rules if several]
        parts = (
            *([f"**{name}**: {one}" for name, one in each if one] for each in (who, voice)),
            ["**Core Values**:", *values] if values else [],
            ["**Behavioral Rules**:", *told] if told else [],
        )
        return "\n\n".join("\n".join(one) for one in parts if one)


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
        return Section(
            (Fragment(text=text, source="state", rationale="how the agent is", data=False),)
        )

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


class _Beside(NamedTuple):
    """A line that belongs to no field."""

    text: str
    heading: bool = False


def _read(text: str) -> tuple[str, dict[str, list[str]], list[_Beside]]:
    """The first heading that names no field, the lines of each field, and those of none."""
    title, field = "", None
    said: dict[str, list[str]] = {}
    beside: list[_Beside] = []
    known = {one.name for one in fields(Persona)}
    for line in map(str.strip, _uncommented(text).splitlines()):
        if heading := _HEADING.match(line):
            name = heading["name"].rstrip("#").rstrip() or heading["name"]
            field = _field(name, known)
            if field is None and title:
                beside.append(_Beside(f"{name}:", heading=True))
            title = title or (name if field is None else "")
        elif (named := _NAMED.match(line)) and _field(named["name"], known):
            field = str(_field(named["name"], known))
            said.setdefault(field, []).append(named["said"])
        elif field is not None:
            said.setdefault(field, []).append(line)
        elif line:
            beside.append(_Beside(line))
    return title, said, beside


def _rules(beside: Sequence[_Beside]) -> tuple[dict[str, list[str]], str]:
    """The rules among lines of no field, by field, and the other lines as a text."""
    rules: dict[str, list[str]] = {"must_do": [], "must_not_do": []}
    kept: list[_Beside] = []
    for one in beside:
        bullet = None if one.heading else _BULLET.match(one.text)
        rule = bullet and _RULE.match(bullet["said"])
        if bullet and rule:
            kind = "must_do" if rule["must"] else "must_not_do"
            rules[kind].append(bullet["said"][rule.end() :].strip())
        else:
            kept.append(one)
    ends = [*(one.heading for one in kept[1:]), True]  # a heading of nothing goes
    told = (one.text for one, end in zip(kept, ends, strict=False) if not (one.heading and end))
    return rules, "\n".join(told)


def _uncommented(text: str) -> str:
    """The text without the comments that end."""
    pieces, at = [], 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        pieces.append(text[at:begin])
        at = end + 3
    return "".join((*pieces, text[at:]))


def _field(name: str, known: set[str]) -> str | None:
    """The field that a heading names."""
    words = "_".join(re.findall(r"[a-z]+", name.lower()))
    found = _ALIASES.get(words, words)
    return found if found in known else None


def _listed(lines: Sequence[str]) -> list[str]:
    """The bullets of a section; without any, what commas and lines part."""
    bullets = [found["said"].strip() for one in lines if (found := _BULLET.match(one))]
    return bullets or [part.strip() for one in lines for part in one.split(",") if part.strip()]


def _bullets(rules: Sequence[str]) -> str:
    return "\n".join(f"- {one}" for one in rules)
