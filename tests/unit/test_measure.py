"""What `make measure` counts, on small sources."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

from benchmarks.package_calls import Calls, least
from benchmarks.package_imports import circles, graph, longest_path
from benchmarks.package_size import breaches, entries, methods, sizes, too_many
from benchmarks.package_source import (
    Sized,
    async_functions,
    check_lines,
    code_lines,
    functions,
    modules,
)
from benchmarks.package_words import (
    noun_clauses,
    shared_classes,
    shared_functions,
    vague_parameters,
    vague_variables,
)

SOURCE = '''\
"""A module.

Of three lines."""

# a comment
import os  # beside code

LIMIT = 3
"""What it is for."""


def first(text: str) -> str:
    """What it does."""
    # why
    sql = """SELECT 1

    -- a line of a string, not a comment
    """
    return text + sql


class Second:
    def only(self) -> str: "In the line of its code."
    "Of two lines, \\
    in quotes of one."
'''
IN_CIRCLES = {
    "__init__": "",
    "a": "from pkg import b",
    "b": "import pkg.c",
    "c": "from .a import name\nfrom pkg import d",
    "d": "import os\nfrom .deep import under",
    "deep/__init__": "",
    "deep/under": "from ..bottom import name\nfrom . import beside",
    "deep/beside": "",
    "bottom": "",
}
HIDDEN = {
    "__init__": "",
    "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.b import B",
    "b": "def later():\n    from pkg import a\n    import pkg.c",
    "c": "try:\n    import pkg.d\nexcept ImportError:\n    pass",
    "d": "",
}


def package(folder: Path, sources: dict[str, str]) -> Path:
    """Write a package named pkg."""
    for name, text in sources.items():
        path = folder / "pkg" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "pkg"


def test_blank_lines_comments_and_docstrings_are_no_code() -> None:
    code = ["import", "LIMIT", "def first", "sql =", "-- a line", '"""', "return", "class", "def"]
    assert code_lines(SOURCE) == len(code)
    for text in ("", "\n\n", "# all\n", '"""A docstring."""\n', "'a' 'b'"):
        assert code_lines(text) == 0
    assert code_lines("a = 1\n\f\nb = 2\n") == 2  # a form feed ends no line


def test_a_function_is_as_long_as_its_signature_and_its_body() -> None:
    tree = ast.parse(
        dedent("""
        @decorated
        def outer(
            a,
        ):
            '''Says what it does.'''

            async def inner():
                return a

            return inner

        class Kept:
            def method(self): ...
        """)
    )
    assert list(functions(tree)) == [
        Sized("outer", 9),
        Sized("outer.inner", 2),
        Sized("Kept.method", 1),
    ]
    assert async_functions(tree) == 1


def test_lines_that_check_are_those_of_checks_and_of_what_only_raises() -> None:
    tree = ast.parse(
        dedent("""
        def _checked(a):
            if a:
                raise ValueError
            return a

        def other(a):
            if a:
                raise ValueError(
                    a)
            if a:
                return a
            return _checked(a)
        """)
    )
    assert check_lines(tree) == 4 + 3


def test_modules_in_a_circle_are_one_on_the_longest_path(
    tmp_path: Path,
) -> None:
    imports = graph(modules(package(tmp_path, IN_CIRCLES)))
    assert circles(imports) == [("pkg.a", "pkg.b", "pkg.c")]
    assert imports["pkg.deep.under"] == {"pkg.bottom", "pkg.deep.beside"}
    assert longest_path(imports) == 4  # the circle, d, deep.under, bottom


def test_imports_for_types_and_in_functions_count_apart(tmp_path: Path) -> None:
    read = modules(package(tmp_path, HIDDEN))
    running, everywhere = graph(read), graph(read, everywhere=True)
    assert (circles(running), longest_path(running)) == ([], 2)
    assert (circles(everywhere), longest_path(everywhere)) == ([("pkg.a", "pkg.b")], 3)


