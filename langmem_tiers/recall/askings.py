"""Earlier askings of a question: they say what was asked and nothing more, and are no answer.

The statement `recall` goes by the same rule, in the database, so that they take no answer's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from langmem_tiers.core.memory import ROLES
from langmem_tiers.recall.question import Question, read_question

MARKS: Final = (
    ".,;:!?\"'`()[]{}<>*_…“”„‘’‚«»‹›¿¡"  # noqa: RUF001 - marks of other scripts
    "\u3001\u3002\uff0c\uff1a\uff01\uff1f\u061f\u060c"
)
"""What makes no difference between two askings."""
_QUESTION_MARKS: Final = "?\uff1f\u061f"
FACTS: Final = [
    *("content", "text", "memory_type", "tags", "project_id", "session_id", "agent_id", "speaker"),
    *("role", "turn", "occurred_at", "valid_from", "valid_to", "importance", "entities", "source"),
    *("trust", "emotional_valence", "platform_source", "source_task", "category"),
]
"""Fields that may stand beside any text: none of them can answer what the text asks."""
_NO_MARKS: Final = str.maketrans("", "", MARKS)
_ANY_DAY: Final = datetime(2000, 1, 1, tzinfo=UTC)


def is_question(question: Question, text: str) -> bool:
    """Whether a text asks, in any script."""
    return question.asks or _marked(text)


def asks_again(value: Mapping[str, Any], query: str) -> bool:
    """Whether a value is nothing but this question, by itself or behind the name of who asked it.

    What has a field beyond what is known of any memory may carry the answer, and so may notes on
    what nobody said.
    """
    said = next((value[name] for name in ("content", "text") if _is_text(value.get(name))), "")
    plain, speaker = _plain(query), value.get("speaker")
    known = {*FACTS, "metadata"} if _is_text(speaker) else {*FACTS}
    if not plain or not value.keys() <= known:
        return False
    names = {"", *ROLES, speaker.lower() if isinstance(speaker, str) else ""}
    return _plain(said) in {f"{name} {plain}".strip() for name in names} and (
        _marked(said) or is_question(read_question(query, _ANY_DAY), query)
    )


def _is_text(found: object) -> bool:
    return isinstance(found, str) and bool(found)


def _marked(text: str) -> bool:
    return any(mark in text for mark in _QUESTION_MARKS)


def _plain(text: str) -> str:
    """A text without case, marks and further spaces."""
    return " ".join(text.translate(_NO_MARKS).casefold().split())
