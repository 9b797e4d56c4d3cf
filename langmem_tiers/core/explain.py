"""How recalled memories look in a terminal and in a notebook: what they say, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langmem_tiers.core.memory import Recollection, ReviewResult

LINE = 160
"""Characters of a memory that are shown in a line."""
CELL = 400
"""Characters of a memory that are shown in a table."""

_BAR_WIDTH = 120
_VISIBLE = 0.005
"""Terms below this are 0.00 in print, and are left out of lines."""

UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, those that set the direction of text, and halves of characters."""

_HEADINGS = ("memory", "tier", "type", "score", "made of")
_CELL_STYLE = "text-align:left;vertical-align:top;padding:2px 8px"


def describe(recollection: Recollection) -> str:
    """One paragraph: the beginning of what it says, its tier and type, and its score by terms.

    Control characters are replaced, so it is safe to print. Terms are rounded to 0.01 each.
    """
    one = recollection
    made_of = _sum(one)
    score = f"score {_number(one.score)}" + (f" = {made_of}" if made_of else "")
    said = shortened(one.content, LINE)
    reviewed = "" if one.review is None else f"; {_reviewed(one.review)}"
    return f"{said} ({one.tier} {plain(one.memory_type)} {plain(one.key)}, {score}{reviewed})"


def to_html(recollections: Iterable[Recollection]) -> str:
    """A table with a row for each memory and a bar for each term of its score.

    It is one fragment with inline styles, for notebooks. Bars are to the scale of the largest
    term in the table; negative ones are hollow. All text is escaped.
    """
    shown = list(recollections)
    if not shown:
        return "<p>No memories.</p>"
    largest = max((abs(term) for one in shown for term in one.explanation.values()), default=0.0)
    head = "".join(f'<th style="{_CELL_STYLE}">{name}</th>' for name in _HEADINGS)
    rows = "".join(_row(one, largest or 1.0) for one in shown)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(one: Recollection, largest: float) -> str:
    said = f"{_html(shortened(one.content, CELL))}<br><small>{_html(one.key)}</small>"
    if one.review is not None:
        said += f"<br><small>{_html(_reviewed(one.review))}</small>"
    bars = "".join(_bar(name, term, largest) for name, term in _terms(one))
    cells: Sequence[str] = (said, _html(one.tier), _html(one.memory_type), _number(one.score), bars)
    return "<tr>" + "".join(f'<td style="{_CELL_STYLE}">{cell}</td>' for cell in cells) + "</tr>"


def _bar(name: str, term: float, largest: float) -> str:
    width = round(_BAR_WIDTH * abs(term) / largest)
    filling = "background:currentColor" if term > 0 else "background:none"
    bar = (
        f'<span style="display:inline-block;width:{width}px;height:8px;opacity:.6;'
        f'border:1px solid currentColor;{filling}"></span>'
    )
    return f'<div style="white-space:nowrap">{bar} {_number(term)} {_html(name)}</div>'


def _terms(one: Recollection) -> list[tuple[str, float]]:
    return [(name, term) for name, term in one.explanation.items() if abs(term) >= _VISIBLE]


def _sum(one: Recollection) -> str:
    terms = _terms(one)
    text = "".join(
        f" {'−' if term < 0 else '+'} {abs(term):.2f} {plain(name)}" for name, term in terms
    )
    return text.removeprefix(" + ").strip()


def _reviewed(review: ReviewResult) -> str:
    """The relevance that reviewers found, each one's score and reason, and who failed."""
    said = [
        f"{plain(name)} {_number(score)}: {shortened(review.reasons[name], LINE)}"
        for name, score in review.agent_scores.items()
    ]
    said += [
        f"{plain(name)} failed: {shortened(why, LINE)}" for name, why in review.failures.items()
    ]
    mean = review.consensus_score
    return f"relevance {'–' if mean is None else _number(mean)}, {', '.join(said)}"


def _number(term: float) -> str:
    return f"{term:z.2f}".replace("-", "−")


def shortened(text: str, length: int) -> str:
    """The beginning of a text, as one line that is safe to print."""
    line = plain(text)
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def plain(text: str) -> str:
    """A text as one line without characters that could steer a terminal."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def _html(text: str) -> str:
    return escape(plain(text))
