"""Whether the wall between tenants stands: what is looked at, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import TIERS
from langmem_tiers.core.roles import Role
from langmem_tiers.postgres.flow import Call, Flow, Query, Row

_SHOWN = 3
"""How many of what is found are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that has to hold."""

    check: str
    ok: bool
    found: str = ""
    """What does not hold."""
    advice: str = ""
    """What to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found of a database, as one login sees it."""

    login: str
    looked_at: str
    """The role that was looked at: an application's, where the login is no application's."""
    checks: tuple[Check, ...]
    backup: str
    """The way to dump all tenants."""

    @property
    def ok(self) -> bool:
        """Whether all holds."""
        return all(one.ok for one in self.checks)


def examine(options: StoreOptions, acting: Role) -> Flow[Examination]:
    """Look at the wall; where the login looks over it, as an application's role would see it."""
    names = options.roles.names
    schemas = [options.schema(name) for name in ("memory", *TIERS)]
    ((login,),) = yield Query((Call("doctor_login", {**names, "schemas": schemas}),))
    as_role = names["application"] if acting != "application" and login[8] else None
    params = {"who": as_role or login[0], "schemas": schemas}
    looks = ("doctor_tables", "doctor_rights", "doctor_functions", "doctor_audit")
    named = Call("act_for", {"role": as_role, "tenant": ""})
    _, tables, rights, functions, silent = yield Query(
        (named, *(Call(look, params) for look in looks)), commit=True
    )
    again = f"as the owner remove the setting 'walls' from {schemas[0]}.settings, then run setup"
    checks = (
        *_of_roles(login, names["application"], names["worker"]),
        *_of_login(login, names["application"]),
        lacking(
            "every table with a tenant is walled",
            [name for name, forced, *_ in tables if not forced],
            again,
        ),
        lacking(
            "its policies show one tenant's rows",
            [name for name, _, sound, _ in tables if not sound],
            f"drop the policies that setup did not make; {again}",
        ),
        lacking(
            "who names no tenant sees no row",
            [name for name, *_, seen in tables if seen],
            "see the checks above: what looks over the wall, or is not walled, shows them",
        ),
        lacking(
            "rights are no wider than needed",
            [f"{name} ({more})" for name, more in rights],
            f"REVOKE them from {params['who']}, or from the roles that it is a member of",
        ),
        lacking(
            "functions with the owner's rights are closed",
            [name for (name,) in functions],
            "make them as the migration does, and REVOKE EXECUTE on them FROM PUBLIC",
        ),
        lacking(
            "what is written is logged",
            [name for (name,) in silent],
            "as the owner ALTER TABLE … ENABLE TRIGGER USER; no log has what was written meanwhile",
        ),
    )
    return Examination(
        login=login[0], looked_at=as_role or login[0], checks=checks, backup=_backup(*login[9:])
    )


def _backup(owner: str, looks_over_walls: bool) -> str:  # noqa: FBT001 - a row's columns
    if looks_over_walls:
        return f"pg_dump as {owner}, the owner"
    return (
        f"pg_dump --enable-row-security as {owner}, the owner, who sees all rows; without the "
        "option Postgres refuses it"
    )


def _of_roles(login: Row, application: str, worker: str) -> Iterator[Check]:
    missing = [name for name, there in ((application, login[5]), (worker, login[6])) if not there]
    yield lacking(
        "the roles are there",
        missing,
        "CREATE ROLE … NOLOGIN as somebody who may, then run `langmem-tiers setup` as the owner",
    )
    yield lacking(
        "the application's role is walled itself",
        [application] if login[7] else [],
        f"ALTER ROLE {application} NOSUPERUSER NOBYPASSRLS, and take it out of the owner's role",
    )


def _of_login(login: Row, application: str) -> Iterator[Check]:
    who = login[0]
    own = (
        f"connect as a login of the application: CREATE ROLE web LOGIN PASSWORD '…' IN ROLE "
        f"{application}"
    )
    for check, holds in (
        ("the login is no superuser", not login[1]),
        ("the login has no BYPASSRLS", not login[2]),
        ("the login is not the owner", not login[3]),
        ("the login is no worker", not login[4]),
        (f"the login is a member of {application}", login[8]),
    ):
        yield lacking(check, [] if holds else [who], own)


def lacking(check: str, found: Sequence[str], advice: str) -> Check:
    """A check that fails for what was found."""
    if not found:
        return Check(check=check, ok=True)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return Check(check=check, ok=False, found=", ".join(found[:_SHOWN]) + more, advice=advice)
