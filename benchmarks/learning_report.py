"""The run's tables and its plot, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks import failures, streams
from benchmarks.failure_families import HELD_OUT
from benchmarks.faulty_measure import NONE, WAYS
from benchmarks.faulty_tools import WORLDS
from benchmarks.learning_alfworld import POLICIES, Replay, plain_counts
from benchmarks.learning_mbpp import Found
from benchmarks.learning_results import Results, bars
from benchmarks.report import Sheet

EXPLAINED = 3
"""Promotions that are explained in full."""
_WIDE = 72
_LEVELS = " ▁▂▃▄▅▆▇█"


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    if results.keyed:
        yield _signatures(results)
    if results.streams:
        found = [one for one in streams.sheets(results.streams) if one.title != "Bars"]
        for one in (*found, *results.limits):
            yield Sheet(one.title, one.columns, one.rows)
    if results.programming:
        yield _programming(results)
    if results.replays:
        yield from (_outcomes(results), _promotions(results))
    if results.runs:
        yield from (_repeats(results, world) for world in WORLDS)
    yield Sheet("Bars", ("claim", "wanted", "measured", ""), [one.row for one in bars(results)])


def show(results: Results, console: Console) -> None:
    """Print every table, the explanations, and the plot."""
    for sheet in sheets(results):
        table = Table(title=sheet.title, title_justify="left")
        for number, name in enumerate(sheet.columns):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in sheet.rows:
            table.add_row(*row, style="red" if "MISS" in row else None)
        console.print(table)
    for line in (*explanations(results), *plot(results), _foot(results)):
        console.print(line, highlight=False, markup=False)


def markdown(results: Results) -> str:
    """Every table as Markdown, then the rest as it is printed."""
    parts = []
    for sheet in sheets(results):
        lines = [sheet.columns, ["---", *["---:"] * (len(sheet.columns) - 1)], *sheet.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"**{sheet.title}**\n\n{table}")
    rest = "\n".join((*explanations(results), *plot(results)))
    return "\n\n".join([*parts, f"```text\n{rest}\n```", _foot(results)])


def explanations(results: Results) -> Iterator[str]:
    """Some of the memories that were promoted, explained."""
    for replay in results.replays:
        chosen = replay.promoted[:EXPLAINED]
        if chosen:
            yield f"Promoted as specified, {replay.name}; {len(chosen)} of {len(replay.promoted)}:"
        for one in chosen:
            yield f"\n{one}\n"


def plot(results: Results) -> Iterator[str]:
    """Repeated failures as the tasks go by, each world in its own scale."""
    for world in WORLDS if results.runs else ():
        courses = {way: results.repeats(world, way).course for way in WAYS}
        most = max(max(course) for course in courses.values()) or 1
        yield f"Repeated failures after each task, {world}; full height is {most}:"
        for way, course in courses.items():
            yield f"  {way:14}{_spark(course, most)} {course[-1]}"


def _spark(course: Sequence[int], most: int) -> str:
    places = [course[n * len(course) // _WIDE] for n in range(_WIDE - 1)] + [course[-1]]
    return "".join(_LEVELS[round(one / most * (len(_LEVELS) - 1))] for one in places)


def _signatures(results: Results) -> Sheet:
    rows = []
    for name, among in results.keyed.items():
        held = {one: keys for one, keys in among.items() if one in HELD_OUT}
        tuned = {one: keys for one, keys in among.items() if one not in HELD_OUT}
        figures = [failures.figures(counts, among) for counts in (among, tuned, held)]
        rows.append((name, *(f"{share:.2%}" for one in figures for share in one)))
    columns = [
        f"{what}, {which}" for which in ("all", "tuned on", "held out") for what in _OF_SIGNATURES
    ]
    return Sheet("Signatures: families of failures, mutated", ("", *columns), rows)


_OF_SIGNATURES = ("kept", "collided")


def _programming(results: Results) -> Sheet:
    ways = list(results.programming[0].ranks)
    rows = [
        (way, *(f"{share:.3f}" for one in results.programming for share in _shares(one, way)))
        for way in ways
    ]
    first = results.programming[0]
    title = (
        f"Real reflexions: {len(first.ranks[ways[0]])} prompts to {first.lessons} lessons and "
        f"{first.company} solutions"
    )
    columns = [f"{what}, {one.form}" for one in results.programming for what in ("MRR", "hit@1")]
    return Sheet(title, ("", *columns), rows)


def _shares(found: Found, way: str) -> tuple[float, float]:
    return found.mrr(way), found.hit(way)


def _outcomes(results: Results) -> Sheet:
    rows = []
    for one in results.replays:
        successes, counts = plain_counts(results.logs, one.name)
        same = sum(one.successes[name] == n for name, n in successes.items())
        alike = sum(one.counts[lesson] == n for lesson, n in counts.items())
        rows.append(
            (
                one.name,
                f"{one.shown - one.shown_wrong:,} of {one.shown:,}",
                f"{sum(one.successes.values()):,}",
                f"{sum(successes.values()):,}",
                f"{same} of {len(successes)}",
                f"{alike} of {len(counts)}",
            )
        )
    columns = (
        *("replay", "runs shown as logged", "successes", "in the files"),
        *("households alike", "lessons alike"),
    )
    return Sheet("Real outcomes: what was counted", columns, rows)


def _promotions(results: Results) -> Sheet:
    rows = [(one.name, str(len(one.counts)), *_worthy(one)) for one in results.replays]
    columns = ("replay", "lessons", *POLICIES, "promoted as specified")
    return Sheet("Real outcomes: lessons that a policy finds worthy", columns, rows)


def _worthy(replay: Replay) -> list[str]:
    return [*(str(len(replay.would[name])) for name in POLICIES), str(len(replay.promoted))]


def _repeats(results: Results, world: str) -> Sheet:
    base = results.repeats(world, NONE)
    rows = []
    for way in WAYS:
        found = results.repeats(world, way)
        share = found.again / base.again if base.again else 0.0
        calls = found.calls / base.calls if base.calls else 0.0
        rows.append(
            (
                way,
                f"{found.again} of {found.chances}",
                f"{share:.3f}",
                str(found.calls),
                f"{calls:.3f}",
                str(found.unsolved),
            )
        )
    columns = (
        *("", "repeated failures", "share of no memory"),
        *("their failed calls", "share of no memory", "tasks given up"),
    )
    return Sheet(f"Faulty tools: {world}", columns, rows)


def _foot(results: Results) -> str:
    facts = ", ".join(f"{name} {what}" for name, what in results.environment.items())
    left_out = "".join(f" Left out: {one}." for one in results.left_out)
    return f"All is seeded; {facts}; {results.seconds:.0f} s in all.{left_out}"
