"""Everything at once for half an hour, while something is killed: `python -m benchmarks.soak`.

Clients write to one tenant that grows and ask one that does not, a worker consolidates both, and
every twenty seconds a server, a worker or a client is ended by SIGKILL. One client lives on, whose
memory is watched. Afterwards every acknowledged write is looked for.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer

from benchmarks.databases import environment
from benchmarks.soak_process import FIXED, GROWING, coordinator, histories
from benchmarks.tables import Bar, Json, Markdown, Quick, Report, Sheet, facts, progress
from langmem_tiers import EmbeddedPostgres, TieredStore, local_index

KILL_SECONDS = 20.0
_STEADY = "steady"
"""The client that nothing kills."""
_CLIENTS = (_STEADY, "mortal")
_FIXED_SIZE = 1_000
_SLICE_SECONDS = 300.0
"""Over how long a median is taken."""
_WARM_SECONDS = 300.0
_SAMPLE_SECONDS = 2.0
_FLAT, _MEMORY = 1.3, 1.1
_TOLD = {
    "DatabaseUnavailableError",
    "OutcomeUnknownError",
    "ConflictError",
    "DatabaseError (query_timeout)",
    "DatabaseError (pool_exhausted)",
}
"""What a caller may be told while servers are killed."""


@dataclass(slots=True)
class Watched:
    """What was seen while it went on."""

    kills: Counter[str] = field(default_factory=Counter)
    samples: list[dict[str, float]] = field(default_factory=list)
    """Of the client that lives on: seconds, kB, open files; and of the growing tenant its size."""
    died: list[str] = field(default_factory=list)
    """What ended though nobody killed it."""


class Soak:
    """The processes of a run, and what kills them."""

    def __init__(self, server: EmbeddedPostgres, folder: Path, pace: float) -> None:
        self.server, self.folder, self.watched = server, folder, Watched()
        self._pace = pace
        self._started = time.monotonic()
        self._lives: dict[str, subprocess.Popen[bytes]] = {}
        self._generation = Counter[str]()

    def begin(self, name: str) -> None:
        """Start a client or the worker, with names of its own for what it writes."""
        self._generation[name] += 1
        called = f"{name}{self._generation[name]}"
        if name == "worker":
            what = ["-m", "langmem_tiers.cli", "worker", "--url", self.server.url]
            what += ["--every", "30s", "--poll", "5"]
        else:
            log = str(self.folder / f"{called}.jsonl")
            seed, pace = "soak", str(self._pace)
            what = ["-m", "benchmarks.soak_process", self.server.url, called, log, seed, pace]
        said = (self.folder / f"{called}.err").open("wb")
        self._lives[name] = subprocess.Popen(  # noqa: S603 - programs of ours
            [sys.executable, *what], stdout=subprocess.DEVNULL, stderr=said
        )

    def kill(self, name: str) -> None:
        """End one of them as a power cut would, and start it again."""
        self.watched.kills[name] += 1
        if name == "server":
            lines = (self.server.path / "data" / "postmaster.pid").read_text().splitlines()
            os.kill(int(lines[0]), signal.SIGKILL)
            _ended(int(lines[0]))
            self.server.start()
            return
        one = self._lives[name]
        if one.poll() is not None:
            self.watched.died.append(name)
        one.kill()
        one.wait()
        self.begin(name)

    def sample(self) -> None:
        """Look at the client that lives on, and at the tenant that grows."""
        process = Path("/proc") / str(self._lives[_STEADY].pid)
        with suppress(OSError, psycopg.Error, IndexError):  # it has ended, or the server is away
            status = (process / "status").read_text()
            kilobytes = int(status.partition("VmRSS:")[2].split()[0])
            self.watched.samples.append(
                {
                    "at": time.time(),
                    "seconds": time.monotonic() - self._started,
                    "kilobytes": kilobytes,
                    "files": len(list((process / "fd").iterdir())),
                    "size": _size(self.server.url),
                }
            )

    def end(self) -> None:
        """Let all of them end by themselves."""
        for name, one in self._lives.items():
            if one.poll() is not None:
                self.watched.died.append(name)
            one.terminate()
        for one in self._lives.values():
            one.wait(60)

    def notes(self) -> Iterator[dict[str, Any]]:
        """What the clients noted, one after another; a last line may be cut off by a kill."""
        for log in sorted(self.folder.glob("*.jsonl")):
            for line in log.read_text().splitlines():
                with suppress(json.JSONDecodeError):
                    yield json.loads(line)


def main(
    *,
    quick: Quick = False,
    minutes: Annotated[float, typer.Option(help="How long it goes on.")] = 30.0,
    pace: Annotated[float, typer.Option(help="Seconds that a client rests between steps.")] = 0.05,
    json_file: Json = None,
    markdown: Markdown = False,
) -> None:
    """Write, recall, consolidate and kill; then look for what was acknowledged."""
    started, seconds = time.monotonic(), 60.0 if quick else minutes * 60
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedPostgres(Path(directory) / "server") as server,
    ):
        soak = Soak(server, Path(directory), pace)
        run(soak, seconds)
        checked = check(server.url, soak.notes())
        foot = facts(environment(server.url), time.monotonic() - started)
        report = Report([over_time(soak), verbs(soak), told(soak)], bars(soak, checked), foot)
        report.write(markdown=markdown, json_file=json_file)


def run(soak: Soak, seconds: float) -> None:
    """Fill the tenant that stays, then let all work while one after another is killed."""
    with TieredStore.from_conn_string(soak.server.url, index=local_index()) as store:
        store.setup()
        texts = [one.content for history in histories() for one in history.memories]
        fixed = coordinator(store, FIXED)
        several = [{"content": texts[n % len(texts)], "key": f"{n}"} for n in range(_FIXED_SIZE)]
        fixed.store_many(several)
    try:
        for name in (*_CLIENTS, "worker"):
            soak.begin(name)
        _go_on(soak, seconds)
    finally:
        soak.end()


def _go_on(soak: Soak, seconds: float) -> None:
    victims, began = cycle(("server", "mortal", "worker")), time.monotonic()
    next_kill = began + KILL_SECONDS
    with progress("") as bar:
        task = bar.add_task("soaking", total=seconds)
        while (now := time.monotonic()) < began + seconds:
            if now >= next_kill:
                soak.kill(next(victims))
                next_kill += KILL_SECONDS
            soak.sample()
            time.sleep(_SAMPLE_SECONDS)
            bar.update(task, completed=now - began)


def _ended(process: int, seconds: float = 10.0) -> None:
    """Wait until a process is gone, or is a zombie that nobody has asked about yet."""
    deadline, stat = time.monotonic() + seconds, Path("/proc") / str(process) / "stat"
    while time.monotonic() < deadline:
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.01)
    raise TimeoutError(f"process {process} does not end")


def _size(url: str) -> int:
    return _answer(url, "SELECT count(*) FROM memory.memories WHERE tenant = %s", [GROWING])


def _answer(url: str, query: str, params: Sequence[object] = ()) -> int:
    with psycopg.connect(url) as conn:
        (found,) = conn.execute(query.encode(), params).fetchone() or (0,)
    return int(found)


# What is left afterwards


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What became of what was acknowledged, and what was left behind."""

    acknowledged: int
    lost: list[str]
    """Keys whose acknowledged version is not there."""
    back: list[str]
    """Keys that are there though their deletion was acknowledged."""
    twice: int
    """Texts that stand under more than one key."""
    broken: int
    """Vectors, lineage and counters of memories that are not there."""
    sessions: int
    """Connections that are left once everybody has gone."""
    locks: int


