"""The command `worker`, and LangGraph's checkpointer on the same database."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from langmem_tiers.cli import terminal
from langmem_tiers.cli.terminal import MODEL, URL, Json, Lexical, Model, Url, flag, option
from langmem_tiers.consolidate.policy import (
    ArchivalPolicy,
    ConsolidationPolicy,
    ConsolidationSchedule,
)
from langmem_tiers.core.errors import InvalidInputError, MissingExtraError, describe_error

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres import PostgresSaver

    from langmem_tiers.graph.worker import ConsolidationWorker

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SPAN = re.compile(r"(\d{1,6})([smhd])")
_OF_A_CYCLE = ("tenant", "cycle", "started_at", "finished_at", "skipped", "taken_over", "moves")


def worker(
    *,
    every: Annotated[str, option("SPAN", "From one cycle to the next: 90s, 30m, 6h or 1d.")] = "6h",
    once: Annotated[bool, flag("--once", "Run what is due now, and end.")] = False,
    poll: Annotated[float, option("SECONDS", "How often to look what is due.", min=0.1)] = 60.0,
    archive: Annotated[
        str | None, option("PLACE", "Also archive, into a directory or s3://… and the like.")
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
        terminal.opened_to_read(url, model, lexical=lexical) as store,
        checkpointer_of(url) as checkpointer,
    ):
        from langmem_tiers.graph.worker import ConsolidationWorker

        store.run(store.flows.check_set_up())
        if store.runner.acting == "owner":  # a worker's role makes no tables
            checkpointer.setup()
        tell = (lambda _: None) if as_json else terminal.say  # all are one document, at the end
        consolidation = ConsolidationWorker(
            store, schedule, checkpointer=checkpointer, policy=policy, on_report=tell
        )
        with _ended_by_signals(consolidation), _logged():
            if not once:
                consolidation.run(poll)
                return
            reports = consolidation.run_due()
    cycles = [
        {name: getattr(report, name) for name in _OF_A_CYCLE}
        | {"lines": [line._asdict() for line in report.lines]}
        for report in reports
    ]
    failed = {tenant: describe_error(error) for tenant, error in consolidation.failures.items()}
    nothing = "" if cycles or failed else "No tenant is due."
    document = {"cycles": cycles, "failed": failed}
    terminal.show(document, as_json=as_json, nothing=nothing, ok=not failed)


def _span(text: str) -> timedelta:
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise InvalidInputError(f"--every is a number and s, m, h or d, such as 6h, not {text!r}")
    if not int(match[1]):
        raise InvalidInputError(
            f"--every {text.strip()} would leave no time between two cycles: give 1s or more, "
            "such as 6h"
        )
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


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
def _ended_by_signals(worker: ConsolidationWorker) -> Iterator[None]:
    """The first signal lets the step at work end, the second one interrupts it."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def end(number: int, _: object) -> None:
        worker.stop()
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
        message = record.getMessage()
        terminal.complain(message if error is None else f"{message}: {describe_error(error)}")
