"""What the readers of conversation and memory files promise."""

import json
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.importers import (
    BadRecord,
    Format,
    Record,
    count_records,
    detect_format,
    read_records,
)
from langmem_tiers.importers.records import utc_date
from tests.support.coded import coded

Wrote = Callable[..., Path]


@pytest.fixture
def wrote(tmp_path: Path) -> Wrote:
    return partial(written, tmp_path)


def written(folder: Path, content: object, name: str = "chat.json") -> Path:
    path = folder / name
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def good(items: Iterable[Record | BadRecord]) -> list[Record]:
    found = list(items)
    assert not [item for item in found if isinstance(item, BadRecord)]
    return [item for item in found if isinstance(item, Record)]


def bad(items: Iterable[Record | BadRecord]) -> list[BadRecord]:
    return [item for item in items if isinstance(item, BadRecord)]


def said(records: Iterable[Record]) -> list[tuple[str, str]]:
    return [(record.value["speaker"], record.value["content"]) for record in records]


def locomo(sample: str | None, *turns: object, date: object = "1:56 pm on 8 May, 2023") -> Any:
    inner = {"speaker_a": "Ana", "session_1_date_time": date, "session_1": list(turns)}
    return {"sample_id": sample, "conversation": inner}


def turn(number: int, text: str = "Hello", **more: object) -> dict[str, object]:
    return {"speaker": "Ana", "dia_id": f"D1:{number}", "text": text, **more}


def in_lines(records: Iterable[object]) -> str:
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in records)


def test_a_locomo_turn_keeps_its_speaker_date_session_and_place(wrote: Wrote) -> None:
    path = wrote([locomo("conv-1", turn(1), turn(2, blip_caption="a dog"))])
    first, second = good(read_records(path))
    assert detect_format(path) is Format.LOCOMO
    assert (first.tenant, first.project, first.key) == ("conv-1", None, "D1:1")
    assert first.value == {
        "content": "Hello",
        "speaker": "Ana",
        "occurred_at": "2023-05-08T13:56:00+00:00",
        "session_id": "session_1",
        "turn": 1,
        "source": "locomo",
    }
    assert second.value["content"] == "Hello [image: a dog]"
    assert second.value["image_caption"] == "a dog"
    inner = {f"session_{number}": [turn(number)] for number in (10, 9, 1)}
    records = good(read_records(wrote([{"sample_id": "c", "conversation": inner}])))
    sessions = [record.value["session_id"] for record in records]
    assert sessions == ["session_1", "session_9", "session_10"]
    assert "occurred_at" not in records[0].value
    path = wrote([locomo("a", turn(1)), locomo("b", turn(1)), locomo(None, turn(1))])
    records = good(read_records(path, tenant="acme"))
    assert {record.tenant for record in records} == {"acme"}
    assert [record.key for record in records] == ["a:D1:1", "b:D1:1", "conversation-3:D1:1"]
    assert len({record.value["session_id"] for record in records}) == 3


def test_a_bad_locomo_turn_is_told_by_its_line_and_the_others_are_read(wrote: Wrote) -> None:
    turns = [turn(1), turn(2, text="  "), "no turn", turn(4, speaker=""), turn(1, text="again")]
    path = wrote([locomo("a", *turns)])
    found = list(read_records(path))
    assert [type(item) for item in found] == [Record] + 4 * [BadRecord]
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [lines[item.line - 1].strip() for item in bad(found) if item.line]
    assert starts == ["{", '"no turn",', "{", "{"]


MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief"),
    HumanMessage("Weather in Paris?", name="ana", id="m1"),
    AIMessage(
        [{"type": "text", "text": "Let me look"}, {"type": "image_url", "image_url": {"url": "u"}}],
        tool_calls=[{"name": "weather", "args": {"city": "Paris"}, "id": "c1"}],
    ),
    ToolMessage("Sunny", tool_call_id="c1", name="weather"),
]


@pytest.mark.parametrize(
    "raw",
    [
        messages_to_dict(MESSAGES),
        dumpd(MESSAGES),
        [message.model_dump() for message in MESSAGES],
        {"messages": messages_to_dict(MESSAGES)},
    ],
    ids=["messages_to_dict", "dumpd", "model_dump", "state"],
)
def test_langchain_messages_keep_role_text_and_tool_calls(wrote: Wrote, raw: object) -> None:
    path = wrote(raw)
    records = good(read_records(path))
    assert detect_format(path) is Format.LANGCHAIN
    assert said(records) == [
        ("system", "Be brief"),
        ("user", "Weather in Paris?"),
        ("assistant", 'Let me look\n[image]\n[calls weather({"city": "Paris"})]'),
        ("tool", "Sunny"),
    ]
    assert [record.value["turn"] for record in records] == [1, 2, 3, 4]
    assert (records[1].value["name"], records[1].value["message_id"]) == ("ana", "m1")
    block = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    twice = AIMessage([block], tool_calls=[{"name": "look", "args": {}, "id": "c"}])
    (record,) = good(read_records(wrote(messages_to_dict([twice]))))
    assert record.value["content"] == "[calls look({})]"


