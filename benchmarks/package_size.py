"""How large and how tangled the package is: `python -m benchmarks.package_size`.

What is counted, and how, is said by the functions of `package_source.py`, `package_imports.py` and
`package_calls.py`. How many functions a call runs depends a little on the release of Python: from
3.12 on, lists that are made of others run in the function that makes them.
"""

from __future__ import annotations

import json
import statistics
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.package_calls import Calls, calls
from benchmarks.package_imports import Circle, circles, graph, longest_path
from benchmarks.package_source import (
    FILE_LINES,
    FUNCTION_LINES,
    Module,
    Sized,
    async_functions,
    code_lines,
    copies_in_classes,
    copies_side_by_side,
    functions,
    lines_below,
    modules,
    names_offered,
)

PROJECT = Path(__file__).parent.parent
PACKAGE = PROJECT / "langmem_tiers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the sources are."""

    files: int
    code_lines: int
    longest_file: Sized
    long_files: Sequence[Sized]
    functions: int
    median_function: float
    longest_function: Sized
    long_functions: Sequence[Sized]
    entries: int
    names_offered: int
    test_lines: int
    benchmark_lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tangle:
    """How the modules hang together, and what is written once blocking and once not.

    `layers` are those of the contract in pyproject.toml; import-linter finds what goes up in them.
    """

    layers: int
    longest_path: int
    longest_path_everywhere: int
    circles: Sequence[Circle]
    circles_everywhere: Sequence[Circle]
    async_functions: int
    copies_side_by_side: Sequence[str]
    copies_in_classes: Sequence[str]


def main(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
    check: Annotated[
        bool, typer.Option(help="Print what is too long, and fail if anything is.")
    ] = False,
) -> None:
    """Count what the package holds, and what a call runs of it."""
    read = modules(PACKAGE)
    if check:
        found = list(breaches(read))
        print(*found, sep="\n", end="\n" if found else "")
        raise typer.Exit(code=bool(found))
    size, tangle, ran = size_of(read, PROJECT), tangle_of(read, PROJECT), calls()
    if as_json:
        run = {verb: asdict(one) for verb, one in ran.items()}
        print(json.dumps({**asdict(size), **asdict(tangle), "calls": run}, indent=1))
    else:
        _show([*_size_rows(size), *_tangle_rows(tangle), *_call_rows(ran)])


def size_of(read: Sequence[Module], project: Path) -> Size:
    """The figures of a package's modules, and of the project around it."""
    files, found = _files(read), _functions(read)
    return Size(
        files=len(read),
        code_lines=sum(code_lines(one.text) for one in read),
        longest_file=max(files, key=_length),
        long_files=_over(files, FILE_LINES),
        functions=len(found),
        median_function=statistics.median(map(_length, found)),
        longest_function=max(found, key=_length),
        long_functions=_over(found, FUNCTION_LINES),
        entries=entries(read[0].path.parent),
        names_offered=names_offered(read[0].tree),
        test_lines=lines_below(project / "tests"),
        benchmark_lines=lines_below(project / "benchmarks"),
    )


def tangle_of(read: Sequence[Module], project: Path) -> Tangle:
    """The same of its imports and its copies."""
    running, everywhere = graph(read), graph(read, everywhere=True)
    return Tangle(
        layers=_layers(project / "pyproject.toml"),
        longest_path=longest_path(running),
        longest_path_everywhere=longest_path(everywhere),
        circles=circles(running),
        circles_everywhere=circles(everywhere),
        async_functions=sum(async_functions(one.tree) for one in read),
        copies_side_by_side=[
            _at(one, name) for one in read for name in copies_side_by_side(one.tree)
        ],
        copies_in_classes=[_at(one, name) for one in read for name in copies_in_classes(one.tree)],
    )


def entries(package: Path) -> int:
    """Files and folders at the top of a package, py.typed among them, without what Python left."""
    return sum(one.name != "__pycache__" for one in package.iterdir())


def breaches(read: Sequence[Module]) -> Iterator[str]:
    """A line for each file and each function that is too long."""
    for one in _over(_files(read), FILE_LINES):
        yield f"{one.name}: {one.lines} lines, {FILE_LINES} are allowed"
    for one in _over(_functions(read), FUNCTION_LINES):
        yield f"{one.name}: a function of {one.lines} lines, {FUNCTION_LINES} are allowed"


def _files(read: Sequence[Module]) -> list[Sized]:
    return [Sized(_path(one), one.lines) for one in read]


def _functions(read: Sequence[Module]) -> list[Sized]:
    return [Sized(_at(one, each.name), each.lines) for one in read for each in functions(one.tree)]


def _path(module: Module) -> str:
    """From the package's folder on."""
    depth = module.name.count(".") + module.is_package + 1
    return "/".join(module.path.parts[-depth:])


def _at(module: Module, name: str) -> str:
    return f"{_path(module)}: {name}"


def _over(found: Sequence[Sized], most: int) -> list[Sized]:
    return sorted((one for one in found if one.lines > most), key=_length, reverse=True)


def _length(one: Sized) -> int:
    return one.lines


def _layers(pyproject: Path) -> int:
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]
    return sum(len(one.get("layers", ())) for one in contracts["contracts"])


def _size_rows(size: Size) -> Iterator[tuple[str, str]]:
    yield "lines of code, without blank ones, comments and docstrings", f"{size.code_lines:,}"
    yield "files", f"{size.files:,}"
    yield f"the longest file, {size.longest_file.name}", f"{size.longest_file.lines:,} lines"
    yield f"files over {FILE_LINES} lines", _listed(size.long_files)
    yield "functions", f"{size.functions:,}"
    yield "the median function", f"{size.median_function:g} lines"
    longest = size.longest_function
    yield f"the longest function, {longest.name}", f"{longest.lines:,} lines"
    yield f"functions over {FUNCTION_LINES} lines", _listed(size.long_functions)
    yield "files and folders at the top of the package", f"{size.entries:,}"
    yield "names in __all__", f"{size.names_offered:,}"
    yield "lines below tests/, all of them", f"{size.test_lines:,}"
    yield "lines below benchmarks/, all of them", f"{size.benchmark_lines:,}"


def _tangle_rows(tangle: Tangle) -> Iterator[tuple[str, str]]:
    yield "layers in pyproject.toml", f"{tangle.layers:,}"
    yield "imports that go up: see make contracts", "–"
    yield "the longest path of imports, at run time", f"{tangle.longest_path:,}"
    yield "… with those for types and in functions", f"{tangle.longest_path_everywhere:,}"
    yield "circles, at run time", _circled(tangle.circles)
    yield "… with imports for types and in functions", _circled(tangle.circles_everywhere)
    yield "async def", f"{tangle.async_functions:,}"
    yield "copies kept by hand, x beside ax", f"{len(tangle.copies_side_by_side):,}"
    yield "copies kept by hand, X.x and AsyncX.x", f"{len(tangle.copies_in_classes):,}"


def _call_rows(ran: dict[str, Calls]) -> Iterator[tuple[str, str]]:
    for verb, one in ran.items():
        yield f"what a warm {verb} runs", f"{one.functions:,} functions of {one.files:,} files"


def _listed(found: Sequence[Sized]) -> str:
    return "\n".join([str(len(found)), *(f"{one.name} ({one.lines})" for one in found)])


def _circled(found: Sequence[Circle]) -> str:
    return "\n".join([str(len(found)), *(", ".join(one) for one in found)])


def _show(rows: Sequence[tuple[str, str]]) -> None:
    table = Table(title="langmem_tiers", title_justify="left", show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(width=160).print(table)


if __name__ == "__main__":
    typer.run(main)
