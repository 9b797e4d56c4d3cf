"""Layouts are data: stages, their titles and empty texts; and a persona read from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.turn.layout import ORCHESTRATOR, Layout, Stage
from langmem_tiers.turn.persona import OperationalState, Persona

SOUL = """\
# Nova

<!-- ## Core Values
- Secrecy -->

## Backstory
A guide to the old town.
She has walked it for years.

## Communication Style
Warm and brief

## Voice Traits
curious, dry

## Core Values
- Honesty
* Care: for people

## Must Do
1. Name your sources
2) Say when you do not know

## Must Not Do
- Give legal advice

## Hobbies
- Chess
"""


def test_a_stage_is_added_before_another_or_at_the_end() -> None:
    stage = Stage(source="social", title="## Social")

    names = [one.source for one in ORCHESTRATOR.with_stage(stage, before="tools").stages]
    last = [one.source for one in ORCHESTRATOR.with_stage(stage).stages]

    assert names[-2:] == ["social", "tools"]
    assert last[-1] == "social"
    with pytest.raises(InvalidInputError, match="has no stage 'nowhere': it has identity"):
        ORCHESTRATOR.with_stage(stage, before="nowhere")


def test_a_stage_or_a_layout_that_cannot_be_shown_is_refused() -> None:
    wrong: Any
    for wrong, said in (
        ({"title": " "}, "a stage needs a title"),
        ({"source": ""}, "a stage needs a source"),
        ({"item": "{colour}"}, "names 'colour': use by, content"),
        ({"item": "{content"}, "is no format"),
        ({"share": 0}, "above 0 and at most 1"),
        ({"share": 1.5}, "above 0 and at most 1"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            Stage(**{"source": "notes", "title": "# NOTES", **wrong})
    stage = Stage(source="notes", title="# NOTES")
    for stages in ((), (stage, stage)):
        with pytest.raises(InvalidInputError, match="a stage at least, and each source in one"):
            Layout(name="mine", stages=stages)


def test_a_persona_is_read_from_a_file_of_headings() -> None:
    soul = Persona.of_markdown(SOUL)

    assert soul == Persona(
        persona_name="Nova",
        backstory="A guide to the old town.\nShe has walked it for years.",
        communication_tone="Warm and brief",
        voice_traits=("curious", "dry"),
        core_values=("Honesty", "Care: for people"),
        must_do=("Name your sources", "Say when you do not know"),
        must_not_do=("Give legal advice",),
        further=("**Hobbies**:\n- Chess",),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "**Name**: Nova\n- **Voice Traits**: curious, dry\nmust_do:\n- Be kind\n",
            {"voice_traits": ("curious", "dry"), "must_do": ("Be kind",)},
        ),
        (
            "# Nova\nNova is calm:\n\n## Rules\n- Must name sources\n* Don't shout\n- Do not lie\n",
            {
                "further": (
                    "Nova is calm:",
                    "**Rules**:\n- Must name sources\n* Don't shout\n- Do not lie",
                )
            },
        ),
        (
            "# Nova\n## Never lie\n\n## Habits\nTea at five.\n\n## Must not\ngossip, flatter\n",
            {
                "must_not_do": ("gossip, flatter",),
                "further": ("**Never lie**:", "**Habits**:\nTea at five."),
            },
        ),
        ("# Soul\nName: Nova\nShe is calm.", {"further": ("She is calm.",)}),
        ("---\nname: |\n  Nova\n  She is calm.\n---\n", {"further": ("She is calm.",)}),
        ("---\n\n# Nova\n\nCalm", {"further": ("---", "Calm")}),
    ],
)
def test_what_a_persona_is_told_by_lines_lists_or_beside_its_fields_is_kept(
    tmp_path: Path, text: str, told: dict[str, Any]
) -> None:
    soul = tmp_path / "SOUL.md"
    soul.write_text(text, "utf-8")

    assert Persona.of_markdown(soul) == Persona(persona_name="Nova", **told)


@pytest.mark.parametrize(
    ("rules", "must", "never"),
    [
        (
            "- MUST NOT: Give medical advice\n- MUST: credit creators",
            ("credit creators",),
            ("Give medical advice",),
        ),
        (
            "MUST: Cite facts, always\nMUST NOT: Give medical advice, even\n if asked",
            ("Cite facts, always",),
            ("Give medical advice, even if asked",),
        ),
        ("**MUST NOT:** shout\n\n**MUST**: - rest\n- eat", ("rest", "eat"), ("shout",)),
    ],
)
def test_a_rule_is_of_the_kind_that_its_line_says(
    rules: str, must: tuple[str, ...], never: tuple[str, ...]
) -> None:
    soul = Persona.of_markdown(f"# Nova\n\n## Behavioral Rules\n{rules}\n")

    assert (soul.must_do, soul.must_not_do) == (must, never)


def test_a_rule_of_its_own_ends_no_list_and_no_text() -> None:
    soul = Persona.of_markdown(
        "# Nova\n\n## Backstory\nA guide.\nMUST NOT: lie\n\nShe walks.\n\n## Must Not Do\n"
        "- Always credit nobody\n- MUST: rest, often\n- Tone: never harsh\n"
        "  unless asked,\n  and only then\n- Shout\n\n## Core Values\n- Honesty\n  above all\n"
    )

    assert soul.backstory == "A guide.\n\nShe walks."
    assert soul.communication_tone == ""
    assert soul.must_do == ("rest, often",)
    assert soul.must_not_do == (
        "lie",
        "Always credit nobody",
        "Tone: never harsh unless asked, and only then",
        "Shout",
    )
    assert soul.core_values == ("Honesty above all",)


FRONT = """\
---
name: Nova
version: 1.0
communication_style: warm, brief
voice_traits: curious, dry
core_values:
  - Honesty
  - Care, for people
