"""What a context is made of: fragments in sections; and how it looks: stages in a layout."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Any, Final

from langmem_tiers.core import prompts
from langmem_tiers.core.checks import checked_instance, checked_list, checked_number
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.reading import word_set
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.recall.fence import clean_label, escape_fences, indent_lines, layout_fields

CUT: Final = "[…]"
"""Stands where a text was cut."""
_LONG_WORD: Final = 40
"""Characters from which on a word is cut within: some scripts have no spaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A piece of what a turn is shown, with its provenance."""

    text: str
    """What it says, as it was given; a layout says how it is written."""
    source: str
    """The stage that it comes from."""
    version: str = ""
    """Which state of it: a moment in ISO 8601, or what its source calls it."""
    rationale: str = ""
    """Why it is there."""
    key: str | None = None
    rank: float = 0.0
    """The order in its stage: a lower rank gets room first. A memory with a rank above 0 gets it
    after all else."""
    data: bool = True
    """Whether it is fenced as data; what the agent is and may do is not."""
    memory: Recollection | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """What a layout can say of it beside its text: `when`, `speaker`, …"""
    seen: bool = False
    """Whether the model sees it elsewhere: then it informs the later stages, and is not shown."""
    repeats: str = ""
    """The item of the same source that says it already; then it is not shown, and the trace says
    why."""
    formatted: bool = False
    """True if its source wrote it as it is to be read; then no stage's item writes it anew."""
    cut: tuple[int, int] = (0, 0)
    """From where to where the text may be cut, from its end on, if there is no room for all."""
    least: str = ""
    """What stands in any case; nothing of what may be left out whole."""

    @classmethod
    def of_memory(cls, memory: Recollection, source: str, *, rank: float = 0.0) -> Fragment:
        """A memory that was recalled."""
        made_of = [(name, term) for name, term in memory.explanation.items() if round(term, 2)]
        terms = " + ".join(f"{term:.2f} {name}" for name, term in made_of)
        return cls(
            text=memory.content,
            source=source,
            version=memory.updated_at.isoformat(),
            rationale=f"score {memory.score:.2f}" + (f" = {terms}" if terms else ""),
            key=memory.key,
            rank=rank,
            memory=memory,
            fields=layout_fields(memory),
        )

    def shortened(self, fits: Callable[[str], bool]) -> Fragment:
        """As much of it as fits: what may be cut goes first, then all but what stands in any case.

        What is cut ends with a mark.
        """
        begin, end = self.cut

        def beginning(characters: int) -> str:
            body = self.text[begin : begin + characters]
            return f"{self.text[:begin]}{_cut_to_words(body)}{CUT}{self.text[end:]}"

        most = bisect_left(
            range(1, end - begin), 1, key=lambda characters: not fits(beginning(characters))
        )
        text = beginning(most) if begin < end else self.least
        return replace(self, text=text if fits(text) else self.least, cut=(0, 0))

    def provenance(self) -> dict[str, Any]:
        """Return where it comes from and why it is there, as JSON."""
        names = ("source", "version", "rationale", *(("key",) if self.key is not None else ()))
        return {name: replace_unstorable(getattr(self, name)) for name in names}


def _cut_to_words(body: str) -> str:
    """A text that ends with a word and a space, unless its last word is a long one."""
    short = body.rstrip()
    if short == body and len(words := body.rsplit(maxsplit=1)) > 1 and len(words[1]) < _LONG_WORD:
        short = words[0]
    return f"{short} " if short else ""


@dataclass(frozen=True, slots=True)
class Section:
    """What a source answers: fragments in the order in which they are to be read."""

    fragments: tuple[Fragment, ...] = ()

    def __iter__(self) -> Iterator[Fragment]:
        return iter(self.fragments)

    def __len__(self) -> int:
        return len(self.fragments)

    def __str__(self) -> str:
        """Return what it says."""
        return "\n".join(fragment.text for fragment in self.fragments if not fragment.repeats)


VERBATIM: Final = "{content}"
MESSAGE: Final = "{stamp}{speaker}{origin}: {content}"
FIELDS: Final = word_set(
    "content key tier memory_type date when stamp handle speaker by role relevance origin source"
)
"""What an `item` may say of a fragment."""

