"""Formats: one function recognises each, another reads it.

OpenAI's and LangChain's lists of messages, ChatGPT's trees, LoCoMo's sessions, one memory a line.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    convert_to_messages,
    messages_from_dict,
)
from pydantic import ValidationError

from langmem_tiers.core.checks import checked_share, normalised_tags
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.importers.records import FactsReader, Format, RawRecord
from langmem_tiers.importers.source import Element

_DATES = ("occurred_at", "timestamp", "created_at", "created", "create_time", "date")
_SESSIONS = ("session", "session_id", "thread_id", "conversation_id", "id")
_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
_SPEAKERS = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_TYPES = frozenset({*_SPEAKERS, "chat", "function"})
_TEXT_FIELDS = ("text", "refusal", "transcript", "content")
_CALL_KINDS = ("tool_use", "tool_call", "function_call", "server_tool_use")
_MEDIA = ("image", "audio", "video", "file")
_CHATGPT_FIELDS = ("text", "result", "content", "user_profile", "user_instructions")
_SETTINGS_TYPE = "model_editable_context"
_SESSION_NAME = re.compile(r"session_(\d+)", re.ASCII)


def recognises_openai(value: object) -> bool:
    """Return True if a value of the file is a message, or holds messages, with a known role."""
    message = _first_message(value)
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        return False
    return any(field in message for field in ("content", "tool_calls", "function_call"))


def recognises_langchain(value: object) -> bool:
    """Return True if a value of the file is a LangChain message, or holds some."""
    message = _first_message(value)
    if not isinstance(message, dict) or "role" in message:
        return False
    if message.get("type") == "constructor":
        return message.get("lc") == 1 and isinstance(message.get("kwargs"), dict)
    inside = message.get("data", message)
    type_name = str(message.get("type")).removesuffix("MessageChunk").lower()
    return type_name in _TYPES and isinstance(inside, dict) and "content" in inside


def _first_message(value: object) -> object:
    """Return the first message of a list or of an object with `messages`, or the value itself."""
    messages = value.get("messages", value) if isinstance(value, dict) else value
    return (messages[0] if messages else None) if isinstance(messages, list) else messages


def read_messages(
    read_facts: FactsReader, element: Element, stem: str, _tenant: str | None
) -> Iterator[RawRecord]:
    """Yield every message, to be read by `read_facts`.

    Messages outside a list make up one session, named after the file. Each list is a session of
    its own, named by the identifier beside it, or by the file and its number.
    """
    value = element.value
    around = value if isinstance(value, dict) and "messages" in value else {}
    messages = around.get("messages", value)
    if not around and not isinstance(value, list):
        yield RawRecord(value, read_facts, session=stem)
        return
    if not isinstance(messages, list) or not messages:
        raise InvalidInputError("this conversation is not a list of messages, or has none")
    for index, message in enumerate(messages):
        yield RawRecord(
            message,
            read_facts,
            ("messages", index) if around else (index,),
            session=first_text(around, *_SESSIONS) or f"{stem}-{element.number}",
            date=_first_date(around),
        )


def _first_date(fields: Mapping[str, Any]) -> object:
    """Return the value of the first date field that has one."""
    return next((fields[name] for name in _DATES if fields.get(name) not in (None, "")), None)


def openai_facts(message: dict[str, Any]) -> dict[str, Any]:
    """Return content, speaker, date, name and id of an OpenAI message; its role is the speaker."""
    role = message.get("role")
    if not isinstance(role, str) or not role.strip():
        raise InvalidInputError("this message has no `role`")
    content, single, refusal = (
        message.get(field) for field in ("content", "function_call", "refusal")
    )
    calls = message.get("tool_calls") or ([single] if single else None)
    texts = [content_text(content), refusal if isinstance(refusal, str) else ""]
    return {
        "content": join_lines(*texts, calls_text(calls, content)),
        "speaker": "tool" if role == "function" else role,
        "occurred_at": _first_date(message),
        "name": message.get("name"),
        "message_id": message.get("id"),
    }


def langchain_facts(raw: dict[str, Any]) -> dict[str, Any]:
    """Return content, speaker, name and id of a LangChain message; its role is the speaker.

    Raises:
        InvalidInputError: if it is no message of LangChain's.
    """
    message = _parse_message(raw)
    calls: list[object] = []
    if isinstance(message, AIMessage):
        calls = [*message.tool_calls, *message.invalid_tool_calls]
    content = message.content
    facts = {
        "content": join_lines(content_text(content), calls_text(calls, content)),
        "speaker": _speaker(message),
        "name": message.name,
        "message_id": message.id,
    }
    return {field: fact for field, fact in facts.items() if fact is not None}


def _parse_message(raw: dict[str, Any]) -> BaseMessage:
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
    type_name = message.type.removesuffix("MessageChunk").lower()
    if type_name == "function":
        return "tool"
    if type_name not in _SPEAKERS:
        raise InvalidInputError(f"a message of type {message.type!r} says nothing; leave it out")
    return _SPEAKERS[type_name]


# ChatGPT: conversations.json, where each conversation is a tree of messages


def recognises_chatgpt(value: object) -> bool:
    """Return True if a value of the file is a conversation with a `mapping` of its messages."""
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def read_chatgpt(element: Element, stem: str, _tenant: str | None) -> Iterator[RawRecord]:
    """Yield every message on the path from the root to `current_node`.

    Messages that the user edited away or regenerated lie on other branches; they are not read.
    """
    around, path = element.value, _current_path(element.value)
    session = first_text(around, "conversation_id", "id") or f"{stem}-{element.number}"
    for node in path:
        message = around["mapping"][node].get("message")
        if message is not None and not _is_placeholder(message):
            yield RawRecord(
                message,
                partial(_chatgpt_facts, session=session, title=around.get("title")),
                ("mapping", node),
                session=session,
                date=around.get("create_time"),
            )


def _current_path(conversation: object) -> list[str]:
    """Return the names of the nodes from the root to the current one."""
    if not isinstance(conversation, dict) or not recognises_chatgpt(conversation):
        raise InvalidInputError("this is not a conversation with a `mapping`")
    mapping, node = conversation["mapping"], conversation.get("current_node")
    path: dict[str, None] = {}
    while node is not None:
        if not isinstance(node, str) or not isinstance(mapping.get(node), dict):
            raise InvalidInputError(f"the conversation's node {node!r} is not in its `mapping`")
        if node in path:
            raise InvalidInputError(f"the conversation's node {node!r} is its own ancestor")
        path[node] = None
        node = mapping[node].get("parent")
    if not path:
        raise InvalidInputError("the conversation has no `current_node`")
    return list(reversed(path))


def _is_placeholder(message: object) -> bool:
    """Return True if ChatGPT added the message itself, and it has no text."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), dict):
        return False
    content, author, marks = message["content"], message.get("author"), message.get("metadata")
    if content.get("content_type") == _SETTINGS_TYPE:
        return True
    hidden = isinstance(marks, dict) and marks.get("is_visually_hidden_from_conversation") is True
    system = isinstance(author, dict) and author.get("role") == "system"
    return (
        (hidden or system)
        and content.get("parts") in ([], [""], None)
        and not _text_outside_parts(content)
    )


