"""The count of what is promoted counts what a store really did."""

from __future__ import annotations

from pathlib import Path

from benchmarks.promotion import Ticking, outcomes, texts_of
from langmem_tiers import TieredStore
from tests.support.opening import text_index


def test_texts_are_counted_by_what_everybody_is_told(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text(
        '{"text": "Sort before a merge", "general": true}\n'
        '{"text": "Prefer Quincetown to files", "general": true}\n'
        '{"text": "Ask Linnea before a release", "general": false}\n'
    )
    texts = texts_of(file)
    assert [one.general for one in texts] == [True, True, False]
    with TieredStore.from_conn_string(database_url, index=text_index(), clock=Ticking()) as store:
        store.setup()
        twice, once = (
            outcomes(store, name, texts, both=both) for name, both in (("a", True), ("b", False))
        )
    assert [(one.promoted, one.changed) for one in twice] == [(True, False)] * 2 + [(False, False)]
    assert [one.promoted for one in once] == [True, False, False]
    assert once[2].reason == "needs general words: it names Linnea"
