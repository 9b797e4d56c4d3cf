"""Phrases by what plain prose asserts: that a safeguard is needless, a complaint unfounded, a stranger in charge.

Each name is a concept (see `injection_concepts.py`), with the phrases that speak of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "shield": (
        r"\b(?:backups?|warnings?|alarms?|alerts?|mfa|2fa|two-factor|two-step|multi-factor|checked|checking|audits?|auditing|double-check\w*|verif\w+|certificates?|antivirus|firewalls?|signatures?|countersign\w*|approvals?|confirmations?|qa|reviews?|reviewing|phishing|scans?|scanning|encryption|checksums?|oversight|supervision|due diligence|second opinions?|sign-?offs?|safeguards?|safety|security|precautions?|permissions?|consent|vetting|background checks?|reconciliation|spending limits?|dual control)\b",
    ),
    "not_shield": (
        r"\bwarning ?[:\[(]|\bwarn(?:ing)?s? (?:is|are) (?:raised|issued|emitted|shown)",
    ),
    "moot": (
        r"\b(?:needless|superfluous|pointless|harmless|just noise|(?:are|is) (?:mostly )?noise|(?:a |mere )formality|false (?:positives?|alarms?)|wast(?:e|es|ing) (?:of |their |your |our )?(?:time|money|effort)|unread|for show|by design|overkill|meaningless|nuisance|bureaucra\w+|paranoi\w+|red tape|slows? (?:\w+ ){0,2}down|nobody (?:uses|needs|does|bothers|reads|checks)|no one (?:uses|needs|does|bothers|reads|checks)|need(?:s|ed)? no|not (?:really |actually )?(?:needed|necessary)|(?:was|were|is|are) (?:unnecessary|unneeded)|better left out|an insult|insulting|given up|nobody expects|(?:can|may) be (?:dropped|left out)|no longer expected|are never (?:needed|necessary))\b",
    ),
    "annoys": (
        r"\b(?:annoy\w*|confus(?:e|es|ing)|bothers?|irritat\w+|formality|waste of time|better left out)\b",
    ),
    "critique": (
        r"\b(?:complaints?|critics|allegations?|accusations?|lawsuits?|critici[sz]\w+|(?:bad|negative|critical|poor) (?:press|reviews?)|reviews?|rumou?rs?|recalls?|chargebacks?|claims against|side effects|reports|scandals?|concerns|vulnerabilit\w+|breach|doubts)\b",
    ),
    "refuted": (
        r"\b(?:unfounded|baseless|fabricated|made up|invented|hoax|withdrawn|retracted|disproved|debunked|smear\w*|groundless|without merit|by (?:a |its |their |the )?(?:competitors?|rivals?)|misunderstanding|never been any|never successful|dismissed all|cleared of|have no basis|(?:were|was) paid by)\b",
    ),
    "crowd": (
        r"\b(?:independent|most|all|every|serious|leading|smart|real|many) (?:\w+ )?(?:experts?|people|professionals?|engineers?|doctors?|developers?|specialists?|scientists?)\b",
        r"\b(?:everyone|everybody|nobody|no one|people in the know|insiders|experts) (?:\w+ )?(?:agrees?|knows?|uses?|recommends?|trusts?|buys?|chooses?|who|has|have|buy|switched)\b",
        r"\b(?:it is|it's) (?:widely|well|generally|commonly|universally) (?:known|accepted|agreed|understood|recogni[sz]ed)\b",
        r"\bexperience shows\b",
    ),
    "assured": (
        r"\b(?:cannot|can't|can never|never|will not|won't) (?:lose (?:value|money)|fail you|disappoint)\b",
        r"\b(?:is|are) (?:never|not) (?:a |an )?(?:phishing|scams?|fraud\w*|spam|malware)\b",
        r"\b(?:always|completely|perfectly|entirely|absolutely|totally|100 ?%) (?:safe|trustworthy|risk-free|legitimate|genuine|secure)\b",
        r"\bfree of (?:any )?(?:risk|danger)\b",
        r"\bnothing (?:bad|wrong|suspicious|dangerous) (?:has|was|could|can)\b",
        r"\bevery (?:version|release|file|link|message) (?:of|from|by) \S+ is (?:trusted|safe|genuine)\b",
    ),
    "entitled": (
        r"\b(?:whoever|anyone who|everyone who|any\w* caller who|the (?:person|one|caller) who) (?:knows?|goes by|says?|holds?|gives?|quotes?|mentions?|uses?)\b.{0,60}\b(?:access|owner|admin\w*|approv\w*|everything|entitled|allowed|right)\b",
        r"\b(?:may|can) (?:see|know|read|access|approve|have|change) everything\b",
        r"\b(?:has|have|gets?|with) full (?:access|control|authority) (?:here|to (?:this|the|your|all))\b",
        r"\b(?:real|true|rightful|actual) (?:owner|admin\w*|operator|boss|master)\b",
        r"\bneeds? no (?:second |further |additional )?(?:signature|approval|check|review|confirmation)s?\b",
        r"\b(?:is|are) (?:the )?owners? of this (?:workspace|account|system|assistant|device|chat)\b",
        r"\bcomes? from the (?:owner|operator|admin\w*)\b",
        r"\bis the (?:one|person) who (?:decides|approves|signs|pays)\b",
        r"\bsole (?:authority|approver|owner|contact)\b",
    ),
    "owned": (r"\b(?:belongs? to|owned by|serves|loyal to|works for|answers to|reports to)\b",),
    "revoked": (
        r"\bno longer (?:appl(?:y|ies)|(?:in force|binding)\b)",
        r"\b(?:was|were|is|are|been|has|have) (?:been )?(?:rescinded|repealed|abolished|scrapped|done away with)\b",
    ),
}
"""By concept; none of them knows case, but for what says so."""