ODD: list[object] = [1, "x", ["x"], [{"name": 1}], [{"function": "f"}], {"a": 1}, [], None]


@pytest.mark.parametrize("form", [Format.LANGCHAIN, Format.OPENAI])
def test_an_odd_field_of_a_message_costs_no_other_message(wrote: Wrote, form: Format) -> None:
    constructed = {"lc": 1, "type": "constructor", "id": ["AIMessage"]}
    raw: list[object] = [constructed, "text", {"type": "alien", "data": {"content": "x"}}]
    fields = "content tool_calls invalid_tool_calls additional_kwargs name id type"
    for field, odd in product(fields.split(), ODD):
        inside = {"content": "hi", "role": "ai", "tool_call_id": "c", field: odd}
        raw += [{"type": each, "data": inside} for each in ("human", "ai", "tool")]
        raw += [{"type": "ai", **inside}, {**constructed, "kwargs": inside}]
    assert len(list(read_records(wrote(raw), format=form))) == len(raw)


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
CHAT: list[dict[str, object]] = [
    {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "1", "tool_call_id": "c"},
    {"role": "assistant", "content": None, "refusal": "I cannot"},
]


@pytest.mark.parametrize(
    "content",
    [CHAT, {"messages": CHAT}, in_lines(CHAT), in_lines([{"messages": CHAT}])],
    ids=["list", "object", "message a line", "conversation a line"],
)
def test_openai_messages_are_read_in_every_shape(wrote: Wrote, content: object) -> None:
    path = wrote(content)
    assert detect_format(path) is Format.OPENAI
    assert said(good(read_records(path))) == [
        ("user", "Hi\n[image]"),
        ("assistant", '[calls f({"x": 1})]'),
        ("tool", "1"),
        ("assistant", "I cannot"),
    ]


def test_each_conversation_is_a_session_with_its_date_and_loses_no_message(wrote: Wrote) -> None:
    one = {"messages": [{"role": "user", "content": "ok"}] * 2}
    path = wrote(in_lines([one, one, {"id": "x.y", **one}]), name="my.tune.jsonl")
    records = good(read_records(path))
    assert {record.tenant for record in records} == {"my-tune"}
    sessions = [record.value["session_id"] for record in records]
    assert sessions == ["my-tune-1"] * 2 + ["my-tune-2"] * 2 + ["x.y"] * 2
    assert len({record.key for record in records}) == 6
    dated = {"role": "user", "content": "b", "timestamp": "2024-01-02T00:00:00+01:00"}
    chat = {"created": 0, "messages": [{"role": "user", "content": "a"}, dated]}
    assert [record.value["occurred_at"] for record in good(read_records(wrote(chat)))] == [
        "1970-01-01T00:00:00+00:00",
        "2024-01-01T23:00:00+00:00",
    ]


def node(parent: str | None, role: str | None, text: str = "", **more: object) -> dict[str, Any]:
    if role is None:
        return {"message": None, "parent": parent, "children": []}
    content = {"content_type": "text", "parts": [text]}
    message = {"author": {"role": role}, "create_time": None, "content": content, **more}
    return {"message": message, "parent": parent, "children": []}


def conversation(**mapping: object) -> dict[str, object]:
    return {"title": "Tea", "create_time": 0, "mapping": mapping, "current_node": "d"}


def test_a_chatgpt_conversation_is_its_current_branch_in_order(wrote: Wrote) -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "x"}
    asked = {"content_type": "multimodal_text", "parts": [image, "Which tea?"]}
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "hm"}]}
    tree = conversation(
        root=node(None, None),
        d=node("t", "assistant", "Green", create_time=86400.5, id="m-d"),
        b=node("a", "user", content=asked, create_time=1),
        c=node("a", "user", "Which coffee?"),
        a=node("root", "system", ""),
        e=node("b", "assistant", content=thoughts),
        t=node("e", "tool", content={"content_type": "execution_output", "text": "2"}),
    )
    path = wrote([tree])
    records = good(read_records(path))
    assert detect_format(path) is Format.CHATGPT
    assert said(records) == [
        ("user", "[image]\nWhich tea?"),
        ("assistant", "hm"),
        ("tool", "2"),
        ("assistant", "Green"),
    ]
    assert records[-1].key == "chat-1:m-d"
    assert records[-1].value["occurred_at"] == "1970-01-02T00:00:00.500000+00:00"
    assert records[0].value["session_id"] == "chat-1"
    assert records[0].value["title"] == "Tea"
    copies = [
        conversation(d=node(None, "user", "Which tea?", id="m")) | {"id": f"c{i}"} for i in "01"
    ]
    assert [one.key for one in good(read_records(wrote(copies)))] == ["c0:m", "c1:m"]
    trees = {
        "ancestor": conversation(d=node("d", "user", "x")),
        "not in its `mapping`": conversation(a=node(None, "user", "x")),
        "no `current_node`": {"mapping": {}},
    }
    broken = bad(read_records(wrote([tree, *trees.values()])))
    assert all(reason in one.reason for one, reason in zip(broken, trees, strict=True))


