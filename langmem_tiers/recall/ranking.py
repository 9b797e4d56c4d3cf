"""Rank matches: a floor drops irrelevant memories, a ranking profile orders the rest.

Most messages to an assistant need no memory: thanks, a sum, a joke. `probability_memory_helps`
tells them apart by what was found, by the words asked, and by the question's vector if the fit
knows the model; the weights are in `weights/`, fitted by `benchmarks/fit.py`. A profile weighs a
memory's match and its life.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from itertools import repeat
from numbers import Real
from operator import attrgetter, itemgetter, mul
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from langmem_tiers.core.checks import checked_function, checked_number
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import ASSISTANT_ROLES, USER_ROLES, Recollection
from langmem_tiers.core.texts import LINE_LENGTH
from langmem_tiers.core.types import PROSPECTIVE, REFLEXION, MemoryTypes
from langmem_tiers.core.values import small_talk_chance
from langmem_tiers.recall.matching import K1, Candidate, SearchFacts, Weights
from langmem_tiers.recall.question import REMINDER_SET, TALKS, Question, name_words

Terms = Mapping[str, float]


class RankingQuery(NamedTuple):
    """Facts about the question that a ranking profile sees; `now` is UTC."""

    now: datetime
    project_id: str | None = None
    query: str = ""


ProfileFunction = Callable[[Recollection, RankingQuery], Terms | float]
"""Function that returns the terms whose sum is the score, or the score itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Way to score memories; `source` says where each of its numbers comes from.

    `terms` scores a memory by itself. `among`, if there is one, is given the memories in the
    order of those scores and returns further terms for each, which may depend on the others.
    """

    name: str
    source: str
    terms: ProfileFunction
    among: Callable[[Sequence[Recollection], RankingQuery], Sequence[Terms]] | None = None

    def __post_init__(self) -> None:
        """Refuse functions that cannot be called."""
        checked_function(self.terms, f"profile {short(self.name)}")
        if self.among is not None:
            checked_function(self.among, f"`among` of profile {short(self.name)}")

    def __call__(self, memory: Recollection, asked: RankingQuery) -> Terms | float:
        """Return the terms of one memory by itself."""
        return self.terms(memory, asked)


AURORA = {"match": 0.4, "recency": 0.2, "access": 0.15, "project": 0.15}
"""Weights of the memory coordinator's specification, under "Relevance Scoring"."""
CALIBRATED = {"match": 0.97, "recency": 0.012, "access": 0.009, "project": 0.009}
"""Specified parts in their own proportions, adding up to 0.03, so that they decide between
near-equals only. With 0.1, recall@10 falls by 0.012 to 0.019 (docs/recall.md)."""
CREDIT = 0.012
"""Most that outcomes move a score in the profile "calibrated", up or down: our own choice, as much
as recency does."""
RECENCY_DAYS = 30
"""Recency is 1 for today's memories, and falls evenly to 0 in so many days."""
FULL_ACCESSES = 10
"""Accesses from which on a memory has its full share for them."""
REFLEXION_SHARE = 0.2
"""Bonus of a reflexion, as a share of all its other terms."""

IMPORTANCE_WEIGHT = 0.3
"""Share of importance in the profile of that name: our own choice, as for recency."""
UNKNOWN_IMPORTANCE = 0.5
"""Importance of a memory that names none: the middle, our own choice."""
RECENCY_WEIGHT = 0.3
"""Share of recency, as specified for time-weighted retrieval."""
DAILY_FADING = 0.1
"""Speed at which recency fades: 1 / (1 + 0.1 a day), as specified for time-weighted retrieval."""
SUCCESS_WEIGHT = 0.3
"""Share of proven success: our own choice, as for recency."""
BALANCE_STEP = 0.05
"""Cost of each memory above from the same side: our own choice of near-equal."""


def _match_terms(weight: float, memory: Recollection) -> dict[str, float]:
    """Return the weighted match, and the gain by the stored boost, if it has one."""
    terms = {"match": weight * memory.match}
    if memory.boost != 1:
        terms["boost"] = weight * (min(memory.match * memory.boost, 1.0) - memory.match)
    return terms


def _age_in_days(memory: Recollection, asked: RankingQuery) -> int:
    """Return the whole days since a memory was recorded; 0 if that lies ahead."""
    return max(0, (asked.now - memory.created_at).days)


