"""A persona larger than the budget: its name and rules stand, its backstory is cut."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from langmem_tiers import Budget, Persona
from langmem_tiers.core.errors import BudgetExceededError, InvalidInputError
from langmem_tiers.turn.layout import ORCHESTRATOR, PERSONA
from tests.support.coordinating import Caller, calling
from tests.support.opening import Opener
from tests.support.turning import turning

LONG_SOUL = Persona(
    persona_name="Nova",
    backstory="A guide to the old town. " + "She has walked its lanes for years. " * 200,
    core_values=("Honesty",),
    must_do=("Name your sources",),
    must_not_do=("Give medical advice",),
)
STANDS = ("**Name**: Nova", "- Name your sources", "MUST NOT: - Give medical advice")


@pytest.fixture
async def call(open_store: Opener, url: str) -> AsyncIterator[Caller]:
    """A coordinator of (acme, billing, chat), called each way."""
    async with calling(open_store, url, project_id="billing", session_id="chat") as opened:
        yield opened


@pytest.mark.parametrize("stage", ["persona", "identity"])
async def test_of_a_persona_larger_than_the_budget_the_backstory_is_cut(
    call: Caller, stage: str
) -> None:
    layout = PERSONA if stage == "persona" else ORCHESTRATOR
    async with turning(call, layout=layout, sources={stage: LONG_SOUL}) as turn:
        whole = await turn("assemble_context", "Hello")
        found = await turn("assemble_context", "Hello", budget=300)

    assert LONG_SOUL.backstory.strip() in whole.text
    assert all(one in found.text for one in (*STANDS, "- Honesty"))
    (backstory,) = re.findall(r"\*\*Backstory\*\*: (.*)", found.text)
    assert backstory.endswith(" […]")
    assert LONG_SOUL.backstory.startswith(backstory.removesuffix(" […]"))
    assert 250 <= found.tokens <= 300
    assert found.decisions[0].reason.startswith("cut to")


async def test_a_personas_name_and_rules_stand_or_no_context_is_made(call: Caller) -> None:
    async with turning(call, layout=PERSONA, sources={"persona": LONG_SOUL}) as turn:
        least = await turn("assemble_context", "Hello", budget=45)
        with pytest.raises(InvalidInputError, match="and there are 10: give the turn a larger"):
            await turn("assemble_context", "Hello", budget=10)

    assert all(one in least.text for one in STANDS)
    assert least.tokens <= 45


async def test_what_a_turn_has_spent_leaves_no_room_for_a_persona(call: Caller) -> None:
    sources, budget = {"persona": LONG_SOUL}, Budget(tokens=320)
    async with turning(call, layout=PERSONA, sources=sources, budget=budget) as turn:
        await turn("assemble_context", "Hello", budget=300)
        with pytest.raises(BudgetExceededError, match="the name and the rules"):
            await turn("assemble_context", "Hello")
