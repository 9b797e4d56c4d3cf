"""Lists of chat messages, OpenAI's and LangChain's: one list is one conversation."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
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
from langmem_tiers.importers.records import Said
from langmem_tiers.importers.source import Element
from langmem_tiers.importers.text import calls_text, content_text, first_text, joined

_DATES = ("occurred_at", "timestamp", "created_at", "created", "create_time", "date")
_SESSIONS = ("session", "session_id", "thread_id", "conversation_id", "id")
_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
_SPEAKERS = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_TYPES = frozenset({*_SPEAKERS, "chat", "function"})


def recognises_openai(value: object) -> bool:
    """Tell whether a value of the file is a message, or holds messages, with a known role."""
    message = _first(value)
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        return False
    return any(field in message for field in ("content", "tool_calls", "function_call"))


def recognises_langchain(value: object) -> bool:
    """Tell whether a value of the file is a message, or holds messages, of LangChain's."""
    message = _first(value)
    if not isinstance(message, dict) or "role" in message:
        return False
    if message.get("type") == "constructor":
        return message.get("lc") == 1 and isinstance(message.get("kwargs"), dict)
    inside = message.get("data", message)
    named = str(message.get("type")).removesuffix("MessageChunk").lower()
    return named in _TYPES and isinstance(inside, dict) and "content" in inside


def _first(value: object) -> object:
    """The first message of a list, of an object with `messages`, or the value itself."""
    found = value.get("messages", value) if isinstance(value, dict) else value
    return (found[0] if found else None) if isinstance(found, list) else found


def said_in(
    facts: Callable[[object], Mapping[str, Any]], element: Element, stem: str, _tenant: str | None
) -> Iterator[Said]:
    """Every message, as `facts` reads it.

    Messages that stand alone make up one session, named after the file; each list is one of
    its own, named by the identifier beside it or by the file and its number.
    """
    value = element.value
    around = value if isinstance(value, dict) and "messages" in value else {}
    messages = around.get("messages", value)
    if not around and not isinstance(value, list):
        yield Said(facts=partial(facts, value), where=partial(element.where, ()), session=stem)
        return
    if not isinstance(messages, list) or not messages:
        raise InvalidInputError("this conversation is not a list of messages, or has none")
    for index, message in enumerate(messages):
        yield Said(
            facts=partial(facts, message),
            where=partial(element.where, ("messages", index) if around else (index,)),
            session=first_text(around, *_SESSIONS) or f"{stem}-{element.number}",
            date=_date(around),
        )


def _date(fields: Mapping[str, Any]) -> object:
    """The date written in the first date field that has one."""
    return next((fields[one] for one in _DATES if fields.get(one) not in (None, "")), None)


def openai_facts(message: object) -> dict[str, Any]:
    """What one message of OpenAI says; the speaker is its role."""
    if not isinstance(message, dict):
        raise InvalidInputError("this message is not an object with `role` and `content`")
    role = message.get("role")
    if not isinstance(role, str) or not role.strip():
        raise InvalidInputError("this message has no `role`")
    content, single, refusal = (message.get(f) for f in ("content", "function_call", "refusal"))
    calls = message.get("tool_calls") or ([single] if single else None)
    texts = [content_text(content), refusal if isinstance(refusal, str) else ""]
    return {
        "content": joined(*texts, calls_text(calls, content)),
        "speaker": "tool" if role == "function" else role,
        "occurred_at": _date(message),
        "name": message.get("name"),
        "message_id": message.get("id"),
    }


def message_facts(raw: object) -> dict[str, Any]:
    """Content, speaker, name and id of one message of LangChain; the speaker is its role.

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
