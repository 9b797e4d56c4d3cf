"""Describe an agent as sections: its persona, from a SOUL.md, and its state.

In a SOUL.md headings (`## Core Values`), labels (`**Name**: Nova`) and the keys of a front matter
name a field, by the specification's names only. A list is read if its place holds nothing but its
items. Otherwise that place is kept whole, as it is written. So no rule loses its second half, the
condition before it, or the heading that makes a "never" of it.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import yaml  # type: ignore[import-untyped]  # no stubs are pinned

from langmem_tiers.core.checks import checked_strings, record, utf8_bytes, validated_by
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.recall.prompt_text import clean_label
from langmem_tiers.turn.layout import Fragment, Section

_NAME: Final = "**Name**: "
_BACKSTORY: Final = "**Backstory**: "
_LONGEST: Final = 80
"""Most characters of a file's further part that a message shows: our own choice."""


def _checked_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} is a text, not {type(value).__name__}")
    utf8_bytes(value, name)
    return value


def _checked_name(value: object, name: str) -> str:
    if not _checked_text(value, name).strip():
        raise InvalidInputError(
            "the persona has no name: begin its file with '# Name', or give persona_name"
        )
    return str(value)


_Text = Annotated[str, validated_by(_checked_text)]
_Texts = Annotated[
    Sequence[str], validated_by(lambda value, name: tuple(checked_strings(value, name)))
]


@record
class Persona:
    r"""Persona of an agent, with the seven fields of the specification; a source of a turn.

    Raises:
        InvalidInputError: if it has no name, or a field is of another type than it says.

    Example:
        ```python
        from langmem_tiers import Persona

        soul = Persona.of_markdown("# Nova\n\n## Core Values\n- Honesty\n")
        assert (soul.persona_name, soul.core_values) == ("Nova", ("Honesty",))
        ```
    """

    persona_name: Annotated[str, validated_by(_checked_name)]
    backstory: _Text = ""
    communication_tone: _Text = ""
    voice_traits: _Texts = ()
    core_values: _Texts = ()
    must_do: _Texts = ()
    must_not_do: _Texts = ()
    further: _Texts = ()
    """Other parts of its file, verbatim."""

    @classmethod
    def of_markdown(cls, text: str | Path) -> Persona:
        """Read a SOUL.md: headings (`## Core Values`) or labels (`**Name**: Nova`) name the fields.

        So do the keys of a front matter in YAML. The first heading of the first level names the
        persona, unless a field does. They are the names of the fields, and those of the
        specification: Name, Communication Style, Behavioral Rules, MUST and MUST NOT. A list is its
        bullets, each with its further lines; commas may part the voice's traits. The part under any
        other heading is kept as it is written, in `further`. So is a list that anything else stands
        with.

        Args:
            text: The file's text, or its `Path`.

        Raises:
            InvalidInputError: if it names nobody, or the file or its front matter cannot be read.
        """
        if isinstance(text, Path):
            try:
                text = text.read_text("utf-8")
            except (OSError, ValueError) as error:
                raise InvalidInputError(
                    f"the persona {short(str(text))} cannot be read ({error}): name a file in UTF-8"
                ) from error
        if not isinstance(text, str):
            raise InvalidTypeError(f"a persona is a text or a Path, not {type(text).__name__}")
        return cls(**_read_soul(text))

    @property
    def version(self) -> str:
        """Return a hash: equal for equal personas."""
        return hashlib.sha256(self._text(self.backstory).encode()).hexdigest()[:12]

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Section:  # noqa: ARG002 - a source's
        """Return the persona as a section, the same for every prompt.

        The backstory is cut if there is no room for all of it; all else always stands.
        """
        name = f"{_NAME}{self.persona_name}"
        begin = len(f"{name}\n{_BACKSTORY}") if self.backstory else len(name)
        whole = ", ".join(part.partition("\n")[0][:_LONGEST] for part in self.further)
        fragment = Fragment(
            text=self._text(self.backstory),
            source="persona",
            version=self.version,
            rationale="who the agent is" + (f"; kept whole as well: {whole}" if whole else ""),
            data=False,
            cut=(begin, begin + len(self.backstory)),
            least=self._text(""),
        )
        return Section((fragment,))

    def _text(self, backstory: str) -> str:
        values, must, never = (
            "\n".join(f"- {item}" for item in items)
            for items in (self.core_values, self.must_do, self.must_not_do)
        )
        tone, traits = self.communication_tone, ", ".join(self.voice_traits)
        parts = (
            {_NAME: self.persona_name, _BACKSTORY: backstory},
            {"**Communication Style**: ": tone, "**Voice Traits**: ": traits},
            {"**Core Values**:\n": values},
            {"**Behavioral Rules**:\n": _labelled_lines({"MUST: ": must, "MUST NOT: ": never})},
        )
        return "\n\n".join(part for part in (*map(_labelled_lines, parts), *self.further) if part)