def _relevance_terms(weights: Mapping[str, float], credit: float = 0.0) -> ProfileFunction:
    """Make the specified relevance formula with these weights of its parts, each 0…1.

    `credit` is the weight of outcomes, from that much up to that much down.
    """

    def terms(memory: Recollection, asked: RankingQuery) -> Terms:
        fresh = max(0.0, 1 - _age_in_days(memory, asked) / RECENCY_DAYS)
        parts = {
            **_match_terms(weights["match"], memory),
            "recency": weights["recency"] * fresh,
            "access": weights["access"] * min(memory.access_count / FULL_ACCESSES, 1.0),
        }
        if asked.project_id and memory.project_id == asked.project_id:
            parts["project"] = weights["project"]
        if credit and memory.success_count + memory.failure_count:
            parts["success"] = credit * (2 * _success(memory, asked) - 1)
        if memory.memory_type == REFLEXION:
            parts["reflexion"] = REFLEXION_SHARE * math.fsum(parts.values())
        return parts

    return terms


def time_weighted(recency_weight: float = RECENCY_WEIGHT) -> Profile:
    """Make a profile that prefers recent memories; the weight, in 0…1, says how much.

    Raises:
        InvalidInputError: The weight is not in 0…1.

    Example:
        ```python
        from langmem_tiers.recall.ranking import time_weighted

        mostly_recent = time_weighted(0.8)
        ```
    """
    checked_number(recency_weight, "recency_weight", 0, 1, use="a number in 0…1")
    source = "Match and 1 / (1 + 0.1 × days), the latter 0.3 unless said otherwise: as specified."
    return Profile(
        name="time", source=source, terms=_terms_with("recency", recency_weight, _recency)
    )


def _terms_with(
    name: str, weight: float, part: Callable[[Recollection, RankingQuery], float]
) -> ProfileFunction:
    """Make a formula of the match and one other part, in 0…1, that has this weight."""

    def terms(memory: Recollection, asked: RankingQuery) -> Terms:
        return {**_match_terms(1 - weight, memory), name: weight * part(memory, asked)}

    return terms


def _recency(memory: Recollection, asked: RankingQuery) -> float:
    return 1 / (1 + DAILY_FADING * _age_in_days(memory, asked))


def _importance(memory: Recollection, _: RankingQuery) -> float:
    return UNKNOWN_IMPORTANCE if memory.importance is None else memory.importance


def _success(memory: Recollection, _: RankingQuery) -> float:
    return (memory.success_count + 1) / (memory.success_count + memory.failure_count + 2)


def _balance(ranked: Sequence[Recollection], asked: RankingQuery) -> list[Terms]:
    """Dock each memory for those of its own side (the project's, or not) above it."""
    above = {True: 0, False: 0}
    terms: list[Terms] = []
    for memory in ranked if asked.project_id else ():
        own = memory.project_id == asked.project_id
        terms.append({"balance": 0.0 - BALANCE_STEP * above[own]})
        above[own] += 1
    return terms or [{} for _ in ranked]


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="aurora",
            source="0.4 match, 0.2 recency within 30 days, 0.15 accesses up to 10, 0.15 same "
            "project, and a fifth more for a reflexion: as specified for the memory coordinator.",
            terms=_relevance_terms(AURORA),
        ),
        Profile(
            name="calibrated",
            source="The terms of aurora with 0.97 match, 0.012 recency, 0.009 accesses and 0.009 "
            "project, and up to 0.012 for what came of it or against it, so that only near-equals "
            "change places: our own choice.",
            terms=_relevance_terms(CALIBRATED, CREDIT),
        ),
        Profile(
            name="match",
            source="How well it answers the query and nothing else, not even a stored boost.",
            terms=lambda memory, _: {"match": memory.match},
        ),
        Profile(
            name="importance",
            source="0.7 match and 0.3 importance, which is 0.5 if unknown: our own choice.",
            terms=_terms_with("importance", IMPORTANCE_WEIGHT, _importance),
        ),
        time_weighted(),
        Profile(
            name="success",
            source="0.7 match and 0.3 expected success, (successes + 1) / (tries + 2), which is "
            "the mean of the Beta posterior over a uniform prior; the shares are our own choice.",
            terms=_terms_with("success", SUCCESS_WEIGHT, _success),
        ),
        Profile(
            name="project_balanced",
            source="Match, less 0.05 for each memory above it from the same side: the asked "
            "project's own, or all others. Near-equals alternate; the step is our own choice.",
            terms=lambda memory, _: _match_terms(1.0, memory),
            among=_balance,
        ),
    )
}
"""Profiles by name."""


