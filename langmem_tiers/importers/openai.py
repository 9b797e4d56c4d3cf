"""OpenAI's chat messages: `{"role": …, "content": …}`, in lists or in `{"messages": […]}`."""

from typing import Any

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.importers.messages import date_in, first_message, read_messages
from langmem_tiers.importers.parts import calls_text, content_text, joined
from langmem_tiers.importers.records import Drafts, Format, Units

_ROLES = ("user", "assistant", "system", "developer", "tool", "function")


def recognises(value: object) -> bool:
    """Tell whether a value of the file is a message, or holds messages, with a known role."""
    message = first_message(value)
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        return False
    return any(field in message for field in ("content", "tool_calls", "function_call"))


def read(units: Units, *, stem: str, tenant: str | None) -> Drafts:
    """Yield one draft a message; the speaker is its role."""
    del tenant
    return read_messages(units, form=Format.OPENAI, stem=stem, facts=_facts)


def _facts(message: object) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise InvalidInputError("this message is not an object with `role` and `content`")
    role = message.get("role")
    if not isinstance(role, str) or not role.strip():
        raise InvalidInputError("this message has no `role`")
    facts = {
        "content": _content(message),
        "speaker": "tool" if role == "function" else role,
        "occurred_at": date_in(message),
        "name": message.get("name"),
        "message_id": message.get("id"),
    }
    return {field: fact for field, fact in facts.items() if fact is not None}


def _content(message: dict[str, Any]) -> str:
    content, single = message.get("content"), message.get("function_call")
    calls = message.get("tool_calls") or ([single] if single else None)
    refusal = message.get("refusal")
    said = content_text(content)
    return joined(said, refusal if isinstance(refusal, str) else "", calls_text(calls, content))
