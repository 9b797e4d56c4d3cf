"""What is accidental about a failure: seeded names, numbers, places and times."""

from __future__ import annotations

import base64
import json
import random
import string
from datetime import UTC, datetime, timedelta
from typing import Final

_WORDS: Final = (
    *("user", "order", "invoice", "customer", "session", "token", "payload", "report", "config"),
    *("cache", "queue", "billing", "widget", "ledger", "parser", "worker", "gateway", "profile"),
    *("timeout", "error", "status", "path", "index", "value", "record", "batch", "feature"),
)
_PEOPLE: Final = ("ada", "grace", "linus", "m.curie", "jdoe", "runner", "zoë", "kim-lee", "root")
_PROJECTS: Final = ("shop", "crm-backend", "etl_jobs", "My Project", "api.v2", "monorepo", "x9")
_HOSTS: Final = ("localhost", "db", "api.example.com", "redis-0.cache.svc", "es.internal")
_SAID: Final = (
    *("abc", "not a number", "O'Brien", "12 eggs", "", "naïve café", "a: b", "x=1;y=2"),
    *("{}", "[1, 2", "<none>", 'say "hi"', "back\\slash", "N/A", "3.14.15", "ünï", "0x"),
)
_FOLDERS: Final = ("src", "app", "lib", "tests", "pkg", "core", "handlers", "models")


