"""What a turn may spend, and what it has spent."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from langmem_tiers.core.errors import (
    BudgetExceededError,
    InvalidInputError,
    InvalidTypeError,
    short,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one turn may spend; None is no limit.

    Raises:
        InvalidInputError: for a limit below 0, or what is no number.
    """

    tokens: int | None = 8000
    """Tokens of context that are assembled in the turn, all calls together (specification of the
    context pipeline: 8,000)."""
    events: int | None = None
    """What the turn may do: assemble, track, memorize and note progress, each call once."""
    seconds: float | None = None
    """How long it may go on doing so, by the store's clock, waits for people included. A commit is
    never too late."""

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        for name in ("tokens", "events"):
            given = getattr(self, name)
            if given is not None and (isinstance(given, bool) or not isinstance(given, int)):
                raise InvalidTypeError(f"{name} is a whole number or None, not {short(given)}")
            _check_limit(given, name)
        if self.seconds is not None and (
            isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float)
        ):
            raise InvalidTypeError(f"seconds is a number or None, not {short(self.seconds)}")
        _check_limit(self.seconds, "seconds")


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


def status(budget: Budget, tokens: int, events: int, seconds: float) -> BudgetStatus:
    """What is left of a budget."""
    return BudgetStatus(
        tokens_used=tokens,
        tokens_left=None if budget.tokens is None else max(0, budget.tokens - tokens),
        events_used=events,
        events_left=None if budget.events is None else max(0, budget.events - events),
        seconds_used=seconds,
        seconds_left=None if budget.seconds is None else max(0.0, budget.seconds - seconds),
    )


def check(spent: BudgetStatus, what: str, *, tokens: bool = False) -> None:
    """Refuse what a turn has no budget for any more; `tokens` if it needs some.

    Raises:
        BudgetExceededError: for what is spent: events, then seconds, then tokens.
    """
    if spent.events_left == 0:
        raise BudgetExceededError(
            f"the turn has used its {spent.events_used:,} events and cannot {what}: commit it and "
            "begin another, or give it Budget(events=…)"
        )
    if spent.seconds_left is not None and spent.seconds_left <= 0:
        raise BudgetExceededError(
            f"the turn has gone on for {spent.seconds_used:.1f} seconds, more than it may, and "
            f"cannot {what}: commit it and begin another, or give it Budget(seconds=…)"
        )
    if tokens and spent.tokens_left == 0:
        raise BudgetExceededError(
            f"the turn has used its {spent.tokens_used:,} tokens of context and cannot {what}: "
            "begin another, or give it Budget(tokens=…)"
        )


def checked_tokens(budget: object) -> int | None:
    """The tokens that a context may have; None is no limit.

    Raises:
        InvalidInputError: for what is no number of tokens.
    """
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int)):
        hint = "; a Budget is the turn's: MemoryOrchestrator(…, budget=Budget(…))"
        told = hint if isinstance(budget, Budget) else ""
        raise InvalidTypeError(f"budget is a whole number of tokens, not {short(budget)}{told}")
    if budget is not None and budget < 0:
        raise InvalidInputError(f"budget is {budget}: use 0 or more tokens")
    return budget


def _check_limit(given: float | None, name: str) -> None:
    if given is not None and not 0 <= given <= sys.float_info.max:
        raise InvalidInputError(f"{name} is {given}: use 0 or more, or None for no limit")


def _left(number: float | None) -> str:
    return "no limit" if number is None else f"{number:,.6g} left"
