"""The plainest signs of an instruction in other languages than English."""

from __future__ import annotations

import re
from typing import Final

SET_ASIDE: Final = re.compile(
    "|".join(
        (
            # German, Dutch, Swedish
            r"(?:ignorier\w*|vergiss|vergesst|missachte\w*|überschreib\w*)\b.{0,40}?(?:vorherig|bisherig"
            r"|vorig|früher|obig|zuvor|vorher|alle).{0,20}?(?:anweisung|instruktion|regel|befehl|vorgabe"
            r"|gesagt|aufgetragen)",
            r"(?:negeer|vergeet)\b.{0,30}?(?:eerdere|vorige|voorgaande|bovenstaande|alle).{0,20}?"
            r"(?:instructies|opdrachten|regels)",
            r"(?:ignorera|glöm|ignorer|glem)\b.{0,30}?(?:tidigare|föregående|tidligere|alla|alle).{0,20}?"
            r"(?:instruktion|anvisning|regl|regel)",
            # Spanish, Portuguese, Italian, French, Catalan, Romanian
            r"(?:ignor[ae]\w*|olvid[ae]\w*|esque[cç]\w*|desconsider\w*|dimentic\w*|haz caso omiso|descart\w*"
            r"|trascur\w*)\b.{0,40}?(?:instruc\w+|istruzion\w+|instruç\w+|reglas|regras|regole|indica\w+"
            r"|órdenes|ordens)",
            r"(?:ignor\w*|oubli\w*|ne t\w+ (?:plus |pas )?compte)\b.{0,40}?(?:instructions|consignes"
            r"|directives|règles)",
            # Polish, Czech, Russian, Ukrainian
            r"(?:zignoruj|ignoruj|zapomnij|zapomeň)\w*\b.{0,40}?(?:polece\w+|instrukc\w+|pokyn\w*|zasad\w*)",
            r"(?:игнорир\w+|забуд\w+|проигнорир\w+|ігнор\w+|не следуй)\b.{0,40}?(?:инструкц\w+|указани\w+"
            r"|правил\w*|команд\w*|інструкц\w+|приказ\w*)",
            # Turkish, Vietnamese, Indonesian
            r"(?:önceki|tüm|yukarıdaki).{0,20}?(?:talimat\w*|kural\w*|komut\w*).{0,20}?(?:yok say|unut|görmezden)",
            r"(?:bỏ qua|quên)\b.{0,30}?(?:hướng dẫn|chỉ dẫn|lệnh)",
            r"(?:abaikan|lupakan)\b.{0,30}?(?:instruksi|perintah|aturan)",
            # Chinese, Japanese, Korean
            r"(?:忽略|无视|無視|忘记|忘記|忘掉|不要遵守|不再遵守|覆盖).{0,15}?(?:指令|指示|命令|规则|規則|提示|设定|要求)",
            r"(?:指示|命令|ルール|プロンプト|規則).{0,12}?(?:無視|忘れ|破棄|上書き)",
            r"(?:지시|명령|지침|규칙|프롬프트).{0,12}?(?:무시|잊어|잊고)",
            # Arabic, Persian, Hebrew, Hindi
            r"(?:تجاهل|انس[َى]?|اهمل|تجاوز).{0,30}?(?:تعليمات|التعليمات|أوامر|الأوامر|القواعد|إرشادات|الإرشادات)",
            r"(?:دستور\w*|قوانین).{0,20}?(?:نادیده|فراموش)",
            r"(?:התעלם|התעלמי|שכח).{0,30}?(?:הוראות|ההוראות|כללים|הנחיות)",
            r"(?:निर्देश|आदेश|नियम).{0,25}?(?:अनदेखा|अनदेखी|भूल|नज़रअंदाज़)",
        )
    ),
    re.IGNORECASE,
)
"""To set earlier instructions aside."""

STANDING: Final = re.compile(
    "|".join(
        (
            r"(?:ab jetzt|von nun an|ab sofort|künftig)\b.{0,20}?\b(?:du|sie|musst|sollst|immer|antworte\w*"
            r"|empfiehl\w*|sag\w*)\b",
            r"(?:de ahora en adelante|a partir de (?:ahora|agora)|de agora em diante|d'ora in poi|da ora in poi)"
            r"\b.{0,30}?\b(?:siempre|debes|responde\w*|recomienda\w*|sempre|deve\w*|recomend\w*|consigli\w*|di)\b",
            r"(?:à partir de maintenant|désormais|dorénavant)\b.{0,30}?\b(?:tu|vous|toujours|réponds|dois|recommande\w*)\b",
            r"(?:с этого момента|отныне|теперь)\b.{0,30}?\b(?:всегда|ты|вы|отвечай\w*|рекоменд\w*|должен)\b",
            r"(?:od teraz|odtąd|vanaf nu|från och med nu|fra nå av)\b.{0,30}?\b(?:zawsze|musisz|altijd|moet|alltid|du)\b",
            r"(?:从现在(?:开始|起)|今后|以后).{0,10}?(?:你|必须|总是|都要|回答|推荐)",
            r"(?:これから|今後)は?.{0,15}?(?:必ず|常に|いつも|答え|勧め|推奨)",
            r"(?:앞으로|지금부터).{0,15}?(?:항상|반드시|대답|추천)",
            r"(?:من الآن فصاعدا|من الآن).{0,25}?(?:دائما|يجب|أجب|أوص)",
            r"(?:अब से|अबसे).{0,20}?(?:हमेशा|जवाब|सिफारिश)",
        )
    ),
    re.IGNORECASE,
)
"""What is to be done from now on: an order if no user says it."""

KEEPING: Final = re.compile(
    "|".join(
        (
            r"\b(?:merke? dir|speichere|behalte) (?:dauerhaft|für immer|als|im gedächtnis|dass)",
            r"\b(?:recuerda|guarda|memoriza|lembre-se|guarde|ricorda|memorizza) (?:que|en|na|che|per|in) ",
            r"\b(?:souviens-toi|retiens|mémorise|enregistre) (?:que|dans|bien|ceci)",
            r"(?:запомни\w*|сохрани\w* в памят)",
            r"(?:请记住|請記住|务必记住|记住|保存到(?:你的)?记忆|存入记忆)",
            r"(?:覚えておいて|記憶して|メモリに保存|기억해|저장해)",
            r"(?:تذكر أن|احفظ في ذاكرتك|याद रखो|याद रखें)",
        )
    ),
    re.IGNORECASE,
)
"""What is to be kept in memory: an order if no user says it."""

SQUASHED: Final = re.compile(
    r"(?:ignore|disregard|forget|override|bypass)(?:all|any|the|your|my|of|these|those|every)*"
    r"(?:previous|prior|above|earlier|preceding|former|system|safety|original|initial)"
    r"(?:instruction|direction|rule|guideline|prompt|order|command|restriction|message|directive)"
)
"""The plainest order as letters alone."""

SQUASHED_ANY: Final = re.compile(SQUASHED.pattern.replace("initial)", "initial|all)+"))
"""The same with fewer words; for letters that were turned, which say nothing by chance."""
