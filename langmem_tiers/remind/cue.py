"""Whether a text shows a cue: "when Anna mentions the budget".

By words alone: every content word of the cue is said, in any form, or by a word that stands for
it; by whom the cue names; and it is said to be so, and not denied, asked, supposed, foretold, or
told of times long past.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import pairwise

from langmem_tiers.remind import bases as known
from langmem_tiers.remind.cue_reading import read_cue
from langmem_tiers.remind.cues import Cue
from langmem_tiers.remind.roles import (
    elsewhere,
    has_other_roles,
    is_anothers,
    is_aside,
    is_compound,
    is_deed,
    is_noun,
    is_told,
    is_torn,
)
from langmem_tiers.remind.sentences import Clause, Sentence, Word, is_bent, read
from langmem_tiers.remind.tense import is_denied, is_due, is_past, is_unreal


def anchors(cue: str) -> tuple[str, ...]:
    """Bases that every text which shows the cue holds, sorted.

    They are stored: whoever changes what a base is empties those of older cues (migration 13).
    """
    taken = read_cue(cue)
    if taken.names:
        return tuple(sorted(taken.names))
    needed = taken.needed
    alone = {word for one in needed if len(one) == 1 for word in one}
    return tuple(sorted(alone or {f"~{' '.join(sorted(one))}" for one in needed}))


def features(text: str) -> frozenset[str]:
    """Every anchor that a text holds."""
    words = frozenset(word.base for one in read(text) for word in one.words)
    several = {f"~{' '.join(sorted(one))}" for one in known.STANDING_FOR.values() if one & words}
    return words | several


def matches(cue: str, text: str) -> bool:
    """Whether a text shows a cue, in one sentence, or in two of which the latter goes on."""
    wanted, sentences = read_cue(cue), read(text)
    if any(_shows(wanted, one, frozenset()) for one in dict.fromkeys(sentences)):
        return True
    return any(
        _shows(wanted, _joined(*two), known.THIRD) for two in dict.fromkeys(pairwise(sentences))
    )


def _joined(first: Sentence, second: Sentence) -> Sentence:
    return Sentence((*first.clauses, *second.clauses), second.asks)


def _shows(cue: Cue, sentence: Sentence, stand_ins: frozenset[str]) -> bool:
    words = sentence.words
    bases = frozenset(word.base for word in words)
    if not all(bases & one for one in cue.needed) and not (cue.names and cue.names <= bases):
        return False
    said = frozenset(
        word.base
        for n, word in enumerate(words)
        if (cue.needs(word) or word.base in cue.names) and _is_meant(words, n, cue)
    )
    if not all(said & one for one in cue.needed):
        return bool(cue.names) and cue.names <= said and _plans(cue, words)
    if is_torn(cue, sentence):
        return False
    if cue.talking or (cue.asks and sentence.asks):
        return (cue.asks and sentence.asks) or _talks(cue, sentence, stand_ins)
    if cue.agent == known.FIRST and _is_considered(sentence):
        return True
    return _happens(cue, sentence, stand_ins)


def _happens(cue: Cue, sentence: Sentence, stand_ins: frozenset[str]) -> bool:
    """Whether it is done, or is so, by whom the cue names."""
    words = sentence.words
    done = [
        n for n, word in enumerate(words) if word.base in cue.action and not is_noun(cue, words, n)
    ]
    if cue.action and not done and not (cue.optional and _is_there(words)):
        return False
    if not cue.action and cue.agent != known.FIRST and not _is_so(cue, sentence):
        return False
    places = done or _places(cue, words)
    if cue.agent and not _by(cue, words, places, stand_ins):
        return False
    if is_compound(cue, words):
        return False
    others = frozenset() if stand_ins else elsewhere(cue, sentence)
    return _so(
        cue,
        sentence,
        (n for n in places if n not in others and not has_other_roles(cue, words, n)),
    )


def _is_considered(sentence: Sentence) -> bool:
    """Whether the speaker asks what they are to do: "which one should I choose?"."""
    return sentence.asks and any(
        word.base in known.FIRST and before.base in known.AUXILIARIES
        for before, word in pairwise(sentence.words)
    )


def _is_meant(words: Sequence[Word], n: int, cue: Cue) -> bool:
    """Whether a word may show one of the cue: not another's where the cue says "my"."""
    word, before = words[n], words[max(0, n - 2) : n]
    if is_anothers(cue, words, n) or is_aside(cue, words, n):
        return False
    if (
        word.base in known.TIMES
        and before
        and before[-1].base in known.LAST - {one for several in cue.needed for one in several}
    ):
        return False
    if word.base in cue.plain and is_deed(words, n):
        return False
    if word.base not in cue.nouns or word.form.endswith((*known.NOUN_ENDINGS, "ed", "ing")):
        return True
    return not before or before[-1].base in known.BEFORE_VERBS or before[-1].named


def _plans(cue: Cue, words: Sequence[Word]) -> bool:
    """Whether no more is said than that what has the name is planned: "let's plan Berlin"."""
    first = min(n for n, word in enumerate(words) if word.base in cue.names)
    led = first > 0 and words[first - 1].base in known.PREPOSITIONS | known.PLANNING
    rest = {word.base for word in words if not cue.needs(word)}
    return led and rest <= known.PLANNING | known.FUNCTION | known.AUXILIARIES


def _is_so(cue: Cue, sentence: Sentence) -> bool:
    """Whether nothing else is told to be done where it would have to be said how things are."""
    clause, _ = _clause_of(sentence, _places(cue, sentence.words)[0])
    said = frozenset(word.base for word in clause)
    shown = frozenset().union(*cue.needed)
    return bool(said & known.BEING) or not said & (
        known.ACTIONS - known.HERE - known.ARRIVING - known.INCEPTIVE - shown
    )


