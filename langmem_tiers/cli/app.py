"""The command line: `langmem-tiers`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from langmem_tiers.cli import keeping, terminal, worker
from langmem_tiers.cli.terminal import (
    MODEL,
    URL,
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
_BAD_SHOWN = 20
"""Bad records that are named."""
_OF_A_MEMORY = (
    *("score", "match", "explanation", "evidence", "tier", "memory_type", "namespace", "key"),
    *("content", "speaker", "occurred_at", "value", "created_at", "updated_at", "access_count"),
)
"""What programs are told of a memory; all else is in its value."""

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
    *, url: Url = URL, model: Model = MODEL, lexical: Lexical = False, as_json: Json = False
) -> None:
    """Create or migrate the tables; safe to repeat."""
    with terminal.opened(url, model, lexical=lexical) as store:
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
        str | None, option("FORMAT", f"{_FORMATS}; told by its contents if left out.")
    ] = None,
    tenant: Annotated[
        str | None, option("TENANT", "Whose memories they are, whatever the file says.")
    ] = None,
    user: User = None,
    source: Annotated[
        str | None,
        option("SOURCE", "Of an export: who answers for it, such as web; you, if left out."),
    ] = None,
    readmit: Annotated[
        bool, flag("--readmit", "Let back what was forgotten; else it is refused.")
    ] = False,
    strict: Annotated[
        bool, flag("--strict", "Exit with 1 if any record could not be imported.")
    ] = False,
    url: Url = URL,
    model: Model = MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Import conversations or memories from a file; repeating it changes nothing.

    An export of a tenant is known by its contents, and all of it is brought back.
    """
    where = partial(terminal.opened, url, model, lexical=lexical)
    if keeping.is_export(file):
        for name, value in (("format", format), ("user", user), ("strict", strict)):
            if value:
                raise InvalidInputError(f"--{name} is for other files than an export: leave it out")
        keeping.import_export(
            file, where, tenant=tenant, source=source, readmit=readmit, as_json=as_json
        )
        return
    if source is not None:
        raise InvalidInputError("--source says who answers for an export, and this file is none")
    bad = _import_records(
        file, where, named=format, tenant=tenant, user=user, readmit=readmit, as_json=as_json
    )
    if bad and strict:
        raise typer.Exit(terminal.NOT_DONE)


def _import_records(
    file: Path,
    where: Callable[[], AbstractContextManager[TieredStore]],
    *,
    named: str | None,
    tenant: str | None,
    user: str | None,
    readmit: bool,
    as_json: bool,
) -> bool:
    """Import records, and tell of those that could not be; whether there are any."""
    from langmem_tiers.cli.memories import import_records
    from langmem_tiers.importers import Format, count_records, detect_format, read_records

    form = Format(checked_choice(named, Format, "--format")) if named else detect_format(file)
    items = read_records(file, format=form, tenant=tenant)
    total = count_records(file, format=form)
    with where() as store:
        with terminal.progress(f"Importing {file.name} ({form})", total) as advance:
            imported = import_records(store, items, user=user, readmit=readmit, advance=advance)
        store.optimize()
    rows = [
        (tenant, f"{span.memories:,}", (span.first or "")[:10], (span.last or "")[:10])
        for tenant, span in imported.tenants.items()
    ]
    terminal.show(
        {"memories": imported.memories, **asdict(imported)},
        terminal.table("tenant", "memories", "first", "last", rows=rows, right=[1]),
        f"Memories imported: {imported.memories:,}",
        as_json=as_json,
    )
    if bad := imported.bad:
        many = "1 record" if len(bad) == 1 else f"{len(bad):,} records"
        terminal.complain(f"{many} could not be imported:")
        for record in bad[:_BAD_SHOWN]:
            place = "record" if record.line is None else f"line {record.line}"
            terminal.note(f"{place}: {record.reason}")
        if len(bad) > _BAD_SHOWN:
            terminal.note(f"… and {len(bad) - _BAD_SHOWN:,} more")
    return bool(bad)


