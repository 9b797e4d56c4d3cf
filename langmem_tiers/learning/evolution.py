"""Evolution: decide which interactions become memories, and write those.

An interaction is a mapping with at least one of `content` (the whole of it), `asked`, `said`,
`done` and `outcome`, each a text or a list of texts. It may also have `context` (a text or a
mapping), `platform`, `entities`, `novel_pattern` and `relationship_deepening`. Other fields are
ignored. None is the same as a missing field, in the metrics as well.
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
from langmem_tiers.learning.reflexion import stable_key
from langmem_tiers.remember.new_memory import NewMemory

Valence = Literal["positive", "neutral", "negative"]
Entities = Callable[[str], Sequence[str]]
"""A function that extracts the entities of a text."""

LEARNING = "learning"
"""The memory type of an evolved interaction."""
PARTS = {
    "content": "",
    "asked": "Asked: ",
    "said": "Said: ",
    "done": "Done: ",
    "outcome": "Outcome: ",
}
"""The parts of an interaction, with the prefix of each in a summary."""

# The numbers of the agent-memory specification, under "Memory Evolution & Learning".
WORTH_REMEMBERING = 0.70
"""The least importance of an interaction that becomes a memory."""
FULL_ENGAGEMENT = 0.10
"""The engagement rate that counts 1."""
REVENUE = 0.90
NOVEL_PATTERN = 0.85
RELATIONSHIP_DEEPENING = 0.80
UNKNOWN_IMPORTANCE = 0.50
"""The importance if no factor is known."""

ENGAGING = WORTH_REMEMBERING * FULL_ENGAGEMENT
"""The least engagement rate that is worth remembering by itself, and counts as positive."""
NEUTRAL_SENTIMENT = 0.05
"""Sentiments nearer to 0 than this are neutral, as VADER's authors have it (Hutto and Gilbert,
ICWSM 2014)."""
PART_CHARACTERS = 400
"""The most characters of a part in a summary, a few sentences: our own choice."""
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
    """Find the names in a text by their form: @handles, #tags and runs of capitalised words.

    The first word of a sentence is part of a name only if it is one elsewhere in the text, or is
    spelled like PostgreSQL.
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
    """Tell whether a sentence begins at the match."""
    start = mention.start()
    return _OPENS.search(mention.string, max(start - 3, 0), start) is not None


class ImportanceScore(NamedTuple):
    """The importance of an interaction in 0…1: the mean of the known factors."""

    value: float
    factors: Mapping[str, float]

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {factor:g}" for name, factor in self.factors.items())
        return f"{self.value:g} ({listed or 'no factor is known'})"


class EvolvedMemory(NamedTuple):
    """The memory of an interaction, and whether it is worth storing."""

    fields: Mapping[str, Any]
    """Fields of the memory by name."""
    parts: Mapping[str, str]
    importance: ImportanceScore
    threshold: float

    @property
    def worth(self) -> bool:
        """Tell whether the memory is to be stored."""
        return self.importance.value >= self.threshold

    @property
    def reason(self) -> str:
        """Say why the memory is to be stored, or why not."""
        verdict = "reaches" if self.worth else "is below"
        return f"importance {self.importance} {verdict} the threshold of {self.threshold:g}"

    def to_memory(self, context: MemoryContext) -> NewMemory:
        """Return a new memory. The same interaction and metrics have the same key.

        Raises:
            InvalidInputError: if the metrics are no JSON.
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
) -> EvolvedMemory:
    """Make a learning of an interaction; `worth` says whether to store it, `reason` why.

    `extract_entities` is called for an interaction that names no entities. The default asks no
    model, so the same interaction always becomes the same memory.

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
        "platform_source": field_text(interaction, "platform") or "unknown",
        "success_metrics": dict(success_metrics),
    }
    least = _check_number(threshold, "threshold", 0, 1)
    return EvolvedMemory(fields, parts_of(interaction), importance, least)


def importance_of(
    interaction: Mapping[str, Any], success_metrics: Mapping[str, Any]
) -> ImportanceScore:
    """Score the importance of an interaction by the agent-memory specification.

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
    """Return the valence of an interaction, by its most direct metric. Our own rule.

    The first metric that is given decides: `sentiment` (a valence, or a number in −1…1); `success`
    (a bool); `user_satisfaction` or `satisfaction_score` (in 0…1, 0.5 as sentiment 0). Else revenue
    or an engagement that is worth remembering is positive, and anything else neutral.

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
    """Summarise an interaction in its own words.

    A `content` stays as it is. Each other part is one line with its first sentences (at most 400
    characters), and "…" for the rest.

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
    """Return the entities of an interaction in order of appearance, each once regardless of case.

    They are its field `entities`, or else are extracted from all its texts.

    Raises:
        InvalidTypeError: The field, or the result of `extract_entities`, is no list of texts.
    """
    parts, context = parts_of(interaction), context_of(interaction)
    named = interaction.get("entities")
    texts = [*parts.values(), *([context] if isinstance(context, str) else [])]
    names = texts_of(extract_entities("\n".join(texts)) if named is None else named, "entities")
    # Reversed, so that the first spelling of a name wins.
    spelled = {name.casefold(): name for name in reversed(names)}
    return tuple(spelled[name] for name in dict.fromkeys(map(str.casefold, names)))


# ---- fields of an interaction ---------------------------------------------------------------


def parts_of(interaction: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of an interaction by part, without blank ones."""
    fields = mapping_of(interaction, "interaction")
    parts = {name: field_text(fields, name) for name in PARTS}
    return {name: text for name, text in parts.items() if text}


def field_text(fields: Mapping[str, Any], name: str) -> str:
    """Return a field as one text; empty if it has none."""
    return "; ".join(texts_of(fields.get(name), name))


def texts_of(value: object, name: str) -> list[str]:
    """Return a text or a list of texts as a list without blank ones."""
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise InvalidTypeError(f"{name} is a text or a list of texts, not {short(value)}")
    return [text.strip() for text in texts if text.strip()]


def context_of(interaction: Mapping[str, Any]) -> str | dict[str, Any]:
    """Return the context of an interaction as a text or a mapping."""
    value = mapping_of(interaction, "interaction").get("context")
    return dict(value) if isinstance(value, Mapping) else field_text(interaction, "context")


def mapping_of(value: object, name: str) -> Mapping[str, Any]:
    """Return the value if it is a mapping.

    Raises:
        InvalidTypeError: if it is none.
    """
    if not isinstance(value, Mapping):
        raise InvalidTypeError(f"{name} is a mapping, not {type(value).__name__}")
    return value
