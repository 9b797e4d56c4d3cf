"""Servers on this machine that speak what the clients of the field speak."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str, bytes, dict[str, str]], Any]
"""From a path, a body and headers to JSON."""


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The URL of a server that answers each request with JSON."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): text for name, text in self.headers.items()}
            sent = json.dumps(answer(self.path, body, headers)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PATCH = _answer  # noqa: N815 - the names that the server calls

        def log_message(self, *_: Any) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class ChatServer:
    """Answers chat completions with given texts, and keeps what it was asked."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = iter(messages)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, path: str, body: bytes, _: dict[str, str]) -> Any:
        assert path == "/v1/chat/completions"
        self.asked.append(json.loads(body))
        message = {"role": "assistant", "content": None, **next(self._messages)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {
            "id": f"chatcmpl-{len(self.asked)}",
            "object": "chat.completion",
            "created": 1,
            "model": "local",
            "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
