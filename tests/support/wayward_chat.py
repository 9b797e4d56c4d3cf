"""An OpenAI-compatible chat server that answers as it is told to, badly as well."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """One answer; without a status, the server never answers."""

    body: dict[str, Any]
    status: int | None = 200


def says(content: str | None, *, finish: str = "stop", **further: Any) -> Reply:
    """An answer of the model."""
    message = {"role": "assistant", "content": content, **further}
    return Reply(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "local",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


def calls(schema: str, arguments: str) -> Reply:
    """An answer by a tool call, as models give it that know no other structured output."""
    call = {"name": schema, "arguments": arguments}
    return says(
        None,
        finish="tool_calls",
        tool_calls=[{"id": "call_1", "type": "function", "function": call}],
    )


def fails(status: int, message: str) -> Reply:
    """An error of the provider."""
    return Reply({"error": {"message": message, "type": "error", "code": None}}, status)


SILENCE = Reply({}, None)


class Wayward:
    """What the server was asked, and its URL."""

    def __init__(
        self,
        replies: tuple[Reply, ...] = (),
        *,
        by: Callable[[dict[str, Any]], Reply] | None = None,
    ) -> None:
        self.asked: list[dict[str, Any]] = []
        self.was_asked = threading.Event()
        self.closed = threading.Event()
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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            reply = chat.reply(self.rfile.read(int(self.headers["Content-Length"])))
            if reply.status is None:
                chat.closed.wait()
                self.close_connection = True
                return
            sent = json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.send_header("Connection", "close")  # clients outlive the loops they are used on
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            """Be quiet."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # a panel asks all at once

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield chat
    finally:
        chat.closed.set()
        server.shutdown()
        thread.join()
        server.server_close()