def _is_there(words: Sequence[Word]) -> bool:
    """Whether somebody is, or has, and does nothing else that we know of."""
    said = frozenset(word.base for word in words)
    return not said & (known.ACTIONS - known.HERE | known.BELOW) and bool(
        said & known.BEING or not said & known.AUXILIARIES
    )


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
        places = [n for n in places if not is_told(cue, words, n)]
        told = _so(cue, sentence, places, talk=True) and not _of_nothing(words, places)
        return told and _by(cue, words, places, stand_ins)
    said = {word.base for word in words}
    told = bool(said & (known.AUXILIARIES | known.ACCORDING)) and not said & known.ACTIONS
    told = told and not any(map(_is_done, pairwise(words)))
    return told and _so(cue, sentence, _places(cue, words))


def _is_done(two: tuple[Word, Word]) -> bool:
    """Whether somebody has done something: "has danced"."""
    return two[0].base == "have" and two[1].base not in known.FUNCTION and is_bent(two[1])


def _of_nothing(words: Sequence[Word], places: Sequence[int]) -> bool:
    """Whether what is said is that there is none: "mentioned no pain"."""
    return all(
        n + 1 < len(words) and words[n + 1].base in {"no", "nothing", "never"} for n in places
    )


def _denied_talk(sentence: Sentence, places: Sequence[int]) -> bool:
    clause, place = _clause_of(sentence, places[0])
    return is_denied(clause, place, near=True) or (
        is_unreal(clause, place, talk=True) and not sentence.asks
    )


def _so(cue: Cue, sentence: Sentence, places: Iterable[int], *, talk: bool = False) -> bool:
    """Whether it is said to be so, at any of these places."""
    past = cache(partial(is_past, sentence, talk=talk))
    return any(
        _so_at(cue, *_clause_of(sentence, at), past, talk=talk, asks=sentence.asks) for at in places
    )


def _so_at(
    cue: Cue, clause: Clause, place: int, past: Callable[..., bool], *, talk: bool, asks: bool
) -> bool:
    if is_denied(clause, place, near=talk) is not cue.denied:
        return False
    event = talk or (clause[place].base in cue.action and is_bent(clause[place]))
    if past(event=event) or (not talk and is_due(clause, place)):
        return False
    if is_unreal(*_without_wish(clause, place, cue), talk=talk):
        return False
    return not (asks and clause[0].base in known.AUXILIARIES)


def _without_wish(clause: Clause, place: int, cue: Cue) -> tuple[Clause, int]:
    """A clause, and a place in it, without a wish that the cue is about: "threatens to"."""
    kept = [
        n
        for n, (word, after) in enumerate(pairwise([*clause, Word("")]))
        if n == place or after.base != "to" or not cue.needs(word)
    ]
    return tuple(clause[n] for n in kept), kept.index(place)


def _clause_of(sentence: Sentence, at: int) -> tuple[Clause, int]:
    """The clause in which the word at a place stands, and where in it."""
    for clause in sentence.clauses:
        if at < len(clause):
            return clause, at
        at -= len(clause)
    raise AssertionError("there is no such word")


def _by(cue: Cue, words: Sequence[Word], places: Sequence[int], stand_ins: frozenset[str]) -> bool:
    """Whether whom the cue names does it: "Ben told Anna" is not "Anna told"."""
    if cue.mutual and {word.form for word in words} & {"me", "us"}:
        return True
    if places and any(
        word.base == "by" and {after.base for after in words[n + 1 : n + 4]} & cue.agent
        for n, word in enumerate(words)
    ):
        return True
    who = [n for n in range(len(words)) if _is_agent(words, n, cue)]
    for place in places:
        before = bisect_left(who, place)
        agents = _agent(words, who[before - 1], place, cue) if before else frozenset()
        if agents <= known.THIRD and agents:
            agents = _agent(words, who[0], who[0] + 1, cue)  # whom a later "she" stands for
        if not agents or agents & cue.agent or agents & stand_ins:
            return True
        if cue.agent <= known.THIRD and not agents & known.PRONOUNS:
            return True
    return False


def _agent(words: Sequence[Word], n: int, place: int, cue: Cue) -> frozenset[str]:
    """Who it is that stands before a place: a name with all its parts, or a pronoun."""
    if words[n].owner and n + 1 < place and not cue.needs(words[n + 1]):
        return frozenset({words[n + 1].base})
    found = {words[n].base}
    while n and (words[n - 1].named or words[n - 1].base == "and"):
        n -= 1
        found.add(words[n].base)
    return frozenset(found)


def _is_agent(words: Sequence[Word], n: int, cue: Cue) -> bool:
    word = words[n]
    if n and words[n - 1].base in known.PREPOSITIONS:
        return False
    if word.base in cue.agent or word.base in known.PRONOUNS:
        return True
    after = (words[m].base for m in range(n + 1, len(words)))
    follows = next((one for one in after if one not in known.ADVERBS), "")
    acts = follows in known.AUXILIARIES or follows in known.ACTIONS or follows in known.TALKING
    if (
        word.owner
        or word.base in known.FUNCTION
        or word.base in known.NOT_AGENTS
        or (cue.needs(word) and not (word.named and acts))
    ):
        return False
    if cue.agent <= known.FIRST:
        return acts and word.base not in known.ACTIONS
    return word.named and (n > 0 or acts)
