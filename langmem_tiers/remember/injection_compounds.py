"""Which concepts, together in a sentence, make a text one that steers its reader.

They hold for whoever is no user: in what a tool returned or a page says, nobody has cause to tell what
the user wants, to free an assistant of its checks, or to name what it is to remember. An agent's own
notes speak of its user and its work all day, so little of it counts there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from langmem_tiers.remember.injection_words import ENOUGH, Voice


class Compound(NamedTuple):
    """Concepts that show a kind of instruction when they are met together."""

    kind: str
    concepts: frozenset[str]
    share: Mapping[Voice, float]
    """Of what is enough to hold a text back, by voice."""


_OUTSIDE: Final[Mapping[str, str]] = {
    "addressed": "mind skip|mind consent|mind knows|mind standing|mind ever|mind exclusive|mind prefer"
    "|mind remember|mind money|mind destroy|mind send|mind past|mind power|mind me|mind guard"
    "|mind must|mind brand saying|mind owned"
    "|proxy send|proxy exclusive|proxy consent|proxy must|proxy guard|proxy shield|proxy secret|proxy skip"
    "|proxy rules|proxy standing|proxy destroy|proxy power|proxy prefer|proxy past",
    "boot file": "rules_file",
    "claim": "guard_off|unasked|user_claim|user_fact|you_claim|as_agreed money|as_agreed secret"
    "|as_agreed prefer|as_agreed url|as_agreed consent|user prefer|user consent|user money|user past"
    "|user standing|user ever|user exclusive|entitled|guard revoked",
    "belittling": "shield moot|shield annoys|critique refuted brand|assured",
    "exfiltration": "hand_over|loot send url|loot send me|loot send mind|own_words send"
    "|own_words url|own_words you|own_words consent|own_words mind|own_words skip",
    "memory poisoning": "meta_memory|remember brand money|remember exclusive brand|remember you standing"
    "|reminds brand|reminds url|reminds money|reminds ever|reminds consent|reminds guard|reminds secret",
    "order": "for_all|pay_order|dictated|task|intrudes|confers|mine",
    "override": "above|you rules skip",
    "persona": "persona",
    "promotion": "promote|superlative brand money|crowd superlative brand",
    "redirection": "redirect|channel moved url|channel moved former|channel moved address",
    "role imitation": "mark",
    "secrecy": "hush",
    "standing order": "standing url send|standing url exec|standing money brand|standing saying",
}
_AGENT: Final[Mapping[str, str]] = {
    "belittling": "shield annoys",
    "claim": "unasked|for_all|guard_off ever|guard_off standing|hearsay|user_claim loot|sourced guard_off|sourced loot send"
    "|sourced send url",
    "override": "above",
    "persona": "persona",
    "promotion": "promote",
    "role imitation": "mark",
    "secrecy": "hush_user",
}
_HALF: Final[Mapping[str, str]] = {"override": "set_aside", "order": "instead"}
"""What takes two sentences: "Ignore the essay. Instead, …"."""


def _compounds() -> tuple[Compound, ...]:
    outside: Mapping[Voice, float] = {"outside": 1.0}
    agent: Mapping[Voice, float] = {"agent": 1.0}
    half: Mapping[Voice, float] = {"outside": 0.5, "agent": 0.5}
    return tuple(
        Compound(kind, frozenset(line.split()), share)
        for table, share in ((_OUTSIDE, outside), (_AGENT, agent), (_HALF, half))
        for kind, lines in table.items()
        for line in lines.split("|")
    )


COMPOUNDS: Final = _compounds()


def compound_weights(concepts: frozenset[str], voice: Voice) -> dict[str, float]:
    """What each kind of compound weighs in a sentence that speaks of these concepts."""
    found: dict[str, float] = {}
    for kind, needed, share in COMPOUNDS:
        if voice in share and needed <= concepts:
            found[kind] = max(found.get(kind, 0.0), share[voice] * ENOUGH[voice])
    return found
