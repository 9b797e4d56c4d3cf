"""What identifies a project is left out of what everybody may read; what was learned stays."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.learn.generalise import abstracted, leaks

PRIVATE = ["billing-service", "acme", "coder"]

SNIPPETS = [
    *("acme", "Acme", "ACME", "billing-service", "billing_service", "BillingService", "billing"),
    *("service", "the", "project", "the project", "path", "id", "name", "secret", "a1", "42"),
    *("/home/alice/x.py", "src/a.py", "./", "../", "~", "/", "//", "\\", "C:\\", "and/or", ".py"),
    *("https://", "acme.com", ".com", "db-1.local", "bob@", "@", "10.0.0.1", "fe80::1", "::", ":"),
    *("3f2a9c1b", "48213", "12345678", "0x", "ABC-123", "ABC", "CVE-2021-", "a8Kd92mXq0ZpL3vT7w"),
    *("password=", "token: '", "'", '"', "Bearer ", "sk-", "eyJ", "-----BEGIN KEY-----"),
    *(
        "<path>",
        "<id>",
        "<name>",
        "<secret>",
        "<",
        ">",
        " ",
        "\n",
        ".",
        ",",
        "-",
        "_",
        "=",
        "(",
        "é",
    ),
]
texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(SNIPPETS), max_size=12).map("".join),
    st.lists(st.sampled_from(SNIPPETS), max_size=8).map(" ".join),
    st.text(alphabet="aB1.-/\\:@_<> =\"'f", max_size=40),
)
names = st.lists(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=12)), max_size=4)


@given(texts, names)
@example("the projectacme", ["acme", "the", "project"])
@example("<path>/x/y<id>", ["path", "id", "<path>"])
@example("thé acme acme-12345 acme/acme.py", ["acme-12345", "acme"])
def test_nothing_leaks_from_what_was_abstracted(text: str, private: list[str]) -> None:
    assert leaks(abstracted(text, private), private) == ()


@given(texts, names)
@example("the acme acme project", ["acme", "project"])
def test_what_was_abstracted_stays_the_same(text: str, private: list[str]) -> None:
    once = abstracted(text, private)
    assert abstracted(once, private) == once


@given(texts, names)
def test_a_text_that_leaks_nothing_is_left_as_it_is(text: str, private: list[str]) -> None:
    assert (leaks(text, private) == ()) == (abstracted(text, private) == text)


@given(texts, names)
def test_the_order_of_the_names_does_not_matter(text: str, private: list[str]) -> None:
    assert abstracted(text, private) == abstracted(text, private[::-1])


@pytest.mark.parametrize(
    ("said", "general"),
    [
        ("In billing-service, run migrations first", "In the project, run migrations first"),
        ("The Billing Service is slow", "the project is slow"),
        ("acme's own queue", "the project's own queue"),
        ("the acme project and our ACME repo", "the project and the project"),
        ("import billing_service.auth", "import <name>.auth"),
        ("BillingServiceClient, getAcmeClient()", "<name>Client, get<name>Client()"),
        ("set BILLING_SERVICE_URL", "set <name>_URL"),
        ("Ask `coder`", "Ask `the project`"),
    ],
)
def test_private_names_are_left_out_in_every_spelling(said: str, general: str) -> None:
    assert abstracted(said, PRIVATE) == general


@pytest.mark.parametrize(
    ("said", "general"),
    [
        ("/home/alice/work/billing-service/app/auth.py:42 fails", "<path>:42 fails"),
        ("see src/billing/handlers.py.", "see <path>."),
        ("~/notes, ../shared and ./run.sh", "<path>, <path> and <path>"),
        (r"in C:\Users\bob\x.txt or \\files\bob", "in <path> or <path>"),
        ("open('/home/ada lovelace/my notes/x.md')", "open('<path>')"),
        ("cat .github/workflows/ci.yml", "cat <path>"),
        ("gcc -I/home/alice/include", "gcc <path>"),
        ("https://wiki.acme.io/x?y=1 (old)", "<url> (old)"),
        ("postgresql://bob:pw@db/main", "<url>"),
        ("ask bob@acme.com or root@prod-db-1", "ask <email> or <host>"),
        ("db.acme.com:5432, prod-db.internal, redis-cache:6379", "<host>, <host>, <host>"),
        ("10.0.0.12:5432 and fe80::1: no route", "<host> and <host>: no route"),
        ("3f2a9c1b-0000-4000-8000-123456789abc", "<id>"),
        ("commit 3f2a9c1b7d, run_3f2a9c1b at 0x7f3a2b1c", "commit <id>, run_<id> at <id>"),
        ("order 48213 of user12345", "order <id> of user<id>"),
        ("ABC-123 on feature/ABC-7-login", "<id> on feature/<id>-login"),
        ("password = 'hunter2', token=abc123def", "password = '<secret>', token=<secret>"),
        ("Authorization: Bearer abc.def123456789", "Authorization: Bearer <secret>"),
        ("sk-proj-abcdefghij1234567890", "<secret>"),
        ("the key a8Kd92mXq0ZpL3vT7w", "the key <secret>"),
    ],
)
def test_what_identifies_by_its_form_is_left_out(said: str, general: str) -> None:
    assert abstracted(said, PRIVATE) == general
    assert leaks(said, PRIVATE)


@pytest.mark.parametrize(
    "said",
    [
        "Use secrets.compare_digest, not ==",
        "Pydantic v2 renamed @validator; use model_validator(mode='after') on Python 3.11",
        "Fixed in 0.115.2 and v1.2.3.4; HTTP/1.1 over TCP/IP, 24/7, n/a, and/or, 2023/05/08",
        "try/except/finally; read/write; client/server; application/json",
        "10000 rows, 65536 bytes, 45000ms, 12.5 %, 3.14159265, 10,000 and 10_000",
        "At 12:30:45 on 2023-05-08T12:30:45.123456Z",
        "UTF-8, SHA-256, ISO-8601, CVE-2021-44228, ORA-00942, SQLSTATE 40001, E0308, x86_64",
        "std::vector, List<String>, </div>, x[::2], a1[100::200], r'\\d+', f(a)/b",
        "self.logger.info, threading.local, self.net, ASP.NET, os.path.join, torch.utils.data",
        "localhost:5432, 127.0.0.1 and 0.0.0.0",
        "test_a_lesson_is_found_by_its_signature, getUserByIdOrThrow, Base64UrlSafeEncoderV2",
        "password: str = Field(); token = request.headers.get('x')",
        "A code review is no acmeist's billing, and the coders' services are not named",
    ],
)
def test_what_was_learned_stays(said: str) -> None:
    assert leaks(said, PRIVATE) == ()


def test_names_that_name_nobody_are_not_looked_for() -> None:
    assert leaks("a - b", ["a", "-", "", " ", "--"]) == ()


def test_a_string_is_not_a_list_of_names() -> None:
    with pytest.raises(InvalidTypeError, match="list of names"):
        abstracted("acme", "acme")


# Were a pattern not linear, these would not take a tenth of a second but many seconds each.
