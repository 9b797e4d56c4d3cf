"""Errors, options, stores and printing that all commands of `langmem-tiers` share."""

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

from langmem_tiers.core import texts
from langmem_tiers.core.errors import TieredMemoryError

if TYPE_CHECKING:
    from langmem_tiers.core.memory import Recollection
    from langmem_tiers.store.store import LocalModel, TieredStore

NOT_DONE = 1
FAILED = 2
INTERRUPTED = 130


class Command(TyperCommand):
    """Command whose help shows no value after a flag."""

    # Any: whether typer brings a click of its own depends on its version.
    def get_params(self, ctx: Any) -> Any:
        """Return its arguments and options."""
        return _hide_flag_values(super().get_params(ctx))


class Commands(TyperGroup):
    """Group of commands that turns every error into one line and an exit code."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command that the arguments name; report an unwritable output in one line."""
        logging.getLogger("psycopg").setLevel(logging.ERROR)  # the command prints each error once
        try:
            try:
                return super().main(*args, **options)
            finally:
                if sys.stdout is not None:  # it was closed from the start
                    sys.stdout.flush()
        except OSError as error:
            if error.filename is not None:  # the error is about that file, not about the output
                raise
            _discard_output(error)
            sys.exit(NOT_DONE)

    def get_params(self, ctx: Any) -> Any:
        """Return its options."""
        return _hide_flag_values(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run a command; report an error in one line."""
        try:
            return super().invoke(ctx)
        except TieredMemoryError as error:
            print_error(str(error))
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            print_error("Interrupted. What was done is kept; run the command again for the rest.")
            raise typer.Exit(INTERRUPTED) from error


def _hide_flag_values(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _discard_output(error: OSError) -> None:
    """Drop the buffered output; print why it cannot be written, unless its reader has gone."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())  # the buffer is flushed there
    os.close(devnull)
    if not isinstance(error, BrokenPipeError):
        print_error(
            f"The output cannot be written ({error.strerror}): free some space, or send it "
            "elsewhere."
        )


def option(metavar: str, meaning: str, *names: str, **more: Any) -> Any:
    """Return an option that takes a value."""
    return typer.Option(*names, metavar=metavar, help=meaning, **more)


def flag(name: str, meaning: str) -> Any:
    """Return an option that takes no value."""
    return typer.Option(name, help=meaning)


Url: TypeAlias = Annotated[
    str,
    option(
        "URL",
        "A Postgres URL, or embedded:PATH for a Postgres of its own in a directory.",
        envvar="LANGMEM_TIERS_URL",
    ),
]
DEFAULT_URL = "embedded:./.memory"
Tenant: TypeAlias = Annotated[str, option("TENANT", "The tenant.")]
Project: TypeAlias = Annotated[str | None, option("PROJECT", "The project.")]
User: TypeAlias = Annotated[
    str | None, option("USER", "A user of the tenant; without one, only shared memories are meant.")
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
DEFAULT_MODEL = "local"
Json: TypeAlias = Annotated[bool, flag("--json", "Print one JSON document on standard output.")]


@contextmanager
def open_store(
    url: str, model: str | None = None, *, lexical: bool = False
) -> Iterator[TieredStore]:
    """Open the store that a URL names.

    Without a model it has no index: it can count, not search, and takes text of any language.
    """
    from langmem_tiers.store.store import TieredStore, local_index

    index: Any = None
    if model is not None:
        index = {} if lexical else local_index(cast("LocalModel", model))
    with TieredStore.from_conn_string(url, index=index) as store:
        yield store


def open_existing(
    url: str, model: str | None = None, *, lexical: bool = False
) -> AbstractContextManager[TieredStore]:
    """Open the store that a URL names; exit with 1 if there is no embedded database yet."""
    from langmem_tiers.postgres.embedded import is_embedded_url, path_from_url

    path = path_from_url(url).absolute() if is_embedded_url(url) else None
    if path is not None and not _holds_database(path):
        print_error(
            f"There are no memories in {path}: check the path, or run "
            "`langmem-tiers import` or `langmem-tiers setup` first."
        )
        raise typer.Exit(NOT_DONE)
    return open_store(url, model, lexical=lexical)


def _holds_database(path: Path) -> bool:
    """Return True if a directory holds a database, which Postgres marks by PG_VERSION."""
    for marker in (path / "data" / "PG_VERSION", path / "PG_VERSION"):
        try:
            marker.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return True  # opening it will say why it cannot be read
        return True
    return False


# Printing

_PRINTED_CONTROLS = frozenset("\t\n")
"""Control characters that are printed: they only lay text out."""
_MIN_TERM = 0.005
"""Least term of a score that is printed: those below it would print as 0.00."""


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is: it reads nothing in a memory as markup."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def make_printable(text: object) -> str:
    """Replace control characters, by which a memory could steer or reorder a terminal."""
    return _replace_unprintable(str(text), lambda _: "\N{REPLACEMENT CHARACTER}")


def _replace_unprintable(text: str, replacement: Callable[[str], str]) -> str:
    return texts.UNPRINTABLE.sub(
        lambda match: match[0] if match[0] in _PRINTED_CONTROLS else replacement(match[0]), text
    )


def print_note(message: str, style: str | None = None) -> None:
    """Print one line on standard error."""
    console(stderr=True).print(texts.printable_line(message), style=style, soft_wrap=True)


def print_error(message: str) -> None:
    """Print an error in red on standard error."""
    print_note(message, "red")


def print_text(*values: object) -> None:
    """Print values for people, each on lines of its own."""
    for value in values:
        console().print(
            value if isinstance(value, Table) else make_printable(value), soft_wrap=True
        )


def show(
    document: object, *values: object, as_json: bool, if_empty: str = "", ok: bool = True
) -> None:
    """Print the document for programs, or the values for people; `if_empty` if there are none.

    Exit with `NOT_DONE` if the result is not `ok`.
    """
    if as_json:
        print_json(document)
    elif values:
        print_text(*values)
    elif if_empty:
        print_note(if_empty)
    if not ok:
        raise typer.Exit(NOT_DONE)


def print_json(document: object) -> None:
    """Print one JSON document; times are ISO 8601, and control characters are escaped."""
    text = json.dumps(document, ensure_ascii=False, indent=2, default=datetime.isoformat)
    escaped = _replace_unprintable(text, lambda match: f"\\u{ord(match):04x}")
    print(escaped)  # noqa: T201 - the user asked for it


class _RateColumn(ProgressColumn):
    """Column of the rate per second, once it is known."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} a second")


@contextmanager
def show_progress(title: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show a bar with count and rate on standard error, if that is a terminal."""
    err = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, _RateColumn(), console=err, disable=not err.is_terminal) as bar:
        task = bar.add_task(make_printable(title), total=total)
        yield lambda count: bar.update(task, advance=count)


def make_table(
    *names: str, rows: Iterable[Sequence[object]] = (), right: Container[int] = ()
) -> Table:
    """Return a table; the columns whose indexes are in `right` are right-aligned."""
    result = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(names):
        result.add_column(name, overflow="fold", justify="right" if place in right else "left")
    for row in rows:
        result.add_row(*(cell if isinstance(cell, Text) else make_printable(cell) for cell in row))
    return result


def explain_score(recollection: Recollection) -> str:
    """Return the terms of a memory's score as text, such as "match 0.45, recency 0.04"."""
    shown = {
        name: term for name, term in recollection.explanation.items() if abs(term) >= _MIN_TERM
    }
    return ", ".join(f"{make_printable(name)} {term:.2f}" for name, term in shown.items())


def recollections_table(recollections: Sequence[Recollection]) -> Table:
    """Return a table of recalled memories, best first: speaker, day, key, text, tier and score."""
    result = make_table("#", "score", "memory", "tier, type", "why")
    for rank, recollection in enumerate(recollections, start=1):
        day = recollection.occurred_at and recollection.occurred_at.date().isoformat()
        heading = "  ".join(fact for fact in (recollection.speaker, day, recollection.key) if fact)
        memory = Text(f"{make_printable(heading)}\n", style="bold")
        memory.append(make_printable(recollection.content), style="not bold")
        kind = f"{recollection.tier}\n{make_printable(recollection.memory_type)}"
        result.add_row(
            str(rank),
            f"{recollection.score:.2f}",
            memory,
            kind,
            explain_score(recollection).replace(", ", "\n"),
        )
        result.add_section()
    return result
