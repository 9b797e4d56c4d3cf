"""What is accidental about a failure: seeded names, numbers, places and times."""

from __future__ import annotations

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
