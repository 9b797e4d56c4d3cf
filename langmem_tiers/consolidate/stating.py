"""Whether a sentence states plainly how things are, and what is left of it then."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from langmem_tiers.consolidate.lexicon import NEGATIONS, listed
from langmem_tiers.consolidate.wording import Word, asks, plain

Words = tuple[Word, ...]

_UNSURE: Final = listed(
    "might may maybe perhaps probably possibly likely seems seem seemed appears appear apparently"
    " presumably reportedly allegedly supposedly could would should shall will can ought wants want"
    " wanted plans planned planning hopes hope considering considers thinking about around"
    " roughly approximately almost nearly if whether unless when whenever suppose supposed until"
    " sometimes often usually mostly rarely normally typically occasionally also either or both"
    " except instead unsure"
)
_TOLD: Final = listed(
    "says said say saying tell tells told think thinks thought believe believes believed claims"
    " claimed states stated mention mentions mentioned heard hear hears assume assumes assumed"
    " ask asks asked wrote writes suggest suggests suggested according rumour rumor guess guesses"
    " reckon suspects wonder wonders expects expected recommends recommended proposed"
)
_PAST: Final = listed(
    "previously formerly former once earlier originally initially ago past old ex"
)
_PAST_VERBS: Final = listed(
    "was were had did worked lived resided ran started began happened ended owned led reported"
    " maintained listened liked"
)
_ANAPHORA: Final = listed(
    "he she it they this that these those there who which what his her its their someone somebody"
    " everyone everybody anyone anybody nobody"
)
_PARTIAL: Final = listed("only always all every each yet necessarily even")
"""After "not": then something of it may well be true."""
_SINCE: Final = (("from", "on"), ("as", "of"), ("since",), ("starting",), ("effective",))
"""What begins a phrase that says since when; "from now on" has lost its "now"."""
_SINCE_WORDS: Final = 5
_LATELY: Final = (("yesterday",), ("today",), ("recently",), ("lately",))
_NOW: Final = (("these", "days"), ("at", "moment"), ("at", "present"), ("again",))
_QUOTED: Final = re.compile(r"[\"“”«»](?=[^\s\"“”«»]*+\s)[^\"“”«»]*+[\"“”«»]")
_FEWEST, _MOST = 2, 40
"""Words of a sentence: somebody and something; of a longer one, the first."""


def stated(sentence: str) -> Words:
    """Its words without what says since when; none if it is not plain."""
    words = _updated(plain(sentence)[:_MOST])
    return () if len(words) < _FEWEST or _reserved(sentence, words) else words


def past(words: Words) -> bool:
    """Whether a verb among them tells of what was."""
    return any(one.form in _PAST_VERBS for one in words)


def _reserved(sentence: str, words: Sequence[Word]) -> bool:
    """Whether it is asked, told by somebody, unsure, past, or of what was mentioned before."""
    if asks(sentence) or _QUOTED.search(sentence):
        return True
    forms = {one.form for one in words}
    return not forms.isdisjoint(_UNSURE | _TOLD | _PAST | _ANAPHORA) or any(
        (one.form, other.form) == ("used", "to") for one, other in pairwise(words)
    )


def _updated(words: Words) -> Words:
    """Without what says since when: "as of today", "from now on", "since the merger"."""
    if _forms(words[-1:]) in _LATELY or _forms(words[-2:-1]) == ("last",):
        return _updated(words[: -1 if _forms(words[-1:]) in _LATELY else -2])
    for place, one in enumerate(words):
        for phrase in _NOW:
            if _forms(words[place:])[: len(phrase)] == phrase:
                return _updated(words[:place] + words[place + len(phrase) :])
        head = next((head for head in _SINCE if _forms(words[place:])[: len(head)] == head), None)
        if head is None or (one.form == "from" and "to" in _forms(words[place:])):
            continue
        end = len(words) if place else _opening(words, len(head))
        if place == 1 or end - place > _SINCE_WORDS:
            continue
        return words[:place] + words[end:]
    return words


def _opening(words: Words, head: int) -> int:
    """Where an opening "since the merger" ends: at its comma, else after one noun or date."""
    for place, one in enumerate(words[:_SINCE_WORDS]):
        if one.comma:
            return place + 1
    if head > 1 and words[head - 1].form == "on":
        return head
    return head + 1 + (words[head].form in ("this", "last", "next")) if head < len(words) else head


def _forms(words: Words) -> tuple[str, ...]:
    return tuple(one.form for one in words)


def affirmed(words: Words) -> tuple[Words, bool]:
    """The words without their negation, and whether there was one; no words if it is unclear."""
    forms = [*(one.form for one in words), ""]
    gone = {place for place, form in enumerate(forms) if form == "anymore"}
    count = 0
    for place, form in enumerate(forms[:-1]):
        following = forms[place + 1]
        if form == "no" and following == "longer":
            gone |= {place, place + 1}
            count += 1
        elif form in ("not", "never") and following not in _PARTIAL:
            gone.add(place)
            count += 1
        elif form in NEGATIONS:
            return (), False
    if count > 1:
        return (), False
    return tuple(one for place, one in enumerate(words) if place not in gone), count == 1
