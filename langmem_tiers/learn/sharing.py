"""What everybody is told of a memory that is promoted: its text, and the fields of its value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.learn.generalise import DETERMINISTIC, Generaliser, abstracted, leaks
from langmem_tiers.postgres.flow import Ask, Flow, apart

NUMBERS = ("importance", "boost")
"""Fields of a value that are kept if they are numbers."""
FAILURE = ("signature", "tool")
"""Fields of a value that say what failed: kept together, if they name nobody."""
LISTS = ("tags", "entities")
"""Fields of a value that are lists of words: those that name nobody are kept."""
OPEN = ("emotional_valence", "success_metrics", "steps", "support", "success_rate")
"""Fields of a value that are kept as they are, or not at all if they name anybody."""
TOLD = ("original_approach", "failure_reason", "improved_approach")
"""Fields of a value that are kept in general words."""


class _Refused(NamedTuple):
    """What a model raised, as an answer: a flow can go on from that, and not from an `Ask`."""

    error: ModelError | InvalidInputError


def said_for_all(content: str, names: Sequence[str], generaliser: Generaliser) -> Flow[str]:
    """The text in general words; the names are private ones.

    Raises:
        ModelError: if the model gave nothing usable. The flow may catch it and go on.
    """

    def call() -> str | _Refused:
        try:
            return generaliser.call(content, names)
        except (ModelError, InvalidInputError) as error:
            return _Refused(error)

    async def acall() -> str | _Refused:
        try:
            return await generaliser.acall(content, names)
        except (ModelError, InvalidInputError) as error:
            return _Refused(error)

    answer: str | _Refused
    if generaliser is DETERMINISTIC:
        answer = yield from apart(call, len(content))
    else:
        answer = yield Ask(call, acall)
    if isinstance(answer, _Refused):
        raise answer.error
    return answer


def shared_fields(value: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What everybody is told of a value beside its text; it may hold anything under any name."""
    shared = {name: value[name] for name in NUMBERS if _is_number(value.get(name))}
    failure = {name: value[name] for name in FAILURE if name in value}
    if not leaks(_written(list(failure.values())), names):
        shared |= failure
    for name in OPEN:
        if name in value and not leaks(_written(value[name]), names):
            shared[name] = value[name]
    for name in TOLD:
        if isinstance(value.get(name), str):
            shared[name] = abstracted(value[name], names)
    for name in LISTS:
        if words := [one for one in _strings(value.get(name)) if not leaks(one, names)]:
            shared[name] = words
    return shared


def _written(given: object) -> str:
    """As JSON, with every letter as it is: an escaped name would not be known."""
    return json.dumps(given, ensure_ascii=False)


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _strings(given: object) -> list[str]:
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
