"""The pages about the project name what is there: files, targets of make, decisions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from langmem_tiers.core.memory import STATES
from langmem_tiers.postgres.flow import Effect

PROJECT = Path(__file__).parents[2]
PLACES = PROJECT, PROJECT / "langmem_tiers", PROJECT / "docs"
DECISIONS = PROJECT / "docs" / "decisions"
PAGES = sorted(
    [
        *PROJECT.glob("*.md"),
        *(PROJECT / "docs").rglob("*.md"),
        *(PROJECT / "benchmarks").rglob("*.md"),
    ]
)
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


def text_of(page: Path) -> str:
    return _CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_each_link_leads_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    lost = []
    for path, heading in _LINK.findall(text_of(page)):
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in anchors(target)):
            lost.append((path, heading))
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_each_file_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|sql))?)`", text_of(page))
    lost = [one for one in named if not any((at / one).exists() for at in (page.parent, *PLACES))]
    assert lost == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "benchmarks/README.md"])
def test_each_target_of_make_is_there(page: str) -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    targets = {*re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE)}
    listed = re.search(r"^BENCHMARKS := (.+)$", makefile, re.MULTILINE)
    assert listed
    targets |= {f"bench-{one}" for one in listed[1].split()}
    text = (PROJECT / page).read_text(encoding="utf-8")
    named = re.findall(r"(?:`|^)make ([a-z][a-z0-9-]*)", text, re.MULTILINE)
    assert named
    assert set(named) <= targets


def test_each_decision_is_in_the_index_and_says_what_why_and_what_follows() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^- \[\d{4}\]\((.+?)\) (.+)$", index, re.MULTILINE))
    files = sorted(DECISIONS.glob("0*.md"))
    assert sorted(rows) == [one.name for one in files]
    for number, file in enumerate(files, 1):
        text = file.read_text(encoding="utf-8")
        assert file.name.startswith(f"{number:04d}-")
        assert text.startswith(f"# {rows[file.name]}\n")
        said = [text.index(f"**{one}.**") for one in ("Decision", "Why", "Consequences")]
        assert said == sorted(said)
        assert len(text.split()) <= 250


def test_the_modules_of_the_benchmarks_are_all_in_their_table() -> None:
    folder = PROJECT / "benchmarks"
    named = re.findall(r"`([\w*]+\.py)`", (folder / "README.md").read_text(encoding="utf-8"))
    assert {one.name for one in folder.glob("*.py")} == {"__init__.py"} | {
        file.name for one in named for file in folder.glob(one)
    }


def test_the_words_for_states_and_effects_are_all_on_the_page_of_words() -> None:
    page = (PROJECT / "docs" / "words.md").read_text(encoding="utf-8")

    def named(title: str) -> set[str]:
        rows = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        return set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE))

    assert named("States of a memory") == STATES
    assert named("Flows") | {"Unit"} == {effect.__name__ for effect in get_args(Effect)}
