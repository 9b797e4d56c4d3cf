"""Tools that fail by twelve families of real exceptions, and the tasks that meet them.

docs/learning.md says what was chosen before anything was measured.
"""

from __future__ import annotations

import errno
import os
import random
import smtplib
import subprocess
import urllib.error
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.message import Message
from typing import Any, NamedTuple

import psycopg

from benchmarks.data import records

Draw = random.Random


class FaultFamily(NamedTuple):
    """A kind of fault: where it strikes, what it raises, and the argument that prevents it."""

    name: str
    tool: str
    noun: str
    """What the task is about; it tells the families of one tool apart."""
    remedy: Mapping[str, Any]
    phrasings: Sequence[str]
    make: Callable[[Draw], Exception]


def _word(draw: Draw) -> str:
    return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(5, 9)))


def path(draw: Draw) -> str:
    top = draw.choice(("srv", "data", "home"))
    return f"/{top}/{_word(draw)}/{_word(draw)}-{draw.randint(1, 9999)}"


def _host(draw: Draw) -> str:
    return f"{_word(draw)}-{draw.randint(1, 99)}.example.org"


def _encoding(draw: Draw) -> Exception:
    before = " ".join(_word(draw) for _ in range(draw.randint(1, 12))).encode()
    raw = before + bytes([draw.choice((0xE4, 0xE9, 0xF6, 0xFC))])
    return UnicodeDecodeError("utf-8", raw, len(before), len(raw), "invalid continuation byte")


def _fields(draw: Draw) -> Exception:
    wanted = draw.randint(2, 9)
    line, saw = draw.randint(2, 90_000), wanted + draw.randint(1, 9)
    return ValueError(
        f"Error tokenizing data. C error: Expected {wanted} fields in line {line}, saw {saw}"
    )


def _forbidden(draw: Draw) -> Exception:
    url = f"https://{_host(draw)}/{_word(draw)}?id={draw.randrange(10**8)}"
    error = urllib.error.HTTPError(url, 403, "Forbidden", Message(), None)
    error.close()
    return error


def _timeout(draw: Draw) -> Exception:
    return TimeoutError(
        f"read of {_host(draw)}:443 timed out after {draw.randint(5, 60)}.{draw.randint(0, 9)} s"
    )


def _relation(draw: Draw) -> Exception:
    table = f"{_word(draw)}_{draw.randint(2001, 2025)}"
    return psycopg.errors.UndefinedTable(
        f'relation "{table}" does not exist\nLINE 1: TABLE {table}\n              ^'
    )


def _cancelled(_: Draw) -> Exception:
    return psycopg.errors.QueryCanceled("canceling statement due to statement timeout")


def _no_folder(draw: Draw) -> Exception:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path(draw))


def _disk_full(draw: Draw) -> Exception:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path(draw))


def _too_large(draw: Draw) -> Exception:
    size = draw.randint(30, 900)
    return smtplib.SMTPDataError(552, f"5.3.4 Message size {size}000000 exceeds limit".encode())


def _relay(draw: Draw) -> Exception:
    address = f"{_word(draw)}@{_host(draw)}"
    return smtplib.SMTPRecipientsRefused({address: (550, b"5.7.1 Relaying denied")})


def _killed(draw: Draw) -> Exception:
    command = ["deploy", _word(draw), f"--id={draw.randrange(16**8):08x}"]
    return subprocess.CalledProcessError(137, command)


def _refused(draw: Draw) -> Exception:
    return ConnectionRefusedError(
        errno.ECONNREFUSED, f"Connection refused: {_host(draw)}:{draw.randint(1024, 65535)}"
    )


_MAKE = {
    "encoding": _encoding,
    "separator": _fields,
    "forbidden": _forbidden,
    "slow host": _timeout,
    "other schema": _relation,
    "statement timeout": _cancelled,
    "no folder": _no_folder,
    "disk full": _disk_full,
    "too large": _too_large,
    "relaying": _relay,
    "memory": _killed,
    "not ready": _refused,
}
FAMILIES = tuple(FaultFamily(**one, make=_MAKE[one["name"]]) for one in records("faulty_tools"))


OWN, SHARED, HIDDEN = WORLDS = (
    "a tool for each family",
    "two families in each tool",
    "two families, told by nothing",
)
"""How a task tells which fault it will meet: by its tool, by its words, or not at all."""
PROJECTS = ("north", "south")
TASKS = 200
FIRES = 0.9
"""The share of tasks whose fault fires while the remedy is missing."""


class Task(NamedTuple):
    """Something to be done; `fires` says whether the family's fault strikes."""

    number: int
    project: str
    family: FaultFamily
    tool: str
    question: str
    target: str
    fires: bool


_SILENT = ("Take care of {target} for {city}", "{city} waits for {target}", "Do {target} in {city}")
_CITIES = ("Lyon", "Oslo", "Porto", "Ghent", "Turin", "Graz", "Malmö", "Bilbao", "Cork", "Brno")


def tool_of(family: FaultFamily, world: str) -> str:
    """The name of the tool that a family strikes in."""
    return family.tool if world != OWN else f"{family.tool}_{family.noun.replace(' ', '_')}"


def tools(world: str) -> dict[str, list[str]]:
    """Each tool of a world, and the arguments that it takes beside its target."""
    found: dict[str, list[str]] = {}
    for one in FAMILIES:
        found.setdefault(tool_of(one, world), []).extend(one.remedy)
    return found


def tasks(world: str, seed: int, count: int = TASKS) -> Iterator[Task]:
    """The same tasks for the same seed, in every world."""
    draw = random.Random(f"tasks {seed}")
    for number in range(count):
        family = draw.choice(FAMILIES)
        target = path(draw)
        phrasings = _SILENT if world == HIDDEN else family.phrasings
        said = draw.choice(phrasings).format(target=target, city=draw.choice(_CITIES))
        project, fires = draw.choice(PROJECTS), draw.random() < FIRES
        yield Task(number, project, family, tool_of(family, world), said, target, fires)


def call(task: Task, arguments: Mapping[str, Any], draw: Draw) -> str:
    """Do what the tool does for this task, or fail as its family does."""
    family = task.family
    remedied = all(arguments.get(name) == value for name, value in family.remedy.items())
    if task.fires and not remedied:
        raise family.make(draw)
    return f"{task.tool} is done with {task.target}"
