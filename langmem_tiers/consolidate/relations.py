"""How a subject, a relation and a value are said, as far as the rules know."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from langmem_tiers.consolidate.lexicon import listed
from langmem_tiers.consolidate.values import CLOSED

ANYTHING: Final = CLOSED | {"name", "plain", "code"}


class Relation(NamedTuple):
    """A verb of which a subject has one value at a time, if it is of such a kind."""

    name: str
    verb: re.Pattern[str]
    kinds: frozenset[str]
    inverse: bool = False
    """Whether the value stands before the verb: "Ada owns the mailer"."""
    noun: str = ""
    """What the subject's is said of: "the mailer is deployed on Mondays" is said of deploys."""


def _relation(
    name: str, verb: str, kinds: str, *, inverse: bool = False, noun: str = ""
) -> Relation:
    known = ANYTHING if kinds == "any" else frozenset(kinds.split())
    return Relation(name, re.compile(rf"(?<= ){verb}(?= )"), known, inverse, noun)


_BE: Final = r"(?:is|are|am|be)"
_TIMES: Final = "weekday time date"
_PRODUCTS: Final = "version"

RELATIONS: Final = (
    _relation(
        "located", rf"(?:lives?|resides?|{_BE} (?:based|located|situated)) (?:in|at)", "name"
    ),
    _relation("employed", rf"(?:works?|{_BE} employed) (?:at|for|by)", "name"),
    _relation("employed", r"(?:started|began) (?:to work|working) (?:at|for)", "name"),
    _relation("reports", rf"(?:reports? to|{_BE} managed by)", "name"),
    _relation("owned", rf"{_BE} owned by", "name"),
    _relation("maintained", rf"{_BE} maintained by", "name"),
    _relation("led", rf"{_BE} (?:led|headed|chaired) by", "name"),
    _relation("owned", r"(?:owns?|is owner of)", "name", inverse=True),
    _relation("maintained", r"maintains?", "name", inverse=True),
    _relation("led", r"(?:leads|lead|heads|chairs)", "name", inverse=True),
    _relation("named", r"(?:is|are|was|were|has been|have been) renamed(?: to)?", "name plain"),
    _relation("named", rf"{_BE} (?:called|named|known as)", "name plain"),
    _relation("when", rf"{_BE} deployed(?: on| at)?", _TIMES, noun="deploy"),
    _relation("when", rf"{_BE} released(?: on| at)?", _TIMES, noun="release"),
    _relation(
        "when",
        r"(?:(?:happens?|occurs?|takes? place|rotates?|meets?|runs?|starts?|begins?"
        rf"|{_BE} (?:due|scheduled|held|rotated|run|started|running))(?: on| at| for)?"
        rf"|{_BE} (?:on|at))",
        _TIMES,
    ),
    _relation("opens", r"opens?(?: on| at)?", _TIMES),
    _relation("closes", r"closes?(?: on| at)?", _TIMES),
    _relation("ends", r"(?:ends?|finishes|finish)(?: on| at)?", _TIMES),
    _relation("expires", r"(?:expires?|is due to expire)(?: on| at| in)?", _TIMES),
    _relation("port", rf"(?:listens?|runs?|{_BE}) on port", "number"),
    _relation("runs", rf"(?:runs?|{_BE} running|{_BE} hosted)(?: on)?", _PRODUCTS),
    _relation("uses", r"(?:uses?|relies on)", ""),
    _relation("costs", r"costs?", "number"),
    _relation("lasts", r"(?:takes?|lasts?)", "number"),
    _relation("is", rf"(?:{_BE} (?:set|configured|fixed) (?:to|at)|defaults? to|equals?|=)", "any"),
    _relation("is", r"(?:has|have) been(?= \w+ $)", "state"),
    _relation("is", _BE, "any"),
)
"""Of those that begin at the same word, the first that fits."""

CHANGE: Final = re.compile(
    r"(?<= )(?:(?:was|were|is|are|got|gets|has been|have been|has|have) )?"
    r"(?P<verb>changed|moved|switched|migrated|upgraded|updated|raised|increased|lowered|reduced"
    r"|decreased|relocated|transferred|shifted|went|bumped|rescheduled|postponed|extended"
    r"|shortened|converted|transitioned|set)(?: over)?(?: from (?P<was>.{1,200}?))? to(?= )"
)
LEFT: Final = re.compile(r"(?<= )(?:left|quit)(?= )")

NOUNS: Final = {
    "owner": "owned",
    "maintainer": "maintained",
    "manager": "reports",
    "boss": "reports",
    "supervisor": "reports",
    "lead": "led",
    "leader": "led",
    "name": "named",
    "codename": "named",
    "nickname": "named",
    "employer": "employed",
    "hometown": "located",
    "port": "port",
    "operating system": "runs",
    "opening time": "opens",
    "closing time": "closes",
    "duration": "lasts",
    "price": "costs",
}
"""Attributes that say what a verb says as well: "the owner of X is Y"."""
PEOPLE: Final = listed(
    "ceo chair contact cto director editor host husband partner president provider wife"
)
"""Attributes whose values are names."""
THINGS: Final = listed(
    "branch colour currency drink food format language location mode model plan region role theme"
    " timezone title"
)
"""Attributes whose values may be any noun."""
CODES: Final = listed(
    "address bucket domain email endpoint handle host hostname id ip key number path phone revision"
    " tag token url username version"
)
"""Attributes whose values may be identifiers, besides all others of which there is one."""
CHOSEN: Final = listed("favourite default primary main current")
"""Before an attribute: there is one of it."""
SERVICES: Final = listed(
    "slack teams zoom google meet discord github gitlab bitbucket jira linear notion confluence"
    " trello asana outlook gmail vercel netlify heroku cloudflare aws azure gcp kubernetes docker"
)
"""What one moves to without living there."""
