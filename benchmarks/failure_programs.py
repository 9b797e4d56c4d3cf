"""The output of programs and tools, with what is accidental in every shape it is met in."""

from __future__ import annotations

import json

from benchmarks.failure_outputs import node_frames
from benchmarks.failure_slots import Slots


def choice(s: Slots) -> str:
    program = s.name() + ".py"
    choices = ", ".join(repr(s.word()) for _ in range(s.rng.randint(2, 5)))
    return (
        f"usage: {program} [-h] [--{s.word()} {s.word().upper()}]\n"
        f"{program}: error: argument --{s.slug()}: invalid choice: {s.value()!r} "
        f"(choose from {choices})"
    )


def problem(s: Slots) -> str:
    return json.dumps(
        {
            "type": "https://example.org/problems/out-of-stock",
            "title": "Unprocessable Entity",
            "status": 422,
            "code": "OUT_OF_STOCK",
            "detail": f"item {s.number()} of order {s.uuid()}: {s.sentence()}",
            "instance": f"/orders/{s.number()}",
            "timestamp": s.stamp(),
            "traceId": s.hexadecimal(32),
        },
        ensure_ascii=False,
        indent=2 if s.number() % 2 else None,
    )


def cannot_stat(s: Slots) -> str:
    return f"cp: cannot stat '{s.anywhere()}': No such file or directory"


def cannot_run(s: Slots) -> str:
    script = s.file(".sh")
    return s.one(
        f"bash: {script}: Permission denied",
        f"bash: line {s.number(1)}: {script}: Permission denied",
        f"/bin/sh: {s.number(1)}: {script}: Permission denied",
    )


def curl_slow(s: Slots) -> str:
    return (
        f"curl: (28) Operation timed out after {s.number(1)} milliseconds with {s.number()} out of "
        f"{s.number()} bytes received"
    )


def curl_host(s: Slots) -> str:
    return f"curl: (6) Could not resolve host: {s.slug()}.{s.one('internal', 'example.org')}"


def ssh(s: Slots) -> str:
    place = s.one(s.host(), s.ip(), s.ipv6())
    return f"ssh: connect to host {place} port {s.port()}: Connection timed out"


def no_class(s: Slots) -> str:
    owner = f"com.{s.word()}.{s.word()}.{s.kind()}"
    frames = "\n".join(f"\tat {owner}.{s.name()}({s.kind()}.java:{s.number(1)})" for _ in range(3))
    return (
        f"{s.stamp()} ERROR [{s.thread()}] {owner} - request {s.uuid()} failed\n"
        f"org.springframework.beans.factory.BeanCreationException: Error creating bean with name "
        f"'{s.name()}' defined in file [{s.path()}]: initialization failed\n{frames}\n"
        f"Caused by: java.lang.ClassNotFoundException: com.{s.word()}.{s.kind()}\n{frames}\n"
        f"\t... {s.number(1, 90)} more"
    )


def dial(s: Slots) -> str:
    return (
        f'{s.one("", "2024/05/06 07:08:09 ")}Get "{s.url()}": dial tcp {s.ip()}:{s.port()}: '
        "i/o timeout"
    )


def anyhow(s: Slots) -> str:
    return (
        f"Error: failed to read config from {s.file('.toml')}\n\nCaused by:\n"
        "    No such file or directory (os error 2)"
    )


def refused(s: Slots) -> str:
    ip, port = s.ip(), s.port()
    return (
        f"Error: connect ECONNREFUSED {ip}:{port}\n{node_frames(s)} {{\n  errno: -111,\n"
        f"  code: 'ECONNREFUSED',\n  syscall: 'connect',\n  address: '{ip}',\n  port: {port}\n}}"
    )


def bad_token(s: Slots) -> str:
    said = s.word()
    return (
        f"SyntaxError: Unexpected token '{said[0]}', \"{said} {s.word()}\"... is not valid JSON\n"
        f"    at JSON.parse (<anonymous>)\n{node_frames(s)}"
    )


def no_fixture(s: Slots) -> str:
    known = ", ".join(s.name() for _ in range(s.rng.randint(2, 9)))
    return (
        f"{'=' * 35} ERRORS {'=' * 35}\n{'_' * 20} ERROR at setup of test_{s.name()} {'_' * 20}\n"
        f"file {s.path()}, line {s.number(1)}\n  def test_{s.name()}({s.word()}):\n"
        f"E       fixture '{s.name()}' not found\n>       available fixtures: {known}\n"
        f">       use 'pytest --fixtures [testpath]' for help on them.\n\n"
        f"{s.path()}:{s.number(1)}\n"
        f"{'=' * 27} short test summary info {'=' * 27}\nERROR {s.path()}::test_{s.name()}\n"
        f"{s.number(1, 90)} passed, 1 error in {s.number(0, 90)}.12s"
    )


def no_tool(s: Slots) -> str:
    known = ", ".join(s.name() for _ in range(s.rng.randint(1, 6)))
    return f"Error: {s.name()} is not a valid tool, try one of [{known}]."


def bad_arguments(s: Slots) -> str:
    return (
        f"Error invoking tool '{s.name()}' with kwargs {{'{s.name()}': {s.value()!r}}} with "
        f"error:\n {s.name()}: Field required\n Please fix the error and try again."
    )


def too_many(s: Slots) -> str:
    return (
        f"429 Too Many Requests: rate limit of {s.number(1)} requests per minute exceeded for key "
        f"{s.quoted()}. Retry after {s.took()} (request id: req_{s.token(16)})"
    )


def login(s: Slots) -> str:
    return (
        f"{s.one('Jan', 'Nov')} {s.number(1, 28):2} 03:{s.number(10, 59)}:05 {s.container()} "
        f"sshd[{s.number(1)}]: Failed password for invalid user {s.word()} from {s.ip()} port "
        f"{s.port()} ssh2"
    )


def unknown_field(s: Slots) -> str:
    known = ", ".join(f"`{s.name()}`" for _ in range(s.rng.randint(2, 5)))
    return (
        f"Error: unknown field `{s.name()}`, expected one of {known} at line {s.number(1)} column "
        f"{s.number(1, 80)}"
    )


def in_french(s: Slots) -> str:
    return f"Erreur : le fichier « {s.anywhere()} » est introuvable"


def unhealthy(s: Slots) -> str:
    return (
        f"dependency failed to start: container {s.container()} is unhealthy\n"
        f"Container {s.container()}  Error"
    )


def unknown_command(s: Slots) -> str:
    return f"git: '{s.slug()}' is not a git command. See 'git --help'."


def revision(s: Slots) -> str:
    what = s.one(s.sha(), s.slug(), f"HEAD~{s.number(1, 90)}")
    return (
        f"fatal: ambiguous argument '{what}': unknown revision or path not in the working tree.\n"
        "Use '--' to separate paths from revisions, like this:\n"
        "'git <command> [<revision>...] -- [<file>...]'"
    )


def tool_timeout(s: Slots) -> str:
    return f"Tool {s.name()} timed out after {s.took()} (call call_{s.token(20)})"


def gateway(s: Slots) -> str:
    return (
        f"<html>\n<head><title>502 Bad Gateway</title></head>\n<body>\n<center><h1>502 Bad Gateway"
        f"</h1></center>\n<hr><center>nginx/1.{s.number(1, 29)}.{s.number(0, 9)}</center>\n</body>"
        "\n</html>"
    )


def crash(s: Slots) -> str:
    return (
        f"[{s.stamp()}] {s.thread()}: FATAL: could not write {s.size()} to {s.anywhere()} at "
        f"{s.address()}: disk quota of {s.size()} exceeded"
    )
