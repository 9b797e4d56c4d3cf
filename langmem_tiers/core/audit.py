"""What of a database is logged, and who is said to act."""

from __future__ import annotations

from dataclasses import dataclass

from langmem_tiers.core.errors import ConfigurationError, short

_LONGEST = 255
"""Characters of an actor's name, as of a label: our own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What goes into the audit log of a store, and under which name; docs/audit.md has it all.

    Raises:
        ConfigurationError: for a value that cannot work.

    Example:
        ```python
        from langmem_tiers import Audit, TieredStore

        store = TieredStore.embedded("./.memory", audit=Audit(reads=True, actor="support-bot"))
        ```
    """

    writes: bool | None = None
    """Whether the database logs what is written, whoever writes: `setup` switches it on or off for
    all. None leaves it as it is: a new database logs."""
    reads: bool = False
    """Whether this store logs which memories it returns. A read then waits for one commit more."""
    actor: str | None = None
    """Who this store writes and reads for, beside the role that logged in."""

    def __post_init__(self) -> None:
        """Check what a caller may have set."""
        for name, wrong in (
            ("writes", not isinstance(self.writes, bool | None)),
            ("reads", not isinstance(self.reads, bool)),
        ):
            if wrong:
                raise ConfigurationError(
                    f"{name} is True or False, not {short(getattr(self, name))}"
                )
        actor: object = self.actor
        if actor is not None and not (
            isinstance(actor, str) and actor.isprintable() and 0 < len(actor.strip()) <= _LONGEST
        ):
            raise ConfigurationError(
                f"actor is a name of up to {_LONGEST} printable characters, not {short(actor)}"
            )


def checked_audit(given: object) -> Audit:
    """What goes into the log; what an `Audit` says by itself if none is given."""
    if not isinstance(given, Audit | None):
        raise ConfigurationError(f"audit is Audit(reads=True) or the like, not {short(given)}")
    return Audit() if given is None else given
