"""Score the candidates of a recall: how well each answers the question, as a match in 0…1.

A match is made of fourteen features and fitted weights. The weights ship in `weights/`, a file for
each embedding model, as nearness differs between models, and one for all others. They were fitted
by `benchmarks/fit.py` on real meetings (QMSum, MIT licence), and on lives with an assistant, facts
that stand by themselves, conversations and assistant logs of `benchmarks/data`; a user's own data
refits them with the same script.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from heapq import nlargest
from importlib.resources import files
from operator import itemgetter, mul
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.core.memory import (
    ASSISTANT_ROLES,
    Recollection,
    ReplacedMemory,
    Tier,
    decode_namespace,
)
from langmem_tiers.core.texts import distinct_words
from langmem_tiers.core.types import PROSPECTIVE, REFLEXION
from langmem_tiers.core.values import content_of, small_talk_chance
from langmem_tiers.core.vectors import Distance
from langmem_tiers.postgres.flow import Row
from langmem_tiers.recall.question import Question, days_from_nearest, leading_date, name_words


class Candidate(NamedTuple):
    """Memory that may answer the question, with the evidence for it.

    It is a row of the statements recall, recall_newest and find; columns are in this order.
    """

    tenant: str
    namespace: str
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    tier: str
    expires_at: datetime | None
    ttl_minutes: float | None
    id: int
    cosine: float | None
    """Cosine to the query, in -1…1; None for a memory without a vector."""
    around: float | None
    """Mean cosine of the memory and its neighbours: two turns before it to two after it. A memory
    without a turn, or stored among notes, is its only neighbour, here and below."""
    own: float | None
    """BM25 of its own words."""
    window: float | None
    """BM25 of its words and those of its neighbours, whatever their length."""
    before: float | None
    """BM25 of the turn before it."""
    words_around: int | None
    """Distinct words of the memory and its neighbours, without stop words."""
    speaker: str | None
    occurred_at: datetime | None
    access_count: int
    success_count: int
    failure_count: int
    last_accessed_at: datetime | None
    strength: float
    outdated: bool = False
    """True if it came from a superseded memory."""
    replaced: Sequence[str] | None = None
    """Handle and moment of the memory that it replaced last."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Return its namespace and key."""
        return decode_namespace(self.tenant, self.namespace), self.key

    @property
    def session(self) -> str | None:
        """Return the id of the session that it was said in."""
        session = self.value.get("session_id")
        return session if isinstance(session, str) else None


_KEY, _VALUE, _COSINE = map(Candidate._fields.index, ("key", "value", "cosine"))
_NEAR = slice(_COSINE, _COSINE + 2)
"""Columns of both cosines, which are distances in a row."""
_PLACE = itemgetter(*map(Candidate._fields.index, ("namespace", "key", "id")))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFacts:
    """Facts about everything that was searched."""

    memories: float = 0.0
    query_idf: float = 0.0
    """Sum of the idf of the query's words, names of speakers left out."""
    known_idf: float = 0.0
    """Sum of the idf of those words that occur."""
    best_cosine: float = 0.0
    speakers: tuple[str, ...] = ()
    known_names: frozenset[str] = frozenset()
    """Names of the question that occur."""


def read_candidates(rows: Sequence[Row], distance: Distance) -> list[Candidate]:
    """Return the candidates in these rows, in their order."""
    candidates = []
    for row in rows:
        if row[_KEY] is not None:
            near = list(row[_NEAR])
            for place, away in enumerate(near):
                near[place] = None if away is None else distance.cosine(away)
            # Recalls that earlier releases recorded lack the last columns.
            candidates.append(Candidate(*row[: _NEAR.start], *near, *row[_NEAR.stop :]))
    return candidates


def read_candidates_and_facts(
    rows: Sequence[Row], distance: Distance
) -> tuple[list[Candidate], SearchFacts]:
    """Return the candidates, ordered by key, and the facts about what was searched.

    The row without a key holds the facts.
    """
    candidates = read_candidates(rows, distance)
    candidates.sort(key=_PLACE)
    facts: Mapping[str, Any] = {}
    for row in rows:
        if row[_KEY] is None:
            facts = row[_VALUE]
            break
    return candidates, SearchFacts(
        memories=facts.get("memories") or 0.0,
        query_idf=facts.get("sought") or 0.0,
        known_idf=facts.get("known") or 0.0,
        best_cosine=max([candidate.cosine or 0.0 for candidate in candidates], default=0.0),
        speakers=tuple(facts.get("speakers") or ()),
        known_names=frozenset(facts.get("names") or ()),
    )