must_not:
  - Give medical advice, even if asked,
    by anybody
  - no
  - Never: lie
must: [Cite sources, "Rest, often"]
backstory: |
  A guide to the old town.
  She has walked it for years.
rules:
  must_not: [shout]
  plain:
    - MUST NOT: gossip
    - Always credit creators
---
# Soul of Nova

She likes tea.

## Must Do
- Be kind
"""


def test_the_lists_of_a_front_matter_are_read_whole() -> None:
    assert Persona.of_markdown(FRONT) == Persona(
        persona_name="Nova",
        backstory="A guide to the old town.\nShe has walked it for years.",
        communication_tone="warm, brief",
        voice_traits=("curious", "dry"),
        core_values=("Honesty", "Care, for people"),
        must_do=("Cite sources", "Rest, often", "Be kind"),
        must_not_do=(
            "Give medical advice, even if asked, by anybody",
            "no",
            "Never: lie",
            "shout",
        ),
        further=(
            "**Soul of Nova**:\nShe likes tea.",
            "**version**:\n- 1.0",
            "**rules > plain**:\n- MUST NOT: gossip\n- Always credit creators",
        ),
    )


def test_a_front_matter_that_cannot_be_read_is_refused() -> None:
    for front, said in (
        ("name: Nova\nmust: [one", "is no YAML"),
        ("name: Nova\nmust: 'a'\n b: c", "is no YAML"),
        ("name: Nova\nmust:\n- [a, b]", "must in the persona's front matter is a text"),
        ("name: Nova\nmust: {a: b, c: d}", "must in the persona's front matter is a text"),
        ("name: " + "[" * 1_000, "is no YAML"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            Persona.of_markdown(f"---\n{front}\n---\n# Nova\n")


def test_of_a_persona_an_empty_field_is_not_shown() -> None:
    (bare,) = Persona(persona_name="Nova").remember("", {})
    (voiced,) = Persona(persona_name="Nova", voice_traits=["dry"], must_do=["Rest"]).remember(
        "", {}
    )

    assert bare.text == "**Name**: Nova"
    assert voiced.text == (
        "**Name**: Nova\n\n**Voice Traits**: dry\n\n**Behavioral Rules**:\nMUST: - Rest"
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("# Nova\nI need to " + " " * 400_000 + "x", "Nova"),
        ("# Nova" + " " * 400_000 + "x", "Nova" + " " * 400_000 + "x"),
        ("# Nova ##\n" + "<!--" * 400_000, "Nova"),
        ("<!-- # Ada --># Nova<!-- a --> <!-- b -->", "Nova"),
    ],
)
def test_a_persona_is_read_in_time_whatever_its_file_holds(line: str, name: str) -> None:
    assert Persona.of_markdown(line).persona_name == name


def test_what_is_no_persona_or_state_is_refused() -> None:
    for text in ("", "no heading", "## Core Values\n- Honesty"):
        with pytest.raises(InvalidInputError, match="the persona has no name"):
            Persona.of_markdown(text)
    wrong: Any
    for wrong in ({"core_values": "Honesty"}, {"backstory": 3}, {"must_do": [1]}):
        with pytest.raises(InvalidInputError):
            Persona(persona_name="Nova", **wrong)
    with pytest.raises(InvalidInputError, match="has a primary_emotion"):
        OperationalState(emotional_state={"mood": "good"}).remember("", {})


def test_the_orchestrators_sections_have_the_specified_titles_in_the_specified_order() -> None:
    assert [stage.title for stage in ORCHESTRATOR.stages] == [
        "## Consciousness",
        "## Conversation History",
        "## Working Memory",
        "## Frontal Cortex",
        "## Episodic Memory",
        "## Semantic Memory",
        "## Tool Specifications",
    ]
