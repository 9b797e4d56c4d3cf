"""Failure signatures: what stays, what goes, and that it is the same in every form."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.learning.signature import LONGEST, Signature, signature

FULL = os.environ.get("LANGMEM_TIERS_PROOF") == "full"
COMMON = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
PIECES = (
    *("Error: ", "KeyError", "ValueError: ", "Traceback (most recent call last):\n", "\n", "E   "),
    *('  File "a.py", line 3\n', "assert ", " == ", "'", '"', "`", "<value>", "<n>", "<path>"),
    *(": ", "(", ")", "[", "]", "{", "}", "code ", "429", "exit code 1", "a.b", "foo()", "panic: "),
    *("@", "FAILED a::b - X: ", "npm ERR! code E404", "/", "\\", "0x1f", "1.2.3", "10:20"),
    *("2024-01-01", "E0308: ", "ENOENT: ", "command not found", "[Errno 2] ", "ToolException('"),
    *("')", "\\n", "psycopg.errors.Foo: ", "(a.Foo) ", "| ", "+-+---- 1 ----", "\x00", "\x1b[31m"),
    *("\ud800", "_", "1 validation error for A\n", "thread 'a' panicked at ", " -> ", "12", "é"),
    *("Did you mean",),
)
TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14).map("".join),
)


def error_of(text: str, *, tool: str | None = None) -> str:
    return str(signature(text, tool=tool))


# ---- one failure, many forms ----------------------------------------------------------------


def raised_by(code: str) -> BaseException:
    try:
        exec(compile(code, "somewhere/x.py", "exec"), {"asyncio": asyncio, "json": json, "re": re})  # noqa: S102
    except BaseException as error:  # noqa: BLE001 - whatever the code raises
        return error
    raise AssertionError(code)


@pytest.mark.parametrize(
    "code",
    [
        *("{}['a']", "None.x", "int('x')", "[][1]", "1 / 0", "import nowhere", "nobody", "x = = 1"),
        *("open('/nowhere/a')", "b'\\xff'.decode()", "'é'.encode('ascii')", "json.loads('{')"),
        *(
            "re.compile('a(')",
            "(lambda x: 0)()",
            "a, b = [1]",
            "assert 1 == 2",
            "raise TimeoutError",
        ),
        *("raise OSError(28, 'No space left on device')", "raise ValueError", "asyncio.run(1)"),
        "raise PermissionError(13, 'Permission denied', '/a', None, '/b')",
        "import subprocess; subprocess.run(['false'], check=True)",
        "import subprocess; subprocess.run(['sleep', '9'], timeout=0.001)",
    ],
)
def test_an_exception_its_traceback_and_its_tool_message_have_one_signature(code: str) -> None:
    error = raised_by(code)
    wanted = signature(error)

    assert wanted.error == type(error).__name__
    assert signature("".join(traceback.format_exception(error))) == wanted
    assert signature(f"Error: {error!r}\n Please fix your mistakes.") == wanted
    assert signature(f"{type(error).__qualname__}: {error}".removesuffix(": ")) == wanted


FAILING = """
import unittest


class TestIt(unittest.TestCase):
    def test_it(self):
        open("/nowhere/at/all")


if __name__ == "__main__":
    unittest.main()
