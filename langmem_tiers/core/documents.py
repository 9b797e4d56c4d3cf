"""A recollection as JSON, and as LangChain's document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from langchain_core.documents import Document

from langmem_tiers.core.memory import Recollection, ReviewResult

_WHOLE = "value"
"""Said by the other fields already."""
_NAMES = tuple(one.name for one in fields(Recollection) if one.name != _WHOLE)


def facts(one: Recollection) -> dict[str, Any]:
    """Every field but the whole stored value, as JSON; times in ISO 8601, labels as a list."""
    return {name: _json(getattr(one, name)) for name in _NAMES}


def to_document(one: Recollection) -> Document:
    """What it says as the page, all else as metadata."""
    metadata = facts(one)
    return Document(id=one.key, page_content=metadata.pop("content"), metadata=metadata)


def _json(found: Any) -> Any:
    if isinstance(found, datetime):
        return found.isoformat()
    if isinstance(found, Mapping):
        return dict(found)
    if isinstance(found, tuple):
        return list(found)
    if isinstance(found, ReviewResult):
        return {one.name: _json(getattr(found, one.name)) for one in fields(found)}
    return str(found) if isinstance(found, str) else found
