"""How large and how tangled the package is: `python -m benchmarks.package_size`.

The functions of `package_source.py`, `package_words.py`, `package_imports.py` and
`package_calls.py` say what is counted, and how. How many functions a call runs depends a little on
the release of Python: from 3.12 on, a list comprehension runs in the function that has it.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.package_calls import calls
from benchmarks.package_imports import Circle, circles, graph, longest_path
from benchmarks.package_source import (
    ERROR_CLASSES,
    FILE_LINES,
    FUNCTION_LINES,
    Module,
    Sized,
    async_functions,
    check_lines,
    code_lines,
    error_classes,
    functions,
    lines_below,
    modules,
    names_offered,
)
from benchmarks.package_words import (
    NOUN_CLAUSES,
    SHARED_FUNCTIONS,
    VAGUE_VARIABLES,
    noun_clauses,
    shared_classes,
    shared_functions,
    vague_parameters,
    vague_variables,
)
from langmem_tiers import MemoryCoordinator

METHODS = 30
"""Those that a coordinator has at most, async twins included."""
PROJECT = Path(__file__).parent.parent
PACKAGE = PROJECT / "langmem_tiers"


def main(
    *,
    check: Annotated[
        bool,
        typer.Option(
            help="Print what is too long, too many or goes in a circle, and fail if any is."
        ),
    ] = False,
) -> None:
    """Count what the package holds, and what a call runs of it."""
    read = modules(PACKAGE)
    if check:
        found = [*breaches(read), *too_many(MemoryCoordinator)]
        print(*found, sep="\n", end="\n" if found else "")
        raise typer.Exit(code=bool(found))
    table = Table(title="langmem_tiers", title_justify="left", show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    tangles = (*_tangles(read, PROJECT), *_calls())
    rows = (*sizes(read, PROJECT), *_verbs(), *_words(read), *tangles)
    for row in rows:
        table.add_row(*row)
    Console(width=160).print(table)


def sizes(read: Sequence[Module], project: Path) -> Iterator[tuple[str, str]]:
    """How large a package's sources are, and the project around it."""
    files, found = _files(read), _functions(read)
    code = sum(code_lines(one.text) for one in read)
    yield "lines of code, without blank ones, comments and docstrings", f"{code:,}"
    yield "files", f"{len(read):,}"
    longest_file, longest = max(files, key=_length), max(found, key=_length)
    yield f"the longest file, {longest_file.name}", f"{longest_file.lines:,} lines"
    yield f"files over {FILE_LINES} lines", _listed(_over(files, FILE_LINES))
    yield "functions", f"{len(found):,}"
    yield "the median function", f"{statistics.median(map(_length, found)):g} lines"
    yield f"the longest function, {longest.name}", f"{longest.lines:,} lines"
    yield f"functions over {FUNCTION_LINES} lines", _listed(_over(found, FUNCTION_LINES))
    checks = sum(check_lines(one.tree) for one in read)
    yield "lines that check arguments by hand, docstrings included", f"{checks:,}"
    yield "files and folders at the top of the package", f"{entries(read[0].path.parent):,}"
    yield "names in __all__", f"{names_offered(read[0].tree):,}"
    yield "public error classes", f"{len(_error_classes(read)):,}"
    for folder in ("tests", "benchmarks"):
        yield f"lines below {folder}/, all of them", f"{lines_below(project / folder):,}"


def _words(read: Sequence[Module]) -> Iterator[tuple[str, str]]:
    """Yield how the names and the docstrings read."""
    clauses = [text for module in read for text in noun_clauses(module)]
    yield "docstrings that begin with a noun clause", f"{len(clauses):,}"
    yield "uses of a variable called one", f"{sum(map(vague_variables, read)):,}"
    parameters = [text for module in read for text in vague_parameters(module)]
    yield "parameters whose names don't tell what they hold", f"{len(parameters):,}"
    yield "class names that stand twice", f"{len(shared_classes(read)):,}"
    yield "names of public functions in three modules or more", f"{len(shared_functions(read)):,}"


