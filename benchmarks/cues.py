"""How well a text is recognised to show a cue, on pairs that differ in what matters.

    python -m benchmarks.cues

For each part of data/cues.jsonl: which part of the sentences that show their cue are found
(recall), which part of those that look like them are taken for them (false alarms), each with its
95 % interval (Wilson), and the false alarms by kind. Last come sentences that show another cue, and
how long it takes to match one. One author wrote all of them.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from math import sqrt
from time import perf_counter
from typing import NamedTuple

from benchmarks.data import records
from langmem_tiers.reminders.triggers import cue_anchors, shows_cue, text_stems

PARTS = (
    "tuned", "held_out", "later", "wide", "wide_held_out", "looser", "newest",
    "roles", "roles_later",
)  # fmt: skip


class Pair(NamedTuple):
    cue: str
    shows: str
    does_not: str
    kind: str


def pairs(part: str) -> list[Pair]:
    """The pairs of a part."""
    return [
        Pair(one["cue"], one["shows"], one["does_not"], one["kind"])
        for one in records("cues")
        if one["part"] == part
    ]


def further() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Cues with sentences that show them, and with sentences that do not; not in pairs."""
    several = [one for one in records("cues") if one["part"] == "further"]
    shows = [(one["cue"], text) for one in several for text in one["shows"]]
    return shows, [(one["cue"], text) for one in several for text in one["does_not"]]


def fires(cue: str, text: str) -> bool:
    """What a reminder does: first the anchors, by which the database looks, then the rules."""
    return set(cue_anchors(cue)) <= text_stems(text) and shows_cue(cue, text)


def interval(found: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share."""
    share, near = found / of, z * z / of
    middle = (share + near / 2) / (1 + near)
    half = z * sqrt(share * (1 - share) / of + near / (4 * of)) / (1 + near)
    return max(0.0, middle - half), min(1.0, middle + half)


def measure(half: str) -> tuple[list[Pair], list[Pair]]:
    """The pairs whose cue was missed, and those that gave a false alarm."""
    missed = [one for one in pairs(half) if not fires(one.cue, one.shows)]
    alarmed = [one for one in pairs(half) if fires(one.cue, one.does_not)]
    return missed, alarmed


def unrelated() -> list[tuple[str, str]]:
    """Each cue with twenty sentences that were written for others."""
    all_ = [one for part in PARTS for one in pairs(part)]
    cues = list(dict.fromkeys(one.cue for one in all_))
    drawn = random.Random(0)
    several = [(cue, one) for cue in cues for one in drawn.sample(all_, 20)]
    return [(cue, one.shows) for cue, one in several if one.cue != cue]


def report(part: str, what: str, found: int, of: int) -> None:
    low, high = interval(found, of)
    print(f"{part:13} {what:13} {found / of:6.1%}  {low:.1%} to {high:.1%}  of {of}")


def main() -> None:
    for part in PARTS:
        count = len(pairs(part))
        missed, alarmed = measure(part)
        report(part, "recall", count - len(missed), count)
        report(part, "false alarms", len(alarmed), count)
        print(f"{'':13} by kind: {dict(Counter(one.kind for one in alarmed)) or 'none'}")
        if part in sys.argv:
            for one in missed:
                print("  missed:", one.cue, "|", one.shows)
            for one in alarmed:
                print("  alarm: ", one.cue, "|", one.does_not, "|", one.kind)
    shows, does_not = further()
    report("further", "recall", sum(fires(*one) for one in shows), len(shows))
    report("further", "false alarms", sum(fires(*one) for one in does_not), len(does_not))
    others = unrelated()
    began = perf_counter()
    alarms = sum(shows_cue(*one) for one in others)
    each = (perf_counter() - began) / len(others)
    report("unrelated", "false alarms", alarms, len(others))
    print(f"{each * 1e6:.0f} µs to match a cue and a sentence")


if __name__ == "__main__":
    main()
