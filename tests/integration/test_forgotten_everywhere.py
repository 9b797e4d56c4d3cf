"""`forget` and `verify_forgotten` both find a name wherever a tenant's text stands."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
import pytest
from psycopg.sql import SQL, Composed, Identifier

from langmem_tiers import At, Audit, BeforeTool, If, TieredStore, When
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.forget.text_places import PLACES
from langmem_tiers.recall.matching import Candidate
from langmem_tiers.remember.tombstones import load_hashes
from tests.support.archives import execute
from tests.support.carrying import rich
from tests.support.coordinating import coordinator
from tests.support.forgetting import dump
from tests.support.opening import Clock, text_index
from tests.support.servers import fresh_database, name_of

NAME = "Quibbleton"
_OURS: Final = "a name of ours, or one of a few words"
_HASH: Final = "a hash"
_OF_VALUE: Final = "it is read from the value of its memory"
_GOES: Final = "it goes with its memory"

STAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "memories": {
        "lexemes": _OF_VALUE,
        "signature": _OF_VALUE,
        "tool": _OF_VALUE,
        "state": _OURS,
    },
    "vectors": {"namespace": _GOES, "field": "the name of an indexed field, of the settings"},
    "lineage": {"event": "the name of a move, of ours"},
    "events": {"kind": _OURS},
    "intentions": {"kind": _OURS, "status": _OURS},
    "states": {"kind": _OURS},
    "cycles": {"step": _OURS},
    "leases": {"holder": "who consolidates, for a few minutes"},
    "exports": {"part": "where an export was put", "machine": "where an export was begun"},
    "imports": {"export": _OURS, "source": "who answers for an import, until it ends"},
    "tenant_sizes": {
        "words": "it is counted anew",
        "crowded": "it is counted anew",
    },
    "archives": {
        "archive": "the name of a file, by the number of a memory",
        "url": "where the settings put archives",
        "checksum": _HASH,
    },
    "archived": {"archive": "the name of a file, by the number of a memory"},
    "recalls": {"by": "versions of packages and names of models"},
    "audit": {
        "verb": _OURS,
        "told_hash": _HASH,
        "salt": "the key of hashes",
        "value_hash": _HASH,
        "hash": _HASH,
    },
    "audit_links": {"hash": _HASH},
    "tombstones": {"hash": _HASH},
    "tombstone_keys": {"secret": "the key of hashes"},
    "forgettings": {
        "receipt": _OURS,
        "asked": _HASH,
        "detail": "ids, counts, hashes and names of files",
        "files": "names of files that are to be removed",
        "threads": "names of threads that are to be deleted",
    },
}
"""All other columns of texts, each with the reason why nobody has to look at it."""
_PLACES = [(table, name) for table, place in PLACES.items() for name in place.columns]
_TEXTS = """
    SELECT c.relname, a.attname FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p')
      AND EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.oid AND t.attname = 'tenant')
      AND format_type(a.atttypid, NULL) IN ('text', 'text[]', 'jsonb', 'bytea', 'tsvector')"""


def left(url: str) -> list[str]:
    """Return the tables that hold the name, but for the log of what was forgotten."""
    return [table for table, rows in dump(url).items() if NAME.lower() in str(rows).lower()]


def test_every_column_of_text_is_looked_at_or_stays_for_a_reason(url: str) -> None:
    """Compare with the catalog: a migration that adds a column has to say which."""
    with psycopg.connect(url) as conn:
        columns = {(table, name) for table, name in conn.execute(_TEXTS).fetchall()}
    looked = set(_PLACES)
    stays = {(table, name) for table, names in STAYS.items() for name in names}
    assert not looked & stays
    assert {each for each in columns if each[1] != "tenant"} == looked | stays
    assert all(reason for names in STAYS.values() for reason in names.values())


@pytest.mark.parametrize(
    "trigger",
    [
        {"cue": When(f"when {NAME} calls")},
        {"before_tool": BeforeTool("ring", {"whom": NAME})},
        {"before_tool": BeforeTool("ring", {NAME: "*"})},
        {"before_tool": f"ring_{NAME.lower()}"},
        {"when": If(f"{NAME} is here")},
    ],
    ids=("cue", "argument", "name of an argument", "tool", "predicate"),
)
def test_a_reminder_goes_that_waits_for_the_subject(
    store: TieredStore, url: str, trigger: dict[str, object]
) -> None:
    memory = coordinator(store)
    memory.reminders.add("Ask about the lease.", key="lease", **trigger)  # type: ignore[arg-type]
    memory.reminders.add("Water the roses.", key="roses", at=At())
    plan = memory.forget(subject=NAME, plan=True)
    assert [(each.key, each.why) for each in plan.erased] == [
        ("lease", "what it waits for names the subject")
    ]
    receipt = memory.forget(subject=NAME)
    assert receipt.counts["intentions"] == 1
    assert [each.key for each in memory.reminders.list()] == ["roses"]
    assert memory.admin.verify_forgotten(receipt)
    assert left(url) == []

    memory.reminders.add("Talk of the rent.", key="rent", **trigger)  # type: ignore[arg-type]
    assert {each.table for each in memory.admin.verify_forgotten(receipt).found} == {"intentions"}


_CANARY = {
    "memories.value": '{"content": "Quibbleton keeps bees"}',
    "events.detail": '{"reasons": ["Quibbleton keeps bees"]}',
    "intentions.trigger": '{"kind": "cue", "cue": "Quibbleton calls"}',
    "intentions.words": "{quibbleton}",
    "states.value": '{"content": "Quibbleton"}',
    "recalls.asked": '{"query": "Quibbleton"}',
    "recalls.answered": '["Quibbleton"]',
    "audit.told": '{"key": "Quibbleton", "namespace": "shop.", "role": "postgres"}',
}
"""The values of columns that hold no plain name."""
_LABELS = frozenset(("memories.namespace", "archived.namespace", "states.owner"))


def put(url: str, table: str, column: str) -> None:
    """Let one row of a table have the name in that column, and nowhere else."""
    place = f"{table}.{column}"
    said = _CANARY.get(place, f"at.{NAME}." if place in _LABELS else f"{NAME} Row")
    if table == "audit":  # nobody may write here, but for its functions
        execute(url, "ALTER TABLE memory.audit DISABLE TRIGGER USER")
    last = SQL("DESC" if table == "archived" else "ASC")  # another one says the same as the first
    named = {"table": Identifier("memory", table), "column": Identifier(column), "last": last}
    with psycopg.connect(url) as conn:
        first = "FROM {table} WHERE tenant = 'acme' ORDER BY ctid {last} LIMIT 1"
        if place == "recalls.seen":
            row = conn.execute(SQL("SELECT seen " + first).format(**named)).fetchone()
            said = seen_of_the_name(*(row or (b"",)))
        parts = ("UPDATE {table} SET {column} = %s WHERE ctid = (SELECT ctid ", first, ")")
        changed = Composed([SQL(each).format(**named) for each in parts])
        assert conn.execute(changed, [said]).rowcount == 1, place


def seen_of_the_name(seen: bytes) -> str:
    """Return what a recall saw, said by somebody of that name."""
    told = json.loads(zlib.decompress(seen))
    told["rows"][0][Candidate._fields.index("speaker")] = NAME
    return "\\x" + zlib.compress(json.dumps(told).encode(), 1).hex()


class Full(NamedTuple):
    """A database with a tenant that has something everywhere, and nothing of the name."""

    database: str
    cold: Path
    """The directory of its archives."""
    kept: Path
    """A copy of the same files."""


@pytest.fixture(scope="module")
def full(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Full]:
    """What tests copy."""
    directory = tmp_path_factory.mktemp("rich")
    with fresh_database(server_url, template) as url:
        with TieredStore(url, index=text_index(), clock=Clock()) as store:
            rich(store, url, directory / "cold", 6)
        shutil.copytree(directory / "cold", directory / "kept")
        yield Full(name_of(url), directory / "cold", directory / "kept")


@pytest.mark.parametrize(("table", "column"), _PLACES, ids=[".".join(each) for each in _PLACES])
def test_in_each_of_them_the_name_is_found_and_forgotten(
    server_url: str, full: Full, table: str, column: str
) -> None:
    shutil.copytree(full.kept, full.cold, dirs_exist_ok=True)
    with (
        fresh_database(server_url, full.database) as url,
        TieredStore(url, index=text_index(), clock=Clock()) as store,
    ):
        memory = coordinator(store)
        receipt = memory.forget(subject=NAME)
        assert memory.admin.verify_forgotten(receipt)
        put(url, table, column)
        assert left(url)
        assert table in {each.table for each in memory.admin.verify_forgotten(receipt).found}
        again = memory.forget(subject=NAME)
        assert again.receipt != receipt.receipt
        assert memory.admin.verify_forgotten(again)
        assert left(url) == []


def test_accents_and_points_make_no_difference_and_endings_are_told_and_left(
    store: TieredStore,
) -> None:
    memory = coordinator(store)
    texts = {
        "composed": "José likes tea.",
        "decomposed": "Jose\u0301 likes coffee.",
        "bare": "We met JOSE in Rome.",
        "ending": "Josés Fahrrad ist rot.",
        "other": "Joseph was a carpenter.",
        "apart": "The lamp is broken.",
    }
    for key, text in texts.items():
        memory.store(text, "semantic", key=key)
    plan = memory.forget(subject="José", plan=True)
    assert [each.key for each in plan.erased] == ["composed", "decomposed", "bare"]
    assert [(each.form, each.rows) for each in plan.near] == [("Joseph", 1), ("Josés", 1)]
    assert "also found, and stays unless it is named too: Joseph (1), Josés (1)" in str(plan)

    receipt = memory.forget(subject=["Jose", "Joses"])
    assert memory.admin.verify_forgotten(receipt)
    assert {one.key for one in store.search(("acme",), limit=10)} == {"other", "apart"}
    memory.store("A bike of JOSÉS was found.", "semantic", key="bike")
    found = memory.admin.verify_forgotten(receipt).found
    assert {each.why for each in found} == {"it names the subject"}


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("Иван", "Отдай книгу Ивану завтра.", "Ивану"),
        ("Анна", "Я видел Анну.", "Анну"),
        ("Anna Müller", "Anna Müllers Adresse ist neu.", "Anna Müllers"),
        ("Anna Müller", "Frau Müller rief an.", "Müller"),
        ("Marcus", "De Marci domo.", "Marci"),
        ("Δημήτρης", "Δημήτρη", "Δημήτρη"),
    ],
)
def test_forms_of_a_name_are_told_in_any_language(
    store: TieredStore, name: str, text: str, form: str
) -> None:
    memory = coordinator(store)
    memory.store(text, "semantic", key="said")
    plan = memory.forget(subject=name, plan=True)
    assert (plan.erased, [each.form for each in plan.near]) == ((), [form])
    taken = memory.forget(subject=[name, form], plan=True)
    assert [each.key for each in taken.erased] == ["said"]


@pytest.mark.parametrize("given", [[], ["Ada", ""], ["Ada", 7], [["Ada"]], "…"])
def test_a_subject_is_a_name_or_a_list_of_names(store: TieredStore, given: object) -> None:
    with pytest.raises(InvalidInputError, match="subject"):
        coordinator(store).forget(subject=given, plan=True)  # type: ignore[call-overload]


# Receipts


def test_a_receipt_whose_words_were_changed_is_refused(store: TieredStore, url: str) -> None:
    memory = coordinator(store)
    for name in ("ada", "ben"):
        memory.store(f"{name} lives at 7 Orchard Row in Rome.", "semantic", key=name)
    receipt = memory.forget(key="ada")
    other = memory.forget(key="ben")
    assert memory.admin.verify_forgotten(receipt)
    assert memory.admin.verify_forgotten(receipt.to_json())
    for change in (
        {"hashes": ()},
        {"sentences": other.sentences},
        {"ids": ()},
        {"at": "2020-01-01"},
    ):
        with pytest.raises(InvalidInputError, match=f"changed since.*{next(iter(change))}"):
            memory.admin.verify_forgotten(replace(receipt, **change))
    with pytest.raises(InvalidInputError, match="no receipt 'mine' was given here"):
        memory.admin.verify_forgotten(replace(receipt, receipt="mine"))

    execute(
        url,
        "UPDATE memory.forgettings SET detail = detail || '{\"hashes\": []}' WHERE receipt = %s",
        receipt.receipt,
    )
    with pytest.raises(InvalidInputError, match="is another one in the audit log"):
        memory.admin.verify_forgotten(replace(receipt, hashes=()))
    assert memory.admin.verify_audit()
    assert [each.verb for each in memory.admin.audit()][:1] == ["receipt"]


@contextmanager
def unlogging(url: str) -> Iterator[TieredStore]:
    """Give a store whose database logs nothing; it logs again for the tests that follow."""
    try:
        with TieredStore(url, index=text_index(), audit=Audit(writes=False)) as store:
            store.setup()
            yield store
    finally:
        with TieredStore(url, index=text_index(), audit=Audit(writes=True)) as store:
            store.setup()


def test_where_nothing_is_logged_the_database_keeps_the_receipt_alone(url: str) -> None:
    with unlogging(url) as store:
        memory = coordinator(store)
        memory.store("Ada lives in Rome.", "semantic", key="ada")
        receipt = memory.forget(key="ada")
        assert memory.admin.verify_forgotten(receipt)
        assert memory.admin.audit() == ()
        with pytest.raises(InvalidInputError, match="changed since it was given"):
            memory.admin.verify_forgotten(replace(receipt, hashes=()))


@pytest.mark.parametrize(("name", "text"), [("Ada", "ADA lives."), ("Rénée", "A note to rénée.")])
def test_a_subjects_receipt_of_before_finds_its_name(url: str, name: str, text: str) -> None:
    with unlogging(url) as store:
        memory = coordinator(store)
        memory.store(f"{name} lives in Rome.", "semantic", key="one")
        given = memory.forget(subject=name).to_json()
        hashes, _ = store.run(load_hashes("acme"))
        del given["names"]
        old = {**given, "words": 1, "asked": hashes.exact(name.casefold())}
        execute(url, "UPDATE memory.forgettings SET detail = %s", json.dumps(old))
        assert memory.admin.verify_forgotten(old)
        memory.store(text, "semantic", key="two")
        (found,) = memory.admin.verify_forgotten(old).found
        assert found.why == "it names the subject"
        with pytest.raises(InvalidInputError, match="changed since it was given"):
            memory.admin.verify_forgotten({**old, "words": 2})