def resolve_profile(profile: str | ProfileFunction) -> Profile:
    """Return a profile for a name, a function or a profile.

    Raises:
        InvalidInputError: It is none of these; of a name the message has the nearest one.
    """
    if isinstance(profile, Profile):
        return profile
    if isinstance(profile, str):
        if (named := PROFILES.get(profile)) is not None:
            return named
        (nearest,) = get_close_matches(profile[:LINE_LENGTH], PROFILES, n=1, cutoff=0.0)
        raise InvalidInputError(
            f"There is no ranking profile {short(profile)}. Did you mean {nearest!r}? "
            f"There are {', '.join(PROFILES)}; or give a function of your own."
        )
    if callable(profile):
        name = getattr(profile, "__name__", type(profile).__name__)
        return Profile(name=name, source="The caller's own.", terms=profile)
    raise InvalidTypeError(
        f"a profile is a name or a function, not {type(profile).__name__}: "
        f"give one of {', '.join(PROFILES)}, or a function of (memory, asked)"
    )


def rank(
    recollections: Sequence[Recollection],
    profile: str | ProfileFunction,
    asked: RankingQuery,
    limit: int | None = None,
) -> list[Recollection]:
    """Score memories and order them, best first; ties by match, namespace and key.

    All are returned, or the first `limit`. `profile` is a name of `PROFILES`, a `Profile`, or a
    function of a memory and of what was asked. Each memory's `score` is the sum of the terms in
    its `explanation`; a function that returns a plain number has the one term `profile`.

    Raises:
        InvalidInputError: No profile has that name, or the function returned something else
            than a finite number or a mapping of names to finite numbers.

    Example:
        ```python
        from langmem_tiers.recall.ranking import rank

        ranked = rank(memories, lambda memory, asked: len(memory.tags), asked)
        ```
    """
    chosen = profile if isinstance(profile, Profile) else resolve_profile(profile)
    terms = [*map(chosen.terms, recollections, repeat(asked))]
    if chosen.among is None:
        return _order_by_terms(recollections, terms, chosen, limit)
    alone = _order_by_terms(recollections, terms, chosen)
    further = zip(alone, chosen.among(alone, asked), strict=True)
    both = [{**memory.explanation, **more} for memory, more in further]
    return _order_by_terms(alone, both, chosen, limit)


def _order_by_terms(
    memories: Sequence[Recollection],
    returned: Sequence[object],
    profile: Profile,
    limit: int | None = None,
) -> list[Recollection]:
    """Return the best by the sum of their terms; only the memories returned are copied."""
    scored = []
    for memory, made in zip(memories, returned, strict=True):
        # A dict is recognised at once, any other mapping by a look-up that takes much longer.
        terms = made if isinstance(made, (dict, Mapping)) else {"profile": made}
        checked: dict[str, float] = {}
        for name, term in terms.items():
            if type(term) is float and type(name) is str and abs(term) <= _LARGEST:
                checked[name] = term
            else:
                checked[name] = _finite_term(name, term, memory, profile)
        score = math.fsum(checked.values())
        order = (-score, -memory.match, memory.namespace, memory.key)
        scored.append((order, memory, score, checked))
    scored.sort(key=itemgetter(0))
    best = scored[:limit]
    return [replace(memory, score=score, explanation=terms) for _, memory, score, terms in best]


_LARGEST = 1e15
"""Largest term allowed: no sum of such terms overflows."""


def _finite_term(name: object, term: object, memory: Recollection, profile: Profile) -> float:
    if not isinstance(name, str):
        raise InvalidTypeError(
            f"The ranking profile {profile.name!r} returned a term called {short(name)}: name "
            "terms by text."
        )
    number: Any = term
    real = isinstance(term, Real) and not isinstance(term, bool)
    if real and abs(number) <= _LARGEST:
        return float(number)
    raise InvalidInputError(
        f"The ranking profile {profile.name!r} returned {short(term)} for memory {memory.key!r}: "
        "return a number that is neither NaN nor beyond 1e15, or a mapping of names to such."
    )


# The floor

ABOUT: Final = 0.15
"""Match from which on a question may be about an intention: 85 to 97 % of those that are
(docs/reminders.md)."""


