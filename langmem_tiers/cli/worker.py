"""Command `worker`, and LangGraph's checkpointer on the same database."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from langmem_tiers.cli import terminal
from langmem_tiers.cli.terminal import (
    DEFAULT_MODEL,
    DEFAULT_URL,
    Json,
    Lexical,
    Model,
    Url,
    flag,
    option,
)
from langmem_tiers.consolidation.policy import (
    ArchivalPolicy,
    ConsolidationPolicy,
    ConsolidationSchedule,
)
from langmem_tiers.core.errors import InvalidInputError, MissingExtraError, describe_error

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres import PostgresSaver

    from langmem_tiers.graph.worker import ConsolidationWorker

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SPAN_PATTERN = re.compile(r"(\d{1,6})([smhd])")
_CYCLE_FIELDS = ("tenant", "cycle", "started_at", "finished_at", "skipped", "taken_over", "moves")


def worker(
    *,
    every: Annotated[
        str, option("SPAN", "Time from one cycle to the next: 90s, 30m, 6h or 1d.")
    ] = "6h",
    once: Annotated[bool, flag("--once", "Run the cycles that are due now, and end.")] = False,
    poll: Annotated[
        float, option("SECONDS", "Time between two looks for due cycles.", min=0.1)
    ] = 60.0,
    archive: Annotated[
        str | None, option("PLACE", "Also archive, into a directory or a URL such as s3://….")
    ] = None,
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    lexical: Lexical = False,
    as_json: Json = False,
) -> None:
    """Consolidate the memories of each tenant when due, beside any number of other workers."""
    if as_json and not once:
        raise InvalidInputError("--json is one document: it goes with --once")
    schedule = ConsolidationSchedule(every=_parse_span(every))
    policy = ConsolidationPolicy(archive=ArchivalPolicy(url=archive) if archive else None)
    with (
        terminal.open_existing(url, model, lexical=lexical) as store,
        open_checkpointer(url) as checkpointer,
    ):
        from langmem_tiers.graph.worker import ConsolidationWorker

        store.run(store.flows.check_set_up())
        if store.runner.acting == "owner":  # a worker's role makes no tables
            checkpointer.setup()
        tell = (lambda _: None) if as_json else terminal.print_text
        consolidation_worker = ConsolidationWorker(
            store, schedule, checkpointer=checkpointer, policy=policy, on_report=tell
        )
        with _stop_on_signals(consolidation_worker), _print_warnings():
            if not once:
                consolidation_worker.run(poll)
                return
            reports = consolidation_worker.run_due()
    cycles = [
        {name: getattr(report, name) for name in _CYCLE_FIELDS}
        | {"lines": [line._asdict() for line in report.lines]}
        for report in reports
    ]
    failed = {
        tenant: describe_error(error) for tenant, error in consolidation_worker.failures.items()
    }
    nothing = "" if cycles or failed else "No tenant is due."
    document = {"cycles": cycles, "failed": failed}
    terminal.show(document, as_json=as_json, if_empty=nothing, ok=not failed)


def _parse_span(text: str) -> timedelta:
    match = _SPAN_PATTERN.fullmatch(text.strip())
    if match is None:
        raise InvalidInputError(f"--every is a number and s, m, h or d, such as 6h, not {text!r}")
    if not int(match[1]):
        raise InvalidInputError(
            f"--every {text.strip()} would leave no time between two cycles: give 1s or more, "
            "such as 6h"
        )
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


@contextmanager
def open_checkpointer(url: str) -> Iterator[PostgresSaver]:
    """Open LangGraph's checkpointer on the same database."""
    try:
        from langgraph.checkpoint.postgres import PostgresSaver
    except ImportError as error:
        raise MissingExtraError(
            "this needs LangGraph and its checkpointer on Postgres: "
            'pip install "langmem-tiers[worker]"'
        ) from error
    from langmem_tiers.postgres.connection_config import checkpointer_pool
    from langmem_tiers.postgres.embedded import EmbeddedPostgres, is_embedded_url, path_from_url

    with ExitStack() as stack:
        if is_embedded_url(url):
            url = stack.enter_context(EmbeddedPostgres(path_from_url(url))).url
        yield PostgresSaver(stack.enter_context(checkpointer_pool(url)))


@contextmanager
def _stop_on_signals(worker: ConsolidationWorker) -> Iterator[None]:
    """Stop the worker after its current step on a first signal, at once on a second."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def end(number: int, _: object) -> None:
        worker.stop()
        signal.signal(number, handlers[signal.Signals(number)])

    for number in handlers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _print_warnings() -> Iterator[None]:
    """Print warnings of the package on standard error, one line each."""
    handler, log = _WarningPrinter(logging.WARNING), logging.getLogger("langmem_tiers")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _WarningPrinter(logging.Handler):
    """Handler that prints a message and its error, without the traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        error = record.exc_info[1] if record.exc_info else None
        message = record.getMessage()
        terminal.print_error(message if error is None else f"{message}: {describe_error(error)}")
