"""The roles of a database: its owner, applications that see one tenant at a time, and workers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from langmem_tiers.core.checks import check_known, checked_choice, checked_mapping
from langmem_tiers.core.errors import ConfigurationError, short

Role: TypeAlias = Literal["owner", "application", "worker"]
"""Whose rights a store has: all, those of one tenant in each transaction, or all rows alone."""

_NAME: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """What the roles of Postgres are called, and which of them a store takes."""

    application: str = "langmem_application"
    worker: str = "langmem_worker"
    taken: Literal["application", "worker"] | None = None
    """None: a store has the rights of whoever connects."""

    def check(self) -> None:
        """Raise ConfigurationError for what no role can be called."""
        named: tuple[object, ...] = (self.application, self.worker)
        for name in named:
            if not (isinstance(name, str) and _NAME.fullmatch(name)):
                raise ConfigurationError(
                    f"a role is called by 1 to 63 lower-case letters, digits or underscores, not "
                    f"{short(name)}: it begins with a letter or an underscore, and not with pg_"
                )
        if self.application == self.worker:
            raise ConfigurationError("the roles of applications and of workers are two")

    @property
    def names(self) -> dict[str, str]:
        """Their names, by what they are."""
        return {"application": self.application, "worker": self.worker}

    @property
    def name_taken(self) -> str | None:
        """The name of the role that a store takes."""
        return None if self.taken is None else self.names[self.taken]


def roles_of(prefix: object, taken: object, given: Mapping[str, str] | None) -> Roles:
    """The roles of a store whose schemas have this prefix: as `given`, or called after it.

    Raises:
        ConfigurationError: for a role that there is not.
    """
    prefix = prefix if isinstance(prefix, str) else ""  # what it must be is said elsewhere
    named = {"application": f"{prefix}langmem_application", "worker": f"{prefix}langmem_worker"}
    own = {} if given is None else checked_mapping(given, "roles", "{'application': 'web_role'}")
    check_known(own, named, "roles")
    if taken is not None:
        taken = checked_choice(taken, named, "role", ConfigurationError)
    return Roles(**{**named, **own}, taken=taken)  # type: ignore[arg-type]
