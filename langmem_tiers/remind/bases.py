"""The words of cue_words.py by their bases, as sentences have them."""

from __future__ import annotations

from collections.abc import Iterable

from langmem_tiers.remind import cue_words as words
from langmem_tiers.remind.sentences import base


def _based(several: Iterable[str]) -> frozenset[str]:
    return frozenset(base(word) for word in several)


def _leads(several: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(base(word) for word in lead) for lead in several)


SAYING, ASKING_FOR = _based(words.SAYING), _based(words.ASKING_FOR)
COMPLAINING = _based(words.COMPLAINING)
TALKING = SAYING | ASKING_FOR | COMPLAINING
SPEAKING, MEETING = _based(["talk", "speak", "chat"]), _based(words.MEETING)
FUNCTION, GENERIC, TOPIC = map(_based, (words.FUNCTION, words.GENERIC, words.TOPIC))
FIRST, PRONOUNS, THIRD = map(_based, (words.FIRST, words.PRONOUNS, words.THIRD))
PREPOSITIONS, AUXILIARIES = _based(words.PREPOSITIONS), _based(words.AUXILIARIES)
BETWEEN, JOINING, WHERE = map(_based, (words.BETWEEN, words.JOINING, words.WHERE))
CONTACTING, DETERMINERS = _based(words.CONTACTING), _based(words.DETERMINERS)
ARRIVING, COUNTING, INCEPTIVE = map(_based, (words.ARRIVING, words.COUNTING, words.INCEPTIVE))
DEALING, PLANNING = _based(words.DEALING), _based(words.PLANNING)
STANDING_FOR = {base(name): _based(several) for name, several in words.STANDING_FOR.items()}
ACTIONS = frozenset(STANDING_FOR) | frozenset().union(*STANDING_FOR.values())
BEING, HERE = _based(["be", "have", "reach"]), _based(["here", "back"])
GETTING = _based(["get", "receive", "obtain"])
ONLY_AUXILIARY = AUXILIARIES - TALKING
BEFORE_NOUNS = PREPOSITIONS - {"to"} | _based(words.DETERMINERS)
BEFORE_VERBS = PRONOUNS | AUXILIARIES | {"to"}
ACCORDING = _based(["according"])
PLACES = _based(words.PLACES)
SUBJECTS = frozenset(words.SUBJECTS)
PARTICLES = frozenset(words.PARTICLES)
LEADING = PREPOSITIONS | BETWEEN
HIM = frozenset(words.HIM)
OURS = frozenset(words.OURS)
LATELY, DAYS = _based(words.LATELY), _based(words.DAYS)
BELOW = _based(words.BELOW)
STAND_INS = frozenset(words.STAND_INS)
DERIVED_ENDINGS = ("ion", "ions", "ment", "ments", "al", "als", "ance", "ence")
NOUN_ENDINGS = ("ion", "ions", "ment", "ments")
"""What ends so is the noun of a verb."""
LEADS, INSIDE_LEADS, AHEAD = map(_leads, (words.LEADS, words.INSIDE_LEADS, words.AHEAD))
ASKED, ADVERBS = _based(words.ASKED), _based(words.ADVERBS)
NEGATIONS, NEGATING, NEARLY = map(_based, (words.NEGATIONS, words.NEGATING, words.NEARLY))
NOT_AGENTS = NEGATIONS | ADVERBS
PARTLY = _based(words.PARTLY)
UNREAL, LONGING, THINKING = map(_based, (words.UNREAL, words.LONGING, words.THINKING))
FUTURE, PAST, LONG, TIMES = map(_based, (words.FUTURE, words.PAST, words.LONG, words.TIMES))
NEXT, LAST = _based(words.FUTURE_BEFORE_TIME), _based(words.PAST_BEFORE_TIME)
