"""What an agent's model is shown over months of ordinary talk: `python -m benchmarks.life [FILE]`.

A scenario is a user's life with an assistant: things said in passing, requests that need no memory,
facts that change, weeks in between. At its questions what memory puts before the model is held
beside what it should and should not have. `benchmarks/data/life.jsonl` was written for this by
three hands that knew nothing of how recall works, and by us (`writer`); a file of one's own has an
object a line:

    {"id", "kind", "events": [{"at", "user", "thread", "say" or "ask", "reply", …checks}, …]}

`at` is ISO 8601 in UTC; an event may also be `{"at", "end": thread, "user"}`, the end of a session,
or `{"at", "night": true}`, when background work is done. Checks of what is shown: `shown` must all
occur, `hidden` none, `any` one of them; of each pair in `order` the first must, and before the
second; `nothing`: no memory at all; `tokens` at most, of four characters. Case does not matter.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from benchmarks.data import FOLDER, Record, records_of
from benchmarks.tables import Sheet, show

_CHARACTERS = 4
"""Of a token, about."""


class Clock:
    """The time of the scenario."""

    now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class Asked(NamedTuple):
    """A question, what was shown for it, and what is wrong with that."""

    scenario: str
    kind: str
    question: str
    shown: str
    wrong: list[str]


def wrong_with(shown: str, checks: Record) -> list[str]:
    """What a text lacks, and what should not be in it."""
    text = shown.casefold()

    def place(one: str) -> int:
        return text.find(one.casefold())

    found = [f"lacks {one!r}" for one in checks.get("shown", ()) if place(one) < 0]
    found += [f"shows {one!r}" for one in checks.get("hidden", ()) if place(one) >= 0]
    if (some := checks.get("any")) and all(place(one) < 0 for one in some):
        found.append(f"has none of {some}")
    for first, second in checks.get("order", ()):
        if place(first) < 0:
            found.append(f"lacks {first!r}")
        elif 0 <= place(second) < place(first):
            found.append(f"{second!r} before {first!r}")
    if checks.get("nothing") and text.strip():
        found.append("shows something where nothing is needed")
    if len(text) > _CHARACTERS * checks.get("tokens", len(text)):
        found.append(f"more than {checks['tokens']} tokens")
    return found


def lived(scenario: Record, agent: Any, clock: Clock) -> Iterator[Asked]:
    """Live through a scenario; its questions."""
    for event in scenario["events"]:
        at = datetime.fromisoformat(event["at"])
        clock.now = at if at.tzinfo else at.replace(tzinfo=UTC)
        user = f"{scenario['id']}-{event.get('user', 'ann')}"
        if event.get("night"):
            agent.night()
        elif "end" in event:
            agent.end(user, f"{user}-{event['end']}")
        else:
            said = event.get("ask") or event["say"]
            thread = f"{user}-{event['thread']}"
            shown = agent.turn(user, thread, said, event.get("reply", "OK."))
            if "ask" in event:
                wrong = wrong_with(shown, event)
                yield Asked(scenario["id"], scenario["kind"], said, shown, wrong)


def measure(scenarios: Iterable[Record], adapter: str) -> Iterator[Asked]:
    """The questions of all scenarios, each lived through in a store of its own."""
    make = import_module(adapter).Agent
    for scenario in scenarios:
        clock = Clock()
        clock.now = datetime.fromisoformat(scenario["events"][0]["at"]).replace(tzinfo=UTC)
        with (
            tempfile.TemporaryDirectory(prefix="life-") as folder,
            make(Path(folder), clock) as agent,
        ):
            yield from lived(scenario, agent, clock)


def row(name: str, several: list[Asked]) -> list[str]:
    """A row of the table."""
    right = sum(not one.wrong for one in several)
    tokens = sum(len(one.shown) for one in several) / _CHARACTERS / max(1, len(several))
    share = right / max(1, len(several))
    return [name, str(len(several)), str(right), f"{share:.0%}", f"{tokens:.0f}"]


def main(
    file: Annotated[Path, typer.Argument(help="Scenarios of your own.")] = FOLDER / "life.jsonl",
    adapter: Annotated[str, typer.Option(help="A module with an Agent.")] = "benchmarks.life_agent",
    only: Annotated[str, typer.Option(help="A kind, or the id of a scenario.")] = "",
    *,
    explain: Annotated[bool, typer.Option(help="Print what was wrong with what.")] = False,
) -> None:
    """Live through scenarios, and print how often the model was shown what it needed."""
    scenarios = [one for one in records_of(file) if only in ("", one["kind"], one["id"])]
    asked = []
    for one in measure(scenarios, adapter):
        asked.append(one)
        if explain and one.wrong:
            typer.echo(f"{one.scenario}: {one.question}\n  {'; '.join(one.wrong)}\n{one.shown}\n")
    kinds = {kind: [one for one in asked if one.kind == kind] for kind in {o.kind for o in asked}}
    rows = [row(kind, kinds[kind]) for kind in sorted(kinds)]
    columns = ["kind", "questions", "right", "share", "tokens"]
    sheet = Sheet("What the model was shown", columns, [*rows, row("all", asked)])
    show([sheet], Console(width=100))


if __name__ == "__main__":
    typer.run(main)
