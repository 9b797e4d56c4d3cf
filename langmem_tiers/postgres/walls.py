"""The wall between tenants: statements that name the tenant, and checks that the wall stands.

An application sees the rows of the tenant that its transaction names, and no others. So a
statement that names the tenant precedes each statement on rows of tenants, in the same round trip.
Statements of the same tenant are sent together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, NamedTuple

from langmem_tiers.core.config import Role, StoreOptions
from langmem_tiers.core.errors import cross_tenant_error
from langmem_tiers.core.memory import TIERS
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from langmem_tiers.postgres.sql import Statement

ACTING: Final = (
    "SELECT CASE "
    "WHEN c.oid IS NULL OR NOT c.relforcerowsecurity OR pg_has_role(c.relowner, 'USAGE') "
    "OR (SELECT r.rolbypassrls FROM pg_roles r WHERE r.rolname = current_user) THEN 'owner' "
    "WHEN pg_has_role(to_regrole(%(worker)s), 'USAGE') THEN 'worker' ELSE 'application' END, "
    "coalesce(to_regrole(%(taken)s)::text, quote_ident(current_user)), "
    "(SELECT quote_ident(n.nspname) FROM pg_extension e "
    "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector' AND NOT "
    "has_schema_privilege(coalesce(to_regrole(%(taken)s), current_user::regrole), n.oid, 'USAGE')) "
    "FROM (SELECT to_regclass(%(memories)s)) AS m (oid) LEFT JOIN pg_class c ON c.oid = m.oid"
)
"""Asks for the kind of the connecting role, its name, and the schema of pgvector if the role may
not use it. It stands here and not in queries.sql, as no flow runs it."""

_SETUP_STATEMENTS: Final = frozenset({"any_vector", "any_lexeme"})
"""Statements of setup, which run with the rights of the connecting role."""


class SentCall(NamedTuple):
    """A statement of a round trip."""

    call: Call
    place: int | None
    """The place in the query of the call that it answers, wholly or partly; None if it is ours."""


class Wall(NamedTuple):
    """The rights of a store."""

    acting: Role = "owner"
    role: str | None = None
    """The role that each transaction takes; None for the connecting role."""

    def statements_for(
        self, calls: Sequence[Call], statements: Mapping[str, Statement]
    ) -> Sequence[SentCall]:
        """Return the statements to send for calls; those of several tenants change their order.

        Raises:
            InvalidInputError (tenant_required): for an application's call across tenants.
        """
        stands = self.acting == "application" or self.role is not None
        if not (stands and any(_is_walled(call, statements) for call in calls)):
            return [*map(SentCall, calls, count())]
        sent: list[SentCall] = []
        by_tenant: dict[str, list[SentCall]] = {}
        for place, call in enumerate(calls):
            if _is_walled(call, statements):
                for tenant, part in self._split_by_tenant(call, statements[call.name]):
                    by_tenant.setdefault(tenant, []).append(SentCall(part, place))
            else:
                sent += self._name_tenants(by_tenant)
                by_tenant = {}
                sent.append(SentCall(call, place))
        return [*sent, *self._name_tenants(by_tenant)]

    def _name_tenants(self, by_tenant: Mapping[str, Sequence[SentCall]]) -> Iterator[SentCall]:
        for tenant, statements in by_tenant.items():
            yield SentCall(Call("act_for", {"role": self.role, "tenant": tenant}), None)
            yield from statements

    def _split_by_tenant(self, call: Call, statement: Statement) -> Iterator[tuple[str, Call]]:
        """Split a call into calls of one tenant each; a worker's call stays whole."""
        tenants = call.params.get("tenants") if "tenants" in statement.names else None
        tenant = call.params.get("tenant") if "tenant" in statement.names else None
        if self.acting == "worker" or tenant is not None:
            yield tenant or "", call
        elif tenants is None:
            raise cross_tenant_error(call.name.replace("_", " "))
        elif len(distinct := dict.fromkeys(tenants)) < 2:  # noqa: PLR2004 - one, or none
            yield next(iter(distinct), ""), call
        else:
            for label in distinct:
                rows = [i for i, row_tenant in enumerate(tenants) if row_tenant == label]
                yield label, _call_for_rows(call, statement, rows)


def with_settings(sent: Sequence[SentCall], settings: Mapping[str, Any]) -> Sequence[SentCall]:
    """Put a transaction's settings before its statements, with its first tenant if any."""
    names_tenant = bool(sent) and sent[0].place is None
    tenant_params = sent[0].call.params if names_tenant else {"role": None, "tenant": ""}
    return [SentCall(Call("enter", {**settings, **tenant_params}), None), *sent[names_tenant:]]


