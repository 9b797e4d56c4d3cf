"""How a fragment is written by its stage."""

from __future__ import annotations

from typing import Final

from langmem_tiers.core.prompts import (
    DIALOGUE_HEAD,
    DIALOGUE_TAIL,
    RECALLED_FROM,
    RECALLED_HEAD,
    RECALLED_TAIL,
)
from langmem_tiers.recall.fence import indented, labelled, quoted
from langmem_tiers.turn.fragment import Fragment
from langmem_tiers.turn.layout import FIELDS, VERBATIM, Stage

_ITEM_FIELDS: Final = FIELDS - {"content", "source"}


def written(fragment: Fragment, stage: Stage) -> str:
    """A fragment as its stage writes it; data cannot end its fence, nor begin another entry."""
    if not fragment.data:
        return fragment.text
    content = quoted(fragment.text)
    if not fragment.fields and stage.item == VERBATIM:
        label = {"source": labelled(fragment.source), "version": labelled(fragment.version)}
        return RECALLED_FROM.format_map({**label, "content": content})
    item = stage.item
    alone = item == VERBATIM or "\n{content}\n" in item
    said = {**dict.fromkeys(_ITEM_FIELDS, ""), "source": labelled(fragment.source)}
    said["key"] = labelled(fragment.key or "")
    told = {name: quoted(one) for name, one in fragment.fields.items()}
    return item.format_map({**said, **told, "content": content if alone else indented(content)})


def fence_of(stage: Stage) -> tuple[str, str]:
    """What begins and ends the data of a stage."""
    return (DIALOGUE_HEAD, DIALOGUE_TAIL) if stage.dialogue else (RECALLED_HEAD, RECALLED_TAIL)
