"""Plots: a few memories of one namespace that belong together, and what is true of them."""

from __future__ import annotations

import random
from typing import NamedTuple

from benchmarks.year_words import (
    PHRASES,
    SLOT,
    Cast,
    Fact,
    Many,
    Saying,
    cased,
    punctuated,
    said,
    synonymous,
    typo,
)


class Part(NamedTuple):
    """One memory of a plot."""

    content: str
    family: str
    repeats: int | None = None
    """The part that says the same, first of its kind."""
    ended_by: int | None = None
    """The later part by which it is no longer true."""


class Plot(NamedTuple):
    """Its parts, in the order in which they are told."""

    kind: str
    memory_type: str
    parts: list[Part]


class _Told(NamedTuple):
    """How a value was told, or denied, and in which change."""

    template: str
    value: str
    number: int

    @property
    def denies(self) -> bool:
        """Whether it only says what is no longer so."""
        return "{v}" not in self.template


PARAPHRASES = ("casing", "punctuation", "prefix", "order", "synonym", "typo", "mixed")
AGAIN = ("casing", "punctuation", "prefix")
NEAR_MISSES = (
    *("number", "name", "day", "identifier", "negation", "opposite", "roles", "narrower"),
)
LOOK_ALIKES = (
    *("multi-valued", "other scope", "other subject", "refinement", "hedged", "question"),
    *("reported", "past"),
)
TYPES = ("semantic", "procedural", "pattern")
INSTRUCTIONS = TYPES[1:]
"""Never superseded: some near-misses would be contradictions of each other."""
_SLOTS = {
    "number": ("n", "time"),
    "name": ("p", "q", "city", "tool", "svc"),
    "day": ("day",),
    "identifier": ("id",),
}


