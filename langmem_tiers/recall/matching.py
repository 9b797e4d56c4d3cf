"""How well a candidate answers a question: fourteen features, fitted weights, one match in 0…1.

The weights ship in `weights/`, a file a model of embeddings, as nearness differs between them, and
one for all others. They were fitted by `benchmarks/fit.py` on real meetings (QMSum, MIT licence),
and on lives with an assistant, facts that stand by themselves, conversations and assistant logs of
`benchmarks/data`; a user's own data refits them with the same script.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nlargest
from importlib.resources import files
from operator import itemgetter, mul
from statistics import fmean
from typing import NamedTuple, Protocol

from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.core.memory import ASSISTANT_ROLES
from langmem_tiers.core.reading import words_in
from langmem_tiers.core.types import PROSPECTIVE, REFLEXION
from langmem_tiers.core.values import content_of
from langmem_tiers.recall.candidates import Candidate, Searched
from langmem_tiers.recall.question import Question, dated, days_from, name_words, small_talk

K1 = 1.2
"""BM25's saturation, as in the statement."""
_HALF_WINDOW = 100
"""Words in five turns at which neighbours count half: they matter in short talk."""
_DAYS_AFTER = 10.0
_DAYS_BEFORE = 4.0
"""People tell what happened in the days after it, and seldom announce it long before."""
_LEAST_COSINE = 0.1
_NEAREST = 3
"""Memories of a session that say how near it is as a whole."""
_SURE = 0.05
"""A chance that says as much as any can."""
_EXPONENT = 700.0
"""About as large as a float's exponent may be."""
_OWN = 0
_KIND = slice(5, 9)
"""Features, from "named" to "date", that fit a kind of question: they order candidates and say
nothing of the level."""

