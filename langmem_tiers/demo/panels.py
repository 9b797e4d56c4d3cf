"""The frames in which the demonstration is printed."""

from __future__ import annotations

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table


def grid(*names: str) -> Table:
    """A table without lines; it has no head if its columns have no names."""
    made = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
        show_header=any(names),
    )
    for name in names:
        made.add_column(name, overflow="fold")
    return made


def panel(title: str, content: RenderableType) -> Panel:
    """A frame with a title."""
    return Panel(content, title=title, title_align="left", padding=(0, 1))