def _chatgpt_facts(message: dict[str, Any], session: str, title: object) -> dict[str, Any]:
    author, content = message.get("author"), message.get("content")
    if not isinstance(author, dict) or not isinstance(author.get("role"), str):
        raise InvalidInputError("this message has no author with a `role`")
    if not isinstance(content, dict):
        raise InvalidInputError("this message has no `content` object")
    own = first_text(message, "id")
    return {
        "content": join_lines(content_text(content.get("parts")), _text_outside_parts(content)),
        "speaker": author["role"],
        "occurred_at": message.get("create_time"),
        "name": author.get("name"),
        "title": title,
        # a copy of a conversation keeps the ids of its messages
        "key": own and f"{session}:{own}",
    }


def _text_outside_parts(content: dict[str, Any]) -> str:
    """Return the text outside `parts`: code, a tool's output, a quote, thoughts."""
    texts = [text for field in _CHATGPT_FIELDS if isinstance(text := content.get(field), str)]
    thoughts = content.get("thoughts")
    return join_lines(*texts, content_text(thoughts if isinstance(thoughts, list) else None))


# LoCoMo: a list of long conversations between two people, in dated sessions


def recognises_locomo(value: object) -> bool:
    """Return True if a value of the file is a conversation with numbered sessions."""
    inner = value.get("conversation") if isinstance(value, dict) else None
    return isinstance(inner, dict) and bool(_session_names(inner))