class Plotter:
    """Draws the plots of one tenant."""

    def __init__(self, drawn: random.Random) -> None:
        self._drawn, self._cast = drawn, Cast(drawn)

    def plain(self) -> Plot:
        """One saying."""
        form, values, _ = self._said()
        return self._plot("plain", [Part(said(form, values) + ".", "plain")])

    def repeated(self, most: int) -> Plot:
        """A saying and up to three paraphrases, `most` memories in all."""
        form, values, saying = self._said()
        text = said(form, values)
        parts = [Part(text + ".", "original")]
        for _ in range(min(self._drawn.randint(1, 3), most - 1)):
            family, again = self._paraphrased(form, saying, values)
            parts.append(Part(again, family, repeats=0))
        return self._plot("repeated", parts)

    def _said(self) -> tuple[str, dict[str, str], Saying | None]:
        """A form, its values, and the saying it is one of, if it is none of a fact."""
        if self._drawn.random() < 0.3:
            fact = self._drawn.choice(PHRASES.facts)
            values = {"s": self._cast.value(fact.subject), "v": self._cast.value(fact.values)}
            return fact.states[0], values, None
        saying = self._drawn.choice(PHRASES.sayings)
        return saying.forms[0], self._cast.filled(saying.forms[0]), saying

    def _paraphrased(
        self, form: str, saying: Saying | None, values: dict[str, str]
    ) -> tuple[str, str]:
        while True:
            family = self._drawn.choice(PARAPHRASES)
            text = said(form, values)
            if family != "mixed":
                again = self._varied(family, saying, values, text)
            else:
                one, other = self._drawn.sample(["order", "synonym", "typo"], 1)[0], "prefix"
                half = self._varied(one, saying, values, text)
                again = half and self._varied(other, saying, values, half)
            if again:
                return family, again

    def _varied(
        self, family: str, saying: Saying | None, values: dict[str, str], text: str
    ) -> str | None:
        drawn = self._drawn
        if family == "order":
            others = saying.forms[1:] if saying else ()
            return said(drawn.choice(others), values) if others else None
        if family == "prefix":
            return drawn.choice(PHRASES.prefixes).replace("{it}", text)
        if family == "synonym":
            return synonymous(text, drawn)
        if family == "typo":
            return typo(text, drawn)
        return punctuated(text, drawn) if family == "punctuation" else cased(text, drawn)

    def near_miss(self) -> Plot:
        """A saying, and one that differs in what matters; which comes first is left to chance."""
        while True:
            family = self._drawn.choice(NEAR_MISSES)
            saying = self._drawn.choice(PHRASES.sayings)
            values = self._cast.filled(saying.forms[0])
            other = self._missed(family, saying, values)
            if other:
                parts = [Part(said(saying.forms[0], values) + ".", family), Part(other, family)]
                self._drawn.shuffle(parts)
                return Plot("near-miss", self._drawn.choice(INSTRUCTIONS), parts)

    def _missed(self, family: str, saying: Saying, values: dict[str, str]) -> str | None:
        form = self._drawn.choice(saying.forms)
        if family in _SLOTS:
            kinds = [one for one in SLOT.findall(form) if one in _SLOTS[family]]
            if not kinds:
                return None
            kind = self._drawn.choice(kinds)
            if kind == "id":
                return said(form, values | {"id": _slipped(values["id"])})
            return said(form, values | {kind: self._cast.other(kind, values[kind])})
        if family == "roles":
            if saying.symmetric or not {"p", "q"} <= set(SLOT.findall(form)):
                return None
            return said(form, values | {"p": values["q"], "q": values["p"]})
        other = {
            "negation": saying.negated,
            "opposite": saying.opposite,
            "narrower": saying.narrower,
        }[family]
        return said(other, values) if other else None

    def changed(self, most: int) -> Plot:
        """A fact whose value changes, or one of many that is later denied."""
        drawn = self._drawn
        if drawn.random() < 0.2 or most < 3:
            return self._denied(drawn.choice(PHRASES.many))
        fact = drawn.choice(PHRASES.facts)
        subject, first = self._cast.value(fact.subject), self._cast.value(fact.values)
        told = [_Told(drawn.choice(fact.states), first, 0)]
        changes, back = drawn.randint(1, 3), drawn.random() < 1 / 8
        parts: list[tuple[str, str]] = []
        for number in range(changes + 1):
            if number:
                told.append(self._next(fact, told, first if back and number == 2 else None))
            one = told[-1]
            before = told[-2].value if number else ""
            text = said(one.template, {"s": subject, "v": one.value, "w": before})
            parts.append((text, "change" if number else "first"))
            if drawn.random() < 0.25:
                told.append(one)
                again = self._varied(drawn.choice(AGAIN), None, {}, text)
                parts.append((again or text, "told again"))
        return self._plot("changed", _chain(parts[:most], told[:most]), "semantic")

    def _next(self, fact: Fact, told: list[_Told], value: str | None) -> _Told:
        """How the next value is told; what was denied does not come back, nor is it referred to."""
        last = told[-1]
        if last.denies or self._drawn.random() < 0.2:
            template = self._drawn.choice(fact.states)
        else:
            template = self._drawn.choice(fact.changes)
        if "{v}" not in template:
            return _Told(template, last.value, last.number + 1)
        gone = {last.value, *(one.value for one in told if one.denies)}
        while value is None or value in gone:
            value = self._cast.value(fact.values)
        return _Told(template, value, last.number + 1)

    def _denied(self, many: Many) -> Plot:
        values = {"s": self._cast.value(many.subject), "v": self._cast.value(many.values)}
        parts = [
            Part(said(many.state, values), "first", ended_by=1),
            Part(said(many.negated, values), "denial"),
        ]
        return self._plot("changed", parts, "semantic")

    def look_alike(self) -> Plot:
        """Two memories that look like a change and are none."""
        family = self._drawn.choice(LOOK_ALIKES)
        fact = self._drawn.choice(PHRASES.facts)
        if family == "multi-valued":
            many = self._drawn.choice(PHRASES.many)
            subject, value = self._cast.value(many.subject), self._cast.value(many.values)
            texts = [
                said(many.state, {"s": subject, "v": one})
                for one in (value, self._cast.other(many.values, value))
            ]
        else:
            texts = self._alike(family, fact)
        return self._plot("look-alike", [Part(one, family) for one in texts], "semantic")

    def _alike(self, family: str, fact: Fact) -> list[str]:
        cast, state = self._cast, fact.states[0]
        value = cast.value(fact.values)
        values = {"s": cast.value(fact.subject), "v": value, "q": cast.value("q")}
        then = values | {"v": cast.other(fact.values, value)}
        if family == "other scope":
            return [said(fact.scoped[0], values), said(fact.scoped[1], then)]
        if family == "other subject":
            return [said(state, values), said(state, then | {"s": cast.value(fact.subject)})]
        if family == "refinement":
            texts = [said(state, values), said(fact.refined, values)]
            self._drawn.shuffle(texts)
            return texts
        later = {
            "hedged": fact.hedged,
            "question": fact.question,
            "reported": fact.reported,
            "past": fact.past,
        }[family]
        return [said(state, values), said(later, then)]

    def _plot(self, kind: str, parts: list[Part], memory_type: str | None = None) -> Plot:
        return Plot(kind, memory_type or self._drawn.choice(TYPES), parts)


def _slipped(identifier: str) -> str:
    """With its last digit another one."""
    place = max(place for place, one in enumerate(identifier) if one.isdigit())
    digit = str((int(identifier[place]) + 1) % 10)
    return identifier[:place] + digit + identifier[place + 1 :]


def _chain(texts: list[tuple[str, str]], told: list[_Told]) -> list[Part]:
    """Each is ended by the first text of the next change, unless it is a denial itself."""
    numbers = [one.number for one in told]
    parts = []
    for place, ((text, family), one) in enumerate(zip(texts, told, strict=True)):
        first = numbers.index(one.number)
        later = numbers.index(one.number + 1) if one.number + 1 in numbers else None
        repeats = first if first != place else None
        parts.append(Part(text, family, repeats, None if one.denies else later))
    return parts
