"""Record what the package does: `--write FILE`, and later `--diff FILE`, which is to be empty."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.recorded.coverage import missing
from benchmarks.recorded.difference import difference
from benchmarks.recorded.record import BROKE_OFF, recorded


def main() -> int:
    """Write a record, or tell how one differs from now."""
    parser = argparse.ArgumentParser(prog="benchmarks.recorded", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--write", type=Path, metavar="FILE", help="where to write the record")
    which.add_argument("--diff", type=Path, metavar="FILE", help="a record to compare with")
    parser.add_argument("--only", default="", metavar="NAME", help="run scenarios of this name")
    given = parser.parse_args()
    before = given.diff.read_text("utf-8") if given.diff else ""
    began = time.perf_counter()
    found = recorded(before, given.only)
    print(f"{found.brief}; {time.perf_counter() - began:.0f} s", file=sys.stderr)
    forgotten = [] if given.only else missing(found.called)
    if forgotten:
        print("No scenario calls:", *forgotten, sep="\n  ", file=sys.stderr)
    if given.write:
        given.write.parent.mkdir(parents=True, exist_ok=True)
        given.write.write_text(found.text, "utf-8")
        return bool(forgotten or BROKE_OFF in found.text)
    lines = difference(before, found.text, partly=bool(given.only))
    print("\n".join(lines) if lines else "Nothing differs.")
    return bool(lines or forgotten)


if __name__ == "__main__":
    sys.exit(main())
