"""The count of what is promoted counts what a store really did."""

from __future__ import annotations

from pathlib import Path

from benchmarks.promotion import WAYS, Ticking, outcomes, texts_of
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
    clock = Ticking()
    with TieredStore.from_conn_string(database_url, index=text_index(), clock=clock) as store:
        store.setup()
        found = [outcomes(store, clock, way.name, texts, way) for way in WAYS]
    assert not any(one.changed for several in found for one in several)
    told = [[one.promoted for one in several] for several in found]
    assert told == [[True, True, False], [True, True, False], [True, False, False]]
    assert found[0][2].reason == "needs general words: it names Linnea"
