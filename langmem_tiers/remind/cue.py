"""Whether a text shows a cue: "when Anna mentions the budget".

By words alone: every content word of the cue is said, in any form, or by a word that stands for
it; by whom the cue names; and it is said to be so, and not denied, asked, supposed, foretold, or
told of times long past.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from langmem_tiers.remind import cue_words as known
from langmem_tiers.remind.sentences import Clause, Sentence, Word, base, read
from langmem_tiers.remind.tense import is_denied, is_past, is_unreal


def _based(words: Iterable[str]) -> frozenset[str]:
    return frozenset(base(word) for word in words)


_SAYING, _ASKING_FOR = _based(known.SAYING), _based(known.ASKING_FOR)
_COMPLAINING = _based(known.COMPLAINING)
_TALKING = _SAYING | _ASKING_FOR | _COMPLAINING
_FUNCTION, _GENERIC, _TOPIC = map(_based, (known.FUNCTION, known.GENERIC, known.TOPIC))
_FIRST, _PRONOUNS, _THIRD = map(_based, (known.FIRST, known.PRONOUNS, known.THIRD))
_PREPOSITIONS, _AUXILIARIES = _based(known.PREPOSITIONS), _based(known.AUXILIARIES)
_ARRIVING, _COUNTING, _INCEPTIVE = map(_based, (known.ARRIVING, known.COUNTING, known.INCEPTIVE))
_STANDING_FOR = {base(name): _based(words) for name, words in known.STANDING_FOR.items()}
_ACTIONS = frozenset(_STANDING_FOR) | frozenset().union(*_STANDING_FOR.values())
_BEING, _HERE = _based(["be", "have", "reach"]), _based(["here", "back"])
_GETTING = _based(["get", "receive", "obtain"])
_ONLY_AUXILIARY = _AUXILIARIES - _TALKING
_BEFORE_NOUNS = _PREPOSITIONS - {"to"} | _based(known.DETERMINERS)
_LEADS = tuple(tuple(base(word) for word in lead) for lead in known.LEADS)
_ASKED, _NEGATIONS = _based(known.ASKED), _based(known.NEGATIONS)


@dataclass(frozen=True, slots=True)
class Cue:
    """A cue, taken apart."""

    needed: tuple[frozenset[str], ...]
    """For each content word the bases that show it."""
    action: frozenset[str]
    """What is done, by the bases that show it; empty if it is no known word."""
    talking: bool = False
    """Whether it is about what is said."""
    agent: frozenset[str] = frozenset()
    """Who does it, where that matters."""
    optional: bool = False
    """Whether the action may go without saying."""
    denied: bool = False


def anchors(cue: str) -> tuple[str, ...]:
    """Bases that every text which shows the cue holds, sorted."""
    needed = _cue(cue).needed
    alone = {word for one in needed if len(one) == 1 for word in one}
    return tuple(sorted(alone or {f"~{' '.join(sorted(one))}" for one in needed}))


def features(text: str) -> frozenset[str]:
    """Every anchor that a text holds."""
    words = frozenset(word.base for one in read(text) for word in one.words)
    several = {f"~{' '.join(sorted(one))}" for one in _STANDING_FOR.values() if one & words}
    return words | several


def matches(cue: str, text: str) -> bool:
    """Whether a text shows a cue, in one sentence, or in two of which the latter goes on."""
    wanted, sentences = _cue(cue), read(text)
    if any(_shows(wanted, one, frozenset()) for one in sentences):
        return True
    return any(
        _shows(wanted, _joined(first, second), _THIRD) for first, second in pairwise(sentences)
    )


def _joined(first: Sentence, second: Sentence) -> Sentence:
    return Sentence((*first.clauses, *second.clauses), second.asks)


def _shows(cue: Cue, sentence: Sentence, stand_ins: frozenset[str]) -> bool:
    words = sentence.words
    said = frozenset(word.base for word in words)
    if not all(said & one for one in cue.needed):
        return False
    if cue.talking:
        return _talks(cue, sentence, stand_ins)
    places = [n for n, word in enumerate(words) if word.base in cue.action]
    if cue.action and not places and not (cue.optional and _is_there(words)):
        return False
    if not cue.action and not _is_so(cue, sentence):
        return False
    if cue.agent and not _by(cue, words, places or _places(cue, words), stand_ins):
        return False
    return _so(cue, sentence, places or _places(cue, words))


def _is_so(cue: Cue, sentence: Sentence) -> bool:
    """Whether nothing else is told to be done where it would have to be said how things are."""
    clause, _ = _clause_of(sentence, _places(cue, sentence.words)[0])
    said = frozenset(word.base for word in clause)
    shown = frozenset().union(*cue.needed)
    return bool(said & _BEING) or not said & (_ACTIONS - _HERE - _ARRIVING - _INCEPTIVE - shown)


def _is_there(words: Sequence[Word]) -> bool:
    """Whether somebody is, or has, and does nothing else that we know of."""
    said = frozenset(word.base for word in words)
    return not said & (_ACTIONS - _HERE) and bool(said & _BEING or not said & _AUXILIARIES)


def _places(cue: Cue, words: Sequence[Word]) -> list[int]:
    """Where the last of the content words stands."""
    return [n for n, word in enumerate(words) if any(word.base in one for one in cue.needed)][-1:]


def _talks(cue: Cue, sentence: Sentence, stand_ins: frozenset[str]) -> bool:
    """Whether it is spoken of, by whom the cue names."""
    words = sentence.words
    places = [n for n, word in enumerate(words) if word.base in cue.action]
    if not cue.agent:
        return not places or not _denied_talk(sentence, places)
    if places:
        return _by(cue, words, places, stand_ins) and _so(cue, sentence, places, talk=True)
    other = {word.base for word in words} & (_ACTIONS | _TALKING)
    return not other and _so(cue, sentence, _places(cue, words))


def _denied_talk(sentence: Sentence, places: Sequence[int]) -> bool:
    clause, place = _clause_of(sentence, places[0])
    return is_denied(clause, place, near=True) or (
        is_unreal(clause, place, talk=True) and not sentence.asks
    )


def _so(cue: Cue, sentence: Sentence, places: Sequence[int], *, talk: bool = False) -> bool:
    """Whether it is said to be so, at any of these places."""
    return any(_so_at(cue, sentence, place, talk=talk) for place in places)


def _so_at(cue: Cue, sentence: Sentence, at: int, *, talk: bool) -> bool:
    clause, place = _clause_of(sentence, at)
    if is_denied(clause, place, near=talk) is not cue.denied:
        return False
    if is_past(sentence, talk=talk) or is_unreal(clause, place, talk=talk):
        return False
    return not (sentence.asks and clause[0].base in _AUXILIARIES)


def _clause_of(sentence: Sentence, at: int) -> tuple[Clause, int]:
    """The clause in which the word at a place stands, and where in it."""
    for clause in sentence.clauses:
        if at < len(clause):
            return clause, at
        at -= len(clause)
    raise AssertionError("there is no such word")


def _by(cue: Cue, words: Sequence[Word], places: Sequence[int], stand_ins: frozenset[str]) -> bool:
    """Whether whom the cue names does it: "Ben told Anna" is not "Anna told"."""
    for place in places:
        if any(
            word.base == "by" and {after.base for after in words[n + 1 : n + 4]} & cue.agent
            for n, word in enumerate(words)
        ):
            return True
        agents = _agents(words, place, cue)
        if agents <= _THIRD and agents:
            agents = _first_agent(words, cue) or agents
        if not agents or agents & cue.agent or agents & stand_ins:
            return True
        if cue.agent <= _THIRD and not agents & _PRONOUNS:
            return True
    return False


def _is_needed(word: Word, cue: Cue) -> bool:
    return any(word.base in one for one in cue.needed)


def _agents(words: Sequence[Word], place: int, cue: Cue) -> frozenset[str]:
    """Who stands nearest before a place: a name with all its parts, or a pronoun."""
    for n in range(place - 1, -1, -1):
        if _is_agent(words, n, cue):
            if words[n].owner and n + 1 < place and not _is_needed(words[n + 1], cue):
                return frozenset({words[n + 1].base})
            found = {words[n].base}
            while n and (words[n - 1].named or words[n - 1].base == "and"):
                n -= 1  # noqa: PLW2901 - goes on to the start of the name
                found.add(words[n].base)
            return frozenset(found)
    return frozenset()


def _first_agent(words: Sequence[Word], cue: Cue) -> frozenset[str]:
    """Who the sentence is about: whom a later "she" stands for."""
    first = next((n for n in range(len(words)) if _is_agent(words, n, cue)), len(words))
    return _agents(words, first + 1, cue)


def _is_agent(words: Sequence[Word], n: int, cue: Cue) -> bool:
    word = words[n]
    if n and words[n - 1].base in _PREPOSITIONS:
        return False
    if word.base in cue.agent or word.base in _PRONOUNS:
        return True
    follows = words[n + 1].base if n + 1 < len(words) else ""
    acts = follows in _AUXILIARIES or follows in _ACTIONS or follows in _TALKING
    if (
        word.owner
        or word.base in _FUNCTION
        or (_is_needed(word, cue) and not (word.named and acts))
    ):
        return False
    if cue.agent <= _FIRST:
        return acts and word.base not in _ACTIONS
    return word.named and (n > 0 or acts)


@lru_cache(maxsize=4096)
def _cue(text: str) -> Cue:
    """Take a cue apart."""
    words, led = _without_lead([word for one in read(text) for word in one.words])
    denied = is_denied(tuple(words), len(words))
    words = [word for word in words if word.base not in _NEGATIONS]
    verb = _verb(words)
    content = [
        word
        for word, after in pairwise([*words, Word("")])
        if _is_content(word) and not _begins(word, after)
    ]
    if verb is not None and words[verb].form.endswith("s") and words[verb].base != "be":
        led = True
    if not led or verb is None:
        return Cue(_needed(content), frozenset(), talking=not led, denied=denied)
    if words[verb].base in _TALKING:
        return _of_talk(words, verb, denied=denied)
    return _of_deed(words, verb, denied=denied)


def _without_lead(words: list[Word]) -> tuple[list[Word], bool]:
    """A cue without "remind me when", and whether it began with the like."""
    start = 0
    while start < len(words) and words[start].base in _ASKED:
        start += 1
    for lead in _LEADS:
        if tuple(word.base for word in words[start : start + len(lead)]) == lead:
            return words[start + len(lead) :], True
    return words, False


def _verb(words: Sequence[Word]) -> int | None:
    """Where the verb of a cue stands: the first known one after its first word."""
    for n, word in enumerate(words):
        if n and (word.base in _TALKING or word.base in _ACTIONS or word.base in _AUXILIARIES):
            further = words[n + 1 :]
            if (
                _is_noun(words[n - 1])
                or _has_verb(word, further)
                or (further and _begins(word, further[0]))
            ):
                continue
            if word.base in _ONLY_AUXILIARY and (after := _verb([word, *further])) is not None:
                return n + after
            return n
    return None


def _is_noun(before: Word) -> bool:
    """Whether what follows this is no verb: "the release", "of hiring", "Anna's call"."""
    return before.owner or before.base in _BEFORE_NOUNS


def _has_verb(word: Word, further: Sequence[Word]) -> bool:
    """Whether the verb follows: "the weekly report is"."""
    return word.base not in _AUXILIARIES and bool(further) and further[0].base in _AUXILIARIES


def _begins(word: Word, after: Word) -> bool:
    """Whether it only says that something begins: "starts raining"."""
    return word.base in _INCEPTIVE and (after.form.endswith("ing") or after.base == "to")


def _is_content(word: Word) -> bool:
    return word.base not in _FUNCTION and word.base not in _AUXILIARIES


def _needed(content: Iterable[Word]) -> tuple[frozenset[str], ...]:
    shown = (_STANDING_FOR.get(word.base, frozenset({word.base})) for word in content)
    return tuple(dict.fromkeys(shown))


def _of_talk(words: Sequence[Word], verb: int, *, denied: bool) -> Cue:
    """A cue about what is said: who says it, and what of."""
    said = words[verb].base
    action = _TALKING if said in _SAYING else _COMPLAINING
    if said in _ASKING_FOR - _SAYING:
        action = _ASKING_FOR | {"ask"}
    who = [word for word in words[:verb] if _is_content(word)]
    agent = {word.base for word in who} - _GENERIC
    agent |= {word.base for word in words[:verb]} & (_THIRD - {"it"})
    about = [
        word
        for word in words[verb + 1 :]
        if _is_content(word) and word.base not in _TOPIC and word.base not in _TALKING
    ]
    named = [word for word in who if word.base in agent]
    passive = words[verb - 1].base == "be" and words[verb].form.endswith("ed")
    if passive or said == "come_up":
        topics = [word for word in named if word.base not in _TOPIC]
        return Cue(_needed(topics), action | _TALKING, talking=True)
    return Cue(
        _needed([*named, *about]), action, talking=True, agent=frozenset(agent), denied=denied
    )


def _of_deed(words: Sequence[Word], verb: int, *, denied: bool) -> Cue:
    """A cue about what happens, or what somebody does."""
    who, done, after = words[:verb], words[verb], words[verb + 1 :]
    action = frozenset() if done.base in _AUXILIARIES else _shown(done.base)
    first = any(word.base in _FIRST for word in who)
    optional = (done.base in _ARRIVING and any(map(_is_content, after))) or (
        done.base in _COUNTING and any(one.base.isdigit() for one in after)
    )
    content = [
        word
        for word in (*(one for one in who if one.base not in _GENERIC), *after)
        if _is_content(word)
    ]
    passive = any(word.base == "be" for word in who)
    agent = frozenset[str]()
    if any(word.base == "user" for word in who):
        agent = _FIRST | {"user"}
    elif pronouns := frozenset(word.base for word in who) & (_THIRD - {"it"}):
        agent = pronouns
    elif first and done.base not in _GETTING:
        agent = _FIRST
    elif not passive:
        doers = [
            word
            for before, word in pairwise([Word(""), *who])
            if _is_content(word) and not word.owner and before.base not in _PREPOSITIONS
        ]
        if any(word.named for word in doers) or any(map(_is_content, after)):
            agent = frozenset(word.base for word in doers) - _GENERIC
    needed = _needed(content) + (() if optional or not action else (action,))
    return Cue(
        needed or tuple(filter(None, [action])),
        action,
        agent=agent,
        optional=optional,
        denied=denied,
    )


def _shown(word: str) -> frozenset[str]:
    return _STANDING_FOR.get(word, frozenset({word}))
