"""The wall between tenants: what is sent before a statement so that it sees the rows it is about.

An application sees the rows of the tenant that the transaction names, and no others. So whatever
reads or writes rows of tenants goes behind a statement that names theirs, in the same round trip;
of a transaction that is about several, what belongs together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langmem_tiers.core.errors import TenantRequiredError
from langmem_tiers.core.roles import Role
from langmem_tiers.postgres.flow import Call
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
not look there. It stands here and not in queries.sql as no flow runs it."""

_FOR_SETUP: Final = frozenset({"any_vector", "any_lexeme"})
"""What setup asks, by the rights of whoever connects."""


class Sent(NamedTuple):
    """One statement of a round trip."""

    call: Call
    place: int | None
    """Which call of the query it answers, or a part of it; None names a tenant."""


class Wall(NamedTuple):
    """The rights of a store."""

    acting: Role = "owner"
    taken: str | None = None
    """The role that each transaction takes; None if it is that of whoever connects."""

    @property
    def stands(self) -> bool:
        """Whether tenants are told to the database."""
        return self.acting == "application" or self.taken is not None

    def behind(self, calls: Sequence[Call], statements: Mapping[str, Statement]) -> Sequence[Sent]:
        """What is sent for these calls, in their order but for that of several tenants.

        Raises:
            TenantRequiredError: for a call across tenants that an application makes.
        """
        if not self.stands or not any(_is_walled(call, statements) for call in calls):
            return [Sent(call, place) for place, call in enumerate(calls)]
        sent: list[Sent] = []
        by_tenant: dict[str, list[Sent]] = {}
        for place, call in enumerate(calls):
            if _is_walled(call, statements):
                for tenant, part in self._parts(call, statements[call.name]):
                    by_tenant.setdefault(tenant, []).append(Sent(part, place))
            else:
                sent += self._framed(by_tenant)
                by_tenant = {}
                sent.append(Sent(call, place))
        return [*sent, *self._framed(by_tenant)]

    def _framed(self, by_tenant: Mapping[str, Sequence[Sent]]) -> Iterator[Sent]:
        for tenant, several in by_tenant.items():
            yield Sent(Call("act_for", {"role": self.taken, "tenant": tenant}), None)
            yield from several

    def _parts(self, call: Call, statement: Statement) -> Iterator[tuple[str, Call]]:
        """A call as those of one tenant each; a worker's sees all of them at once."""
        tenants = call.params.get("tenants") if "tenants" in statement.names else None
        tenant = call.params.get("tenant") if "tenant" in statement.names else None
        if self.acting == "worker" or tenant is not None:
            yield tenant or "", call
        elif tenants is None:
            raise TenantRequiredError(call.name.replace("_", " "))
        elif len(distinct := dict.fromkeys(tenants)) < 2:  # noqa: PLR2004 - one, or none
            yield next(iter(distinct), ""), call
        else:
            for one in distinct:
                yield one, _part(call, statement, [i for i, of in enumerate(tenants) if of == one])


def entered(sent: Sequence[Sent], settings: Mapping[str, Any]) -> Sequence[Sent]:
    """Add to what is sent a transaction's settings, with its first tenant if any."""
    names_tenant = bool(sent) and sent[0].place is None
    whose = sent[0].call.params if names_tenant else {"role": None, "tenant": ""}
    return [Sent(Call("enter", {**settings, **whose}), None), *sent[names_tenant:]]


def _is_walled(call: Call, statements: Mapping[str, Statement]) -> bool:
    return statements[call.name].walled and call.name not in _FOR_SETUP


def _part(call: Call, statement: Statement, rows: Sequence[int]) -> Call:
    """The same call for some of its rows."""
    kept = {
        name: type(values)(values[i] for i in rows)
        for name in statement.rows
        if (values := call.params[name]) is not None
    }
    return call._replace(params={**call.params, **kept})