class Slots:
    """Fills for the slots of a failure's text; the same seed gives the same fills."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def one(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def number(self, least: int = 0, most: int = 99_999) -> int:
        """A number whose count of digits varies as much as its value."""
        return self.rng.randint(least, min(most, 10 ** self.rng.randint(1, 6) + least))

    def word(self) -> str:
        return self.rng.choice(_WORDS)

    def name(self) -> str:
        """An identifier in snake_case, with a number now and then."""
        name = "_".join(self.rng.sample(_WORDS, self.rng.randint(1, 3)))
        return name + self.one("", "", "", "_id", "2", "_v1")

    def kind(self) -> str:
        """An identifier in CamelCase."""
        return "".join(word.title() for word in self.rng.sample(_WORDS, self.rng.randint(1, 2)))

    def slug(self) -> str:
        """A name with hyphens, as packages, branches and pods have."""
        return "-".join(self.rng.sample(_WORDS, self.rng.randint(1, 3)))

    def said(self) -> str:
        """What a program was given: anything."""
        return self.rng.choice([*_SAID, self.word(), self.uuid(), str(self.number()), self.path()])

    def uuid(self) -> str:
        digits = f"{self.rng.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def hexadecimal(self, digits: int = 40) -> str:
        return f"{self.rng.getrandbits(4 * digits):0{digits}x}"

    def token(self, length: int = 24) -> str:
        return "".join(self.rng.choices(string.ascii_letters + string.digits, k=length))

    def address(self) -> str:
        return f"0x{self.rng.getrandbits(48):012x}"

    def ip(self) -> str:
        return ".".join(str(self.rng.randint(1, 254)) for _ in range(4))

    def host(self) -> str:
        return self.rng.choice([*_HOSTS, self.ip(), f"{self.slug()}.example.org"])

    def port(self) -> int:
        return self.rng.randint(80, 65_535)

    def email(self) -> str:
        return f"{self.one('ada', 'j.doe', 'ops+alerts')}@{self.one('example.com', 'corp.io')}"

    def person(self) -> str:
        return self.rng.choice(_PEOPLE)

    def time(self) -> str:
        moment = datetime(2023, 1, 1, tzinfo=UTC) + timedelta(seconds=self.rng.randrange(10**8))
        shape = self.one("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S,%f", "%Y/%m/%d %H:%M:%S")
        return moment.strftime(shape)

    def folder(self) -> str:
        person, project = self.person(), self.rng.choice(_PROJECTS)
        return self.one(
            f"/home/{person}/{project}",
            f"/Users/{person}/code/{project}",
            f"/builds/{self.number()}/{project}",
            f"C:\\Users\\{person}\\{project}",
            f"/tmp/{self.name()}-{self.token(8)}",  # noqa: S108
        )

    def file(self, suffix: str) -> str:
        """The path of a file as a compiler prints it: from the project's folder, or whole."""
        local = f"{self.rng.choice(_FOLDERS)}/{self.name()}{suffix}"
        whole = f"/home/{self.one('ada', 'ci')}/{self.one('shop', 'etl_jobs')}/{local}"
        return self.one(local, f"./{local}", whole)

    def path(self) -> str:
        folder = self.folder()
        gap = "\\" if "\\" in folder else "/"
        return gap.join((folder, self.rng.choice(_FOLDERS), self.name() + self.one(".py", ".json")))

    def url(self) -> str:
        place = f"{self.host()}:{self.port()}" if self.rng.random() < 0.3 else self.host()
        query = f"?q={self.token(6)}&page={self.number()}" if self.rng.random() < 0.3 else ""
        return f"{self.one('http', 'https')}://{place}/{self.word()}/{self.uuid()}{query}"

    # ---- shapes that the first families lack ------------------------------------------------

    def value(self) -> str:
        """What was given, in every shape that values are printed in."""
        return self.rng.choice(
            [
                *(
                    self.said(),
                    self.anywhere(),
                    self.url(),
                    self.sha(),
                    self.secret(),
                    self.email(),
                ),
                *(self.stamp(), self.took(), self.size(), self.version(), self.sentence()),
                *(self.listed(), self.mapping(), self.object_at(), f"-{self.number()}.5", "None"),
            ]
        )

    def sentence(self) -> str:
        return self.one(
            f"the {self.word()} isn't {self.number()}",
            f'she said "no {self.word()}", twice',
            f"{self.word().title()}: (see {self.name()}) [draft]",
            f"«{self.word()}» – déjà vu, 100 %",
            f"{self.word()}\t{self.word()}",
            "日本語 テスト",
            f"it's `{self.name()}`",
        )

    def listed(self) -> str:
        return repr([self.one(self.word(), str(self.number())) for _ in range(self.number(0, 4))])

    def mapping(self) -> str:
        return repr({self.name(): self.one(self.word(), self.said()) for _ in range(2)})

    def object_at(self) -> str:
        return f"<{self.word()}.{self.kind()} object at {self.address()}>"

    def sha(self) -> str:
        return self.hexadecimal(self.rng.choice((7, 12, 32, 40, 64)))

    def secret(self) -> str:
        text = base64.b64encode(self.rng.randbytes(self.rng.choice((12, 20, 33)))).decode()
        return self.one("", "", "sk-", "Bearer ") + text

    def version(self) -> str:
        number = f"{self.number(0, 20)}.{self.number(0, 40)}.{self.number(0, 9)}"
        return self.one("", "v") + number + self.one("", "", "rc1", "-beta.2", "+cu121")

    def stamp(self) -> str:
        """A time as logs print it."""
        moment = datetime(2023, 1, 1, tzinfo=UTC) + timedelta(seconds=self.rng.randrange(10**8))
        shapes = ("%Y-%m-%dT%H:%M:%S.%f+02:00", "%b %d %H:%M:%S", "%a, %d %b %Y %H:%M:%S GMT")
        return self.one(self.time(), moment.isoformat(), *map(moment.strftime, shapes))

    def took(self) -> str:
        """A duration, with its unit."""
        whole, part = self.number(0, 900), self.number(0, 99)
        return self.one(
            *(f"{whole}s", f"{whole}.{part}s", f"{whole} ms", f"{whole}.{part} seconds"),
            *(f"{whole} seconds", f"{whole}m{part}s", f"0:{part:02}:12.345", f"{whole} minutes"),
        )

    def size(self) -> str:
        unit = self.one("B", "KB", "MB", "MiB", "GB", "bytes")
        return f"{self.number()}{self.one('', '.3', '.25')}{self.one('', ' ')}{unit}"

    def thread(self) -> str:
        return self.one("main", "MainThread", f"Thread-{self.number()}", f"worker-{self.number()}")

    def container(self) -> str:
        return f"{self.slug()}-{self.one('web', 'db', 'worker')}-{self.number(0, 20)}"

    def ipv6(self) -> str:
        return self.one("::1", f"fe80::{self.hexadecimal(4)}:{self.hexadecimal(4)}", "2001:db8::7")

    def anywhere(self) -> str:
        """A path of any system: whole, relative, in the home, shared or of a drive."""
        name = self.name() + self.one(".py", ".csv", ".tar.gz", "")
        return self.one(
            self.path(),
            f"{self.rng.choice(_FOLDERS)}/{name}",
            f"../{self.word()}/{name}",
            f"~/{self.slug()}/{name}",
            f"D:/{self.word()}/My Files/{name}",
            f"\\\\{self.slug()}\\share\\{name}",
            f"/var/lib/{self.slug()}/{self.number()}/{name}",
            f"/data/{self.person()}/{self.sha()}/{name}",
        )

    def quoted(self) -> str:
        """A value in quotes of any kind."""
        value = self.value()
        return self.one(repr(value), json.dumps(value, ensure_ascii=False))