EPISODES: Final = ("episodic", "interaction", "achievement")
"""Memory types of what happened."""
NOTES: Final = ("working",)
INTENTIONS: Final = (PROSPECTIVE,)
"""What is intended: reminders raise it when it is due."""
_LASTING: Final = ("identity", "goals")
CIRCUMSTANCES: Final = ("conversation", "working", _LASTING)
"""Stages whose words a later one asks for as well; those of a tuple in one question, as each takes
time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One source's place in a context: asked after those before it, and shown after them.

    Raises:
        InvalidInputError: for what cannot be shown.
    """

    source: str
    """The name of its source in the registry."""
    title: str
    empty: str = ""
    """What stands in the place of the whole section if the source answers nothing."""
    item: str = VERBATIM
    """How a fragment is written that is data; `FIELDS` says what may stand in braces."""
    dialogue: bool = False
    """Whether its fence says that it is the recent dialogue, and not recalled memories."""
    between: str = "\n"
    """What stands between two fragments."""
    rank: int = 0
    """Which stages get room first; those of one rank share it, the best memories first."""
    share: float = 1.0
    """In 0…1: how much of the room that is left it may take at most, until all had their turn."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What its source is told; a recalling one takes those of `get_context`."""

    def __post_init__(self) -> None:
        """Refuse what could not be asked or shown."""
        for name in ("source", "title"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise InvalidInputError(f"a stage needs a {name}, not {short(value)}")
        if not isinstance(self.item, str):
            raise InvalidTypeError(f"the item of {self.source!r} is a text, not {short(self.item)}")
        try:
            named = {
                placeholder[1]
                for placeholder in Formatter().parse(self.item)
                if placeholder[1] is not None
            }
        except ValueError as error:
            raise InvalidInputError(f"the item of {self.source!r} is no format: {error}") from error
        if unknown := named - FIELDS:
            raise InvalidInputError(
                f"the item of {self.source!r} names {min(unknown)!r}: use "
                f"{', '.join(sorted(FIELDS))}"
            )
        of, use = f"the share of {self.source!r}", "above 0 and at most 1"
        checked_number(self.share, of, 0, 1, but=(0,), use=use)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    r"""Stages in the order in which they are asked and shown.

    Raises:
        InvalidInputError: if two stages have the same source, or there is none.

    Example:
        ```python
        from langmem_tiers.turn.layout import Layout, Stage

        notes = Layout(
            name="notes",
            stages=(
                Stage(source="working", title="# NOTES", empty="# NOTES\n\nNone yet."),
                Stage(source="semantic", title="# FACTS", item="- {content}", rank=1),
            ),
        )
        ```
    """

    name: str
    stages: tuple[Stage, ...]
    gap: str = "\n"
    """What stands between a title and its section."""

    def __repr__(self) -> str:
        """Its name, and its stages' sources."""
        return f"Layout({self.name}: {', '.join(stage.source for stage in self.stages)})"

    def __post_init__(self) -> None:
        """Refuse what cannot be told apart."""
        stages = tuple(checked_list(self.stages, "stages", "Stage(source=…, title=…)"))
        if not all(isinstance(stage, Stage) for stage in stages):
            raise InvalidTypeError("a layout is made of stages: Stage(source=…, title=…)")
        object.__setattr__(self, "stages", stages)
        names = [stage.source for stage in self.stages]
        if not names or len(set(names)) != len(names):
            raise InvalidInputError("a layout has a stage at least, and each source in one stage")

    def with_stage(self, stage: Stage, *, before: str | None = None) -> Layout:
        """This layout with a stage: at the end, before that of a source, or in its own's place."""
        checked_instance(stage, Stage, "stage")
        names = [present.source for present in self.stages]
        named: object = before
        if named is not None and (not isinstance(named, str) or named not in names):
            raise InvalidInputError(
                f"the layout {self.name!r} has no stage {short(before)}: it has {', '.join(names)}"
            )
        if before is None and stage.source in names:
            before = stage.source
        place = len(names) if before is None else names.index(before)
        after = place + 1 if before == stage.source else place
        stages = (*self.stages[:place], stage, *self.stages[after:])
        return replace(self, stages=stages)


def write_fragment(fragment: Fragment, stage: Stage) -> str:
    """Write a fragment as its stage does; data cannot end its fence, nor begin another entry.

    A formatted one stays as it is. So does one without fields where an item of ours names some.
    """
    if not fragment.data:
        return fragment.text
    content, item = escape_fences(fragment.text), stage.item
    names = ("source", "version", "key")
    labels = {name: clean_label(getattr(fragment, name) or "") for name in names}
    if not fragment.fields and item == VERBATIM:
        return prompts.RECALLED_FROM.format_map({**labels, "content": content})
    if fragment.formatted or (not fragment.fields and item in _OWN_ITEMS):
        return content
    alone = item == VERBATIM or "\n{content}\n" in item
    escaped = {name: escape_fences(value) for name, value in fragment.fields.items()}
    values = {**dict.fromkeys(FIELDS, ""), **labels, **escaped}
    return item.format_map({**values, "content": content if alone else indent_lines(content)})


def fence_lines(stage: Stage) -> tuple[str, str]:
    """Return what begins and ends the data of a stage."""
    return (
        (prompts.DIALOGUE_HEAD, prompts.DIALOGUE_TAIL)
        if stage.dialogue
        else (prompts.RECALLED_HEAD, prompts.RECALLED_TAIL)
    )


ORCHESTRATOR: Final = Layout(
    name="orchestrator",
    stages=(
        Stage(source="identity", title="## Consciousness"),
        Stage(
            source="conversation",
            title="## Conversation History",
            item=MESSAGE,
            dialogue=True,
            rank=2,
            share=0.5,
            options={"limit": 20},
        ),
        Stage(
            source="working",
            title="## Working Memory",
            item=prompts.RECALLED_ONE,
            rank=3,
            share=0.5,
            options={
                "memory_types": NOTES,
                "tiers": ("short_term",),
                "limit": 50,  # our own choice
                "newest": True,
                "informed_by": (("conversation", "identity"),),
            },
        ),
        Stage(source="goals", title="## Frontal Cortex", rank=1, share=0.5),
        Stage(
            source="episodic",
            title="## Episodic Memory",
            item=prompts.RECALLED_ONE,
            rank=4,
            options={"memory_types": EPISODES, "limit": 10, "informed_by": CIRCUMSTANCES},
        ),
        Stage(
            source="semantic",
            title="## Semantic Memory",
            item=prompts.RECALLED_ONE,
            rank=4,
            options={
                "other_than": (*EPISODES, *NOTES, *INTENTIONS),
                "limit": 10,
                "informed_by": (("conversation", "episodic"), "working", _LASTING),
            },
        ),
        Stage(source="tools", title="## Tool Specifications", rank=1, share=0.5),
    ),
)
"""The seven sections of the orchestrator, in its order. What the agent is gets room first, then
what it is about and may do, what was just said, its notes, and what it remembers."""

PERSONA: Final = Layout(
    name="persona",
    gap="\n\n",
    stages=(
        Stage(source="persona", title="# WHO YOU ARE"),
        Stage(
            source="conversation",
            title="# RECENT CONVERSATION (Last Hour)",
            empty="# RECENT CONVERSATION\n\nNo recent interaction history.",
            item="{stamp}{role}{origin}: {content}",
            dialogue=True,
            rank=2,
            share=0.5,
            options={"limit": 20, "minutes": 60, "summary": False},
        ),
        Stage(
            source="memories",
            title="# RELEVANT MEMORIES FROM YOUR HISTORY",
            empty="# RELEVANT MEMORIES\n\nNo relevant past memories found.",
            item=(
                "**Memory Type**: {memory_type}{origin}\n**Content**: {content}\n"
                "**Relevance**: {relevance}\n**When**: {when}"
            ),
            between="\n\n",
            rank=3,
            options={"limit": 5, "min_importance": 0.70, "own": True, "other_than": INTENTIONS},
        ),
        Stage(source="state", title="# CURRENT OPERATIONAL STATE", rank=1),
    ),
)
"""A persona, the last hour's 20 messages, its 5 most relevant memories of importance 0.70 or more,
and its state."""

_OWN_ITEMS: Final = frozenset(stage.item for stage in (*ORCHESTRATOR.stages, *PERSONA.stages))
