"""Triggers: nothing is met early, the order is one, and nothing comes before itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.cues import PARTS, fires, further, pairs
from langmem_tiers import At, BeforeTool, If, When
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.remind.cue import anchors, features, matches
from langmem_tiers.remind.flow import Due
from langmem_tiers.remind.intentions import PRIORITIES, Place, refuse_cycles
from langmem_tiers.remind.sentences import base
from langmem_tiers.remind.triggers import Occasion, ToolCall, Trigger, of_json, to_json

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CUE = "when Anna mentions the budget"

moments = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - the zone is drawn beside it
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab*?", max_size=3)
args = st.dictionaries(st.sampled_from("xyz"), scalars, max_size=3)
names = st.sampled_from(["deploy", "search"])
triggers: st.SearchStrategy[Trigger] = st.one_of(
    st.builds(At, st.none() | moments),
    st.sampled_from(["when Anna mentions the budget", "if the build fails"]).map(When),
    st.builds(BeforeTool, names, args),
    st.builds(If, names),
)


# Triggers


@given(moments, moments)
@example(NOON, NOON)
def test_a_time_is_met_from_its_moment_on_and_not_before(at: datetime, now: datetime) -> None:
    assert At(at).met(Occasion(now)) is (now >= at)


@given(moments, moments, triggers)
def test_what_is_due_later_is_met_by_no_occasion_of_its_kind_alone(
    at: datetime, now: datetime, trigger: Trigger
) -> None:
    due = Due(1, 0, at, to_json(trigger), raised=False)
    nothing = Occasion(now)
    assert due.is_met(nothing) is (isinstance(trigger, At) and trigger.met(nothing))


@given(triggers)
def test_a_trigger_comes_back_from_json_as_it_was(trigger: Trigger) -> None:
    assert of_json(to_json(trigger)) == trigger


@given(args, args)
def test_a_call_meets_a_trigger_exactly_if_each_argument_does(
    wanted: dict[str, Any], given_: dict[str, Any]
) -> None:
    one = BeforeTool("deploy", wanted)
    each = [BeforeTool("deploy", {name: value}) for name, value in wanted.items()]
    call = ToolCall("deploy", given_)
    assert one.is_of(call) is all(part.is_of(call) for part in each)
    assert not one.is_of(ToolCall("search", given_))


@pytest.mark.parametrize(
    ("wanted", "said", "met"),
    [
        ("prod*", "production", True),
        ("prod*", "staging", False),
        ("?", "ab", False),
        ("*", None, True),
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        ([1, 2], [1, 2], True),
        ({"a": 1}, {"a": 2}, False),
    ],
)
def test_a_text_is_a_pattern_and_anything_else_is_compared(
    wanted: Any, said: Any, *, met: bool
) -> None:
    assert BeforeTool("deploy", {"x": wanted}).is_of(ToolCall("deploy", {"x": said})) is met
    assert not BeforeTool("deploy", {"x": wanted}).is_of(ToolCall("deploy", {"y": said}))


def test_kinds_leave_out_others_and_what_was_raised_before() -> None:
    tool = to_json(BeforeTool("deploy"))
    calls = (ToolCall("deploy", {}),)
    only = frozenset({"tool"})
    assert Due(1, 0, NOON, tool, raised=True).is_met(Occasion(NOON))
    assert not Due(1, 0, NOON, tool, raised=True).is_met(Occasion(NOON, kinds=only))
    assert Due(1, 0, NOON, tool, raised=False).is_met(Occasion(NOON, calls=calls, kinds=only))
    assert not Due(1, 0, NOON, to_json(At()), raised=False).is_met(Occasion(NOON, kinds=only))


# Order


places = st.builds(
    Place,
    st.integers(0, len(PRIORITIES) - 1),
    st.integers(0, 3).map(lambda hours: NOON + timedelta(hours=hours)),
    st.integers(1, 9),
)


@given(st.lists(places, unique=True))
def test_priority_comes_before_time_and_time_before_id(several: list[Place]) -> None:
    for one, other in zip(sorted(several), sorted(several)[1:], strict=False):
        assert one.rank <= other.rank
        if one.rank == other.rank:
            assert one.due_at <= other.due_at
            if one.due_at == other.due_at:
                assert one.id < other.id


# Dependencies


def reaches(start: int, end: int, needs: dict[int, set[int]]) -> bool:
    """Whether one leads to the other, by going all ways."""
    seen: set[int] = set()
    todo = [start]
    while todo:
        one = todo.pop()
        if one == end:
            return True
        todo += needs.get(one, set()) - seen
        seen |= needs.get(one, set())
    return False


@given(st.lists(st.tuples(st.integers(0, 6), st.sets(st.integers(0, 6), min_size=1, max_size=3))))
def test_what_is_let_in_never_makes_a_circle(steps: list[tuple[int, set[int]]]) -> None:
    needs: dict[int, set[int]] = {}
    for one, wanted in steps:
        circular = any(reaches(each, one, needs) for each in wanted)
        try:
            refuse_cycles(one, wanted, needs)
        except InvalidInputError:
            assert circular
        else:
            assert not circular
            needs[one] = wanted
    assert not any(reaches(each, one, needs) for one in needs for each in needs[one])


def test_what_is_new_is_needed_by_nothing() -> None:
    refuse_cycles(None, [1], {1: [2], 2: [3]})


# Cues


@given(st.text(max_size=60), st.text(max_size=60))
@example("when", "")
@example("...", "?")
@example("when 1,000 come", "1000 came")
def test_whatever_shows_a_cue_holds_its_anchors(cue: str, text: str) -> None:
    if anchors(cue) and matches(cue, text):
        assert set(anchors(cue)) <= features(text)


@pytest.mark.parametrize("half", PARTS)
def test_whatever_of_the_pairs_shows_its_cue_holds_its_anchors(half: str) -> None:
    for one in pairs(half):
        for text in (one.shows, one.does_not):
            assert matches(one.cue, text) is fires(one.cue, text)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12))
def test_every_word_has_a_base(word: str) -> None:
    assert base(word)


@pytest.mark.parametrize(
    "forms",
    [
        "arrive arrives arrived arriving arrival",
        "deploy deploys deployed deploying deployment",
        "submit submits submitted submitting",
        "hope hopes hoped hoping",
        "hop hops hopped hopping",
        "agree agrees agreed agreeing",
        "buy buys bought buying",
        "exceed exceeds exceeded exceeding",
        "need needs needed needing",
        "study studies studied studying",
        "migrate migrates migrated migrating migration",
        "reserve reserved reserving reservation",
        "apply applied applying application",
        "insure insured insuring insurance",
        "blow blew blown blowing",
    ],
)
def test_the_forms_of_a_word_have_one_base(forms: str) -> None:
    assert len({base(form) for form in forms.split()}) == 1


@pytest.mark.parametrize("half", ["tuned", "held_out", "later", "wide", "wide_held_out", "newest"])
def test_cues_are_found_and_few_others_are_taken_for_them(half: str) -> None:
    given_ = pairs(half)
    found = sum(fires(one.cue, one.shows) for one in given_)
    alarms = sum(fires(one.cue, one.does_not) for one in given_)
    assert found >= 0.95 * len(given_)
    assert alarms <= 0.02 * len(given_)


def test_looser_sentences_are_told_apart_too() -> None:
    given_ = pairs("looser")
    assert sum(fires(one.cue, one.shows) for one in given_) >= 0.95 * len(given_)
    assert sum(fires(one.cue, one.does_not) for one in given_) <= 0.05 * len(given_)
    shows, does_not = further()
    assert sum(fires(*one) for one in shows) >= 0.95 * len(shows)
    assert sum(fires(*one) for one in does_not) <= 0.02 * len(does_not)


@pytest.mark.parametrize("part", ["roles", "roles_later"])
def test_what_says_the_words_of_a_cue_in_other_roles_seldom_rings(part: str) -> None:
    given_ = pairs(part)
    assert sum(fires(one.cue, one.shows) for one in given_) >= 0.93 * len(given_)
    assert sum(fires(one.cue, one.does_not) for one in given_) <= 0.10 * len(given_)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Anna asked about the budget today.", True),
        ("What a day. Anna came by, and she asked about the budget.", True),
        ("Anna called. She asked about the budget.", True),
        ("Ben said that Anna asked about the budget.", True),
        ("The budget was brought up by Anna.", True),
        ("Anna: what about the budget?", True),
        ("Anna said that the budget is not enough.", True),
        ("Ben told Anna about the budget.", False),
        ("Anna did not mention the budget.", False),
        ("Did Anna mention the budget?", False),
        ("If Anna mentions the budget, call me.", False),
        ("Anna will ask about the budget tomorrow.", False),
        ("Anna mentioned the budget last year.", False),
        ("Nobody mentioned the budget.", False),
        ("Anna left. The budget is late.", False),
    ],
)
def test_who_says_what_and_whether_it_is_so_counts(text: str, *, shown: bool) -> None:
    assert matches(CUE, text) is shown


def test_words_alone_are_a_cue_too() -> None:
    assert matches("kubernetes upgrade", "How do we upgrade Kubernetes?")
    assert not matches("kubernetes upgrade", "How do we upgrade Postgres?")


@pytest.mark.parametrize(
    ("cue", "text", "shown"),
    [
        ("when we discuss Rome, remind me to book", "Let's plan Rome.", True),
        ("when we discuss the Rome trip remind me to book", "Let's plan Rome.", True),
        ("when we discuss the Rome trip", "Let's plan Rome and the zoo.", False),
        ("when Anna, Ben or Carl mention taxes", "Ben mentioned taxes to Anna and Carl.", True),
        ("buy milk when I am in town", "I am in town.", True),
        ("buy milk when I am in town", "We need to buy milk.", False),
        ("when my knee hurts", "My bad knee hurts.", True),
        ("when my knee hurts", "Her knee hurts.", False),
        ("when the rain stops", "The rain stopped.", True),
        ("when the rain stops", "The rain has not stopped.", False),
        ("when Anna mentions pain", "Anna mentioned no pain.", False),
        ("when Anna mentions the budget", "Anna: is that in the budget?", True),
        ("when Anna mentions the budget", "Ben: is that in the budget?", False),
        ("when Jake is in the office", "Jake's in the office.", True),
        ("when a pod gets evicted", "A POD WAS EVICTED", True),
        ("the deposition", "The bank deposit was made.", False),
        ("the deposition", "They deposited it.", True),
        ("when I talk to my boss", "My boss is on the phone with me.", True),
        ("when I talk to my boss", "My boss is on holiday.", False),
        ("is the appeal filed?", "The appeal has not been filed.", False),
        ("when it is time to mow", "Mowing again!", True),
        ("the on-call phone", "Who has the on call phone?", True),
        ("when the cat comes home", "The cat sitter came home.", False),
        ("when the plumber comes", "The plumber's bill came.", False),
        ("when my landlord writes", "My landlord wrote to me.", True),
        ("when my landlord writes", "I wrote to my landlord.", False),
        ("when I write to the bank", "The bank wrote to me.", False),
        ("when the house is sold", "We sold the house.", True),
        ("when the keeper is injured", "The keeper injured a striker.", False),
        ("when the coach picks the team", "The team picked a coach.", False),
        ("when the shop opens", "The window was opened, the shop closed.", False),
        ("when I open the shop", "I opened the window and closed the shop.", False),
        ("when the bridge is closed", "The shop on the bridge is closed.", False),
        ("when the fridge breaks", "We took a break beside the fridge.", False),
        ("when the water boils", "The kettle for boiling water is new.", False),
        ("when we hire a designer", "We hired a car for the designer.", False),
        ("when Noah mentions his mother", "Noah mentioned my mother.", False),
        ("when the invoice from Riga comes", "The invoice for Riga came.", False),
        ("when Victor quits", "Victor quit smoking.", False),
        ("when the thesis is submitted", "The thesis has to be submitted.", False),
        ("when the migration is done", "The migration is half done.", False),
        ("when the team meets in Lisbon", "The team from Lisbon met the mayor.", False),
        ("the tax return", "The return flight is tax free.", False),
        ("when the budget is approved", "The board approved the budget yesterday.", True),
        ("when the budget is approved", "The board approved the budget last year.", False),
        ("when Tom is free", "Tom was free yesterday.", False),
        ("when the disk usage exceeds 80%", "The disk usage is at 85 %.", False),
        ("when the disk usage exceeds 80%", "The disk usage is below 80%.", False),
        ("when Lea complains about the music", "Lea has danced to the music.", False),
        ("when it rains", "It rained last summer.", False),
        ("the rain jacket", "It rained on the jacket.", False),
        ("when Felix turns eighteen", "Felix turned eighteen on Sunday.", True),
        ("when the index is rebuilt", "We rebuilt the index.", True),
    ],
)
def test_cues_in_other_words(cue: str, text: str, *, shown: bool) -> None:
    assert fires(cue, text) is shown


@pytest.mark.parametrize(
    "text", ["They sell well.", "We sell a lot.", "Let's sell it.", "It would sell quickly."]
)
def test_of_a_question_what_to_do_whatever_says_its_words_is_told(text: str) -> None:
    assert fires("should we sell?", text)


def test_a_clause_said_again_is_about_what_it_was_about() -> None:
    assert fires("when the house is sold", "We sold the house We sold the house.")


@pytest.mark.parametrize("again", ["do not ", "a ", "remind me ", "budget "])
def test_a_cue_of_any_length_is_taken_apart(again: str) -> None:
    cue = "when Anna mentions the budget "
    assert set(anchors(cue)) <= set(anchors(cue + again * 1500))


def test_a_cue_of_more_than_a_thousand_characters_is_refused() -> None:
    assert When(f"when Anna mentions {'x' * 981}").words
    with pytest.raises(InvalidInputError, match="the cue has 1,001 characters"):
        When(f"when Anna mentions {'x' * 982}")
