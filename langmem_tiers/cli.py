"""The command line: `langmem-tiers`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from langmem_tiers.errors import InvalidInputError, MissingExtraError, TieredMemoryError

if TYPE_CHECKING:
    from langmem_tiers.importers import Format
    from langmem_tiers.store import TieredStore

_FORMATS = "locomo, langchain, openai, chatgpt or jsonl"

_FAILED = 2
_INTERRUPTED = 130


class _Commands(TyperGroup):
    """Turns errors into one line and an exit code, whatever the command."""

    def invoke(self, ctx: Any) -> Any:  # typer brings a click of its own, or not: by its version
        try:
            return super().invoke(ctx)
        except TieredMemoryError as error:
            _complain(str(error))
            raise typer.Exit(_FAILED) from error
        except KeyboardInterrupt as error:
            _complain("Interrupted. What was done is kept; run the command again for the rest.")
            raise typer.Exit(_INTERRUPTED) from error


app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)

_Url: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="LANGMEM_TIERS_URL",
        help="A Postgres URL, or embedded:PATH for a Postgres of its own in a directory.",
    ),
]
_URL = "embedded:./.memory"
_Lexical: TypeAlias = Annotated[
    bool, typer.Option("--lexical", help="Search by words alone, without embeddings.")
]
_Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output.")
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
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show it and exit."),
    ] = False,
) -> None:
    """Tiered memory for LangGraph agents, in one Postgres."""


@app.command()
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
    how = "words alone" if vectors is None else f"words and vectors of {vectors} dimensions"
    rendering.console().print(f"The tables are ready: search by {how}.")


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="Conversations or memories; see docs/cli.md.")],
    *,
    format: Annotated[  # noqa: A002 - the word users know
        str | None, typer.Option(help=f"{_FORMATS}; told by its contents if left out.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Whose memories they are, whatever the file says.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if any record could not be imported.")
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


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="A question, or words.")],
    *,
    tenant: Annotated[str, typer.Option(help="Whose memories are searched.")],
    limit: Annotated[int, typer.Option(min=1, help="The most memories to show.")] = 5,
    namespace: Annotated[
        str, typer.Option(help="Labels below the tenant, joined by dots, such as a.b.")
    ] = "",
    url: _Url = _URL,
    lexical: _Lexical = False,
    as_json: _Json = False,
) -> None:
    """Search one tenant's memories by words and by meaning, in every tier."""
    from langmem_tiers import rendering

    prefix = _prefix(tenant, namespace)
    with _opened(url, lexical=lexical) as store:
        found = store.hybrid_search(prefix, query=query, limit=limit)
        tenants = [] if found else store.list_namespaces(max_depth=1, limit=10)
    if as_json:
        results = [rendering.match_document(rank, one) for rank, one in enumerate(found, start=1)]
        rendering.print_json({"query": query, "namespace": prefix, "results": results})
    elif found:
        rendering.console().print(rendering.match_table(found))
    if not found:
        known = ", ".join(rendering.plain(label) for (label,) in tenants) or "none yet"
        rendering.console(stderr=True).print(f"Nothing was found. Tenants here: {known}.")


@app.command()
def stats(
    *,
    tenant: Annotated[str | None, typer.Option(help="Count this tenant's memories only.")] = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="List every table and index as well.")
    ] = False,
    url: _Url = _URL,
    as_json: _Json = False,
) -> None:
    """Show what each tier holds, and the space it takes (always of all tenants)."""
    from langmem_tiers import rendering

    with _opened(url, index=False) as store:
        tiers, relations = store.stats(tenant), store.sizes()
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


@app.command()
def demo(
    *,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the database in this new directory.")
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


def _format(name: str) -> Format:
    from langmem_tiers.importers import Format

    if name not in tuple(Format):
        raise InvalidInputError(f"there is no format {name!r}: use one of {', '.join(Format)}")
    return Format(name)


def _prefix(tenant: str, namespace: str) -> tuple[str, ...]:
    prefix = (tenant, *(namespace.split(".") if namespace else ()))
    if "." in tenant or not all(prefix):
        raise InvalidInputError(
            "a tenant is one label without dots, and labels are not empty: "
            "--tenant acme --namespace project.session"
        )
    return prefix


def _report_bad(count: int, lines: list[str]) -> None:
    from langmem_tiers.rendering import console

    err = console(stderr=True)
    err.print(f"{count:,} records could not be imported:", style="red")
    for line in lines:
        err.print(f"  {line}", soft_wrap=True)


def _complain(message: str) -> None:
    from langmem_tiers.rendering import console, plain

    console(stderr=True).print(plain(" ".join(message.split())), style="red", soft_wrap=True)
