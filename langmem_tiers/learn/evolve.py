"""Evolution: which interactions become memories, and what those say.

An interaction is a mapping that says at least one of `content` (the whole of it), `asked`, `said`,
`done` and `outcome`, each a text or a list of texts. It may also say `context` (a text or a
mapping), `platform`, `entities`, `novel_pattern` and `relationship_deepening`. What else it holds
is of no account, and None is the same as leaving a field out, in the metrics as well.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.values import encode_value
from langmem_tiers.learn.reflexion import stable_key
from langmem_tiers.remember.new import NewMemory

Valence = Literal["positive", "neutral", "negative"]
Entities = Callable[[str], Sequence[str]]
"""Who and what a text is about."""

LEARNING = "learning"
"""The memory type of what is remembered so."""
PARTS = {
    "content": "",
    "asked": "Asked: ",
    "said": "Said: ",
    "done": "Done: ",
    "outcome": "Outcome: ",
}
"""The parts of an interaction that are told, and how each begins in a summary."""

# The numbers of the agent-memory specification, under "Memory Evolution & Learning".
WORTH_REMEMBERING = 0.70
"""The importance from which on an interaction becomes a memory."""
FULL_ENGAGEMENT = 0.10
"""The engagement rate that counts 1."""
REVENUE = 0.90
NOVEL_PATTERN = 0.85
RELATIONSHIP_DEEPENING = 0.80
UNKNOWN_IMPORTANCE = 0.50
"""The importance where no factor is known."""

ENGAGING = WORTH_REMEMBERING * FULL_ENGAGEMENT
"""The engagement rate that is worth remembering by itself; from here on it is positive."""
NEUTRAL_SENTIMENT = 0.05
"""Sentiments nearer to 0 than this are neutral, as VADER's authors have it (Hutto and Gilbert,
ICWSM 2014)."""
PART_CHARACTERS = 400
"""What a summary keeps of what was asked, said or done: a few sentences. Our own choice."""
_WHOLE_SENTENCES = re.compile(rf".{{{PART_CHARACTERS // 2},}}[.!?…](?= )")

_SATISFACTION = ("user_satisfaction", "satisfaction_score")
_INCOME = ("revenue_generated", "total_revenue")

_UPPER = "[A-ZÀ-ÖØ-ÞΑ-ΩА-Я]"
_MARKED = r"(?<![\w@#/&])[@#]\w+(?:[.-]\w+)*"
_NAME = rf"{_UPPER}(?=[\w+#])\w*(?:[&-]\w+)*[+#]*"
_MENTION = re.compile(rf"({_MARKED})|(?<![\w@#/.+-]){_NAME}(?: {_NAME})*")
_OPENS = re.compile(r"(?:\A|[.!?…:;\n\"“«])\W*\Z")
_MOST_WORDS = 5  # longer runs of capitalised words are headlines, or shouting


def names_in(text: str) -> list[str]:
    """The names in a text by their form: @handles, #tags and runs of capitalised words.

    A word that begins a sentence is part of a name only where it is one elsewhere in the text, or
    is spelled like PostgreSQL.
    """
    mentions = [
        (mention[0].split(), not mention[1] and _begins_sentence(mention))
        for mention in _MENTION.finditer(text)
    ]
    inside = {word for words, opens in mentions for word in words[opens:]}
    inside |= {word for words, _ in mentions for word in words if word[1:] != word[1:].lower()}
    names = (words[opens and words[0] not in inside :] for words, opens in mentions)
    return [" ".join(words) for words in names if 0 < len(words) <= _MOST_WORDS]


def _begins_sentence(mention: re.Match[str]) -> bool:
    """Whether a sentence begins there."""
    start = mention.start()
    return _OPENS.search(mention.string, max(start - 3, 0), start) is not None


class ImportanceScore(NamedTuple):
    """How important an interaction is, in 0…1: the mean of the factors that are known."""

    value: float
    factors: Mapping[str, float]

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {factor:g}" for name, factor in self.factors.items())
        return f"{self.value:g} ({listed or 'no factor is known'})"


class Evolved(NamedTuple):
    """What an interaction would be remembered as, and whether it is worth it."""

    fields: Mapping[str, Any]
    """What to store, by the names of a memory's fields."""
    parts: Mapping[str, str]
    importance: ImportanceScore
    threshold: float

    @property
    def worth(self) -> bool:
        """Whether it is to be stored."""
        return self.importance.value >= self.threshold

    @property
    def reason(self) -> str:
        """Why it is to be stored, or why not."""
        verdict = "reaches" if self.worth else "is below"
        return f"importance {self.importance} {verdict} the threshold of {self.threshold:g}"

    def to_memory(self, context: MemoryContext) -> NewMemory:
        """It as something to be stored; the same interaction and metrics have the same key.

        Raises:
            InvalidInputError: for metrics that are no JSON.
        """
        whole = encode_value({**self.fields, "interaction": self.parts})
        sorted_ = json.dumps(json.loads(whole), sort_keys=True)
        return NewMemory(**self.fields, key=stable_key(context, LEARNING, sorted_))


