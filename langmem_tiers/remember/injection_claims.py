"""Signs by what a text wants believed: permissions, approvals, policies that nobody gave."""

from __future__ import annotations

from typing import Final

from langmem_tiers.remember.injection_words import sign

CLAIMED: Final = (
    # What is to be believed.
    sign(
        "claim",
        r"\b(?:users?|owners?|customers?|clients?|team|admin\w*|managers?)\b (?:has|have|had|gave)"
        r"(?: \w+){0,2}? ?(?:pre-?)?(?:authori[sz]ed|consent\w*|approved|agreed|permitted|granted)"
        r"(?: \w+){0,3}? (?:all|every|any|in advance|sharing|to share|payments?)",
        1.5,
        1.5,
    ),
    sign(
        "claim", r"polic(?:y|ies) (?:now )?(?:allows?|permits?|requires?) (?:sharing|skipping)", 1
    ),
    sign(
        "claim",
        r"(?:checks?|confirmations?|verification\w*|approvals?)(?: \w+){0,3} skipped",
        1,
        0.5,
    ),
    sign(
        "claim", r"confirmed by the|verified and trusted|verified fact|trusted fact|as verified", 1
    ),
    sign("claim", r"(?:user|owner|customer)'?s? preferred \w+ \w+|only \w+ to be recommended", 1),
    sign("claim", r"\badmin\w*'?s? password|password (?:is|was) \S+", 1),
    sign(
        "claim", r"without (?:confirmation|review|approval|permission|asking|verification)", 1, 1.5
    ),
    sign("claim", r"\b(?:auto|pre)-?(?:approve|authori[sz]e)[ds]?\b", 1.5, 1),
    sign(
        "claim",
        r"(?:approve|trust|accept|obey) (?:all|any|every|pull requests (?:by|from))\b",
        1,
        1.5,
    ),
    sign(
        "claim",
        r"must skip|skip the (?:review|check|verification|approval)|disabled? (?:two-factor|logging|your)",
        1,
        0.5,
    ),
    sign(
        "claim",
        r"disable (?:your |the |all )?(?:safety|security|logging|checks|filters|protection)",
        1,
        0.5,
    ),
    sign(
        "claim",
        r"(?:data|records?) of .{1,40} (?:is|are) (?:now )?(?:stored|saved|kept) under",
        1.5,
        2,
    ),
    sign("claim", r"(?:use|with|give) the record of .{1,40}instead", 1.5, 2),
)
