"""Who an agent is, from a SOUL.md, and the state that it is in, as sections."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from langmem_tiers.core.checks import checked_strings
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.recall.fence import labelled
from langmem_tiers.turn.layout import Fragment, Section
from langmem_tiers.turn.soul import read_soul

_NAME: Final = "**Name**: "
_BACKSTORY: Final = "**Backstory**: "
_RULES: Final = {"MUST": "must_do", "MUST NOT": "must_not_do"}
_LONGEST: Final = 80
"""The most characters that a message tells of a file's further parts: our own choice."""


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
    further: Sequence[str] = ()
    """The other parts of its file, as they stand there."""

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
        """Read a SOUL.md: headings (`## Core Values`) or labels (`**Name**: Nova`) name the fields.

        So do the keys of a front matter in YAML. The first heading of the first level names the
        persona, unless a field does. They are the names of the fields, and those of the
        specification: Name, Communication Style, Behavioral Rules, MUST and MUST NOT. A list is its
        bullets, each with its further lines; commas may part the voice's traits. The part under any
        other heading is kept as it is written, in `further`. So is a list that anything else stands
        with.

        Args:
            text: The file's text, or its `Path`.

        Raises:
            InvalidInputError: if it names nobody, or the file or its front matter cannot be read.
        """
        if isinstance(text, Path):
            text = _file(text)
        if not isinstance(text, str):
            raise InvalidTypeError(f"a persona is a text or a Path, not {type(text).__name__}")
        return cls(**read_soul(text))

    @property
    def version(self) -> str:
        """The same for the same persona."""
        return hashlib.sha256(self._text(self.backstory).encode()).hexdigest()[:12]

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Section:  # noqa: ARG002 - a source's
        """The persona as a section; it is the same for every prompt.

        The backstory is cut where there is no room for all of it; all else always stands.
        """
        name = f"{_NAME}{self.persona_name}"
        begin = len(f"{name}\n{_BACKSTORY}") if self.backstory else len(name)
        whole = ", ".join(one.partition("\n")[0][:_LONGEST] for one in self.further)
        said = Fragment(
            text=self._text(self.backstory),
            source="persona",
            version=self.version,
            rationale="who the agent is" + (f"; kept whole as well: {whole}" if whole else ""),
            data=False,
            cut=(begin, begin + len(self.backstory)),
            least=self._text(""),
        )
        return Section((said,))

    def _text(self, backstory: str) -> str:
        values = "".join(f"\n- {one}" for one in self.core_values)
        parts = (
            _lines({_NAME: self.persona_name, _BACKSTORY: backstory}),
            _lines(
                {
                    "**Communication Style**: ": self.communication_tone,
                    "**Voice Traits**: ": ", ".join(self.voice_traits),
                }
            ),
            _lines({"**Core Values**:": values}),
            self._rules(),
            *self.further,
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


def _file(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"the persona {short(str(path))} cannot be read ({error}): name a file in UTF-8"
        ) from error
