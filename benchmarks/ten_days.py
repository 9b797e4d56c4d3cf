"""Ten days of two users with the agent of the README, and what its model is shown each time.

python -m benchmarks.ten_days > docs/ten-days.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.life_agent import Scripted
from langmem_tiers import MemoryContext, TieredMemoryMiddleware, TieredStore

_HEAD: Final = """\
# Ten days

Two users of one team talk with an agent for ten days, Ada in English and Jörg in German. Its model
is scripted: it says what stands here, and calls the tools that a model would call. All else is what
`TieredMemoryMiddleware()` does. Each turn has what the model is shown of earlier conversations
before it answers, word for word, and what its tools told it. `python -m benchmarks.ten_days` writes
this page.
"""


class Turn(NamedTuple):
    """A message, the answer, and what the model does by its tools."""

    day: str
    user: str
    says: str
    answer: str
    acts: Sequence[Mapping[str, Any]] = ()


TURNS: Final = (
    Turn(
        "2026-03-02T09:00",
        "ada",
        "I'm allergic to peanuts, please never forget that. I live in Turin with my dog Rex.",
        "Noted: no peanuts. Greetings to Rex!",
        ({"do": "pin", "text": "Ada is allergic to peanuts."},),
    ),
    Turn(
        "2026-03-02T11:00",
        "jörg",
        "Ich heiße Jörg und betreue bei uns die Datenbanken. Bitte antworte mir immer kurz.",
        "Gern, Jörg.",
        ({"do": "pin", "text": "Jörg möchte kurze Antworten."},),
    ),
    Turn("2026-03-03T08:30", "ada", "Any ideas for a snack on the train?", "Apple and cheese."),
    Turn(
        "2026-03-04T10:00",
        "ada",
        "Remind me on Friday at ten to call the dentist.",
        "I will, on Friday at ten.",
        ({"do": "remind", "text": "Call the dentist", "at": "2026-03-06T10:00"},),
    ),
    Turn(
        "2026-03-04T15:00",
        "jörg",
        "Unser Backup läuft jede Nacht um zwei auf dem Server Tanne.",
        "Alles klar.",
    ),
    Turn("2026-03-05T09:00", "ada", "Thanks, you are great!", "You are welcome."),
    Turn("2026-03-06T10:05", "ada", "Good morning!", "Good morning! It is time for the dentist."),
    Turn(
        "2026-03-06T11:00",
        "ada",
        "I called the dentist.",
        "Good, then that is done.",
        ({"do": "done", "about": "Call the dentist"},),
    ),
    Turn(
        "2026-03-07T18:00",
        "ada",
        "We moved to Genoa last weekend, Rex loves the sea.",
        "How lovely!",
        (
            {
                "do": "correct",
                "about": "I live in Turin",
                "to": "Ada lives in Genoa with Rex.",
            },
        ),
    ),
    Turn("2026-03-08T09:00", "jörg", "Wann läuft noch mal unser Backup?", "Jede Nacht um zwei."),
    Turn(
        "2026-03-09T12:00",
        "jörg",
        "Das mit dem Server Tanne war ein Irrtum, vergiss das bitte.",
        "Vergessen.",
        ({"do": "forget", "about": "Server Tanne"},),
    ),
    Turn("2026-03-10T08:00", "jörg", "Was weißt du über das Backup?", "Nichts mehr, Jörg."),
    Turn("2026-03-11T19:00", "ada", "Where do I live, and with whom?", "In Genoa, with Rex."),
)


class _Clock:
    now = datetime(2026, 3, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def lived() -> Iterator[str]:
    """Live through the turns; the lines of the page."""
    clock = _Clock()
    yield _HEAD
    with ExitStack() as closing:
        folder = closing.enter_context(TemporaryDirectory(prefix="ten-days-"))
        opened = TieredStore.embedded(f"{folder}/memory", index="multilingual", clock=clock)
        store = closing.enter_context(opened)
        model = Scripted()
        agent: Any = create_agent(
            model,
            middleware=[TieredMemoryMiddleware()],
            context_schema=MemoryContext,
            store=store,
            checkpointer=InMemorySaver(),
        )
        for number, turn in enumerate(TURNS, 1):
            clock.now = datetime.fromisoformat(turn.day).replace(tzinfo=UTC)
            model.does(turn.acts, turn.answer, name=f"turn-{number}")
            state = agent.invoke(
                {"messages": [HumanMessage(turn.says, id=f"turn-{number}")]},
                {"configurable": {"thread_id": f"thread-{number}"}},
                context=MemoryContext(tenant="team", user_id=turn.user),
            )
            yield from _told(turn, model.seen, state["messages"])


def _told(
    turn: Turn, seen: Sequence[BaseMessage], messages: Sequence[BaseMessage]
) -> Iterator[str]:
    moment = datetime.fromisoformat(turn.day)
    yield f"## {moment:%d %B, %H:%M}, {turn.user.title()}\n"
    shown = "\n".join(str(one.text) for one in seen if one.type == "system")
    yield f"```\n{shown}\n```\n" if shown else "Nothing is shown.\n"
    yield f"**{turn.user.title()}:** {turn.says}  "
    for one in messages:
        if isinstance(one, ToolMessage):
            told = " / ".join(str(one.text).splitlines())
            yield f"*{one.name}:* {told}  "
    yield f"**Agent:** {turn.answer}\n"


if __name__ == "__main__":
    print("\n".join(lived()).rstrip())
