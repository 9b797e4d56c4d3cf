"""The formats: how each is recognised and read.

Lists of messages of OpenAI's and LangChain's, ChatGPT's trees, LoCoMo's sessions, a memory a line.
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
from langmem_tiers.importers.records import Facts, Format, Said
from langmem_tiers.importers.source import Element

_DATES = ("occurred_at", "timestamp", "created_at", "created", "create_time", "date")
_SESSIONS = ("session", "session_id", "thread_id", "conversation_id", "id")
_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
_SPEAKERS = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_TYPES = frozenset({*_SPEAKERS, "chat", "function"})
_TEXT_FIELDS = ("text", "refusal", "transcript", "content")
_CALL_KINDS = ("tool_use", "tool_call", "function_call", "server_tool_use")
_MEDIA = ("image", "audio", "video", "file")
_GPT_FIELDS = ("text", "result", "content", "user_profile", "user_instructions")
_SETTINGS = "model_editable_context"
_SESSION = re.compile(r"session_(\d+)", re.ASCII)


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
    messages = value.get("messages", value) if isinstance(value, dict) else value
    return (messages[0] if messages else None) if isinstance(messages, list) else messages


def said_in(facts: Facts, element: Element, stem: str, _tenant: str | None) -> Iterator[Said]:
    """Every message, as `facts` reads it.

    Messages that stand alone make up one session, named after the file; each list is one of
    its own, named by the identifier beside it or by the file and its number.
    """
    value = element.value
    around = value if isinstance(value, dict) and "messages" in value else {}
    messages = around.get("messages", value)
    if not around and not isinstance(value, list):
        yield Said(value, facts, session=stem)
        return
    if not isinstance(messages, list) or not messages:
        raise InvalidInputError("this conversation is not a list of messages, or has none")
    for index, message in enumerate(messages):
        yield Said(
            message,
            facts,
            ("messages", index) if around else (index,),
            session=first_text(around, *_SESSIONS) or f"{stem}-{element.number}",
            date=_date(around),
        )


def _date(fields: Mapping[str, Any]) -> object:
    """The date written in the first date field that has one."""
    return next((fields[name] for name in _DATES if fields.get(name) not in (None, "")), None)


def openai_facts(message: dict[str, Any]) -> dict[str, Any]:
    """What one message of OpenAI says; the speaker is its role."""
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


def message_facts(raw: dict[str, Any]) -> dict[str, Any]:
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


def _message(raw: dict[str, Any]) -> BaseMessage:
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


# ChatGPT: conversations.json, where each conversation is a tree of messages


def recognises_chatgpt(value: object) -> bool:
    """Tell whether a value of the file is a conversation with a `mapping` of its messages."""
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def said_in_chatgpt(element: Element, stem: str, _tenant: str | None) -> Iterator[Said]:
    """Every message on the way from the root to `current_node`.

    What the user edited away or regenerated lies on other branches and is not read.
    """
    around, path = element.value, _way(element.value)
    session = first_text(around, "conversation_id", "id") or f"{stem}-{element.number}"
    for node in path:
        message = around["mapping"][node].get("message")
        if message is not None and not _is_placeholder(message):
            yield Said(
                message,
                partial(_gpt_facts, session=session, title=around.get("title")),
                ("mapping", node),
                session=session,
                date=around.get("create_time"),
            )


def _way(conversation: object) -> list[str]:
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
    """Tell whether the app itself put the message there, and it says nothing."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), dict):
        return False
    content, author, marks = message["content"], message.get("author"), message.get("metadata")
    if content.get("content_type") == _SETTINGS:
        return True
    hidden = isinstance(marks, dict) and marks.get("is_visually_hidden_from_conversation") is True
    system = isinstance(author, dict) and author.get("role") == "system"
    return (hidden or system) and content.get("parts") in ([], [""], None) and not _beside(content)


def _gpt_facts(message: dict[str, Any], session: str, title: object) -> dict[str, Any]:
    author, content = message.get("author"), message.get("content")
    if not isinstance(author, dict) or not isinstance(author.get("role"), str):
        raise InvalidInputError("this message has no author with a `role`")
    if not isinstance(content, dict):
        raise InvalidInputError("this message has no `content` object")
    own = first_text(message, "id")
    return {
        "content": joined(content_text(content.get("parts")), _beside(content)),
        "speaker": author["role"],
        "occurred_at": message.get("create_time"),
        "name": author.get("name"),
        "title": title,
        # a conversation that was copied keeps its messages' ids
        "key": own and f"{session}:{own}",
    }


