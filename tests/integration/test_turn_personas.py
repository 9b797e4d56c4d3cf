"""A turn with a persona whose file has rules in every form: little room loses none of them."""

from __future__ import annotations

import pytest

from langmem_tiers import PERSONA, MemoryOrchestrator, Persona, TieredStore
from langmem_tiers.core.errors import InvalidInputError
from tests.support.coordinating import coordinator

SOUL = f"""\
# WHO YOU ARE

**Name**: Wind
**Backstory**: {"Wind grew up on the coast. " * 200}

**Core Values**:
- Candour

**Behavioral Rules**:
MUST: - Name your sources
- Greet by name
MUST NOT: - Open the gate
  without a badge
- Promise:
  - a date
  - a price

## Boundaries
- Never open the archive
  unless Ann is there

## Don't
- Share numbers
"""


def test_of_a_persona_all_rules_stand_whole_when_the_backstory_is_cut(store: TieredStore) -> None:
    memory, soul = coordinator(store), Persona.of_markdown(SOUL)
    with MemoryOrchestrator(memory, layout=PERSONA, sources={"persona": soul}) as turn:
        context = turn.assemble_context("Hello", budget=220)
        with pytest.raises(InvalidInputError, match="what has to stand of the source 'persona'"):
            turn.assemble_context("Hello", budget=40)

    who = context.fragments[0]
    assert "Wind grew up on the coast." in who.text
    assert "[…]" in who.text
    assert who.text.endswith(
        "**Core Values**:\n- Candour\n\n"
        "**Behavioral Rules**:\nMUST: - Name your sources\n- Greet by name\n"
        "MUST NOT: - Open the gate without a badge\n- Promise:\n  - a date\n  - a price\n\n"
        "**Boundaries**:\n- Never open the archive\n  unless Ann is there\n\n"
        "**Don't**:\n- Share numbers"
    )
    assert who.rationale == "who the agent is; kept whole as well: **Boundaries**:, **Don't**:"