def _is_walled(call: Call, statements: Mapping[str, Statement]) -> bool:
    return statements[call.name].walled and call.name not in _SETUP_STATEMENTS


def _call_for_rows(call: Call, statement: Statement, rows: Sequence[int]) -> Call:
    """Return the call for some of its rows alone."""
    kept = {
        name: type(values)(values[i] for i in rows)
        for name in statement.rows
        if (values := call.params[name]) is not None
    }
    return call._replace(params={**call.params, **kept})


_SHOWN = 3
"""The number of findings that a check names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WallCheck:
    """One check of the wall, and its result."""

    check: str
    ok: bool
    found: str = ""
    """The objects that fail it."""
    advice: str = ""
    """The way to mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WallReport:
    """The checks of a database's wall, as one login sees it."""

    login: str
    looked_at: str
    """The role whose rights were checked: the login, or the application's role in its stead."""
    checks: tuple[WallCheck, ...]
    backup: str
    """The way to dump all tenants."""

    @property
    def ok(self) -> bool:
        """True if all checks hold."""
        return all(check.ok for check in self.checks)


def examine_walls(options: StoreOptions, acting: Role) -> Flow[WallReport]:
    """Check the wall; a login with wider rights checks it as the application's role sees it."""
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
    findings = (
        *_login_findings(login, names),
        (
            "every table with a tenant is walled",
            [name for name, forced, *_ in tables if not forced],
            again,
        ),
        (
            "its policies show one tenant's rows",
            [name for name, _, sound, _ in tables if not sound],
            f"drop the policies that setup did not make; {again}",
        ),
        (
            "who names no tenant sees no row",
            [name for name, *_, seen in tables if seen],
            "see the checks above: what looks over the wall, or is not walled, shows them",
        ),
        (
            "rights are no wider than needed",
            [f"{name} ({more})" for name, more in rights],
            f"REVOKE them from {params['who']}, or from the roles that it is a member of",
        ),
        (
            "functions with the owner's rights are closed",
            [name for (name,) in functions],
            "make them as the migration does, and REVOKE EXECUTE on them FROM PUBLIC",
        ),
        (
            "what is written is logged",
            [name for (name,) in silent],
            "as the owner ALTER TABLE … ENABLE TRIGGER USER; no log has what was written meanwhile",
        ),
    )
    checks = tuple(make_check(*finding) for finding in findings)
    owner, looks_over_walls = login[9:]
    backup = f"pg_dump as {owner}, the owner"
    if not looks_over_walls:
        backup = (
            f"pg_dump --enable-row-security as {owner}, the owner, who sees all rows; without the "
            "option Postgres refuses it"
        )
    return WallReport(login=login[0], looked_at=as_role or login[0], checks=checks, backup=backup)


def _login_findings(login: Row, names: Mapping[str, str]) -> Iterator[tuple[str, list[str], str]]:
    """Yield a check of the roles and the login, the names that fail it, and advice."""
    who, application = login[0], names["application"]
    yield (
        "the roles are there",
        [names[role] for role, at in (("application", 5), ("worker", 6)) if not login[at]],
        "CREATE ROLE … NOLOGIN as somebody who may, then run `langmem-tiers setup` as the owner",
    )
    yield (
        "the application's role is walled itself",
        [application] if login[7] else [],
        f"ALTER ROLE {application} NOSUPERUSER NOBYPASSRLS, and take it out of the owner's role",
    )
    own = (
        f"connect as a login of the application: CREATE ROLE web LOGIN PASSWORD '…' IN ROLE "
        f"{application}"
    )
    for check, fails in (
        ("the login is no superuser", login[1]),
        ("the login has no BYPASSRLS", login[2]),
        ("the login is not the owner", login[3]),
        ("the login is no worker", login[4]),
        (f"the login is a member of {application}", not login[8]),
    ):
        yield check, [who] if fails else [], own


def make_check(check: str, failing: Sequence[str], advice: str) -> WallCheck:
    """Make a check that fails if there are failing objects."""
    if not failing:
        return WallCheck(check=check, ok=True)
    more = f" and {len(failing) - _SHOWN} more" if len(failing) > _SHOWN else ""
    return WallCheck(check=check, ok=False, found=", ".join(failing[:_SHOWN]) + more, advice=advice)
