"""Which proven texts are promoted, and in which words: `python -m benchmarks.promotion FILE`.

A line of the file is a text, and whether it is for everybody: `{"text": …, "general": true}`.
Whoever writes them knows no rule. A tenant has two projects. What is general is told in both, and
counted as well where it is told in one; what is about one project is told in one, by turns. Every
memory has proven itself: by its use, as the policy that ships has it, or by a success, with one
project being enough. What is held back is held back for what it says, or as one project alone says
it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from benchmarks.data import records_of
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.learning.promotion_policy import SPECIFIED, PromotionPolicy

PROJECTS: Final = ("orchard", "lantern")


class Way(NamedTuple):
    """How memories prove themselves, and where general ones are told."""

    name: str
    policy: PromotionPolicy
    both: bool = True


USED: Final = Way("as shipped, by use", SPECIFIED)
ONE_IS_ENOUGH: Final = PromotionPolicy(min_access_count=0, min_age_days=0, min_projects=1)
WAYS: Final = (
    USED,
    Way("one project is enough", ONE_IS_ENOUGH),
    Way("one project is enough, and told in one", ONE_IS_ENOUGH, both=False),
)


_DAYS: Final = 8


class Text(NamedTuple):
    """What somebody wrote, and says of it."""

    text: str
    general: bool


class Outcome(NamedTuple):
    """What became of a text."""

    text: Text
    promoted: bool
    changed: bool
    """Whether any project is told it in other words."""
    reason: str


def texts_of(file: Path) -> list[Text]:
    """The texts of a file."""
    return [Text(one["text"], one["general"]) for one in records_of(file)]


def outcomes(
    store: TieredStore, clock: Ticking, tenant: str, texts: Sequence[Text], way: Way
) -> list[Outcome]:
    """What becomes of texts in a new tenant."""
    kept = [
        (f"text-{number}", one.text, home)
        for number, one in enumerate(texts)
        for home in (PROJECTS if way.both and one.general else PROJECTS[number % 2 :][:1])
    ]
    for key, text, home in kept:
        told: Any = {"tier": "working", "key": key, "importance": 0.9}
        _member(store, tenant, home, way).store(text, "semantic", **told)
    for day in range(_DAYS):
        for key, text, home in kept:
            if way is not USED and day > 0:
                break
            memory = _member(store, tenant, home, way, f"chat-{day % 3}")
            run = f"{key}-{home}-{day}"
            if way is USED:
                memory.get_context(text, limit=3, run_id=run, holdout=0)
            elif (found := memory.get(key)) is not None:
                memory.learning.record_outcome([found], success=True, run_id=run)
        clock.advance(days=1)
    reasons = {
        one.key: one.reason for one in _member(store, tenant, PROJECTS[0], way).learning.promote()
    }
    long_term = store.tier("long_term").search((tenant,), limit=10_000)
    said = {one.value["metadata"]["original_id"]: one.value["content"] for one in long_term}
    return [
        Outcome(one, key in said, said.get(key, one.text) != one.text, reasons.get(key, ""))
        for one, key in ((one, f"text-{number}") for number, one in enumerate(texts))
    ]


def _member(
    store: TieredStore, tenant: str, project: str, way: Way, session: str | None = None
) -> MemoryCoordinator:
    context = MemoryContext(tenant=tenant, project_id=project, session_id=session)
    return MemoryCoordinator(store, context=context, policy=way.policy)


def main(
    file: Annotated[Path, typer.Argument(help="Texts, a line each, with whether each is general.")],
    *,
    every: Annotated[bool, typer.Option(help="List what became of each.")] = False,
) -> None:
    """Promote the texts, and count."""
    texts = texts_of(file)
    clock = Ticking()
    with (
        tempfile.TemporaryDirectory() as folder,
        TieredStore.embedded(folder, clock=clock) as store,
    ):
        for number, way in enumerate(WAYS):
            found = outcomes(store, clock, f"tenant-{number}", texts, way)
            for one in found if every else ():
                typer.echo(f"  {'promoted' if one.promoted else one.reason}: {one.text}")
            general, own = (_counted(found, general=one) for one in (True, False))
            typer.echo(
                f"{way.name}: general, {general} promoted; about one project, {own} promoted; "
                f"{sum(one.changed for one in found)} changed"
            )


class Ticking:
    """A second passes at each look."""

    def __init__(self) -> None:
        self._now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def advance(self, **delta: float) -> None:
        """Let time pass, by the arguments of timedelta."""
        self._now += timedelta(**delta)


def _counted(found: Sequence[Outcome], *, general: bool) -> str:
    several = [one for one in found if one.text.general is general]
    return f"{sum(one.promoted for one in several)} of {len(several)}"


if __name__ == "__main__":
    typer.run(main)