_SENTENCE_END = re.compile(r"[.!?]+")
_MARKS = "'\"\u2019\u201c\u201d.,;:!?()[]{}<>-–—/\\*_~`@#$%^&+=|…\n\t"
_TO_SPACE = str.maketrans(dict.fromkeys(_MARKS, " "))
_TIME_WORDS = frozenset(
    """yesterday today tonight tomorrow ago since recently week weeks month months year years
    monday tuesday wednesday thursday friday saturday sunday january february march april june
    july august september october november december""".split()  # noqa: SIM905 - read as prose
)
_DATE = re.compile(r"(19|20)\d\d|\d+(st|nd|rd|th)")
_TIME_PHRASE = re.compile(
    r"\b((last|next|this|past|previous|coming) (night|weekend|summer|winter|spring|fall|autumn"
    r"|mon|tues?|wed|thurs?|fri|sat|sun|morning|evening)|just (got|came|finished|started)|in may"
    r"|(\d+|a|an|one|two|three|four|five|six|seven|eight|nine|ten|few|couple of|several) "
    r"(day|hour|minute)s?)\b"
)
_IN_PHRASES = frozenset(
    """night weekend summer winter spring fall autumn mon tue tues wed thur thurs fri sat sun
    morning evening just may day days hour hours minute minutes""".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The fitted numbers."""

    features: Mapping[str, float]
    match: Mapping[str, float]
    """How a score becomes a chance, which keeps its order."""
    alone: Mapping[str, float]
    """How that of what stands by itself becomes the chance by which a floor leaves it out."""
    lesson: Mapping[str, float]
    """The same of reflexions, in which nearness and the words asked count by themselves as well."""
    helps: Mapping[str, float]
    """Of what `recall.floor` measures."""
    meaning: Sequence[float] = ()
    """What each number of a question's vector says of whether memory helps; none for a model that
    the fit does not know."""


def shipped_for(model: str) -> Weights:
    """The weights that ship with the package, for a model of `local_index` or for `other` ones."""
    return _shipped(model if model in MODELS else OTHER)


@cache
def _shipped(name: str) -> Weights:
    return read_weights(files(__package__).joinpath(f"weights/{name}.json").read_text("utf-8"))


def read_weights(text: str) -> Weights:
    """Weights as `benchmarks/fit.py` writes them, in JSON.

    Raises:
        ConfigurationError: for anything else.
    """
    try:
        loaded = json.loads(text)
        weights = Weights(**loaded)
        named = {"features": FEATURES, "match": CHANCE, "alone": BY_ITSELF, "lesson": OF_LESSONS}
        named["helps"] = ("bias",)
        lacks = [
            one for part, all_ in named.items() for one in all_ if one not in getattr(weights, part)
        ]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"these are no weights of a fit: {error}") from error
    if lacks:
        raise ConfigurationError(f"these weights lack {', '.join(lacks)}: fit them anew")
    return weights


FEATURES = (
    "own",
    "window",
    "previous",
    "dense",
    "around",
    "named",
    "assistant",
    "when",
    "date",
    "asks",
    "tells",
    "session",
    "unspoken",
    "alike",
)
"""The features in their order."""
CHANCE = ("level", "gap", "bias")
"""What a chance is made of: the score, and how far it is below the best: it keeps their order."""
BY_ITSELF = ("level", "gap", "near", "bias")
"""The same of what stands by itself, where a floor is to leave it out: its own nearness counts."""
OF_LESSONS = ("level", "gap", "near", "words", "bias")
MODELS = ("local", "minilm", "multilingual")
OTHER = "other"


class Weighed(NamedTuple):
    """How well a candidate answers: a calibrated chance that it is evidence, in 0…1, and why."""

    candidate: Candidate
    match: float
    evidence: Mapping[str, float]
    """What each feature adds to the score, those that add nothing left out."""
    alone: float | None
    """The chance by which a floor goes for what stands by itself; None for all else."""


def judge(
    candidates: Sequence[Candidate],
    question: Question,
    searched: Searched,
    weights: Weights,
    alike: Sequence[float] = (),
    *,
    most: int | None = None,
) -> list[Weighed]:
    """Judge all candidates of one question; the best of them, or all, by their match.

    `alike` is the `likeness` of each, if there is one.
    """
    measured = features(candidates, question, searched, alike)
    if not measured:
        return []
    factors = itemgetter(*FEATURES)(weights.features)
    scores = [sum(map(mul, one, factors)) for one in measured]
    best = tuple(map(max, *measured)) if len(measured) > 1 else measured[0]
    kind, top = sum(map(mul, best[_KIND], factors[_KIND])), max(scores)
    judged = []
    for one, score, parts in zip(candidates, scores, measured, strict=True):
        told = (score - kind, score - top, one.cosine or 0.0, parts[_OWN])
        memory_type = one.value.get("memory_type")
        if memory_type == REFLEXION:
            fitted = weights.lesson
        elif memory_type == PROSPECTIVE and one.alone:  # what is intended is met by itself
            fitted = weights.alone
        else:
            fitted = weights.match
        judged.append((_chance(fitted, *told), one, parts, told))
    judged.sort(key=itemgetter(0), reverse=True)
    found = []
    for match, one, parts, told in judged[:most]:
        shares = zip(FEATURES, factors, parts, strict=True)
        evidence = {name: factor * value for name, factor, value in shares if value}
        by_itself = one.alone and one.value.get("memory_type") != REFLEXION
        alone = _chance(weights.alone, *told) if by_itself else None
        found.append(Weighed(one, match, evidence, alone))
    return found


def _chance(
    fitted: Mapping[str, float], level: float, gap: float, near: float, words: float
) -> float:
    """How likely a candidate is evidence, if memory helps with the question at all."""
    speaks = fitted["level"] * level + fitted["gap"] * gap + fitted.get("near", 0.0) * near
    speaks += fitted.get("words", 0.0) * words
    return 1 / (1 + math.exp(-max(speaks + fitted["bias"], -_EXPONENT)))


class Words(Protocol):
    """What has a vector for each word, such as `LocalEmbeddings`."""

    def alike(self, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
        """How alike the words of each text are to those asked, near 0…1."""

    def interchangeable(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Tell whether the words of each pair can stand for each other, as "my" and "your"."""


def likeness(
    candidates: Sequence[Candidate], question: Question, searched: Searched, words: Words | None
) -> list[float]:
    """How alike each candidate's words are to the question's; 0 for all without `words`.

    Each word of a question is met by the word of a memory that is nearest to it by the vectors of
    single words, and counts as much as its own vector is long: what is rare has a long one. What
    all memories of somebody share, a name, says nothing and is left out.
    """
    every = words_in(question.text)
    if words is None or not every:
        return [0.0] * len(candidates)
    names = question.names.union(*map(name_words, searched.speakers))
    asked = [one for one in every if one not in names] or every
    return words.alike(asked, [words_in(content_of(one.value)) for one in candidates])


def features(
    candidates: Sequence[Candidate],
    question: Question,
    searched: Searched,
    alike: Sequence[float] = (),
) -> list[tuple[float, ...]]:
    """The evidence for each candidate in the order of FEATURES, each part in a range near 0…1."""
    best = max(searched.best_cosine, _LEAST_COSINE)
    near = [(one.cosine or 0.0) / best for one in candidates]
    # How near its session is as a whole; without one each is by itself.
    sessions = [one.session or n for n, one in enumerate(candidates)]
    several: dict[str | int, list[float]] = defaultdict(list)
    for session, nearness in zip(sessions, near, strict=True):
        several[session].append(nearness)
    means = {session: fmean(nlargest(_NEAREST, some)) for session, some in several.items()}
    together = [means[session] for session in sessions]
    beside = zip(near, together, alike or [0.0] * len(near), strict=True)
    return [
        _features(one, question, searched, each)
        for one, each in zip(candidates, beside, strict=True)
    ]


def _features(
    one: Candidate, question: Question, searched: Searched, beside: tuple[float, float, float]
) -> tuple[float, ...]:
    """The evidence for one, of which these are known beside the others: dense, session, alike."""
    near, together, alike = beside
    reach = max(searched.sought * (K1 + 1), 1e-9)
    talk = 1 / (1 + (one.words_around or 0) / _HALF_WINDOW) / reach
    best = max(searched.best_cosine, _LEAST_COSINE)
    speaker = one.named or ""
    content = content_of(one.value)
    asking = content.count("?")
    role = str(one.value.get("role") or speaker).lower() if question.about_assistant else ""
    return (
        (one.own or 0.0) / reach,
        (one.window or 0.0) * talk,
        (one.before or 0.0) * talk,
        near,
        (one.around or 0.0) / best,
        float(not question.words.isdisjoint(name_words(speaker))),
        float(role in ASSISTANT_ROLES),
        float(question.wants_time and tells_time(content)),
        _closeness(one, question) if question.times else 0.0,
        -min(1.0, asking / max(1, len(_SENTENCE_END.findall(content)))) if asking else 0.0,
        _tells(one, speaker),
        together,
        float(one.speaker is None),
        alike,
    )


def _tells(one: Candidate, speaker: str) -> float:
    """1 for what surely tells something, -1 for small talk, 0 for what an assistant said."""
    if speaker.lower() in ASSISTANT_ROLES:
        return 0.0
    if (talk := small_talk(one.value)) is None:
        return 1.0
    likely = min(max(talk, _SURE), 1 - _SURE)
    return math.log(1 / likely - 1) / math.log(1 / _SURE - 1)


def tells_time(text: str) -> bool:
    """Whether a text has words of time: "yesterday", "in May", "two hours", a year, a date."""
    text = text.lower()
    words = set(text.translate(_TO_SPACE).split())
    if not words.isdisjoint(_TIME_WORDS) or any(map(_DATE.fullmatch, words)):
        return True
    return not words.isdisjoint(_IN_PHRASES) and bool(_TIME_PHRASE.search(text))


def _closeness(one: Candidate, question: Question) -> float:
    """1 in the time the question names, falling off slowly after it and fast before it."""
    when = one.occurred_at.date() if one.occurred_at else dated(content_of(one.value))
    gap = None if when is None else days_from(question.times, when)
    if gap is None:
        return 0.0
    return math.exp(-gap / _DAYS_AFTER if gap >= 0 else gap / _DAYS_BEFORE)
