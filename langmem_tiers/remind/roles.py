"""Whether the words of a cue are said in the roles that they have in it.

"The cat sitter came home" has the words of "when the cat comes home", "I wrote to my landlord" has
those of "when my landlord writes", and "the window was opened, the shop closed" those of "when the
shop opens". Each of these rules only says no.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from langmem_tiers.remind import bases as known
from langmem_tiers.remind.cue_words import OTHERS
from langmem_tiers.remind.cues import Cue
from langmem_tiers.remind.sentences import Clause, Sentence, Word, is_bent

_NO_NOUNS = known.FUNCTION | known.AUXILIARIES | known.ADVERBS | known.TIMES | known.NEGATIONS
_NO_MODIFIERS = known.FUNCTION | known.AUXILIARIES | known.ACTIONS | known.TALKING
_PARTING = known.ONLY_AUXILIARY | known.JOINING
_OTHER_SUBJECTS = known.SUBJECTS | known.HIM
_OPENERS = known.DETERMINERS | known.PRONOUNS
_FOLLOWERS = frozenset().union(
    known.FUNCTION, known.AUXILIARIES, known.PREPOSITIONS, known.ADVERBS, known.TIMES,
    known.ACTIONS, known.TALKING, known.NEGATIONS, known.UNREAL, known.FUTURE, known.PAST,
    known.JOINING, known.WHERE, known.INCEPTIVE,
)  # fmt: skip
"""What may stand behind a noun and is none itself."""


def is_anothers(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether a word is said of what is somebody else's: "her knee" where it is "my knee"."""
    word, before = words[place], words[max(0, place - 2) : place]
    forms = {one.form for one in before}
    if word.base in cue.mine | cue.theirs and any(
        one.base == "of" for one in words[place + 1 : place + 2]
    ):
        return True
    if word.base in cue.mine:
        return bool(forms & OTHERS) or any(one.owner and not cue.needs(one) for one in before)
    others = cue.theirs if cue.agent and not cue.agent & known.FIRST else ()
    return word.base in others and bool(forms & (known.OURS | {"your"}))


