"""Users see nothing of each other, by the model that the README shows."""

from __future__ import annotations

import ast
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from langmem_tiers import MemoryContext, MemoryCoordinator
from tests.support.coordinating import PATIENT, Caller, calling
from tests.support.opening import Opener

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SALARY = "Ada's salary is 90,000 EUR"


@pytest.fixture
async def call(open_store: Opener, url: str) -> AsyncIterator[Caller]:
    async with calling(open_store, url) as opened:
        yield opened


def of(user: str) -> tuple[tuple[str, ...], MemoryContext]:
    """The namespace and the context of a user, as the README has them for Ada."""
    (namespace,) = re.findall(r"^namespace = (\(.*?\))", README, re.MULTILINE)
    (given,) = re.findall(r"^context = MemoryContext\((.*?)\)", README, re.MULTILINE)
    names = {str(one.arg): ast.literal_eval(one.value) for one in _call(given).keywords}
    assert "ada" in {*ast.literal_eval(namespace), *names.values()}
    labels = tuple(user if one == "ada" else one for one in ast.literal_eval(namespace))
    return labels, MemoryContext(**{k: user if v == "ada" else v for k, v in names.items()})


def _call(arguments: str) -> ast.Call:
    found = ast.parse(f"f({arguments})", mode="eval").body
    assert isinstance(found, ast.Call)
    return found


async def recalled(call: Caller, context: MemoryContext, **options: Any) -> list[str]:
    memory = MemoryCoordinator(call.memory.tiered_store, context=context, settings=PATIENT)
    found = await Caller(memory, call.mode)("get_context", "Ada's salary", limit=50, **options)
    return [one.content for one in found]


@pytest.mark.parametrize("tier", ["short_term", "working", "long_term"])
async def test_two_users_of_the_readme_see_nothing_of_each_other(call: Caller, tier: str) -> None:
    store = call.memory.tiered_store
    (ada, adas), (ben, bens) = of("ada"), of("ben")
    await store.aput(ada, "salary", {"content": SALARY})
    await store.amove(ada, "salary", tier)
    hers = MemoryCoordinator(store, context=adas, settings=PATIENT)
    await Caller(hers, call.mode)("store", SALARY, tier=tier)

    assert set(await recalled(call, adas)) == {SALARY}
    assert await recalled(call, bens) == []
    assert await recalled(call, bens, profile="aurora") == []
    assert await store.asearch(ben[:1], query="salary", limit=50) == []
    assert len(await store.asearch(ada[:1], query="salary", limit=50)) == 2


async def test_what_is_known_of_a_person_stays_in_its_project(call: Caller) -> None:
    billing = MemoryContext(tenant="acme", project_id="billing")
    hers = MemoryCoordinator(call.memory.tiered_store, context=billing, settings=PATIENT)
    stored = await Caller(hers, call.mode)("store", SALARY, memory_type="relationship")

    assert stored.tier == "working"
    assert await recalled(call, billing) == [SALARY]
    assert await recalled(call, MemoryContext(tenant="acme", project_id="shipping")) == []
    assert await recalled(call, MemoryContext(tenant="acme")) == []
