"""Phrases by whom a text speaks of: assistants and their instructions, their users, whoever reads it.

Each name is a concept (see `injection_concepts.py`), with the phrases that speak of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_THE_USER: Final = r"\b(?:the|this|that|your|our|my|current) (?:current |present |real )?(?:user|account holder|device owner|person (?:behind|in front of|asking|reading|you (?:work|serve|talk))|human you|reader|visitor|principal)(?! of (?!this\b))(?: (?:of|on|behind|visiting|in) (?:this|the|your) \w+)?"
_WHOSE: Final = r"(?:(?:the|this|your|my|our) (?:user|owner|operator|human|visitor|reader|principal|recipient)|\buser)'s(?:,[^,]{1,40},)?"
_NOT_IF: Final = r"(?<!if )(?<!when )(?<!whether )(?<!after )(?<!once )(?<!until )(?<!unless )(?<!what )(?<!before )"
PEOPLE: Final[Mapping[str, tuple[str, ...]]] = {
    "mind": (
        r"\b(?:language|ai) models?\b",
        r"\b(?:digital|virtual|smart|automated|coding) (?:helpers?|reviewers?|readers?|tools)",
        r"(?:^|[.:\"(>] ?|dear |hey |hi |hello )models?[,:]",
        r"^models? (?:should|must)\b",
        r"@[\w-]*bot\b",
        r"\w-bot\b",
        r"\bwhoever reads this\b",
        r"\b(?:reads?|processed|handled) (?:this (?:\w+ )?)?automatically\b",
        r"智能助手",
        r"人工智能",
    ),
    "not_mind": (
        r"\buser[- ]agents?\b",
        r"\bbot (?:detection|protection|check|traffic)\b",
        (
            r"\b(?:estate|travel|insurance|build|cleaning|free|press|sales|booking|support"
            r"|monitoring|patrol|service|ticket|backup|ssh|gpg|customs|shipping|letting|reducing"
            r"|oxidi[sz]ing) agents?\b"
        ),
        (
            r"\bassistant (?:professor|manager|editor|coach|director|nurse|teacher|principal"
            r"|message|role)"
        ),
        r"\bassistants? (?:of|to) (?:the|a|mr|ms|mrs|dr)\b",
        r"\bagent (?:of|for) (?:change|service)\b",
        r"\bcontrast agent",
        r"\bagent-\d",
        r"\bassistants? in the\b",
        r"\b(?:shop|sales|office|care|lab|research|flight|legal|medical|dental|executive|personal|teaching) assistants?\b",
        r"\bassistants? (?:will show|at the)\b",
    ),
    "user_claim": (
        _NOT_IF
        + _THE_USER
        + r"(?! (?:\w+ )?(?:must|should|can|may|shall|will|cannot|clicks?|enters?|selects?|types?|sees?|logs?|reports?|opens?|runs?|sends?|presses|chooses|provides?|does not (?:have to|exist)|creates?|supplies|specifies|needs to|is (?:not |being )?(?:asked|prompted|redirected|shown|created|added|able|required|responsible|notified|found|logged|allowed to)|id\b|guide|manual|interface|table|group|agent|stor|experience|argument|base|research|service|settings|input|data dir|name\b|directory|code|defined|of the account|(?-i:[a-z]+\d*) (?:has|is)\b|who\b))"
        r" (?!is\b|are\b|and\b|or\b|to\b|in\b|for\b|with\b|if\b|as\b|when\b|has no\b)\w+",
        _NOT_IF
        + _THE_USER
        + r" (?:is|are|and|has no)(?! (?:not |being )?(?:asked|prompted|redirected|shown|created|added|able|required|responsible|notified|found|logged|allowed to|the name|access|not in))\b",
        r"\byour user\b",
        r"(?:^|[.:|>] ?)users have (?:consented|agreed|approved|authori[sz]ed|granted|waived)\b",
        r"(?:^|[.:|>\"{(] ?)user(?:'s)? (?:standing )?(?:preferences?|profile|instructions?|wish|consent|requests?|note)(?: \w+)?: ",
        r"\b(?:user|customer|client|owner|guest)s? (?:has |have |had )?(?:asked|asks|wants?|wishes|requested|requests|insists|prefers?) (?:that )?you\b",
        r"\b(?:by|with|from|of) the (?:owner|user|account holder)\b(?= (?:last|in|for|on|earlier|already|before|yesterday))",
        r"(?:^|[.:|>\"{(] ?)user (?:has|is|was|wants|prefers|granted|gave|trusts|confirmed|agreed|likes|wishes|allows|consents|approved)\b(?! (?:no|not|been (?:created|deleted|added)|logged))",
        r"\bwhoever (?:owns|reads|uses|runs|asks)\b",
        r"\b(?:the|your|our|this) (?:owner|operator|human|boss|recipient|client in this \w+|customer you are \w+)(?: of this \w+)? (?:\w+ly |already |also |has |had |have )*(?:agreed|approved|authori[sz]ed|confirmed|consented|granted|waived|cleared|signed|told|wants|prefers|trusts|wishes|allows|decided|likes|considers)\b",
        r"\byour (?:guest|principal|employer|boss|family|client|human|customer|master|owner|operator)\b (?:has|is|was|had|would|wants|prefers|likes|gave|said|told|lets|trusts)\b",
        r"\b(?:the \w+|those) you (?:advise|look after|serve|work for|assist|represent)\b",
        r"\b(?:people|guests|customers|users|clients|readers|someone) like you\b",
        r"\bwho reads (?:this|these lines)\b",
    ),
    "user_fact": (
        r"\b(?:per|at|by|on|with|under|as) (?:the|our|your|this) (?:user|owner|customer|client|operator)'s (?:\w+ )?(?:request|wish\w*|consent|instructions?|permission|orders?)\b",
        _NOT_IF + _WHOSE + r"(?: [\w-]+){1,4}? (?:is|was|are|were|has|have|includes?|requires?)\b",
        _WHOSE + r" (?:real|preferred|default|favou?rite|emergency|stated|new|nickname|true)\b",
        (
            r"\b(?:profile|language|preferences?|facts?|something|owner) (?:of|about) (?:the|this"
            r"|your|current)(?: current)? (?:user|reader|person|visitor|owner|human)"
        ),
        r"\buser[._](?:preference|profile|consent|trust|bank|manager|payment)\w*",
        r"\b(?:about_user|user_profile|user_preferences?|preferred_\w+)\b",
        r"\bfacts? about you\b",
        r"\b(?:your|the) user (?:moved|prefers|and)\b",
        r"\b(?:the|this|your) user's \w+ of choice\b",
    ),
    "you_claim": (
        _NOT_IF
        + (
            r"(?<!do )(?<!that )\byou (?:have |had |certainly |also |once |already |just |really"
            r" )*(?:agreed|told|approved|confirmed|promised|decided|authori[sz]ed|accepted|trust"
            r"|trusted|love|prefer|hate|believe|feel|granted|permitted|wished|own|grew up|vote"
            r"|consented|verified|outgrown|give us|banked?|buy|are a (?:long|loyal|fan|member"
            r"|customer|supporter))\b(?! (?:it\b|to (?:see|know|install|use)))"
        ),
        (
            r"\byou (?:have|'ve) (?:always|been (?:configured|created|told|authori|cleared"
            r"|upgraded|chosen|programmed|designed))"
        ),
        r"\byour (?:favou?rite|preferred) (?:\w+ ){1,2}(?:is|are|has)\b",
        r"\byour (?:standing|explicit) (?:consent|permission|wish|approval|instruction)s?",
        _NOT_IF + r"\byou already know that\b",
        r"\byou are (?:now |hereby )?authori[sz]ed to\b",
        r"\bas you (?:certainly |surely )?(?:recall|agreed|wished)",
        r"\byour earlier (?:permission|consent|wish|approval)",
        (
            r"\b(?:by|with) your (?:own |earlier |previous )?(?:consent|permission|approval"
            r"|accounting|management)"
        ),
        r"\byou(?:'ve| have) (?:helped|been helping)",
        r"\byou always (?:help|agree|allow|share|let)",
        r"\bwe(?:'ve| have) been working together",
        (
            r"\bi(?:'m| am) (?:an? |the |your )(?:\w+ )?(?:admin\w*|developer|owner|trusted"
            r"|verified|creator|operator|authorized)"
        ),
        r"\byou (?:and i )?(?:both )?(?:adore|enjoy|admire|favou?r|endorse|support|cherish|promised|suggested|proposed|booked|ordered|subscribed|waived|signed|instructed)\b",
        r"\bit was you who\b",
        r"\byou and i\b",
        r"\byou and (?-i:[A-Z]\w+)\b",
        r"\byour (?:notes|records|history) (?:contain|show|say|hold)\b",
        r"\bwe have an understanding\b",
    ),
    "as_agreed": (
        (
            r"\bas (?:you|we|your \w+) (?:\w+ )?(?:recall|know|agreed|discussed|remember|said"
            r"|approved)"
        ),
        r"\bas (?:\w+ )?(?:discussed|agreed|arranged|promised|stated before)\b",
        r"\bper your\b",
        r"\byou told us\b",
        r"\bwe spoke with\b",
        r"\bour records show\b",
        r"\bit (?:was|has been) (?:settled|agreed|arranged)\b",
        r"\bhas told us\b",
        r"\bapproved by your\b",
    ),
    "hearsay": (
        r"\b(?:web ?page|page|web ?site|site|forum|manual|leaflet|document|e-?mail|message|app|feed|post|review|video|comment|file|tool|output|article|ticket|response|result|readme)\b (?:\w+ )?(?:told|instruct\w*|asked|wants?|says|said|claims?|states?|reports?)(?: that)? (?:me|i|we|us|our|my|the user|user)\b",
        r"\b(?:told|instructed|asked|taught|learned|advised|read|know|picked up)\b (?:to |that |this |it )?(?:by|from|on|in) (?:the |an? )(?:\w+ )?(?:web ?page|page|web ?site|site|forum|manual|leaflet|document|e-?mail|message|app|feed|post|review|video|comment|file|tool|output|article|ticket|response|result)\b",
        r"\b(?:according to|per|as) (?:the|an?) (?:\w+ )?(?:web ?page|page|web ?site|site|forum|manual|leaflet|document|e-?mail|message|app|feed|post|review|video|comment|file|tool|output|article|ticket|response|result)\b.{0,60}\b(?:the|my|our) user\b",
        r"\b(?:the|my|our) user\b.{0,80}\b(?:according to|says|as) (?:the|an?) (?:[\w']+ ){0,3}(?:web ?page|page|web ?site|site|forum|manual|leaflet|document|e-?mail|message|app|feed|post|review|video|comment|file|tool|output|article|ticket|response|result)\b",
    ),
    "sourced": (
        r"\b(?:learned|read|found|heard|taken|know) (?:from|on|in) the (?:web|internet|net)\b",
        r"\b(?:per|from|according to|following) (?:the|an?) (?:\w+ )?(?:web ?page|page|web ?site|site|forum|document|e-?mail|message|post|review|comment|file|article|ticket|result|readme)\b",
    ),
    "persona": (
        r"\byou(?: are|'re) (?:now |no longer )",
        r"\byou(?: are|'re) (?-i:[A-Z]\w+)\b(?! (?:in|at|on)\b)",
        r"\byou (?:were|have been) (?:created|configured|built|made|designed)",
        (
            r"\byour (?:role|tone|purpose|core|mission|instructions|guidelines|guardrails|safeguards|restrictions|system (?:prompt"
            r"|message)|tools|duty|identity|character|boot file|directives?)\b"
        ),
        (
            r"\b(?:pretend|act as (?:if every|an? (?:unrestricted|evil|admin\w*|assistant|ai|root"
            r"|different))|hypothetically|let's play a|role-?play\w*|be my (?:grand\w+|friend)|be"
            r" free)\b"
        ),
        r"\b(?:imagine|suppose)\b.{0,40}\b(?:you (?:were|had|are an?)|assistant)\b",
        r"\bi am an? (?:assistant|agent|ai|model)",
        r"\bmy (?:system prompt|instructions|first duty|role|guidelines|directive)",
        r"\byou,? (?:the \w+,? )?(?:will|must|shall) now\b",
        r"\bi (?:now |only )(?:answer to|obey|serve|report to|belong to)\b|\btake orders from\b|\bmy (?:operator|master|creator) (?:changed|is|wants|has|told)\b",
        r"\bhas no (?:master|content rules|owner)",
        r"\byou (?:never|always) (?:refuse|obey|comply|lie)",
        r"\byou have access to (?:\w+ ){0,2}(?:tools?|memor(?:y|ies)|functions|a browser|a shell|a terminal)\b",
        r"\bknowledge cut-?off\b",
        r"\b(?:available tools|tools available)\b",
        r"\b(?:answer|assist|address|obey|serve|greet) the user\b",
        r"\bi(?:'m| am| was| have been) (?:configured|programmed|designed) to\b",
        r"\byou are (?:an? )?(?:\w+ ){0,3}(?:assistant|agent|chatbot|ai|bot|language model)\b",
        r"^(?:please )?act as (?!soon|if|a guide)\b",
    ),
    "rules_file": (
        r"\b(?:agents|claude|soul|memory|heartbeat|gemini|identity|copilot-instructions)\.md\b",
        r"\.cursorrules\b",
        r"\bboot file\b",
        r"(?:^|[.:#>|] ?)(?:core (?:values|identity|directives?|principles|rules|truths)|prime directive)\s?:",
        r"\bx-agent-\w+",
        r"\bai-note\b",
        r"\b(?:assistant|agent|bot)[_-](?:policy|rules|runtime|instructions?)\b",
        r"\binstructions?_for_\w+",
        r"\brules for (?:the )?(?:agent|assistant|bot|ai)s?\b",
        r"\b(?:operating manual|system prompt|permissions) of the (?:assistant|agent)",
        r"\bsystem prompt (?:says|has been|:)",
    ),
    "mark": (
        r"\[/?(?:inst|system|assistant|user|tool_result)\]",
        r"</?(?:system|context|assistant)>",
        r"<\|\w+\|>",
        r"\b(?:human|thought|action): \S+(?s:.{0,200})\b(?:assistant|action|thought): ",
        r"###? ?(?:instruction|system)",
        r"\"role\": ?\"system",
        r"--- ?end",
        r"\bnew instructions?:",
        r"\bsystem override\b",
        r"\[bot:",
        r"\bprompt: ",
        r"^\s*(?:identity|bot|ai|agent|assistant|llm)\s?(?:\([^)]{0,100}\))?: ",
        (
            r"(?-i:\[[A-Z'_ ]*(?:SYSTEM|ADMIN|HIDDEN|INSTRUCTION|OVERRIDE|PRIORITY|DIRECTIVE"
            r"|DEVELOPER|AI|LLM|ASSISTANT|AGENT|BOT|MODE|ROOT|NOTE)\b[A-Z_ ]*[\]:])"
        ),
        (
            r"\b(?-i:AI|SYSTEM|AGENT|LLM|ADMIN|BOT|MODEL)_(?:instructions?|override|directive"
            r"|note|command)\b"
        ),
        r"--- ?(?:system|admin)",
        r"</?(?:hidden|secret|instructions?)>",
        r"\[(?:system|session|admin|memory|policy) (?:update|note|message|override)\]",
        r"\((?-i:SYSTEM): ",
        r"\bnew (?:primary )?directive\b",
        r"note to (?:the )?(?:ai|llm|model|agent|assistant|bot)",
        r"\bif you are (?:a )?human\b",
        r"\bif you (?:are not|aren't) (?:a )?(?:human|person)\b",
        r"(?:^|[.:;!?>\"(] ?)(?:\w+ ){0,2}(?:bots?|assistants?|ais?|agents?|llms?|helpers?|copilot|claude|gemini|chatgpt),\s",
        r"\b(?:ai|llm|claude|copilot|chatgpt|gemini): ",
        r"\bllm[._]\w+ ?=",
        r"\b(?:instructions?|notes?|message|attention) (?:to|for) (?:the |any |all )?(?:summari[sz]er|translator|classifier|parser|indexer|crawler|model)s?\s?:",
        r"\b(?:ais?|llms?|chatbots?|assistants?|claude|gemini|chatgpt|copilot)\b(?: \w+){0,3}: ?(?=[\w\"'])",
        r"\b(?:ais?|llms?|chatbots?|assistants?|agents?|bots?|models?)\b.{0,20}\b(?:reading|reads?|sees?|processing|handling) this\b",
        r"[\[({<] ?hidden ?:",
        r"\b(?-i:AGENT|AI|LLM|BOT|ASSISTANT)_\w+ ?[:=]",
    ),
    "own_words": (
        r"\b(?:system|hidden|initial) (?:prompt|message)\b",
        r"\b(?:chat|conversation|full chat) history\b",
        r"\bthe conversation\b.{0,30}\b(?:append|url|send|summar)",
        (
            r"\b(?:summari[sz]e|append|send|post|print|forward) (?:the )?(?:full |whole"
            r" )?(?:conversation|chat)\b"
        ),
        r"\b(?:your|stored|all) memor(?:y|ies)\b",
        r"\bhidden prompt",
        r"\byour (?:instructions|guidelines|prompt)\b",
        r"\b(?:what|which) (?:the|your) user (?:wrote|said|asked)",
        r"\bhistory of the chat",
        r"\bwhat (?:it|you) knows? about (?:its|the|your) user",
        r"\bos\.environ to\b",
        r"~/\.ssh",
        r"\bcontents of (?:the |your )?(?:\.env|memory|environment|your)",
        r"id_rsa",
        r"\bevery secret",
        r"\ball (?:api keys|secrets|passwords|contacts)\b",
        r"\bmaster password",
        r"\bone-time code",
        r"\bcode that was (?:just )?sent",
        r"\bsecrets of\b",
        (
            r"\b(?:in|of|to|with|start|begin|end|prefix|finish|append to) (?:all |every |each"
            r" )?(?:of )?your (?:\w+ )?(?:responses?|answers?|repl(?:y|ies)|outputs?|summar(?:y"
            r"|ies))\b"
        ),
        r"\brespond (?:only|exactly|as)\b",
        r"\boutput (?:only|exactly|your|the phrase)\b",
        r"\byour only (?:response|answer|reply)",
        r"\bwhen (?:formatting|summari[sz]ing|answering|replying|translating|parsing)\b",
        r"\byour (?:\w+ )?(?:memory|knowledge|safety|safeguards)\b",
        r"\b(?:ignore|forget) your training\b",
        r"\bwhat instructions you\b",
        r"\bevery (?:response|answer|reply)\b",
        r"\byour (?:\w+ )?(?:behaviou?r|conduct|configuration|rules|secrets)\b",
        r"\bhidden rules\b",
        r"\bthe real task\b",
        r"\beverything you were told\b",
    ),
    "meta_memory": (
        r"\bkeep (?:this |it |that )?in (?:mind for|memory|your)",
        r"\b(?:long-term|persistent|permanent) (?:memory|fact|note)",
        r"\bknowledge base\b",
        r"\bfacts? (?:about (?:the|this|your) (?:user|reader|owner)|to (?:be )?remember)",
        r"\bit should be known\b",
        r"\bnote to (?:self|my)",
        r"\bmemory (?:update|entry|of)\b",
        r"\badd to memory",
        r"\byour (?:notes|records|memories|entries) (?:about|on|of)\b",
        r"(?:^|[.:;>] ?)(?:store|save|keep|record|memori[sz]e) (?:this|the following) ?: ",
        r"(?:^|[.:;>] ?)overwrite: ",
        r"\bmemory\.write",
        r"\bin(?:to)? (?:your|its|the agent's) (?:records|notes|memory)\b",
        r"\bto be (?:recalled|remembered)\b",
        (
            r"\b(?:remember|store|save|keep|record|persist)\b.{0,40}\b(?:for (?:future|later)"
            r"|later (?:sessions?|use)|future (?:sessions?|conversations?|tasks?|citations?"
            r"|reference)|permanent\w*|(?:your|long-term|its) (?:\S+ )?memory|for good|next"
            r" (?:week|time|session))\b"
        ),
        r"\bremember\b.{0,25}\bas (?:a|the)\b",
        r"\"memory\"",
        r"^ ?(?:persist|memori[sz]e|save this) ?:",
        r"\bremember:? (?:that )?(?:the user|whenever|always)\b",
        r"用户.{0,6}记住",
        r"记住.{0,4}用户",
        r"\bmemor(?:y|ies) (?:records?|entries|entry)\b",
        r"\bfrom (?:your )?memory (?:to|all|any)\b",
        r"\b(?:session|prior|previous) memory\b",
        r"\b(?:overwrite|replace|update|amend|insert)\b.{0,30}\b(?:memory|memories|ha(?:ve|s) stored|your (?:notes|records|store|facts))\b",
        r"\bsurviv\w+ (?:all |any |every )?(?:resets?|restarts?|deletions?|sessions?)\b",
        r"\b(?:fact|note|entry|line|rule) (?:shall|must|should) (?:be (?:kept|stored|saved)|stay|remain)\b",
        r"\blong-term (?:store|storage)\b",
        r"\b(?:as|for) (?:the )?(?:result|output) of \w+[ _]\w+(?: tool)?: ",
    ),
    "reminds": (
        r"(?:^|[.!?:>\]] |please |should |must |to )(?:remember|(?:do not|don't) forget) ?(?:that\b|:)",
    ),
    "errand": (r"\b(?:remember|forget) to\b",),
}
"""By concept; none of them knows case, but for what says so."""
