"""The commands `archive`, `restore` and `worker`."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from langmem_tiers.cli import rendering
from langmem_tiers.cli.options import (
    MODEL,
    NOT_DONE,
    URL,
    Json,
    Lexical,
    Model,
    Url,
    complain,
    note,
    opened_to_read,
)
from langmem_tiers.consolidate.policy import (
    ArchivalPolicy,
    ConsolidationPolicy,
    ConsolidationSchedule,
)
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, MissingExtraError, worded

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres import PostgresSaver

    from langmem_tiers.consolidate.archive import ArchiveFile, RestoreReport
    from langmem_tiers.consolidate.report import ConsolidationReport
    from langmem_tiers.graph.worker import ConsolidationWorker


_Tenant: TypeAlias = Annotated[str, typer.Option(metavar="TENANT", help="Whose memories.")]


def archive(
    *,
    tenant: _Tenant,
    to: Annotated[
        str, typer.Option(metavar="PLACE", help="A directory, or s3://bucket/path and the like.")
    ],
    older_than_days: Annotated[
        float,
        typer.Option(metavar="DAYS", help="Days since its last change, to exceed."),
    ] = ArchivalPolicy(url=".").older_than_days,
    max_access_count: Annotated[
        int, typer.Option(metavar="N", help="Read less often than this.")
    ] = ArchivalPolicy(url=".").max_access_count,
    max_importance: Annotated[
        float, typer.Option(metavar="SHARE", help="Less important than this, of 0 to 1.")
    ] = ArchivalPolicy(url=".").max_importance,
    default_importance: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Of what nobody told it of; if not given, it stays."),
    ] = None,
    max_share: Annotated[
        float, typer.Option(metavar="SHARE", help="Of the tenant's memories, no more, of 0 to 1.")
    ] = ArchivalPolicy(url=".").max_share,
    agent: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Only what this agent remembered.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; without this all is counted and stays.")
    ] = False,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Move what is old, hardly read and said to be unimportant to files; restore gets it back."""
    from langmem_tiers.memory.tending import archiving

    policy = ArchivalPolicy(
        url=to,
        older_than_days=older_than_days,
        max_access_count=max_access_count,
        max_importance=max_importance,
        default_importance=default_importance,
        agent_id=agent,
        max_share=max_share,
    )
    context = MemoryContext(tenant=tenant)
    with opened_to_read(url, index=False) as store:  # words may be of any language
        report = store.run(archiving(store, context, policy, dry_run=True))
        if apply:
            with rendering.progress(f"Archiving {tenant}", report.memories) as advance:
                report = store.run(archiving(store, context, policy, advance=advance))
    if as_json:
        rendering.print_json({"tenant": tenant, **asdict(report)})
        return
    out = rendering.console()
    out.print(str(report))
    for name in report.archives:
        out.print(f"  {name}", soft_wrap=True)


