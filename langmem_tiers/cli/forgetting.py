"""The command `forget`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from langmem_tiers.cli import rendering
from langmem_tiers.cli.options import NOT_DONE, URL, Json, Url, note, opened_to_read
from langmem_tiers.cli.tending import checkpointer_of
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError

if TYPE_CHECKING:
    from langmem_tiers.forget.receipt import ForgetPlan, ForgetReceipt, Verification
    from langmem_tiers.store.store import TieredStore


def forget(
    *,
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="Whose memories.")],
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Forget the memory of this key.")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="USER", help="Forget all of this user; or whose own the --key is."),
    ] = None,
    subject: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Forget this person or thing; again for more names."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Forget the tenant, with all that it has.")
    ] = False,
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Whose working memory the --key is in.")
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Delete LangGraph's threads of it here as well.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would go, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether it is meant.")] = False,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Erase something for good, with all that came from it alone; docs/forgetting.md says how."""
    named: dict[str, str | list[str] | None] = {
        "key": key,
        "user": None if key is not None else user,
        "subject": subject or None,
        "tenant": tenant if everything else None,
    }
    if project is not None and key is None:
        raise InvalidInputError("--project says where a --key is: what else is forgotten is in all")
    own = user if key is not None else None
    context = MemoryContext(tenant=tenant, project_id=project, user_id=own)
    with opened_to_read(url, index=False) as store:  # words may be of any language
        planned = _planned(store, context, named)
        if not as_json:
            rendering.console().print(rendering.plan_table(planned))
        if plan:
            _told({"tenant": tenant, "plan": asdict(planned)}, as_json=as_json)
            return
        _check_meant(yes=yes)
        with checkpointer_of(url) if checkpoints else nullcontext() as saver:
            receipt, verified = _forgotten(store, context, named, saver, len(planned.erased))
    document = {"plan": asdict(planned), "receipt": receipt.to_json(), "found": verified.found}
    _told({"tenant": tenant, **document}, as_json=as_json)
    if not as_json:
        rendering.console().print(rendering.receipt_table(receipt))
    note(str(verified), None if verified else "red")
    if not verified:
        raise typer.Exit(NOT_DONE)


def _planned(
    store: TieredStore, context: MemoryContext, named: dict[str, str | list[str] | None]
) -> ForgetPlan:
    from langmem_tiers.memory.forgetting import forgetting

    return cast("ForgetPlan", store.run(forgetting(store, context, named, plan=True)))


def _forgotten(
    store: TieredStore,
    context: MemoryContext,
    named: dict[str, str | list[str] | None],
    saver: Any,
    total: int,
) -> tuple[ForgetReceipt, Verification]:
    """Forget it, and look whether it is gone."""
    from langmem_tiers.memory.forgetting import forgetting, verifying

    if saver is not None:
        saver.setup()
    with rendering.progress(f"Forgetting in {context.tenant}", total) as advance:
        flow = forgetting(store, context, named, plan=False, checkpointer=saver, advance=advance)
        receipt = cast("ForgetReceipt", store.run(flow))
    return receipt, store.run(verifying(store, MemoryContext(tenant=context.tenant), receipt))


def _check_meant(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInputError(
            "nothing was forgotten: say --yes if it is meant, or --plan to look"
        )
    if not typer.confirm("This cannot be undone. Forget it?", err=True):
        note("Nothing was forgotten.")
        raise typer.Exit


def _told(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        rendering.print_json(document)
