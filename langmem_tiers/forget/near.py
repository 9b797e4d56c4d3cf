"""Other spellings of a subject's names, which may mean it: they are told, and left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from typing import Any, Final, NamedTuple

from langmem_tiers.forget.looking import PAGE, Found
from langmem_tiers.forget.reach import Known
from langmem_tiers.forget.receipt import NearForm
from langmem_tiers.forget.scrub import Waiting
from langmem_tiers.forget.subject import Subject, bare, labels_of, strings_of
from langmem_tiers.postgres.flow import Call, Flow, Query

MOST: Final = 20
"""The number of forms that are told, the most frequent first: our own choice."""


class _Forms(NamedTuple):
    """The forms that were met, each with the number of its rows, and as it was first written."""

    subject: Subject
    gone: Container[int]
    rows: Counter[str]
    written: dict[str, str]

    def add(self, value: object) -> None:
        """Note the forms in a row."""
        met = set[str]()
        for text in strings_of(value, names=True):
            for form in self.subject.near_in(text):
                self.written.setdefault(bare(form), form)
                met.add(bare(form))
        self.rows.update(met)

    def add_all(self, several: Iterable[object]) -> None:
        """Note the forms in each of several rows."""
        for one in several:
            self.add(one)

    def add_memories(self, several: Iterable[Known]) -> None:
        """Note the forms in memories that stay."""
        stay = (one for one in several if one.id not in self.gone)
        self.add_all([m.value, m.key, m.speaker, *labels_of(m.namespace)] for m in stay)

    def add_waiting(self, several: Iterable[Waiting]) -> None:
        """Note the forms in what the intentions that stay wait for."""
        self.add_all(one.trigger for one in several if one.id not in self.gone)

    def most(self) -> tuple[NearForm, ...]:
        """Return the most frequent forms."""
        told = sorted(self.rows.items(), key=lambda one: (-one[1], one[0]))
        return tuple(NearForm(self.written[form], number) for form, number in told[:MOST])


def near_forms(found: Found) -> Flow[tuple[NearForm, ...]]:
    """Find the forms near a name of the subject in what stays."""
    subject = found.asked.subject
    if subject is None:
        return ()
    forms = _Forms(subject, found.reach.erased, Counter(), {})
    tenant: dict[str, Any] = {"tenant": found.asked.tenant, "limit": PAGE}
    page = {**tenant, "user": None, "after": 0}
    while rows := (yield from _rows("memories_page", page)):
        forms.add_memories(Known(*row) for row in rows)
        page["after"] = rows[-1][0]
    page = {**tenant, "after": 0}
    while rows := (yield from _rows("intentions_page", page)):
        forms.add_waiting(Waiting(*row) for row in rows)
        page["after"] = rows[-1][0]
    page = {**tenant, "after": ""}
    while rows := (yield from _rows("events_page", page)):
        forms.add_all(row[-1] for row in rows)
        page["after"] = rows[-1][0]
    page = {**tenant, "owner": "", "kind": "", "name": ""}
    while rows := (yield from _rows("states_page", page)):
        forms.add_all([*labels_of(owner), name, value] for owner, _, name, value in rows)
        page |= dict(zip(("owner", "kind", "name"), rows[-1], strict=False))
    return forms.most()


def _rows(statement: str, params: dict[str, Any]) -> Flow[list[Any]]:
    (rows,) = yield Query((Call(statement, params),))
    return list(rows)
