"""A memory as the rules of merging and superseding read it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class Item(NamedTuple):
    """What a memory says, and when. All times carry their zone."""

    id: int
    created_at: datetime
    content: str
    memory_type: str = "episodic"
    speaker: str | None = None
    """Who said it, if that was told."""
    namespace: str = ""
    occurred_at: datetime | None = None
    valid_from: datetime | None = None
    trust: float = 1.0
    """In 0…1."""
    session: str | None = None
    """In which it was said, if that was told."""

    @property
    def own(self) -> tuple[str, str]:
        """Whom "I" and "my" mean: the speaker, else whoever spoke there."""
        return ("", self.namespace) if self.speaker is None else (self.speaker, "")

    @property
    def told_by(self) -> tuple[str, str, str]:
        """Who said it: the speaker, else whoever spoke in that session."""
        return (*self.own, "" if self.speaker is not None else self.session or "")

    @property
    def told_at(self) -> datetime:
        """When it happened, if that was told, else when it was stored."""
        return self.occurred_at or self.created_at

    @property
    def since(self) -> datetime:
        """Since when it is true, as far as anybody told."""
        return self.valid_from or self.occurred_at or self.created_at

    @property
    def recorded(self) -> tuple[datetime, int]:
        """What is older comes first, the id breaking ties."""
        return self.created_at, self.id

    @property
    def order(self) -> tuple[datetime, datetime, int]:
        """What was true earlier comes first; told at the same time, what was recorded first."""
        return self.since, self.created_at, self.id
