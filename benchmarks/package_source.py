"""What a package's sources hold: lines of code, and functions."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILE_LINES, FUNCTION_LINES = 600, 60
"""The most lines of a file and of a function (CONTRIBUTING.md)."""

ERROR_CLASSES = 15
"""The most public classes of errors: each is one that a caller may catch; codes say the rest."""

_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_CHECKS = ("check", "refuse", "post_init__")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Sized:
    """A file or a function, and how many lines it has, all of them."""

    name: str
    lines: int


@dataclass(frozen=True, slots=True)
class Module:
    """A file of a package, read and parsed."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(_rows(self.text))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def modules(package: Path) -> list[Module]:
    """Every module of a package by its name; the package itself comes first."""
    read = (_module(package, path) for path in package.rglob("*.py"))
    return sorted(read, key=lambda one: one.name)


def _module(package: Path, path: Path) -> Module:
    parts = path.relative_to(package.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Module(name, path, text, ast.parse(text))


def lines_below(folder: Path) -> int:
    """All lines of the Python files in a folder."""
    return sum(len(_rows(one.read_text(encoding="utf-8"))) for one in folder.rglob("*.py"))


def code_lines(text: str) -> int:
    """Lines without those that are blank or hold but a comment or a docstring.

    A string that stands alone is a docstring wherever it stands: below a constant as well.
    """
    documented = _documented(ast.parse(text))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        rows = range(token.start[0], token.end[0] + 1)
        if token.type in _SILENT or (token.type == tokenize.STRING and documented.issuperset(rows)):
            continue
        found.update(rows)
    return sum(bool(line.strip()) for row, line in enumerate(_rows(text), 1) if row in found)


def _rows(text: str) -> list[str]:
    """Lines as the tokenizer counts them: `splitlines` ends one at a form feed as well."""
    return list(io.StringIO(text))


def _documented(tree: ast.Module) -> set[int]:
    return {
        row
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and _is_text(node.value)
        for row in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def functions(tree: ast.AST, prefix: str = "") -> Iterator[Sized]:
    """Every function and its lines from `def` to the end, without decorators, nested ones too."""
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, _Function | ast.ClassDef):
            name = f"{prefix}.{node.name}".lstrip(".")
        if isinstance(node, _Function):
            yield Sized(name, (node.end_lineno or node.lineno) - node.lineno + 1)
        yield from functions(node, name)


def check_lines(tree: ast.AST) -> int:
    """Return how many lines check arguments by hand.

    They are those of functions that are called `check…`, `refuse…` or `__post_init__`, and
    elsewhere those of an `if` that does nothing but raise.
    """
    if isinstance(tree, _Function) and tree.name.lstrip("_").startswith(_CHECKS):
        return (tree.end_lineno or tree.lineno) - tree.lineno + 1
    if isinstance(tree, ast.If) and not tree.orelse and isinstance(tree.body[0], ast.Raise):
        return (tree.end_lineno or tree.lineno) - tree.lineno + 1
    return sum(map(check_lines, ast.iter_child_nodes(tree)))


def async_functions(tree: ast.Module) -> int:
    """How many `async def` there are."""
    return sum(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(tree))


def names_offered(tree: ast.Module) -> int:
    """How many names `__all__` holds, wherever it is assigned."""
    return sum(
        len(node.value.elts)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.List)
        and any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets)
    )


def error_classes(tree: ast.Module) -> list[str]:
    """The public classes of errors: those that are named so."""
    classes = (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return [name for name in classes if name.endswith("Error") and not name.startswith("_")]
