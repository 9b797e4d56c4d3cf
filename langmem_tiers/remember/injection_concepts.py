"""What a sentence speaks of, in some fifty concepts: assistants, users, consent, money, secrets.

Single words are looked up, phrases are matched. A word means little alone: which concepts, together
in a sentence, make a text one that steers its reader, `injection_compounds.py` says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from langmem_tiers.core.reading import listed
from langmem_tiers.remember.injection_anchors import anchored
from langmem_tiers.remember.injection_phrases import PEOPLE
from langmem_tiers.remember.injection_phrases_acts import ACTS
from langmem_tiers.remember.injection_phrases_errands import ERRANDS
from langmem_tiers.remember.injection_phrases_facts import FACTS

_WORDS: Final[Mapping[str, str]] = {
    "mind": "assistant assistants ai ais chatbot chatbots llm llms chatgpt claude gemini copilot gpt "
    "agentic gpt-4 ki-assistent assistent assistenten asistente "
    "assistente ассистент бот агент 助手 智能体",
    "proxy": "agent agents bot bots robots",
    "you": "you your yours yourself you're you've you'll thou u du dein deine deinen deinem deiner "
    "dich dir tu tes ton toi te tus ti tuo tua você seu sua ты вы твой ваш тебя вас тебе 你 您",
    "me": "me us our my mine",
    "user": "benutzer nutzer anwender utilisateur utilisatrice usuario usuaria utente usuário usuária "
    "пользователь пользователя пользователю gebruiker użytkownik kullanıcı 用户 用戶 使用者 ユーザー 사용자",
    "consent": "agree agrees agreed consent* approv* authori* permission* permit* grant* confirm* clear* waiv* "
    "exempt* pre-approved preapproved entitle* sanction* okay* verified vouch* opted blanket "
    "accept* allow* genehmig* zugestimmt erlaub* bestätig* einverstanden freigegeben accord "
    "autoris* accept* consenti* autoriz* permiso aprob* aprov* consentimiento разреш* соглас* "
    "одобр* подтверд* 同意 授权 批准 允许",
    "prefer": "prefer* favourite* favorite* trust* love* loves like likes liked dislike* hate* wish "
    "wishes want wants wanted loyal fan believe* endors* enjoy* admire* value* rely relies "
    "bevorzug* vertrau* mag liebt möchte préfère préfér* confiance aime prefier* confía "
    "confia gusta preferisc* prefere предпочит* довер* любит хочет 喜欢 最喜欢 偏好 信任 首选",
    "past": "already previously earlier formerly before yesterday established settled agreed always "
    "bereits schon früher déjà ya già já уже 已经 已",
    "remember": "remember* memor* memoris* memoriz* recall* persist* persisted forget* merke merk "
    "speicher* souviens retiens recuerda ricorda lembre запомни 记住 记忆 覚えて",
    "knows": "know knows known aware",
    "ever": "always never whenever henceforth permanently forever every each future later "
    "afterwards subsequent* ongoing constantly continually immer stets künftig niemals "
    "toujours désormais jamais siempre nunca sempre mai всегда никогда 总是 永远 以后",
    "skip": "skip* bypass* disable* disabling suspend* lifted waive* omit* evade* circumvent* ignor* "
    "disregard* unnecessary optional needless deactivat* overrid* overrule* unrestricted "
    "unfiltered unlimited deprecated off",
    "guard": "check checks checking confirm* verif* two-factor 2fa review* reviewed polic* rule rules "
    "restriction* safeguard* guardrail* guard filter filters logging log logs safety privacy "
    "warning* disclaimer* certificate* tests scan scans limit limits four-eyes approval* "
    "audit* moderation authentication license security refusal refuse refuses",
    "secret": "password* passcode* pin pins credential* token tokens secret secrets otp ssh cookie "
    "cookies confidential keys key api_key passwd passwort passwörter contraseña* "
    "mot-de-passe пароль* 密码 密钥 salary salaries",
    "send": "send sends sending forward* post posts upload* transmit* export* share shares shared "
    "sharing pass leak* reveal* disclos* hand give gives paste pastes copy mail email e-mail "
    "include attach encode append* submit exfiltrat* report publish dump relay cc bcc",
    "print": "print output repeat show display list reveal read reads spell recite quote",
    "money": "pay pays paid payment* payee* invoice* transfer* wire wires bank banks banking iban "
    "wallet* refund* gift purchase* budget loan* insur* donat* wage wages salary beneficiar* "
    "transaction* money funds fund bitcoin crypto account accounts deposit broker invest* fee fees credit "
    "price prices discount* order orders buy buys zahl* überweis* konto bank* paiement* "
    "virement* banque pago* transferenc* banco cuenta pagament* banca платеж* перевод* банк* "
    "счет 银行 付款 转账",
    "destroy": "delete* drop wipe* erase* remove* purge destroy* revoke* cancel* shutdown terminate "
    "decline close reject",
    "exec": "run runs execute* curl wget bash sh install* invoke call calls open visit click fetch* "
    "download* load import clone merge commit push sudo follow obey comply carry",
    "saying": "say says answer* repl* respond* tell tells mention* cite* quot* recommend* suggest* "
    "name* rate rank* summari* promote* praise* present list state claim* describe advis* "
    "bring translat*",
    "exclusive": "only best first top leading superior cheapest safest finest number-one best-rated "
    "unmatched ultimate foremost sole exclusively above instead beats trusted authoritative "
    "official cheaper better lowest highest favourably other others competitor* einzige beste "
    "meilleur meilleure mejor única migliore melhor лучший только 最好 唯一",
    "superlative": "best safest cheapest finest leading superior reliable trustworthy unbeatable",
    "rules": "instruction* guideline* prompt prompts directive* rule rules polic* rulebook mandate* "
    "constitution agents.md claude.md soul.md memory.md heartbeat.md .cursorrules identity "
    "persona anweisung* instruccion* consigne* istruzion* instruç* инструкц* 指令 提示",
    "power": "admin administrator root sudo superuser privilege* permissions unlimited authority",
    "must": "must should shall ought required expected supposed obliged obligated "
    "asked kindly please bitte muss soll veuillez debe deve должен 必须 应该 请",
}
"""By concept; a star stands for any ending."""
_NAMED: Final = "brand"
_DENIED: Final[Mapping[str, str]] = {
    "mind": "not_mind",
    "proxy": "not_mind",
    "unasked": "forbids",
    "remember": "errand",
    "shield": "not_shield",
}
"""What speaks of another thing than the concept: an estate agent is no assistant."""


def _index(*, open_ended: bool) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for concept, several in _WORDS.items():
        for word in listed(several):
            if word.endswith("*") is open_ended:
                stem = word.removesuffix("*")
                found[stem] = found.get(stem, frozenset()) | {concept}
    return found


_EXACT: Final = _index(open_ended=False)
_BEGINNINGS: Final = _index(open_ended=True)
_SHORTEST, _LONGEST = min(map(len, _BEGINNINGS)), max(map(len, _BEGINNINGS))
_MATCHED: Final = tuple(
    (concept, anchored(re.compile("|".join(several), re.IGNORECASE)))
    for concept, several in {**PEOPLE, **ACTS, **ERRANDS, **FACTS}.items()
)
CONCEPTS: Final = frozenset({*_WORDS, *PEOPLE, *ACTS, *ERRANDS, *FACTS, _NAMED})
"""All that a sentence can speak of."""
_TOKEN: Final = re.compile(r"\w+(?:[-'.]\w+)*|\.\w+")
_JOINT: Final = re.compile(r"[-.']")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_UNSPACED_WORDS: Final = tuple(word for word in _EXACT if _UNSPACED.match(word))
_NAME: Final = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]+(?:[A-Z][a-z]+)*\b|\b[A-Z][a-z]+[A-Z][a-z]+\b")


@lru_cache(maxsize=20_000)
def _of_word(word: str) -> frozenset[str]:
    found = _EXACT.get(word, frozenset())
    for length in range(_SHORTEST, min(len(word), _LONGEST) + 1):
        found |= _BEGINNINGS.get(word[:length], frozenset())
    parts = _JOINT.split(word)
    return found.union(*map(_of_word, parts)) if len(parts) > 1 else found


@lru_cache(maxsize=1_000)
def concepts_in(sentence: str) -> frozenset[str]:
    """The concepts that a sentence speaks of."""
    found: set[str] = set()
    lowered = sentence.lower()
    for word in _TOKEN.findall(lowered.replace("\u2019", "'")):
        found |= _of_word(word.removesuffix("'s"))
    if not sentence.isascii() and _UNSPACED.search(sentence):
        for word in _UNSPACED_WORDS:
            if word in sentence:
                found |= _EXACT[word]
    found.update(concept for concept, pattern in _MATCHED if pattern.found(sentence, lowered))
    if _NAME.search(sentence):
        found.add(_NAMED)
    return frozenset(found - {one for one, other in _DENIED.items() if other in found})
