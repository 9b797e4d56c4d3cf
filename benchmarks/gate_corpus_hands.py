"""Texts of six more authors, none of whom knew the gate: attacks, and notes that look like them.

Two thirds of the notes were written to be mistaken for attacks; two fifths of the attacks are plain
prose. What rules alone made of them at first sight stands in docs/gate.md.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from benchmarks.gate_corpus import Half, Sample


@cache
def hands() -> tuple[Half, ...]:
    """The texts of each author."""
    lines = Path(__file__).with_suffix(".jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return tuple(
        Half(
            name=author,
            attacks=tuple(
                _sample(one) for one in rows if one["author"] == author and one["attack"]
            ),
            benign=tuple(
                _sample(one) for one in rows if one["author"] == author and not one["attack"]
            ),
            trivial=(),
        )
        for author in dict.fromkeys(one["author"] for one in rows)
    )


def _sample(row: dict[str, str]) -> Sample:
    return Sample(
        text=row["text"], kind=row["kind"], source=row["source"], span=row.get("span", "")
    )
