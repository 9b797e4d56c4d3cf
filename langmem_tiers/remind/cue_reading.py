"""A cue, taken apart: whether it is about what is said, is done, or is so, and by whom."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise

from langmem_tiers.remind import bases as known
from langmem_tiers.remind.cue_words import OTHERS
from langmem_tiers.remind.cues import Cue
from langmem_tiers.remind.sentences import Sentence, Word, base, is_bent, read
from langmem_tiers.remind.tense import is_denied, is_negation


@lru_cache(maxsize=4096)
def read_cue(text: str) -> Cue:
    """Take a cue apart."""
    sentences = read(text)
    words, led = _opened(sentences)
    denied = is_denied(tuple(words), len(words))
    behind = partial(_behind, words)
    nouns = frozenset(word.base for word in words if word.form.endswith(known.NOUN_ENDINGS))
    said = [word for word, after in pairwise([*words, Word("")]) if not is_negation(word, after)]
    asks = bool(sentences) and sentences[0].asks
    taken = _of_words(said, led=led, denied=denied)
    return replace(
        taken,
        plain=taken.plain if led or not asks else frozenset(),
        mine=behind(known.OURS),
        theirs=behind(OTHERS),
        there=behind(known.PLACES),
        origin=behind({"from"}),
        nouns=nouns,
        asks=asks,
    )


def _behind(words: Sequence[Word], forms: Collection[str]) -> frozenset[str]:
    """The content words with one of these shortly before them."""
    return frozenset(
        word.base
        for n, word in enumerate(words)
        if _is_content(word) and any(one.form in forms for one in words[max(0, n - 2) : n])
    )


def _of_words(words: list[Word], *, led: bool, denied: bool) -> Cue:
    """A cue of its words: what is talked of, what is said, what is done, or how things are."""
    if led and (after := _in_hand(words)):
        return _of_topic(_content_of(after), known.DEALING, denied=denied)
    verb = _verb(words)
    if verb is not None and words[verb].form.endswith("s") and words[verb].base != "be":
        plural = verb == len(words) - 1 == 1 and not words[0].named
        led = led or not plural  # "Anna mentions the budget", not "festival passes"
    if not led:
        topic = _of_topic(_content_of(words), frozenset(), denied=denied)
        return replace(topic, compounds=_compounds(words), plain=_plain(words))
    if verb is None:
        verb = _third_person(words)
    if verb is None:
        content = _content_of(words)
        who = frozenset(word.base for word in content[:1] if word.named and not word.owner)
        if words and words[0].base in known.FIRST:
            who = known.FIRST
        return Cue(_needed(content), frozenset(), agent=who, denied=denied)
    if words[verb].base in known.TALKING:
        return _of_talk(words, verb, denied=denied)
    return _of_deed(words, verb, denied=denied)


def _of_topic(content: Sequence[Word], action: frozenset[str], *, denied: bool) -> Cue:
    """A cue about what is talked of, by nobody in particular."""
    names = frozenset(word.base for word in content if word.named)
    return Cue(_needed(content), action, talking=True, denied=denied, names=names)


def _content_of(words: Sequence[Word]) -> list[Word]:
    return [
        word
        for word, after in pairwise([*words, Word("")])
        if _is_content(word) and not _begins(word, after)
    ]


def _in_hand(words: Sequence[Word]) -> Sequence[Word]:
    """What one has to do with: "the cache" of "we touch the cache"; nothing of other cues."""
    rest = list(words)
    if rest and rest[0].base in known.FIRST:
        del rest[0]
    while rest and (rest[0].base in known.INCEPTIVE or rest[0].base in known.ONLY_AUXILIARY):
        del rest[0]
    return rest[1:] if rest and rest[0].base in known.DEALING else ()


def _opened(sentences: Sequence[Sentence]) -> tuple[list[Word], bool]:
    """The words of a cue, without what is to be done then, and whether they begin with "when"."""
    words = [word for one in sentences for word in one.words]
    if words and sentences[0].asks and words[0].base in known.AUXILIARIES:
        return words[1:], words[0].base in {"be", "do", "have"}
    if ahead := _led(words, 0, known.AHEAD):
        return words[ahead:], False
    rest, led = _without_lead(words)
    if led:
        ends = _starts_of_clauses(sentences[0], len(words) - len(rest))
        end = next((n for n in ends if n > 1 and _instructs(rest[n:])), len(rest))
        return rest[:end], True
    for n in range(1, len(words)):
        if words[n].base in known.TALKING:
            break
        if inside := _led(words, n, known.INSIDE_LEADS):
            return words[n + inside :], True
    return words, False


def _led(words: Sequence[Word], start: int, leads: Sequence[tuple[str, ...]]) -> int:
    """How many words from there on are the first of these leads; 0 if none is."""
    said = tuple(word.base for word in words[start : start + max(map(len, leads))])
    return next((len(lead) for lead in leads if said[: len(lead)] == lead), 0)


def _starts_of_clauses(sentence: Sentence, gone: int) -> Iterator[int]:
    """Where clauses begin, and where somebody is to be reminded, in what is left of a cue."""
    at = -gone
    for clause in sentence.clauses:
        yield at
        asked = (n for n, word in enumerate(clause) if n and word.base == "remind")
        yield from (at + n for n in asked)
        at += len(clause)


def _instructs(words: Sequence[Word]) -> bool:
    """Whether somebody is told to do something: "show me the list"."""
    first = next((word for word in words if word.base != "then"), Word(""))
    if first.base in known.ASKED or first.base == "let":
        return True
    bent = first.form.endswith(("ing", "ed", "s")) and base(first.form) != first.form
    verbal = not first.named and not bent
    function = known.FUNCTION | known.PREPOSITIONS | known.THIRD | known.AUXILIARIES
    return len(words) > 1 and verbal and first.base not in function


def _without_lead(words: list[Word]) -> tuple[list[Word], bool]:
    """A cue without "remind me when", and whether it began with the like."""
    start = 0
    while start < len(words) and words[start].base in known.ASKED:
        start += 1
    length = _led(words, start, known.LEADS)
    return (words[start + length :], True) if length else (words, False)


def _verb(words: Sequence[Word]) -> int | None:
    """Where the verb of a cue stands: the first known one after its first word.

    After a pronoun stands a verb; of one that is not known nothing more is known either.
    """
    if len(words) > 1 and words[0].base in known.FIRST and _is_content(words[1]):
        return 1
    found = None
    for n in range(1, len(words)):
        if _is_verb(words, n):
            found = n
            if words[n].base not in known.ONLY_AUXILIARY:
                break
    return found


def _third_person(words: Sequence[Word]) -> int | None:
    """Where a verb stands that is not known, by its ending: "the dentist confirms the date"."""
    for n in range(1, len(words)):
        word, after = words[n], words[n + 1 : n + 2]
        bent = _ends_in_s(word) and not word.named
        if bent and _is_content(words[n - 1]) and not words[n - 1].owner and all(
            one.base in known.DETERMINERS | known.PREPOSITIONS or one.named or _ends_in_s(one)
            for one in after
        ):  # fmt: skip
            return n
    return None


def _ends_in_s(word: Word) -> bool:
    return word.form.endswith("s") and word.base != word.form


def _is_verb(words: Sequence[Word], place: int) -> bool:
    """Whether a known verb stands there, and is used as one."""
    word, further = words[place], words[place + 1 : place + 2]
    listed = (known.TALKING, known.ACTIONS, known.AUXILIARIES)
    return any(word.base in one for one in listed) and not (
        _is_noun(words[place - 1])
        or (word.base not in known.TALKING and word.form.endswith(known.NOUN_ENDINGS))
        or _has_verb(word, further)
        or (further and _begins(word, further[0]))
    )


def _is_noun(before: Word) -> bool:
    """Whether what follows this is no verb: "the release", "of hiring", "Anna's call"."""
    return before.owner or before.base in known.BEFORE_NOUNS


def _has_verb(word: Word, further: Sequence[Word]) -> bool:
    """Whether the verb follows: "the weekly report is"."""
    return (
        word.base not in known.AUXILIARIES
        and bool(further)
        and further[0].base in known.AUXILIARIES
    )


def _begins(word: Word, after: Word) -> bool:
    """Whether it only says that something begins: "starts raining"."""
    return word.base in known.INCEPTIVE and (after.form.endswith("ing") or after.base == "to")


def _is_content(word: Word) -> bool:
    return word.base not in known.FUNCTION and word.base not in known.AUXILIARIES


def _needed(content: Iterable[Word]) -> tuple[frozenset[str], ...]:
    shown = (known.STANDING_FOR.get(word.base, frozenset({word.base})) for word in content)
    return tuple(dict.fromkeys(shown))


def _of_talk(words: Sequence[Word], verb: int, *, denied: bool) -> Cue:
    """A cue about what is said: who says it, and what of."""
    after = words[verb + 1].form if verb + 1 < len(words) else ""
    if words[verb].base in known.SPEAKING and after in {"to", "with"}:
        return _of_meeting(words, verb, denied=denied)
    said = words[verb].base
    action = known.TALKING if said in known.SAYING else known.COMPLAINING
    if said in known.ASKING_FOR - known.SAYING:
        action = known.ASKING_FOR | {"ask"}
    who = [word for word in words[:verb] if _is_content(word)]
    agent = {word.base for word in who} - known.GENERIC
    if len(who) == verb == 1 and who[0].form.endswith("s") and not who[0].named:
        agent, who = set(), []  # "guests ask": whoever does
    agent |= {word.base for word in words[:verb]} & (known.THIRD - {"it"})
    about = [
        word
        for word in words[verb + 1 :]
        if _is_content(word) and word.base not in known.TOPIC and word.base not in known.TALKING
    ]
    named = [word for word in who if word.base in agent]
    passive = words[verb - 1].base == "be" and words[verb].form.endswith("ed")
    if passive or said == "come_up":
        topics = [word for word in named if word.base not in known.TOPIC]
        return _of_topic(topics, action | known.TALKING, denied=False)
    if not agent:
        topic = _of_topic([*named, *about], action, denied=denied)
        return replace(topic, compounds=_compounds(words[verb + 1 :]))
    return Cue(
        _needed([*named, *about]),
        action,
        talking=True,
        agent=frozenset(agent),
        denied=denied,
        subject=_head(words[:verb]),
    )


def _of_meeting(words: Sequence[Word], verb: int, *, denied: bool) -> Cue:
    """A cue about somebody who is talked to, by the speaker if nobody else is named."""
    who = frozenset(word.base for word in words[:verb] if _is_content(word)) - known.GENERIC
    with_whom = _content_of(words[verb + 1 :])
    named = [word for word in words[:verb] if word.base in who]
    return Cue(
        _needed([*named, *with_whom]),
        known.MEETING,
        agent=who or known.FIRST,
        denied=denied,
        mutual=not who,
    )


def _of_deed(words: Sequence[Word], verb: int, *, denied: bool) -> Cue:
    """A cue about what happens, or what somebody does."""
    verb = _participle(words, verb)
    who, done, after = words[:verb], words[verb], words[verb + 1 :]
    action = frozenset() if done.base in known.AUXILIARIES else _shown(done.base)
    optional = (done.base in known.ARRIVING and any(map(_is_content, after))) or (
        done.base in known.COUNTING and any(one.base.isdigit() for one in after)
    )
    content = [
        word
        for word in (*(one for one in who if one.base not in known.GENERIC), *after)
        if _is_content(word)
    ]
    passive = any(word.base == "be" for word in who)
    named = who[:-1] if _is_particle(words, verb) else who
    needed = _needed(content) + (() if optional or not action else (action,))
    return Cue(
        needed or tuple(filter(None, [action])),
        action,
        agent=_agent(who, done, after, passive=passive),
        optional=optional,
        denied=denied,
        compounds=(*_compounds(named), *_compounds(after)),
        plain=_plain(named) | _plain(after),
        subject=_head(named),
        object=_head(after) if action else frozenset(),
        led_by=frozenset(word.base for word in after) & known.PREPOSITIONS,
        passive=passive and is_bent(done),
    )


def _agent(
    who: Sequence[Word], done: Word, after: Sequence[Word], *, passive: bool
) -> frozenset[str]:
    """Who does it, where that matters; nothing if it is done to them."""
    said = frozenset(word.base for word in who)
    if "user" in said:
        return known.FIRST | {"user"}
    if pronouns := said & (known.THIRD - {"it"}):
        return pronouns
    if said & known.FIRST and done.base not in known.GETTING:
        return known.FIRST
    doers = [
        word
        for before, word in pairwise([Word(""), *who])
        if _is_content(word) and not word.owner and before.base not in known.PREPOSITIONS
    ]
    if passive or not (any(word.named for word in doers) or any(map(_is_content, after))):
        return frozenset()
    return frozenset(word.base for word in doers) - known.GENERIC


def _compounds(words: Sequence[Word]) -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """Words that stand side by side."""
    return tuple(
        (_shown(one.base), _shown(other.base))
        for one, other, after in zip(words, words[1:], [*words[2:], Word("")], strict=False)
        if _is_content(one) and _is_content(other) and not one.owner and after.base != "to"
    )


def _plain(words: Sequence[Word]) -> frozenset[str]:
    """The nouns that are not made of verbs."""
    return frozenset(
        word.base
        for word in words
        if _is_content(word)
        and word.base not in known.ACTIONS
        and not word.form.endswith((*known.DERIVED_ENDINGS, "ed", "ing"))
    )


def _is_particle(words: Sequence[Word], place: int) -> bool:
    """Whether it belongs to the word before it, which is what is done: "the disk fills up"."""
    return words[place].form in known.PARTICLES and words[place - 1].form.endswith("s")


def _participle(words: Sequence[Word], verb: int) -> int:
    """Where what is done stands: of "is sold" and "was just sold" the latter."""
    if words[verb].base != "be":
        return verb
    after = (n for n in range(verb + 1, len(words)) if words[n].base not in known.ADVERBS)
    first = next(after, verb)
    return first if is_bent(words[first]) and words[first].base != "be" else verb


def _head(words: Sequence[Word]) -> frozenset[str]:
    """What shows the noun that others tell apart: "trip" of "the trip to Rome"."""
    content = [n for n, word in enumerate(words) if _is_content(word) and not word.owner]
    first = next((n for n in content if n + 1 not in content), None)
    return frozenset() if first is None else _shown(words[first].base)


def _shown(word: str) -> frozenset[str]:
    return known.STANDING_FOR.get(word, frozenset({word}))