"""


def test_a_failing_test_has_the_signature_of_its_exception_whatever_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    file = tmp_path / "test_it.py"
    file.write_text(FAILING, encoding="utf-8")
    for runner in ([], ["-m", "pytest", "-c", "/dev/null", "--tb=long"]):
        done = subprocess.run(
            [sys.executable, *runner, file], capture_output=True, text=True, check=False
        )
        found = signature(done.stdout + done.stderr)
        assert str(found) == "FileNotFoundError: [Errno 2] No such file or directory", done


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("app.ts(3,5): error TS2304: Cannot find name 'x'.", "TS2304: Cannot find name <value>"),
        ("error[E0308]: mismatched types\n --> a.rs:1:2", "E0308: mismatched types"),
        ("panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:",
         "panic: runtime error: index out of range <value> with length <value>"),
        ("thread 'main' panicked at src/a.rs:4:5:\nindex out of bounds: the len is 3",
         "panic: index out of bounds: the len is <value>"),
        ("/x/a.js:3\n  throw e;\n  ^\n\nTypeError: a.b is not a function\n    at f (/x/a.js:1:2)",
         "TypeError: <value> is not a function"),
        ('Exception in thread "main" java.io.IOException: Stream closed\n\tat a.B.c(B.java:3)',
         "IOException: Stream closed"),
        ("bash: line 3: frobnicate: command not found", "error: command not found"),
        ("sh: 1: gofmt: not found", "error: not found"),
        ("npm ERR! code ENOENT\nnpm ERR! syscall open\nnpm ERR! ENOENT no such file, open '/x'",
         "ENOENT"),
        ('{"error": {"message": "No such model", "code": 404}}', "error: No such model"),
        ("Error: ToolException('the index is locked')\n Please fix your mistakes.",
         "error: the index is locked"),
        ("pydantic_core.ValidationError: 2 validation errors for A\nb\n  Field required [type=x]",
         "ValidationError: Field required"),
        ("", "error"),
        ("all went well", "error: all went well"),
    ],
)  # fmt: skip
def test_the_line_that_says_what_failed_is_found(text: str, wanted: str) -> None:
    assert error_of(text) == wanted


# ---- what was asserted ----------------------------------------------------------------------

PYTHON = """Traceback (most recent call last):
  File "/home/ada/{file}.py", line {line}, in <module>
    check({function})
  File "/home/ada/{file}.py", line {line}, in check
    assert candidate({given}) == {wanted}
AssertionError
"""
RUST = """thread 'main' panicked at src/main.rs:{line}:5:
assertion `left == right` failed
  left: {given}
 right: {wanted}
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (PYTHON.format(file="a", line=3, function="f", given="[3, 4]", wanted="'x'"),
         "check: candidate(<list>) == <str>"),
        (PYTHON.format(file="b", line=9, function="g", given="[[1], 7]", wanted="''"),
         "check: candidate(<list>) == <str>"),
        (PYTHON.format(file="a", line=3, function="f", given="-3", wanted="None"),
         "check: candidate(<int>) == None"),
        (RUST.format(line=4, given="Some(3)", wanted='"x"'), "Some(<int>) == <str>"),
        (RUST.format(line=8, given="Some(12)", wanted='"yz"'), "Some(<int>) == <str>"),
        (("=== FAILURES ===\n_____ TestCart.test_total[3-4] _____\n\n"
         ">   assert total(cart) == 3\nE   assert 4 == 3\n\ntest_cart.py:9: AssertionError"),
         "test test_total"),
        (("F\n======\nFAIL: test_total (test_cart.TestCart.test_total)\n------\n"
         'Traceback (most recent call last):\n  File "t.py", line 9, in test_total\n'
         "    self.assertEqual(total(), 3)\nAssertionError: 4 != 3\n"),
         "test test_total"),
        (("---- tests::total stdout ----\nthread 'tests::total' (7) panicked at src/lib.rs:9:5:\n"
         "assertion `left == right` failed\n  left: 4\n right: 3\n"), "test total"),
        ("--- FAIL: TestTotal (0.00s)\n    cart_test.go:9: got 4, want 3\nFAIL\n",
         "test TestTotal"),
        (("not ok 1 - adds up\n  ---\n  error: |-\n    Expected values to be strictly equal:\n"
         "  code: 'ERR_ASSERTION'\n  ...\n"), "test adds up"),
        (("  \u25cf cart \u203a adds up\n\n    expect(received).toBe(expected)\n\n"
         "    Expected: 3\n    Received: 4\n"), "test adds up"),
    ],
)  # fmt: skip
def test_an_assertion_is_signed_by_what_was_asserted(text: str, wanted: str) -> None:
    assert str(signature(text)) == f"AssertionError: {wanted}"
    assert not signature(text).plain_text


