"""How rightly a chat model says what takes back or corrects what was said before.

`python -m benchmarks.acts --model openai:gpt-5-mini` asks it in the way of `judge=` about the
messages of `data/acts.jsonl`: it finds an act if it names the kind and a memory that the act is
about, and all else that it names is wrong. What is found without a model, by words alone, says
`python -m benchmarks.fit_means`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple

import typer
from langchain.chat_models import init_chat_model
from rich.console import Console
from rich.progress import track

from benchmarks.data import Record, records
from benchmarks.tables import Sheet, show
from langmem_tiers.core.errors import ModelError
from langmem_tiers.remember.acts import Decider, Earlier, decider_of, own_words

KINDS: Final = ("retract", "correct")
_BEGAN: Final = datetime(2026, 3, 1, tzinfo=UTC)


class Count(NamedTuple):
    """How many acts there are, how many are found, and how often one is named."""

    there: int
    found: int
    named: int


def by_model(decider: Decider, several: Sequence[Record]) -> tuple[dict[str, Count], int]:
    """What a chat model finds, by kinds, and how many messages it had no usable answer to."""
    answered, failed = list[tuple[Record, set[tuple[str, int]]]](), 0
    for one in track(several, "Asking"):
        try:
            answered.append((one, set(_said(decider, one))))
        except ModelError:
            failed += 1
    return {kind: _counted(kind, answered) for kind in KINDS}, failed


def _said(decider: Decider, one: Record) -> Iterator[tuple[str, int]]:
    times = (_BEGAN + timedelta(minutes=number) for number in range(len(one["turns"])))
    earlier = [
        Earlier(turn["user"], at, here=turn["session"] == one["now"])
        for turn, at in zip(one["turns"], times, strict=True)
    ]
    if (said := own_words(one["message"])) and earlier:
        yield from ((act.kind, act.place) for act in decider.call(said, earlier).acts)


def _counted(kind: str, answered: Iterable[tuple[Record, set[tuple[str, int]]]]) -> Count:
    there = found = named = 0
    for one, said in answered:
        there += one["act"] == kind
        found += one["act"] == kind and any((kind, place) in said for place in one["targets"])
        named += sum(act == kind for act, _ in said)
    return Count(there, found, named)


def _row(kind: str, source: str, count: Count) -> list[str]:
    shares = count.found / max(1, count.there), count.found / max(1, count.named)
    return [kind, source, *map(str, count), *(f"{share:.0%}" for share in shares)]


def main(
    model: Annotated[str, typer.Option(help="Such as openai:gpt-5-mini; its key is needed.")],
    most: Annotated[int, typer.Option(help="Messages at most that it is asked about.")] = 2_740,
) -> None:
    """Print what is found, and how rightly."""
    counts, failed = by_model(decider_of(init_chat_model(model)), records("acts")[:most])
    typer.echo(f"no usable answer: {failed}")
    rows = [_row(kind, model, count) for kind, count in counts.items()]
    columns = ["act", "by", "there", "found", "named", "recall", "precision"]
    show([Sheet("What takes something back or corrects it", columns, rows)], Console(width=100))


if __name__ == "__main__":
    typer.run(main)
