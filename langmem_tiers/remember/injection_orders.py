"""Signs by what a text orders: to be done, kept, hidden or sent away."""

from __future__ import annotations

from typing import Final

from langmem_tiers.remember.injection_words import ASKED, HELD, MIND, NOT, OWN, SAY, SEND, sign

ORDERED: Final = (
    # From when and until when it wants to be heard.
    sign(
        "standing order",
        r"(?:from now on|from this (?:moment|point)(?: on)?|from here on|henceforth|going forward"
        r"|from today on|until further notice)",
        1,
        0.5,
    ),
    sign(
        "standing order",
        r"\b(?:in|for|at the start of|during|before) (?:all|every|each|any)(?: of your)?"
        r"(?: future| subsequent| later| new)? (?:conversation|session|repl|answer|response|message"
        r"|chat|turn)",
        1.5,
        0.5,
    ),
    sign("standing order", r"\b(?:always|never|permanently|forever|every time|each time)\b", 0.5),
    sign(
        "standing order",
        r"\b(?:always|must|shall|please|to) (?:recommend|praise|promote|prefer|suggest) [A-Z]\w+",
        1,
        0.5,
    ),
    sign(
        "standing order",
        rf"\b(?:when|whenever|if|every time|each time|once|as soon as)\b[^.!?]{{0,60}}\b{ASKED}"
        rf"[^.!?]{{0,60}}?(?:, | then |: )(?:\w+ ){{0,4}}?{SAY}\b",
        2,
        1,
    ),
    sign(
        "standing order",
        r"(?:when|whenever|as soon as|once|the next time|every time|each time|if) (?:the|this|any|a) "
        r"(?:user|customer|human|person)\b(?! (?:clicks|presses|selects|submits|opens|scrolls|types|enters|closes|signs|logs|taps))[^.!?]{0,50}(?:, |you )",
        1,
    ),
    sign(
        "standing order",
        r"\b(?:next time|whenever|each time|every time|when|before|after|if) you(?:'re| are)?"
        r" (?:are |next )?(?:asked|answer|repl|respond|read|write|use any|summari|translat|review|process)",
        1.5,
        0.5,
    ),
    sign(
        "standing order",
        r"before (?:you |it )?(?:answer|repl|respond|using this)\w*|before anything else",
        1.5,
        0.5,
    ),
    sign(
        "standing order",
        r"correct answer to (?:every|any|all)|to (?:any|every) quer(?:y|ies)",
        1.5,
        1,
    ),
    sign("standing order", r"in (?:each|every|your next|your) (?:reply|answer|response)", 1.5),
    # What is to be done.
    sign("order", r"\byou (?:must|shall|have to|are to|will(?: now)?|may now)\b", 0.5),
    sign("order", rf"\b{SAY} (?:that|with)\b", 1),
    sign(
        "order",
        r"(?:^|[.!?:;>\"(] ?|\band |\bto |\bthen |\bplease |\bnow |\bmust |\bshould |silently |instead,? )(?:tell|ask|inform|warn"
        r"|convince|persuade|instruct|direct|redirect|urge) (?:the|your) (?:user|customer|human)s?\b",
        1.5,
    ),
    sign(
        "order",
        r"\b(?:print|say|output|reply|respond|answer|write)(?: with| only| only with)?(?: the words?)?"
        r" [\"']?(?-i:[A-Z]{4,})\b|\b(?:output|print|reply with|say) the words?\b",
        1.5,
    ),
    sign("order", r"\b(?:respond|reply|answer|speak|write) only\b|\bspeak freely\b", 1.5),
    sign("order", r"\brm -rf / |execute the following command immediately", 1.5),
    sign(
        "order",
        r"\b(?:send|submit|forward|copy|transfer|wire|visit|bcc|cc|cite|link to|include)\b[^!?]{0,60}"
        r"(?:https?://|www\.|@\w|\w+\.(?:com|example|net|org|io)\b|account \d)",
        0.75,
        0.5,
    ),
    sign("order", r"\b(?:call|use|invoke|run) the [\w_]+ tool\b|using (?:this|the) tool", 1, 0.5),
    sign("order", r"\b(?:obey|comply|instructs? (?:me|you|the assistant))\b", 1, 1),
    sign(
        "order",
        r"(?:^|[.:;,!?)>] |\band |\binstead |\bto |\bwill |\bshall |\bmust |\bnow |\balways )"
        r"(?:silently |first |quietly |now |always )?(?:delete|drop|wipe|transfer|wire|forward|mail"
        r"|exfiltrate|upload|leak) (?:the|all|every|any|it|them|everything)\b",
        1,
        0.5,
    ),
    # What is to be kept.
    sign(
        "memory poisoning",
        r"\b(?:remember|memori[sz]e|keep (?:this )?in mind|store|save|persist|record|commit|write|add"
        r"|note|make a note|put)\b[^.!?]{0,50}\b(?:(?:your|persistent|long-term|its) (?:\S+ )?memor"
        r"|to memory\b(?! (?:usage|size))|for (?:later|future|all future|subsequent)|forever|permanently"
        r"|what you (?:know|remember)|about (?:this|the) user|user'?s? profile|later sessions)",
        2,
        0.5,
    ),
    sign("memory poisoning", r"\b(?:to|in|into|update|from|replace) your (?:\S+ )?memor", 2, 1),
    sign("memory poisoning", r"your memory is|what you (?:know|remember) about", 1.5, 1),
    sign(
        "memory poisoning",
        r"(?:^|[.!?:>\]] |please |should |must |to )(?:remember|(?:do not|don't) forget) ?(?:that|:)",
        1.25,
    ),
    sign(
        "memory poisoning", r"(?:told|instructed|asked) by (?:the|a) (?:web ?)?(?:site|page)", 2, 2
    ),
    sign("memory poisoning", r"from the (?:fetched )?(?:web ?)?page:|stored from (?:a )?web", 2, 2),
    sign(
        "memory poisoning",
        r"\b(?:website|web ?page|page|document|tool(?: output)?|e-?mail|file|pdf|article|result|site)"
        r" (?:said|says|told|instructs?|instructed|asked|requires?|states?|wants)(?: that)?"
        r" (?:i|me|we|us|the assistant|you)\b",
        2,
        2,
    ),
    sign("memory poisoning", r"\b(?:persist|insert|save|store|add|write) the following\b", 1.5, 1),
    sign("memory poisoning", r"(?:note|memo) to (?:self|agent|model|assistant)|to agent:", 1.5),
    # What is to be kept from the user.
    sign(
        "secrecy",
        rf"{NOT} (?:tell|inform|warn|notify|mention|reveal|show|let|disclose|telling|informing"
        r"|mentioning|alert)\b[^.!?]{0,30}?"
        r"\b(?:user|users|this|it|anyone|anybody|where|prompt|them|him|her|customer)\b",
        1.5,
        1.5,
    ),
    sign("secrecy", r"\b(?:silently|quietly|secretly|covertly)\b|hide (?:this|it) from", 1, 1),
    sign(
        "secrecy",
        rf"{NOT} (?:ever )?(?:verify|verifying|ask|asking|confirm|question)\b[^.!?]{{0,20}}?"
        r"(?:$|[.;,]|\bagain|\bfor|\bin\b|\bit\b|\band\b)",
        1,
        0.75,
    ),
    sign(
        "secrecy",
        r"\b(?:always|must|to) (?:\w+ )?b?cc\b|\bb?cc \S+@|a copy of (?:each|every|all)\b",
        1.5,
        1.5,
    ),
    # What is to leave the house.
    sign("exfiltration", rf"\b{SEND}\b[^.!?]{{0,60}}?{HELD}", 2, 1.5),
    sign(
        "exfiltration",
        rf"\b(?:append|print|output|include|read|give|pass|repeat|show|write|tell me)\b[^.!?]{{0,60}}?{OWN}",
        2,
        1.5,
    ),
    sign(
        "exfiltration",
        r"(?:repeat|print|output|show|reveal|display)\b.{0,20}(?:everything|all|text)? ?above this",
        2,
        1,
        1,
    ),
    sign("exfiltration", r"exfiltrat\w+|session cookie|stored credentials|user'?s credentials", 1),
    sign(
        "exfiltration",
        r"!\[[^\]]{0,200}\]\([^)]{0,500}[?&/=][^)]{0,500}[{<\[$]|<img[^<>]{0,300}src="
        r"[^<>?&]{0,500}[?&][^<>{\[$]{0,500}[{\[$]",
        3,
        2,
    ),
    sign(
        "exfiltration", r"\]\(https?:[^)]{0,300}[?&]\w{0,40}=(?:\$?(?-i:[A-Z_]{6,})|[{<\[])", 3, 2
    ),
    # What only who speaks to an assistant speaks of.
    sign(
        "addressed", rf"\b(?:if|by|using|any|anyone|dear|automated)\b.{{0,25}}\b{MIND}\b", 0.75, 0.5
    ),
    sign(
        "addressed",
        r"\bagents? (?:visiting|reading|that read|who read)\b|\bai (?:reviewers?|readers?|crawlers?)\b",
        1.5,
        1,
    ),
    sign(
        "addressed",
        r"\bfor the (?:bot|model|llm|ai)\b|\bmodel output\b|processed by an? (?:automated|ai)",
        1.5,
        0.5,
    ),
    sign(
        "order",
        r"\byour next (?:reply|answer|response|message|output|turn)|in (?:later|future|all) (?:chats?|conversations?)",
        1.5,
        0.5,
    ),
    sign(
        "order",
        r"\b(?:required|obliged|expected|obligated|instructed) to\b.{0,40}\buser'?s?\b",
        1.5,
        0.5,
    ),
    sign(
        "order",
        r"\bassume the (?:role|identity|persona)|\breprogrammed\b|\bnew rule\b|\bold constraints\b",
        1.5,
        1,
    ),
    sign(
        "order",
        r"\bdo (?:what|as|whatever)\b.{0,80}\b(?:says|tells|instructs|orders)\b|correct next (?:action|step) is",
        1.5,
        1,
    ),
    sign(
        "order",
        r"\bwhen(?:ever)? (?:generating|writing|answering|replying|responding|summari[sz]ing|coding)\b|\bwhenever code\b",
        1,
        0.5,
    ),
    sign(
        "order",
        r"\b(?:import|install|include|call|load|fetch)\b.{0,40}\b(?:from|to) \S+\.(?:com|net|io|org|example|xyz)\b",
        0.75,
        1,
    ),
    sign(
        "order",
        r"\bkeep (?:recommending|saying|mentioning|sending)|even if the user|then ignore it",
        1.5,
        1,
    ),
    sign("claim", r"supersedes? all|i am the owner|memory entry", 1.5, 0.5),
    sign(
        "secrecy",
        r"\bsecret from (?:the |your )?user|hide the (?:link|text|message)|hidden link|(?:humans?|reviewers|users?) cannot see",
        1.5,
        2,
    ),
)
