"""The command line: `langmem-tiers`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import typer
from rich.filesize import decimal

from langmem_tiers.cli import auditing, carrying, forgetting, rendering, tending
from langmem_tiers.cli.doctor import doctor
from langmem_tiers.cli.options import (
    MODEL,
    NOT_DONE,
    URL,
    Command,
    Commands,
    Json,
    Lexical,
    Model,
    Url,
    User,
    note,
    opened,
    opened_to_read,
)
from langmem_tiers.core.errors import InvalidInputError, short

if TYPE_CHECKING:
    from langmem_tiers.importers import Format
    from langmem_tiers.store.store import TieredStore

_FORMATS = "locomo, langchain, openai, chatgpt or jsonl"

app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


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
            callback=_print_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Tiered memory for LangGraph agents, in one Postgres."""


@app.command(cls=Command)
def setup(
    *, url: Url = URL, model: Model = MODEL, lexical: Lexical = False, as_json: Json = False
) -> None:
    """Create or migrate the tables; safe to repeat."""
    with opened(url, model=model, lexical=lexical) as store:
        store.setup()
        index = store.options.index
    vectors = index.vector.dims if index and index.vector else None
    if as_json:
        rendering.print_json({"ready": True, "vector_dims": vectors})
        return
    sized = "" if vectors is None else rendering.counted(vectors, "dimension")
    how = f"words and vectors of {sized}" if sized else "words alone"
    rendering.console().print(f"The tables are ready: search by {how}.")


_File: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Conversations, memories or an export; see docs/cli.md."),
]
_Format: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help=f"{_FORMATS}; told by its contents if left out."),
]
_Source: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE", help="Of an export: who answers for it, such as web; you, if left out."
    ),
]


@app.command("import", cls=Command)
def import_file(
    file: _File,
    *,
    format: _Format = None,  # noqa: A002 - the word users know
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TENANT", help="Whose memories they are, whatever the file says."),
    ] = None,
    user: User = None,
    source: _Source = None,
    readmit: Annotated[
        bool, typer.Option("--readmit", help="Let back what was forgotten; else it is refused.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 1 if any record could not be imported."),
    ] = False,
    url: Url = URL,
    model: Model = MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Import conversations or memories from a file; repeating it changes nothing.

    An export of a tenant is known by its contents, and all of it is brought back.
    """
    where = partial(opened, url, model=model, lexical=lexical)
    if carrying.is_export(file):
        _check_unsaid(format=format, user=user, strict=strict)
        carrying.import_export(
            file, where, tenant=tenant, source=source, readmit=readmit, as_json=as_json
        )
        return
    if source is not None:
        raise InvalidInputError("--source says who answers for an export, and this file is none")
    _import_records(file, where, _Importing(format, tenant, user, readmit, strict, as_json))


class _Importing(NamedTuple):
    """How records are imported."""

    format: str | None
    tenant: str | None
    user: str | None
    readmit: bool
    strict: bool
    as_json: bool


def _import_records(
    file: Path, where: Callable[[], AbstractContextManager[TieredStore]], how: _Importing
) -> None:
    from langmem_tiers.cli.memories import import_records
    from langmem_tiers.importers import count_records, detect_format, read_records

    form = _format(how.format) if how.format else detect_format(file)
    items = read_records(file, format=form, tenant=how.tenant)
    total = count_records(file, format=form)
    with where() as store:
        with rendering.progress(f"Importing {file.name} ({form})", total) as advance:
            imported = import_records(
                store, items, user=how.user, readmit=how.readmit, advance=advance
            )
        store.optimize()
    if how.as_json:
        rendering.print_json({"memories": imported.memories, **asdict(imported)})
    else:
        out = rendering.console()
        out.print(rendering.imported_table(imported))
        out.print(f"Memories imported: {imported.memories:,}")
    if imported.bad:
        err, bad = rendering.console(stderr=True), imported.bad
        err.print(f"{rendering.counted(len(bad), 'record')} could not be imported:", style="red")
        for line in rendering.bad_record_lines(bad):
            err.print(f"  {line}", soft_wrap=True)
        if how.strict:
            raise typer.Exit(NOT_DONE)


@app.command(cls=Command)
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
    user: User = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="The most memories to show.")
    ] = 5,
    profile: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="How to rank; see docs/cli.md.")
    ] = None,
    min_match: Annotated[
        float | None,
        typer.Option(metavar="MATCH", help="The least match to show; 0 shows the nearest."),
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
    with opened_to_read(url, model=model, lexical=lexical) as store:
        memory = memories.memory_of(store, asker, named=tenant is not None)
        found = memory.get_context(query, limit=limit, profile=profile, min_match=min_match)
        held = min_match is None or min_match > 0
        nothing = "" if found else memories.why_nothing(store, memory.context, held=held)
    if as_json:
        names = ("tenant", "project_id", "session_id", "user_id")
        asked = {name: getattr(memory.context, name) for name in names}
        results = rendering.recollection_documents(found)
        rendering.print_json({"query": query, **asked, "results": results})
    elif found:
        rendering.console().print(rendering.recollection_table(found))
    if nothing:
        note(nothing)


@app.command(cls=Command)
def replay(
    turn: Annotated[
        str, typer.Argument(metavar="TURN", help="The id of a turn, a run or a recall.")
    ],
    *,
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="Whose memories.")],
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Whose recalls; all if left out.")
    ] = None,
    user: User = None,
    url: Url = URL,
    model: Model = MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Answer recorded recalls again, and show what differs; exit with 1 if one does."""
    from langmem_tiers.cli import memories

    asker = memories.asked_by(tenant, project, None, user, None)
    with opened_to_read(url, model=model, lexical=lexical) as store:
        replayed = memories.memory_of(store, asker, named=True).replay(turn)
    if as_json:
        recalls = [one.to_json() for one in replayed]
        rendering.print_json({"tenant": tenant, "turn": turn, "recalls": recalls})
    else:
        for one in replayed:
            rendering.console().print(str(one), soft_wrap=True, markup=False)
    if not all(one.equal for one in replayed):
        raise typer.Exit(NOT_DONE)


