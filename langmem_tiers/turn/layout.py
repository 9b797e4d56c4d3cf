"""Describe a context: fragments in sections, and a layout of stages that shows them."""

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
from langmem_tiers.core.texts import word_set
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.recall.prompt_text import clean_label, escape_fences, indent_lines, layout_fields

CUT: Final = "[…]"
"""Mark where a text was cut."""
_LONG_WORD: Final = 40
"""Characters from which on a word is cut within: some scripts have no spaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """Piece of a turn's context, with its provenance."""

    text: str
    """Text as it was given; a layout says how it is written."""
    source: str
    """Stage that it comes from."""
    version: str = ""
    """Version: a moment in ISO 8601, or a name that its source gives."""
    rationale: str = ""
    """Reason why it is there."""
    key: str | None = None
    rank: float = 0.0
    """Order in its stage: a lower rank gets room first. A memory with a rank above 0 gets it after
    all else."""
    data: bool = True
    """True if it is fenced as data; the agent's identity and tools are not."""
    memory: Recollection | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields that a layout can show beside its text: `when`, `speaker`, …"""
    seen: bool = False
    """True if the model sees it elsewhere: then it informs the later stages, and is not shown."""
    repeats: str = ""
    """Reason why an item of the same source says it already; then it is not shown, and the trace
    has the reason."""
    formatted: bool = False
    """True if its source formatted it; then no stage's item formats it again."""
    cut: tuple[int, int] = (0, 0)
    """Range in which the text may be cut, from its end on, if there is no room for all."""
    least: str = ""
    """Minimum text shown even without room; empty if the fragment may be dropped."""

    @classmethod
    def of_memory(cls, memory: Recollection, source: str, *, rank: float = 0.0) -> Fragment:
        """Make a fragment of a recalled memory."""
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
        """Shorten it until it fits: first the part that may be cut, then all but the minimum text.

        A cut text ends with a mark.
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
        """Return its source, version, rationale and key, as JSON."""
        names = ("source", "version", "rationale", *(("key",) if self.key is not None else ()))
        return {name: replace_unstorable(getattr(self, name)) for name in names}


def _cut_to_words(body: str) -> str:
    """Return a text up to its last whole word and a space; a long last word stays."""
    short = body.rstrip()
    if short == body and len(words := body.rsplit(maxsplit=1)) > 1 and len(words[1]) < _LONG_WORD:
        short = words[0]
    return f"{short} " if short else ""


@dataclass(frozen=True, slots=True)
class Section:
    """Answer of a source: fragments in reading order."""

    fragments: tuple[Fragment, ...] = ()

    def __iter__(self) -> Iterator[Fragment]:
        return iter(self.fragments)

    def __len__(self) -> int:
        return len(self.fragments)

    def __str__(self) -> str:
        """Return its text."""
        return "\n".join(fragment.text for fragment in self.fragments if not fragment.repeats)


VERBATIM: Final = "{content}"
MESSAGE: Final = "{stamp}{speaker}{origin}: {content}"
FIELDS: Final = word_set(
    "content key tier memory_type date when stamp handle speaker by role relevance origin source"
)
"""Names that an `item` may use of a fragment."""

EPISODES: Final = ("episodic", "interaction", "achievement")
"""Memory types of events."""
NOTES: Final = ("working",)
INTENTIONS: Final = (PROSPECTIVE,)
"""Memory types of intentions: reminders raise them when they are due."""
_LASTING: Final = ("identity", "goals")
CIRCUMSTANCES: Final = ("conversation", "working", _LASTING)
"""Stages whose words a later one asks for as well; a tuple is one question, as each takes time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Place of one source in a context: asked after the stages before it, and shown after them.

    Raises:
        InvalidInputError: for what cannot be shown.
    """

    source: str
    """Name of its source in the registry."""
    title: str
    empty: str = ""
    """Text in place of the whole section if the source answers nothing."""
    item: str = VERBATIM
    """Format of a fragment of data; `FIELDS` has the names for its braces."""
    dialogue: bool = False
    """True if its fence announces the recent dialogue instead of recalled memories."""
    between: str = "\n"
    """Text between two fragments."""
    rank: int = 0
    """Rank by which stages get room; those of one rank share it, the best memories first."""
    share: float = 1.0
    """Largest share, in 0…1, of the room left that it may take until all had their turn."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of its source; a recalling one takes those of `get_context`."""

    def __post_init__(self) -> None:
        """Refuse a stage that cannot be asked or shown."""
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
    """Text between a title and its section."""

    def __repr__(self) -> str:
        """Return its name, and its stages' sources."""
        return f"Layout({self.name}: {', '.join(stage.source for stage in self.stages)})"

    def __post_init__(self) -> None:
        """Refuse stages that cannot be told apart."""
        stages = tuple(checked_list(self.stages, "stages", "Stage(source=…, title=…)"))
        if not all(isinstance(stage, Stage) for stage in stages):
            raise InvalidTypeError("a layout is made of stages: Stage(source=…, title=…)")
        object.__setattr__(self, "stages", stages)
        names = [stage.source for stage in self.stages]
        if not names or len(set(names)) != len(names):
            raise InvalidInputError("a layout has a stage at least, and each source in one stage")

    def with_stage(self, stage: Stage, *, before: str | None = None) -> Layout:
        """Add a stage: at the end, before another source's, or in its own's place."""
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
    """Write a fragment as its stage does; data can end no fence and begin no other entry.

    A formatted fragment stays as it is. So does one without fields if an item of ours names some.
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
    """Return the lines that begin and end the data of a stage."""
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
"""Seven sections of the orchestrator, in its order. The agent's identity gets room first, then
goals and tools, the last messages, its notes, and its memories."""

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
"""Persona, the last hour's 20 messages, its 5 most relevant memories of importance 0.70 or more,
and its state."""

_OWN_ITEMS: Final = frozenset(stage.item for stage in (*ORCHESTRATOR.stages, *PERSONA.stages))
