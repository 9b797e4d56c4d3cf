"""The words that the normal form of a text knows, by what they do in it."""

from __future__ import annotations

from typing import Final

from langmem_tiers.core.reading import listed

SLIGHT: Final = listed(
    "a an the this that these those there am is are was were be been being has have had having do "
    "does did also so but because although though both just then so very really he him his she "
    "her hers it its they them their theirs we us our ours team please now currently already "
    "basically usually actually who which whom own s t d m re ve und la le el los las les der die "
    "das ist и это"
)
"""Words without which a text says the same."""
SELF: Final = listed("i me my mine myself user users you your yours")
"""The one whose memory it is."""
BE: Final = listed("am is are was were be been being get gets got gotten")
PREPOSITIONS: Final = listed(
    "of in on at from to for with over by than instead before after during as into onto per "
    "against until till since between under above below about through within without around "
    "across behind beside near via towards toward except unlike despite"
)
"""They belong to the word that follows."""
STRICT: Final = listed(
    "over by than instead before after against until till without except unlike despite"
)
"""Prepositions that cannot be left out: they tell who does it, or which of two comes first."""
COMPOUND: Final = listed("of in for on from at to")
"""Prepositions in whose place two nouns may be put together: "the bug in the importer"."""
CLAUSES: Final = listed("and but because while whereas although though who which then")
"""Words at which a clause may begin."""
ORDER: Final = listed("then next afterwards later finally subsequently #1 before after")
"""Where one of them stands, the order of clauses tells something."""
TURNING: Final = listed(
    "not no never none nobody nothing without unless except only hardly neither nor cannot false "
    "if or may must should can could would will shall need all every some most few many any half "
    "almost nearly about approximately around least more less fewer maximum minimum maybe perhaps "
    "possibly probably likely often sometimes rarely always mostly wrong untrue again still "
    "anymore longer instead than over kein keine keinen nicht nie niemals ohne nur jamais pas "
    "sans nunca sin ni oder 不 没 未 無 ない не нет никогда لا لم لن ليس"
)
"""Words without which a text says something else: denial, condition, possibility, quantity."""
QUANTITIES: Final = listed(
    "all every some most few many any half more less fewer least maximum minimum again still than"
)
"""Those of them that belong to one phrase and not to the sentence."""
SAME: Final = {
    "never": "not", "each": "every", "might": "may", "otherwise": "or", "when": "if",
    "whenever": "if", "once": "if", "till": "until", "everyone": "all", "everybody": "all",
    "ought": "should", "requires": "require", "€": "euro", "eur": "euro", "$": "dollar",
    "usd": "dollar", "%": "percent", "£": "pound", "said": "say", "told": "tell", "says": "say",
    "bought": "buy", "paid": "pay", "sent": "send", "met": "meet", "left": "leave",
    "kept": "keep", "made": "make", "took": "take", "taken": "take", "gave": "give",
    "given": "give", "came": "come", "chose": "choose", "chosen": "choose", "wrote": "write",
    "written": "write", "found": "find", "built": "build", "broke": "break", "broken": "break",
    "held": "hold", "led": "lead", "lost": "lose", "ran": "run", "saw": "see", "seen": "see",
    "sold": "sell", "spoke": "speak", "spoken": "speak", "spent": "spend", "began": "begin",
    "begun": "begin", "grew": "grow", "grown": "grow", "knew": "know", "known": "know",
    "went": "go", "gone": "go", "thought": "think", "brought": "bring", "taught": "teach",
    "caught": "catch", "drove": "drive", "driven": "drive", "ate": "eat", "eaten": "eat",
    "drank": "drink", "slept": "sleep", "felt": "feel", "flew": "fly", "flown": "fly",
    "won": "win", "became": "become", "understood": "understand", "stood": "stand",
    "shown": "show", "children": "child", "lent": "lend", "froze": "freeze", "frozen": "freeze",
    "stole": "steal", "stolen": "steal", "rose": "rise", "risen": "rise", "fell": "fall",
    "fallen": "fall", "hidden": "hide", "owed": "owe", "owing": "owe", "goes": "go",
    "dealt": "deal", "meant": "mean", "sang": "sing", "swam": "swim", "wore": "wear",
    "worn": "wear",
}  # fmt: skip
"""Another form of the same word."""
PARTICIPLES: Final = listed(
    "sent bought paid kept made taken given chosen written found built broken held led lost run "
    "seen sold spoken spent begun grown known told said brought taught caught driven eaten shown "
    "cut set put shut split read stolen frozen hidden lent worn met won"
)
"""Participles that do not end with -ed."""
FRAMING: Final = listed(
    "say tell mention note state recall remember remind know learn see find indicate show confirm "
    "establish report observe record seem appear understand share express discuss store summarize "
    "summarise recap clarify reiterate repeat explain keep mind bear aware worth earlier "
    "previously before prior past last above previous recent recently accord based again like "
    "what context conversation memory record session chat reveal highlight describe document log "
    "list capture emphasize emphasise stress announce person history discussion message notes "
    "assistant agent ai bot system human speaker summary short brief fyi self clear fact it "
    "important interesting conclusion far ok okay well ich mich wie bereits gesagt erwähnt "
    "bekannt erinnere laut meinem gedächtnis notizen dass zur erinnerung que qué como se mencionó "
    "antes según mi memoria recuerdo rappel mémoire d'après ma je me souviens ya он я помню как "
    "известно что 根 据 我 的 记 忆 得 所 知"
)
"""Words that tell where a text is from, and nothing of what it says."""
LABELS: Final = listed(
    "fact preference decision summary note insight key takeaway main lesson learned learn rule "
    "procedure process setup update cause root event observation conclusion detail information "
    "info reminder warning important memory item entry text content value description statement "
    "confidence certainty score importance relevance high low medium date time timestamp created "
    "source type kind category topic subject title name speaker role user assistant agent id tip "
    "finding knowledge context background profile attribute trait requirement constraint policy "
    "todo task goal plan step steps goals facts notes insights takeaways preferences decisions "
    "lessons memories observations highlights highlight point points action result outcome effect "
    "asked recap overview analysis interpretation extraction extracted extract new known recalled "
    "stored saved technical personal general work project team security infrastructure health "
    "diet food travel family hobby finance configuration config environment deployment operation "
    "schedule contact relationship location habit instruction guideline workflow status issue "
    "problem solution bug fix experience opinion request answer question response semantic "
    "episodic procedural working long short term tldr dialogue quote output approval best "
    "practice"
)
"""Words of a heading or a field's name."""
MEASURES: Final = listed(
    "confidence certainty score importance relevance priority timestamp created type kind "
    "category source role id"
)
"""Fields that tell of the note and not of what it notes."""
MONTHS: Final = {
    word: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul",
         "august aug", "september sep sept", "october oct", "november nov", "december dec"),
        start=1,
    )
    for word in names.split()
}  # fmt: skip
SAYING: Final = listed("say tell mention note state confirm report explain")
SCOPES: Final = listed(
    "production staging development dev prod test testing local weekend weekends weekdays monday "
    "tuesday wednesday thursday friday saturday sunday spring summer autumn winter morning "
    "evening afternoon night today tomorrow yesterday exception correction update"
) | frozenset(MONTHS)
"""Headings that limit what follows, or replace it."""
ORDERS: Final = ("do not ", "never ", "always ", "please ", "make sure ", "remember to ")
"""What an order may begin with."""
_SMALL: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
)
_TENS: Final = "thirty forty fifty sixty seventy eighty ninety"
_NTH: Final = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
NUMBERS: Final = {one: number for number, one in enumerate(_SMALL.split())} | {
    one: 10 * number for number, one in enumerate(_TENS.split(), start=3)
}
SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
ORDINALS: Final = {one: f"#{number}" for number, one in enumerate(_NTH.split(), start=1)}
