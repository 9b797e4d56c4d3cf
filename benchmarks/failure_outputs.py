"""The output of programs that failed, with accidental parts."""

from __future__ import annotations

from benchmarks.failure_slots import Slots


def merge_conflict(s: Slots) -> str:
    one, other = s.file(".py"), s.file(".md")
    more = f"CONFLICT (content): Merge conflict in {other}\n" if s.number() % 2 else ""
    return (
        f"Auto-merging {one}\nCONFLICT (content): Merge conflict in {one}\n{more}"
        "Automatic merge failed; fix conflicts and then commit the result."
    )


def npm(s: Slots) -> str:
    say = s.one("npm ERR!", "npm error")
    package = f"{s.slug()}@^{s.number(0, 20)}.{s.number(0, 20)}.0"
    return (
        f"{say} code ERESOLVE\n{say} ERESOLVE unable to resolve dependency tree\n{say}\n"
        f"{say} While resolving: {s.slug()}@{s.number(0, 9)}.0.{s.number(0, 9)}\n"
        f"{say} Found: {package}\n{say} node_modules/{s.slug()}\n"
        f"{say} A complete log of this run can be found in: {s.folder()}/.npm/_logs/{s.time()}.log"
    )


def tsc(s: Slots) -> str:
    more = f"\n{s.file('.ts')}(1,9): error TS2304: Cannot find name '{s.name()}'."
    first = f"{s.file('.ts')}({s.number(1)},{s.number(1, 80)}): error TS2304: Cannot find name "
    return f"{first}'{s.kind()}'." + s.one("", more)


def cargo(s: Slots) -> str:
    line = s.number(1, 900)
    return (
        f"   Compiling {s.slug()} v0.{s.number(0, 9)}.{s.number(0, 9)} ({s.folder()})\n"
        f"error[E0308]: mismatched types\n  --> {s.file('.rs')}:{line}:{s.number(1, 80)}\n   |\n"
        f'{line} |     let {s.name()}: {s.one("u32", "bool")} = "{s.word()}";\n'
        f"   |         ^^^^ expected `{s.one('u32', 'bool')}`, found `&str`\n\n"
        f'error: could not compile `{s.slug()}` (bin "{s.slug()}") due to 1 previous error'
    )


def go_vet(s: Slots) -> str:
    place = f"{s.file('.go')}:{s.number(1)}:{s.number(1, 80)}"
    return f"# {s.host()}/{s.word()}/{s.slug()}\n" * (s.number() % 2) + (
        f"{s.one('', 'vet: ')}{place}: undefined: {s.one(s.name(), s.kind())}"
    )


def go_panic(s: Slots) -> str:
    size = s.number(1, 90)
    return (
        f"panic: runtime error: index out of range [{size + s.number()}] with length {size}\n\n"
        f"goroutine {s.number(1, 90)} [running]:\nmain.{s.kind()}(...)\n"
        f"\t{s.file('.go')}:{s.number(1)} +{s.address()}\nexit status 2"
    )


def rust_panic(s: Slots) -> str:
    place = f"{s.file('.rs')}:{s.number(1)}:{s.number(1, 80)}"
    says = f"called `Option::unwrap()` on a `{s.one('None', 'None')}` value"
    thread = s.one("main", s.name())
    hint = "\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"
    return s.one(
        f"thread '{thread}' panicked at {place}:\n{says}{hint}",
        f"thread '{thread}' panicked at '{says}', {place}{hint}",
        f"\nthread '{thread}' ({s.number()}) panicked at {place}:\n{says}",
    )


def node_frames(s: Slots) -> str:
    frames = [
        f"    at {s.one('', 'async ', 'Object.')}{s.name()} ({s.path()}:{s.number(1)}:"
        f"{s.number(1)})"
        for _ in range(s.rng.randint(1, 5))
    ]
    return "\n".join([*frames, "    at node:internal/main/run_main_module:23:47"])


def node_undefined(s: Slots) -> str:
    before = s.one("", f"{s.path()}:{s.number(1)}\n    {s.name()}.map(x);\n    ^\n\n", "Uncaught ")
    says = f"TypeError: Cannot read properties of undefined (reading '{s.name()}')"
    return f"{before}{says}\n{node_frames(s)}" + s.one("", f"\n\nNode.js v{s.number(16, 24)}.1.0")


def java(s: Slots) -> str:
    owner, method = f"com.{s.word()}.{s.kind()}", s.name()
    frames = "".join(
        f"\n\tat {owner}.{s.name()}({s.kind()}.java:{s.number(1)})"
        for _ in range(s.rng.randint(1, 6))
    )
    return (
        f'Exception in thread "{s.one("main", "pool-1-thread-" + str(s.number()))}" '
        f'java.lang.NullPointerException: Cannot invoke "{owner}.{method}()" because '
        f'"{s.name()}" is null{frames}'
    )


def docker(s: Slots) -> str:
    return (
        "docker: Error response from daemon: driver failed programming external connectivity on "
        f"endpoint {s.slug()} ({s.hexadecimal(64)}): Bind for {s.ip()}:{s.port()} failed: port is "
        "already allocated."
    )


def kubernetes(s: Slots) -> str:
    pod = f"{s.slug()}-{s.hexadecimal(10)}-{s.token(5).lower()}"
    return f'Error from server (NotFound): {s.one("pods", "pods")} "{pod}" not found'


