"""How well failure signatures tell failures apart: families of failures, mutated.

Every family is printed again and again with other paths, names, numbers, ids and times, as an
exception, as a traceback or a test's output, and as a failed tool's message. Counted is how many
mutations get the most frequent signature of their family, and how many pairs of families share
one. What others would key a lesson by is counted on the same stream.

    python -m benchmarks.failures [mutations of each family]
"""

from __future__ import annotations

import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Final, NamedTuple

from benchmarks.data import Record, records
from benchmarks.failure_families import FAMILIES, HELD_OUT, Failure, Family, Slots
from benchmarks.tables import Report, Sheet
from langmem_tiers.learning.signature import signature

COUNT: Final = 1_000
SEED: Final = 20

Key = Callable[[Failure], str]
Keyed = Mapping[str, Mapping[str, Counter[str]]]
"""Of each way of keying a failure, how often it gave each key in each family."""


class ToolException(Exception):  # noqa: N818 - LangChain's own name
    """What a tool raises to tell a model what went wrong, as LangChain's class of this name."""


def mutations(family: Family, count: int, seed: int = SEED) -> Iterator[Failure]:
    """The same failure, printed again and again in the forms that it is met in."""
    rng = random.Random(f"{seed} {family.name}")
    for _ in range(count):
        slots = Slots(rng, family.name)
        failure = family.make(slots)
        forms = _OF_OUTPUT if isinstance(failure, str) else _OF_EXCEPTIONS
        yield rng.choice(forms)(failure, slots)


# ---- forms of a program's output ------------------------------------------------------------


def _with_exit_code(failure: Failure, _: Slots) -> str:
    return f"{failure}\n"


def _tool_exception(failure: Failure, _: Slots) -> BaseException:
    return ToolException(str(failure))


def _tool_exception_message(failure: Failure, _: Slots) -> str:
    return f"Error: {ToolException(str(failure))!r}\n Please fix your mistakes."


def _in_terminal_colours(failure: Failure, _: Slots) -> str:
    first, *rest = str(failure).splitlines()
    return "\n".join([f"\x1b[31m{first}\x1b[0m", *rest])


# ---- forms of an exception ------------------------------------------------------------------


def _bare(failure: Failure, slots: Slots) -> Failure:
    if isinstance(failure, BaseException) and slots.number() % 4 == 0:
        failure.add_note(f"while handling request {slots.uuid()}")
    return failure


def _grouped(failure: Failure, slots: Slots) -> Failure:
    if not isinstance(failure, BaseException):
        return failure
    return BaseExceptionGroup(f"unhandled errors in {slots.name()}", [failure])


def _while_handling(failure: Failure, slots: Slots) -> Failure:
    if isinstance(failure, BaseException):
        failure.__context__ = LookupError(slots.said())
    return failure


def _said_last(failure: Failure) -> str:
    if not isinstance(failure, BaseException):
        return failure
    return "".join(traceback.format_exception_only(failure)).rstrip("\n")


def _printed(form: Record, failure: Failure, slots: Slots) -> str:
    """As a form of the data prints it."""
    last = said = _said_last(failure)
    if isinstance(failure, AssertionError) and str(failure).startswith("assert "):
        said = str(failure)  # as pytest shows it
    told = {
        "last": last,
        "repr": repr(failure),
        "lines": "\n".join(f"E   {line}" for line in said.splitlines()),
        "first": said.strip().partition("\n")[0],
    }
    drawn = slots.drawn(form)
    if isinstance(failure, AssertionError):  # what is asserted is told by the test
        test = f"test_{'_'.join(slots.family.split())}"
        drawn |= {"the_test": test, "the_case": f"{test} (tests.{test})".removeprefix("test_")}
    return str(slots.filled(form["says"], {**told, **drawn}))


def _one_line(failure: Failure, _: Slots) -> str:
    kind = type(failure)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return f"{name}: {failure}" if str(failure) else name


_OF_OUTPUT: Final = (
    *(_with_exit_code, _tool_exception, _tool_exception_message, _in_terminal_colours),
)
_OF_EXCEPTIONS: Final[Sequence[Callable[[Failure, Slots], Failure]]] = (
    *(_bare, _grouped, _while_handling),
    *(partial(_printed, form) for form in records("failure_forms")),
    _one_line,
)

# ---- what is counted ------------------------------------------------------------------------


def _text(failure: Failure) -> str:
    return failure if isinstance(failure, str) else _said_last(failure)


def _first_line(failure: Failure) -> str:
    return _text(failure).strip().partition("\n")[0]


def _last_line(failure: Failure) -> str:
    return _text(failure).strip().rpartition("\n")[2]


def _class_only(failure: Failure) -> str:
    return signature(failure).error


def _without_digits(failure: Failure) -> str:
    return "".join(letter for letter in _last_line(failure) if not letter.isdigit())


KEYS: Final[Mapping[str, Key]] = {
    "signature": lambda failure: str(signature(failure)),
    "exception class only": _class_only,
    "first line": _first_line,
    "last line": _last_line,
    "last line without digits": _without_digits,
}


class Figures(NamedTuple):
    """Shares in 0…1 over some families."""

    kept: float
    """Of the mutations, those with the most frequent key of their family."""
    collided: float
    """Of the pairs of families, those whose most frequent keys are the same."""


def keyed(families: Iterable[Family], count: int, key: Key) -> dict[str, Counter[str]]:
    """How often each key was given in each family."""
    return {one.name: Counter(key(said) for said in mutations(one, count)) for one in families}


def figures(counts: Mapping[str, Counter[str]], among: Mapping[str, Counter[str]]) -> Figures:
    """The figures of some families, whose pairs reach into all of them."""
    modal = {name: keys.most_common(1)[0] for name, keys in among.items()}
    pairs = [pair for pair in combinations(among, 2) if counts.keys() & set(pair)]
    kept = sum(modal[name][1] for name in counts) / sum(keys.total() for keys in counts.values())
    return Figures(kept, sum(modal[a][0] == modal[b][0] for a, b in pairs) / len(pairs))


def key_all(count: int) -> Keyed:
    """What each way of keying a failure makes of every family."""
    return {name: keyed(FAMILIES, count, key) for name, key in KEYS.items()}


def sheet(found: Keyed) -> Sheet:
    """How well each way keeps families together and apart."""
    rows = []
    for name, among in found.items():
        held = {one: keys for one, keys in among.items() if one in HELD_OUT}
        tuned = {one: keys for one, keys in among.items() if one not in HELD_OUT}
        shares = [figures(counts, among) for counts in (among, tuned, held)]
        rows.append((name, *(f"{share:.2%}" for one in shares for share in one)))
    columns = [
        f"{what}, {which}"
        for which in ("all", "tuned on", "held out")
        for what in ("kept", "collided")
    ]
    return Sheet("Signatures: families of failures, mutated", ("", *columns), rows)


def main(arguments: Sequence[str]) -> None:
    count = int(arguments[0]) if arguments else COUNT
    foot = f"{count:,} mutations of each of {len(FAMILIES)} families, {len(HELD_OUT)} held out"
    Report([sheet(key_all(count))], [], foot).write(markdown=True, json_file=None)


if __name__ == "__main__":
    main(sys.argv[1:])