def is_aside(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether a word says from where, where the cue says to where, or only when it was said."""
    base, forms = words[place].base, {one.form for one in words[max(0, place - 2) : place]}
    return (
        (base in cue.there and "from" in forms)
        or (base in cue.origin and bool(forms & {"to", "for"}))
        or (cue.talking and bool(cue.action) and "during" in forms)
    )


def is_deed(words: Sequence[Word], place: int) -> bool:
    """Whether what could be a noun is done: "it rained", "they fund it"."""
    before = words[place - 1] if place else Word("")
    return words[place].form.endswith("ed") or before.form in known.SUBJECTS - known.FIRST


def is_noun(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether what could be a verb is none: "took a break", "for boiling water", "the bus stop"."""
    if not place or words[place].form.endswith(known.DERIVED_ENDINGS):
        return False
    before, after = words[place - 1], words[place + 1 : place + 2]
    attributive = before.base in known.PREPOSITIONS and words[place].form.endswith("ing")
    return (
        before.base in known.DETERMINERS
        or (attributive and any(word.base in cue.subject for word in after))
        or _is_second_part(cue, words, place)
    )


def _is_second_part(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether it is the second part of a name: "the bus stop"."""
    word, before = words[place], words[place - 1]
    bare = not is_bent(word) and not word.form.endswith(("s", "ing"))
    plural = before.form.endswith("s") and before.base != before.form
    plain = not (before.named or before.owner or plural or before.form.endswith("ly"))
    return bare and plain and before.base not in _NO_NOUNS and not cue.needs(before)


def elsewhere(cue: Cue, sentence: Sentence) -> frozenset[int]:
    """The places at which a word of the cue is said of something else than what is done there."""
    parts = list(_parts(sentence))
    starts = list(accumulate(map(len, parts), initial=0))
    others = [
        found
        for one in (cue.subject, frozenset() if cue.led_by else cue.object)
        if (found := [n for n, part in enumerate(parts) if any(word.base in one for word in part)])
        and all(_has_verb(parts[n]) for n in found)
    ]
    return frozenset(
        place
        for n, part in enumerate(parts)
        if any(n not in found and (n < found[0] or _has_subject(part)) for found in others)
        and not any(word.form in known.STAND_INS for word in part)
        for place in range(starts[n], starts[n + 1])
    )


def _parts(sentence: Sentence) -> Iterator[Clause]:
    """A sentence cut where another verb begins."""
    for clause in sentence.clauses:
        start = 0
        for n in range(1, len(clause) - 1):
            joins = (
                clause[n].base in known.JOINING
                or (clause[n].base == "and" and is_bent(clause[n + 1]))
                or clause[n].form in known.SUBJECTS
            )
            if joins:
                yield clause[start:n]
                start = n
        yield clause[start:]


def _has_subject(part: Clause) -> bool:
    """Whether it says itself who or what does it."""
    first = part[1:2] if part[0].base in known.JOINING else part[:1]
    return any(word.base in _OPENERS or word.named or word.owner for word in first)


def _has_verb(part: Clause) -> bool:
    return any(word.base in known.AUXILIARIES or is_bent(word) for word in part)


def is_compound(cue: Cue, words: Sequence[Word]) -> bool:
    """Whether something else is named by a word of the cue: "the cat sitter"."""
    return any(
        all(_is_led_on(cue, word, after) for word, after in found)
        for head in cue.heads
        if (found := [two for two in pairwise([*words, Word("")]) if two[0].base in head])
    )


def _is_led_on(cue: Cue, word: Word, after: Word) -> bool:
    """Whether the next word is a noun, as far as can be told, that the cue does not have."""
    if word.owner:
        return not cue.needs(after)
    return (
        bool(after.base)
        and not (word.named or after.named or cue.needs(after) or is_bent(after))
        and not after.form.endswith(("ly", "ing"))
        and after.base not in _FOLLOWERS
    )


def is_torn(cue: Cue, sentence: Sentence) -> bool:
    """Whether two words that make a name tell of two things: "the return flight is tax free"."""
    return not sentence.asks and any(not _are_one(sentence.words, *two) for two in cue.compounds)


def _are_one(words: Sequence[Word], one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether a word of each is said with nothing between them that begins another thing."""
    seen = [False, False]
    for word in words:
        here = (word.base in one, word.base in other)
        if (here[0] and seen[1]) or (here[1] and seen[0]):
            return True
        if word.base in _PARTING or word.form in _OTHER_SUBJECTS:
            seen = [False, False]
        seen = [seen[0] or here[0], seen[1] or here[1]]
    return False


def has_other_roles(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether what is done at a place is done by something else, or to something else."""
    return words[place].base in cue.action and any(
        rule(cue, words, place) for rule in (_is_turned, _is_ordered, _goes_on, _is_led_to)
    )


def _is_turned(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether who does it, and to whom it is done, have changed places."""
    before = [n for n in range(place) if words[n].base in cue.subject]
    after = [n for n in range(place + 1, len(words)) if words[n].base in cue.subject]
    if before:
        if cue.passive:
            turned = not _is_passive(words, place) and _takes(words, place)
        else:
            turned = is_bent(words[place]) and _is_passive(words, place) and _is_by(words, place)
        return turned or all(_belongs(words, n) for n in before) or _is_shut_in(cue, words, place)
    if cue.agent == known.FIRST:
        return _acts_itself(cue, words, place)
    if not after:
        return False
    led = {one.base for n in after for one in words[max(0, n - 3) : n]} & known.LEADING
    if led & {"from", "by"}:
        return False
    if any(word.base in cue.object for word in words[:place]):
        return True
    return "of" not in led and bool(led or (cue.action & known.CONTACTING and not cue.passive))


def _is_shut_in(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether what it is done to only tells who does it: "the editor of the book resigned"."""
    n = place - 1
    while n > 0 and words[n].base in known.ADVERBS | known.AUXILIARIES:
        n -= 1
    alone = not any(word.base in cue.object for word in words[place + 1 :])
    return alone and not cue.passive and words[n].base in cue.object and _belongs(words, n)


def is_told(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether who is to say it is told: "mentioned it to the client"."""
    if any(word.base in cue.subject for word in words[:place]):
        return False
    return any(
        word.base in cue.subject and {one.base for one in words[max(place, n - 2) : n]} & {"to"}
        for n, word in enumerate(words)
    )


def _belongs(words: Sequence[Word], place: int) -> bool:
    """Whether a noun only tells another one apart: "the shop on the bridge"."""
    start = place
    while start and (words[start - 1].base in known.DETERMINERS or words[start - 1].owner):
        start -= 1
    if start < 2 or words[start - 1].base not in known.PREPOSITIONS:  # noqa: PLR2004 - a noun, "of"
        return False
    return words[start - 2].base not in _NO_MODIFIERS


def _is_passive(words: Sequence[Word], place: int) -> bool:
    n = place - 1
    while n > 0 and words[n].base in known.ADVERBS | known.NEGATIONS:
        n -= 1
    return n >= 0 and words[n].base == "be"


def _is_by(words: Sequence[Word], place: int) -> bool:
    return any(word.base == "by" for word in words[place + 1 :])


def _takes(words: Sequence[Word], place: int) -> bool:
    """Whether something follows to which it is done."""
    return any(
        word.base in known.DETERMINERS or word.named for word in words[place + 1 : place + 2]
    )


def _acts_itself(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether something of the cue does what the speaker was to do: "the company wrote to me"."""
    n = place - 1
    while n >= 0 and (
        words[n].base in known.ADVERBS or words[n].base in known.AUXILIARIES - {"be"}
    ):
        n -= 1
    found = n > 0 and cue.needs(words[n]) and words[n].base not in cue.action
    return found and words[n - 1].base not in known.PREPOSITIONS and not words[n].named


def _is_ordered(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether somebody is told to do it, and nobody does it yet: "melt the butter"."""
    ordered = not place and cue.agent != known.FIRST and _takes(words, place)
    return ordered and not (is_bent(words[0]) or words[0].form.endswith(("s", "ing")))


def _goes_on(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether it goes on to say what else is done: "quit smoking" is not "quit"."""
    after = words[place + 1 : place + 2]
    return not cue.object and any(
        word.form.endswith("ing") and not cue.needs(word) and word.base not in known.FUNCTION
        for word in after
    )


def _is_led_to(cue: Cue, words: Sequence[Word], place: int) -> bool:
    """Whether what it is done to is said to be something else: "a car for the designer"."""
    if not cue.object or cue.optional:
        return False
    places = [n for n in range(place + 1, len(words)) if words[n].base in cue.object]
    if not places or any(word.base in cue.object for word in words[:place]):
        return False
    between = [word.base for word in words[place + 1 : places[0]] if word.base in known.BETWEEN]
    return bool(between) and between[-1] not in cue.led_by
