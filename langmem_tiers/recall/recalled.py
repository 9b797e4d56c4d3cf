"""What was recalled, as a model reads it: fenced, labelled, and in an order that lasts."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.messages import SystemMessage

from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.prompts import RECALLED_HEAD, RECALLED_TAIL
from langmem_tiers.recall.budget import stable_order
from langmem_tiers.recall.fence import shown


def recalled_text(
    recollections: Iterable[Recollection], lessons: Iterable[Recollection] = ()
) -> str:
    """Memories as one text for a prompt; nothing if there are none.

    Lessons stand first, in their order, each memory once. Each says its tier, type, day and
    speaker, and, unless it is a user's own, its source and how far it is trusted. What could end
    the fence is written `&lt;`; all else is verbatim. Of the others, what lasts comes first (see
    `stable_order`).

    Example:
        ```python
        from langmem_tiers.recall.recalled import recalled_text

        prompt = recalled_text(memory.get_context("When do keys change?"))
        ```
    """
    first = list(lessons)
    taken = {(one.namespace, one.key) for one in first}
    rest = [one for one in recollections if (one.namespace, one.key) not in taken]
    texts = [shown(one) for one in (*first, *stable_order(rest))]
    return "\n".join([RECALLED_HEAD, *texts, RECALLED_TAIL]) if texts else ""


def with_recalled(system: SystemMessage | None, text: str) -> SystemMessage | None:
    """A system message that ends with what was recalled; the given one is left as it is."""
    if not text:
        return system
    if system is None:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{text}"})
    block = {"type": "text", "text": text}
    return system.model_copy(update={"content": [*system.content, block]})