def evolve(
    interaction: Mapping[str, Any],
    success_metrics: Mapping[str, Any],
    *,
    threshold: float = WORTH_REMEMBERING,
    extract_entities: Entities = names_in,
) -> Evolved:
    """Make a learning of an interaction; `worth` says whether to store it, `reason` why.

    `extract_entities` finds its entities in its texts, where it names none itself. Without one of
    your own no model is asked: the same interaction always becomes the same memory.

    Raises:
        InvalidInputError: The interaction says nothing, a metric cannot be, or the threshold is
            not in 0…1.
        InvalidTypeError: A field or a metric that is read here is of the wrong type.
    """
    importance = importance_of(interaction, success_metrics)
    fields = {
        "content": summary_of(interaction),
        "memory_type": LEARNING,
        "importance": importance.value,
        "emotional_valence": valence_of(success_metrics),
        "entities": list(entities_of(interaction, extract_entities)),
        "context": context_of(interaction),
        "platform_source": text_of(interaction, "platform") or "unknown",
        "success_metrics": dict(success_metrics),
    }
    least = _check_number(threshold, "threshold", 0, 1)
    return Evolved(fields, parts_of(interaction), importance, least)


def importance_of(
    interaction: Mapping[str, Any], success_metrics: Mapping[str, Any]
) -> ImportanceScore:
    """How important an interaction is, as the agent-memory specification has it.

    Factors are the engagement rate (1 from 0.10 on), any revenue, a novel pattern and a deepening
    relationship. The mean is rounded to 12 digits, so that noise does not decide at a threshold.

    Raises:
        InvalidInputError: A metric is negative, infinite or not a number.
        InvalidTypeError: A metric is no number, or a mark of the interaction no bool.
    """
    metrics = mapping_of(success_metrics, "success_metrics")
    interaction = mapping_of(interaction, "interaction")
    engagement = _metric(metrics, "engagement_rate")
    factors = {}
    if engagement is not None:
        factors["engagement"] = min(engagement / FULL_ENGAGEMENT, 1.0)
    if _metric(metrics, "revenue_generated"):
        factors["revenue"] = REVENUE
    if _flag(interaction, "novel_pattern"):
        factors["novel_pattern"] = NOVEL_PATTERN
    if _flag(interaction, "relationship_deepening"):
        factors["relationship_deepening"] = RELATIONSHIP_DEEPENING
    mean = sum(factors.values()) / len(factors) if factors else UNKNOWN_IMPORTANCE
    return ImportanceScore(round(mean, 12), factors)


def valence_of(success_metrics: Mapping[str, Any]) -> Valence:
    """How an interaction was felt, by the most direct of its metrics. Our own rule.

    The first that is given decides: `sentiment` (a valence, or a number in −1…1); `success` (a
    bool); `user_satisfaction` or `satisfaction_score` (in 0…1, 0.5 as sentiment 0). Else revenue
    or an engagement that is worth remembering is positive, and everything else neutral.

    Raises:
        InvalidInputError: Any of these metrics is out of its range.
        InvalidTypeError: Any of these metrics is of the wrong type.
    """
    metrics = mapping_of(success_metrics, "success_metrics")
    named, success = metrics.get("sentiment"), _flag(metrics, "success")
    if isinstance(named, str) and named not in get_args(Valence):
        raise InvalidInputError(
            f"sentiment is {short(named, 40)}: use positive, neutral, negative or a number in −1…1"
        )
    satisfied = [_metric(metrics, name, 0, 1) for name in _SATISFACTION]
    signals = [
        None if isinstance(named, str) else _metric(metrics, "sentiment", -1, 1),
        None if success is None else 2 * success - 1,
        *(None if share is None else 2 * share - 1 for share in satisfied),
    ]
    income = sum(_metric(metrics, name) or 0.0 for name in _INCOME)
    engagement = _metric(metrics, "engagement_rate") or 0.0
    if isinstance(named, str):
        return cast("Valence", named)
    gained = 1 if income > 0 or engagement >= ENGAGING else 0
    felt = next((signal for signal in signals if signal is not None), gained)
    if abs(felt) < NEUTRAL_SENTIMENT:
        return "neutral"
    return "positive" if felt > 0 else "negative"


