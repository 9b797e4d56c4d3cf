"""An OpenAI-compatible chat server that answers as it is told to, badly as well."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tests.support.chat_server import Reply, completion, serving

__all__ = ["SILENCE", "Reply", "Wayward", "calls", "fails", "minded", "says", "wayward"]

SILENCE = Reply({}, None)


def says(content: str | None, *, finish: str = "stop", **further: Any) -> Reply:
    """An answer of the model."""
    return Reply(completion(finish=finish, content=content, **further))


def calls(schema: str, arguments: str) -> Reply:
    """An answer by a tool call, as models give it that know no other structured output."""
    call = {"name": schema, "arguments": arguments}
    tool_calls = [{"id": "call_1", "type": "function", "function": call}]
    return says(None, finish="tool_calls", tool_calls=tool_calls)


def fails(status: int, message: str) -> Reply:
    """An error of the provider."""
    return Reply({"error": {"message": message, "type": "error", "code": None}}, status)


class Wayward:
    """What the server was asked, and its URL."""

    def __init__(
        self,
        replies: tuple[Reply, ...] = (),
        *,
        by: Callable[[dict[str, Any]], Reply] | None = None,
    ) -> None:
        self.asked: list[dict[str, Any]] = []
        self.was_asked, self.closed = threading.Event(), threading.Event()
        self.url = ""
        in_turn = iter(replies)
        self._reply = by or (lambda _: next(in_turn, fails(500, "asked once too often")))

    def reply(self, body: bytes) -> Reply:
        request = json.loads(body)
        self.asked.append(request)
        self.was_asked.set()
        return self._reply(request)


def wayward(*replies: Reply) -> AbstractContextManager[Wayward]:
    """A server that gives these answers in turn."""
    return _serving(Wayward(replies))


def minded(reply: Callable[[dict[str, Any]], Reply]) -> AbstractContextManager[Wayward]:
    """A server that answers each request by what stands in it."""
    return _serving(Wayward(by=reply))


@contextmanager
def _serving(chat: Wayward) -> Iterator[Wayward]:
    with serving(lambda _, body, __: chat.reply(body), chat.closed) as url:
        chat.url = f"{url}/v1"
        yield chat