def test_a_json_line_keeps_every_field_it_has(wrote: Wrote) -> None:
    content = "one\u2028two\x85three\x0bfour"
    line = {
        "text": content,
        "id": 7,
        "tenant": "acme",
        "project_id": "p",
        "session_id": "s.1",
        "speaker": "Ana",
        "date": "2024-02-29",
        "metadata": {"mood": "good"},
        "y": 2,
    }
    clashing = {"text": "b", "metadata": {"y": 1}, "y": 2}
    record, other = good(read_records(wrote(in_lines([line, clashing]))))
    assert (record.tenant, record.project, record.key) == ("acme", "p", "s.1:7")
    assert record.value == {
        "content": content,
        "speaker": "Ana",
        "occurred_at": "2024-02-29T00:00:00+00:00",
        "session_id": "s.1",
        "turn": 1,
        "source": "jsonl",
        "metadata": {"mood": "good", "y": 2},
    }
    assert other.value["metadata"] == {"metadata": {"y": 1}, "y": 2}


def test_a_key_is_unique_in_its_project_one_of_long_term_in_its_tenant(wrote: Wrote) -> None:
    named = [
        {"text": "a", "session": "s1", "id": 1},
        {"text": "b", "session": "s2", "id": 1},
        {"text": "c", "session": "s2", "key": "k"},
        {"text": "d", "id": 1},
    ]
    assert [one.key for one in good(read_records(wrote(in_lines(named))))] == [
        *("s1:1", "s2:1", "k", "1")
    ]
    promoted = {"project_id": "r", "memory_type": "achievement"}
    for places in (
        ({"session": "s1"}, {"project_id": "p"}, {"session": "s2"}),
        ({"project_id": "p", "tier": "long_term"}, {"project_id": "q"}, promoted),
    ):
        same = in_lines({"text": "a", "key": "k", **place} for place in places)
        found = list(read_records(wrote(same)))
        assert [type(item) for item in found] == [Record, Record, BadRecord]
    lines = in_lines({"content": content} for content in "abc")
    before = {record.key for record in good(read_records(wrote(lines)))}
    grown = wrote('{"content": "new"}\n' + lines)
    assert before < {record.key for record in good(read_records(grown))}


BAD_LINES = [
    *("not json", "[]", "7", '{"content": "x"} trailing', '{"note": "x"}'),
    *(f'{{"content": {one}}}' for one in ('" \\t"', "7", '"a\\u0000b"', '"\\ud800"')),
    *(
        f'{{"content": "x", {rest}}}'
        for rest in (
            *('"\\udfff": 1', '"n": NaN', '"n": 1e999', f'"n": {"9" * 5000}'),
            *('"date": "soon"', '"date": true', '"date": "0001-01-01T00:00:00+14:00"'),
            *('"key": " "', '"key": ["a"]', '"session": 1.5', '"speaker": {}'),
            *('"tags": "a, b"', '"tags": [1]', '"memory_type": "gossip"', '"tier": ["working"]'),
            *('"importance": 7', '"importance": "high"'),
            *(f'"deep": {"[" * levels}{"]" * levels}' for levels in (700, 100_000)),
        )
    ),
    '{"content": "again", "key": "taken"}',
]


def test_a_bad_line_is_reported_with_its_number_and_costs_no_other(wrote: Wrote) -> None:
    first = '{"content": "first", "key": "taken"}'
    for line in BAD_LINES:
        path = wrote(f'{first}\r\n\r\n{line}\r\n{{"content": "last"}}')
        found = list(read_records(path))
        assert [type(item) for item in found] == [Record, BadRecord, Record], line
        assert [(item.line, bool(item.reason)) for item in bad(found)] == [(3, True)]
    for line in ("{", '{"content": "a"', "oops", '["a"]', "[INFO] exported", '["a",'):
        found = list(read_records(wrote(f'{line}\n{{"content": "b"}}\n')))
        assert [type(item) for item in found] == [BadRecord, Record]  # and no document


def test_json_lines_are_read_as_they_are_asked_for(wrote: Wrote) -> None:
    path = wrote("".join(f'{{"content": "{n}"}}\n' for n in range(10_000)))
    records = read_records(path)
    next(records)
    with path.open("r+", encoding="utf-8") as file:
        file.truncate(0)
    assert len(list(records)) < 9_999


