"""`make demo`, or `python -m demo`: the demonstration, on a Postgres of its own."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from demo.conversation import USER
from demo.days import Clock, History, nine_days
from demo.harm import tried
from demo.report import conversation, failures, life_of_a_lesson, what_harms
from langmem_tiers import TieredMemoryError, TieredStore
from langmem_tiers.core.errors import InvalidInputError


def show(console: Console, directory: Path | None = None) -> History:
    """Run the graphs and print what happens, on a Postgres in a new directory; what was counted.

    Args:
        console: where to print.
        directory: where the data is kept; None for a temporary one that is removed.

    Raises:
        InvalidInputError: the directory has something in it already.
        MissingExtraError: an extra is missing; the message has the install command.
    """
    clock = Clock()
    with _new(directory) as path, TieredStore.embedded(path, clock=clock) as store:
        console.print(*conversation(store))
        history = nine_days(store, clock)
        console.print(life_of_a_lesson(store, history), failures(history))
        console.print(what_harms(tried(store)))
    if directory is not None:
        url = f"embedded:{directory}"
        console.print(f'Kept. Try: langmem-tiers search --url "{url}" --tenant {USER} "sister"')
    return history


@contextmanager
def _new(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="langmem-tiers-") as name:
            yield Path(name) / "memory"
        return
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InvalidInputError(
            f"{directory} is not empty: name a directory that is, or that does not exist yet"
        )
    yield directory


def main() -> None:
    """Show the demonstration in a terminal."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the database in this new directory"
    )
    try:
        show(Console(markup=False, highlight=False, emoji=False), parser.parse_args().keep)
    except TieredMemoryError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
