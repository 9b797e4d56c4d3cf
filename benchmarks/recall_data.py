"""What recall is measured on: histories with questions, each style read into one form."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER, records
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.importers import BadRecord, Format, read_records

MEETINGS, LOGS, CHATS, FACTS, ASKED = "meetings", "logs", "chats", "facts", "asked"

_NO_ANSWER = "adversarial"
_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: _NO_ANSWER}
"""LoCoMo's categories by number."""
_REFERENCE = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One thing to remember."""

    key: str
    content: str
    speaker: str | None = None
    session: str | None = None
    turn: int | None = None
    occurred_at: datetime | None = None
    memory_type: str = "episodic"

    @property
    def fields(self) -> dict[str, Any]:
        """As `store_many` takes it."""
        return {
            "key": self.key,
            "content": self.content,
            "speaker": self.speaker,
            "session_id": self.session,
            "turn": self.turn,
            "occurred_at": self.occurred_at,
            "memory_type": self.memory_type,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the keys of what answers it; none where nothing does."""

    text: str
    gold: frozenset[str]
    category: str
    about: str = ""
    """What is asked for, where others may have the same to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What one tenant remembers, and what is asked of it."""

    name: str
    memories: Sequence[Memory]
    questions: Sequence[Question]

    @property
    def answerable(self) -> list[Question]:
        return [one for one in self.questions if one.gold and one.category != _NO_ANSWER]

    @property
    def adversarial(self) -> list[Question]:
        """Questions for what was never said."""
        return [one for one in self.questions if one.category == _NO_ANSWER]

    @property
    def end(self) -> datetime:
        """When the last thing happened; some day where nothing says when."""
        times = [one.occurred_at for one in self.memories if one.occurred_at]
        return max(times, default=datetime(2025, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Histories of one kind; `skipped` counts references to evidence that is not there."""

    name: str
    histories: Sequence[History]
    skipped: int = 0

    def sample(self, histories: int, questions: int) -> Style:
        """The first histories, with questions spread evenly over each."""
        chosen = [
            replace(one, questions=_spread(one.answerable, questions) + one.adversarial[:questions])
            for one in self.histories[:histories]
        ]
        return replace(self, histories=chosen)


def read(path: Path) -> Style:
    """A file in LoCoMo's form (`*.json`), or one history a line (`*.jsonl`).

    Raises:
        InvalidInputError: it is neither.
    """
    name = MEETINGS if path.stem.startswith("qmsum") else path.stem.removesuffix("-dev")
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            read_lines = [_history(json.loads(line)) for line in lines if line.strip()]
        return _style(name, read_lines)
    document = json.loads(path.read_text("utf-8"))
    if not isinstance(document, list):
        raise InvalidInputError(f"{path} is no list of conversations; docs/recall.md has the form")
    return _style(name, list(_conversations(path, document)))


def generated() -> list[Style]:
    """Assistant logs, chats and stand-alone facts, which a script made for this project."""
    return [read(FOLDER / "histories" / f"{name}.jsonl") for name in (LOGS, CHATS, FACTS)]


def asked_for() -> Style:
    """Facts that stand by themselves, with what is asked of them."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Style(
        name=ASKED,
        histories=[
            History(
                name=f"asked {n}",
                memories=[
                    Memory(key=one["id"], content=one["text"], occurred_at=now)
                    for one in group["memories"]
                ],
                questions=[
                    Question(
                        text=one["query"],
                        gold=frozenset(one["relevant"]),
                        category=one["kind"],
                        about=group["writer"],
                    )
                    for one in group["queries"]
                ],
            )
            for n, group in enumerate(records("asked"))
        ],
    )


def told_apart(style: Style, *, speaker: bool = True) -> Style:
    """The same where nobody said when or in which session, nor, without `speaker`, who spoke."""

    def told(one: Memory) -> Memory:
        bare = replace(one, session=None, turn=None, occurred_at=None)
        return bare if speaker else replace(bare, speaker=None)

    return _changed(style, "names alone" if speaker else "plain", told)


def by_role(style: Style) -> Style:
    """The same with roles for names: whoever says most is the user, all others the assistant."""
    roles = [
        _changed(replace(style, histories=[one]), "roles", _as_roles(one))
        for one in style.histories
    ]
    return replace(roles[0], histories=[one for each in roles for one in each.histories])


def beside(facts: Style, talks: Sequence[Style], questions: int) -> Iterator[Style]:
    """Facts that stand by themselves in one tenant with talk: asked of either, one style each."""
    for of_facts in (True, False):
        histories = []
        for n, history in enumerate(facts.histories):
            others = [one.histories[n % len(one.histories)] for one in talks]
            told = [_renamed(one, f"{one.name}-") for one in others]
            asked = [history] if of_facts else told
            histories.append(
                History(
                    name=f"{history.name} beside {talks[0].name}, {of_facts}",
                    memories=[*history.memories, *(each for one in told for each in one.memories)],
                    questions=[q for one in asked for q in _spread(one.answerable, questions)],
                )
            )
        what = "facts" if of_facts else "talk"
        yield Style(name=f"{facts.name} beside {talks[0].name}: {what}", histories=histories)


def _renamed(history: History, before: str) -> History:
    return replace(
        history,
        memories=[
            replace(one, key=before + one.key, session=one.session and before + one.session)
            for one in history.memories
        ],
        questions=[
            replace(one, gold=frozenset(before + key for key in one.gold))
            for one in history.questions
        ],
    )


def _as_roles(history: History) -> Callable[[Memory], Memory]:
    most = Counter(one.speaker for one in history.memories if one.speaker).most_common(1)
    user = most[0][0] if most else None

    def role(one: Memory) -> Memory:
        if one.speaker is None:
            return one
        return replace(one, speaker="user" if one.speaker == user else "assistant")

    return role


def _changed(style: Style, how: str, change: Callable[[Memory], Memory]) -> Style:
    histories = [
        replace(one, name=f"{one.name}, {how}", memories=[*map(change, one.memories)])
        for one in style.histories
    ]
    return replace(style, name=f"{style.name}, {how}", histories=histories)


def _style(name: str, found: Iterable[tuple[History, int]]) -> Style:
    histories = list(found)
    return Style(
        name=name,
        histories=[history for history, _ in histories],
        skipped=sum(skipped for _, skipped in histories),
    )


def _conversations(path: Path, document: Sequence[Any]) -> Iterator[tuple[History, int]]:
    by_name: dict[str, list[Memory]] = {}
    for record in read_records(path, format=Format.LOCOMO, tenant=None):
        if isinstance(record, BadRecord):
            raise InvalidInputError(f"{path}, line {record.line}: {record.reason}")
        by_name.setdefault(str(record.tenant), []).append(_from_value(record.key, record.value))
    for conversation in document:
        name = conversation["sample_id"]
        memories = by_name[name]
        keys = {one.key for one in memories}
        asked = [_locomo_question(one, keys) for one in conversation.get("qa", ())]
        history = History(name=name, memories=memories, questions=[one for one, _ in asked])
        yield history, sum(skipped for _, skipped in asked)


def _from_value(key: str | None, value: Mapping[str, Any]) -> Memory:
    when = value.get("occurred_at")
    return Memory(
        key=str(key),
        content=value["content"],
        speaker=value.get("speaker"),
        session=value.get("session_id"),
        turn=value.get("turn"),
        occurred_at=datetime.fromisoformat(when) if when else None,
    )


def _locomo_question(raw: Mapping[str, Any], keys: set[str]) -> tuple[Question, int]:
    given = " ".join(map(str, raw.get("evidence", ())))
    named = {f"D{int(a)}:{int(b)}" for a, b in _REFERENCE.findall(given)}
    category = raw.get("category")
    question = Question(
        text=str(raw["question"]),
        gold=frozenset(named & keys),
        category=_CATEGORIES.get(category, str(category)) if category else "",
    )
    return question, len(named - keys)


def _history(raw: Mapping[str, Any]) -> tuple[History, int]:
    """One line of the meetings' form; all but ids, texts, queries and gold may be left out."""
    every = [_from_line(one) for one in raw["memories"]]
    memories = [one for one in every if one.content.strip()]
    keys = {one.key for one in memories}
    asked = [
        Question(
            text=one["query"],
            gold=frozenset(map(str, one["gold"])) & keys,
            category=str(one.get("category", "")),
            about=one.get("about", ""),
        )
        for one in raw["questions"]
    ]
    skipped = sum(len({*map(str, one["gold"])} - keys) for one in raw["questions"])
    return History(name=str(raw["conv"]), memories=memories, questions=asked), skipped


def _from_line(raw: Mapping[str, Any]) -> Memory:
    facts = raw.get("metadata") or {}
    when = raw.get("timestamp")
    moment = datetime.fromisoformat(when) if when else None
    return Memory(
        key=str(raw["id"]),
        content=facts.get("utterance") or raw["text"],
        speaker=facts.get("speaker"),
        session=facts.get("session"),
        turn=facts.get("turn"),
        occurred_at=moment and moment.replace(tzinfo=moment.tzinfo or UTC),
    )


def _spread(questions: Sequence[Question], most: int) -> list[Question]:
    step = max(1, len(questions) // most)
    return list(questions[::step][:most])
