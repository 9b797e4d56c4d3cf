"""Sessions that note something, and what is left of them."""

from __future__ import annotations

import psycopg

from langmem_tiers import MemoryCoordinator, Recollection
from langmem_tiers.consolidation.session_end import SessionReport
from tests.support.opening import Clock

CHAT = "billing.chat."
NOTES = {
    "claim": "The timeout of the invoice API is 30s",
    "weighty": "Nobody may deploy on Fridays",
    "once": "Reading the logs of last night",
    "again": "the invoices of May are missing",
    "still": "The invoices of May are missing.",
    "asked": "Where does the ledger live?",
}


def noted(
    memory: MemoryCoordinator,
    clock: Clock,
    notes: dict[str, str] | None = None,
    source: str = "user",
) -> None:
    """A session's notes, a minute apart; one of them is important."""
    for key, content in (notes or NOTES).items():
        clock.advance(minutes=1)
        memory.store(
            content,
            "working",
            source=source,
            key=key,
            tags=["May", key],
            importance=0.9 if key == "weighty" else None,
        )
    clock.advance(minutes=1)


def kept(memory: MemoryCoordinator, report: SessionReport) -> dict[str, list[Recollection]]:
    """What a session left, by type."""
    named = {"semantic": report.semantic, "episodic": report.episodic}
    return {kind: [there(memory.get(key)) for key in keys] for kind, keys in named.items()}


def there(one: Recollection | None) -> Recollection:
    """A memory that is there."""
    assert one is not None
    return one


def texts(url: str) -> str:
    """All that is stored, as one text."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT value ->> 'content' FROM memory.memories").fetchall()
    return "\n".join(row[0] for row in rows)


def types(url: str) -> dict[str, int]:
    """How many memories there are of each type."""
    query = "SELECT value ->> 'memory_type', count(*) FROM memory.memories GROUP BY 1"
    with psycopg.connect(url) as conn:
        return dict(conn.execute(query).fetchall())
