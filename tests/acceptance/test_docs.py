"""The README and docs/*.md do what they say: each snippet runs, each printed output is real."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from benchmarks.ten_days import lived
from langmem_tiers.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = [
    pytest.param(page, marks=pytest.mark.peers) if page.name == "interop.md" else page
    for page in PAGES
]

_FENCE = re.compile(
    r"(?P<before>[^\n]*)\n\n```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)
_NOT_RUN = re.compile(r"<!-- not run: (.*) -->")
_NAMED = re.compile(r"`([\w.]+)` of$")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


class Fence(NamedTuple):
    before: str
    kind: str
    body: str


def fences(page: Path) -> Iterator[Fence]:
    for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
        yield Fence(found["before"], found["kind"], found["body"])


def run_commands(script: str) -> str:
    printed = ""
    for line in script.splitlines():
        if line.startswith("langmem-tiers "):
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            assert result.exit_code == 0, f"{line}: {result.output}"
            printed += result.stdout
    return printed


def stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_every_snippet_of_a_page_runs_in_order_and_prints_what_is_shown(
    page: Path, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for fence in fences(page):
        named = _NAMED.search(fence.before)
        if _NOT_RUN.search(fence.before):
            continue
        if fence.kind == "python":
            with redirect_stdout(StringIO()) as said:
                exec(compile(fence.body, page.name, "exec", dont_inherit=True), names)  # noqa: S102
            printed = said.getvalue()
        elif fence.kind == "bash":
            printed = run_commands(fence.body)
        elif named:
            Path(named[1]).write_text(fence.body, encoding="utf-8")
        elif fence.kind == "text":
            assert stripped(fence.body) == stripped(printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file_and_only_a_key_or_docker_leaves_a_fence_out(
    page: Path,
) -> None:
    text = page.read_text(encoding="utf-8")

    assert [one for one in _LINK.findall(text) if not (page.parent / one).exists()] == []
    assert all("key" in reason or "Docker" in reason for reason in _NOT_RUN.findall(text))


def test_the_page_of_ten_days_is_what_was_lived_and_each_prompt_is_as_it_was() -> None:
    page = (ROOT / "docs" / "ten-days.md").read_text(encoding="utf-8")
    assert page.rstrip() == "\n".join(lived()).rstrip()
    assert re.search(r"\(replaces \[\w{6}\], 2 Mar\)", page)
    assert "Server Tanne." not in page.partition("*manage_memory:* Forgot")[2].partition("\n")[2]
