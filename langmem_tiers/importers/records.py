"""The nouns of an import: formats, records, and the steps between a file and its records."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias


class Format(StrEnum):
    """The file formats that can be imported."""

    LOCOMO = "locomo"
    LANGCHAIN = "langchain"
    OPENAI = "openai"
    CHATGPT = "chatgpt"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One memory of a tenant and, if the file names it, a project of theirs.

    `value` holds `content` and `source` (the format's name) and, where the file has them,
    `speaker`, `occurred_at` (ISO 8601, UTC), `session_id`, `turn` (from 1 in its session),
    `memory_type`, `tier`, `tags`, `importance` and what else the format knows. Keys are unique in
    a project, those of long_term in their tenant, and reading a file again gives the same ones.
    """

    tenant: str
    project: str | None = None
    key: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """A part of the file that cannot be stored: the line it starts on (from 1), and why."""

    line: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record as its format tells it; tenant and key are settled later."""

    value: dict[str, Any]
    where: Callable[[], int]
    project: str | None = None
    tenant: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One top-level JSON value of a file; `where` finds the line of a value inside it.

    The path given to `where` is the member names and array indexes that lead to that value.
    """

    value: Any
    where: Callable[[tuple[str | int, ...]], int]


Units: TypeAlias = Iterator[Unit | BadRecord]
Drafts: TypeAlias = Iterator[Draft | BadRecord]
