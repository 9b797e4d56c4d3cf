"""Public names, their signatures, and the paths by which the documents import them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

import langmem_tiers
from benchmarks.recorded.adapter import PACKAGE, app
from benchmarks.recorded.coverage import verbs
from benchmarks.recorded.plain import without_paths

_ROOT = Path(__file__).parents[2]
_DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "docs/**/*.md",
    "notebooks/*.ipynb",
    "graphs/**/*.py",
    f"{PACKAGE}/**/*.py",
)
_IMPORT = re.compile(r"from (langmem_tiers[\w.]*) import (\([^)]*\)|[\w, ]+)")
_EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
_PATH = re.compile(r"^(langmem_tiers[\w.]*) (\w+): ", re.MULTILINE)


def signatures() -> list[str]:
    """A block for each public name: what it takes, and what its verbs take."""
    errors = {name: getattr(langmem_tiers, name) for name in langmem_tiers.__all__}
    found = {name: errors[name] for name in sorted(errors)}
    return ["\n".join(_of(name, one)) for name, one in found.items()]


def commands() -> list[str]:
    """A block for each command of the command line: its help."""
    return list(_help(get_command(app), ()))


def _help(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    wide = {"COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"}
    text = CliRunner().invoke(app, [*path, "--help"], env=wide).output
    lines = (line.rstrip() for line in text.splitlines() if line.strip())
    yield "\n".join([f"# {' '.join(('langmem-tiers', *path))}", *lines])
    for name, each in sorted(getattr(command, "commands", {}).items()):
        yield from _help(each, (*path, name))


def import_paths(before: str = "") -> list[str]:
    """Which names the documents import from where, and those of an older record, and if they do."""
    paths = {(match[1], match[2]) for match in _PATH.finditer(before)} | set(_documented())
    return ["\n".join(f"{module} {name}: {_found(module, name)}" for module, name in sorted(paths))]


def _of(name: str, one: Any) -> Iterator[str]:
    yield f"# {name}{_signature(one)}"
    if not inspect.isclass(one):
        return
    if bases := [base.__name__ for base in one.__mro__[1:-1]]:
        yield f"is {', '.join(bases)}"
    yield from (f".{verb}{_signature(method)}" for verb, method in verbs(one))
    yield from (f".{each}: property" for each in _properties(one))


def _properties(kind: type[Any]) -> list[str]:
    public = (name for name in sorted(dir(kind)) if not name.startswith("_"))
    return [name for name in public if isinstance(inspect.getattr_static(kind, name), property)]


def _signature(one: Any) -> str:
    if not callable(one):
        return f": {type(one).__name__}"
    try:
        return without_paths(str(inspect.signature(one)))
    except ValueError:
        fields = getattr(one, "__annotations__", {})
        return without_paths(f": {type(one).__name__} {dict(sorted(fields.items()))}")


def _documented() -> Iterator[tuple[str, str]]:
    for file in _files():
        text = _read(file).replace('\\n",', "").replace('    "', "")
        for match in _IMPORT.finditer(text):
            names = re.split(r"[,\s]+", re.sub(r"[()]|#.*| as \w+", " ", match[2]))
            yield from ((match[1], name) for name in names if name.isidentifier())


def _read(file: Path) -> str:
    """What a file says to users: of a module of the package, the examples in its docstrings."""
    text = file.read_text("utf-8")
    ours = file.is_relative_to(_ROOT / PACKAGE)
    return "\n".join(_EXAMPLE.findall(text)) if ours else text


def _files() -> Iterable[Path]:
    return sorted(file for pattern in _DOCUMENTS for file in _ROOT.glob(pattern))


def _found(module: str, name: str) -> str:
    try:
        one = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        return type(error).__name__
    takes = _signature(one) if inspect.isfunction(one) else ""
    return f"{type(one).__name__}{takes}"
