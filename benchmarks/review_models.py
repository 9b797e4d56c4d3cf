"""What reviews by models add to one answer of the model: `python -m benchmarks.review_models`.

A server on this machine answers each request after a second, and as many at once
as it is asked. What is measured beside it is ours: the requests of a panel, side by side, what
clients and threads cost, and the storing or the recall itself. It takes about a minute.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection

from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from benchmarks.timing import milliseconds, p95
from langmem_tiers import CoordinatorSettings, MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.core.structured import ask
from langmem_tiers.remember.review_models import Reviewed

SECONDS = 1.0
"""What the model takes for an answer."""
MEMORIES, LIMIT, CALLS = 100, 5, 12
_CONTEXT = MemoryContext(tenant="acme", project_id="ops")
_PATIENT = CoordinatorSettings(
    query_timeout_ms=60_000, review_timeout_ms=60_000, relevance_timeout_ms=60_000
)


@dataclass(frozen=True, slots=True)
class Row:
    """What something took, in milliseconds."""

    what: str
    requests: int
    target: str
    times: Sequence[float]

    def __str__(self) -> str:
        p50, slow = statistics.median(self.times), p95(self.times)
        added = max(0.0, p50 - (SECONDS * 1000 if self.requests else 0))
        return (
            f"| {self.what} | {self.requests} | {self.target} | {p50:,.0f} ms | {slow:,.0f} ms "
            f"| {added:,.0f} ms |"
        )


class _Answering(BaseHTTPRequestHandler):
    """Gives a score that fits both scales, once the time has passed."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(SECONDS)
        answer = json.dumps({"score": 1, "reason": "it says something"})
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        told = {"id": "1", "object": "chat.completion", "created": 1, "model": "local"}
        sent = json.dumps({**told, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def _serve(port: Connection) -> None:
    server = _Server(("127.0.0.1", 0), _Answering)
    port.send(server.server_port)
    server.serve_forever()


@contextmanager
def _served() -> Iterator[ChatOpenAI]:
    """A client of a server in a process of its own, whose time is not ours."""
    processes = get_context("spawn")
    here, there = processes.Pipe()
    server = processes.Process(target=_serve, args=(there,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{here.recv()}/v1"
    try:
        yield ChatOpenAI(model="local", base_url=url, api_key=lambda: "none", max_retries=0)
    finally:
        server.terminate()
        server.join()


def _timed(call: Callable[[], object]) -> list[float]:
    call()  # opens connections
    return [milliseconds(call) for _ in range(CALLS)]


def _rows(store: TieredStore, model: ChatOpenAI) -> Iterator[Row]:
    numbers = count()

    def memory(when: str) -> MemoryCoordinator:
        options = {"review_model": model, "review_storage": when, "settings": _PATIENT}
        return MemoryCoordinator(store, context=_CONTEXT, **options)  # type: ignore[arg-type]

    def fact() -> str:
        return f"The queue {next(numbers)} of billing holds 10,000 jobs at most."

    plain, before, background = memory("rules"), memory("before"), memory("background")
    plain.store_many([fact() for _ in range(MEMORIES)])
    prompt = [HumanMessage("Give a score.")]
    question = "How many jobs does the queue of billing hold?"
    yield Row("one answer of the model", 1, "", _timed(lambda: ask(model, Reviewed, prompt)))
    yield Row("`store`, by rules", 0, "", _timed(lambda: plain.store(fact())))
    yield Row('`store`, `"before"`', 4, "3 to 5 s", _timed(lambda: before.store(fact())))
    yield Row('`store`, `"background"`', 0, "", _timed(lambda: background.store(fact())))
    background.finish_reviews()
    yield Row(
        "`get_context`, no review", 0, "", _timed(lambda: plain.get_context(question, limit=LIMIT))
    )
    yield Row(
        '`get_context`, `review="rules"`',
        0,
        "",
        _timed(lambda: plain.get_context(question, limit=LIMIT, review="rules")),
    )
    yield Row(
        '`get_context`, `review="model"`',
        6 * LIMIT,
        "1 to 2 s",
        _timed(lambda: plain.get_context(question, limit=LIMIT, review="model")),
    )


def main() -> None:
    """Print the table."""
    print("| what | requests | specification | p50 | p95 | beside the model |")
    print("|---|---|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as folder,
        TieredStore.embedded(folder) as store,
        _served() as model,
    ):
        for row in _rows(store, model):
            print(row, flush=True)


if __name__ == "__main__":
    main()