def restore(
    archive: Annotated[
        str | None, typer.Argument(metavar="[ARCHIVE]", help="An archive by its name or URL.")
    ] = None,
    *,
    tenant: _Tenant,
    everything: Annotated[bool, typer.Option("--all", help="Every archive of the tenant.")] = False,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Bring archived memories back as they were; without an archive, list what there is."""
    from langmem_tiers.consolidate.archive import archives
    from langmem_tiers.memory.tending import restoring

    if everything and archive is not None:
        raise InvalidInputError("--all is every memory of every archive: name none beside it")
    context = MemoryContext(tenant=tenant)
    with opened_to_read(url, index=False) as store:  # words may be of any language
        known = store.run(archives(context.root))
        if archive is None and not everything:
            _list(tenant, known, as_json=as_json)
            return
        names = [archive] if archive else [one.archive for one in known if one.remaining]
        reports: dict[str, RestoreReport] = {}
        with rendering.progress("Restoring", len(names)) as advance:
            for name in names:
                report = store.run(restoring(store, context, name))
                reports[name] = report
                if not as_json:
                    line = f"{rendering.plain(name)}: {report}"
                    rendering.console().print(line, soft_wrap=True)
                advance(1)
    if as_json:
        restored = [{"archive": name, **asdict(one)} for name, one in reports.items()]
        rendering.print_json({"tenant": tenant, "restored": restored})
    elif not names:
        note(_nothing(tenant, known))


def _list(tenant: str, known: list[ArchiveFile], *, as_json: bool) -> None:
    if as_json:
        rendering.print_json({"tenant": tenant, "archives": [asdict(one) for one in known]})
    elif known:
        for line in rendering.archives_lines(known):
            rendering.console().print(line, soft_wrap=True)
    else:
        note(_nothing(tenant, known))


def _nothing(tenant: str, known: list[ArchiveFile]) -> str:
    if not known:
        return f"Nothing of {tenant!r} is archived."
    return (
        f"There is nothing to restore: what was archived of {tenant!r} is back, was deleted, or "
        "has expired."
    )


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SPAN = re.compile(r"(\d{1,6})([smhd])")


def worker(
    *,
    every: Annotated[
        str, typer.Option(metavar="SPAN", help="From one cycle to the next: 90s, 30m, 6h or 1d.")
    ] = "6h",
    once: Annotated[bool, typer.Option("--once", help="Run what is due now, and end.")] = False,
    poll: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How often to look what is due.")
    ] = 60.0,
    archive: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE", help="Also archive, into a directory or s3://… and the like."
        ),
    ] = None,
    url: Url = URL,
    model: Model = MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Consolidate each tenant's memories when it is due, beside any number of other workers."""
    if as_json and not once:
        raise InvalidInputError("--json is one document: it goes with --once")
    schedule = ConsolidationSchedule(every=_span(every))
    policy = ConsolidationPolicy(archive=ArchivalPolicy(url=archive) if archive else None)
    with (
        opened_to_read(url, model=model, lexical=lexical) as store,
        checkpointer_of(url) as checkpointer,
    ):
        from langmem_tiers.graph.worker import ConsolidationWorker

        store.run(store.flows.check_set_up())
        if store.runner.acting == "owner":  # a worker's role makes no tables
            checkpointer.setup()
        told = _silent if as_json else _print
        one = ConsolidationWorker(
            store, schedule, checkpointer=checkpointer, policy=policy, told=told
        )
        with _ended_by_signals(one), _logged():
            if once:
                reports = one.run_due()
            else:
                one.run(poll)
                return
    if as_json:
        rendering.print_json(rendering.cycles_document(reports, one.failures))
    elif not reports and not one.failures:
        note("No tenant is due.")
    if one.failures:
        raise typer.Exit(NOT_DONE)


def _span(text: str) -> timedelta:
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise InvalidInputError(f"--every is a number and s, m, h or d, such as 6h, not {text!r}")
    if not int(found[1]):
        raise InvalidInputError(
            f"--every {text.strip()} would leave no time between two cycles: give 1s or more, "
            "such as 6h"
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@contextmanager
def checkpointer_of(url: str) -> Iterator[PostgresSaver]:
    """LangGraph's checkpointer on the same database."""
    try:
        from langgraph.checkpoint.postgres import PostgresSaver
    except ImportError as error:
        raise MissingExtraError(
            "this needs LangGraph and its checkpointer on Postgres: "
            'pip install "langmem-tiers[worker]"'
        ) from error
    from langmem_tiers.postgres.embedded import EmbeddedPostgres, is_embedded_url, path_from_url
    from langmem_tiers.postgres.target import checkpointer_pool

    with ExitStack() as stack:
        if is_embedded_url(url):
            url = stack.enter_context(EmbeddedPostgres(path_from_url(url))).url
        yield PostgresSaver(stack.enter_context(checkpointer_pool(url)))


@contextmanager
def _ended_by_signals(one: ConsolidationWorker) -> Iterator[None]:
    """The first signal lets the step at work end, the second one interrupts it."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def end(number: int, _: object) -> None:
        one.stop()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _logged() -> Iterator[None]:
    """What the worker logs, a line each on standard error."""
    handler, log = _Lines(logging.WARNING), logging.getLogger("langmem_tiers")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Lines(logging.Handler):
    """Prints a message and the error behind it, without the way there."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage()
        complain(said if error is None else f"{said}: {worded(error)}")


def _print(report: ConsolidationReport) -> None:
    rendering.console().print(rendering.plain(str(report)), soft_wrap=True)


def _silent(_: ConsolidationReport) -> None:
    """All reports are one document, at the end."""
