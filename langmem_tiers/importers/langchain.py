"""LangChain's messages, as `messages_to_dict`, `dumpd` or `model_dump` writes them."""

from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    convert_to_messages,
    messages_from_dict,
)
from pydantic import ValidationError

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.importers.messages import first_message, read_messages
from langmem_tiers.importers.parts import calls_text, content_text, joined
from langmem_tiers.importers.records import Drafts, Format, Units

_SPEAKERS = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_TYPES = frozenset({*_SPEAKERS, "chat", "function"})


def recognises(value: object) -> bool:
    """Tell whether a value of the file is a message, or holds messages, of LangChain's."""
    message = first_message(value)
    if not isinstance(message, dict) or "role" in message:
        return False
    if message.get("type") == "constructor":
        return message.get("lc") == 1 and isinstance(message.get("kwargs"), dict)
    inside = message.get("data", message)
    named = str(message.get("type")).removesuffix("MessageChunk").lower()
    return named in _TYPES and isinstance(inside, dict) and "content" in inside


def read(units: Units, *, stem: str, tenant: str | None) -> Drafts:
    """Yield one draft a message; the speaker is user, assistant, system or tool."""
    del tenant
    return read_messages(units, form=Format.LANGCHAIN, stem=stem, facts=message_facts)


def message_facts(raw: object) -> dict[str, Any]:
    """Content, speaker, name and id of one message.

    Raises:
        InvalidInputError: if it is no message of LangChain's.
    """
    message = _message(raw)
    calls: list[object] = []
    if isinstance(message, AIMessage):
        calls = [*message.tool_calls, *message.invalid_tool_calls]
    content = message.content
    facts = {
        "content": joined(content_text(content), calls_text(calls, content)),
        "speaker": _speaker(message),
        "name": message.name,
        "message_id": message.id,
    }
    return {field: fact for field, fact in facts.items() if fact is not None}


def _message(raw: object) -> BaseMessage:
    if not isinstance(raw, dict):
        raise InvalidInputError("this message is not an object")
    try:
        if isinstance(raw.get("data"), dict):
            return messages_from_dict([raw])[0]
        return convert_to_messages([raw])[0]
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in problem["loc"])
        raise InvalidInputError(
            f"this is no LangChain message: {place}: {problem['msg']}"
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError) as error:
        raise InvalidInputError(
            "this is no LangChain message: write it with `messages_to_dict` or `dumpd`"
        ) from error


def _speaker(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role
    named = message.type.removesuffix("MessageChunk").lower()
    if named == "function":
        return "tool"
    if named not in _SPEAKERS:
        raise InvalidInputError(f"a message of type {message.type!r} says nothing; leave it out")
    return _SPEAKERS[named]
