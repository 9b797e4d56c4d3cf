"""How a check says what it found, with or without pytest's rewriting of asserts."""

import asyncio
from collections.abc import Awaitable


def equal(found: object, wanted: object, what: str) -> None:
    """Fail unless the two are equal."""
    __tracebackhide__ = True
    if found != wanted:
        message = f"{what}: found {_short(found)}, wanted {_short(wanted)}"
        raise AssertionError(message)


def true(condition: object, what: str) -> None:
    """Fail unless the condition holds."""
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(what)


async def refused(call: Awaitable[object], *kinds: type[Exception], what: str) -> None:
    """Fail unless the call raises one of these kinds of error."""
    __tracebackhide__ = True
    outcome = (await asyncio.gather(call, return_exceptions=True))[0]
    names = " or ".join(kind.__name__ for kind in kinds)
    true(isinstance(outcome, kinds), f"{what}: wanted {names}, got {_short(outcome)}")


def _short(thing: object, longest: int = 300) -> str:
    text = repr(thing)
    return text if len(text) <= longest else f"{text[:longest]}…"