def read_locomo(element: Element, _stem: str, tenant: str | None) -> Iterator[RawRecord]:
    """Yield every turn; each conversation is a tenant, named by its `sample_id`.

    If the caller names one tenant for all, sessions and keys start with the `sample_id`, so that no
    conversation replaces another.
    """
    if not recognises_locomo(element.value):
        raise InvalidInputError("this is not a conversation with session_1, session_2, … lists")
    sample = first_text(element.value, "sample_id")
    prefix = "" if sample and tenant is None else sample or f"conversation-{element.number}"
    sessions = element.value["conversation"]
    for name in _session_names(sessions):
        for index, raw in enumerate(sessions[name]):
            yield RawRecord(
                raw,
                partial(_turn_facts, tenant=sample, prefix=prefix),
                ("conversation", name, index),
                session=f"{prefix}-{name}" if prefix else name,
                date=sessions.get(f"{name}_date_time"),
            )


def _session_names(conversation: dict[str, Any]) -> list[str]:
    numbered = sorted(
        (int(match[1]), name)
        for name, turns in conversation.items()
        if (match := _SESSION_NAME.fullmatch(name)) and isinstance(turns, list)
    )
    return [name for _, name in numbered]


def _turn_facts(raw: dict[str, Any], tenant: str | None, prefix: str) -> dict[str, Any]:
    key, text = _required_text(raw, "dia_id"), raw.get("text")
    if not isinstance(text, str):
        raise InvalidInputError("this turn has no `text`")
    caption = _required_text(raw, "blip_caption") if raw.get("blip_caption") else None
    return {
        "content": text if caption is None else f"{text} [image: {caption}]".lstrip(),
        "speaker": _required_text(raw, "speaker"),
        "image_caption": caption,
        "tenant": tenant,
        "key": f"{prefix}:{key}" if prefix else key,
    }


def _required_text(raw: dict[str, Any], field: str) -> str:
    if (text := first_text(raw, field)) is None:
        raise InvalidInputError(f"this turn has no `{field}`")
    return text


# JSON Lines: one object a line, with `content` or `text`


def recognises_jsonl(value: object) -> bool:
    """Return True if a value of the file is an object with text as `content` or `text`."""
    return isinstance(value, dict) and any(
        isinstance(value.get(field), str) for field in ("content", "text")
    )


def read_jsonl(element: Element, _stem: str, _tenant: str | None) -> Iterator[RawRecord]:
    """Yield the object; fields that the format does not name go into `metadata`."""
    yield RawRecord(element.value, _jsonl_facts)


def _jsonl_facts(raw: dict[str, Any]) -> dict[str, Any]:
    rest = dict(raw)
    content, speaker = _take(rest, "content", "text"), _take(rest, "speaker")
    if not isinstance(content, str):
        raise InvalidInputError("there is no `content` or `text` that is text")
    if speaker is not None and not isinstance(speaker, str):
        raise InvalidInputError("`speaker` is not text")
    session = _take_label(rest, "session_id", "session") or None
    facts = {
        "content": content,
        "speaker": speaker or None,
        "occurred_at": _take(rest, "occurred_at", "timestamp", "date"),
        "tenant": _take_label(rest, "tenant"),
        "project": _take_label(rest, "project_id") or None,
        "session_id": session,
        "key": _take_key(rest, session),
        **_take_labels(rest),
    }
    if type(rest.get("turn")) is int:
        facts["turn"] = rest.pop("turn")
    return {**facts, "metadata": _merge_metadata(rest)}


def _take(rest: dict[str, Any], *fields: str) -> object:
    """Remove and return the first field that is not null; null ones before it are removed too."""
    for field in fields:
        if (value := rest.pop(field, None)) is not None:
            return value
    return None


def _take_label(rest: dict[str, Any], *fields: str) -> str | None:
    value = _take(rest, *fields)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InvalidInputError(f"`{fields[0]}` is neither text nor a whole number")


