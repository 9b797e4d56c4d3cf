"""Commands of `langmem-tiers`: setup, import, search, replay and stats."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from langmem_tiers.cli import maintenance, terminal, worker
from langmem_tiers.cli.terminal import (
    DEFAULT_MODEL,
    DEFAULT_URL,
    Command,
    Commands,
    Json,
    Lexical,
    Model,
    Project,
    Tenant,
    Url,
    User,
    flag,
    option,
)
from langmem_tiers.core.checks import checked_choice
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError

if TYPE_CHECKING:
    from langmem_tiers.store.store import TieredStore

_FORMATS = "locomo, langchain, openai, chatgpt or jsonl"
_MAX_BAD_SHOWN = 20
"""Most bad records that are named."""
_MEMORY_FIELDS = (
    *("score", "match", "explanation", "evidence", "tier", "memory_type", "namespace", "key"),
    *("content", "speaker", "occurred_at", "value", "created_at", "updated_at", "access_count"),
)
"""Fields of a recollection in JSON; all else of a memory is in its value."""

app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"langmem-tiers {version('langmem-tiers')}")
        raise typer.Exit


_Version = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
)


@app.callback()
def main(*, version: Annotated[bool, _Version] = False) -> None:
    """Tiered memory for LangGraph agents, in one Postgres."""


@app.command(cls=Command)
def setup(
    *,
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Create or migrate the tables; safe to repeat."""
    with terminal.open_store(url, model, lexical=lexical) as store:
        store.setup()
        index = store.options.index
    vectors = index.vector.dims if index and index.vector else None
    search_by = "words alone" if vectors is None else f"words and vectors of {vectors:,} dimensions"
    document = {"ready": True, "vector_dims": vectors}
    terminal.show(document, f"The tables are ready: search by {search_by}.", as_json=as_json)


@app.command("import", cls=Command)
def import_file(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Conversations, memories or an export; see docs/cli.md."
        ),
    ],
    *,
    format: Annotated[  # noqa: A002 - the word users know
        str | None, option("FORMAT", f"{_FORMATS}; detected by the contents if left out.")
    ] = None,
    tenant: Annotated[
        str | None, option("TENANT", "The tenant of all records, whatever the file says.")
    ] = None,
    user: User = None,
    source: Annotated[
        str | None,
        option("SOURCE", "Of an export: who vouches for it, such as web; you if left out."),
    ] = None,
    readmit: Annotated[
        bool, flag("--readmit", "Import forgotten memories too; else they are refused.")
    ] = False,
    strict: Annotated[
        bool, flag("--strict", "Exit with 1 if any record could not be imported.")
    ] = False,
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Import conversations or memories from a file; repeating it changes nothing.

    The command recognises an export of a tenant by its contents, and imports all of it.
    """
    open_store = partial(terminal.open_store, url, model, lexical=lexical)
    if maintenance.is_export(file):
        for name, value in (("format", format), ("user", user), ("strict", strict)):
            if value:
                raise InvalidInputError(f"--{name} is for other files than an export: leave it out")
        maintenance.import_export(
            file, open_store, tenant=tenant, source=source, readmit=readmit, as_json=as_json
        )
        return
    if source is not None:
        raise InvalidInputError("--source says who answers for an export, and this file is none")
    bad = _import_records(
        file,
        open_store,
        format_name=format,
        tenant=tenant,
        user=user,
        readmit=readmit,
        as_json=as_json,
    )
    if bad and strict:
        raise typer.Exit(terminal.NOT_DONE)


def _import_records(
    file: Path,
    open_store: Callable[[], AbstractContextManager[TieredStore]],
    *,
    format_name: str | None,
    tenant: str | None,
    user: str | None,
    readmit: bool,
    as_json: bool,
) -> bool:
    """Import records and print the bad ones; return True if there are any."""
    from langmem_tiers.cli.memories import import_records
    from langmem_tiers.importers import Format, count_records, detect_format, read_records

    file_format = (
        Format(checked_choice(format_name, Format, "--format"))
        if format_name
        else detect_format(file)
    )
    items = read_records(file, format=file_format, tenant=tenant)
    total = count_records(file, format=file_format)
    with open_store() as store:
        with terminal.show_progress(f"Importing {file.name} ({file_format})", total) as advance:
            imported = import_records(store, items, user=user, readmit=readmit, advance=advance)
        store.optimize()
    rows = [
        (tenant, f"{span.memories:,}", (span.first or "")[:10], (span.last or "")[:10])
        for tenant, span in imported.tenants.items()
    ]
    terminal.show(
        {"memories": imported.memories, **asdict(imported)},
        terminal.make_table("tenant", "memories", "first", "last", rows=rows, right=[1]),
        f"Memories imported: {imported.memories:,}",
        as_json=as_json,
    )
    if bad := imported.bad:
        many = "1 record" if len(bad) == 1 else f"{len(bad):,} records"
        terminal.print_error(f"{many} could not be imported:")
        for record in bad[:_MAX_BAD_SHOWN]:
            place = "record" if record.line is None else f"line {record.line}"
            terminal.print_note(f"{place}: {record.reason}")
        if len(bad) > _MAX_BAD_SHOWN:
            terminal.print_note(f"… and {len(bad) - _MAX_BAD_SHOWN:,} more")
    return bool(bad)


@app.command(cls=Command)
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question, or words.")],
    *,
    tenant: Annotated[
        str | None, option("TENANT", "The tenant to search; not needed if there is one.")
    ] = None,
    project: Project = None,
    session: Annotated[
        str | None, option("SESSION", "The session whose short-term memory is searched too.")
    ] = None,
    user: User = None,
    limit: Annotated[int, option("N", "The most memories to show.", min=1, max=1000)] = 5,
    profile: Annotated[str | None, option("PROFILE", "How to rank; see docs/cli.md.")] = None,
    min_match: Annotated[
        float | None, option("MATCH", "The least match to show; 0 shows the nearest.")
    ] = None,
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Recall the memories that answer a query, from every tier of one tenant."""
    from langmem_tiers.cli import memories

    if not query.strip():
        raise InvalidInputError("a query is needed: give a question, or words to search for")
    context = memories.build_context(tenant, project, session, user, profile)
    with terminal.open_existing(url, model, lexical=lexical) as store:
        memory = memories.open_memory(store, context, has_tenant=tenant is not None)
        recollections = memory.get_context(query, limit=limit, profile=profile, min_match=min_match)
        has_floor = min_match is None or min_match > 0
        nothing = (
            ""
            if recollections
            else memories.explain_no_results(store, memory.context, has_floor=has_floor)
        )
    names = ("tenant", "project_id", "session_id", "user_id")
    results: list[dict[str, Any]] = [
        {"rank": rank}
        | {name: getattr(recollection, name) for name in _MEMORY_FIELDS}
        | {"why": terminal.explain_score(recollection)}
        for rank, recollection in enumerate(recollections, start=1)
    ]
    document = {
        "query": query,
        **{name: getattr(memory.context, name) for name in names},
        "results": results,
    }
    tables = [terminal.recollections_table(recollections)] if recollections else []
    terminal.show(document, *tables, as_json=as_json)
    if nothing:
        terminal.print_note(nothing)


