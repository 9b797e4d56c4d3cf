"""What benchmarks print: tables, the bars they are held to, and what the figures depend on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

NOT_MEASURED = "not measured"

Quick = Annotated[bool, typer.Option(help="A sample of everything.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write every figure.")]
Markdown = Annotated[bool, typer.Option(help="Print the tables as Markdown.")]
Url = Annotated[str, typer.Option(help="A server to use instead of an embedded one.")]


class Sized(Protocol):
    """What was measured at one size."""

    size: int


class Sheet(NamedTuple):
    """A table as text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A claim with a bound, and what was measured (None if it was not)."""

    claim: str
    comparison: Literal[">=", "<=", "="]
    bound: float
    measured: float | None
    said: str = ""
    """What was measured, where a number alone does not say it."""
    unit: str = ""

    @property
    def passed(self) -> bool | None:
        if self.measured is None or math.isnan(self.measured):
            return None
        if self.comparison == "=":
            return self.measured == self.bound
        above = self.comparison == ">="
        return self.measured >= self.bound if above else self.measured <= self.bound

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Claim, bound, what was measured, verdict."""
        found = NOT_MEASURED if self.measured is None else self.said or f"{self.measured:.3f}"
        verdict = {True: "pass", False: "MISS", None: "–"}[self.passed]
        return self.claim, f"{self.comparison} {self.bound:g}{self.unit}", found, verdict


def ratio_bar(
    claim: str,
    comparison: Literal[">=", "<="],
    bound: float,
    measured: float | None,
    unit: str = "x",
) -> Bar:
    """A bar on what has a unit: "x" is times as much."""
    said = "" if measured is None else f"{measured:.2f}{unit}"
    return Bar(claim, comparison, bound, measured, said, unit)


def sheet_of(bars: Iterable[Bar]) -> Sheet:
    """The table of all bars."""
    return Sheet("Bars", ("claim", "wanted", "measured", ""), [one.row for one in bars])


@dataclass(frozen=True, slots=True)
class Report:
    """All that a run says: its tables, and what the figures depend on as the last line."""

    sheets: Sequence[Sheet]
    bars: Sequence[Bar]
    foot: str

    def show(self, console: Console) -> None:
        """Print it."""
        show((*self.sheets, sheet_of(self.bars)), console)
        console.print(self.foot, highlight=False, markup=False)

    def markdown(self) -> str:
        """The same as Markdown."""
        parts = []
        for sheet in (*self.sheets, sheet_of(self.bars)):
            lines = [sheet.columns, ["---", *["---:"] * (len(sheet.columns) - 1)], *sheet.rows]
            table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
            parts.append(f"**{sheet.title}**\n\n{table}")
        return "\n\n".join([*parts, self.foot])

    def write(self, *, markdown: bool, json_file: Path | None, figures: Any = None) -> None:
        """Print it, and write its figures: those that are given, or else its tables."""
        if markdown:
            print(self.markdown())
        else:
            self.show(Console(width=180))
        if json_file is not None:
            tables = {"foot": self.foot, "tables": [one._asdict() for one in self.sheets]}
            tables["bars"] = [one.row for one in self.bars]
            json_file.write_text(json.dumps(figures or tables, indent=1), encoding="utf-8")
        missed = sum(one.passed is False for one in self.bars)
        Console(stderr=True).print(f"{missed} bars missed")


def show(sheets: Iterable[Sheet], console: Console) -> None:
    """Print tables; a line that misses its bar is red."""
    for sheet in sheets:
        table = Table(title=sheet.title, title_justify="left")
        for number, name in enumerate(sheet.columns):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in sheet.rows:
            table.add_row(*row, style="red" if "MISS" in row else None)
        console.print(table)


S = TypeVar("S", bound=Sized)


@dataclass(slots=True)
class Results(Generic[S]):
    """A whole run at several sizes."""

    dims: int
    environment: dict[str, str]
    sizes: list[S] = field(default_factory=list)
    seconds: float = 0.0

    def at(self, size: int) -> S | None:
        """What was measured at that size, if it was."""
        return next((one for one in self.sizes if one.size == size), None)

    @property
    def foot(self) -> str:
        """What the figures depend on."""
        return f"{self.dims} dimensions; {facts(self.environment, self.seconds)}"


def facts(environment: Mapping[str, str], seconds: float) -> str:
    """What the figures depend on, in one line."""
    told = ", ".join(f"{name} {what}" for name, what in environment.items())
    return f"{told}; {seconds:.0f} s in all."


def progress(*columns: str) -> Progress:
    """A bar on standard error."""
    told = TextColumn(" ".join(("{task.description}", *columns)))
    return Progress(told, BarColumn(), TimeElapsedColumn(), console=Console(stderr=True))
