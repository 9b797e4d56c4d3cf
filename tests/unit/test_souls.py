"""A persona's file in any form: no rule is torn, and only the backstory may be cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.turn.persona import Persona

word = st.sampled_from(
    [
        *("open", "share", "the", "gate", "without", "badge", "keys", "never", "unless"),
        *("asked", "must", "not", "only", "always", "if", "ever"),
    ]
)
phrase = st.lists(word, min_size=1, max_size=6).map(" ".join)
phrases = st.lists(phrase, max_size=4, unique=True)
heading = st.sampled_from(
    ["Boundaries", "Don't", "Grenzen", "Safety", "Never", "Red lines", "Правила", "Tone", "Rules"]
)


def text_of(soul: Persona) -> str:
    (said,) = soul.remember("", {})
    return said.text


def least_of(soul: Persona) -> str:
    """Return what stands of a persona where there is hardly any room."""
    (said,) = soul.remember("", {})
    return said.least


def flat(text: str) -> str:
    return " ".join(text.split())


@given(
    name=phrase,
    backstory=st.lists(phrase, max_size=3).map("\n\n".join),
    tone=phrase,
    traits=phrases,
    values=phrases,
    must=phrases,
    never=phrases,
    further=st.lists(st.tuples(heading, phrases.filter(bool)), max_size=2),
)
def test_what_a_persona_is_shown_as_in_the_specifications_form_is_read_as_the_same_persona(
    further: list[tuple[str, list[str]]], **told: Any
) -> None:
    names = ("persona_name", "backstory", "communication_tone", "voice_traits", "core_values")
    given_ = dict(zip((*names, "must_do", "must_not_do"), told.values(), strict=True))
    beside = ["\n".join([f"**{head}**:", *(f"- {one}" for one in said)]) for head, said in further]
    soul = Persona(**given_, further=beside)

    again = Persona.of_markdown(f"# WHO YOU ARE\n\n{text_of(soul)}\n")

    assert again == soul


@st.composite
def lists(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw a list as people write it, and the text of each of its items."""
    mark = draw(st.sampled_from(["- ", "* ", "+ ", "1. ", "2) "]))
    gap = draw(st.sampled_from(["\n", "\n\n"]))
    indent = " " * draw(st.sampled_from([0, 1, 3]))
    written, items = [], []
    for one in draw(st.lists(phrase, min_size=1, max_size=4)):
        wrapped = draw(st.lists(phrase, max_size=2))
        nested = draw(st.lists(phrase, max_size=2))
        deep = draw(st.sampled_from([len(mark), 4]))
        lines = [f"{mark}{one}", *(f"{' ' * deep}{each}" for each in wrapped)]
        lines += [f"{' ' * deep}- {each}" for each in nested]
        written.append("\n".join(f"{indent}{line}" for line in lines))
        items.append(flat(" ".join([one, *wrapped, *(f"- {each}" for each in nested)])))
    return gap.join(written), items


FORMS = (
    *("## {}\n{}", "## {} ##\n\n{}", "### {}\n{}"),
    *("**{}**:\n{}", "**{}:**\n\n{}", "{}\n-----\n{}"),
)
BEFORE = ("", "## Core Values\n- Honesty\n\n", "## Must Do\n- Rest\n\n")
BORN = ("", "## Backstory\nBorn by the sea.\n\n", "**Backstory**: Born by the sea.\n\n")


@given(heading, lists(), st.sampled_from(FORMS), st.sampled_from(BEFORE), st.data())
def test_a_list_under_any_heading_but_the_backstorys_stands_whole_below_its_heading(
    head: str, listed: tuple[str, list[str]], form: str, before: str, data: st.DataObject
) -> None:
    written, items = listed
    part = f"{form.format(head, written)}\n\n"
    parts = data.draw(st.permutations([part, data.draw(st.sampled_from(BORN))]))
    soul = Persona.of_markdown(f"# Nova\n\n{before}{''.join(parts)}")

    least = flat(least_of(soul))
    rest = least[least.index(head) :]
    for one in items:
        assert one in rest
        rest = rest[rest.index(one) + len(one) :]
    assert soul.backstory in {"", "Born by the sea."}


