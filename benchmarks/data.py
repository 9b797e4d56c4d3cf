"""What the benchmarks are made of: records and statements below `data/` (see its README.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("data")

Record = Mapping[str, Any]


@cache
def records(name: str) -> tuple[Record, ...]:
    """The records of a file in their order; lists are tuples."""
    return records_of(FOLDER / f"{name}.jsonl")


def records_of(file: Path) -> tuple[Record, ...]:
    """The records of a file anywhere; lists are tuples."""
    lines = file.read_text("utf-8").split("\n")
    return tuple(_frozen(json.loads(line)) for line in lines if line)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _frozen(one) for name, one in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@cache
def statements(name: str) -> Mapping[str, bytes]:
    """The statements of a file of `data/sql/`, by the names that stand above them."""
    text = (FOLDER / f"sql/{name}.sql").read_text("utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: one.strip().encode() for name, one in zip(parts[::2], parts[1::2], strict=True)}