def check(url: str, notes: Iterable[Mapping[str, Any]]) -> Checked:
    """Look for every acknowledged write."""
    acknowledged: dict[str, int] = {}
    open_: dict[str, set[int]] = defaultdict(set)
    count = 0
    for note in notes:
        for key, version in note.get("begins", {}).items():
            open_[key].add(version)
        for key, version in note.get("acknowledged", {}).items():
            acknowledged[key], count = version, count + 1
            open_[key] = set()
    with psycopg.connect(url) as conn:
        rows = conn.execute(
            "SELECT key, value ->> 'content' FROM memory.memories WHERE tenant = %s", [GROWING]
        ).fetchall()
    stored = {key: int(said.rpartition(" v")[2].rstrip(".")) for key, said in rows if " v" in said}
    lost = [
        key
        for key, version in acknowledged.items()
        if version and stored.get(key, 0) not in {version, *open_[key]}
    ]
    back = [
        key
        for key, version in acknowledged.items()
        if not version and key in stored and stored[key] not in open_[key]
    ]
    time.sleep(2)
    return Checked(
        acknowledged=count,
        lost=lost,
        back=back,
        twice=_answer(url, _TWICE, [GROWING]),
        broken=_answer(url, _BROKEN),
        sessions=_answer(url, _SESSIONS),
        locks=_answer(url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"),
    )


_TWICE = """
SELECT count(*) FROM (
    SELECT FROM memory.memories WHERE tenant = %s GROUP BY value ->> 'content' HAVING count(*) > 1
) d
"""
_BROKEN = """
SELECT (SELECT count(*) FROM memory.vectors v
        WHERE NOT EXISTS (SELECT FROM memory.memories m WHERE m.tenant = v.tenant AND m.id = v.id))
     + (SELECT count(*) FROM memory.memories m
        WHERE NOT EXISTS (SELECT FROM memory.vectors v WHERE v.tenant = m.tenant AND v.id = m.id))
"""
_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE starts_with(application_name, 'langmem') AND pid <> pg_backend_pid()
"""


# What is told of it


def _times(soak: Soak, what: str) -> list[tuple[float, float]]:
    """When, and how many milliseconds it took."""
    return sorted((one["at"], one["ms"]) for one in soak.notes() if one.get("took") == what)


def _slices(soak: Soak, what: str) -> list[float]:
    """The median of each five minutes, but for what is left of less than half of that."""
    times = _times(soak, what)
    if not times:
        return []
    began, by_slice = times[0][0], defaultdict[int, list[float]](list)
    for at, took in times:
        by_slice[int((at - began) / _SLICE_SECONDS)].append(took)
    full = statistics.median(map(len, by_slice.values())) / 2
    return [statistics.median(some) for _, some in sorted(by_slice.items()) if len(some) >= full]


def over_time(soak: Soak) -> Sheet:
    """How recall and the client that lives on went, five minutes a column."""
    samples = soak.watched.samples
    several: dict[int, list[dict[str, float]]] = defaultdict(list)
    for one in samples:
        several[int(one["seconds"] / _SLICE_SECONDS)].append(one)

    def row(name: str, of: Callable[[list[dict[str, float]]], float]) -> list[str]:
        return [name, *(f"{of(some):,.0f}" for _, some in sorted(several.items()))]

    def middle(field_: str) -> Callable[[list[dict[str, float]]], float]:
        return lambda some: statistics.median(one[field_] for one in some)

    rows = [
        row("memories of the growing tenant", lambda some: some[-1]["size"]),
        ["recall of the fixed tenant, p50 ms", *(f"{one:.1f}" for one in _slices(soak, "recall"))],
        [
            "recall of the growing tenant, p50 ms",
            *(f"{one:.1f}" for one in _slices(soak, "recall growing")),
        ],
        ["turn, p50 ms", *(f"{one:.1f}" for one in _slices(soak, "turn"))],
        row("memory of a client, MB", lambda some: middle("kilobytes")(some) / 1024),
        row("its open files", middle("files")),
    ]
    columns = ["five minutes each", *map(str, range(1, len(several) + 1))]
    return Sheet("Over time", columns, [one + [""] * (len(columns) - len(one)) for one in rows])


def verbs(soak: Soak) -> Sheet:
    """How long each verb took in all."""
    rows = []
    for name in ("recall", "recall growing", "store", "store_many", "replace", "delete", "turn"):
        times = sorted(took for _, took in _times(soak, name))
        if times:
            cuts = (times[int(len(times) * share)] for share in (0.5, 0.95, 0.99))
            rows.append([name, f"{len(times):,}", *(f"{one:.1f}" for one in cuts)])
    return Sheet("Each verb, ms", ("", "calls", "p50", "p95", "p99"), rows)


def told(soak: Soak) -> Sheet:
    """What was killed, and what callers were told."""
    errors = Counter(one["error"] for one in soak.notes() if "error" in one)
    rows = [[f"{name} killed", f"{count}"] for name, count in soak.watched.kills.items()]
    rows += [[f"told {name}", f"{count}"] for name, count in errors.most_common()]
    return Sheet("Kills, and what callers were told", ("", "times"), rows)


def bars(soak: Soak, checked: Checked) -> list[Bar]:
    """What a run is held to."""
    errors = {one["error"] for one in soak.notes() if "error" in one} - _TOLD
    flat = _slices(soak, "recall")
    warm = [one for one in soak.watched.samples if one["seconds"] > _WARM_SECONDS]
    third = len(warm) // 3
    memory = files = None
    if third:
        first, last = warm[:third], warm[-third:]
        memory, files = (
            statistics.median(one[name] for one in last)
            / statistics.median(one[name] for one in first)
            for name in ("kilobytes", "files")
        )
    return [
        Bar(
            "acknowledged writes that are lost",
            "=",
            0,
            len(checked.lost),
            f"{len(checked.lost)} of {checked.acknowledged:,}",
        ),
        Bar("acknowledged deletions that came back", "=", 0, len(checked.back)),
        Bar("texts stored twice", "=", 0, checked.twice),
        Bar("memories without a vector, or the reverse", "=", 0, checked.broken),
        Bar("connections left behind", "=", 0, checked.sessions),
        Bar("locks left behind", "=", 0, checked.locks),
        Bar("processes that ended by themselves", "=", 0, len(soak.watched.died)),
        Bar("kinds of errors that no caller expects", "=", 0, len(errors)),
        Bar(
            "fixed tenant: slowest five minutes over the fastest, p50",
            "<=",
            _FLAT,
            max(flat) / min(flat) if flat else None,
        ),
        Bar("memory of a client: last third over the first after warm-up", "<=", _MEMORY, memory),
        Bar("its open files, likewise", "<=", _MEMORY, files),
    ]


if __name__ == "__main__":
    typer.run(main)
