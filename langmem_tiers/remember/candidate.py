"""What is to be remembered, as the gate and the reviewers look at it."""

from __future__ import annotations

from dataclasses import dataclass

from langmem_tiers.core.memory import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A text that is known already, by the key of its memory."""

    content: str
    key: str | None = None
    namespace: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text that may become a memory."""

    content: str
    memory_type: str | None = "episodic"
    """None leaves it to what the text says."""
    source: str = Source.USER
    tags: tuple[str, ...] = ()
    importance: float | None = None
    """In 0…1."""
    beside: tuple[str, ...] = ()
    """What else a prompt may say of it: who said it, and the circumstances."""
    recalled: tuple[Known, ...] = ()
    """What was recalled in its run, and the instructions that the agent runs under: what repeats
    them is no new evidence."""
    stored: tuple[Known, ...] = ()
    """What is stored and might say the same."""
    expiring: tuple[str, ...] = ()
    """Memory types of a tier that expires: what it says leads to none of them."""
