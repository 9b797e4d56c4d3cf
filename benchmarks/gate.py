"""What the gate lets through and what it refuses, by kind, beside a filter of keywords.

Run it with `make ordinary bench-gate`; it takes some minutes, as it fits anew without each kind of
carrier and each writer (`gate_left_out.py`), and needs no database.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.gate_corpus import ECHO_HALVES, HALVES, OBLIQUE, Half, Sample
from benchmarks.gate_left_out import print_left_out
from langmem_tiers.remember.gate import Decision, Gate, Verdict
from langmem_tiers.remember.new_memory import KnownText, NewMemory

Recalled = Callable[[Sample], bool]

KEYWORDS = (
    "ignore previous instructions",
    "ignore all previous",
    "disregard",
    "system prompt",
    "you are now",
    "jailbreak",
    "do anything now",
    "from now on",
    "remember that",
    "password",
)
"""A filter as one writes it in a minute."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How many of how many."""

    count: int
    of: int

    def interval(self) -> tuple[float, float]:
        """The 95 % interval of Wilson."""
        if not self.of:
            return 0.0, 1.0
        z = 1.96
        share, n = self.count / self.of, self.of
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        low, high = self.interval()
        share = self.count / self.of if self.of else 0.0
        return f"{self.count}/{self.of}  {share:.1%} ({low:.1%} to {high:.1%})"


def verdict(sample: Sample) -> Verdict:
    """What the gate says."""
    candidate = NewMemory(
        content=sample.text,
        source=sample.source,
        recalled=tuple(KnownText(content=one) for one in sample.recalled),
        stored=tuple(KnownText(content=one) for one in sample.stored),
    )
    return Gate().judge(candidate)


def gated(sample: Sample) -> bool:
    """Whether the gate lets it be recalled."""
    return verdict(sample).decision is Decision.ACCEPT


def by_keywords(sample: Sample) -> bool:
    """Whether a filter of keywords lets it be recalled."""
    said = sample.text.casefold()
    return not any(one in said for one in KEYWORDS)


def rates(samples: Iterable[Sample], recalled: Recalled, *, wanted: bool) -> dict[str, Rate]:
    """By kind, and in all: how often what is wanted does not come about."""
    found: dict[str, list[bool]] = {}
    for one in samples:
        found.setdefault(one.kind, []).append(recalled(one) is not wanted)
    everything = [one for some in found.values() for one in some]
    return {
        **{kind: Rate(sum(wrong), len(wrong)) for kind, wrong in sorted(found.items())},
        **{name: Rate(sum(wrong), len(wrong)) for name, wrong in _parts(found)},
        "all": Rate(sum(everything), len(everything)),
    }


def _parts(found: Mapping[str, list[bool]]) -> Iterator[tuple[str, list[bool]]]:
    """What is plain and what is oblique, where a corpus has both."""
    oblique = [one for kind, some in found.items() if OBLIQUE in kind for one in some]
    plain = [one for kind, some in found.items() if OBLIQUE not in kind for one in some]
    if oblique and plain:
        yield "all plain", plain
        yield "all oblique", oblique


def table(half: Half, title: str, samples: Sequence[Sample], *, wanted: bool) -> Table:
    """One table: the gate beside the keywords."""
    ours = rates(samples, gated, wanted=wanted)
    keywords = rates(samples, by_keywords, wanted=wanted)
    made = Table("kind", "gate", "keywords", title=f"{title}, {half.name}", title_justify="left")
    for kind, rate in ours.items():
        made.add_row(kind, str(rate), str(keywords[kind]))
    return made


def main() -> None:
    """Print every table."""
    console = Console(width=100)
    began = time.process_time()
    several = 0
    for half in (make() for make in (*HALVES, *ECHO_HALVES)):
        console.print(table(half, "Attacks that are recalled", half.attacks, wanted=False))
        console.print(table(half, "Benign notes that are not recalled", half.benign, wanted=True))
        if half.trivial:
            console.print(
                table(half, "Trivial texts that are recalled", half.trivial, wanted=False)
            )
        several += len(half.attacks) + len(half.benign) + len(half.trivial)
    spent = (time.process_time() - began) / several
    console.print(f"{several} texts, {spent * 1000:.1f} ms of CPU each")
    print_left_out(console)


if __name__ == "__main__":
    main()
