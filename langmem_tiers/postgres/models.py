"""Asking the models of a store and of its callers, both ways; the twins differ by `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langmem_tiers.postgres.flow import Ask, Embed

if TYPE_CHECKING:
    from langmem_tiers.postgres.pool import Target


def perform(effect: Embed | Ask, target: Target) -> Any:
    """Ask, blocking."""
    if isinstance(effect, Ask):
        return effect.call()
    model = target.embedder()
    if effect.purpose == "documents":
        return model.embed_documents(list(effect.texts))
    return [model.embed_query(text) for text in effect.texts]


async def aperform(effect: Embed | Ask, target: Target) -> Any:
    """Ask, awaiting."""
    if isinstance(effect, Ask):
        return await effect.acall()
    model = target.embedder()
    if effect.purpose == "documents":
        return await model.aembed_documents(list(effect.texts))
    return [await model.aembed_query(text) for text in effect.texts]