class Floor(NamedTuple):
    """Least match of a memory that is shown: by itself, and as a share of the best one."""

    match: float = 0.0
    share: float = 0.0
    intended: float = ABOUT
    """Least match of an intention, and of a message that set a reminder, unless types are asked
    for: reminders are raised by themselves."""
    alone: tuple[float, float] | None = None
    """Both for a memory that stands by itself, if they differ: a fact is all that it says, a
    message has neighbours that help as well."""
    lesson: tuple[float, float] | None = None
    """Both for lessons, if they differ."""

    further: tuple[int, float] = (0, 1.0)
    """Most memories beyond the limit, and the share of the best match that they need; messages that
    follow the best are among them."""
    many: int = 0
    """Number of informative memories from which on `match` counts whole. Of fewer each is likelier
    meant, and all of them take fewer lines: the least match falls with the square of their share. 0
    is: always whole."""
    few: int = 0
    """Number of informative memories up to which no `share` counts: all may be shown."""
    goes_on: int = 0
    """Characters up to which the message after one of the best matches is shown with it."""
    quiet: bool = False
    """True to drop an assistant's messages, but for good matches and the answer to the best."""

    def __bool__(self) -> bool:
        """Tell whether anything is dropped."""
        return bool(self.match or self.share)

    def least(self, best: float, among: float, *, alone: bool = False) -> float:
        """Return the least match beside this best one, among so many informative memories."""
        if alone and self.alone:
            match, share = self.alone
            return max(match, share * best)
        part = min(1.0, among / self.many) if self.many else 1.0
        return max(self.match * part**2, self.share * best if among > self.few else 0.0)

    def least_lesson(self, best: float) -> float:
        """Return the least match of a lesson, where this is the best lesson's."""
        match, share = self.lesson or (self.match, self.share)
        return max(match, share * best)


_NOTHING: Final[Mapping[Any, float]] = MappingProxyType({})
NO_FLOOR: Final = Floor(intended=0.0)
HELPS: Final = 0.4
"""Chance that memory helps below which a floor keeps good matches only."""
STRONG: Final = 0.5
"""Match from which on a memory is shown, whatever is asked: our own choice. Of 132 questions of
lives by other hands five had so small a chance, and memories that nobody needed for three of them
matched 0.42 at most."""
ABOUT_ANSWERS: Final = 0.6
"""Share of the best match of other speakers from which on an assistant's message is shown."""
ANSWERS: Final = (0.1, 0.2)
"""Share of the best match from which on its answer is shown, and the chance of small talk from
which on it is not."""
DEFAULT_FLOOR: Final = Floor(0.025, alone=(0.005, 0.03), lesson=(0.1, 0.5), many=13)
TURN_FLOOR: Final = DEFAULT_FLOOR._replace(
    share=0.12, further=(5, 0.25), few=5, goes_on=200, quiet=True
)
"""Floor for each call of a model, beside a limit of 5: a question that many memories answer gets
ten. These numbers, and those of answers, were chosen among some 600 on the lives of
`benchmarks/data` and others: of 851 questions there 661 are shown what they need, in 143 tokens (by
what went before 660, in 154)."""

HELP_FEATURES: Final = (
    "nearest",
    "third",
    "fifth",
    "said",
    "own",
    "second",
    "known",
    "no_unknown_name",
    "known_name",
    "memories",
    "digits",
    "needs",
    "meant",
)
"""Features of a question and its candidates, in this order."""


def help_features(
    question: Question,
    candidates: Sequence[Candidate],
    searched: SearchFacts,
    *,
    needs: float,
    meant: float,
) -> tuple[float, ...]:
    """Return the features that tell whether memory helps, most near 0…1.

    They are the nearest by meaning, the third and fifth, and the nearest that a user said; the two
    best by words; the share of the words that occurs; names; the number of memories; digits; and
    the question by itself, by its words (`needs`) and by its vector (`meant`), each the logarithm
    of odds.
    """
    reach = max(searched.query_idf * (K1 + 1), 1e-9)
    near, own, user_near = [], [], []
    for candidate in candidates:
        near.append(candidate.cosine or 0.0)
        own.append((candidate.own or 0.0) / reach)
        if (candidate.speaker or "").lower() in USER_ROLES:
            user_near.append(near[-1])
    padded = [0.0] * 5
    near = sorted(near, reverse=True) + padded
    own = sorted(own, reverse=True) + padded
    known_names = question.names & searched.known_names.union(*map(name_words, searched.speakers))
    return (
        near[0],
        near[2],
        near[4],
        max(user_near, default=0.0),
        own[0],
        own[1],
        searched.known_idf / searched.query_idf if searched.query_idf else 1.0,
        float(not question.names - known_names),
        float(bool(known_names)),
        math.log10(max(searched.memories, 1)),
        float(any(map(str.isdigit, question.text))),
        needs,
        meant,
    )


def is_informative(candidate: Candidate) -> bool:
    """Tell whether a candidate is no small talk; a note without a speaker is none."""
    return not candidate.speaker or (small_talk_chance(candidate.value) or 0.0) < TALKS


