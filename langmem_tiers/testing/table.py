"""The verdicts on several stores, side by side, as Markdown."""

from collections.abc import Collection, Mapping

from langmem_tiers.testing.check import Check
from langmem_tiers.testing.run import CHECKS


def conformance_table(
    defects: Mapping[str, Collection[str]], unclaimed: Mapping[str, Collection[str]]
) -> str:
    """Return one row a check and one column a store: ✓ kept, ✗ broken, – not claimed.

    `defects` names, for each store in the order of columns, the checks it fails; `unclaimed`
    those that do not apply to it.
    """
    stores = tuple(defects)
    lines = [_line(("area", "rule", *stores)), _line(("---",) * (len(stores) + 2))]
    for each in CHECKS.values():
        marks = [_mark(each, defects[store], unclaimed.get(store, ())) for store in stores]
        lines.append(_line((each.area, f"{each.claim}<br>`{each.name}`", *marks)))
    kept = [_kept(defects[store], unclaimed.get(store, ())) for store in stores]
    lines.append(_line(("", "**kept**", *kept)))
    return "\n".join(lines)


def _line(cells: Collection[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _mark(each: Check, defects: Collection[str], unclaimed: Collection[str]) -> str:
    if each.name in unclaimed:
        return "–"
    return "✗" if each.name in defects else "✓"


def _kept(defects: Collection[str], unclaimed: Collection[str]) -> str:
    claimed = len(CHECKS) - len(unclaimed)
    return f"{claimed - len(defects)} of {claimed}"