@app.command(cls=Command)
def replay(
    turn: Annotated[
        str, typer.Argument(metavar="TURN", help="The id of a turn, a run or a recall.")
    ],
    *,
    tenant: Tenant,
    project: Annotated[
        str | None, option("PROJECT", "Only recalls of this project; all if left out.")
    ] = None,
    user: User = None,
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Replay recorded recalls and show the differences; exit with 1 if there are any."""
    from langmem_tiers.cli import memories

    context = memories.build_context(tenant, project, None, user, None)
    with terminal.open_existing(url, model, lexical=lexical) as store:
        replayed = memories.open_memory(store, context, has_tenant=True).admin.replay(turn)
    recalls = [recall.to_json() for recall in replayed]
    document = {"tenant": tenant, "turn": turn, "recalls": recalls}
    same = all(recall.equal for recall in replayed)
    terminal.show(document, *replayed, as_json=as_json, ok=same)


@app.command(cls=Command)
def stats(
    *,
    tenant: Annotated[str | None, option("TENANT", "Count this tenant's memories only.")] = None,
    sizes: Annotated[bool, flag("--sizes", "List every table and index as well.")] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the counts of each tier, and its size (always of all tenants)."""
    root = None if tenant is None else MemoryContext(tenant=tenant).root
    with terminal.open_existing(url) as store:
        tiers, relations = store.stats(root), store.sizes()
    total = sum(relation.bytes for relation in relations)
    document = {"tenant": tenant, "tiers": [asdict(tier) for tier in tiers], "bytes": total}
    names = ("memories", "vectors", "tenants", "accesses", "expiring")
    counts = [
        (tier.tier, *(f"{getattr(tier, name):,}" for name in names), decimal(tier.bytes))
        for tier in tiers
    ]
    tables = [terminal.make_table("tier", *names, "size", rows=counts, right=range(1, 7))]
    if sizes:
        document["sizes"] = [asdict(relation) for relation in relations]
        rows = [
            (relation.relation, relation.kind, decimal(relation.bytes)) for relation in relations
        ]
        tables.append(terminal.make_table("relation", "kind", "size", rows=rows, right=[2]))
    summary = f"All tables and indexes take {decimal(total)}."
    terminal.show(document, *tables, summary, as_json=as_json)


for _command in (
    maintenance.export,
    maintenance.archive,
    maintenance.restore,
    maintenance.forget,
    maintenance.quarantine,
    worker.worker,
    maintenance.doctor,
):
    app.command(cls=Command)(_command)
app.add_typer(maintenance.audit, name="audit")
