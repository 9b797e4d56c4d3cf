"""Where something is: URLs, hosts, addresses and paths, told from code that looks like them."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from langmem_tiers.learn.identifying import EMAIL, END, HOST, ID, PATH, START, URL, Rule, always

_HOSTS: Final = re.compile(
    r"com|org|net|edu|gov|mil|internal|intranet|lan|corp|localdomain", re.IGNORECASE
)
_OTHER_HOSTS: Final = re.compile(
    r"io|dev|ai|co|cloud|tech|xyz|local"
    r"|eu|uk|de|fr|nl|pl|se|ch|dk|fi|cz|ru|jp|cn|kr|au|nz|ca|br|mx|za",
    re.IGNORECASE,
)
"""Ends of hosts that are ends of code as well (`threading.local`): more is asked of them."""
_NO_HOSTS: Final = frozenset({"self", "this", "cls", "asp", "vb"})
_LABELS: Final = 3

_ROOTS: Final = frozenset({"home", "Users", "usr", "var", "opt", "srv", "mnt", "Volumes"})
_FOLDERS: Final = _ROOTS | {
    *("src", "lib", "libs", "tests", "apps", "packages", "etc", "tmp", "node_modules")
}
_FILE: Final = re.compile(r".*[^.]\.[A-Za-z][A-Za-z0-9]{0,4}")
_DEEP: Final = 3


def _host(found: re.Match[str]) -> str:
    *labels, end = found["name"].split(".")
    if end == "NET" or labels[0].lower() in _NO_HOSTS:
        return found[0]
    if _HOSTS.fullmatch(end):
        return HOST
    plain = len(labels) + 1 < _LABELS and not found["port"] and "-" not in found["name"]
    return found[0] if plain or not _OTHER_HOSTS.fullmatch(end) else HOST


def _ip4(found: re.Match[str]) -> str:
    octets = [int(one) for one in found["ip"].split(".")]
    everybodys = octets[0] == 127 or not any(octets)  # noqa: PLR2004 - loopback
    return found[0] if everybodys or max(octets) > 255 else HOST  # noqa: PLR2004 - no octet


def _ip6(found: re.Match[str]) -> str:
    said = found[0] if found[0].endswith("::") else found[0].removesuffix(":")
    try:
        ip = IPv6Address(said)
    except AddressValueError:
        return found[0]
    slices = all(one.isdecimal() and len(one) < 4 for one in said.split(":") if one)  # noqa: PLR2004
    code = slices or not any(map(str.isdecimal, said))
    return found[0] if code or ip.is_loopback else HOST + found[0][len(said) :]


def _absolute(found: re.Match[str]) -> str:
    """A path from the root; no closing tag, no division and no comment."""
    said = found[0].rstrip(".-")
    parts = [one for one in said.split("/") if one]
    before = found.string[found.start() - 1 : found.start()]
    if len(parts) == 1 and (said.startswith("//") or before in ("<", ")", "]")):
        return found[0]
    if not parts or (len(parts) == 1 and (len(parts[0]) == 1 or parts[0].isdecimal())):
        return found[0]
    return PATH + found[0][len(said) :]


def _relative(found: re.Match[str]) -> str:
    said = found[0].rstrip(".-")
    return PATH + found[0][len(said) :] if _is_path(said) else found[0]


def _is_path(said: str) -> bool:
    """Whether words with slashes between them are a path, and not `and/or`."""
    parts = [one for one in said.split("/") if one]
    if said.startswith(("./", "../", "~")) or not _ROOTS.isdisjoint(parts[1:-1]):
        return True
    if parts[0] in _FOLDERS or any(one[0] == "." and one.strip(".") for one in parts):
        return True
    if len(parts) > 1 and _FILE.fullmatch(parts[-1]):
        return True
    said_plainly = all(one.isalpha() for one in parts) or all(one.isdecimal() for one in parts)
    return len(parts) >= _DEEP and not said_plainly


def _spaced(found: re.Match[str]) -> str:
    """A path with spaces is known by the quotes around it; others are known by themselves."""
    *folders, _ = re.split(r"[\\/]", found[0])
    return PATH if any(" " in one for one in folders) else found[0]


PLACES: Final = (
    # URLs
    Rule(
        re.compile(
            r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://"
            r"[^\s<>\"'`)\]}]*[^\s<>\"'`)\]}.,;:!?]"
        ),
        always(URL),
    ),
    # bob@acme.com
    Rule(
        re.compile(r"(?<![\w.+%-])[\w.+%-]++@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?!\w)"),
        always(EMAIL),
    ),
    # deploy@prod-db-1
    Rule(re.compile(r"(?<![\w.+%-])[\w.+%-]++@[A-Za-z]\w*+-[\w-]++"), always(HOST)),
    # UUIDs
    Rule(
        re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}" + END),
        always(ID),
    ),
    # hardware addresses
    Rule(re.compile(START + r"(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}" + END), always(ID)),
    # 10.0.0.12:5432
    Rule(
        re.compile(
            START + r"(?<![0-9]\.)(?P<ip>(?:[0-9]{1,3}\.){3}[0-9]{1,3})(?::[0-9]{1,5})?"
            r"(?!\.?[0-9])(?![A-Za-z_])"
        ),
        _ip4,
    ),
    # fe80::1
    Rule(re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])"), _ip6),
    # hosts: db.acme.com:5432/main
    Rule(
        re.compile(
            r"(?<![\w-])(?<!\w\.)(?P<name>(?:[\w-]{1,63}\.){1,20}[A-Za-z]{2,12})"
            r"(?P<port>:[0-9]{1,5})?(?![\w-])(?!\.\w)(?:/(?:[\w@+~%$=&#*/-]|\.(?=\w))*+)?"
        ),
        _host,
    ),
    # redis-cache:6379
    Rule(re.compile(r"(?<![\w.-])[A-Za-z]\w*+(?:-\w++)+:[0-9]{4,5}(?![\w.:])"), always(HOST)),
    # "/home/ada lovelace/x"
    Rule(re.compile(r"(?<=[\"'])(?:~?/|[A-Za-z]:[\\/])[^\"'\n<>]{1,300}(?=[\"'])"), _spaced),
    # C:\Users\bob, \\server\share
    Rule(
        re.compile(
            START + r"(?:[A-Za-z]:[\\/](?=\w{2})|\\\\[\w.-]{1,64}\\\w)[^\s\"'`<>|:*?;,)\]}]*"
        ),
        always(PATH),
    ),
    # app\models\user.py
    Rule(
        re.compile(r"(?<![\w.\\-])[\w.-]++(?:\\[\w.-]+)*\\[\w-]+\.[A-Za-z]\w{0,4}" + END),
        always(PATH),
    ),
    # src/app/user.py, ../x, ~/x
    Rule(
        re.compile(r"(?<![\w.@+~%$/-])[\w.@+~%$-]++(?:/[\w.@+~%$=&#*-]*+)++"),
        _relative,
    ),
    # /home/bob/x
    Rule(
        re.compile(r"(?<![\w./~\\])/{1,3}(?![/*])[\w.@+~%$=&#-]++(?:/[\w.@+~%$=&#*-]*+)*+"),
        _absolute,
    ),
)
