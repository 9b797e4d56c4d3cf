"""The noun: a cue, taken apart into what shows it, and in which roles."""

from __future__ import annotations

from dataclasses import dataclass

from langmem_tiers.remind.sentences import Word


@dataclass(frozen=True, slots=True)
class Cue:
    """A cue, taken apart."""

    needed: tuple[frozenset[str], ...]
    """For each content word the bases that show it."""
    action: frozenset[str]
    """What is done, by the bases that show it; empty if it is no known word."""
    talking: bool = False
    """Whether it is about what is said."""
    agent: frozenset[str] = frozenset()
    """Who does it, where that matters."""
    optional: bool = False
    """Whether the action may go without saying."""
    denied: bool = False
    mutual: bool = False
    """Whether the speaker may be the one to whom it is done: "Ben is on the phone with me"."""
    names: frozenset[str] = frozenset()
    """What has a name, where that alone may be enough: of what is talked of, by nobody in
    particular."""
    asks: bool = False
    """Whether it is a question: asking that again shows it."""
    mine: frozenset[str] = frozenset()
    """What is the speaker's own, and is not shown by another's."""
    compounds: tuple[tuple[frozenset[str], frozenset[str]], ...] = ()
    """Words that stand side by side: "kitchen renovation"."""
    there: frozenset[str] = frozenset()
    """Where it is: what comes from there does not show it."""
    theirs: frozenset[str] = frozenset()
    """What is somebody else's, and is not shown by the speaker's own."""
    subject: frozenset[str] = frozenset()
    """Who or what does it, or is so, or to whom it is done where that is passive."""
    object: frozenset[str] = frozenset()
    """What it is done to."""
    led_by: frozenset[str] = frozenset()
    """The prepositions before that."""
    passive: bool = False
    plain: frozenset[str] = frozenset()
    """Nouns that no verb shows."""
    origin: frozenset[str] = frozenset()
    """Where it comes from: what goes there does not show it."""
    nouns: frozenset[str] = frozenset()
    """What ends as nouns of verbs do: "deposition" is no "deposit", though one may deposit."""

    @property
    def heads(self) -> tuple[frozenset[str], ...]:
        """What is named, without what tells it apart."""
        return tuple(filter(None, (self.subject, self.object)))

    def needs(self, word: Word) -> bool:
        """Whether a word shows one of its own."""
        return any(word.base in one for one in self.needed)