def test_an_assertion_that_says_something_or_fails_outside_a_test_is_signed_by_what_it_says() -> (
    None
):
    said = 'Traceback (most recent call last):\n  File "/a/mock.py", line 3, in assert_called\n'
    said += (
        "    raise AssertionError(msg)\nAssertionError: Expected 'pay' to have been called once."
    )
    assert signature(said).template == "Expected <value> to have been called once"
    setup = "=== ERRORS ===\n____ ERROR at setup of test_a ____\nE       fixture 'b' not found\n"
    assert signature(setup).template == "fixture <value> not found"


@pytest.mark.parametrize(
    "text",
    [
        "/a/b.js\n  3:1  error  'x' is undefined  no-undef\n\n\u2716 1 problem (1 error)",
        "\u25cf nginx.service - A web server\n   Active: failed\n bind() failed: Address in use",
        "\u25cf disk full on /dev/sda1",
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    assert '
        + "+".join("a" * 2_000)
        + "\nAssertionError",
    ],
)
def test_what_only_looks_like_a_test_is_read_like_any_text(text: str) -> None:
    assert "test " not in signature(text).template


def test_an_exception_is_signed_by_the_assertion_it_was_raised_by() -> None:
    with pytest.raises(AssertionError) as caught:
        assert len([1]) == 2
    told = signature("".join(traceback.format_exception(caught.value)))
    assert signature(caught.value) == told
    assert told.template.endswith("== <int>")


# ---- chains, groups and notes ---------------------------------------------------------------


def printed(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_of_chains_groups_and_several_one_counts_and_notes_do_not() -> None:
    chained = raised_by(
        "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e"
    )
    during = raised_by("try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('b')")
    for one in (chained, during, printed(chained)):
        assert str(signature(one)) == "ValueError: b"
    group = raised_by("raise ExceptionGroup('two', [KeyError('a'), OSError(28, 'full')])")
    assert str(signature(group)) == str(signature(printed(group))) == "KeyError: <value>"
    first, second = raised_by("{}['a']"), raised_by("1 / 0")
    assert signature(printed(first) + printed(second)) == signature(first)
    noted = TimeoutError()
    noted.add_note("while reading 12 rows")
    assert str(signature(noted)) == "TimeoutError"
    suggested = "AttributeError: 'A' object has no attribute 'nam'. Did you mean: 'name'?"
    assert error_of(suggested) == "AttributeError: <value> object has no attribute <value>"


def test_an_exception_that_cannot_be_printed_has_a_signature() -> None:
    class Broken(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ZeroDivisionError

    assert signature(Broken()).error == "Broken"


# ---- what stays and what goes ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HTTP 404", "HTTP 500"),
        ("Client error '404 Not Found' for url 'x'", "Client error '401 Unauthorized' for url 'x'"),
        ("Error code: 429 - {'error': {'code': 'rate_limit_exceeded'}}",
         "Error code: 429 - {'error': {'code': 'insufficient_quota'}}"),
        ("OSError: [Errno 13] Permission denied: 'a'", "OSError: [Errno 1] Permission denied: 'a'"),
        ("Process exited with code 137", "Process exited with code 1"),
        ("deadlock (SQLSTATE 40P01)", "deadlock (SQLSTATE 40001)"),
        ("error[E0308]: mismatched", "error[E0382]: mismatched"),
        ("a.ts(1,2): error TS2304: x", "a.ts(1,2): error TS2322: x"),
        ("ORA-00942: gone", "ORA-01017: gone"),
        ("(1062, 'Duplicate')", "(1045, 'Duplicate')"),
        ("AssertionError: assert 1 == 2", "AssertionError: assert 1 < 2"),
        ("KeyError: 'a'", "IndexError: 'a'"),
        ("curl: (6) failed", "curl: (7) failed"),
        ("the API returned 500", "the API returned 429"),
        ("500 Server Error: Internal Server Error for url: x",
         "502 Server Error: Bad Gateway for url: x"),
        ("An error occurred (403) when calling a", "An error occurred (404) when calling a"),
        ("request failed: Forbidden", "request failed: Unauthorized"),
        ("AssertionError: assert {'a': 1} == {'a': 2}",
         "AssertionError: assert {'a': 1} != {'a': 1}"),
        ("'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
         "'utf-8' codec can't decode byte 0xff in position 0: unexpected end of data"),
    ],
)  # fmt: skip
def test_codes_and_classes_tell_failures_apart(one: str, other: str) -> None:
    assert error_of(one) != error_of(other)


