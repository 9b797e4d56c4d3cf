"""What every command of `langmem-tiers` shares: errors as one line, options, and open stores."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer
from typer.core import TyperCommand, TyperGroup

from langmem_tiers.cli.rendering import console
from langmem_tiers.core.errors import TieredMemoryError
from langmem_tiers.core.reading import plain

if TYPE_CHECKING:
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
                _flush()
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
    for one in params:
        if getattr(one, "is_flag", False):
            one.metavar = ""
    return params


def _flush() -> None:
    if sys.stdout is not None:  # it was closed from the start: nothing is printed
        sys.stdout.flush()


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


Url: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar="LANGMEM_TIERS_URL",
        help="A Postgres URL, or embedded:PATH for a Postgres of its own in a directory.",
    ),
]
URL = "embedded:./.memory"
User: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="USER", help="The tenant's user whose own they are, beside what is shared."
    ),
]
Lexical: TypeAlias = Annotated[
    bool,
    typer.Option("--lexical", help="Search by words alone, without embeddings."),
]
Model: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        envvar="LANGMEM_TIERS_MODEL",
        help="The embeddings: local (English), or multilingual.",
    ),
]
MODEL = "local"
Json: TypeAlias = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document on standard output."),
]


@contextmanager
def opened(
    url: str, *, model: str = MODEL, lexical: bool = False, index: bool = True
) -> Iterator[TieredStore]:
    """Open the store that a URL names; without `index` it can count, not search."""
    from langmem_tiers.store.store import TieredStore, local_index

    chosen: dict[str, Any] | None = {} if index else None
    if index and not lexical:
        chosen = local_index(cast("LocalModel", model))
    with TieredStore.from_conn_string(url, index=chosen) as store:
        yield store


def opened_to_read(url: str, **options: Any) -> AbstractContextManager[TieredStore]:
    """Open the store that a URL names, unless that would create one."""
    from langmem_tiers.postgres.embedded import is_embedded_url, path_from_url

    path = path_from_url(url).absolute() if is_embedded_url(url) else None
    if path is not None and not _has_data(path):
        complain(
            f"There are no memories in {path}: check the path, or run "
            "`langmem-tiers import` or `langmem-tiers setup` first."
        )
        raise typer.Exit(NOT_DONE)
    return opened(url, **options)


def _has_data(path: Path) -> bool:
    """Tell whether a directory holds a database, as Postgres does: by its PG_VERSION."""
    return any(_may_exist(at / "PG_VERSION") for at in (path / "data", path))


def _may_exist(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # and opening it tells why it cannot be read
    return True


def note(message: str, style: str | None = None) -> None:
    """Print one line on standard error."""
    console(stderr=True).print(plain(message), style=style, soft_wrap=True)


def complain(message: str) -> None:
    """Print what went wrong, on standard error."""
    note(message, "red")
