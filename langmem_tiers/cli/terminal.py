"""What every command of `langmem-tiers` shares: errors, options, open stores, and printing."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from langmem_tiers.core import reading
from langmem_tiers.core.errors import TieredMemoryError

if TYPE_CHECKING:
    from langmem_tiers.core.memory import Recollection
    from langmem_tiers.store.store import LocalModel, TieredStore

NOT_DONE = 1
FAILED = 2
INTERRUPTED = 130


class Command(TyperCommand):
    """A command, whose help names no value behind a flag."""

    # Any: typer brings a click of its own, or not, by its version.
    def get_params(self, ctx: Any) -> Any:
        """Its arguments and options."""
        return _bare_flags(super().get_params(ctx))


class Commands(TyperGroup):
    """Turns errors into one line and an exit code, whatever the command."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run what the arguments name; an output that cannot be written is told in one line."""
        logging.getLogger("psycopg").setLevel(logging.ERROR)  # each error is told once
        try:
            try:
                return super().main(*args, **options)
            finally:
                if sys.stdout is not None:  # it was closed from the start: nothing is printed
                    sys.stdout.flush()
        except OSError as error:
            if error.filename is not None:  # it is about that file, not about the output
                raise
            _give_up_output(error)
            sys.exit(NOT_DONE)

    def get_params(self, ctx: Any) -> Any:
        """Its options."""
        return _bare_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what goes wrong is told in one line."""
        try:
            return super().invoke(ctx)
        except TieredMemoryError as error:
            complain(str(error))
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            complain("Interrupted. What was done is kept; run the command again for the rest.")
            raise typer.Exit(INTERRUPTED) from error


def _bare_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _give_up_output(error: OSError) -> None:
    """Say why the output cannot be written, unless its reader has simply gone."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())  # what is still buffered goes nowhere
    os.close(devnull)
    if not isinstance(error, BrokenPipeError):
        complain(
            f"The output cannot be written ({error.strerror}): free some space, or send it "
            "elsewhere."
        )


def option(metavar: str, meaning: str, *names: str, **more: Any) -> Any:
    """An option that takes a value."""
    return typer.Option(*names, metavar=metavar, help=meaning, **more)


def flag(name: str, meaning: str) -> Any:
    """An option that takes none."""
    return typer.Option(name, help=meaning)


Url: TypeAlias = Annotated[
    str,
    option(
        "URL",
        "A Postgres URL, or embedded:PATH for a Postgres of its own in a directory.",
        envvar="LANGMEM_TIERS_URL",
    ),
]
URL = "embedded:./.memory"
Tenant: TypeAlias = Annotated[str, option("TENANT", "Whose memories.")]
Project: TypeAlias = Annotated[str | None, option("PROJECT", "Whose working memory.")]
User: TypeAlias = Annotated[
    str | None, option("USER", "The tenant's user whose own they are, beside what is shared.")
]
Lexical: TypeAlias = Annotated[
    bool, flag("--lexical", "Search by words alone, without embeddings.")
]
Model: TypeAlias = Annotated[
    str,
    option(
        "NAME",
        "The embeddings: local or minilm (English), or multilingual.",
        envvar="LANGMEM_TIERS_MODEL",
    ),
]
MODEL = "local"
Json: TypeAlias = Annotated[bool, flag("--json", "Print one JSON document on standard output.")]


@contextmanager
def opened(url: str, model: str | None = None, *, lexical: bool = False) -> Iterator[TieredStore]:
    """Open the store that a URL names; without a model it has no index: it can count, not search.

    Words in it may be of any language then.
    """
    from langmem_tiers.store.store import TieredStore, local_index

    index: Any = None
    if model is not None:
        index = {} if lexical else local_index(cast("LocalModel", model))
    with TieredStore.from_conn_string(url, index=index) as store:
        yield store


def opened_to_read(
    url: str, model: str | None = None, *, lexical: bool = False
) -> AbstractContextManager[TieredStore]:
    """Open the store that a URL names, unless that would create one."""
    from langmem_tiers.postgres.embedded import is_embedded_url, path_from_url

    path = path_from_url(url).absolute() if is_embedded_url(url) else None
    if path is not None and not _has_data(path):
        complain(
            f"There are no memories in {path}: check the path, or run "
            "`langmem-tiers import` or `langmem-tiers setup` first."
        )
        raise typer.Exit(NOT_DONE)
    return opened(url, model, lexical=lexical)


