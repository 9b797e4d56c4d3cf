"""Chat models that review as a test tells them to, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from langchain_openai import ChatOpenAI

from tests.support.wayward_chat import SILENCE, Reply, Wayward, fails, says

MEMBERS = {
    "analyzer": "You are the analyzer",
    "patterns": "You judge patterns",
    "knowledge-archaeologist": "You are the archaeologist",
    "injection": "You look for attacks",
}
Answer = Callable[[dict[str, Any]], Reply]


def member(request: Mapping[str, Any]) -> str:
    """Who asks."""
    prompt = request["messages"][0]["content"]
    return next(name for name, words in MEMBERS.items() if words in prompt)


def scoring(**scores: float) -> Answer:
    """Members that give these scores, and all others 9."""

    def answer(request: dict[str, Any]) -> Reply:
        name = member(request)
        score = scores.get(name.removeprefix("knowledge-"), 9)
        return says(json.dumps({"score": score, "reason": f"{name} by model"}))

    return answer


def model_of(server: Wayward) -> ChatOpenAI:
    return ChatOpenAI(
        model="local", base_url=server.url, api_key=lambda: "none", max_retries=0, timeout=30
    )


BAD: dict[str, Answer] = {
    "fails": lambda _: fails(500, "the kettle is empty"),
    "is garbage": lambda _: says("no idea"),
    "never comes": lambda _: SILENCE,
}
"""Answers that are no use."""
