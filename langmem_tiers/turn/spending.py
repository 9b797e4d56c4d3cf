"""What a turn may spend, and what it has spent."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any

from langmem_tiers.core.errors import (
    BudgetExceededError,
    InvalidInputError,
    InvalidTypeError,
    short,
)
from langmem_tiers.core.records import by, record


def limit(given: object, name: str) -> Any:
    """A limit of a turn, or None for no limit."""
    numbers = (int, float) if name == "seconds" else int
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, numbers):
        kind = "a number" if name == "seconds" else "a whole number"
        raise InvalidTypeError(f"{name} is {kind} or None, not {short(given)}")
    if not 0 <= given <= sys.float_info.max:
        raise InvalidInputError(f"{name} is {short(given)}: use 0 or more, or None for no limit")
    return given


@record
class Budget:
    """What one turn may spend; None is no limit.

    Raises:
        InvalidInputError: for a limit below 0, or what is no number.
    """

    tokens: Annotated[int | None, by(limit)] = 8000
    """Tokens of context that are assembled in the turn, all calls together (specification of the
    context pipeline: 8,000)."""
    events: Annotated[int | None, by(limit)] = None
    """What the turn may do: assemble, track, memorize and note progress, each call once."""
    seconds: Annotated[float | None, by(limit)] = None
    """The time that it may take, by the store's clock, waits for people included. A context is
    assembled by then, without the sources that have not answered. A commit is never too late."""

    def status(self, tokens: int, events: int, seconds: float) -> BudgetStatus:
        """What is left of it once so much is spent."""
        return BudgetStatus(
            tokens_used=tokens,
            tokens_left=None if self.tokens is None else max(0, self.tokens - tokens),
            events_used=events,
            events_left=None if self.events is None else max(0, self.events - events),
            seconds_used=seconds,
            seconds_left=None if self.seconds is None else max(0.0, self.seconds - seconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStatus:
    """What a turn has spent, and what is left; None of what has no limit."""

    tokens_used: int
    tokens_left: int | None
    events_used: int
    events_left: int | None
    seconds_used: float
    seconds_left: float | None

    def __str__(self) -> str:
        """All of it in one line."""
        return (
            f"tokens {self.tokens_used:,} ({_left(self.tokens_left)}), "
            f"events {self.events_used:,} ({_left(self.events_left)}), "
            f"seconds {self.seconds_used:.1f} ({_left(self.seconds_left)})"
        )

    def check(self, what: str, *, tokens: bool = False) -> None:
        """Refuse what a turn has no budget for any more; `tokens` if it needs some.

        Raises:
            BudgetExceededError: for what is spent: events, then seconds, then tokens.
        """
        if self.events_left == 0:
            name, used = "events", f"used its {self.events_used:,} events"
        elif self.seconds_left is not None and self.seconds_left <= 0:
            name, used = (
                "seconds",
                f"gone on for {self.seconds_used:.1f} seconds, more than it may,",
            )
        elif tokens and self.tokens_left == 0:
            name, used = "tokens", f"used its {self.tokens_used:,} tokens of context"
        else:
            return
        raise BudgetExceededError(
            f"the turn has {used} and cannot {what}: commit it and begin another, or give it "
            f"Budget({name}=…)"
        )


def _left(number: float | None) -> str:
    return "no limit" if number is None else f"{number:,.6g} left"
