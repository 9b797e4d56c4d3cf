"""Whether a text tells something that lasts: a fact, a rule or a preference.

By words alone, in English, sentence by sentence: what is asked, intended, supposed, told by others,
over, or only so for the moment does not last.
"""

from __future__ import annotations

import re
from typing import Final

from langmem_tiers.core.reading import ends_of
from langmem_tiers.remember.route import route
from langmem_tiers.remember.trivial import triviality

ASKED: Final = "it asks"
REQUESTED: Final = "it requests or intends something"
SUPPOSED: Final = "it supposes, or tells what others say"
NOTHING: Final = "it states nothing that lasts"

_SENTENCE: Final = re.compile(r"[^\s.!?\n](?:[^.!?\n]|[.!?](?=\S))*[.!?]*")
_I: Final = re.IGNORECASE
_SAID_FIRST: Final = re.compile(
    r"^(?:(?:well|so|ok(?:ay)?|yes|no|sure|also|and|but|by the way|btw|fyi|note(?: that)?|remember"
    r"(?: that)?|actually|hi|hello|thanks?|please)\b[\s,:-]*)+",
    _I,
)
"""What a sentence begins with and says nothing by."""
_ASKS: Final = re.compile(
    r"^(?:is|are|am|does|did|was|were|can|could|will|would|should|has|have|do(?! not\b)|who|whose"
    r"|whom"
    r"|what|where|why|how|which|when (?:is|are|do|does|did|will|can|was|were|has|have))\b",
    _I,
)
_WISHES: Final = re.compile(
    r"^(?:(?:i|we)(?:'d| would) (?:like|love|prefer)|let(?: me|'s| us)\b|(?:i"
    r"|we) (?:just )?(?:want|need"
    r"|wish|hope|have|ought|plan|intend)(?:s|ed)? (?:to|you|some|help)|(?:i|we)(?:'ll| will"
    r"|'m going| am"
    r" going|'re going| are going|'m about| am about)\b|(?:i|we) (?:should|could|can|shall|may)\b"
    r"(?!\s+(?:always|never|only|not)\b)|(?:i|we) must\b(?!\s+not\b)(?!.*\b(?:never|always|only"
    r"|every"
    r"|everywhere)\b)|you\b|there\b|please\b)"
    r"|\b(?:(?:i|we) (?:need|have|want|plan) to|(?:can|could|would|will) you"
    r"|remind me|todo|to-do|later|for me|help me)\b",
    _I,
)
_UNSURE: Final = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|presumably|apparently|supposedly|allegedly|reportedly"
    r"|guess"
    r"|suppose|think|believe|reckon|suspect|wonder|assume|doubt|hopefully|might|may be|could"
    r"|would|seems?"
    r"|seemed|appears?|looks like|sounds?|feels like|not sure|unsure|if|unless|whether|imagine"
    r"|almost"
    r"|says?|said|told|tells|heard|hear|read (?:that|somewhere)|claims?|claimed|according to"
    r"|rumou?r\w*"
    r"|they say|mention(?:s|ed)|wrote|likely|kidding|joking)\b"
    r"|(?<!^nobody )(?<!^no one )\bmay (?!not\b|only\b)[a-z]",
    _I,
)
_OVER: Final = re.compile(
    r"\b(?:was|were|did|had|used to|yesterday|ago|last (?:week|month|night|year|time)|earlier"
    r"|previously"
    r"|formerly|just|now|today|tonight|tomorrow|currently|at the moment|for now|this (?:morning"
    r"|week"
    r"|time|afternoon|evening)|still|yet|again|already|soon|not anymore|temporarily"
    r"|until)\b(?! on\b)",
    _I,
)
"""What tells of another time, or of this moment."""
_ANAPHOR: Final = re.compile(
    r"^(?:it|this|that|these|those|they|he|she|there|here|which|the (?:above|below|following|latter"
    r"|former|same|answer|output|result|error|other|first|second|last|next|rest))\b"
    r"|\b(?:do|does|like|love|hate|prefer)s? (?:it|this|that|these|those|them|him|her|your|you)\b",
    _I,
)
_PREFERS: Final = re.compile(
    r"^(?:i|we)(?: \w+ly| do| do not| don't| always| never)? (?:prefer|like|love|hate|dislike"
    r"|enjoy|avoid"
    r"|can't stand|cannot stand|favou?r)\s+(?!to (?:know|see|hear|ask|say|thank)\b)\w+"
    r"|^i(?:'m| am) (?:(?:not )?(?:fond of|keen on|into|allergic to)|an? \w+ (?:person|fan"
    r"|lover))\b",
    _I,
)
_RULES: Final = re.compile(
    r"^(?:always|from now on,?|in (?:the )?future,?|under no circumstances)\s+\w+"
    r"|^never\s+(?!mind|heard|seen|been|again|knew|thought)\w+"
    r"|^(?:do not|don't|avoid|only)\s+(?!worry|bother|know|mind|care|hesitate|understand|panic|get"
    r"|forget|stop|think)\w+\s+(?!it\b|this\b|that\b|so\b)\w+"
    r"|^(?:no ?body|no one|nothing|every(?:one|body|thing)?|all|only)\s+(?:\w+\s+)*?(?:may|must"
    r"|can|is|are"
    r"|needs?|has to|have to|goes|go)\b"
    r"|^(?:we|i|\w+(?:\s+\w+){0,3})\s+(?:always|never|must(?: not| never| always)?|may not"
    r"|may only|only)"
    r"\s+\w+",
    _I,
)
_ORDERS: Final = re.compile(
    r"^(?:now |then |just )?(?:show|explain|write|make|tell|give|find|fix|list|create|add|run"
    r"|check|use"
    r"|ignore|summari[sz]e|translate|read|open|delete|remove|change|update|help|compare|describe"
    r"|draft"
    r"|generate|continue|try|look|go|send|put|set|sort|convert|implement|refactor|rename|build"
    r"|keep|call"
    r"|get|take|turn|start|stop|begin|move|say|think|prepare|plan|book|schedule|search|suggest"
    r"|recommend"
    r"|review|format|print|count|calculate|compute|imagine|pretend|act|answer|replace|return|wait"
    r"|def"
    r"|import|class|select)\b(?! \w+ (?:is|are)\b)|\w\(|://|[{};]\s*$",
    _I,
)
"""An order, or code."""
_ONE_SELF: Final = re.compile(
    r"^(?:i(?:'m| am)(?: not)? (?:an? \w+|the \w+|from \w+|based in|called|named|in charge of"
    r"|responsible"
    r"|married|single|retired|divorced|vegan|vegetarian|\w+[- ](?:intolerant|free|handed)"
    r"|colou?r-?blind|left|right|deaf|blind|diabetic|\d+ years|\w{3,}(?:an|ish|ese|ian))\b"
    r"|(?:i|we) (?:do not |don't )?(?:own|speak|live|use|drive|teach|run|manage|lead|eat|drink"
    r"|play|study"
    r"|host|deploy|release|meet|write|pay|store|build|work (?:at|for|as|in|with|from|remotely"
    r"|nights))\b"
    r"|(?:i|we) (?:have|keep) (?:(?:an?|no|two|three|four|five|six|seven|eight|nine|ten|\d+"
    r"|several|many)"
    r" )(?!questions?|problems?|issues?|ideas?|doubts?|feeling|look|bugs?|errors?|meetings?"
    r"|headache"
    r"|minutes?|moment|hunch|request|favou?r|clue|time|choice|plans?|thoughts?|cold|guess)\w+"
    r"|my \w+(?:[\s'-]\w+){0,3}? (?:is|are|has|have|lives?|works?|speaks?|uses?|likes?"
    r"|prefers?)\b)",
    _I,
)
_MOMENTARY: Final = re.compile(
    r"\b(?:is|are|am|'s|'re|'m)(?: not|n't)?(?: \w+ly| so| very| too| really| all"
    r"| quite)* (?:\w+ing\b(?! \w+"
    r" of)|broken|down|slow|wrong|green|red|below|above|nice|great|good|bad|ready|done|weird"
    r"|strange|odd"
    r"|ok|okay|fine|missing|empty|late|fast|awesome|perfect|cool|correct|right|true|false|clear"
    r"|unclear"
    r"|funny|sad|tired|hungry|busy|sick|stuck|lost|confused|happy|sorry|back|here|there|up|off|over"
    r"|finished|gone|sure|afraid|aware|able|unable|a (?:mess|bug|problem|shame|pity|joke|bit"
    r"|good idea"
    r"|bad idea|great idea|question|test|lot)|an (?:error|issue|idea)|the (?:problem|issue|error"
    r"|point"
    r"|question|matter|bug|idea))\b",
    _I,
)
_PLURAL: Final = re.compile(
    r"^(?:(?:the|our|my|all)\s+)?(?:[\w-]+\s+){0,3}?\w+s\s+(?:do not |don't )?(?:need|require|run"
    r"|go|cost"
    r"|take|begin|start|end|live|work|use|belong|expire|open|close|last|mean|contain|support|depend"
    r"|rotate|prefer|like|own|speak|keep|allow|refuse|return|happen|include)\b",
    _I,
)