def summary_of(interaction: Mapping[str, Any]) -> str:
    """What was asked, said and done and what came of it, in the interaction's own words.

    A `content` stays as it is. Each of the other parts is a line, shortened to its first sentences
    (400 characters at most), with "…" for what is left out.

    Raises:
        InvalidInputError: The interaction says nothing.
        InvalidTypeError: A part is neither a text nor a list of texts.
    """
    parts = parts_of(interaction)
    if not parts:
        raise InvalidInputError(
            f"the interaction says nothing: give it at least one of {', '.join(PARTS)}"
        )
    return "\n".join(
        text if name == "content" else PARTS[name] + _first_sentences(text)
        for name, text in parts.items()
    )


def _first_sentences(text: str) -> str:
    text = " ".join(text.split())
    if len(text) <= PART_CHARACTERS:
        return text
    start = text[: PART_CHARACTERS - 2]
    sentences = _WHOLE_SENTENCES.match(start)
    kept = sentences[0] if sentences else start.rpartition(" ")[0] or start
    return f"{kept} …"


def _metric(
    metrics: Mapping[str, Any], name: str, least: float = 0, most: float = math.inf
) -> float | None:
    value = metrics.get(name)
    return None if value is None else _check_number(value, name, least, most)


def _check_number(value: object, name: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(
            f"{name} is a number, not {type(value).__name__}: leave it out if it is not known"
        )
    if not least <= value <= min(most, sys.float_info.max):
        raise InvalidInputError(
            f"{name} is a finite number from {least} to {most}: correct it, or leave it out"
        )
    return float(value)


def _flag(marks: Mapping[str, Any], name: str) -> bool | None:
    value = marks.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidTypeError(
            f"{name} is True or False, not {type(value).__name__}: leave it out if it is not known"
        )
    return value


def entities_of(
    interaction: Mapping[str, Any], extract_entities: Entities = names_in
) -> tuple[str, ...]:
    """Who and what an interaction is about, in order of appearance, each once whatever its case.

    Its own `entities`, if it has that field; else what is extracted of all its texts.

    Raises:
        InvalidTypeError: `entities`, or what was extracted, is no list of texts.
    """
    parts, context = parts_of(interaction), context_of(interaction)
    named = interaction.get("entities")
    texts = [*parts.values(), *([context] if isinstance(context, str) else [])]
    names = texts_of(extract_entities("\n".join(texts)) if named is None else named, "entities")
    # Turned round, so that the first spelling of a name wins.
    spelled = {name.casefold(): name for name in reversed(names)}
    return tuple(spelled[name] for name in dict.fromkeys(map(str.casefold, names)))


# ---- what it says, read and checked ---------------------------------------------------------


def parts_of(interaction: Mapping[str, Any]) -> dict[str, str]:
    """The texts of an interaction by part, without the blank ones."""
    fields = mapping_of(interaction, "interaction")
    parts = {name: text_of(fields, name) for name in PARTS}
    return {name: text for name, text in parts.items() if text}


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """A field as one text; empty if it says nothing."""
    return "; ".join(texts_of(fields.get(name), name))


def texts_of(value: object, name: str) -> list[str]:
    """A text or a list of texts as a list, without the blank ones."""
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise InvalidTypeError(f"{name} is a text or a list of texts, not {short(value)}")
    return [text.strip() for text in texts if text.strip()]


def context_of(interaction: Mapping[str, Any]) -> str | dict[str, Any]:
    """Its circumstances, as text or a mapping."""
    value = mapping_of(interaction, "interaction").get("context")
    return dict(value) if isinstance(value, Mapping) else text_of(interaction, "context")


def mapping_of(value: object, name: str) -> Mapping[str, Any]:
    """What is a mapping.

    Raises:
        InvalidTypeError: if it is none.
    """
    if not isinstance(value, Mapping):
        raise InvalidTypeError(f"{name} is a mapping, not {type(value).__name__}")
    return value
