"""Exceptions as Python and its packages raise them, with accidental parts."""

from __future__ import annotations

import json
import re
import ssl
import subprocess

from benchmarks.failure_slots import Slots


def raised(name: str, message: str) -> BaseException:
    """An exception of a package that need not be installed."""
    module, _, last = name.rpartition(".")
    kind: type[Exception] = type(last, (Exception,), {"__module__": module})
    return kind(message)


def json_error(s: Slots) -> BaseException:
    try:
        json.loads(" " * s.number(0, 9) + s.one("{'a'", "{a", "{x: 1"))
    except json.JSONDecodeError as error:
        return error
    raise AssertionError


def regex_error(s: Slots) -> BaseException:
    try:
        re.compile(s.name() + "(" + s.word())
    except re.error as error:
        return error
    raise AssertionError


def syntax_error(s: Slots) -> BaseException:
    place = (s.path(), s.number(1), s.number(1, 80), f"{s.name()} = = 1\n")
    return SyntaxError("invalid syntax", place)


def validation(s: Slots) -> BaseException:
    field, given = s.name(), s.said()
    return raised(
        "pydantic_core._pydantic_core.ValidationError",
        f"1 validation error for {s.kind()}\n{field}\n  Input should be a valid integer, unable to "
        f"parse string as an integer [type=int_parsing, input_value={given!r}, input_type=str]\n"
        f"    For further information visit https://errors.pydantic.dev/2.{s.number(1, 14)}/v/"
        "int_parsing",
    )


def status(s: Slots, said: str) -> BaseException:
    number = said.partition(" ")[0]
    kind = "Client" if number < "500" else "Server"
    return raised(
        "httpx.HTTPStatusError",
        f"{kind} error '{said}' for url '{s.url()}'\nFor more information check: "
        f"https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/{number}",
    )


