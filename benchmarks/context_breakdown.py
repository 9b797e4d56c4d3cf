"""Where the time of one `get_context` goes: in Postgres, in the driver, in Python."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime

from benchmarks.context_contenders import (
    CALIBRATED,
    Coordinators,
    RawRecall,
    raw_recall,
)
from benchmarks.context_data import Question, Talks
from benchmarks.context_databases import Databases, options
from benchmarks.listening import Overheard
from benchmarks.raw import LIMIT
from benchmarks.timing import milliseconds
from langmem_tiers import TieredStore
from langmem_tiers.core.config import Distance
from langmem_tiers.core.memory import Recollection
from langmem_tiers.postgres.flow import Call
from langmem_tiers.recall.candidates import read_rows, recollection
from langmem_tiers.recall.evidence import judge, shipped
from langmem_tiers.recall.question import read_question
from langmem_tiers.recall.rank import Asked, profile_named, rank

STATEMENT = "statement (Postgres, round trip)"
DECODE = "fetch and decode the rows"
SESSION = "session: pool, pipeline, time limit"
READ = "read the candidates"
JUDGE = "judge them"
BUILD = "make memories of the best"
RANK = "rank them by the profile"
REST = "rest: arguments, question, tokens, counting"
WHOLE = "get_context"

_WARM = 10


def breakdown(
    databases: Databases, talks: Talks, calls: Mapping[str, Call], questions: Sequence[Question]
) -> dict[str, float]:
    """Milliseconds of each part, medians over these questions."""
    with (
        TieredStore.from_conn_string(databases.tiers, **options(talks)) as store,
        Overheard.from_conn_string(databases.tiers, **options(talks)) as overheard,
        closing(raw_recall(databases.tiers, store, calls)) as raw,
    ):
        taken = _Taken(store, overheard, raw, talks.tenants)
        parts = [dict(taken.of(one)) for one in questions][_WARM:]
    return {name: statistics.median(one[name] for one in parts) for name in parts[0]}


class _Taken:
    """The parts of one call, each timed where it can be had alone."""

    def __init__(
        self, store: TieredStore, overheard: Overheard, raw: RawRecall, tenants: int
    ) -> None:
        self._ours = Coordinators(store, tenants)
        self._listening = Coordinators(overheard, tenants)
        self._overheard, self._raw = overheard, raw

    def of(self, question: Question) -> Iterator[tuple[str, float]]:
        """Each part and its milliseconds."""
        self._raw.ask(question)  # whoever asks first finds less in the caches
        statement = milliseconds(lambda: self._raw.execute(question))
        decode = milliseconds(self._raw.fetch)
        whole = milliseconds(lambda: self._ours.ask(question, profile=CALIBRATED))
        self._listening.ask(question, profile=CALIBRATED)
        performed = 1000 * self._overheard.seconds
        python = dict(_python(question.text, self._overheard))
        yield STATEMENT, statement
        yield DECODE, decode
        yield SESSION, performed - statement - decode
        yield from python.items()
        yield REST, whole - performed - sum(python.values())
        yield WHOLE, whole


def _python(text: str, overheard: Overheard) -> Iterator[tuple[str, float]]:
    now, weights = datetime.now(UTC), shipped()
    rows, pool = overheard.rows, overheard.call.params["pool"]
    question = read_question(text, now)
    yield READ, milliseconds(lambda: read_rows(rows, Distance.COSINE))
    found, scope = read_rows(rows, Distance.COSINE)
    yield JUDGE, milliseconds(lambda: judge(found, question, scope, weights))
    judged = judge(found, question, scope, weights)

    pairs = sorted(zip(found, judged, strict=True), key=lambda pair: -pair[1].match)[:pool]

    def memories() -> list[Recollection]:
        return [recollection(row, each.match, each.shares(weights)) for row, each in pairs]

    yield BUILD, milliseconds(memories)
    built, profile = memories(), profile_named(CALIBRATED)
    asked = Asked(now=now, project_id="project", query=text)
    yield RANK, milliseconds(lambda: rank(built, profile, asked, LIMIT))
