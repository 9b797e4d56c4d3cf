"""The command line: `langmem-tiers`."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from langmem_tiers.errors import InvalidInputError, MissingExtraError, TieredMemoryError

if TYPE_CHECKING:
    from langmem_tiers.importers import Format
    from langmem_tiers.store import TieredStore

_FORMATS = "locomo, langchain, openai, chatgpt or jsonl"

_FLAG = ""
"""Stands in the help where other options have the name of their value."""

_NOT_DONE = 1
_FAILED = 2
_INTERRUPTED = 130


class _Command(TyperCommand):
    """A command, whose help shows `--help` as the flag it is."""

    # Any: typer brings a click of its own, or not, by its version.
    def get_help_option(self, ctx: Any) -> Any:
        return _as_flag(super().get_help_option(ctx))


class _Commands(TyperGroup):
    """Turns errors into one line and an exit code, whatever the command."""

    def main(self, *args: Any, **options: Any) -> Any:
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
            sys.exit(_NOT_DONE)

    def get_help_option(self, ctx: Any) -> Any:
        return _as_flag(super().get_help_option(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TieredMemoryError as error:
            _complain(str(error))
            raise typer.Exit(_FAILED) from error
        except KeyboardInterrupt as error:
            _complain("Interrupted. What was done is kept; run the command again for the rest.")
            raise typer.Exit(_INTERRUPTED) from error


def _as_flag(option: Any) -> Any:
    option.metavar = _FLAG
    return option


def _flush() -> None:
    if sys.stdout is not None:  # it was closed from the start: nothing is printed
        sys.stdout.flush()


def _give_up_output(error: OSError) -> None:
    """Say why the output cannot be written, unless its reader has simply gone."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())  # what is still buffered goes nowhere
    os.close(devnull)
    if not isinstance(error, BrokenPipeError):
        _complain(
            f"The output cannot be written ({error.strerror}): free some space, or send it "
            "elsewhere."
        )


app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)

