"""Servers on this machine that speak what the clients of the field speak."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """One answer; without a status, the server never answers."""

    body: Any
    status: int | None = 200


Answer = Callable[[str, bytes, dict[str, str]], Any]
"""From a path, a body and headers to a reply, or to the JSON of one."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # a panel asks all at once
    daemon_threads = True


@contextmanager
def serving(answer: Answer, closed: threading.Event | None = None) -> Iterator[str]:
    """The URL of a server that answers each request with JSON, and says when it was closed."""
    ended = closed or threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): text for name, text in self.headers.items()}
            found = answer(self.path, body, headers)
            reply = found if isinstance(found, Reply) else Reply(found)
            if reply.status is None:
                ended.wait()
                self.close_connection = True
                return
            sent = json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.send_header("Connection", "close")  # clients outlive the loops they are used on
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PATCH = _answer  # noqa: N815 - the names that the server calls

        def log_message(self, *_: Any) -> None:
            """Be quiet."""

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def completion(*, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion with this message."""
    said = {"role": "assistant", "content": None, **message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "local",
        "choices": [{"index": 0, "message": said, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