def _has_data(path: Path) -> bool:
    """Tell whether a directory holds a database, as Postgres does: by its PG_VERSION."""
    for at in (path / "data" / "PG_VERSION", path / "PG_VERSION"):
        try:
            at.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return True  # and opening it tells why it cannot be read
        return True
    return False


# What is printed

_LAYOUT = frozenset("\t\n")
"""Control characters that are printed: they lay text out and steer nothing."""
_VISIBLE = 0.005
"""Terms below this are 0.00 in print, and are left out."""


def console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: nothing in a memory is taken for markup."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def plain(text: object) -> str:
    """Text without control characters, which a memory could steer or reorder a terminal with."""
    return _each_unprintable(str(text), lambda _: "\N{REPLACEMENT CHARACTER}")


def _each_unprintable(text: str, replaced: Callable[[str], str]) -> str:
    return reading.UNPRINTABLE.sub(
        lambda match: match[0] if match[0] in _LAYOUT else replaced(match[0]), text
    )


def note(message: str, style: str | None = None) -> None:
    """Print one line on standard error."""
    console(stderr=True).print(reading.printable_line(message), style=style, soft_wrap=True)


def complain(message: str) -> None:
    """Print what went wrong, on standard error."""
    note(message, "red")


def say(*values: object) -> None:
    """Print what people read, each on lines of its own."""
    for value in values:
        console().print(value if isinstance(value, Table) else plain(value), soft_wrap=True)


def show(
    document: object, *values: object, as_json: bool, nothing: str = "", ok: bool = True
) -> None:
    """Print a document for programs, or what it says for people; `nothing` where it says nothing.

    A result that is not `ok` ends the command with an exit code of its own.
    """
    if as_json:
        print_json(document)
    elif values:
        say(*values)
    elif nothing:
        note(nothing)
    if not ok:
        raise typer.Exit(NOT_DONE)


def print_json(document: object) -> None:
    """Print one JSON document; times are ISO 8601, and control characters are escaped."""
    text = json.dumps(document, ensure_ascii=False, indent=2, default=datetime.isoformat)
    escaped = _each_unprintable(text, lambda match: f"\\u{ord(match):04x}")
    print(escaped)  # noqa: T201 - what the user asked for


class _Rate(ProgressColumn):
    """How many are done in a second, once that is known."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} a second")


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show a bar with count and rate on standard error, if that is a terminal."""
    err = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, _Rate(), console=err, disable=not err.is_terminal) as bar:
        task = bar.add_task(plain(title), total=total)
        yield lambda count: bar.update(task, advance=count)


def table(*names: str, rows: Iterable[Sequence[object]] = (), right: Container[int] = ()) -> Table:
    """A table; what stands to the `right` in its column is named by its place."""
    made = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(names):
        made.add_column(name, overflow="fold", justify="right" if place in right else "left")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else plain(cell) for cell in row))
    return made


def why_found(recollection: Recollection) -> str:
    """The terms that add up to a memory's score, such as "match 0.45, recency 0.04"."""
    shown = {name: term for name, term in recollection.explanation.items() if abs(term) >= _VISIBLE}
    return ", ".join(f"{plain(name)} {term:.2f}" for name, term in shown.items())


def found_table(recollections: Sequence[Recollection]) -> Table:
    """The memories recalled, best first: who said what when, where it stands, and why."""
    made = table("#", "score", "memory", "tier, type", "why")
    for rank, recollection in enumerate(recollections, start=1):
        day = recollection.occurred_at and recollection.occurred_at.date().isoformat()
        heading = "  ".join(fact for fact in (recollection.speaker, day, recollection.key) if fact)
        memory = Text(f"{plain(heading)}\n", style="bold")
        memory.append(plain(recollection.content), style="not bold")
        kind = f"{recollection.tier}\n{plain(recollection.memory_type)}"
        made.add_row(
            str(rank),
            f"{recollection.score:.2f}",
            memory,
            kind,
            why_found(recollection).replace(", ", "\n"),
        )
        made.add_section()
    return made
