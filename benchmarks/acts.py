"""What takes back or corrects what was said before, found by `python -m benchmarks.acts`.

`data/acts.jsonl` holds 1,080 messages of three authors, a third of which takes something back
(`retract`) or corrects it (`correct`), with what was said before each. Without more, linear
classifiers over the words of a message are fitted on two of the authors, and judge the third with
the least threshold at which none of the ordinary messages of `data/life.jsonl` acts. With
`--model`, a chat model is asked in the way of `judge=`: it finds an act if it names the kind and
the memory, and all else that it names is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple

import typer
from langchain.chat_models import init_chat_model
from rich.console import Console
from rich.progress import track

from benchmarks.data import Record, records
from benchmarks.fit_means import Message, fit, scored, vocabulary
from benchmarks.tables import Sheet, show
from langmem_tiers.core.errors import ModelError
from langmem_tiers.remember.acts import Decider, Earlier, decider_of, own_words
from langmem_tiers.remember.means import parts

KINDS: Final = ("retract", "correct")
_BEGAN: Final = datetime(2026, 3, 1, tzinfo=UTC)


class Count(NamedTuple):
    """How many acts there are, how many are found, and how often one is named."""

    there: int
    found: int
    named: int


def ordinary() -> list[str]:
    """What is said in lives in which nothing is taken back or corrected."""
    lives = (one for one in records("life") if one["kind"] not in KINDS)
    return [event["say"] for life in lives for event in life["events"] if "say" in event]


def by_words(kind: str, writer: str) -> Count:
    """What a classifier finds of one author that knows the others."""
    everyday = [Message("life", "none", text) for text in ordinary() if parts(text)]
    others = [
        Message(one["writer"], one["act"], one["message"])
        for one in records("acts")
        if one["writer"] != writer and parts(one["message"])
    ]
    several = [*others, *everyday[::2]]
    known = vocabulary(several)
    weights = fit(several, kind, known)

    def score(text: str) -> float:
        return max((scored(weights, one, known) for one in parts(text)), default=-math.inf)

    least = max(score(one.text) for one in everyday[1::2])
    own = [one for one in records("acts") if one["writer"] == writer]
    named = [one for one in own if score(one["message"]) > least]
    right = sum(one["act"] == kind for one in named)
    return Count(sum(one["act"] == kind for one in own), right, len(named))


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
    times = (_BEGAN + timedelta(minutes=number) for number in range(len(one["earlier"])))
    earlier = [Earlier(text, at, here=True) for text, at in zip(one["earlier"], times, strict=True)]
    if (said := own_words(one["message"])) and earlier:
        yield from ((act.kind, act.place) for act in decider.call(said, earlier).acts)


def _counted(kind: str, answered: Iterable[tuple[Record, set[tuple[str, int]]]]) -> Count:
    there = found = named = 0
    for one, said in answered:
        there += one["act"] == kind
        found += one["act"] == kind and (kind, one["target"]) in said
        named += sum(act == kind for act, _ in said)
    return Count(there, found, named)


def _row(kind: str, source: str, count: Count) -> list[str]:
    shares = count.found / max(1, count.there), count.found / max(1, count.named)
    return [kind, source, *map(str, count), *(f"{share:.0%}" for share in shares)]


def main(
    model: Annotated[str, typer.Option(help="Such as openai:gpt-5-mini; its key is needed.")] = "",
    most: Annotated[int, typer.Option(help="Messages at most that it is asked about.")] = 1_080,
) -> None:
    """Print what is found, and how rightly."""
    if model:
        counts, failed = by_model(decider_of(init_chat_model(model)), records("acts")[:most])
        rows = [_row(kind, model, count) for kind, count in counts.items()]
        typer.echo(f"no usable answer: {failed}")
    else:
        writers = sorted({one["writer"] for one in records("acts")})
        rows = [_row(kind, one, by_words(kind, one)) for kind in KINDS for one in writers]
    columns = ["act", "of" if not model else "by", "there", "found", "named", "recall", "precision"]
    show([Sheet("What takes something back or corrects it", columns, rows)], Console(width=100))


if __name__ == "__main__":
    typer.run(main)
