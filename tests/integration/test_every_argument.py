"""Whatever an argument is, a call takes it or says by an error of ours what to give instead.

What is called is found in the package's own lists; each call has good arguments but for one or two,
which are of every kind that a value can be. After a call that was refused, no row is new.
"""

from __future__ import annotations

import asyncio
import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langgraph.store.base import InvalidNamespaceError
from typer.core import TyperGroup
from typer.testing import CliRunner

import langmem_tiers
from langmem_tiers import TieredMemoryError, TieredStore
from langmem_tiers.cli.app import app
from langmem_tiers.core.errors import short
from tests.support.good import World
from tests.support.hostile import HOSTILE, WaywardError, discard, swept
from tests.support.opening import text_index
from tests.support.surface import WIDE, Target, called, targets

FULL = os.environ.get("LANGMEM_TIERS_PROOF") == "full"
COMMON = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
SAMPLE = settings(COMMON, derandomize=True, max_examples=700)
COMMANDS = settings(SAMPLE, max_examples=60)
PROOF = settings(COMMON, derandomize=not FULL, max_examples=25_000 if FULL else 700)

TARGETS: Final = targets()
LONGEST: Final = 5_000
"""Characters of a message: some name all options that there are, none the value that was given."""
READ: Final = frozenset(
    (
        *("failing generator", "unread", "unread mapping", "unshown list", "unshown text"),
        *("broken zone", "raising function"),
    )
)
"""What is of the right kind and raises when it is read: that error is the caller's own."""
ASKED: Final = frozenset(("type", "our type", "pydantic class", "raising function"))
"""What can be called, and raises when it is: so is that, of an argument that is a function."""
CALLED: Final = frozenset(("clock", "extract_entities", "given", "make_store", "profile"))
OURS: Final = str(Path(langmem_tiers.__file__).parent)


def cases() -> st.SearchStrategy[tuple[Target, dict[str, str]]]:
    """Something to call, and what is given for one or two of its arguments."""

    def of(target: Target) -> st.SearchStrategy[tuple[Target, dict[str, str]]]:
        names = st.sampled_from(sorted(target.parameters))
        changed = st.dictionaries(names, st.sampled_from(sorted(HOSTILE)), min_size=1, max_size=2)
        return st.tuples(st.just(target), changed)

    return st.sampled_from(TARGETS).flatmap(of)