def _take_key(rest: dict[str, Any], session: str | None) -> str | None:
    """Take the record's key, or its id with the session, within which alone it may be unique."""
    key = _take_label(rest, "key")
    name = _take_label(rest, "id") if key is None else key
    if name is not None and not name.strip():
        raise InvalidInputError("the key is blank; give one, or leave it out")
    return f"{session}:{name}" if key is None and name is not None and session else name


def _take_labels(rest: dict[str, Any]) -> dict[str, Any]:
    """Take type, tier, tags and importance, checked as `store` checks them."""
    type_name, tier, tags = (
        _take_label(rest, "memory_type"),
        _take(rest, "tier"),
        _take(rest, "tags"),
    )
    if tier is not None and tier not in tuple(Tier):
        raise InvalidInputError(f"`tier` is one of {', '.join(Tier)}, not {short(tier)}")
    if type_name is not None:
        tier = tier or MemoryTypes().get(type_name).tier
    return {
        "memory_type": type_name,
        "tier": tier,
        "tags": None if tags is None else normalised_tags(tags) or None,
        "importance": checked_share(_take(rest, "importance"), "importance"),
    }


def _merge_metadata(rest: dict[str, Any]) -> dict[str, Any] | None:
    """Merge the other fields with those under `metadata`, unless a name stands in both."""
    inner = rest.get("metadata")
    others = {field: value for field, value in rest.items() if field != "metadata"}
    if isinstance(inner, dict) and not inner.keys() & others.keys():
        return {**inner, **others} or None
    return rest or None


# Content as text


def content_text(content: object) -> str:
    """Return content (text, a list of parts, or nothing) as text.

    Each part has a line of its own; a part without text, such as an image, is named: "[image]".
    Tool calls among the parts are left out: see `calls_text`.
    Raises `InvalidInputError` for any other shape.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidInputError("the content is neither text nor a list of parts")
    return join_lines(*(_part_text(part) for part in content if not _is_call(part)))


def calls_text(calls: object, content: object) -> str:
    """Return tool calls as "[calls name(arguments)]", one a line.

    If the message lists none, the calls among the parts of its content are taken.
    """
    parts = content if isinstance(content, list) else []
    listed = calls or [part for part in parts if _is_call(part)]
    if not isinstance(listed, list):
        raise InvalidInputError("the tool calls are not a list")
    return join_lines(*map(_call_text, listed))


def first_text(fields: Mapping[str, Any], *names: str) -> str | None:
    """Return the value of the first of these fields that is text, and not blank."""
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def join_lines(*texts: str) -> str:
    """Join the texts that are not blank, one a line."""
    return "\n".join(text for text in texts if text.strip())


def _is_call(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _CALL_KINDS


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise InvalidInputError("a part of the content is neither text nor an object")
    for field in _TEXT_FIELDS:
        value = part.get(field)
        text = value.get("value") if isinstance(value, Mapping) else value
        if isinstance(text, str | list):
            return content_text(text)
    return f"[{_part_kind(part)}]"


def _part_kind(part: Mapping[str, Any]) -> str:
    kind = str(part.get("type") or part.get("content_type") or "part without text")
    return next((media for media in _MEDIA if media in kind), kind)


def _call_text(call: object) -> str:
    if not isinstance(call, Mapping):
        raise InvalidInputError("a tool call is not an object")
    function = call.get("function", call)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidInputError("a tool call has no name")
    value: object = next(
        (function[field] for field in ("arguments", "args", "input") if field in function), {}
    )
    arguments = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"[calls {function['name']}({arguments})]"


# Table of the formats


class FormatReader(NamedTuple):
    """Pair of functions: one recognises a format by a value of a file, the other reads the value.

    `read` takes the file's name as a label, and the tenant that the caller names.
    """

    recognises: Callable[[object], bool]
    read: Callable[[Element, str, str | None], Iterator[RawRecord]]


# They are tried in this order: the most particular shape comes first.
FORMATS: Mapping[Format, FormatReader] = {
    Format.LOCOMO: FormatReader(recognises_locomo, read_locomo),
    Format.CHATGPT: FormatReader(recognises_chatgpt, read_chatgpt),
    Format.LANGCHAIN: FormatReader(recognises_langchain, partial(read_messages, langchain_facts)),
    Format.OPENAI: FormatReader(recognises_openai, partial(read_messages, openai_facts)),
    Format.JSONL: FormatReader(recognises_jsonl, read_jsonl),
}
