"""What learning decides by rules, beside what hands say: `python -m benchmarks.judged`.

Which of two statements may be the same (`data/pairs.jsonl`), which memories an answer took up
(`used`), and which later call is kept with the one that failed, as evidence (`retries`). Nothing
was fitted on any of it; whoever wrote it knew no rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import typer
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from benchmarks.data import records
from benchmarks.fit import EMBEDDINGS
from langmem_tiers.core.texts import normalise
from langmem_tiers.graph.messages import failed_attempts
from langmem_tiers.learning.outcome import unused_memories
from langmem_tiers.learning.promote import MOST_SIMILAR
from langmem_tiers.learning.promotion_policy import SPECIFIED


def pairs() -> Iterator[str]:
    """Of each model: restatements that are named, and what is taken for the same."""
    several = records("pairs")
    restated = np.array([one["kind"] == "restated" for one in several])
    alike = [normalise(one["one"]) == normalise(one["other"]) for one in several]
    yield f"taken for the same: {sum(alike)} of {len(several)} pairs"
    for name, kind in EMBEDDINGS.items():
        embed = kind().embed_documents
        ours, theirs = (
            np.array(embed([one[side] for one in several])) for side in ("one", "other")
        )
        near = ours @ np.concatenate([theirs, ours]).T
        near[np.arange(len(several)), len(several) + np.arange(len(several))] = -1
        own = near[np.arange(len(several)), np.arange(len(several))]
        ahead = (near > own[:, None]).sum(axis=1)
        named = (own >= SPECIFIED.near_duplicate) & (ahead < MOST_SIMILAR)
        for writer in dict.fromkeys(one["writer"] for one in several):
            chosen = restated & np.array([one["writer"] == writer for one in several])
            found = f"{named[chosen].sum()} of {chosen.sum()} restatements"
            yield f"{name}, {writer}: {found} are named among {len(several) * 2} statements"


def used() -> Iterator[str]:
    """Of each writer: memories that made a difference and are found, and others that are."""
    several = records("used")
    for writer in dict.fromkeys(one["writer"] for one in several):
        counts = {True: [0, 0], False: [0, 0]}
        for one in (each for each in several if each["writer"] == writer):
            shown = dict(enumerate(one["memories"]))
            left = unused_memories(shown, one["asked"], one["answer"])
            for place in shown:
                count = counts[place in one["used"]]
                count[0] += place not in left
                count[1] += 1
        found, others = (f"{some} of {every}" for some, every in counts.values())
        yield f"{writer}: {found} that made a difference are credited, and {others} that made none"


def retries() -> Iterator[str]:
    """Of each writer: calls that are kept with what worked later, and those that rightly are."""
    several = records("retries")
    for writer in dict.fromkeys(one["writer"] for one in several):
        own = [one for one in several if one["writer"] == writer]
        kept = [one for one in own if failed_attempts(_messages(one))[0].succeeded_with]
        right = f"{sum(one['right'] for one in kept)} of {len(kept)} that are kept are right"
        yield f"{writer}: {right} ({sum(one['right'] for one in own)} of {len(own)} would be)"


def _messages(one: Mapping[str, Any]) -> list[AnyMessage]:
    """A log with these calls."""
    calls = [(one["tool"], one["failed"], False, one["error"])]
    calls += [(each["tool"], {"n": n}, each["ok"], "") for n, each in enumerate(one["between"])]
    calls.append((one["tool"], one["worked"], True, "done"))
    messages: list[AnyMessage] = [HumanMessage("do it")]
    for number, (tool, args, ok, said) in enumerate(calls):
        call = {"name": tool, "args": dict(args), "id": str(number)}
        status = "success" if ok else "error"
        messages.append(AIMessage("", tool_calls=[call]))
        messages.append(ToolMessage(said, tool_call_id=str(number), name=tool, status=status))
    return messages


def main() -> None:
    """Print all of it."""
    for part in (pairs, used, retries):
        for line in part():
            typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