def _beside(content: dict[str, Any]) -> str:
    """Return what stands outside `parts`: code, a tool's output, a quote, thoughts."""
    texts = [text for field in _GPT_FIELDS if isinstance(text := content.get(field), str)]
    thoughts = content.get("thoughts")
    return joined(*texts, content_text(thoughts if isinstance(thoughts, list) else None))


# LoCoMo: a list of long conversations between two people, in dated sessions


def recognises_locomo(value: object) -> bool:
    """Tell whether a value of the file is a conversation with numbered sessions."""
    inner = value.get("conversation") if isinstance(value, dict) else None
    return isinstance(inner, dict) and bool(_numbered(inner))


def said_in_locomo(element: Element, _stem: str, tenant: str | None) -> Iterator[Said]:
    """Every turn; each conversation is a tenant, named by its `sample_id`.

    Where one tenant is given for all of them, sessions and keys start with the `sample_id`,
    so that no conversation takes the place of another.
    """
    if not recognises_locomo(element.value):
        raise InvalidInputError("this is not a conversation with session_1, session_2, … lists")
    sample = first_text(element.value, "sample_id")
    prefix = "" if sample and tenant is None else sample or f"conversation-{element.number}"
    sessions = element.value["conversation"]
    for name in _numbered(sessions):
        for index, raw in enumerate(sessions[name]):
            yield Said(
                raw,
                partial(_turn_facts, tenant=sample, prefix=prefix),
                ("conversation", name, index),
                session=f"{prefix}-{name}" if prefix else name,
                date=sessions.get(f"{name}_date_time"),
            )


def _numbered(conversation: dict[str, Any]) -> list[str]:
    numbered = sorted(
        (int(match[1]), name)
        for name, turns in conversation.items()
        if (match := _SESSION.fullmatch(name)) and isinstance(turns, list)
    )
    return [name for _, name in numbered]


def _turn_facts(raw: dict[str, Any], tenant: str | None, prefix: str) -> dict[str, Any]:
    key, text = _given(raw, "dia_id"), raw.get("text")
    if not isinstance(text, str):
        raise InvalidInputError("this turn has no `text`")
    caption = _given(raw, "blip_caption") if raw.get("blip_caption") else None
    return {
        "content": text if caption is None else f"{text} [image: {caption}]".lstrip(),
        "speaker": _given(raw, "speaker"),
        "image_caption": caption,
        "tenant": tenant,
        "key": f"{prefix}:{key}" if prefix else key,
    }


def _given(raw: dict[str, Any], field: str) -> str:
    if (text := first_text(raw, field)) is None:
        raise InvalidInputError(f"this turn has no `{field}`")
    return text


# JSON Lines: one object a line, with `content` or `text`


def recognises_jsonl(value: object) -> bool:
    """Tell whether a value of the file is a memory as this format writes it."""
    return isinstance(value, dict) and any(
        isinstance(value.get(f), str) for f in ("content", "text")
    )


def said_in_jsonl(element: Element, _stem: str, _tenant: str | None) -> Iterator[Said]:
    """The object; what the format does not name is kept under `metadata`."""
    yield Said(element.value, _jsonl_facts)


def _jsonl_facts(raw: dict[str, Any]) -> dict[str, Any]:
    rest = dict(raw)
    content, speaker = _take(rest, "content", "text"), _take(rest, "speaker")
    if not isinstance(content, str):
        raise InvalidInputError("there is no `content` or `text` that is text")
    if speaker is not None and not isinstance(speaker, str):
        raise InvalidInputError("`speaker` is not text")
    session = _label(rest, "session_id", "session") or None
    facts = {
        "content": content,
        "speaker": speaker or None,
        "occurred_at": _take(rest, "occurred_at", "timestamp", "date"),
        "tenant": _label(rest, "tenant"),
        "project": _label(rest, "project_id") or None,
        "session_id": session,
        "key": _key(rest, session),
        **_labels(rest),
    }
    if type(rest.get("turn")) is int:
        facts["turn"] = rest.pop("turn")
    return {**facts, "metadata": _metadata(rest)}