def rate_limit(s: Slots) -> BaseException:
    body = {
        "error": {
            "message": f"Rate limit reached for gpt-4o in organization org-{s.token()} on tokens "
            f"per min (TPM): Limit {s.number()}, Used {s.number()}, Requested {s.number()}. Please "
            f"try again in {s.number(1, 900)}ms.",
            "type": "tokens",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    }
    return raised("openai.RateLimitError", f"Error code: 429 - {body}")


def context_length(s: Slots) -> BaseException:
    body = {
        "error": {
            "message": f"This model's maximum context length is {s.number()} tokens. However, your "
            f"messages resulted in {s.number()} tokens.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }
    return raised("openai.BadRequestError", f"Error code: 400 - {body}")


def unresolved(s: Slots) -> BaseException:
    host = s.host()
    return raised(
        "requests.exceptions.ConnectionError",
        f"HTTPSConnectionPool(host='{host}', port={s.port()}): Max retries exceeded with url: "
        f'/{s.word()}/{s.number()} (Caused by NameResolutionError("<urllib3.connection.'
        f"HTTPSConnection object at {s.address()}>: Failed to resolve '{host}' ([Errno -2] Name or "
        'service not known)"))',
    )


def foreign_key(s: Slots) -> BaseException:
    table = s.name()
    return raised(
        "sqlalchemy.exc.IntegrityError",
        "(psycopg.errors.ForeignKeyViolation) insert or update on table "  # noqa: S608 - it is said
        f'"{table}" violates foreign key constraint "{table}_{s.word()}_fkey"\n'
        f'DETAIL:  Key ({s.name()})=({s.number()}) is not present in table "{s.name()}".\n'
        f"[SQL: UPDATE {table} SET owner = %(owner)s, {s.name()} = %(name)s]\n"
        f"[parameters: {{'id': {s.number()}, 'name': {s.said()!r}}}]\n"
        "(Background on this error at: https://sqlalche.me/e/20/gkpj)",
    )


def unique_key(s: Slots) -> BaseException:
    return raised(
        "psycopg.errors.UniqueViolation",
        f'duplicate key value violates unique constraint "{s.name()}_key"\n'
        f"DETAIL:  Key ({s.name()})=({s.email()}) already exists.",
    )


def near_word(s: Slots) -> BaseException:
    word = s.word().upper()
    return raised(
        "psycopg.errors.SyntaxError",
        f'syntax error at or near "{word}"\nLINE {s.number(1, 90)}: SELECT * FORM {word}\n'
        "                 ^",
    )


def login(s: Slots) -> BaseException:
    return raised(
        "psycopg.OperationalError",
        f'connection failed: connection to server at "{s.ip()}", port {s.port()} failed: FATAL:  '
        f'password authentication failed for user "{s.person()}"',
    )


def compared(s: Slots) -> BaseException:
    left, right = s.one(str(s.number()), repr(s.said())), s.one(str(s.number()), repr(s.said()))
    return AssertionError(
        f"assert {left} == {right}\n +  where {left} = {s.name()}({s.said()!r})\n  \n"
        f"  - {right}\n  + {left}"
    )


def not_equal(s: Slots) -> BaseException:
    left, right = s.one(str(s.number()), repr(s.said())), s.one(str(s.number()), repr(s.said()))
    return AssertionError(f"{left} != {right}" + s.one("", f" : {s.said()}"))


def cuda(s: Slots) -> BaseException:
    return raised(
        "torch.OutOfMemoryError",
        f"CUDA out of memory. Tried to allocate {s.number(1, 80)}.00 {s.one('MiB', 'GiB')}. GPU "
        f"{s.number(0, 7)} has a total capacity of {s.number(8, 80)}.{s.number(10, 99)} GiB of "
        f"which {s.number(1, 900)}.{s.number(10, 99)} MiB is free.",
    )


def exit_status(s: Slots) -> BaseException:
    return subprocess.CalledProcessError(128, ["git", s.one("pull", "fetch"), s.path()])


def decode(s: Slots) -> BaseException:
    start = s.number()
    return UnicodeDecodeError(
        "utf-8", bytes([s.rng.randint(128, 193)]), start, start + 1, "invalid start byte"
    )


def argument(s: Slots) -> BaseException:
    owner = s.one(s.name(), f"{s.kind()}.__init__", f"{s.kind()}.{s.name()}")
    return TypeError(f"{owner}() missing 1 required positional argument: '{s.name()}'")


def tls(s: Slots) -> BaseException:
    return ssl.SSLCertVerificationError(
        1,
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer "
        f"certificate (_ssl.c:{s.number(900, 1100)})",
    )


def index_missing(s: Slots) -> BaseException:
    return KeyError(f"{[s.name() for _ in range(s.rng.randint(1, 4))]} not in index")


def redis(s: Slots) -> BaseException:
    return raised(
        "redis.exceptions.ConnectionError",
        f"Error 111 connecting to {s.host()}:{s.port()}. Connection refused.",
    )


def timed_out(s: Slots) -> BaseException:
    return subprocess.TimeoutExpired([s.one("pytest", "git"), s.path()], s.number(1, 600))


def mongo(s: Slots) -> BaseException:
    place = f"{s.host()}:{s.port()}"
    return raised(
        "pymongo.errors.ServerSelectionTimeoutError",
        f"{place}: [Errno 111] Connection refused (configured timeouts: connectTimeoutMS: "
        f"{s.number()}.0ms), Timeout: {s.number(1, 90)}s, Topology Description: "
        f"<TopologyDescription id: {s.hexadecimal(24)}, topology_type: Unknown, servers: "
        f"[<ServerDescription ('{place}') server_type: Unknown, rtt: None>]>",
    )


def cloud_role(s: Slots) -> BaseException:
    arn = f"arn:aws:sts::{s.number()}:assumed-role/{s.slug()}/{s.person()}"
    return raised(
        "botocore.exceptions.ClientError",
        "An error occurred (AccessDenied) when calling the GetObject operation: User: "
        f"{arn} is not authorized to perform: s3:GetObject on resource: "
        f'"arn:aws:s3:::{s.slug()}/{s.name()}" because no identity-based policy allows the action',
    )


def no_index(s: Slots) -> BaseException:
    index = f"{s.slug()}-{s.number(2000, 2030)}.{s.number(1, 12)}"
    return raised(
        "elasticsearch.NotFoundError",
        f"NotFoundError(404, 'index_not_found_exception', 'no such index [{index}]', {index}, "
        "index_or_alias)",
    )
