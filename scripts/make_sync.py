"""Make the blocking half of modules that are written asynchronously: `python -m scripts.make_sync`.

Of `x.py` it makes `x_sync.py`: `async` and `await` go, `AsyncName` becomes `Name`, and what asyncio
has is replaced by what threads have. A statement whose first line ends with `# async only` is left
out; one that ends with `# sync: …` is replaced by that. With `--check` nothing is written, and the
exit code tells whether anything would be.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "langmem_tiers"
SOURCES = ("postgres/connection.py", "postgres/group_commit.py", "postgres/session.py")

_ONLY = re.compile(r"# async only$")
_INSTEAD = re.compile(r"^( *)\S.*  # sync: (.+)$")
_MODULES = "|".join(Path(one).stem for one in SOURCES)
_REPLACED = (
    (r"\bawait (?:asyncio\.to_thread|whole)\(([\w.]+)(?:, )?", r"\1("),
    (r"\b(?:await|async) ", ""),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\b(_?)Async(?=[A-Z])", r"\1"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\basyncio\b", "threading"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(run|ask|embed_documents|embed_query)\b", r"\1"),
    (r"\bawaiting\b", "blocking on"),
    (rf"\b(langmem_tiers\.postgres\.(?:{_MODULES})) import", r"\1_sync import"),
)


def blocking(text: str, name: str) -> str:
    """The blocking half of a module of that name."""
    lines = [_INSTEAD.sub(r"\1\2", line) for line in text.splitlines()]
    left_out = {
        row
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and _ONLY.search(lines[node.lineno - 1])
        for row in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    body = "\n".join(line for row, line in enumerate(lines, 1) if row not in left_out)
    for found, instead in _REPLACED:
        body = re.sub(found, instead, body)
    _, _, body = body.split('"""', 2)
    said = f"Generated from {name}.py by `make sync`: what blocks. Change that file, not this one."
    return f'"""{said}"""{body}\n'


def _in_house_style(text: str, path: Path) -> str:
    """Without imports that nothing needs, in order, and as `make format` leaves it."""
    for options in (("check", "--quiet", "--fix-only", "--select=F401,I"), ("format", "--quiet")):
        command = [sys.executable, "-m", "ruff", *options, "--stdin-filename", str(path), "-"]
        done = subprocess.run(  # noqa: S603 - our own formatter
            command, input=text, capture_output=True, text=True, check=True
        )
        text = done.stdout
    return text


def main(arguments: list[str]) -> int:
    """Write every blocking half, or tell which ones are not as they should be."""
    stale = 0
    for source in (PACKAGE / one for one in SOURCES):
        target = source.with_name(f"{source.stem}_sync.py")
        made = _in_house_style(blocking(source.read_text(encoding="utf-8"), source.stem), target)
        if target.exists() and target.read_text(encoding="utf-8") == made:
            continue
        stale += 1
        if "--check" in arguments:
            sys.stderr.write(f"{target} is not what {source.name} makes: run make sync\n")
        else:
            target.write_text(made, encoding="utf-8")
    return stale if "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
