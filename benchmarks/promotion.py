"""Which proven texts are promoted, and in which words: `python -m benchmarks.promotion FILE`.

A line of the file is a text, and whether it is for everybody: `{"text": …, "general": true}`.
Whoever writes them knows no rule. A tenant has two projects. What is general is told in both, and
counted as well where it is told in one; what is about one project is told in one, by turns. Every
memory has proven itself, one project being enough: what is held back is held back for what it says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from benchmarks.data import records_of
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.learn.promotion_rules import PromotionPolicy

WORTHY: Final = PromotionPolicy(min_access_count=0, min_age_days=0, min_projects=1)
"""One success in one project is enough."""
PROJECTS: Final = ("orchard", "lantern")


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
    store: TieredStore, tenant: str, texts: Sequence[Text], *, both: bool
) -> list[Outcome]:
    """What becomes of texts in a new tenant; general ones are told in `both` projects or one."""
    members = [
        MemoryCoordinator(
            store, context=MemoryContext(tenant=tenant, project_id=one), policy=WORTHY
        )
        for one in PROJECTS
    ]
    for number, one in enumerate(texts):
        own = members if both and one.general else [members[number % len(members)]]
        for member in own:
            member.store(one.text, "semantic", tier="working", key=f"text-{number}", importance=0.5)
            found = member.get(f"text-{number}")
            member.record_outcome([found] if found else [], success=True)
    reasons = {one.key: one.reason for one in members[0].promote()}
    long_term = store.tier("long_term").search((tenant,), limit=10_000)
    told = {one.value["metadata"]["original_id"]: one.value["content"] for one in long_term}
    return [
        Outcome(
            one,
            f"text-{number}" in told,
            told.get(f"text-{number}", one.text) != one.text,
            reasons.get(f"text-{number}", ""),
        )
        for number, one in enumerate(texts)
    ]


def main(
    file: Annotated[Path, typer.Argument(help="Texts, a line each, with whether each is general.")],
    *,
    every: Annotated[bool, typer.Option(help="List what became of each.")] = False,
) -> None:
    """Promote the texts, and count."""
    texts = texts_of(file)
    with (
        tempfile.TemporaryDirectory() as folder,
        TieredStore.embedded(folder, clock=Ticking()) as store,
    ):
        for tenant, both in (("told in two projects", True), ("told in one", False)):
            found = outcomes(store, tenant, texts, both=both)
            for one in found if every else ():
                typer.echo(f"  {'promoted' if one.promoted else one.reason}: {one.text}")
            general, own = (_counted(found, general=one) for one in (True, False))
            typer.echo(
                f"general texts {tenant}: {general} promoted; about one project: {own} promoted; "
                f"changed: {sum(one.changed for one in found)}"
            )


class Ticking:
    """A second passes at each look."""

    def __init__(self) -> None:
        self._now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


def _counted(found: Sequence[Outcome], *, general: bool) -> str:
    several = [one for one in found if one.text.general is general]
    return f"{sum(one.promoted for one in several)} of {len(several)}"


if __name__ == "__main__":
    typer.run(main)