def test_what_is_too_long_is_told_line_by_line(tmp_path: Path) -> None:
    body = "    a = 1\n"
    long = {
        "__init__": "",
        "deep/__init__": "",
        "deep/long": "a = 1\n" * 601,
        "fits": "a = 1\n" * 600,
    }
    long["b"] = f"def over():\n{body * 60}\ndef fits():\n{body * 59}"
    long["deep/c"] = "def later():\n    import pkg.deep.d\n"
    long["deep/d"] = "import pkg.deep.c\n"
    assert list(breaches(modules(package(tmp_path, long)))) == [
        "pkg/deep/long.py: 601 lines, 600 are allowed",
        "pkg/b.py: over: a function of 61 lines, 60 are allowed",
        "pkg.deep.c, pkg.deep.d: a circle of imports, be it for types alone",
    ]


def test_classes_of_errors_are_counted_and_too_many_are_named(tmp_path: Path) -> None:
    named = [f"class E{number}Error(Exception): ...\n" for number in range(16)]
    most = (
        "".join(named[:15]) + "class _OwnError(Exception): ...\nclass Errors: ...\ndef f(): ...\n"
    )
    read = modules(package(tmp_path, {"__init__": "", "errors": most}))
    assert dict(sizes(read, tmp_path))["public error classes"] == "15"
    assert list(breaches(read)) == []
    (told,) = breaches(modules(package(tmp_path, {"deep/__init__": named[15]})))
    assert told.startswith("16 public error classes, 15 are allowed: E15Error, E0Error, ")


def test_a_project_is_counted_with_its_tests_and_benchmarks(tmp_path: Path) -> None:
    pkg = package(tmp_path, {"__init__": "__all__ = ['a']\n", "a/b": "def f():\n    ...\n\n"})
    (pkg / "__pycache__").mkdir()
    (pkg / "py.typed").touch()
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_a.py").write_text("\n# all lines count\n")
    told = dict(sizes(modules(pkg), tmp_path))
    assert entries(pkg) == 3
    assert told["files and folders at the top of the package"] == "3"
    assert (told["files"], told["names in __all__"]) == ("2", "1")
    assert told["the longest file, pkg/a/b.py"] == "3 lines"
    assert told["the median function"] == "2 lines"
    assert told["lines below tests/, all of them"] == "2"
    assert told["lines below benchmarks/, all of them"] == "0"


def test_of_several_counts_the_one_of_fewest_functions_is_told() -> None:
    counts = [Calls(functions=31, files=4), Calls(functions=29, files=5), Calls(30, 3)]
    assert least(iter(counts)) == Calls(functions=29, files=5)


class Verbs:
    """Two methods."""

    first, afirst = str.lower, str.upper
    size = 3

    def _own(self) -> None:
        pass


class More(Verbs):
    """One of its own."""

    second = str.title


def test_methods_that_a_class_itself_offers_are_counted_and_too_many_are_named() -> None:
    assert methods(Verbs) == ["first", "afirst"]
    assert list(too_many(Verbs, 1)) == ["Verbs: 2 methods, 1 are allowed"]
    assert list(too_many(More, 1)) == []


VAGUE = {
    "__init__": "",
    "a": """
        class Part: ...
        def read(how): "What it reads."
        def write(row, *, one=None): return [one for one in row]
    """,
    "b": """
        class Part:
            class Whole: "Whole, and that."
            def read(self): "Whether it is read."
        def read(given): "Read it."
        def write(row): return sorted(row, key=lambda one: one.key)
    """,
    "c": """
        def read(): ...
        def _write(): ...
    """,
}


def test_what_reads_badly_is_found(tmp_path: Path) -> None:
    for name, text in VAGUE.items():
        (tmp_path / f"{name}.py").write_text(dedent(text))
    read = modules(tmp_path)
    top = tmp_path.name
    assert [text for module in read for text in noun_clauses(module)] == [
        f"{top}.a:3: What it reads.",
        f"{top}.b:4: Whether it is read.",
    ]
    assert sum(map(vague_variables, read)) == 5
    assert sorted(text for module in read for text in vague_parameters(module)) == [
        f"{top}.a:3: how",
        f"{top}.a:4: one",
        f"{top}.b:5: given",
        f"{top}.b:6: one",
    ]
    assert shared_classes(read) == {"Part": [f"{top}.a", f"{top}.b"]}
    assert shared_functions(read) == {"read": [f"{top}.a", f"{top}.b", f"{top}.c"]}