ACCIDENTS = st.one_of(
    st.uuids().map(str),
    st.ip_addresses(v=4).map(str),
    st.emails().filter(lambda one: not re.search(r"[^\w.@+-]", one)),
    st.datetimes().map(lambda one: one.isoformat(sep=" ")),
    st.datetimes().map(lambda one: one.isoformat()),
    st.integers(10_000).map(str),
    st.integers(10_000).map(hex),
    st.from_regex(r"/(home|Users|srv)/[a-z]{4,8}/[a-z_]{4,8}(/[a-z]{4,8}\.py)?", fullmatch=True),
    st.from_regex(r"C:\\Users\\[a-z]{4,8}\\[a-z]{4,8}\.py", fullmatch=True),
    st.from_regex(r"https?://[a-z]{4,8}\.[a-z]{4,8}\.com(:[1-9]\d{3})?/[a-z]{4,8}", fullmatch=True),
    st.from_regex(r"[a-z]{4,8}\.[a-z]{4,8}\.com:[1-9]\d{3}", fullmatch=True),
    st.from_regex(r"'[a-z ]{4,8}'|\"[a-z ]{4,8}\"|`[a-z]{4,8}`", fullmatch=True),
    st.from_regex(r"[a-z]{4,8}/[a-z]{4,8}\.py:[1-9]\d{1,3}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{40}", fullmatch=True).filter(lambda one: re.search(r"\d", one)),
)


@settings(COMMON, max_examples=500 if FULL else 100)
@given(accident=ACCIDENTS, form=st.sampled_from(["could not read {}", "lost {} while writing"]))
def test_no_path_name_number_address_or_time_survives(accident: str, form: str) -> None:
    for text in (form.format(accident), f"ValueError: {form.format(accident)}"):
        said = signature(text).template
        assert re.fullmatch(form.format(r"<\w+>"), said), said