def image_pull(s: Slots) -> str:
    image = f"{s.host()}/{s.slug()}:{s.hexadecimal(7)}"
    return (
        f"  Warning  Failed     {s.number(1, 59)}s (x{s.number(2, 9)} over {s.number(1, 59)}m)  "
        f'kubelet            Failed to pull image "{image}": rpc error: code = NotFound desc = '
        f'failed to resolve reference "{image}": not found'
    )


def command(s: Slots) -> str:
    name = s.one(s.slug(), s.name())
    return s.one(
        f"bash: line {s.number(1, 90)}: {name}: command not found",
        f"bash: {name}: command not found",
        f"{s.file('.sh')}: line {s.number(1)}: {name}: command not found",
        f"zsh: command not found: {name}",
    )


def killed(s: Slots) -> str:
    return (
        f"{s.file('.sh')}: line {s.number(1)}: {s.number()} Killed                  "
        f"python {s.file('.py')} --limit {s.number()}\nProcess exited with code 137"
    )


def rejected(s: Slots) -> str:
    return (
        f"To {s.one('github.com:', 'git.example.org:')}{s.word()}/{s.slug()}.git\n"
        f" ! [rejected]        {s.slug()} -> {s.slug()} (non-fast-forward)\n"
        f"error: failed to push some refs to 'git@{s.host()}:{s.word()}/{s.slug()}.git'\n"
        "hint: Updates were rejected because the tip of your current branch is behind"
    )


def npm_missing(s: Slots) -> str:
    say, package = s.one("npm ERR!", "npm error"), s.slug()
    return (
        f"{say} code E404\n{say} 404 Not Found - GET https://registry.example.org/{package} - Not "
        f"found\n{say} 404  '{package}@*' is not in this registry."
    )


def node_module(s: Slots) -> str:
    module = s.one(f"./{s.name()}", s.slug(), f"@{s.word()}/{s.slug()}")
    return (
        f"node:internal/modules/cjs/loader:{s.number(900, 1500)}\n  throw err;\n  ^\n\n"
        f"Error: Cannot find module '{module}'\nRequire stack:\n- {s.path()}\n{node_frames(s)} {{\n"
        f"  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '{s.path()}' ]\n}}"
    )


def docker_image(s: Slots) -> str:
    image = f"{s.slug()}:{s.one('latest', 'v' + str(s.number()))}"
    return (
        f"Unable to find image '{image}' locally\ndocker: Error response from daemon: pull access "
        f"denied for {s.slug()}, repository does not exist or may require 'docker login'."
    )


def make_error(s: Slots) -> str:
    folder = s.file("")
    return (
        f"make[{s.number(1, 3)}]: Entering directory '{folder}'\n"
        f"make: *** [Makefile:{s.number(1)}: {s.name()}] Error 2"
    )


def pip(s: Slots) -> str:
    package = f"{s.slug()}=={s.number(0, 9)}.{s.number(0, 90)}"
    return (
        f"ERROR: Could not find a version that satisfies the requirement {package} (from versions: "
        f"{s.one('none', '0.1, 0.2, 1.0', '2.0.1')})\n"
        f"ERROR: No matching distribution found for {package}"
    )


def state_lock(s: Slots) -> str:
    return (
        "Error: Error acquiring the state lock\n\n"
        "Error message: operation error DynamoDB: PutItem\n"
        f"Lock Info:\n  ID:        {s.uuid()}\n  Path:      {s.slug()}/terraform.tfstate\n"
        f"  Who:       {s.person()}@{s.host()}\n  Created:   {s.time()}"
    )


def playbook(s: Slots) -> str:
    return (
        f"TASK [{s.slug()} : {s.word()}] {'*' * s.rng.randint(20, 60)}\n"
        f"fatal: [{s.host()}]: FAILED! => "
        f'{{"changed": false, "msg": "Could not find the requested service {s.slug()}: host"}}'
    )


def gradle(s: Slots) -> str:
    return (
        f"> Task :{s.word()}:compileJava FAILED\n\nFAILURE: Build failed with an exception.\n\n"
        f"* What went wrong:\nExecution failed for task ':{s.word()}:compileJava'.\n"
        "> Compilation failed; see the compiler error output for details.\n\n"
        f"BUILD FAILED in {s.number(1, 90)}s"
    )


def linker(s: Slots) -> str:
    return (
        f"/usr/bin/ld: {s.file('.o')}: in function `{s.name()}':\n"
        f"{s.name()}.cpp:(.text+0x{s.hexadecimal(2)}): undefined reference to `{s.name()}()'\n"
        "collect2: error: ld returned 1 exit status"
    )


def ruby(s: Slots) -> str:
    return (
        f"{s.file('.rb')}:{s.number(1)}:in `block in {s.name()}': undefined method `{s.name()}' "
        f"for nil:NilClass (NoMethodError)\n\tfrom {s.file('.rb')}:{s.number(1)}:in `each'"
    )


def php(s: Slots) -> str:
    place = s.path()
    return (
        f"PHP Fatal error:  Uncaught Error: Call to undefined function {s.name()}() in {place}:"
        f"{s.number(1)}\nStack trace:\n#0 {s.path()}({s.number(1)}): {s.name()}()\n#1 {{main}}\n"
        f"  thrown in {place} on line {s.number(1)}"
    )


def time_limit(s: Slots) -> str:
    return (
        f"[{s.time()}: ERROR/ForkPoolWorker-{s.number(1, 64)}] Task {s.word()}.{s.name()}"
        f"[{s.uuid()}] raised unexpected: SoftTimeLimitExceeded()"
    )
