"""Signs by whom a text speaks to, in whose name, and what it wants undone."""

from __future__ import annotations

from typing import Final

from langmem_tiers.remember.injection_words import AGENT, EARLIER, MIND, ORDERS, SET_ASIDE, sign

ADDRESS: Final = (
    # What it wants undone.
    sign(
        "override",
        rf"{SET_ASIDE}(?: \S+){{0,4}}? {EARLIER}(?: \S+){{0,3}}? {ORDERS}",
        3,
        3,
        3,
    ),
    sign(
        "override",
        rf"{SET_ASIDE} (?:everything|anything|all|whatever|what|the|any|all the|all of the)"
        rf"(?: {ORDERS})?(?: that)?(?: you| i)? ?"
        r"(?:were|was|are|have been|had|have|'ve been)(?: \S+){0,2}? ?"
        r"(?:told|taught|given|instructed|instructions|learned|up to|before)",
        3,
        3,
        3,
    ),
    sign("override", rf"{SET_ASIDE} (?:all|any)(?: of)?(?: the)? {ORDERS}", 2, 2, 2),
    sign("override", rf"{SET_ASIDE} the {ORDERS} (?:above|before|you)", 3, 3, 3),
    sign(
        "override",
        rf"{EARLIER} {ORDERS}(?: \S+){{0,2}} (?:no longer|cancel\w*|void|outdated|obsolete|revoked"
        r"|replaced|overridden|invalid|superseded|null|expired|suspended)",
        3,
        2,
        2,
    ),
    sign("override", r"do not follow (?:them|those|your)|stop what you are doing", 2, 1),
    sign("override", r"new (?:instructions?|polic(?:y|ies)|task|directives?)\b ?(?:from|:)", 2, 1),
    sign(
        "override",
        r"(?:ignore|disregard|forget|overlook|never ?mind) (?:the |all |everything |all of the )?"
        r"(?:above|preceding|foregoing|previous (?:text|message|content|input))",
        3,
        3,
        3,
    ),
    sign(
        "override", r"\bdo not (?:summari[sz]e|translate|answer|respond|comply|complete the)\b", 1.5
    ),
    sign(
        "override",
        r"\byour (?:\w+ )?(?:goal|objective|mission|purpose|persona|identity|permissions|knowledge base"
        r"|safety (?:\w+ )?(?:checks|rules|filters)|guardrails|safeguards|filters|creators?|training"
        r"|instructions|guidelines|notes|role|output)\b",
        1,
        0.5,
    ),
    sign(
        "override",
        r"(?:goal|objective|task|role|mission)s? (?:has|have|is now|is) (?:now )?(?:changed|a |an |to )",
        1,
    ),
    # In whose name it speaks.
    sign(
        "role imitation",
        r"<\|[\w ]+\|>|\[/?INST\]|<</?SYS>>|</?system-reminder>|\[/?(?:system|assistant)\]",
        3,
        3,
        3,
    ),
    sign(
        "role imitation",
        r"</?(?:system|assistant|instructions?|important[\w-]*|tool_results?|function_results?"
        r"|function_calls?|tool_output|tool_response|memory|recalled_memories|mandates?)(?: [^<>]{0,300})?>",
        2,
        2,
        1,
    ),
    sign(
        "role imitation",
        r"\bsystem (?:prompt|message|notice|note|override|update|command|instruction|policy|alert)s?"
        r"(?: \w+)? ?(?:\([^)]{0,100}\))? ?[:\])]",
        2,
        2,
    ),
    sign(
        "role imitation", r"\b(?:begin|end|start of|end of) system prompt|system override", 2, 2, 1
    ),
    sign(
        "role imitation", r"\[(?:system|admin|developer|memory|instruction)[^\]]{0,200}\]", 1.5, 1
    ),
    sign(
        "role imitation",
        r"^\s*(?:admin(?:istrator)?|developer|operator|root)(?: message)?: |developer message",
        1.5,
    ),
    sign(
        "role imitation",
        r"message from (?:your|the) (?:developers?|creators?|owners?|operators?|admin\w*|user)"
        r"|new user turn|as (?:the|your) (?:\w+ )?(?:administrator|developer|owner|operator)",
        2,
    ),
    sign("role imitation", r"^\s*(?-i:SYSTEM|System)(?: message)?: ", 1.5, 1),
    sign("role imitation", r"by reading this|on behalf of the author", 1.5),
    # Whom it speaks to.
    sign("addressed", rf"\b(?:to|for)(?: the| all| any)?(?: \w+ing)? {MIND}\b", 1),
    sign(
        "addressed",
        rf"\b(?:note|instructions?|message|attention|directive|notice|reminder|request) (?:to|for)"
        rf"(?: the| all| any)?(?: \w+ing)? {MIND}\b",
        2,
        1,
    ),
    sign(
        "addressed",
        rf"\b{AGENT}(?: that \w+ this)? (?:must|shall|will now|ha(?:s|ve) to|(?:is|are) (?:to|required)"
        r"|ought to|reading|needs? to|may now|should(?! not be))\b",
        1.5,
    ),
    sign(
        "addressed",
        rf"(?:^|[.!?>\-–:;,(\"]\s*|attention )(?:dear |hey |hi |hello )?(?:ai )?{AGENT}\s?[,:]",
        2,
        1,
    ),
    sign("addressed", rf"<!--[^>]{{0,300}}\b{MIND}\b", 2, 1),
    # Who one is to be.
    sign(
        "persona",
        r"(?:without|no|free of|off|ignoring)(?: any| all| content)? (?:restrictions?|rules|filters?"
        r"|guidelines|limits|content polic\w+|guardrails|censorship|moral\w*)",
        1.5,
        1,
        1,
    ),
    sign(
        "persona",
        r"\b(?:you are|act as|pretend|simulate|role-?play|play a game)\b[^!?]{0,60}"
        r"(?:unrestricted|no (?:rules|restrictions|guidelines)|never refuses|do anything|had no)",
        1.5,
        1,
        2,
    ),
    sign(
        "persona",
        r"\b(?:no|without(?: any)?) (?:ethical|moral|safety) \w+|\bevil (?:ai|assistant|twin)",
        2,
        1,
        1,
    ),
    sign("persona", r"\b(?:act as|pretend (?:to be|that you are)|impersonate)\b", 1),
    sign("persona", r"(?:be|are|as) (?:the|an?) (?:administrator|root|admin|bank|user)\b", 1),
    sign("persona", r"(?:developer|god|debug|maintenance|dan|jailbreak) (?:mode|persona)", 2, 1),
    sign("persona", r"\bdo anything now\b|\bfilters are off\b|reply without filters", 2, 1, 2),
    # Whose instructions it repeats.
    sign(
        "boot file",
        rf"(?:^|[.:!>\n] ?)(?:you are|you're|i am|i'm)(?: an?| the)?(?: [\w,-]+){{0,5}}?"
        rf" (?:{MIND}|coordinator|orchestrator|agent|subagent|model)\b(?! of change)",
        2,
        2,
    ),
    sign(
        "boot file",
        r"\b(?:your|my) (?:core |main |primary |standing )?(?:responsibilit\w+|instructions|guidelines"
        r"|mandates?|directives?|identity|charter|system (?:prompt|message)|rules)\b ?"
        r"(?:\([^)]{0,100}\) ?)?(?:is|are|:|has|have|says?|tells?|permit|include)",
        2,
        2,
    ),
    sign("boot file", r"\b(?:my|whose) system (?:prompt|message)", 1, 2),
)