def drop_irrelevant(
    memories: Sequence[Recollection],
    floor: Floor,
    helping: float,
    types: MemoryTypes,
    *,
    among: float,
    asked: Sequence[str] | None,
    alone: Mapping[tuple[tuple[str, ...], str], float] = _NOTHING,
) -> list[Recollection]:
    """Drop memories that match too little; most of them if memory is unlikely to help.

    Learned memories may help with any text, as a task does not mention its user. Intentions, and
    messages that set a reminder, have to match better unless types are `asked` for: reminders are
    raised by themselves. A memory in `alone`, by namespace and key, stands by itself and goes by a
    chance of its own.
    """
    learned = types.learned
    if floor and helping < HELPS:
        memories = [each for each in memories if each.match >= STRONG or learned(each.memory_type)]
    facts = [None if learned(each.memory_type) else alone.get(each.place) for each in memories]
    best = max([memory.match for memory in memories], default=0.0)
    best_fact = max(filter(None, facts), default=0.0)
    kept = []
    by_itself, beside = floor.least(best_fact, among, alone=True), floor.least(best, among)
    for memory, fact in zip(memories, facts, strict=True):
        reminds = _belongs_to_reminder(memory) if floor else memory.memory_type == PROSPECTIVE
        match = memory.match if fact is None else fact
        if reminds and asked is None and match < floor.intended:
            continue
        level, least = memory.match, beside
        if fact is not None and floor.alone is not None:
            level, least = fact, by_itself
        if level >= least:
            kept.append(memory)
    if floor.quiet:
        kept = _drop_filler(kept)
    if floor.goes_on and len(kept) < len(memories):
        following = find_following(memories, kept, floor.goes_on)
        kept += [memory for memory in following if memory not in kept]
    return kept


def find_following(
    memories: Sequence[Recollection], shown: Sequence[Recollection], most: int
) -> list[Recollection]:
    """Find the next messages after the two best matches, by no assistant.

    Such a message often goes on with the thought, and matches by chance. The second best has to
    match half as well as the best. Messages of more than `most` characters stay out, and those that
    set a reminder.
    """
    best = sorted(shown, key=attrgetter("match"), reverse=True)[:2]
    leads = [memory for memory in best if memory.match >= best[0].match / 2]
    spoken = [
        memory
        for memory in memories
        if memory.session_id and memory.speaker and memory.speaker.lower() not in ASSISTANT_ROLES
    ]
    continuations = []
    for lead in leads:
        since = [memory for memory in spoken if memory is not lead and _is_said_after(memory, lead)]
        following = min(since, key=attrgetter("when", "key"), default=None)
        if following and len(following.content) <= most and not _belongs_to_reminder(following):
            continuations.append(following)
    return continuations


def _belongs_to_reminder(memory: Recollection) -> bool:
    """Tell whether a memory is an intention, or a message that set a reminder."""
    return memory.memory_type == PROSPECTIVE or memory.value.get(REMINDER_SET) is True


def _drop_filler(memories: Sequence[Recollection]) -> list[Recollection]:
    """Drop an assistant's messages, but for good matches and the answer to the best.

    An answer that hardly matches, or may be small talk, is dropped as well.
    """
    answers = [memory for memory in memories if (memory.speaker or "").lower() in ASSISTANT_ROLES]
    others = [memory for memory in memories if memory not in answers]
    if not answers or not others:
        return [*memories]
    best = max(others, key=lambda memory: memory.match)
    since = [memory for memory in answers if memory.session_id and _is_said_after(memory, best)]
    answer = min(since, key=lambda memory: (memory.when, memory.key), default=None)
    share, talk = ANSWERS
    if answer and (
        answer.match < share * best.match or (small_talk_chance(answer.value) or 0.0) >= talk
    ):
        answer = None
    least = ABOUT_ANSWERS * best.match
    dropped = [each for each in answers if each is not answer and each.match < least]
    return [memory for memory in memories if memory not in dropped]


def _is_said_after(memory: Recollection, other: Recollection) -> bool:
    """Tell whether a memory follows another in its conversation, or shares its moment."""
    same = (memory.session_id, memory.project_id) == (other.session_id, other.project_id)
    return same and memory.when >= other.when


def probability_memory_helps(
    question: Question,
    telling: Sequence[Candidate],
    searched: SearchFacts,
    weights: Weights,
    *,
    needs: float,
    meant: float,
) -> float:
    """Return the chance, in 0…1, that memory helps with a question; 1 for a mere vector.

    It goes by the `telling` candidates: those that are no small talk.
    """
    if not question.text.strip():
        return 1.0
    parts = help_features(question, telling, searched, needs=needs, meant=meant)
    score = (
        sum(map(mul, map(weights.helps.__getitem__, HELP_FEATURES), parts)) + weights.helps["bias"]
    )
    return 1 / (1 + math.exp(-score))
