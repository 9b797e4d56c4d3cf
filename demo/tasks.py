"""Tasks for an agent that runs code: eight families, each with a way that fails and one that works.

The code really runs, on real data, and the errors are Python's own. A family's tasks differ in
their words and in their data from day to day, and so do its messages of errors.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple


class Family(NamedTuple):
    """Tasks of one kind; the code finds its data as `given` and leaves its result as `answer`."""

    name: str
    asked: tuple[str, ...]
    given: tuple[Any, ...]
    naive: str
    improved: str


class Task(NamedTuple):
    """What is asked on one day in one project."""

    family: str
    question: str
    given: str
    """The data, as a Python literal."""


FAMILIES = {
    one.name: one
    for one in (
        Family(
            "thousands",
            (
                "Turn the amount of an invoice into a number",
                "Read this amount with thousands as a whole number",
                "Make a number of the amount that the customer typed",
            ),
            ("1,234", "20,500", "7,000,000"),
            "answer = int(given)",
            'answer = int(given.replace(",", ""))',
        ),
        Family(
            "trailing comma",
            (
                "Parse the JSON settings of the service",
                "Load the settings from this JSON text",
                "Which settings does the JSON file have?",
            ),
            ('{"retries": 3,}', '{"region": "eu", "debug": true,}', '{"limit": 12, }'),
            "import json\nanswer = json.loads(given)",
            'import json, re\nanswer = json.loads(re.sub(r",\\s*}", "}", given))',
        ),
        Family(
            "missing key",
            (
                "What is the discount of this order?",
                "Look up the discount in the order",
                "How much discount does the order get?",
            ),
            ({"id": 7, "total": 120}, {"id": 8, "items": []}, {"id": 9, "total": 35}),
            'answer = given["discount"]',
            'answer = given.get("discount", 0)',
        ),
        Family(
            "time zone",
            (
                "How long ago did this event happen?",
                "Compute the age of the event from its timestamp",
                "How much time has passed since the event?",
            ),
            ("2026-05-04T10:00", "2026-06-01T23:15:30", "2026-02-28T08:30"),
            "from datetime import UTC, datetime\n"
            "answer = datetime.now(UTC) - datetime.fromisoformat(given)",
            "from datetime import UTC, datetime\n"
            "answer = datetime.now(UTC) - datetime.fromisoformat(given).replace(tzinfo=UTC)",
        ),
        Family(
            "byte order mark",
            (
                "Sum up the column of a CSV export",
                "Add the values of this exported CSV line",
                "Total of the row in the CSV export from Excel",
            ),
            ("\ufeff7;20;3", "\ufeff1.5;2", "\ufeff40;2;9"),
            'answer = sum(float(one) for one in given.split(";"))',
            'answer = sum(float(one) for one in given.lstrip("\\ufeff").split(";"))',
        ),
        Family(
            "empty filter",
            (
                "Find the first reading of the sensor above 100",
                "Which sensor reading goes over 100 first?",
                "First of these readings that is higher than 100",
            ),
            ([12, 40, 99], [], [7, 100]),
            "answer = [one for one in given if one > 100][0]",
            "answer = next((one for one in given if one > 100), None)",
        ),
        Family(
            "encoding",
            (
                "Decode the word from its bytes",
                "What word do these bytes spell?",
                "Turn the bytes of a word into text",
            ),
            (b"caf\xe9s", b"d\xe9j\xe0 vu", b"\xe0 la carte"),
            "answer = given.decode()",
            'answer = given.decode("latin-1")',
        ),
        Family(
            "float equality",
            (
                "Check that the shares add up to one",
                "Do these shares make a whole?",
                "Verify that the sum of the shares is 1",
            ),
            ([0.1] * 10, [0.7, 0.1, 0.1, 0.1], [0.2, 0.3, 0.1, 0.4 - 1e-16]),
            'total = sum(given)\nassert total == 1, f"the shares add up to {total}"\nanswer = True',
            "import math\nanswer = math.isclose(sum(given), 1)",
        ),
    )
}


def tasks(day: int, project: int) -> list[Task]:
    """One task of each family; the words and the data change by day and by project."""
    return [
        Task(
            one.name,
            one.asked[(day + project) % len(one.asked)],
            repr(one.given[(day + 2 * project) % len(one.given)]),
        )
        for one in FAMILIES.values()
    ]


def execute(code: str, given: str) -> str:
    """Run code on its data; its answer as a Python literal. What it raises passes through."""
    names: dict[str, Any] = {"given": ast.literal_eval(given)}
    exec(code, names)  # noqa: S102 - the code above, and nothing that was recalled
    return repr(names["answer"])
