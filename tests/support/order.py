"""The order in which files are run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path


def in_order(files: Sequence[Path], slow: Collection[Path]) -> list[Path]:
    """Put a quick file first, whose dots say that the run has begun, then slow ones, then others.

    A slow file that began last would leave the other worker idle.
    """
    quick = next((one for one in files if "unit" in one.parts and one not in slow), None)
    return sorted(files, key=lambda one: (one != quick, one not in slow))
