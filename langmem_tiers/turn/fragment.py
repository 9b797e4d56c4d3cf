"""What a turn is shown, in pieces: each says where it comes from and why it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.values import storable
from langmem_tiers.recall.fence import fields_of

CUT: Final = "[…]"
"""Stands where a text was cut."""
_LONG_WORD: Final = 40
"""Characters from which on a word is cut within: some scripts have no spaces."""


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
    cut: tuple[int, int] = (0, 0)
    """From where to where the text may be cut, from its end on, if there is no room for all."""
    least: str = ""
    """What stands in any case; nothing of what may be left out whole."""

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

    def shortened(self, fits: Callable[[str], bool]) -> Fragment:
        """As much of it as fits: what may be cut goes first, then all but what stands in any case.

        What is cut ends with a mark.
        """
        begin, end = self.cut
        if begin == end:
            return replace(self, text=self.least)
        head, body, tail = self.text[:begin], self.text[begin:end], self.text[end:]
        few, many = 0, len(body)  # so many characters fit, and so many are too many
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if fits(_cut(head, body[:middle], tail)) else (few, middle)
        text = _cut(head, body[:few], tail)
        return replace(self, text=text if fits(text) else self.least, cut=(0, 0))

    def provenance(self) -> dict[str, Any]:
        """Where it comes from and why it is there, as JSON."""
        named = {"key": storable(self.key)} if self.key is not None else {}
        return {
            "source": storable(self.source),
            "version": storable(self.version),
            "rationale": storable(self.rationale),
            **named,
        }


def _cut(head: str, body: str, tail: str) -> str:
    """A text whose body goes on: it ends with a word, unless that is a long one, and a mark."""
    short = body.rstrip()
    if short == body and len(words := body.rsplit(maxsplit=1)) > 1 and len(words[1]) < _LONG_WORD:
        short = words[0]
    return f"{head}{short} {CUT}{tail}" if short else f"{head}{CUT}{tail}"


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