def _take(rest: dict[str, Any], *fields: str) -> object:
    """Remove and return the first field that is there; the others stay unless null."""
    for field in fields:
        if (value := rest.pop(field, None)) is not None:
            return value
    return None


def _label(rest: dict[str, Any], *fields: str) -> str | None:
    value = _take(rest, *fields)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InvalidInputError(f"`{fields[0]}` is neither text nor a whole number")


def _key(rest: dict[str, Any], session: str | None) -> str | None:
    """Take the record's key as it is, or its id, which may be unique in its session alone."""
    key = _label(rest, "key")
    name = _label(rest, "id") if key is None else key
    if name is not None and not name.strip():
        raise InvalidInputError("the key is blank; give one, or leave it out")
    return f"{session}:{name}" if key is None and name is not None and session else name


def _labels(rest: dict[str, Any]) -> dict[str, Any]:
    """What the memory is and where it belongs, as `store` checks it."""
    named, tier, tags = _label(rest, "memory_type"), _take(rest, "tier"), _take(rest, "tags")
    if tier is not None and tier not in tuple(Tier):
        raise InvalidInputError(f"`tier` is one of {', '.join(Tier)}, not {short(tier)}")
    if named is not None:
        tier = tier or MemoryTypes().get(named).tier
    return {
        "memory_type": named,
        "tier": tier,
        "tags": None if tags is None else normalised_tags(tags) or None,
        "importance": checked_share(_take(rest, "importance"), "importance"),
    }


def _metadata(rest: dict[str, Any]) -> dict[str, Any] | None:
    """Lift what is already under `metadata`, unless a name would be lost by it."""
    inner = rest.get("metadata")
    others = {field: value for field, value in rest.items() if field != "metadata"}
    if isinstance(inner, dict) and not inner.keys() & others.keys():
        return {**inner, **others} or None
    return rest or None


# Content as text


def content_text(content: object) -> str:
    """Return content (text, a list of parts, or nothing) as text.

    Parts stand on lines of their own; one that is no text, as an image, is named: "[image]".
    Tool calls among the parts are left out: see `calls_text`.
    Raises `InvalidInputError` for any other shape.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidInputError("the content is neither text nor a list of parts")
    return joined(*(_part_text(part) for part in content if not _is_call(part)))


def calls_text(calls: object, content: object) -> str:
    """Return tool calls as "[calls name(arguments)]", one a line.

    Where the message itself lists none, those among the parts of its content are taken.
    """
    parts = content if isinstance(content, list) else []
    listed = calls or [part for part in parts if _is_call(part)]
    if not isinstance(listed, list):
        raise InvalidInputError("the tool calls are not a list")
    return joined(*map(_call_text, listed))


def first_text(fields: Mapping[str, Any], *names: str) -> str | None:
    """The first of these fields that is text, and not blank."""
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def joined(*texts: str) -> str:
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
    return f"[{_kind(part)}]"


def _kind(part: Mapping[str, Any]) -> str:
    kind = str(part.get("type") or part.get("content_type") or "part without text")
    return next((media for media in _MEDIA if media in kind), kind)


def _call_text(call: object) -> str:
    if not isinstance(call, Mapping):
        raise InvalidInputError("a tool call is not an object")
    named = call.get("function", call)
    if not isinstance(named, Mapping) or not isinstance(named.get("name"), str):
        raise InvalidInputError("a tool call has no name")
    value: object = next(
        (named[field] for field in ("arguments", "args", "input") if field in named), {}
    )
    arguments = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"[calls {named['name']}({arguments})]"


# All of them


class Reads(NamedTuple):
    """Recognises a format by a value of a file, and reads what such a value says.

    `said_in` takes the file's name as a label, and the tenant that is given.
    """

    recognises: Callable[[object], bool]
    said_in: Callable[[Element, str, str | None], Iterator[Said]]


# In the order they are tried: the most particular shape first.
FORMATS: Mapping[Format, Reads] = {
    Format.LOCOMO: Reads(recognises_locomo, said_in_locomo),
    Format.CHATGPT: Reads(recognises_chatgpt, said_in_chatgpt),
    Format.LANGCHAIN: Reads(recognises_langchain, partial(said_in, message_facts)),
    Format.OPENAI: Reads(recognises_openai, partial(said_in, openai_facts)),
    Format.JSONL: Reads(recognises_jsonl, said_in_jsonl),
}