def _labelled_lines(texts: Mapping[str, str]) -> str:
    """Return the labels that have a text, each with its text, in lines."""
    return "\n".join(f"{name}{text}" for name, text in texts.items() if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationalState:
    """State of an agent, as a source of a turn.

    `emotional_state` has a `primary_emotion`, and a `confidence_level` in 0…1 if that is known. If
    it is None, the mood is not known.
    """

    emotional_state: Mapping[str, Any] | None = None
    active_tasks: Sequence[Any] = ()
    system_status: str = "Operational"

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> Section:  # noqa: ARG002 - a source's
        """Return the state as a section."""
        emotion, mood = "Unknown", self.emotional_state or {}
        try:
            if mood:
                emotion = clean_label(str(mood["primary_emotion"]))
            if (level := mood.get("confidence_level")) is not None:
                emotion = f"{emotion} (confidence: {float(level):.2f})"
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                "an emotional state has a primary_emotion and a confidence_level in 0…1, not "
                f"{short(dict(mood))}"
            ) from error
        lines = (
            f"**Emotional State**: {emotion}",
            f"**Active Workload**: {len(self.active_tasks)} active tasks",
            f"**System Status**: {self.system_status}",
        )
        text, why = "\n".join(lines), "how the agent is"
        return Section((Fragment(text=text, source="state", rationale=why, data=False),))


# Reading a SOUL.md

_FRONT: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING: Final = re.compile(r"(?P<marks>#{1,6})\s+(?P<name>\S.*)")
_UNDERLINE: Final = re.compile(r"(?:=+|--+)$")
_BOLD: Final = re.compile(r"\*\*(?P<name>[^*:]{1,80})(?::\*\*|\*\*:|\*\*$)(?P<said>.*)$")
_PLAIN: Final = re.compile(r"(?P<name>[A-Za-z][\w ]{0,79}):(?P<said>.*)$")
_BULLET: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+(?P<said>\S.*)$")
_RULE: Final = re.compile(r"\*{0,2}must(?P<never> not)?\*{0,2}:\*{0,2}(?P<said>.*)$", re.IGNORECASE)
"""Words that the specification writes before rules."""
_CODE: Final = "```"
_BOTH: Final = "behavioral_rules"
"""Heading above both kinds of rules in the specification's text; it is no field."""
_TEXTS: Final = ("persona_name", "backstory", "communication_tone")
_LISTS: Final = ("voice_traits", "core_values", "must_do", "must_not_do")
_FIELD_NAMES: Final = {
    "name": "persona_name",
    "communication_style": "communication_tone",
    "must": "must_do",
    "must_not": "must_not_do",
    **{name: name for name in (*_TEXTS, *_LISTS, _BOTH)},
}
"""Fields by their names in the specification."""
_LABELLED: Final = 7
"""Level of a label: below any heading."""


def _read_soul(text: str) -> dict[str, Any]:
    """Read a SOUL.md into fields, and its other parts into `further`.

    Raises:
        InvalidInputError: if its front matter is no YAML, or holds what no field can.
    """
    front, body = _split_front_matter(text)
    commented, end, rest = body.rpartition("-->")
    soul = _Soul(f"{_COMMENT.sub('', commented + end)}{rest}".splitlines())
    values: dict[str, list[str]] = defaultdict(list)
    beside = [block for block in _front_matter_blocks(front) if not _read_block(block, values)]
    whole = [block for block in soul.blocks if not _read_block(block, values)]
    if (title := soul.title) is not None:
        named, has_text = bool(values["persona_name"]), bool(_trim_blank_lines(title.lines))
        if not named:
            values["persona_name"].append(title.opener.removesuffix("**:").removeprefix("**"))
        if not (named and has_text):
            title.opener = ""
    name, _, more = "\n".join(values.pop("persona_name", ())).partition("\n")
    texts = {each: "\n\n".join(values.pop(each, ())) for each in _TEXTS[1:]}
    further = [part for part in (more.strip(), *map(str, (*whole, *beside))) if part]
    return {"persona_name": name, **texts, **values, "further": further}


@dataclass(slots=True)
class _Block:
    """Part of a file: its opening words, and its lines."""

    opener: str = ""
    known: str | None = None
    """Field that it names, or None."""
    level: int = 0
    """Level of its heading; 0 for the text below the title or before any heading."""
    lines: list[str] = field(default_factory=list)

    @property
    def loose(self) -> bool:
        """Tell whether it ends at the next label."""
        return self.level in (0, _LABELLED)

    def __str__(self) -> str:
        """Return it as it is written; empty if it has no text."""
        text = "\n".join(_trim_blank_lines(self.lines))
        if not text or not self.opener:
            return text or self.opener
        beside = self.level == _LABELLED and self.lines[0].strip()
        return f"{self.opener} {text}" if beside else f"{self.opener}\n{text}"


