"""PgBouncer in front of a test's database, in transaction mode."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from langmem_tiers.postgres.cluster import system_account
from tests.support.disks import own_directory
from tests.support.servers import wait_until

if sys.platform != "win32":
    import pwd

_PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
needs_pooler = pytest.mark.skipif(
    _PROGRAM is None, reason="there is no PgBouncer here: apt-get install pgbouncer"
)
_CONFIG = """
[databases]
* = {upstream}

[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {directory}
unix_socket_mode = 0777
auth_type = trust
auth_file = {directory}/users
admin_users = admin
logfile = {directory}/log
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
"""


@contextmanager
def pooler(url: str, *logins: str, size: int = 4) -> Iterator[str]:
    """Give the URL of a database behind a pooler, with `size` connections."""
    assert _PROGRAM is not None
    server = conninfo_to_dict(url)
    with own_directory(None) as directory:
        host = str(server.get("host") or "")
        # the account that it runs as need not be able to search the parents of a socket
        local = host if host.startswith("/") else None
        reached = {**server, "host": "/proc/self/cwd" if local else host}
        kept = ("host", "port", "password")
        upstream = " ".join(f"{key}={reached[key]}" for key in kept if reached.get(key))
        names = [str(server["user"]), *logins, "admin"]
        (directory / "users").write_text("".join(f'"{name}" ""\n' for name in names))
        config = directory / "config.ini"
        config.write_text(_CONFIG.format(upstream=upstream, directory=directory, size=size))
        account = _account(directory)
        process = subprocess.Popen(
            [_PROGRAM, "-q", str(config)],
            cwd=local,
            user=account,
            group=None if account is None else pwd.getpwuid(account).pw_gid,
            extra_groups=None if account is None else [],
        )
        through = make_conninfo(url, host=str(directory), port=6432, password=None)
        try:
            wait_until(lambda: process.poll() is not None or _answers(through))
            assert process.poll() is None, (directory / "log").read_text()
            yield through
        finally:
            process.kill()
            process.wait()


def _account(directory: Path) -> int | None:
    """Return the account that runs it, if not ours: it refuses root, as Postgres does."""
    if os.geteuid() != 0:
        return None
    account = system_account()
    for path in (directory, *directory.iterdir()):
        os.chown(path, account, -1)
    return account


def _answers(through: str) -> bool:
    try:
        psycopg.connect(through).close()
    except psycopg.OperationalError:
        return False
    return True