@app.command(cls=Command)
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question, or words.")],
    *,
    tenant: Annotated[
        str | None, option("TENANT", "Whose memories; not needed if there is one tenant.")
    ] = None,
    project: Project = None,
    session: Annotated[str | None, option("SESSION", "Whose short-term memory.")] = None,
    user: User = None,
    limit: Annotated[int, option("N", "The most memories to show.", min=1, max=1000)] = 5,
    profile: Annotated[str | None, option("PROFILE", "How to rank; see docs/cli.md.")] = None,
    min_match: Annotated[
        float | None, option("MATCH", "The least match to show; 0 shows the nearest.")
    ] = None,
    url: Url = URL,
    model: Model = MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Recall what answers a query, from every tier of one tenant."""
    from langmem_tiers.cli import memories

    if not query.strip():
        raise InvalidInputError("a query is needed: give a question, or words to search for")
    asker = memories.asked_by(tenant, project, session, user, profile)
    with terminal.opened_to_read(url, model, lexical=lexical) as store:
        memory = memories.memory_of(store, asker, named=tenant is not None)
        recollections = memory.get_context(query, limit=limit, profile=profile, min_match=min_match)
        held = min_match is None or min_match > 0
        nothing = "" if recollections else memories.why_nothing(store, memory.context, held=held)
    names = ("tenant", "project_id", "session_id", "user_id")
    results: list[dict[str, Any]] = [
        {"rank": rank}
        | {name: getattr(recollection, name) for name in _OF_A_MEMORY}
        | {"why": terminal.why_found(recollection)}
        for rank, recollection in enumerate(recollections, start=1)
    ]
    document = {
        "query": query,
        **{name: getattr(memory.context, name) for name in names},
        "results": results,
    }
    tables = [terminal.found_table(recollections)] if recollections else []
    terminal.show(document, *tables, as_json=as_json)
    if nothing:
        terminal.note(nothing)


@app.command(cls=Command)
def replay(
    turn: Annotated[
        str, typer.Argument(metavar="TURN", help="The id of a turn, a run or a recall.")
    ],
    *,
    tenant: Tenant,
    project: Annotated[str | None, option("PROJECT", "Whose recalls; all if left out.")] = None,
    user: User = None,
    url: Url = URL,
    model: Model = MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Answer recorded recalls again, and show what differs; exit with 1 if one does."""
    from langmem_tiers.cli import memories

    asker = memories.asked_by(tenant, project, None, user, None)
    with terminal.opened_to_read(url, model, lexical=lexical) as store:
        replayed = memories.memory_of(store, asker, named=True).admin.replay(turn)
    recalls = [recall.to_json() for recall in replayed]
    document = {"tenant": tenant, "turn": turn, "recalls": recalls}
    same = all(recall.equal for recall in replayed)
    terminal.show(document, *replayed, as_json=as_json, ok=same)


@app.command(cls=Command)
def stats(
    *,
    tenant: Annotated[str | None, option("TENANT", "Count this tenant's memories only.")] = None,
    sizes: Annotated[bool, flag("--sizes", "List every table and index as well.")] = False,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Show what each tier holds, and the space it takes (always of all tenants)."""
    root = None if tenant is None else MemoryContext(tenant=tenant).root
    with terminal.opened_to_read(url) as store:
        tiers, relations = store.stats(root), store.sizes()
    total = sum(relation.bytes for relation in relations)
    document = {"tenant": tenant, "tiers": [asdict(tier) for tier in tiers], "bytes": total}
    names = ("memories", "vectors", "tenants", "accesses", "expiring")
    counts = [
        (tier.tier, *(f"{getattr(tier, name):,}" for name in names), decimal(tier.bytes))
        for tier in tiers
    ]
    tables = [terminal.table("tier", *names, "size", rows=counts, right=range(1, 7))]
    if sizes:
        document["sizes"] = [asdict(relation) for relation in relations]
        rows = [
            (relation.relation, relation.kind, decimal(relation.bytes)) for relation in relations
        ]
        tables.append(terminal.table("relation", "kind", "size", rows=rows, right=[2]))
    summary = f"All tables and indexes take {decimal(total)}."
    terminal.show(document, *tables, summary, as_json=as_json)


for _command in (
    keeping.export,
    keeping.archive,
    keeping.restore,
    keeping.forget,
    keeping.quarantine,
    worker.worker,
    keeping.doctor,
):
    app.command(cls=Command)(_command)
app.add_typer(keeping.audit, name="audit")
