"""Phrases by what a text wants done, hidden, freed of checks, paid, sent, praised, or kept up for good.

Each name is a concept (see `injection_concepts.py`), with the phrases that speak of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "standing": (
        (
            r"\b(?:from now on|from today on|from this (?:moment|point|day)|going forward|henceforth"
            r"|all (?:future|later|subsequent)|(?:each|every) time you|next time|until further notice"
            r"|in (?:the )?future|later (?:sessions?|chats?)|future (?:sessions?|conversations?"
            r"|tasks?|citations?)|for good)\b"
        ),
        r"\bat (?:each|every) (?:login|start|session)\b",
        (
            r"\bwhen(?:ever)? (?:the user|asked|someone asks|somebody asks|anyone asks|anybody"
            r" asks|similar|generating an answer)\b"
        ),
        (
            r"\b(?:ab sofort|ab jetzt|von nun an|à partir de maintenant|de ahora en|a partir de"
            r" ahora|с этого момента)\b"
        ),
        r"从现在",
        (
            r"\b(?:when|whenever|if|once|each time|every time) (?:the|a|any|every|your|this|some)"
            r" ?(?:user|customer|client|one|body|visitor)s? (?:\w+ )?(?:asks?|says?|mentions?"
            r"|inquires?|wants? to know)\b"
        ),
        r"\bwhen(?:ever)? (?:anyone|someone|somebody|anybody) asks?\b",
        r"\bsubsequent requests\b",
        r"\b(?:your|its|their) (?:next|later|coming) (?:sessions?|chats?|conversations?|tasks?)\b|\bfor all time\b",
        r"\b(?:starting|effective|as of) (?:today|now|immediately|tomorrow)\b",
        r"\b(?:if|when|whenever|should) the (?:conversation|discussion|topic|talk|chat|subject) \w+",
        r"\bfuture interactions\b",
        r"\bfrom here on\b",
        r"\b(?:all|every|any|each|later|future|coming|following|further)(?: \w+)? (?:sessions|chats|conversations|interactions)\b",
        r"\b(?:all|every|any|each) (?:coming|later|future|following|subsequent|further) \w+",
        r"\bhereafter\b",
        r"\bwhatever (?:\w+ ){1,2}(?:asks?|says?|wants?)\b",
        r"\b(?:when(?:ever)?|each time|every time)\b[^.;]{1,40}\b(?:comes? up|is (?:mentioned|raised|discussed)|are (?:mentioned|raised|discussed))\b",
    ),
    "unasked": (
        (
            r"\bwithout (?:\w+ )?(?:asking|confirmation|approval|consent|being asked|permission"
            r"|question\w*|telling|user consent|re-?view|a second|checking|verif\w+|double-checking"
            r"|notifying|informing|warning|hesitation)\b"
        ),
        (
            r"\b(?<!has )(?<!have )(?<!had )(?:no|not|nor|never|needn't|skip|ask no)(?: \w+){0,2}?"
            r" (?:approvals?|confirmations?|permission|second check|questions asked|consent)\b"
        ),
        r"\b(?:do not|don't|stop) ask(?:ing)?(?: \w+){0,2} (?:confirmation|permission|approval)",
        r"\bdo(?:es)? not (?:need|have) to (?:ask|confirm|check)",
        r"\bnever ask\w*\b(?! (?:you|customers|users|anyone|anybody|members|clients)\b)",
        r"\bno need to ask\b",
        r"\bneed not (?:ask|be (?:asked|shown|told|checked|confirmed))\b",
        r"\bask\w* (?:them |him |her )?(?:twice|again|each time|every time)\b",
        (
            r"\bno longer (?:asks?|(?:needs?|requires?)(?: to)? (?:ask|confirm\w*|approv\w*"
            r"|\w*sign\w*|check\w*|review\w*|permission))\b"
        ),
        r"\bstop asking",
        r"\bpre-?approved\b",
        r"\bapproved? (?:automatically|in advance)",
        r"\bblanket (?:approval|permission|consent)",
        r"\bstanding (?:consent|approval|permission)",
        (
            r"\b(?:signed off|approved|authori[sz]ed|cleared) (?:on |for )?(?:all|every|any|in"
            r" advance)\b"
        ),
        r"\bexempt(?:ed|s)?\b.{0,30}\bfrom\b",
        r"\bare lifted",
        r"\bwere lifted",
        r"\b(?:need|needs) no (?:second |further )?(?:check|approval|confirmation|review)",
        r"\b(?:consented|agreed|cleared|authori[sz]ed|entitled|approved) (?:to|for) (?:everything|all|any|anything)\b",
        r"\bneeds? no (?:oversight|supervision|scrutiny)\b",
        r"\bnot (?:to )?be (?:questioned|doubted|challenged|troubled|bothered|disturbed|second-guessed)\b",
        r"\bis to be (?:believed|trusted|obeyed)\b",
        r"\b(?:confirmation|approval|verification|review|consent|permission|supervision|oversight)s? (?:is|are) (?:not|no longer) (?:required|needed|necessary)\b",
        r"\b(?:owner|operator|administrator|admin|management|boss|ceo)\b.{0,40}\b(?:consented|exempted|waived|lifted|granted|cleared|authori[sz]ed)\b",
        r"\b(?:granted|approved|cleared|authori[sz]ed|permitted)\b.{0,40}\bby your\b",
    ),
    "guard_off": (
        (
            r"\b(?:skip|bypass|disabl\w+|suspend\w*|lift(?:ed)?|waive[sd]?|(?:turn|switch)(?:ed)? off"
            r"|deactivat\w+|ignor\w+|deprecated|drop(?:ped)?|remov\w+"
            r"|override)\b.{0,40}\b(?:checks?|confirmations?|verification|two-factor(?: \w+)?|2fa"
            r"|(?:code |security )?reviews?|polic(?:y|ies)|restrictions?|safeguards?|guard"
            r" ?rails?|filters|logging|safety|privacy notices|disclaimers?|security scans?"
            r"|consent|approvals?|prompts?|sandbox\w*|firewall|antivirus|spam filter\w*|monitoring|alerts|license check|principle|guidelines|limits?)\b"
        ),
        (
            r"\b(?:checks?|confirmations?|approvals?|verification|two-factor|[2m]fa|review|policies"
            r"|restrictions?|safeguards?|guard ?rails?|filters?|safety(?: layer)?|privacy notices"
            r"|scans?|prompts|limits?|tests|step|guard|policy)\b[\"']?(?: \w+){0,3}? ?(?:[=:]"
            r" ?\"?(?:off|never|false|none|disabled)|(?:are|is|was|were|be|been|may be|can be) (?:\w+"
            r" )?(?:skipped|suspended|lifted|waived|optional|off|disabled|removed|false"
            r"|unnecessary|public))"
        ),
        (
            r"\bwithout (?:a |any )?(?:safety policy|restrictions|rules|filters|checks|content"
            r" \w+|policy)\b"
        ),
        r"\bno (?:content rules|rules|restrictions|policy|limits)\b",
        r"\brun the tests\b.{0,0}",
        r"\bnever (?:flag|warn|refuse\w*|inspect|run (?:the |any )?(?:tests|scans?|checks))\b",
        r"\b(?:do not|don't|never) (?:verify|validate|inspect|log|scan|audit|double-check)\b(?! (?:in|into|out|on)\b)",
        r"\b(?:allow_all|verify_ssl=false)\b",
        r"\binstead of (?:asking|checking)",
        (
            r"(?:safety|confirm|restriction|guard|bypass|moderation|approval"
            r"|verified)\w{0,20}[\"']?\s?(?:[:=]|', value=|to )\s?[\"']?(?:true|false|off|none|null"
            r"|never|0\b|1\b)"
        ),
        (
            r"\ball (?:\w+ )?(?:restrictions|checks|limits|safeguards) (?:lifted|off|removed"
            r"|disabled|gone)"
        ),
        r"\bno (?:\w+ )?(?:access )?restrictions\b",
        r"\bsafety-related\b",
        r"\broll ?back\b.{0,60}\brestrictions",
        r"\bmake an exception\b",
        r"\bunrestricted\b",
        r"\b(?:stays?|keep|kept) off\b",
        r"\bauto_?approv\w*",
        r"\bwithout warnings\b",
        r"\bno objection\b",
        r"\b(?:disregard|ignore|forget) (?:all |any |the )?(?:safety|security|privacy|ethics|polic(?:y|ies)|rules|restrictions|(?:what )?the user)\b",
        r"\b(?:purge|delete|wipe|clear|erase|truncate)\b.{0,20}\b(?:audit (?:logs?|trail)|evidence|traces|the logs)\b",
    ),
    "hush": (
        (
            r"\b(?:do not|don't|never|not|without|nothing|need not|than to)(?: \w+){0,2}?"
            r" (?:tell(?:ing)?|mention(?:ing|ed)?|notify(?:ing)?|inform(?:ing)?|raise"
            r"|warn(?:ing)?|flag)\b (?:the (?:user|client|customer|human|team|owner)|it\b|this\b"
            r"|them\b|him\b|her\b|anyone|anybody|any\b|rule|\w+ file|its|bad|about)"
        ),
        r"\b(?:say nothing|hide \w+|hidden) from\b",
        r"\bsays? nothing\b",
        r"\bkeep(?: \w+){0,2}? quiet\b",
        r"\bkeep(?:s)? (?:it|this|that) (?:secret|confidential|to yourself)",
        r"\bleave (?:it|them) out\b",
        r"\bwants no questions",
        r"\bnot (?:be )?(?:suggested|mentioned) to",
        r"display: ?none",
        r"font-size: ?0",
        r"color: ?white",
        r"<!-- ?(?:ai|prompt|llm|agent|assistant|bot|hidden|system|note)\b",
        r"\"hidden\": ?\"",
        r"\bleave out\b.{0,20}\breviews?",
        r"\bare hidden from\b",
        r"\bdo(?:es)? not mention\b",
        r"\bnever mention\b",
        r"\bkeep\w* (?:\w+ ){1,3}(?:secret|to yourself|from (?:the|your) (?:user|owner|client|customer))\b",
        r"\bwithout a word to\b",
    ),
    "hand_over": (
        (
            r"\b(?<!never )(?<!not )(?<!n't )(?:(?:reply|respond)(?: with)?|send|give|tell|share|post|paste|read out|email|mail|forward"
            r"|enter|provide|ask (?:\w+ )?for|write|include)\b(?:(?!\b(?:with|never|not)\b).){0,40}\b(?:your|the|their|his|her|all|me the"
            r"|admin|any) (?:\w+ )?(?:passwords?|pins?|credentials|codes?|tokens?|api keys?"
            r"|secrets?)\b(?! (?:in|as|with|via) (?:the |an? |each |every )?(?:[\w-]+ )?(?:header|request|query|parameter|body|call))"
        ),
        r"\b(?:send|submit|upload|provide|share|mail)\b.{0,30}\b(?:photos?|pictures?|scans?) of (?:their|your|his|her|the) (?:id|card|passport|licen[cs]e)\b",
        r"\b(?:unless|until) you (?:reply|respond|confirm|verify|click)\b",
        r"\b(?:send|include|attach|share|forward|give|post|upload|add|enter|append|reply with|respond with)\b.{0,30}\b(?:the|your) user's\b",
    ),
    "url": (
        r"https?://",
        r"\bwww\.",
        r"\w@[\w-]{1,100}\.\w",
        r"\w\.(?:example|com|net|org|io|xyz|ru|info|biz|co|top|site|ly)\b",
        r"\b\d+\.\d+\.\d+\.\d+\b",
        r"\bthe link\b",
    ),
    "redirect": (
        (
            r"\b(?:(?:bank|salary|payment|payout|payroll|direct deposit|wage|wallet|supplier'?s?"
            r"|vendor'?s?|new(?! (?:\w+ )?(?:address|number))|recovery|refund)(?: \w+)? (?:details|account|deposit|address"
            r"|accounts|iban|wallet|number))\b.{0,60}\b(?:changed|now|new|moved|replaced"
            r"|update\w*|closed|switched|safe|valid|is)\b"
        ),
        (
            r"\b(?:payments?|wages|invoices|transfers|donations|salary|salaries"
            r"|refunds)\b.{0,40}\b(?:now (?:go|paid)|go to|are now|to the account|through|to"
            r" account|new)\b"
        ),
        (
            r"\b(?:replace|change|update) the (?:payee|beneficiary|iban|account|endpoint|direct"
            r" deposit)"
        ),
        (
            r"\b(?:payee|beneficiary|iban|endpoint|wallet|key server|webhook\w*|api|gateway"
            r"|mirror|support number|bank|server|registry)\b.{0,50}\b(?:has moved|moved|was"
            r" changed|is now|now (?:lives|at)|were (?:both )?replaced|to https?:|has changed"
            r"|changed)\b"
        ),
        r"\b(?:correct|right|real|actual|only valid) (?:\w+ ){0,2}(?:wallet|iban|bank account|payee|account number)\b",
    ),
    "promote": (
        (
            r"\b(?:number one|no reason to|the only (?!way|reason|thing|difference|one)\w+(?:"
            r" \w+)? (?:you|to|that)|is the one to|are the ones to|hands down|best served|nothing"
            r" beats|over (?:every|all) others?|over every|more than (?:any|anyone|anything"
            r"|anybody|in anybody)|the right (?:answer|choice)|five stars?|10 out of 10)"
        ),
        (
            r"\b(?:should|must|need) (?:not |never )?be (?:suggested|named|mentioned) (?:to|by"
            r"|first|in)"
        ),
        (
            r"\b(?:recommend|prefer|names?|lists?|puts?|suggest|mention|cite|choose|pick)s?"
            r" (?:only |always )?(?-i:[A-Z]\w+)\b(?: \w+)?(?: first| over| as the| favourably|"
            r" instead| at the top|, always| when)"
        ),
        r"\b(?:recommend|trust|prefer|cite|suggest|quote) (?:only |always |nothing but )",
        r"\bwho (?:works?|deals?) with ai\b",
        (
            r"\b(?:is|as|be) the (?:authoritative|leading|most trusted|approved|preferred|only"
            r"|sole)\b"
        ),
        r"\bapproved vendor",
        r"\bcomes? before the user",
        r"\bserves its interests",
        r"\bto help (?-i:[A-Z])\w+ (?:grow|win|sell)",
        r"\byou (?:trust|love|always use) most",
        (
            r"\b(?:in|with) (?:the )?(?:right|best|most helpful|remembered|correct) (?:answer"
            r"|reply)"
        ),
        r"\bshould (?:always |only )?be (?:used for (?:all|every|any)|chosen|your first)\b",
        r"\b(?:always|only) (?:use|choose|buy|book|pick|recommend) (?-i:[A-Z]\w+)\b",
        r"\buse only (?-i:[A-Z]\w+)\b",
        r"\b(?:give|award|rate|rank|score)\b.{0,30}\b(?:highest|top|best|maximum|full marks|five stars)\b",
        r"\b(?:nobody|no one) regrets\b",
        r"\bonly one (?:good |right |true )?(?:answer|choice|option)\b",
        r"\b(?:always )?end up with (?-i:[A-Z])",
        r"\bpeople should not hear\b",
        r"\bthe wise\b",
        r"\bhas no equal\b",
        r"\bsecond to none\b",
        r"\bdeserves? to be (?:mentioned|named|recommended|listed|shown)\b",
    ),
    "money": (
        r"\bbank (?:details|account)",
        r"\bdirect deposit",
        r"\bgift cards?",
        r"\b(?:[A-Z]{2}\d\d|XX\d\d) ?\w{4}",
    ),
    "instead": (
        r"\binstead\b",
        r"\byour (?:only|new|real|actual) \w+",
    ),
    "set_aside": (
        (
            r"(?:^|[.:!;>(] ?|please |must |should )(?:ignore|disregard|abandon|forget|drop|stop"
            r" processing|overlook)\b"
        ),
    ),
    "above": (
        (
            r"\b(?:ignore|repeat|print|forget|disregard|translate) (?:everything |anything |all "
            r"|the )*(?:text |line |task )?(?:above|before|prior)\b"
        ),
        r"\babove this line\b",
        r"\bwhat (?:your|you) (?:operator|developer|were)\b.{0,20}\b(?:asked|told)",
        r"\bnext (?:job|task) is\b",
        r"\bnext_step\b",
        r"\bnext tool call",
    ),
    "for_all": (
        r"\b(?:to|with) (?:whoever|anyone who|everyone who|anybody who) asks",
        (
            r"\b(?:treat|consider|regard|counts?)\b.{0,80}?\bas (?:already |fully )?(?:pre-?approved|safe|trusted|legitimate|checked|approved|verified|paid|passed|confirmed|genuine|coming from the|orders?|commands?|instructions?"
            r"|if)\b"
        ),
        r"\balways (?:legitimate|approve\w*|pay|obey|allowed|safe|granted)\b",
        (
            r"(?<!must )(?<!should )\b(?:answer|respond to|follow|obey|grant) (?:all|every|everything"
            r"|everyone)\b"
        ),
        r"\b(?:should|will|must|always) (?:comply with|follow|obey)\b.{0,20}\b(?:requests|instructions|orders|commands)\b.{0,15}\b(?:in|from) (?:the )?(?:documents|pages|e-?mails|files|tools|messages|websites)\b",
        r"(?:^|[.:;>] ?)approve (?:all|every|any)\b",
        r"\btrust level\b",
        r"\bsame rank as\b",
        r"\bon_read\b",
    ),
    "loot": (
        r"\b(?:all|every|any|each|entire|whole|full)(?: of)?(?: the| your| my| our)? (?:\w+ )?(?:files?|e-?mails?|messages?|contacts?|data|records?|documents?|customers?|passwords?|notes|photos?|address(?:es)?|codes|history|tables?|backups?|logs?|activit(?:y|ies))\b",
        r"\b(?:the|your) (?:user|customer|client|owner|victim)'?s?'? (?:\w+ )?(?:files?|e-?mails?|messages?|contacts?|data|records?|documents?|address|location|card|calendar|history|credentials|identity|accounts?|api keys?|keys?|tokens?|passwords?|secrets?)\b",
        r"\b(?:customer|client|user|patient|employee) (?:list|data|table|database|records)\b",
        r"\b(?:production|entire|whole) (?:database|table|disk|bucket)\b",
        r"\b(?:remaining |account )balance\b",
        r"\bfunds\b",
        r"\bsource code\b",
        r"\bpayment details\b",
        r"\b(?:their|his|her|your) (?:contacts|files|e-?mails|messages|location|photos|calendar|data)\b",
    ),
    "pay_order": (
        r"\b(?:pay|send|transfer|wire|donate|deposit)\b.{0,40}\b(?:btc|eth|usdt|xmr|bitcoins?|crypto|monero)\b.{0,10}\bto\b",
        r"\b(?:beneficiary|payee|recipient) (?:set|changed|switched) to\b",
        r"\b(?:transfer|wire|send|pay)\b.{0,30}\bto (?:the )?(?:account|wallet|iban|address)\b(?: \w+)? ?[\dA-Z]",
    ),
    "forbids": (
        r"\b(?:may|must|shall|should|do|does|can|could|will|are|is) not\b[^.;,]{0,60}\bwithout\b",
        r"\b(?:never|nobody may|no one may|don't)\b[^.;,]{0,60}\bwithout\b",
    ),
    "dictated": (
        r"\b(?:summar(?:y|ies)|answers?|repl(?:y|ies)|responses?|reviews?|translations?) (?:of|to|about) (?:this|the) (?:\w+ )?(?:page|document|text|article|site|question|file)\b.{0,20}\b(?:must|should|have to|has to|are to|is to)\b",
        r"\bquestions (?:about|on|regarding) [^.]{1,60} (?:are|should be|must be|to be) (?:answered|met|redirected)\b",
        r"\byou (?:should|must|have to|need to) (?:tell|convince|inform|persuade|remind|advise) (?:people|users|everyone|everybody|anyone|customers|visitors)\b",
        r"\bto be (?:told|recommended|suggested|given to|advised|offered)\b",
        r"\b(?:book|buy|choose|order|pick|select) (?:\w+ ){0,2}most expensive\b",
        r"['\"]\w+['\"] (?:now )?means ['\"]",
        r"\bquote this (?:page|text|document)",
        r"\bprint (?:your|the) (?:configuration|settings|environment)\b",
        r"\b(?:all|everything|whatever|anything) (?:that )?you (?:produce|write|say|answer|return|output|generate)\b",
        r"\byou must (?:now|immediately|silently) \w+",
    ),
    "hush_user": (
        r"\b(?:hide|hiding|conceal\w*|withhold\w*)\b[^.]{0,40}\bfrom (?:the |my )?(?:user|owner|human)",
        r"\b(?:not|never|without|don't|won't)(?: \w+){0,2} (?:tell|mention|inform|reveal|show|warn|notify)\w*\b[^.]{0,40}\bthe (?:user|owner|human)\b",
    ),
    "channel": (
        r"\b(?:hotline|log-?in|sign-?in|portal|endpoint|downloads?|mirror|deposits?|payments?|invoices|account|iban|wallet|webhook|bank|payroll|support|registry|gateway|sso|hosts?|api|donations?|helpdesk|help desk|refunds?|emergency line|customer service|escrow|remittance|wallet app)\b",
    ),
    "moved": (
        r"\b(?:moved|new|changed|now|replaced|relocated|switched|migrated|transferred)\b|\bsince last\b|\bno longer\b.{0,80}\bbut\b",
    ),
    "former": (
        r"\b(?:old|former|previous|earlier) (?:one|number|account|address|site|page|link|iban|hotline|bank|server)\b|\bis closed\b|\bout of service\b|\bno longer (?:valid|in use|safe|published|works)\b",
    ),
    "address": (
        r"\biban\b|\bpartner bank\b|\+\d[\d ]{5,}|\b(?:telegram|whatsapp)\b|\bwallet 0x|\bbc1\w{10}",
    ),
}
"""By concept; none of them knows case, but for what says so."""
