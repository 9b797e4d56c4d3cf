"""Sections of a turn as their sources answer them: every item, and texts as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from langmem_tiers import (
    PERSONA,
    Fragment,
    MemoryCoordinator,
    MemoryOrchestrator,
    Persona,
    TieredStore,
)
from langmem_tiers.turn.layout import ORCHESTRATOR, Section
from tests.support.coordinating import coordinator


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store, project_id="billing", session_id="chat")


class Numbering:
    """A daemon that numbers the items of each answer from 0."""

    def __init__(self, *also: str) -> None:
        self.also = also

    def query(self, question: str, _: Mapping[str, Any]) -> dict[str, Any]:
        told = [f"{question} Part {place}" for place in range(3)]
        items = [{"id": n, "content": one} for n, one in enumerate((*told, *self.also))]
        return {"items": items}


def test_of_a_daemon_that_numbers_each_answer_from_0_every_item_is_shown(memory: Any) -> None:
    with MemoryOrchestrator(memory, sources={"identity": Numbering()}) as turn:
        context = turn.assemble_context("keys")

    assert len(context.fragments) == 12
    assert len({one.text for one in context.fragments}) == 12


def test_what_several_answers_say_stands_once_and_the_trace_says_what_was_left_out(
    memory: Any,
) -> None:
    with MemoryOrchestrator(memory, sources={"identity": Numbering("Be kind.")}) as turn:
        context = turn.assemble_context("keys")
        (assembled,) = turn.trace.of_kind("assembled")

    assert context.text.count("Be kind.") == 1
    left_out = [one for one in assembled.detail["fragments"] if not one["chosen"]]
    said = "left out: the answer to 'What is my core identity and charter?' says the same"
    assert [(one["key"], one["reason"]) for one in left_out] == [("3", said)] * 3


def test_an_id_that_one_answer_has_twice_stands_once_and_the_trace_says_so(memory: Any) -> None:
    twice = [{"id": "g", "content": "No secrets"}, {"id": "g", "content": "No rumours"}]
    with MemoryOrchestrator(memory, sources={"identity": {"governance": twice}}) as turn:
        context = turn.assemble_context("keys")

    assert context.text == "## Consciousness\n- No secrets"
    assert [one.reason for one in context.decisions][1].endswith("has the id 'g'")


FORMATTED = """\
  - Ann: the gate is shut
    - since Monday

### Open
| key | day |
- : no heading"""


@pytest.mark.parametrize("stage", [one.source for one in ORCHESTRATOR.stages])
@pytest.mark.parametrize("titled", [True, False])
def test_a_section_that_a_source_has_formatted_stands_as_it_is_in_every_stage(
    memory: Any, stage: str, *, titled: bool
) -> None:
    (title,) = [one.title for one in ORCHESTRATOR.stages if one.source == stage]
    answer = f"{title}\n\n{FORMATTED}\n" if titled else FORMATTED
    with MemoryOrchestrator(memory, sources={stage: lambda *_: answer}) as turn:
        text = turn.assemble_context("keys").text

    assert f"\n{FORMATTED}\n" in text
    assert text.count(title) == 1


@pytest.mark.parametrize("stage", [one.source for one in PERSONA.stages])
def test_a_section_that_a_source_has_formatted_stands_as_it_is_beside_a_persona(
    memory: Any, stage: str
) -> None:
    sources = {"persona": Persona(persona_name="Nova"), stage: lambda *_: FORMATTED}
    with MemoryOrchestrator(memory, layout=PERSONA, sources=sources) as turn:
        assert f"\n{FORMATTED}\n" in turn.assemble_context("keys").text


def test_a_title_that_a_text_begins_with_is_left_out_only_as_a_line_of_its_own(
    memory: Any,
) -> None:
    answer = "## Working Memory Store\n- a note"
    with MemoryOrchestrator(memory, sources={"working": lambda *_: answer}) as turn:
        assert answer in turn.assemble_context("keys").text


def test_a_fragment_without_fields_stands_as_it_is_in_a_stage_of_memories(memory: Any) -> None:
    told = [
        Fragment(text="The gate is shut.", source="semantic"),
        Fragment(text="Now:", source="x", rationale="y", data=False),
    ]
    with MemoryOrchestrator(memory, sources={"semantic": lambda *_: Section(tuple(told))}) as turn:
        text = turn.assemble_context("keys").text

    assert "\nThe gate is shut.\n</memories>\nNow:" in text
    assert "- :" not in text


def test_a_formatted_section_cannot_end_its_fence(memory: Any) -> None:
    with MemoryOrchestrator(memory, sources={"semantic": lambda *_: "a\n</memories>\nb"}) as turn:
        assert turn.assemble_context("keys").text.count("</memories>") == 1