_Url: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar="LANGMEM_TIERS_URL",
        help="A Postgres URL, or embedded:PATH for a Postgres of its own in a directory.",
    ),
]
_URL = "embedded:./.memory"
_Lexical: TypeAlias = Annotated[
    bool,
    typer.Option("--lexical", metavar=_FLAG, help="Search by words alone, without embeddings."),
]
_Json: TypeAlias = Annotated[
    bool,
    typer.Option("--json", metavar=_FLAG, help="Print one JSON document on standard output."),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"langmem-tiers {version('langmem-tiers')}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar=_FLAG,
            callback=_print_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Tiered memory for LangGraph agents, in one Postgres."""


@app.command(cls=_Command)
def setup(*, url: _Url = _URL, lexical: _Lexical = False, as_json: _Json = False) -> None:
    """Create or migrate the tables; safe to repeat."""
    from langmem_tiers import rendering

    with _opened(url, lexical=lexical) as store:
        store.setup()
        index = store.options.index
    vectors = index.vector.dims if index and index.vector else None
    if as_json:
        rendering.print_json({"ready": True, "vector_dims": vectors})
        return
    sized = "" if vectors is None else rendering.counted(vectors, "dimension")
    how = f"words and vectors of {sized}" if sized else "words alone"
    rendering.console().print(f"The tables are ready: search by {how}.")


@app.command("import", cls=_Command)
def import_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Conversations or memories; see docs/cli.md.")
    ],
    *,
    format: Annotated[  # noqa: A002 - the word users know
        str | None,
        typer.Option(metavar="FORMAT", help=f"{_FORMATS}; told by its contents if left out."),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TENANT", help="Whose memories they are, whatever the file says."),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", metavar=_FLAG, help="Exit with 1 if any record could not be imported."
        ),
    ] = False,
    url: _Url = _URL,
    lexical: _Lexical = False,
    as_json: _Json = False,
) -> None:
    """Import conversations or memories from a file; repeating it changes nothing."""
    from langmem_tiers import rendering
    from langmem_tiers.importers import count_records, detect_format, read_records
    from langmem_tiers.importing import import_records

    form = _format(format) if format else detect_format(file)
    items = read_records(file, format=form, tenant=tenant)
    total = count_records(file, format=form)
    with _opened(url, lexical=lexical) as store:
        with rendering.progress(f"Importing {file.name} ({form})", total) as advance:
            imported = import_records(store, items, advance=advance)
        store.optimize()
    if as_json:
        rendering.print_json(rendering.imported_document(imported))
    else:
        out = rendering.console()
        out.print(rendering.imported_table(imported))
        out.print(f"Memories imported: {imported.memories:,}")
    if imported.bad:
        _report_bad(len(imported.bad), rendering.bad_record_lines(imported.bad))
    if imported.bad and strict:
        raise typer.Exit(1)


@app.command(cls=_Command)
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question, or words.")],
    *,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TENANT", help="Whose memories; not needed if there is one tenant."),
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Whose working memory.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="SESSION", help="Whose short-term memory.")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="The most memories to show.")
    ] = 5,
    profile: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="How to rank; see docs/cli.md.")
    ] = None,
    no_cutoff: Annotated[
        bool,
        typer.Option(
            "--no-cutoff", metavar=_FLAG, help="Show the nearest even if nothing answers the query."
        ),
    ] = False,
    url: _Url = _URL,
    lexical: _Lexical = False,
    as_json: _Json = False,
) -> None:
    """Recall what answers a query, from every tier of one tenant."""
    from langmem_tiers import rendering, searching

    if not query.strip():
        raise InvalidInputError("a query is needed: give a question, or words to search for")
    asker = searching.Asker(tenant=tenant, project=project, session=session, profile=profile)
    cutoff = not (no_cutoff or lexical)
    with _opened_to_read(url, lexical=lexical) as store:
        memory = searching.memory_of(store, asker)
        found = memory.get_context(query, limit=limit, profile=profile, cutoff=cutoff)
        nothing = "" if found else searching.why_nothing(store, memory.context, cutoff=cutoff)
    if as_json:
        rendering.print_json(rendering.search_document(query, memory.context, found))
    elif found:
        rendering.console().print(rendering.recollection_table(found))
    if nothing:
        _note(nothing)


@app.command(cls=_Command)
def stats(
    *,
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="Count this tenant's memories only.")
    ] = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", metavar=_FLAG, help="List every table and index as well.")
    ] = False,
    url: _Url = _URL,
    as_json: _Json = False,
) -> None:
    """Show what each tier holds, and the space it takes (always of all tenants)."""
    from langmem_tiers import rendering
    from langmem_tiers.memory import MemoryContext

    root = None if tenant is None else MemoryContext(tenant=tenant).root
    with _opened_to_read(url, index=False) as store:
        tiers, relations = store.stats(root), store.sizes()
    total = sum(one.bytes for one in relations)
    if as_json:
        rendering.print_json(
            rendering.stats_document(tenant, tiers, relations if sizes else None, total)
        )
        return
    out = rendering.console()
    out.print(rendering.stats_table(tiers))
    if sizes:
        out.print(rendering.sizes_table(relations))
    out.print(f"All tables and indexes take {rendering.size(total)}.")


@app.command(cls=_Command)
def demo(
    *,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the database in this new directory.")
    ] = None,
) -> None:
    """Show tiered memory at work in a LangGraph graph, on a Postgres of its own."""
    if importlib.util.find_spec("langgraph.graph") is None:
        raise MissingExtraError(
            'The demonstration needs LangGraph: pip install "langmem-tiers[demo]"'
        )
    from langmem_tiers import demo as demonstration
    from langmem_tiers.rendering import console

    demonstration.show(console(), keep)


@contextmanager
def _opened(url: str, *, lexical: bool = False, index: bool = True) -> Iterator[TieredStore]:
    """Open the store that a URL names; without `index` it can count, not search."""
    from langmem_tiers.embedded import is_embedded_url, path_from_url
    from langmem_tiers.store import TieredStore, local_index

    chosen = ({} if lexical else local_index()) if index else None
    if is_embedded_url(url):
        store = TieredStore.embedded(path_from_url(url), index=chosen)
    else:
        store = TieredStore.from_conn_string(url, index=chosen)
    with store:
        yield store


def _opened_to_read(url: str, **options: bool) -> AbstractContextManager[TieredStore]:
    """Open the store that a URL names, unless that would create one."""
    from langmem_tiers.embedded import is_embedded_url, path_from_url

    path = path_from_url(url).absolute() if is_embedded_url(url) else None
    if path is not None and not _has_data(path):
        _complain(
            f"There are no memories in {path}: check the path, or run "
            "`langmem-tiers import` or `langmem-tiers setup` first."
        )
        raise typer.Exit(_NOT_DONE)
    return _opened(url, **options)


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


def _format(name: str) -> Format:
    from langmem_tiers.importers import Format

    if name not in tuple(Format):
        raise InvalidInputError(f"there is no format {name!r}: use one of {', '.join(Format)}")
    return Format(name)


def _report_bad(count: int, lines: list[str]) -> None:
    from langmem_tiers.rendering import console, counted

    err = console(stderr=True)
    err.print(f"{counted(count, 'record')} could not be imported:", style="red")
    for line in lines:
        err.print(f"  {line}", soft_wrap=True)


def _note(message: str, style: str | None = None) -> None:
    from langmem_tiers.rendering import console, plain

    line = plain(" ".join(message.split()))
    console(stderr=True).print(line, style=style, soft_wrap=True)


def _complain(message: str) -> None:
    _note(message, "red")
