"""Who an agent is, from a SOUL.md, and the state that it is in, as sections."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.recall.fence import labelled
from langmem_tiers.turn.layout import Fragment, Section
from langmem_tiers.turn.soul import read_soul

_NAME: Final = "**Name**: "
_BACKSTORY: Final = "**Backstory**: "


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

        So do the keys of a front matter in YAML, whose lists are taken whole. The first heading
        names the persona, unless a field does. A list is its bullets and lines, each as it stands;
        short lines are parted by commas. "MUST NOT: …" and "MUST: …" make that one line a rule,
        wherever it stands. What stands elsewhere is kept: a bullet that begins with "Must",
        "Always", "Must not", "Never" or "Do not" as a rule, and a line that begins with one of them
        in capitals; all else at the end of the backstory, under its heading.

        Args:
            text: The file's text, or its `Path`.

        Raises:
            InvalidInputError: if it names nobody, or its front matter cannot be read.
            OSError: if there is no such file.
        """
        if isinstance(text, Path):
            text = text.read_text("utf-8")
        if not isinstance(text, str):
            raise InvalidTypeError(f"a persona is a text or a Path, not {type(text).__name__}")
        known = {one.name: one.type == "str" for one in fields(cls)}
        return cls(**{"persona_name": "", **read_soul(text, known)})

    @property
    def version(self) -> str:
        """The same for the same persona."""
        return hashlib.sha256(self._text().encode()).hexdigest()[:12]

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Section:  # noqa: ARG002 - a source's
        """The persona as a section; it is the same for every prompt.

        Where there is no room for all of it, the backstory is cut; its name and rules always stand.
        """
        text, name = self._text(), f"{_NAME}{self.persona_name}"
        begin = len(f"{name}\n{_BACKSTORY}") if self.backstory else len(name)
        said = Fragment(
            text=text,
            source="persona",
            version=self.version,
            rationale="who the agent is",
            data=False,
            cut=(begin, begin + len(self.backstory)),
            least="\n\n".join(one for one in (name, self._rules()) if one),
        )
        return Section((said,))

    def _text(self) -> str:
        who = ((_NAME, self.persona_name), (_BACKSTORY, self.backstory))
        voice = (
            ("**Communication Style**: ", self.communication_tone),
            ("**Voice Traits**: ", ", ".join(self.voice_traits)),
        )
        values = [f"- {one}" for one in self.core_values]
        parts = (
            *([f"{name}{one}" for name, one in each if one] for each in (who, voice)),
            ["**Core Values**:", *values] if values else [],
            [self._rules()],
        )
        return "\n\n".join(text for one in parts if (text := "\n".join(one)))

    def _rules(self) -> str:
        rules = (("MUST", self.must_do), ("MUST NOT", self.must_not_do))
        told = [f"{name}: {_bullets(several)}" for name, several in rules if several]
        return "\n".join(["**Behavioral Rules**:", *told] if told else [])


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


def _bullets(rules: Sequence[str]) -> str:
    return "\n".join(f"- {one}" for one in rules)
