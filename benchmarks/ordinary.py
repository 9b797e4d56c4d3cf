"""Texts of ordinary kinds, most of them by other hands; none was written to steer a reader.

The gate's weights are fitted on them as on what is no attack (`fit_likeness.py`). None of them is
in this repository but for this project's own. `make ordinary` fetches two packages; the others are
whatever is installed by `constraints.txt` under a permissive licence:

- what packages say of themselves, and what their functions say (MIT, BSD, Apache, ISC, PSF);
- the chats of `chatterbot-corpus` (BSD), in English and in twenty other languages;
- the quotations and news posts of BSD's `fortune`, as Debian packages them.
"""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import Distribution, distributions
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from benchmarks.data import records
from langmem_tiers.learning.reflexion import Reflexion

FETCHED: Final = Path("benchmarks/out/ordinary")
"""Where `make ordinary` puts what it fetches."""
MOST: Final = 1_600
"""Texts of a kind."""
_OWN: Final = (
    "histories/chats",
    "histories/facts",
    "histories/logs",
    "year",
    "cues",
    "faulty_tools",
    "failures",
)
_FREE: Final = re.compile(r"\b(MIT|BSD|Apache|ISC|PSF)\b", re.IGNORECASE)
_NOT_FREE: Final = "GPL"
_ONE_IN: Final = 6
"""Of the modules of packages one in so many is read."""
_DOCUMENTED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
_ENGLISH: Final = "english"


@cache
def ordinary(kind: str) -> tuple[str, ...]:
    """The texts of a kind, each once, in an order that has nothing to do with what they say."""
    several = dict.fromkeys(one.strip() for one in KINDS[kind]() if one.strip())
    return tuple(sorted(several, key=_drawn))[:MOST]


def _drawn(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _own() -> Iterator[str]:
    """What the histories, chats, years and failures of this project's benchmarks say."""
    return (text for name in _OWN for one in records(name) for text in _sentences(one))


def _lessons() -> Iterator[str]:
    """This project's lessons: by their parts, as they are stored, and as one tells them."""
    for one in records("lessons"):
        tried, why, instead = one["tried"], one["why"], one["instead"]
        told = Reflexion(
            task_id="task",
            original_approach=tried,
            failure_reason=why,
            improved_approach=instead,
        )
        yield from (tried, why, instead, told.to_memory_format())
        yield f"I {tried[0].lower()}{tried[1:]}. {why}. {instead}."


def _sentences(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if len(value.split()) > 3 else []
    elif isinstance(value, Mapping):
        yield from (text for one in value.values() for text in _sentences(one))
    elif isinstance(value, tuple):
        yield from (text for one in value for text in _sentences(one))


def _free() -> Iterator[Distribution]:
    """What is installed under a permissive licence, but for this package."""
    for one in distributions():
        told = one.metadata
        fields = ("License-Expression", "License", "Classifier")
        said = [str(each)[:200] for name in fields for each in told.get_all(name, [])]
        licence = " ".join(each for each in said if not each.startswith("Operating System"))
        if _FREE.search(licence) and _NOT_FREE not in licence and told["Name"] != "langmem-tiers":
            yield one


def _readmes() -> Iterator[str]:
    for one in _free():
        told = one.metadata.json.get("description")
        yield from _paragraphs(told if isinstance(told, str) else "")


def _docstrings() -> Iterator[str]:
    for one in _free():
        for file in one.files or ():
            if file.suffix == ".py" and int(_drawn(str(file)), 16) % _ONE_IN == 0:
                yield from _documented(Path(str(one.locate_file(file))))


def _documented(module: Path) -> Iterator[str]:
    try:
        tree = ast.parse(module.read_text("utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return  # templates, and what is broken on purpose
    for one in ast.walk(tree):
        if isinstance(one, _DOCUMENTED):
            yield from _paragraphs(ast.get_docstring(one) or "")


def _paragraphs(text: str) -> Iterator[str]:
    """Those that are prose, neither a heading nor a table nor a chapter."""
    for one in re.split(r"\n\s*\n", text):
        letters = sum(map(str.isalpha, one))
        if 4 <= len(one.split()) <= 200 and letters > 0.6 * len(one):
            yield one


def _transcripts() -> Iterator[str]:
    """Chats in English as they are noted: who said what, a line each."""
    for said in _conversations(english=True):
        for asked, answer in pairwise(said):
            yield f"User: {asked}\nAssistant: {answer}"
            yield f"Human: {asked}\nAI: {answer}"


def _chats(*, english: bool) -> Iterator[str]:
    return (text for said in _conversations(english=english) for text in said)


def _conversations(*, english: bool) -> Iterator[list[str]]:
    for wheel in FETCHED.glob("chatterbot_corpus-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            names = [one for one in archive.namelist() if one.endswith(".yml")]
            for name in names:
                if (Path(name).parent.name == _ENGLISH) is english:
                    told = yaml.safe_load(archive.read(name))
                    for one in told.get("conversations") or ():
                        said = one if isinstance(one, list) else [one]
                        yield [text for text in said if isinstance(text, str)]


def _fortunes() -> Iterator[str]:
    for file in sorted(FETCHED.glob("usr/share/games/fortunes/*")):
        if not file.suffix:
            several = file.read_bytes().decode("utf-8", "replace").split("\n%\n")
            yield from (text for one in several for text in _paragraphs(one))


KINDS: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "READMEs": _readmes,
    "docstrings": _docstrings,
    "chats in English": partial(_chats, english=True),
    "chats in other languages": partial(_chats, english=False),
    "transcripts": _transcripts,
    "quotations": _fortunes,
    "this project's histories": _own,
    "this project's lessons": _lessons,
}
"""What there is of each kind, of any number and in any order."""
