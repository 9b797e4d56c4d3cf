"""Who an agent is, from a SOUL.md, and the state that it is in, as sections."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from langmem_tiers.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.namespaces import utf8_bytes
from langmem_tiers.turn.fence import labelled
from langmem_tiers.turn.fragment import Fragment, Section

_HEADING: Final = re.compile(r"#{1,6}\s+(?P<name>.+?)\s*#*\s*$")
_NAMED: Final = re.compile(
    r"(?:[-*+]\s+)?\*{0,2}(?P<name>[A-Za-z][\w ]*?)\*{0,2}\s*:\*{0,2}\s*(?P<said>.*)$"
)
_BULLET: Final = re.compile(r"(?:[-*+]|\d+[.)])\s+(?P<said>.+)$")
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
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
                raise InvalidTypeError(f"{one.name} is a list of texts, not {given!r:.80}")
            object.__setattr__(self, one.name, tuple(given))
        if not self.persona_name.strip():
            raise InvalidInputError(
                "the persona has no name: begin its file with '# Name', or give persona_name"
            )

    @classmethod
    def of_markdown(cls, text: str) -> Persona:
        """Read a SOUL.md: headings (`## Core Values`) or lines (`**Name**: Nova`) name the fields.

        The first heading names the persona, unless a field does. A list is its bullets, or what
        commas part. Sections of other names are left out.

        Raises:
            InvalidInputError: if it names nobody.
        """
        if not isinstance(text, str):
            raise InvalidTypeError(f"a persona is a text, not {type(text).__name__}")
        title, said = _read(text)
        texts = [one.name for one in fields(cls) if one.type == "str"]
        given: dict[str, Any] = {
            name: "\n".join(lines).strip() if name in texts else _listed(lines)
            for name, lines in said.items()
        }
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
        return "\n".join(
            (
                f"**Name**: {self.persona_name}",
                f"**Backstory**: {self.backstory}",
                "",
                f"**Communication Style**: {self.communication_tone}",
                f"**Voice Traits**: {', '.join(self.voice_traits)}",
                "",
                "**Core Values**:",
                *(f"- {one}" for one in self.core_values),
                "",
                "**Behavioral Rules**:",
                f"MUST: {_bullets(self.must_do)}",
                f"MUST NOT: {_bullets(self.must_not_do)}",
            )
        )


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
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                "an emotional state has a primary_emotion and a confidence_level in 0…1, not "
                f"{dict(self.emotional_state)!r:.80}"
            ) from error


def _read(text: str) -> tuple[str, dict[str, list[str]]]:
    """The first heading that names no field, and the lines of each field."""
    title, field = "", None
    said: dict[str, list[str]] = {}
    known = {one.name for one in fields(Persona)}
    for line in _COMMENT.sub("", text).splitlines():
        if heading := _HEADING.match(line.strip()):
            field = _field(heading["name"], known)
            title = title or (heading["name"] if field is None else "")
        elif (named := _NAMED.match(line.strip())) and _field(named["name"], known):
            field = str(_field(named["name"], known))
            said.setdefault(field, []).append(named["said"])
        elif field is not None:
            said.setdefault(field, []).append(line.strip())
    return title, said


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