def not_lasting(text: str) -> str | None:
    """Why a text tells nothing that lasts; None if one of its sentences does.

    Example:
        ```python
        from langmem_tiers.consolidate.lasting import not_lasting

        assert not_lasting("Deployments need two approvals.") is None
        assert not_lasting("Can you help?") == "it asks"
        ```
    """
    if kind := triviality(text):
        return f"it is {kind}"
    told = ends_of(text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    whys = [_why_not(one) for one in _SENTENCE.findall(told)]
    if None in whys:
        return None
    return next((one for one in whys if one != NOTHING), NOTHING)


def _why_not(sentence: str) -> str | None:
    """Why a sentence tells nothing that lasts."""
    told = _SAID_FIRST.sub("", sentence).rstrip(" .!")
    if "?" in sentence or _ASKS.search(told):
        return ASKED
    if _ORDERS.search(told) or (_WISHES.search(told) and not _PREFERS.search(told)):
        return REQUESTED
    if _UNSURE.search(told):
        return SUPPOSED
    if _OVER.search(told) or _ANAPHOR.search(told) or _MOMENTARY.search(told):
        return NOTHING
    known = (_PREFERS, _RULES, _ONE_SELF, _PLURAL)
    return None if any(one.search(told) for one in known) or _holds(told) else NOTHING


def _holds(told: str) -> bool:
    """Whether it says of somebody or something that it is so, in general."""
    first = told.split(maxsplit=1)[0].lower() if told else ""
    if first in ("i", "i'm", "i've", "we", "we're", "we've", "you"):
        return False
    return any(one.memory_type == "semantic" for one in route(told))
