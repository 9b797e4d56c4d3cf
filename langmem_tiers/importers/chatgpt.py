"""ChatGPT's data export: conversations.json, where each conversation is a tree of messages."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.importers.records import Said
from langmem_tiers.importers.source import Element
from langmem_tiers.importers.text import content_text, first_text, joined

_TEXT_FIELDS = ("text", "result", "content", "user_profile", "user_instructions")
_SETTINGS = "model_editable_context"


def recognises(value: object) -> bool:
    """Tell whether a value of the file is a conversation with a `mapping` of its messages."""
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def said_in(element: Element, stem: str, _tenant: str | None) -> Iterator[Said]:
    """Every message on the way from the root to `current_node`.

    What the user edited away or regenerated lies on other branches and is not read.
    """
    around, path = element.value, _path(element.value)
    session = first_text(around, "conversation_id", "id") or f"{stem}-{element.number}"
    for node in path:
        message = around["mapping"][node].get("message")
        if message is not None and not _is_placeholder(message):
            yield Said(
                facts=partial(_facts, message, session, around.get("title")),
                where=partial(element.where, ("mapping", node)),
                session=session,
                date=around.get("create_time"),
            )


def _path(conversation: object) -> list[str]:
    """Return the names of the nodes from the root to the current one."""
    if not isinstance(conversation, dict) or not recognises(conversation):
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
    return (hidden or system) and content.get("parts") in ([], [""], None) and not _other(content)


def _facts(message: object, session: str, title: object) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise InvalidInputError("this message is not an object")
    author, content = message.get("author"), message.get("content")
    if not isinstance(author, dict) or not isinstance(author.get("role"), str):
        raise InvalidInputError("this message has no author with a `role`")
    if not isinstance(content, dict):
        raise InvalidInputError("this message has no `content` object")
    own = first_text(message, "id")
    return {
        "content": joined(content_text(content.get("parts")), _other(content)),
        "speaker": author["role"],
        "occurred_at": message.get("create_time"),
        "name": author.get("name"),
        "title": title,
        # a conversation that was copied keeps its messages' ids
        "key": own and f"{session}:{own}",
    }


def _other(content: dict[str, Any]) -> str:
    """Return what stands outside `parts`: code, a tool's output, a quote, thoughts."""
    texts = [found for field in _TEXT_FIELDS if isinstance(found := content.get(field), str)]
    thoughts = content.get("thoughts")
    return joined(*texts, content_text(thoughts if isinstance(thoughts, list) else None))