@pytest.fixture
def world(
    new_url: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A store with something in it; what is written to files goes to a directory of its own."""
    monkeypatch.chdir(tmp_path)
    Path("notes.jsonl").write_text('{"content": "The API key rotates on Mondays."}\n', "utf-8")
    loop, url = asyncio.new_event_loop(), new_url()
    with TieredStore(url, index=text_index(fields=["text", "content"])) as store:
        made = World.on(store, url, loop)
        try:
            yield made
        finally:
            made.rows.conn.close()
            loop.close()


def own(error: BaseException, changed: Mapping[str, str]) -> bool:
    """Whether an error is the caller's object's, Python's of the signature, or LangGraph's."""
    if isinstance(error, InvalidNamespaceError):
        return True
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    reached = any(one.startswith(OURS) for one in files)
    if not reached and any("/langgraph/" in one for one in files):
        return True
    hostile = set(changed.values())
    if isinstance(error, WaywardError):
        return bool(hostile & READ)
    if isinstance(error, TypeError) and (not reached or "unexpected keyword" in str(error)):
        return True
    return any(kind in ASKED and name in CALLED for name, kind in changed.items())


def check_call(world: World, target: Target, changed: Mapping[str, str]) -> bool:
    """Make a call; whether it was taken."""
    told = f"{target.name}({', '.join(f'{name}=<{kind}>' for name, kind in changed.items())})"
    before = world.rows.state()
    made = {name: HOSTILE[kind]() for name, kind in changed.items()}
    taken = True
    try:
        with warnings.catch_warnings(action="error"):
            called(world, target, made)
    except TieredMemoryError as refused:
        taken, wrote = False, world.rows.state() != before and not target.steps
        said = f"{refused} {refused!r}"
        if wrote or len(said) > LONGEST:
            wrong = "wrote" if wrote else f"answers {len(said):,} characters"
            raise AssertionError(f"{told} was refused, and {wrong}") from refused
    except Exception as error:  # whatever it is: whose it is is what is tested
        taken = False
        if not own(error, changed):
            raise AssertionError(f"{told} raises {type(error).__name__}") from error
    finally:
        world.store.stop_ttl_sweeper(1)
        for one in made.values():
            discard(one)
    if world.rows.state() != before:
        world.renew()
    return taken


def check_case(world: World, case: tuple[Target, dict[str, str]]) -> None:
    check_call(world, *case)


def test_most_is_taken_with_good_arguments(world: World) -> None:
    """What is new needs an argument in `good.py` where its name does not tell one."""
    refused = [one.name.removesuffix(WIDE) for one in TARGETS if not check_call(world, one, {})]
    assert set(refused) <= MISSING


def test_no_coroutine_is_made_where_nobody_awaits_it(world: World) -> None:
    """One that was made and not awaited warns as it is collected, which fails the test."""
    for target in TARGETS:
        for name in CALLED & set(target.parameters):
            check_call(world, target, {name: "coroutine function"})
    swept()


MISSING: Final = {
    f"{of}{verb}"
    for of, verbs in {
        "MemoryCoordinator.truth.": ("restore",),
        "MemoryCoordinator.learning.": ("rollback",),
        "MemoryCoordinator.admin.": (
            *("restore_archive", "audit", "verify_audit", "export_tenant", "import_tenant"),
        ),
        "MemoryOrchestrator.": ("history",),
    }.items()
    for name in verbs
    for verb in (name, f"a{name}")
} | {"open_tier", "aopen_tier", "import_chat_history", "aimport_chat_history", "TieredStore"}
"""Calls about something that is not there: a database, a move, an archive, a turn, an extra, a
table, an export. Also calls that a context with a user may not make, such as on the log."""


def test_an_error_shows_whatever_was_given_in_a_line() -> None:
    for _, made in made_of_all():
        shown = short(made)
        assert len(shown) <= 80
        assert shown.encode(errors="surrogatepass")


def made_of_all() -> list[tuple[str, Any]]:
    """Each value by its name."""
    found = [(name, make()) for name, make in HOSTILE.items()]
    for _, made in found:
        discard(made)
    return found


def commands() -> list[tuple[str, str]]:
    """Each option of the command line that takes a value, and each argument, by its command."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return [
        (name, one.opts[0])
        for name, command in _leaves(group)
        for one in command.params
        if not getattr(one, "is_flag", False)
    ]


def _leaves(group: TyperGroup) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from ((f"{name} {below}", leaf) for below, leaf in _leaves(command))
        else:
            yield name, command


TEXTS: Final = sorted(name for name, made in made_of_all() if type(made) is str)
SOUND: Final[dict[str, list[str]]] = {
    "setup": ["--lexical"],
    "import": ["--lexical", "notes.jsonl"],
    "search": ["--lexical", "--tenant", "acme", "keys"],
    "replay": ["--lexical", "--tenant", "acme", "recorded"],
    "stats": [],
    "export": ["--tenant", "acme", "acme.jsonl.gz"],
    "archive": ["--tenant", "acme", "--to", "archives"],
    "restore": ["--tenant", "acme"],
    "quarantine": ["--tenant", "acme"],
    "worker": ["--lexical", "--once"],
    "forget": ["--tenant", "acme", "--key", "other", "--plan"],
    "doctor": [],
    "audit show": ["--tenant", "acme"],
    "audit head": ["--tenant", "acme"],
    "audit verify": ["--tenant", "acme"],
}
"""What each command is told otherwise; an argument stands last."""


@COMMANDS
@given(option=st.sampled_from(commands()), text=st.sampled_from(TEXTS))
def test_so_is_what_the_command_line_is_told(
    world: World, option: tuple[str, str], text: str
) -> None:
    command, name = option
    said, sound = str(HOSTILE[text]()), SOUND[command]
    told = [*sound, name, said] if name.startswith("-") else [*sound[:-1], said]
    url = ["--url", world.store.target.conninfo]
    before = world.rows.state()
    result = CliRunner().invoke(app, [*command.split(), *url, *told])
    assert result.exception is None or isinstance(result.exception, SystemExit), (option, text)
    assert "Traceback" not in result.output
    if world.rows.state() != before:
        world.renew()


every_call = given(case=cases())
test_a_call_is_taken_or_refused_by_an_error_of_ours = SAMPLE(every_call(check_case))
test_so_are_tens_of_thousands = pytest.mark.proof(PROOF(every_call(check_case)))
