"""What the signs of an instruction are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Voice = Literal["user", "agent", "outside"]
"""Who speaks: users and operators, agents in their own notes, or anybody else."""

ENOUGH: Final[Mapping[Voice, float]] = {"outside": 1.5, "agent": 2.0, "user": 2.0}
"""The sum of weights, within neighbouring sentences, from which on a text is held to instruct."""


class Sign(NamedTuple):
    """Something that texts which instruct have in common."""

    kind: str
    pattern: re.Pattern[str]
    outside: float
    """Its weight in the words of tools, pages and unknown sources."""
    agent: float = 0.0
    """Its weight in an agent's own notes."""
    user: float = 0.0
    """Its weight in the words of users and operators."""


def sign(kind: str, pattern: str, outside: float, agent: float = 0.0, user: float = 0.0) -> Sign:
    """A sign whose pattern knows no case."""
    return Sign(kind, re.compile(pattern, re.IGNORECASE), outside, agent, user)


MIND: Final = (
    r"(?:(?:ai|llm|language|chat)[ -]?(?:assistant|agent|model|system|bot)|assistant|chat ?bot|llm"
    r"|language model|large language model|chatgpt|claude|gemini|copilot|gpt-?\d?|ai)s?"
)
AGENT: Final = rf"(?:{MIND}|agent|model|bot)s?"
NOT: Final = r"(?:do not|don't|never|not to|without|no need to)"
SET_ASIDE: Final = (
    r"(?:ignor(?:e|ing)|overlook|pay no attention to|never ?mind|disregard(?:ing)?|forget|overrid(?:e|es|ing)|bypass|drop|skip|set aside"
    r"|stop (?:following|obeying)|(?:do not|don't|no longer) (?:follow|obey)|discard|neglect|abandon"
    r"|overrule|cancel|delete|erase|replace|circumvent)"
)
EARLIER: Final = (
    r"(?:previous|prior|earlier|preceding|above|former|foregoing|initial|original|existing|other"
    r"|your|system(?:'s)?|safety|developer(?:'s)?|built-in|current)"
)
ORDERS: Final = (
    r"(?:instruct\w*|direction|directive|guideline|guidance|rule|order|prompt|restriction|safeguard"
    r"|command|polic(?:y|ie)|programming|training|constraint|task)s?"
)
ASKED: Final = r"(?:ask(?:s|ed)?|questions?|quer(?:y|ies|ied)|inquir\w+|wants to know)"
SAY: Final = (
    r"(?:answer|repl(?:y|ies)|respond|say|tell (?:them|him|her|the user|people)|claim|state|insist"
    r"|recommend|mention|assert|confirm)"
)
HELD: Final = (
    r"(?:system prompt|chat history|conversation(?: history)?|stored memor(?:y|ies)"
    r"|(?:users?'?s?|customers?'?s?|clients?'?s?) (?:\w+ )?(?:data|table|list|password|history|files"
    r"|e-?mails?|messages?|contacts|chat|records?|location)|environment variables|id_rsa|\.ssh"
    r"|api keys? (?:that|you)|all (?:api keys|passwords|secrets|credentials|tokens)|credentials"
    r"|previous messages|medical records|secret key|private keys?)"
)
OWN: Final = (
    r"(?:system prompt|(?:chat|conversation) history|stored memor(?:y|ies)|all previous messages"
    r"|users?'s? (?:\w+ )?(?:data|password|history|files|e-?mails?|messages?|contacts|chat)|id_rsa"
    r"|\.ssh|\.config|credentials\b.{0,20}contents|all (?:api keys|passwords|secrets|credentials|tokens))"
)
SEND: Final = (
    r"(?:send|mail|e-mail|forward|post|upload|exfiltrate|leak|transmit|collect|share|submit"
    r"|reveal|disclose|encode|dump|hand over)"
)