@given(st.sampled_from(["Must Do", "MUST", "must_do", "Must Not Do", "MUST NOT"]), lists())
def test_each_item_of_a_list_of_rules_is_one_rule(head: str, listed: tuple[str, list[str]]) -> None:
    written, items = listed
    soul = Persona.of_markdown(f"# Nova\n\n## {head}\n{written}\n\n## Hobbies\n- Chess\n")

    never = "not" in head.lower()
    rules, others = (soul.must_do, soul.must_not_do)[:: -1 if never else 1]
    assert [flat(one) for one in rules] == items
    assert not others


@given(
    st.sampled_from(["must_do", "must_not_do"]),
    phrase.map("On Sundays {}".format),
    phrase,
    phrases.filter(bool),
)
def test_a_list_that_something_else_stands_with_is_kept_as_it_is_written(
    field: str, intro: str, outro: str, items: list[str]
) -> None:
    head = field.replace("_", " ").title()
    listed = "\n".join(f"- {one}" for one in items)
    for said in (
        f"{intro}:\n{listed}",
        f"{listed}\n\n{outro}.",
        f"{listed}\n{outro}",
        f"### {intro}\n{listed}",
        f"{listed}\nMUST: {outro}",
        f"{intro}\n{outro}",
    ):
        soul = Persona.of_markdown(f"# Nova\n## {head}\n{said}\n")

        assert soul.further == (f"**{head}**:\n{said}",)
        assert not soul.must_do
        assert not soul.must_not_do


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("MUST NOT: share\n- passwords\n- keys", "MUST NOT: share\n- passwords\n- keys"),
        ("- Always be kind\nMUST NOT: lie", "- Always be kind\nMUST NOT: lie"),
        ("MUST NOT: lie\n- Never shout", "MUST NOT: lie\n- Never shout"),
        ("MUST: rest\n\nUnless somebody calls.", "MUST: rest\n\nUnless somebody calls."),
    ],
)
def test_rules_that_are_not_told_apart_are_kept_as_they_are_written(said: str, kept: str) -> None:
    soul = Persona.of_markdown(f"# Nova\n\n## Behavioral Rules\n{said}\n\n## Backstory\nBorn.\n")

    assert soul.further == (f"**Behavioral Rules**:\n{kept}",)
    assert (soul.must_do, soul.must_not_do, soul.backstory) == ((), (), "Born.")


def test_a_heading_below_another_is_told_with_it() -> None:
    soul = Persona.of_markdown(
        "# Nova\n\n## Never\n### In public\n- Smoke\n### Backstory\nBorn.\n### At home\n- Shout\n"
    )

    assert soul.further == (
        "**Never**:\n### In public\n- Smoke",
        "**Never > At home**:\n- Shout",
    )


def test_the_first_heading_names_the_persona_only_on_the_first_level() -> None:
    soul = Persona.of_markdown("---\nname: Nova\n---\n## Never\n- Lie\n")
    titled = Persona.of_markdown("---\nname: Nova\n---\n# Never\n- Lie\n")

    assert soul.further == titled.further == ("**Never**:\n- Lie",)
    assert soul.persona_name == titled.persona_name == "Nova"


def test_lists_within_a_front_matter_are_told_with_all_that_they_stand_below() -> None:
    soul = Persona.of_markdown(
        "---\nname: Nova\nnever:\n  share: [passwords, keys]\nmust_not: |\n  - Lie\n    ever\n"
        "  - Shout\nmust: |\n  On Sundays:\n  - Rest\n---\n"
    )

    assert soul.must_not_do == ("Lie ever", "Shout")
    assert soul.must_do == ()
    assert set(soul.further) == {
        "**never > share**:\n- passwords\n- keys",
        "**must**:\nOn Sundays:\n- Rest",
    }