class _Soul:
    """Parts of a file, read line by line."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.title: _Block | None = None
        """Text below the first heading of the first level."""
        self.blocks = [_Block()]
        """Blocks; each line belongs to the last one as it is read."""
        self._above: list[tuple[int, str]] = []
        """Headings above the next one that name no field."""
        code, expanded = False, [line.expandtabs(4).rstrip() for line in lines]
        for place, line in enumerate(expanded):
            code ^= (fence := line.lstrip().startswith(_CODE))
            if code or fence:
                self.blocks[-1].lines.append(line)
            elif heading := _HEADING.match(line.strip()):
                self._add_heading(line, len(heading["marks"]), heading["name"])
            else:
                self._add_line(line, expanded[place + 1 : place + 3])

    def _add_heading(self, line: str, level: int, name: str) -> None:
        """Begin a block at a heading; below a list or a part without field it is a line of it."""
        name = name.rstrip("#").rstrip() or name
        named_field, current = _find_field(name), self.blocks[-1]
        if named_field is None and level == 1 and self.title is None:
            self.title = _Block(f"**{name}**:")
            self.blocks.append(self.title)
            return
        self._above = [heading for heading in self._above if heading[0] < level]
        path = " > ".join([*(heading for _, heading in self._above), name])
        if named_field is None:
            self._above.append((level, name))
        if named_field is None and 0 < current.level < level and current.known not in _TEXTS:
            current.lines.append(line)
        else:
            self.blocks.append(_Block(f"**{path}**:", named_field, level))

    def _add_line(self, line: str, after: Sequence[str]) -> None:
        """Add a line that is no heading; a label begins a block."""
        current, stripped = self.blocks[-1], line.strip()
        within = current.known == _BOTH and not current.opener  # rules within a text
        item = _BULLET.match(stripped) or _RULE.match(stripped)
        if within and stripped and stripped == line and not item and not current.lines[-1].strip():
            # a paragraph of the text around the rules
            outer = next(block.known for block in reversed(self.blocks) if block.known != _BOTH)
            text = outer in _TEXTS[1:]
            current = _Block("", outer if text else None, 1 if text else 0)
            self.blocks.append(current)
        block = _labelled_block(stripped, current)
        if block is None and current.known == "backstory" and _begins_list(stripped, after):
            block = _Block(stripped, None, _LABELLED, [""])
        if block is None:
            current.lines.append(line)
        else:
            self.blocks.append(block)


def _read_block(block: _Block, values: dict[str, list[str]]) -> bool:
    """Read a block into its field; False if it names none, or holds anything else.

    An item that names a kind of rule goes to that kind.
    """
    named_field, lines = block.known, _trim_blank_lines(block.lines)
    if named_field in _TEXTS:
        values[named_field] += ["\n".join(lines).strip()] if lines else []
        return True
    if named_field == _BOTH:
        rules = _read_rules(lines)
    else:
        items = None if named_field is None else _read_items(lines, named_field)
        rules = None if named_field is None or items is None else [(named_field, items)]
    for name, items in rules or ():
        for item in items:
            rule = _RULE.match(item)
            rest = rule["said"].strip() if rule else ""
            values[_rule_field(rule) if rule and rest else name].append(rest or item)
    return rules is not None


# Lines, and the blocks that they open


def _find_field(name: str) -> str | None:
    """Find the field that the words of a heading name."""
    return _FIELD_NAMES.get("_".join(re.findall(r"[^\W\d_]+", name.lower())))


def _rule_field(rule: re.Match[str]) -> str:
    return "must_not_do" if rule["never"] else "must_do"


def _begins_list(line: str, after: Sequence[str]) -> bool:
    """Tell whether a line stands above a list, or is underlined, as a heading is."""
    next_one = next((line_after.strip() for line_after in after if line_after.strip()), "")
    listing = line.endswith(":") and _BULLET.match(next_one)
    return bool(line and (listing or (after and _UNDERLINE.match(after[0].strip()))))


def _labelled_block(line: str, current: _Block) -> _Block | None:
    """Return the block that a line labels; None if the line belongs to the current block."""
    inner = current.known is None and current.level > 0
    if _RULE.match(line):  # rules may stand by themselves in a text, or after a label
        opens = not inner and current.known != _BOTH
        text = current.loose or current.known in _TEXTS
        return _Block("", _BOTH, 0, [line]) if opens and text else None
    bullet = _BULLET.match(line) if current.loose and current.known not in _LISTS else None
    entry = bullet["said"] if bullet else line
    bold = _BOLD.match(entry)
    label = bold or (_PLAIN.match(entry) if current.loose else None)
    named_field = _find_field(label["name"]) if label else None
    keeps = current.known is None and current.level != _LABELLED
    if label is None or (named_field is None and (bold is None or bullet or keeps)):
        return None
    opener = entry.removesuffix(label["said"]) if label["said"] else entry
    return _Block(opener.strip(), named_field, _LABELLED, [label["said"].strip()])


def _trim_blank_lines(lines: Sequence[str]) -> list[str]:
    """Strip the empty lines at both ends."""
    filled = [place for place, line in enumerate(lines) if line.strip()]
    return list(lines[filled[0] : filled[-1] + 1]) if filled else []


# Lists


def _read_items(lines: Sequence[str], name: str = "") -> list[str] | None:
    """Return the items of a list, each with its further lines and its own list.

    A line without a mark is one item, with the indented lines below it; commas part the voice's
    traits. The result is None if anything else stands there.
    """
    trimmed = _trim_blank_lines(lines)
    marked = any(_BULLET.match(line.strip()) for line in trimmed)
    if name == "voice_traits" and not marked:
        parts = (part.strip() for line in trimmed for part in line.split(","))
        return [part for part in parts if part]
    items: list[str] = []
    listed, base = bool(trimmed and _BULLET.match(trimmed[0].strip())), 0
    for line in trimmed:
        text = line.strip()
        bullet, depth = _BULLET.match(text), len(line) - len(line.lstrip())
        if not items:
            base = depth
            items.append(bullet["said"] if bullet else text)
        elif not text and listed:
            continue
        elif bullet and listed and depth >= base:
            if depth < base + 2:
                items.append(bullet["said"])
            else:
                items[-1] += f"\n{line[base:]}"
        elif bullet or depth <= base or text.startswith((_CODE, "#")) or _RULE.match(text):
            return None
        else:
            items[-1] += f" {text}"
    return items


def _read_rules(lines: Sequence[str]) -> list[tuple[str, list[str]]] | None:
    """Return the rules after MUST and MUST NOT, as specified; None if there is more.

    One rule, or a list of them, stands after each.
    """
    rules: list[tuple[str, list[str]]] = []
    for line in lines:
        bullet = _BULLET.match(line.strip())
        rule = _RULE.match(bullet["said"] if bullet else line.strip())
        if rule:
            rules.append((_rule_field(rule), [rule["said"].strip()]))
        elif rules:
            rules[-1][1].append(line)
        else:
            return None
    read = [
        (name, items)
        for name, rule_lines in rules
        if (items := _read_items(rule_lines)) is not None
    ]
    return read if len(read) == len(rules) else None


# The front matter


def _split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter as texts, lists and mappings, and the text after it."""
    match = _FRONT.match(text)
    if not match:
        return {}, text
    try:
        # every scalar is a text, as it is written: "no" is no truth value
        front = yaml.load(match["yaml"], Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing else
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the persona's front matter is no YAML: {error}; quote what holds ': ' or begins with "
            "a mark, or leave out the lines of ---"
        ) from error
    return (front, text[match.end() :]) if isinstance(front, dict) else ({}, text)


def _front_matter_blocks(front: Mapping[str, Any], above: str = "") -> Iterator[_Block]:
    """Yield the entries of a front matter as blocks."""
    for key, value in front.items():
        name, named_field = f"{above}{key}", _find_field(str(key))
        if isinstance(value, dict) and named_field in (None, _BOTH):
            yield from _front_matter_blocks(value, f"{name} > ")
            continue
        mark = "" if named_field in _TEXTS else "- "
        lines = [f"{mark}{each}" for each in _front_matter_items(key, value)]
        if named_field is not None and isinstance(value, str):
            lines = value.splitlines()
        yield _Block(f"**{name}**:", named_field, 1, lines)


def _front_matter_items(name: str, value: Any) -> Iterator[str]:
    """Yield the items of a list as written; `Cite: sources` is no mapping there."""
    for entry in value if isinstance(value, list) else [value]:
        pair = next(iter(entry.items())) if isinstance(entry, dict) and len(entry) == 1 else None
        text = f"{pair[0]}: {pair[1]}" if pair and isinstance(pair[1], str) else entry
        if not isinstance(text, str):
            raise InvalidInputError(
                f"{name} in the persona's front matter is a text or a list of texts, not "
                f"{short(entry)}"
            )
        yield " ".join(text.split())