def _tangles(read: Sequence[Module], project: Path) -> Iterator[tuple[str, str]]:
    """How the modules hang together, and how many functions are awaited.

    The layers are those of the contract; import-linter finds what goes up in them.
    """
    running, everywhere = graph(read), graph(read, everywhere=True)
    yield "layers in pyproject.toml", f"{_layers(project / 'pyproject.toml'):,}"
    yield "imports that go up: see make contracts", "–"
    yield "the longest path of imports, at run time", f"{longest_path(running):,}"
    yield "… with those for types and in functions", f"{longest_path(everywhere):,}"
    yield "circles, at run time", _circled(circles(running))
    yield "… with imports for types and in functions", _circled(circles(everywhere))
    yield "async def", f"{sum(async_functions(one.tree) for one in read):,}"


def _calls() -> Iterator[tuple[str, str]]:
    for verb, one in calls().items():
        yield f"what a warm {verb} runs", f"{one.functions:,} functions of {one.files:,} files"


def _verbs() -> Iterator[tuple[str, str]]:
    found = len(methods(MemoryCoordinator))
    yield "methods of the coordinator, twins included", f"{found:,}"


def methods(kind: type) -> list[str]:
    """The methods that a class itself offers, without those that it inherits."""
    return [name for name, one in vars(kind).items() if callable(one) and not name.startswith("_")]


def too_many(kind: type, most: int = METHODS) -> Iterator[str]:
    """A line if a class has more methods than it may have."""
    if (found := len(methods(kind))) > most:
        yield f"{kind.__name__}: {found} methods, {most} are allowed"


def entries(package: Path) -> int:
    """Files and folders at the top of a package, py.typed among them, without what Python left."""
    return sum(one.name != "__pycache__" for one in package.iterdir())


def breaches(read: Sequence[Module]) -> Iterator[str]:
    """A line for each thing that is too long or too many, and for each circle of imports."""
    for one in _over(_files(read), FILE_LINES):
        yield f"{one.name}: {one.lines} lines, {FILE_LINES} are allowed"
    for one in _over(_functions(read), FUNCTION_LINES):
        yield f"{one.name}: a function of {one.lines} lines, {FUNCTION_LINES} are allowed"
    if len(errors := _error_classes(read)) > ERROR_CLASSES:
        several = f"{len(errors)} public error classes, {ERROR_CLASSES} are allowed"
        yield f"{several}: {', '.join(errors)}"
    for circle in circles(graph(read, everywhere=True)):
        yield f"{', '.join(circle)}: a circle of imports, be it for types alone"
    yield from breaches_of_words(read)


def breaches_of_words(read: Sequence[Module]) -> Iterator[str]:
    """Yield a line for each name that is vague or stands for two things, and for docstrings."""
    clauses = [text for module in read for text in noun_clauses(module)]
    if len(clauses) > NOUN_CLAUSES:
        yield from clauses
    for module in read:
        for text in vague_parameters(module):
            yield f"{text}: no name of a parameter, as it doesn't tell what it holds"
    if (uses := sum(map(vague_variables, read))) > VAGUE_VARIABLES:
        yield f"{uses} uses of a variable called one, {VAGUE_VARIABLES} are allowed"
    for name, places in shared_classes(read).items():
        yield f"{name}: a class in {' and in '.join(places)}"
    shared = shared_functions(read)
    for name, places in shared.items() if len(shared) > SHARED_FUNCTIONS else ():
        yield f"{name}: a public function in {', '.join(places)}"


def _error_classes(read: Sequence[Module]) -> list[str]:
    return [name for one in read for name in error_classes(one.tree)]


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


def _listed(found: Sequence[Sized]) -> str:
    return "\n".join([str(len(found)), *(f"{one.name} ({one.lines})" for one in found)])


def _circled(found: Sequence[Circle]) -> str:
    return "\n".join([str(len(found)), *(", ".join(one) for one in found)])


if __name__ == "__main__":
    typer.run(main)
