"""Exceptions of Python and its packages, with what is accidental in every shape it is met in."""

from __future__ import annotations

from typing import Final

from benchmarks.failure_exceptions import raised
from benchmarks.failure_slots import Slots

_TYPES: Final = ("int", "str", "NoneType", "list", "dict", "float", "Decimal", "datetime.date")


def operands(s: Slots) -> BaseException:
    return TypeError(
        f"unsupported operand type(s) for {s.one('+', '-', '*')}: '{s.one(*_TYPES)}' and "
        f"'{s.one(*_TYPES)}'"
    )


def to_float(s: Slots) -> BaseException:
    return ValueError(f"could not convert string to float: {s.value()!r}")


def unpacked(s: Slots) -> BaseException:
    return ValueError(f"too many values to unpack (expected {s.number(1, 9)})")


def no_member(s: Slots) -> BaseException:
    return ValueError(f"{s.value()!r} is not a valid {s.kind()}")


def date_format(s: Slots) -> BaseException:
    shape = s.one("%Y-%m-%d", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S%z", "%H:%M")
    return ValueError(f"time data {s.value()!r} does not match format {shape!r}")


def unserialisable(s: Slots) -> BaseException:
    kind = s.one("datetime", "Decimal", "set", "UUID", "ndarray", s.kind())
    return TypeError(f"Object of type {kind} is not JSON serializable")


def unregistered(s: Slots) -> BaseException:
    return RuntimeError(f"{s.object_at()} is not registered with {s.object_at()}")


def read_timeout(s: Slots) -> BaseException:
    return raised(
        "requests.exceptions.ReadTimeout",
        f"HTTPSConnectionPool(host='{s.host()}', port={s.port()}): Read timed out. "
        f"(read timeout={s.one('', '0.')}{s.number(1, 900)})",
    )


def wrong_key(s: Slots) -> BaseException:
    body = {
        "error": {
            "message": f"Incorrect API key provided: sk-{s.token(4)}****{s.token(4)}. You can find "
            f"your API key at {s.url()}.",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_api_key",
        }
    }
    return raised("openai.AuthenticationError", f"Error code: 401 - {body}")


def overloaded(s: Slots) -> BaseException:
    body = {
        "type": "error",
        "error": {"details": None, "type": "overloaded_error", "message": "Overloaded"},
        "request_id": f"req_{s.token()}",
    }
    return raised("anthropic.APIStatusError", f"Error code: 529 - {body}")


def no_relation(s: Slots) -> BaseException:
    table = s.name()
    return raised(
        "psycopg.errors.UndefinedTable",
        f'relation "{table}" does not exist\nLINE '  # noqa: S608 - it is said
        f"{s.number(1, 90)}: SELECT {s.name()} FROM "
        f"{table} WHERE id = {s.quoted()}\n{' ' * s.rng.randint(8, 40)}^",
    )


def deadlock(s: Slots) -> BaseException:
    one, other = s.number(), s.number()
    return raised(
        "psycopg.errors.DeadlockDetected",
        f"deadlock detected\nDETAIL:  Process {one} waits for ShareLock on transaction "
        f"{s.number()}; blocked by process {other}.\nProcess {other} waits for ShareLock on "
        f"transaction {s.number()}; blocked by process {one}.\nHINT:  See server log for query "
        f'details.\nCONTEXT:  while updating tuple ({s.number()},{s.number()}) in relation "'
        f'{s.name()}"',
    )


def sqlite_unique(s: Slots) -> BaseException:
    table = s.name()
    columns = ", ".join(f"{table}.{s.name()}" for _ in range(s.rng.randint(1, 3)))
    return raised("sqlite3.IntegrityError", f"UNIQUE constraint failed: {columns}")


def too_long(s: Slots) -> BaseException:
    return raised(
        "psycopg.errors.StringDataRightTruncation",
        f"value too long for type character varying({s.number(1, 4000)})",
    )


def not_null(s: Slots) -> BaseException:
    row = ", ".join(s.one("null", s.word(), s.stamp(), str(s.number())) for _ in range(4))
    return raised(
        "psycopg.errors.NotNullViolation",
        f'null value in column "{s.name()}" of relation "{s.name()}" violates not-null constraint\n'
        f"DETAIL:  Failing row contains ({row}).",
    )


def other_loop(s: Slots) -> BaseException:
    return RuntimeError(
        f"Task <Task pending name='Task-{s.number()}' coro=<{s.name()}() running at {s.anywhere()}:"
        f"{s.number(1)}> cb=[_run_until_complete_cb() at {s.path()}:{s.number(1)}]> got Future "
        "<Future pending> attached to a different loop"
    )


def too_large(s: Slots) -> BaseException:
    return raised(
        f"{s.word()}.uploads.UploadTooLargeError",
        f"{s.anywhere()} is {s.size()}, the limit is {s.size()}",
    )


def broadcast(s: Slots) -> BaseException:
    left = ",".join(str(s.number(1)) for _ in range(s.rng.randint(1, 3)))
    return ValueError(
        f"operands could not be broadcast together with shapes ({left},) ({s.number()},"
        f"{s.number()}) "
    )


def shapes(s: Slots) -> BaseException:
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({s.number(1)}x{s.number(1)} and "
        f"{s.number(1)}x{s.number(1)})"
    )


def remote_call(s: Slots) -> BaseException:
    place = s.one(f"ipv4:{s.ip()}:{s.port()}", f"ipv6:%5B{s.ipv6()}%5D:{s.port()}")
    said = (
        f"failed to connect to all addresses; last error: UNKNOWN: {place}: Failed to connect to "
        "remote host: Connection refused"
    )
    return raised(
        "grpc._channel._InactiveRpcError",
        "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
        f'\tdetails = "{said}"\n\tdebug_error_string = "UNKNOWN:Error received from peer '
        f'{{created_time:"{s.time()}", grpc_status:14, grpc_message:"{said}"}}"\n>',
    )


def required(s: Slots) -> BaseException:
    field = s.name()
    return raised(
        "jsonschema.exceptions.ValidationError",
        f"'{field}' is a required property\n\nFailed validating 'required' in schema"
        f"['properties']['{s.name()}']:\n    {{'properties': {{'{field}': {{'type': 'string'}}}},\n"
        f"     'required': ['{field}', '{s.name()}']}}\n\nOn instance['{s.name()}']:\n"
        f"    {s.mapping()}",
    )


def odd_key(s: Slots) -> BaseException:
    key = s.one(repr((s.name(), s.number())), str(s.number()), s.stamp(), repr(s.value()))
    return raised("cachetools.MissingKeyError", f"key {key} not in cache")


def no_order(s: Slots) -> BaseException:
    which = s.one(s.uuid(), str(s.number()), s.token(12), f"ORD-{s.number()}", s.sha())
    return raised(
        f"{s.word()}.errors.OrderNotFoundError",
        f"order {which} not found for customer {s.quoted()} (trace_id={s.hexadecimal(32)})",
    )


def bad_token(s: Slots) -> BaseException:
    return raised(
        "jwt.exceptions.InvalidTokenError",
        f"Invalid token {s.secret()}: signed at {s.stamp()}, expired {s.took()} ago",
    )


def undefined(s: Slots) -> BaseException:
    return raised("jinja2.exceptions.UndefinedError", f"'{s.name()}' is undefined")


def incompatible(s: Slots) -> BaseException:
    return ImportError(
        f"{s.slug()} {s.version()} requires {s.slug()}>={s.version()}, but you have {s.slug()} "
        f"{s.version()}"
    )


def contained(s: Slots) -> BaseException:
    left, right = s.value(), s.listed()
    return AssertionError(
        f"assert {left!r} in {right}\n +  where {right} = {s.name()}({s.number()})\n"
        f" +    where {s.name()} = {s.object_at()}.{s.name()}"
    )


def answered(s: Slots) -> BaseException:
    got = s.one("500", "404", "302")
    return AssertionError(f"assert {got} == 200\n +  where {got} = <Response [{got}]>.status_code")


def untruthful(s: Slots) -> BaseException:
    call = s.one(f"{s.name()}({s.value()!r})", f"{s.kind()}({s.name()}={s.number()}).{s.name()}()")
    return AssertionError(f"assert not True\n +  where True = {call}")


def not_raised(s: Slots) -> BaseException:
    kind = s.one("ValueError", "KeyError", f"{s.word()}.errors.{s.kind()}Error")
    return raised("Failed", f"DID NOT RAISE <class '{kind}'>")


def bucket_key(_: Slots) -> BaseException:
    return raised(
        "botocore.errorfactory.NoSuchKey",
        "An error occurred (NoSuchKey) when calling the GetObject operation: The specified key "
        "does not exist.",
    )


def locked(s: Slots) -> BaseException:
    return raised(
        "filelock.Timeout",
        f"The file lock '{s.anywhere()}' could not be acquired after {s.took()}.",
    )