_LARGEST = 1e9
"""Bound on numbers of a value: a larger one is read as no importance and no boost."""


def to_recollection(
    candidate: Candidate, match: float, evidence: Mapping[str, float]
) -> Recollection:
    """Make a recollection of a candidate; fields of a wrong type are left out."""
    value, was = candidate.value, candidate.replaced
    memory_type, fields = value.get("memory_type"), {}
    for name, read in _FIELD_READERS.items():
        if name in value:
            fields[name] = read(value[name])
    return Recollection(
        key=candidate.key,
        namespace=decode_namespace(candidate.tenant, candidate.namespace),
        tier=Tier(candidate.tier),
        memory_type=memory_type if memory_type and isinstance(memory_type, str) else "episodic",
        content=content_of(value),
        value=value,
        created_at=candidate.created_at,
        updated_at=candidate.updated_at,
        occurred_at=candidate.occurred_at,
        match=match,
        evidence=evidence,
        speaker=candidate.speaker,
        access_count=candidate.access_count,
        success_count=candidate.success_count,
        failure_count=candidate.failure_count,
        last_accessed_at=candidate.last_accessed_at,
        strength=candidate.strength,
        outdated=candidate.outdated,
        replaces=None if was is None else ReplacedMemory(was[0], datetime.fromisoformat(was[1])),
        **fields,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _LARGEST else None


_FIELD_READERS: Mapping[str, Callable[[object], Any]] = {
    "importance": _number,
    "boost": lambda value: _number(value) or 1.0,
    "tags": _texts,
    "entities": _texts,
    "agent_id": _text,
    "project_id": _text,
    "session_id": _text,
    "source_task": _text,
    "emotional_valence": _text,
    "platform_source": _text,
    "context": lambda value: value,
    "metadata": lambda value: value if isinstance(value, dict) else {},
    "success_metrics": lambda value: value if isinstance(value, dict) else {},
}
"""Fields that a recollection takes from the value, each with its reader."""


# Scores

_NAMED = re.compile(
    r"(?:[\[(][^\])\n]{1,40}[\])] ?)?([^\W\d_][\w.'\u2019-]{0,30}(?: [\w.'\u2019-]{1,30}){0,2}): \S"
)
"""Beginning of a text that names its speaker, such as `Ann: I am back`: a name of up to three words
and a colon, perhaps behind a time in brackets."""
K1 = 1.2
"""BM25's saturation, as in the statement."""
_HALF_WINDOW = 100
"""Words in five turns at which neighbours count half: they matter in short talk."""
_DAYS_AFTER = 10.0
_DAYS_BEFORE = 4.0
"""Decay in days: people tell what happened in the days after it, and seldom announce it long
before."""
_LEAST_COSINE = 0.1
_NEAREST = 3
"""Memories of a session whose mean nearness is the session's."""
_SURE = 0.05
"""Least chance of small talk that still counts."""
_EXPONENT = 700.0
"""Largest exponent of a float, about."""
_OWN = 0
_KIND = slice(5, 9)
"""Features, from "named" to "date", that fit a kind of question: they order candidates and do not
change the level."""

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
    """Fitted weights."""

    features: Mapping[str, float]
    match: Mapping[str, float]
    """Weights that turn a score into a chance and keep its order."""
    alone: Mapping[str, float]
    """Weights of the chance by which a floor drops a memory that stands by itself."""
    lesson: Mapping[str, float]
    """Weights of the chance of a reflexion; nearness and the words asked count by themselves as
    well."""
    helps: Mapping[str, float]
    """Weights of `ranking.HELP_FEATURES`."""
    meaning: Sequence[float] = ()
    """Weight of each number of a question's vector: whether memory helps. Empty for a model that
    the fit does not know."""


def weights_for_model(model: str) -> Weights:
    """Return the shipped weights for a model of `local_index`, or for `other` ones."""
    return _shipped_weights(model if model in MODELS else OTHER)


@cache
def _shipped_weights(name: str) -> Weights:
    return read_weights(files(__package__).joinpath(f"weights/{name}.json").read_text("utf-8"))


def read_weights(text: str) -> Weights:
    """Read weights as `benchmarks/fit.py` writes them, in JSON.

    Raises:
        ConfigurationError: for anything else.
    """
    try:
        loaded = json.loads(text)
        weights = Weights(**loaded)
        named = {"features": FEATURES, "match": CHANCE, "alone": BY_ITSELF, "lesson": OF_LESSONS}
        named["helps"] = ("bias",)
        lacks = [
            name
            for part, all_ in named.items()
            for name in all_
            if name not in getattr(weights, part)
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
"""Features in their order."""
CHANCE = ("level", "gap", "bias")
"""Terms of a chance: the score, and how far it is below the best. They keep the order."""
BY_ITSELF = ("level", "gap", "near", "bias")
"""Terms for a memory that stands by itself, where a floor may drop it: its own nearness counts."""
OF_LESSONS = ("level", "gap", "near", "words", "bias")
MODELS = ("local", "minilm", "multilingual")
OTHER = "other"


class ScoredCandidate(NamedTuple):
    """Candidate with its match: the calibrated chance, in 0…1, that it is evidence."""

    candidate: Candidate
    match: float
    evidence: Mapping[str, float]
    """Contribution of each feature to the score, without those that add nothing."""
    alone: float | None
    """Chance by which a floor judges a memory that stands by itself; None for others."""


def score_candidates(
    candidates: Sequence[Candidate],
    question: Question,
    searched: SearchFacts,
    weights: Weights,
    alike: Sequence[float] = (),
    *,
    most: int | None = None,
) -> list[ScoredCandidate]:
    """Score all candidates of one question and return the best, or all, by their match.

    `alike` is the word similarity of each candidate, if there is one.
    """
    measured = candidate_features(candidates, question, searched, alike)
    if not measured:
        return []
    factors = itemgetter(*FEATURES)(weights.features)
    scores = [sum(map(mul, parts, factors)) for parts in measured]
    best = tuple(map(max, *measured)) if len(measured) > 1 else measured[0]
    kind, top = sum(map(mul, best[_KIND], factors[_KIND])), max(scores)
    judged = []
    for candidate, score, parts in zip(candidates, scores, measured, strict=True):
        terms = (score - kind, score - top, candidate.cosine or 0.0, parts[_OWN])
        memory_type = candidate.value.get("memory_type")
        # it has no neighbours that count
        alone = candidate.session is None and candidate.around == candidate.cosine
        if memory_type == REFLEXION:
            fitted, alone = weights.lesson, False
        elif memory_type == PROSPECTIVE and alone:  # an intention stands by itself
            fitted = weights.alone
        else:
            fitted = weights.match
        judged.append(
            (_evidence_probability(fitted, *terms), candidate, parts, terms if alone else None)
        )
    judged.sort(key=itemgetter(0), reverse=True)
    scored = []
    for match, candidate, parts, by_itself in judged[:most]:
        evidence = {}
        for name, factor, value in zip(FEATURES, factors, parts, strict=True):
            if value:
                evidence[name] = factor * value
        chance = None if by_itself is None else _evidence_probability(weights.alone, *by_itself)
        scored.append(ScoredCandidate(candidate, match, evidence, chance))
    return scored


def _evidence_probability(
    fitted: Mapping[str, float], level: float, gap: float, near: float, words: float
) -> float:
    """Return the chance that a candidate is evidence, if memory helps with the question."""
    speaks = fitted["level"] * level + fitted["gap"] * gap + fitted.get("near", 0.0) * near
    speaks += fitted.get("words", 0.0) * words
    return 1 / (1 + math.exp(-max(speaks + fitted["bias"], -_EXPONENT)))


class WordVectors(Protocol):
    """Vectors of single words, such as `LocalEmbeddings` has."""

    def alike(self, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
        """Compare the words of each text with those asked; near 0…1."""

    def interchangeable(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Tell whether the words of each pair can replace each other, as "my" and "your"."""


def word_similarities(
    candidates: Sequence[Candidate],
    question: Question,
    searched: SearchFacts,
    words: WordVectors | None,
) -> list[float]:
    """Compare each candidate's words with the question's; 0 for all without `words`.

    Each word of the question is matched with the memory's nearest word by the vectors of single
    words, and counts as much as its own vector is long: rare words have long ones. Names of
    speakers are left out, as all memories of a speaker share them.
    """
    every = distinct_words(question.text)
    if words is None or not every:
        return [0.0] * len(candidates)
    names = question.names.union(*map(name_words, searched.speakers))
    asked = [word for word in every if word not in names] or every
    return words.alike(
        asked, [distinct_words(content_of(candidate.value)) for candidate in candidates]
    )


def candidate_features(
    candidates: Sequence[Candidate],
    question: Question,
    searched: SearchFacts,
    alike: Sequence[float] = (),
) -> list[tuple[float, ...]]:
    """Return the features of each candidate in the order of FEATURES, each near 0…1."""
    best = max(searched.best_cosine, _LEAST_COSINE)
    reach = max(searched.query_idf * (K1 + 1), 1e-9)
    near: list[float] = []
    sessions: list[str | int] = []
    in_session: dict[str | int, list[float]] = defaultdict(list)
    for n, candidate in enumerate(candidates):
        near.append((candidate.cosine or 0.0) / best)
        sessions.append(candidate.session or n)  # a memory without a session is one by itself
        in_session[sessions[n]].append(near[n])
    # nearness of each session as a whole
    together = {session: fmean(nlargest(_NEAREST, some)) for session, some in in_session.items()}
    rows: list[tuple[float, ...]] = []
    for n, candidate in enumerate(candidates):
        content, speaker = content_of(candidate.value), candidate.speaker
        if speaker is None:
            named = _NAMED.match(content)
            speaker = named[1] if named else ""
        role = ""
        if question.about_assistant:
            role = str(candidate.value.get("role") or speaker).lower()
        talk = 1 / (1 + (candidate.words_around or 0) / _HALF_WINDOW) / reach
        asking = content.count("?")
        row = (
            (candidate.own or 0.0) / reach,
            (candidate.window or 0.0) * talk,
            (candidate.before or 0.0) * talk,
            near[n],
            (candidate.around or 0.0) / best,
            float(not question.words.isdisjoint(name_words(speaker))),
            float(role in ASSISTANT_ROLES),
            float(question.wants_time and names_time(content)),
            _date_closeness(candidate, question) if question.times else 0.0,
            -min(1.0, asking / max(1, len(_SENTENCE_END.findall(content)))) if asking else 0.0,
            _informativeness(candidate, speaker),
            together[sessions[n]],
            float(candidate.speaker is None),
            alike[n] if alike else 0.0,
        )
        rows.append(row)
    return rows


def _informativeness(candidate: Candidate, speaker: str) -> float:
    """Return 1 for a sure statement, -1 for small talk, 0 for an assistant's message."""
    if speaker.lower() in ASSISTANT_ROLES:
        return 0.0
    if (talk := small_talk_chance(candidate.value)) is None:
        return 1.0
    likely = min(max(talk, _SURE), 1 - _SURE)
    return math.log(1 / likely - 1) / math.log(1 / _SURE - 1)


def names_time(text: str) -> bool:
    """Tell whether a text has words of time: "yesterday", "in May", "two hours", a year, a date."""
    text = text.lower()
    words = set(text.translate(_TO_SPACE).split())
    if not words.isdisjoint(_TIME_WORDS) or any(map(_DATE.fullmatch, words)):
        return True
    return not words.isdisjoint(_IN_PHRASES) and bool(_TIME_PHRASE.search(text))


def _date_closeness(candidate: Candidate, question: Question) -> float:
    """Return 1 in the time that the question names; it falls slowly after it and fast before it."""
    when = (
        candidate.occurred_at.date()
        if candidate.occurred_at
        else leading_date(content_of(candidate.value))
    )
    gap = None if when is None else days_from_nearest(question.times, when)
    if gap is None:
        return 0.0
    return math.exp(-gap / _DAYS_AFTER if gap >= 0 else gap / _DAYS_BEFORE)
