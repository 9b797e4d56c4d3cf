"""What identifies somebody is found by its form, and labels in every spelling; nothing else is."""

from __future__ import annotations

import pytest

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.learning.generalise import SECRET, find_identifying

PRIVATE = ["billing-service", "acme", "coder"]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("In billing-service, run migrations first", "billing-service"),
        ("The Billing Service is slow", "Billing Service"),
        ("acme's own queue", "acme"),
        ("import billing_service.auth", "billing_service"),
        ("getBillingServiceClient()", "BillingService"),
        ("getAcmeClient()", "Acme"),
        ("set BILLING_SERVICE_URL", "BILLING_SERVICE"),
        ("Ask `coder`", "coder"),
    ],
)
def test_labels_are_found_in_every_spelling(said: str, found: str) -> None:
    assert find_identifying(said, PRIVATE) == (found,)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("/srv/alice/api/auth.py:42 fails", "/srv/alice/api/auth.py"),
        ("see src/ledger/handlers.py.", "src/ledger/handlers.py."),
        ("~/notes", "~/notes"),
        ("../shared", "../shared"),
        (r"in C:\Users\bob\x.txt", r"C:\Users\bob\x.txt"),
        (r"or \\files\bob", r"\\files\bob"),
        ("open('/home/ada lovelace/my notes/x.md')", "/home/ada lovelace/my notes/x.md"),
        ("cat .github/workflows/ci.yml", ".github/workflows/ci.yml"),
        ("https://wiki.example.io/x?y=1 (old)", "https://wiki.example.io/x?y=1"),
        ("postgresql://bob:pw@db/main", "postgresql://bob:pw@db/main"),
        ("ask bob@example.com", "bob@example.com"),
        ("ask root@prod-db-1", "root@prod-db-1"),
        ("db.example.com:5432", "db.example.com:5432"),
        ("prod-db.internal", "prod-db.internal"),
        ("redis-cache:6379", "redis-cache:6379"),
        ("10.0.0.12:5432: no route", "10.0.0.12:5432"),
        ("fe80::1", "fe80::1"),
        ("3f2a9c1b-0000-4000-8000-123456789abc", "3f2a9c1b-0000-4000-8000-123456789abc"),
        ("commit 3f2a9c1b7d", "3f2a9c1b7d"),
        ("at 0x7f3a2b1c", "0x7f3a2b1c"),
        ("order 48213", "48213"),
        ("call +351 912 345 678", "+351 912 345 678"),
        ("card 4111 1111-1111 1111", "4111 1111-1111 1111"),
        ("fixed by ABC-123", "ABC-123"),
        ("password = 'hunter2'", SECRET),
        ("token=abc123def", SECRET),
        ("Authorization: Bearer abc.def123456789", SECRET),
        ("sk-proj-abcdefghij1234567890", SECRET),
        ("the key a8Kd92mXq0ZpL3vT7w", SECRET),
    ],
)
def test_what_identifies_by_its_form_is_found_and_a_secret_is_not_told(
    said: str, found: str
) -> None:
    assert find_identifying(said, PRIVATE) == (found,)


@pytest.mark.parametrize(
    "said",
    [
        "Use secrets.compare_digest, not ==",
        "Pydantic v2 renamed @validator; use model_validator(mode='after') on Python 3.11",
        "Fixed in 0.115.2 and v1.2.3.4; HTTP/1.1 over TCP/IP, 24/7, n/a, and/or, 2023/05/08",
        "try/except/finally; read/write; client/server; application/json",
        "10000 rows, 65536 bytes, 45000ms, 12.5 %, 3.14159265, 10,000 and 10_000, 10 000 000",
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
def test_what_was_learned_identifies_nobody(said: str) -> None:
    assert find_identifying(said, PRIVATE) == ()


def test_labels_that_name_nobody_are_not_looked_for() -> None:
    assert find_identifying("a - b", ["a", "-", "", " ", "--"]) == ()


def test_a_string_is_not_a_list_of_names() -> None:
    with pytest.raises(InvalidTypeError, match="list of names"):
        find_identifying("acme", "acme")
