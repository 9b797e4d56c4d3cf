"""The recall benchmark at a small size: it measures, and recall holds its bars loosely."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.databases import create
from benchmarks.fit import collect, fits, knowing
from benchmarks.fit_floor import words_of
from benchmarks.recall import GENERATED, run
from benchmarks.recall_data import (
    CHATS,
    FACTS,
    History,
    Memory,
    Question,
    Style,
    generated,
    read,
)
from benchmarks.recall_metrics import METRICS, Judge
from benchmarks.recall_report import BM25, OURS, Results, report
from benchmarks.recall_system import System
from langmem_tiers import LocalEmbeddings
from langmem_tiers.recall.matching import read_weights, weights_for_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(server_url: str) -> Results:
    """A run over one history a style, 8 questions each; over three and 20 of talk and of logs."""
    styles = [one.sample(1, 8) if one.name == FACTS else one.sample(3, 20) for one in generated()]
    path = Path("../shared/data/locomo/locomo-dev.json")
    found = [read(path).sample(1, 8)] if path.exists() else []
    return run(server_url, [*found, *styles])


def test_recall_beats_plain_bm25_on_every_style_and_finds_most_in_ten(results: Results) -> None:
    for style in results.styles:
        assert style.over(BM25, "nDCG@10").mean > 0, style.name
        assert style.of(OURS, "recall@10").mean > 0.5, style.name
        assert style.of(OURS, "2k tokens").mean >= style.of(OURS, "1k tokens").mean, style.name


def test_the_cut_off_spares_right_questions_of_talk_and_refuses_names_nobody_has(
    results: Results,
) -> None:
    named = results.style(CHATS)

    assert named is not None
    assert np.mean(named.cutoff.wrong) > 0.5
    lost = {style.name: np.mean(style.cutoff.lost) for style in results.styles}
    assert lost.pop(FACTS) < 0.3  # what stands alone is to match better
    assert all(one < 0.05 for one in lost.values())


def test_what_is_measured_is_ranked_by_the_match_that_ships(results: Results) -> None:
    for style in results.styles:
        column = style.figures[OURS][:, METRICS.index("recall@10")]
        for n, (evidence, gold) in enumerate(zip(style.evidence, style.gold, strict=True)):
            best = evidence.matched(weights_for_model("local"))[:10]
            again = sum(key in gold for key in best) / len(gold)
            assert column[n] + style.cutoff.lost[n] == pytest.approx(again)


def test_a_run_is_reported_as_tables_and_json(results: Results, tmp_path: Path) -> None:
    told, file = report(results), tmp_path / "figures.json"
    told.write(markdown=True, json_file=file)

    assert OURS in str(json.loads(file.read_text("utf-8"))["tables"][0]["rows"])
    assert all(style.name in told.markdown() for style in results.styles)
    assert {one.name for one in results.styles} >= GENERATED


def test_conversations_are_read_and_evidence_that_is_not_there_is_counted(tmp_path: Path) -> None:
    said = {"D1:1": ("Ada", "What did you do today?"), "D1:2": ("Bo", "I planted a plum tree.")}
    session = [{"dia_id": key, "speaker": who, "text": text} for key, (who, text) in said.items()]
    dated = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": session}
    asked = [
        {"question": "What did Bo plant?", "evidence": ["D1:2; D9:17"], "category": 4},
        {"question": "What did Ada plant?", "evidence": ["D1:2"], "category": 5},
    ]
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"sample_id": "pair", "conversation": dated, "qa": asked}]))

    style = read(path)
    (history,) = style.histories

    assert style.skipped == 1
    assert [one.gold for one in history.answerable] == [{"D1:2"}]
    assert [one.text for one in history.adversarial] == ["What did Ada plant?"]
    assert history.memories[1].speaker == "Bo"


def test_metrics_of_a_ranking_by_hand() -> None:
    memories = [Memory(key=str(n), content="x" * 400, session=f"s{n % 2}") for n in range(9)]
    question = Question(text="?", gold=frozenset("14"), category="")
    judge = Judge(History(name="one", memories=memories, questions=[question]))

    found = dict(zip(METRICS, judge.figures(list("0123"), question), strict=True))

    assert found["recall@5"] == 0.5
    assert found["MRR"] == 0.5
    assert found["nDCG@10"] == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    assert found["sessions@5"] == 1
    assert judge.within(list("0123"), question, judge.tokens["0"]) == 0


def test_a_fit_on_own_conversations_gives_weights_that_load(server_url: str) -> None:
    url, words = create(server_url, "recall_fit"), words_of(knowing(LocalEmbeddings))
    style = generated()[1].sample(2, 6)
    own = Style(name="own", histories=[replace(one) for one in style.histories])
    with System(url, words.embeddings) as system:
        examples, trials = collect(system, url, [(own, 1.0)], words)
    ((name, found), (other, by_words)) = fits(examples, trials, words, "local")

    assert (name, other) == ("local", "other")
    assert len(read_weights(json.dumps(found)).meaning) == words.embeddings.dims
    assert read_weights(json.dumps(by_words)).helps["nearest"] == 0
    assert {one.right for one in trials} == {True, False}
