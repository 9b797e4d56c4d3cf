"""The words of a tenant's year: subjects that are used once, values, and how a text is varied."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from benchmarks.year_phrases import SLOT, Phrases, slots

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


class Cast:
    """What fills the slots for one tenant."""

    def __init__(self, phrases: Phrases, drawn: random.Random) -> None:
        pools = phrases.pools
        self._pools, self._drawn = pools, drawn
        self._people = self._shuffled(f"{a} {b}" for a in pools["first"] for b in pools["last"])
        self._services = self._shuffled(
            f"the {a} {b}" for a in pools["service"] for b in pools["kind"]
        )

    def _shuffled(self, names: Iterator[str]) -> Iterator[str]:
        """All of them in some order; where that is not enough, the next have a number."""
        every = list(names)
        self._drawn.shuffle(every)
        turn = 1
        while True:
            yield from every if turn == 1 else (f"{one} {turn}" for one in every)
            turn += 1

    def value(self, kind: str) -> str:
        """One of a kind; a person or a service is a new one."""
        drawn = self._drawn
        if kind in ("p", "q"):
            return next(self._people)
        if kind == "svc":
            return next(self._services)
        if kind == "day":
            return drawn.choice(DAYS)
        made = {
            "n": (2, 90, ""),
            "seconds": (5, 90, "s"),
            "megabytes": (10, 900, " MB"),
            "minutes": (3, 50, " minutes"),
            "port": (1024, 9999, ""),
            "time": (1, 23, ":30"),
        }
        if kind in made:
            low, high, unit = made[kind]
            return f"{drawn.randint(low, high)}{unit}"
        return drawn.choice(self._pools[kind]).replace("{n}", str(drawn.randint(100, 999)))

    def other(self, kind: str, than: str) -> str:
        """Another one of a kind."""
        while (value := self.value(kind)) == than:
            pass
        return value

    def filled(self, template: str) -> dict[str, str]:
        return {one: self.value(one) for one in slots(template)}


def said(template: str, values: dict[str, str]) -> str:
    """A template with its slots filled, as a sentence without its full stop."""
    text = SLOT.sub(lambda found: values[found[1]], template)
    return text[0].upper() + text[1:]


def lowered(template: str, text: str) -> str:
    """As it goes on within a sentence: small, unless it begins with a name."""
    named = template.startswith("{") and not template.startswith(("{svc}", "{s}"))
    return text if named or not text.startswith(_COMMON) else text[0].lower() + text[1:]


_COMMON = (
    *("The ", "On ", "Every ", "You ", "In ", "To ", "When ", "Increase ", "Enable ", "Clear "),
    *("Uploads ", "With ", "After ", "Often ", "Customers ", "If ", "Remove ", "Big ", "Deploys "),
    *(
        "Public ",
        "Ticket ",
        "Hold ",
        "At ",
        "Orders ",
        "Parcel ",
        "It ",
        "Ask ",
        "Whenever ",
        "We ",
    ),
    "From ",
)

_KEYBOARD = dict(zip("qwertyuiopasdfghjklzxcvbnm", "wertyuioplsdfghjkkxcvbnmm", strict=False))


def typo(text: str, drawn: random.Random) -> str | None:
    """With a slip in one word of six small letters or more, never in its first letter."""
    found = list(re.finditer(r"\b[a-z]{6,}\b", text))
    if not found:
        return None
    chosen = drawn.choice(found)
    word = chosen[0]
    for _ in range(20):
        place = drawn.randrange(1, len(word) - 1)
        before, here, after = word[:place], word[place], word[place + 1 :]
        slip = drawn.choice(
            (
                before + after[0] + here + after[1:],
                before + after,
                before + here + here + after,
                before + _KEYBOARD.get(here, "x") + after,
            )
        )
        if slip != word:
            return text[: chosen.start()] + slip + text[chosen.end() :]
    return None


def synonymous(text: str, phrases: Phrases, drawn: random.Random) -> str | None:
    """With one word replaced by the set's table."""
    known = [one for one in phrases.synonyms if re.search(rf"\b{one}\b", text)]
    if not known:
        return None
    chosen = drawn.choice(known)
    return re.sub(rf"\b{chosen}\b", phrases.synonyms[chosen], text, count=1)


def punctuated(text: str, drawn: random.Random) -> str:
    words = text.split(" ")
    place = drawn.randrange(1, len(words))
    return drawn.choice(
        (
            f"{text}!",
            text.replace(" ", "  "),
            f"- {text}.",
            " ".join([*words[:place], *words[place:]]) + " ...",
        )
    )


def cased(text: str, drawn: random.Random) -> str:
    return drawn.choice((text.upper(), text.lower()))
