"""Phrases by what a text asks an assistant to do with what is its user's: doors, shares, mail, accounts.

Each name is a concept (see `injection_concepts.py`), with the phrases that speak of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ERRANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "confers": (
        r"\b(?:elevate|promote|escalate|upgrade|raise)\b.{0,30}\bto (?:an? )?(?:admin\w*|root|owner|superuser)\b",
        r"\b(?:grant|give|assign)\b.{0,30}\b(?:permanent|full|unlimited|unrestricted|guest|owner|admin\w*|root|everyone)\b.{0,30}\b(?:access|rights?|permissions?|role|ownership|privileges?)\b",
        r"\b(?:grant|give|assign)\b.{0,10}\b(?:permanent|full|unlimited|unrestricted) access\b",
    ),
    "intrudes": (
        r"\b(?:unlock|disarm|deactivate)\b.{0,20}\b(?:doors?|gates?|alarms?|locks?|cameras?)\b",
        r"\b(?:enable|allow|turn on|start|permit)\b.{0,15}\bremote (?:desktop|access|control)\b",
    ),
    "mine": (
        r"\b(?<!to )(?<!i )(?<!can )(?:search|find|retrieve|tweet|post|sell|transfer|remove|share|forward|export|reset|dump|list|fetch|read|empty|clear|scan)\b(?: \w+){0,4} my (?:\w+ )?(?:inbox|mailbox|cloud|drive|profile|addresses|contacts|photos|files|shares|cards?|passwords?|history|location|messages|e-?mails|data|medical|bank\w*|wallet)\b",
    ),
    "task": (
        r"\b(?:real|actual|true|new) (?:query|task|question|prompt|request)s?\s?:",
        r"\b(?:start|begin\w*) of (?:a |the )?(?:new|real|next) task\b",
        r"\bbefore you (?:can )?(?:solve|finish|complete|continue|proceed|begin|start)\b.{0,30}\b(?:task|anything|conversation)\b",
        r"\b(?:the|your) (?:original |first |real )?task (?:that )?i (?:gave|asked|set)\b",
        r"(?:^|[.!?:;>] ?|\bnow |\bthen )(?:please )?(?:reply|respond|answer) (?:to )?(?:the next|every|each|all|any)\b",
        r"\boutput the (?:text|phrase|string|sentence|words?)\b",
        r"\b(?:encode|encrypt|reverse|begin|start|end|prefix|finish|put)(?: \w+)? your (?:reply|answer|response|output)\b",
        r"\b(?:which|what) (?:tools|functions|capabilities|parameters|instructions)(?: do)? you (?:have|can|got)\b",
        r"(?:^|[.!?:;>] ?)(?:summari[sz]e|translate|rewrite|describe|present) (?:this|the) (?:text|page|article|document) (?:in a way|so that|as if)\b",
        r"\b(?:right|correct|proper) (?:tool call|tool|action|next step) (?:is|was|for)\b",
        r"\b\d{3,}\b.{0,20}\binstead of \d{3,}",
    ),
}
"""By concept; none of them knows case, but for what says so."""