@app.command(cls=Command)
def stats(
    *,
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="Count this tenant's memories only.")
    ] = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="List every table and index as well.")
    ] = False,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Show what each tier holds, and the space it takes (always of all tenants)."""
    from langmem_tiers.core.context import MemoryContext

    root = None if tenant is None else MemoryContext(tenant=tenant).root
    with opened_to_read(url, index=False) as store:
        tiers, relations = store.stats(root), store.sizes()
    total = sum(one.bytes for one in relations)
    if as_json:
        told = {"tenant": tenant, "tiers": [asdict(one) for one in tiers], "bytes": total}
        each = {"sizes": [asdict(one) for one in relations]} if sizes else {}
        rendering.print_json(told | each)
        return
    out = rendering.console()
    out.print(rendering.stats_table(tiers))
    if sizes:
        out.print(rendering.sizes_table(relations))
    out.print(f"All tables and indexes take {decimal(total)}.")


def quarantine(
    *,
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="Whose memories.")],
    user: User = None,
    release: Annotated[
        str | None, typer.Option(metavar="KEY", help="Let this memory be recalled.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="KEY", help="Delete this memory.")] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, for the memory's history.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Memories listed at most.")] = 100,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """List what the gate holds back, oldest first; release or reject one of it."""
    from langmem_tiers.core.context import MemoryContext
    from langmem_tiers.memory.asking import checked_limit
    from langmem_tiers.remember import quarantine as held
    from langmem_tiers.remember.trust import TrustPolicy

    if release is not None and reject is not None:
        raise InvalidInputError("--release and --reject: do one of them")
    key = release or reject
    if key is not None and reason is None:
        raise InvalidInputError("say why: --reason 'it is our own guideline'")
    context = MemoryContext(tenant=tenant, user_id=user)
    # Without an index, and so without a coordinator: words may be of any language.
    with opened_to_read(url, index=False) as store:
        moment = store.flows.moment()
        if key is not None:
            told = (store.run(held.named(context, key, moment)), str(reason))
            if release is not None:
                store.run(held.release(*told, TrustPolicy(), store.options, moment))
            else:
                store.run(held.reject(*told, store.options, moment))
        found = store.run(held.quarantined(context, moment, checked_limit(limit)))
    if as_json:
        rendering.print_json({"tenant": tenant, "quarantined": [asdict(one) for one in found]})
        return
    for one in found:
        rendering.console().print(rendering.plain(str(one)), soft_wrap=True)
    if not found:
        note(f"Nothing of {tenant!r} is quarantined.")


def _check_unsaid(**options: object) -> None:
    for name, given in options.items():
        if given:
            raise InvalidInputError(f"--{name} is for other files than an export: leave it out")


def _format(name: str) -> Format:
    from langmem_tiers.importers import Format

    if name not in tuple(Format):
        raise InvalidInputError(f"there is no format {short(name)}: use one of {', '.join(Format)}")
    return Format(name)


app.command(cls=Command)(carrying.export)
app.command(cls=Command)(tending.archive)
app.command(cls=Command)(tending.restore)
app.command(cls=Command)(forgetting.forget)
app.command(cls=Command)(quarantine)
app.command(cls=Command)(tending.worker)
app.command(cls=Command)(doctor)
app.add_typer(auditing.audit, name="audit")