VALUES = (
    *("12", "a1b2c3", "3f2a9c1b7d", "QmFzZTY0IHRva2Vu+Zg/AA==", "req_eKCBMkvdcSvUPNMe", "12.3MB"),
    *("/srv/a b/c.py", "C:\\Users\\a\\b.py", "\\\\files\\share\\a.txt", "../a/b.csv", "~/a/b"),
    *("https://a.b/c?d=1&e=2", "10.0.0.7:80", "2001:db8::7", "0x7f3a2b1c", "ada@example.com"),
    *("2024-01-02T03:04:05.123Z", "Jan  2 03:04:05", "Tue, 02 Jan 2024 03:04:05 GMT", "1h 3m"),
    *("v1.2.3-rc1", "2.1.0+cu121", "'it isn\\'t'", '"a \\"b\\" c"', "`a`", "«a b»"),
    *("\u2018a b\u2019", "['a', ['b']]", "{'a': {'b': 1}}", "<a.B object at 0x7f>", "<stdin>"),
    *("Decimal('1.5')", "sk-abcDEF", "Bearer abc.def", "datetime.date(2024, 1, 2)", "--some-flag"),
    *("[1, 2]",),
)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("form", ["lost {} while writing", "ValueError: cannot use {} here"])
def test_a_value_has_one_placeholder_whatever_its_shape(value: str, form: str) -> None:
    assert error_of(form.format(value)).endswith(form.partition(": ")[2].format("<value>"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("found 1 row", "found 3 row"),
        ("Tool 'search' timed out after 5s", "Tool 'fetch' timed out after 1 minute"),
        ("cannot read a_file of get_it()", "cannot read /b of x.y.setIt"),
        ("[2024-01-02 03:04:05] [12] [ERROR] disk lost", "Jan  2 03:04:05 web-1 app[9]: disk lost"),
        ('level=error ts=2024-01-02T03:04:05Z msg="disk lost"', "main: FATAL: disk lost"),
        ("tool call failed: KeyError: 'a'", "KeyError: 'b'"),
        ("DETAIL: slow\nerror: the disk is gone", "error: the disk is gone\nHINT: unknown"),
        ("error[E0001]: a\nerror: could not compile `b` due to 1 previous error",
         "error[E0001]: a\nerror: could not compile `c` due to 2 previous errors"),
        ("usage: error.py [-h]\nerror.py: error: argument --a: invalid choice: 'x' (choose from 1)",
         "usage: b.py [-c]\nb.py: error: argument --c: invalid choice: 'z' (choose from 'v', 2)"),
    ],
)  # fmt: skip
def test_what_is_accidental_by_its_form_goes(one: str, other: str) -> None:
    assert error_of(one) == error_of(other)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"error": {"code": "out_of_stock", "message": "3 left"}}', "error: OUT_OF_STOCK"),
        ('{"error": {"type": "bad_request", "message": "no text", "code": null}}',
         "error: BAD_REQUEST"),
        ("<html><head><title>502 Bad Gateway</title></head></html>", "error: 502 Bad Gateway"),
        ('<_Call of RPC that ended:\n status = StatusCode.UNAVAILABLE\n details = "no peer"\n>',
         "error: UNAVAILABLE"),
        ("ConnectionError: gone (Caused by NewConnectionError('a: [Errno 111] refused'))",
         "ConnectionError: gone (Caused by NewConnectionError<value>)"),
        ("a.rb:3:in `b': undefined method `c' for nil", "error: undefined method <value> for nil"),
        ("NoSuchBucket: it does not exist", "NoSuchBucket: it does not exist"),
        ("E   \nE   ValueError: no number", "ValueError: no number"),
    ],
)  # fmt: skip
def test_bodies_pages_and_causes_say_what_failed(text: str, wanted: str) -> None:
    assert error_of(text) == wanted


# ---- algebra --------------------------------------------------------------------------------


@settings(COMMON, max_examples=1500 if FULL else 200)
@given(TEXTS)
@example("0\rE")
def test_any_text_has_a_signature_and_a_template_is_its_own_template(text: str) -> None:
    found = signature(text)

    assert signature(found.template).template == found.template
    assert len(str(found).encode()) <= LONGEST
    assert found.error.isidentifier()
    assert not re.search(r"[\x00-\x1f\x7f]", str(found))


@pytest.mark.parametrize(
    "piece",
    [
        *("a", "'", "' ", "\n", "Error: ", "(", "{", "Traceback (most recent call last):\n", "1 "),
        *("a.", "/a", "/a b", "a:", "KeyError: ", "A('", "f0:", "E   x\n", "___ a ___\n"),
        *("C:\\a b", "1s ", "a@", "a-1", "| + - ", " |", "\\", "\\'", "'a', ", "assert a == b "),
        *("Uncaught ", "FAILED a::b - ", "npm ERR! ", "1 validation error for a\n", "'\\\""),
        *(" (a, ", "ToolE("),
    ],
)
def test_a_long_text_of_anything_is_read(piece: str) -> None:
    text = piece * (200_000 // len(piece))  # more than is looked at

    for one in (text, f"{text})", f'A("{text})', f"Error: {text} Please fix your mistakes."):
        assert len(str(signature(one)).encode()) <= LONGEST


# ---- the form that is stored ----------------------------------------------------------------


def test_long_signatures_are_cut_and_still_told_apart() -> None:
    one, other = ("so " * 150 + end for end in ("it failed", "it was lost"))
    cut = [str(Signature(tool="é" * 9, error="error", template=said)) for said in (one, other)]

    assert [len(said.encode()) <= LONGEST for said in cut] == [True, True]
    assert cut[0][:300] == cut[1][:300]
    assert cut[0] != cut[1]


@pytest.mark.parametrize("failure", [None, 3, b"KeyError: 'a'", KeyError])
def test_what_is_no_failure_is_refused(failure: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"pass str\(…\) of it"):
        signature(failure)  # type: ignore[arg-type]
