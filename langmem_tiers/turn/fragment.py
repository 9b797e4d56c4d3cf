"""What a turn is shown, in pieces: each says where it comes from and why it is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from langmem_tiers.memory import Recollection
from langmem_tiers.turn.fence import fields_of
from langmem_tiers.values import storable


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A piece of what a turn is shown, with its provenance."""

    text: str
    """What it says, as it was given; a layout says how it is written."""
    source: str
    """The stage that it comes from."""
    version: str = ""
    """Which state of it: a moment in ISO 8601, or what its source calls it."""
    rationale: str = ""
    """Why it is there."""
    key: str | None = None
    rank: float = 0.0
    """Within a stage, what has a lower one gets room first."""
    data: bool = True
    """Whether it is fenced as data; what the agent is and may do is not."""
    memory: Recollection | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """What a layout can say of it beside its text: `when`, `speaker`, …"""
    seen: bool = False
    """Whether the model sees it elsewhere: then it informs the later stages, and is not shown."""

    @classmethod
    def of_memory(cls, one: Recollection, source: str, *, rank: float = 0.0) -> Fragment:
        """A memory that was recalled."""
        made_of = [(name, term) for name, term in one.explanation.items() if round(term, 2)]
        terms = " + ".join(f"{term:.2f} {name}" for name, term in made_of)
        return cls(
            text=one.content,
            source=source,
            version=one.updated_at.isoformat(),
            rationale=f"score {one.score:.2f}" + (f" = {terms}" if terms else ""),
            key=one.key,
            rank=rank,
            memory=one,
            fields=fields_of(one),
        )

    @classmethod
    def own(
        cls,
        text: str,
        source: str,
        rationale: str,
        *,
        rank: float = 0.0,
        key: str | None = None,
        version: str = "",
    ) -> Fragment:
        """The agent's own words, which no fence stands around."""
        return cls(
            text=text,
            source=source,
            version=version,
            rationale=rationale,
            key=key,
            rank=rank,
            data=False,
        )

    def provenance(self) -> dict[str, Any]:
        """Where it comes from and why it is there, as JSON."""
        named = {"key": storable(self.key)} if self.key is not None else {}
        return {
            "source": storable(self.source),
            "version": storable(self.version),
            "rationale": storable(self.rationale),
            **named,
        }


@dataclass(frozen=True, slots=True)
class Section:
    """What a source answers: fragments in the order in which they are to be read."""

    fragments: tuple[Fragment, ...] = ()

    def __iter__(self) -> Iterator[Fragment]:
        return iter(self.fragments)

    def __len__(self) -> int:
        return len(self.fragments)

    def __str__(self) -> str:
        """What it says."""
        return "\n".join(one.text for one in self.fragments)


class Source(Protocol):
    """Anything that answers a prompt with a formatted section.

    It answers a text, a `Section`, or None for nothing; a coroutine function may be awaited for
    it. `metadata` holds the turn's `mode`, `filters`, `messages` and the stage's `options`, and
    under `sections` what every earlier stage answered, by name.
    """

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Any:
        """What there is to say for a prompt."""
