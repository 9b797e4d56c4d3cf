"""What the generated people talk about, read from `log_topics.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something said in passing, and how it is asked for later, in partly other words."""

    said: str
    values: tuple[str, ...]
    asked: tuple[str, ...]
    occasion: str = ""
    """What comes after "when did I …", for what happened on a day."""

    @property
    def event(self) -> bool:
        return bool(self.occasion)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A topic: what users ask for, what any assistant answers, what users let slip."""

    name: str
    asks: tuple[str, ...]
    tips: tuple[str, ...]
    facts: tuple[Fact, ...]
    picks: tuple[str, ...]
    """What an assistant may recommend by name."""
    pick_asked: tuple[str, ...]


def _fact(given: Mapping[str, Any]) -> Fact:
    return Fact(
        said=given["said"],
        values=tuple(given["values"]),
        asked=tuple(given["asked"]),
        occasion=given.get("when", ""),
    )


def _domain(given: Mapping[str, Any]) -> Domain:
    return Domain(
        name=given["name"],
        asks=tuple(given["asks"]),
        tips=tuple(given["tips"]),
        facts=tuple(_fact(one) for one in given["facts"]),
        picks=tuple(given["picks"]),
        pick_asked=tuple(given["pick_asked"]),
    )


def _read() -> tuple[Domain, ...]:
    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    return tuple(_domain(one) for one in tomllib.loads(text)["topics"])


DOMAINS: Final = _read()