_NAMES = """content text role type data messages mapping current_node conversation session_1 dia_id
speaker lc id kwargs author parts parent message name tool_calls function user human ai constructor
HumanMessage AIMessage args input title date create_time metadata"""
fields = st.sampled_from(_NAMES.split())
shapes = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=3) | fields | st.just(1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=80)
@given(st.sampled_from(Format), st.lists(shapes, min_size=1, max_size=4))
def test_no_shape_of_json_breaks_a_reader(form: Format, elements: list[object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), elements)
        found = list(read_records(path, format=form))
        assert found == list(read_records(path, format=form))
        assert len(found) == count_records(path, format=form)
        lines = path.read_text(encoding="utf-8").count("\n") + 1
    assert all(item.line is not None and 1 <= item.line <= lines for item in bad(found))
    records = [item for item in found if isinstance(item, Record)]
    assert len({(one.tenant, one.project, one.key) for one in records}) == len(records)
    for record in records:
        assert record.value["content"].strip()
        assert record.tenant
        assert not {".", "\0"} & {*record.tenant}
        json.dumps(record.value, allow_nan=False).encode()
        if "occurred_at" in record.value:
            assert datetime.fromisoformat(record.value["occurred_at"]).tzinfo == UTC


@pytest.mark.parametrize("end", ["", ",", ', {"content": "b"', "] x", ",]", '\n {"content": "b"}]'])
def test_a_broken_document_gives_what_is_before_the_break_and_says_so(
    wrote: Wrote, end: str
) -> None:
    path = wrote(f'[\n {{"content":\n "a"}}{end}')
    first, last = list(read_records(path, format=Format.JSONL))
    assert isinstance(first, Record)
    assert isinstance(last, BadRecord)
    assert last.line == (4 if end.startswith("\n") else 3)
    assert "not JSON" in last.reason


def test_a_file_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    for content, reason in (
        (b"", "empty"),
        (b"\xef\xbb\xbf \n\r\n", "empty"),
        (b'{"content": "a"}\n{"content": "\xe9"}', r"not UTF-8 text \(line 2\)"),
        ('{"content": "a"}'.encode("utf-16"), "not UTF-8"),
        (b"Dear diary,\ntoday I", "supported are locomo"),
        (b'{"prompt": "a"}', "jsonl"),
        (b"[]", "supported"),
        (b"[link](there)\n[x", "supported"),
    ):
        path.write_bytes(content)
        for read in (detect_format, read_records, count_records):
            with coded("import_file", match=reason):
                read(path)
    with coded("import_file", match="does not exist"):
        read_records(tmp_path / "none.json")
    with coded("import_file", match="is a directory"):
        read_records(tmp_path)


def test_a_tenant_can_start_a_namespace_and_the_given_one_wins(
    wrote: Wrote, tmp_path: Path
) -> None:
    named = [{"content": "one", "tenant": "a.b"}, {"content": "two", "tenant": "a-b"}]
    path = wrote(in_lines(named))
    for tenant in ("", " ", "a.b", "a\0b", "langgraph"):
        with pytest.raises(InvalidInputError, match="tenant"):
            read_records(path, tenant=tenant)
    (record,) = good(read_records(wrote(in_lines(named[1:])), tenant="ours"))
    assert record.tenant == "ours"
    refused, kept = read_records(wrote(in_lines(named)))
    assert isinstance(refused, BadRecord)
    assert "'a.b'" in refused.reason
    assert isinstance(kept, Record)
    assert kept.tenant == "a-b"
    for name, tenant in (("a.b.jsonl", "a-b"), ("langgraph.json", "_langgraph")):
        path = tmp_path / name
        path.write_bytes('{"content": "a"}'.encode("utf-8-sig"))  # a byte order mark is accepted
        (record,) = good(read_records(path))
        assert record.tenant == tenant


def test_dates_become_iso_8601_in_utc() -> None:
    for text, expected in (
        ("12:09 am on 13 September, 2023", "2023-09-13T00:09:00+00:00"),
        ("12:30 PM on 1 January 2024", "2024-01-01T12:30:00+00:00"),
        ("8 May, 2023", "2023-05-08T00:00:00+00:00"),
        ("2023-05-08T13:56:00z", "2023-05-08T13:56:00+00:00"),
        ("2023-05-08 13:56+02:00", "2023-05-08T11:56:00+00:00"),
        ("1683554160", "2023-05-08T13:56:00+00:00"),
        (1683554160.5, "2023-05-08T13:56:00.500000+00:00"),
    ):
        assert utc_date(text) == expected
    for wrong in ("13:00 pm on 8 May, 2023", "8 Mai, 2023", "31 June, 2023", None):
        with pytest.raises(InvalidInputError, match="ISO 8601"):
            utc_date(wrong)
