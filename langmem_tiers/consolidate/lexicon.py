"""Words that the rules know: those that mean the same, the opposite, or little.

All tables are of common English, written from general knowledge and not from any benchmark's
phrases. A word that is not in them is compared letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


def _classes(lines: str) -> dict[tuple[str, ...], str]:
    """Each phrase of a line stands for the line's first."""
    table: dict[tuple[str, ...], str] = {}
    for line in lines.strip().splitlines():
        phrases = [one.strip() for one in line.split("|")]
        table |= {tuple(one.split()): phrases[0] for one in phrases}
    return table


def listed(words: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(words.split())


SAME: Final = _classes("""
must | have to | has to | need to | needs to | is required to | are required to
like | likes | prefer | prefers | enjoy | enjoys | favour | favours | favor | favors
favourite | favorite | preferred
database | db
repository | repo
configuration | config
environment | env
directory | folder
documentation | docs
application | app
fix | repair | fixes | repairs
usually | normally | typically | generally
often | frequently
rarely | seldom
every | each
increase | raise | increases | raises
decrease | reduce | lower | decreases | reduces | lowers
keep | store | keeps | stores
kept | stored
release | rollout
short | brief | concise
long | lengthy
happen | happens | occur | occurs | take place | takes place
start | starts | begin | begins | launch | launches
end | ends | finish | finishes
end | stop | halt | stops | halts
before | prior to
quick | fast | rapid
slow | sluggish
big | large
small | little
remove | delete | removes | deletes
create | make | creates | makes
show | display | shows | displays
fetch | retrieve | fetches | retrieves
use | utilise | utilize | employ | uses | utilises | utilizes | employs
buy | purchase | buys | purchases
help | assist | helps | assists
send | sends | dispatch | dispatches
collect | collects | pick up | picks up
customer | client | customers | clients
next | following
whenever | every time | each time
safe | secure
help | assistance
apartment | flat
yearly | annual | annually
together | jointly
answer | reply | answers | replies
choose | pick | select | chooses | picks | selects
get | obtain | receive | gets | obtains | receives
give | provide | gives | provides
wait for | await | waits for | awaits
look for | search for | looks for | searches for
speak | talk | speaks | talks
car | automobile
doctor | physician
child | kid
holiday | vacation
film | movie
phone | telephone
photo | photograph
verify | check | verifies | checks
error | fault
bug | defect
picture | image | pictures | images
live in | lives in | reside in | resides in
work at | works at | work for | works for | is employed at | is employed by | are employed at
own | owns | is the owner of
allow | permit | allows | permits
allowed | permitted
forbidden | prohibited
ensure | make sure | ensures
require | requires
colour | color | colours | colors
organisation | organization
catalogue | catalog
behaviour | behavior
centre | center
cancelled | canceled
grey | gray
okay | ok
approximately | about | roughly
because | since
therefore | thus
""")
"""Phrases that stand for each other, by their words without case."""

OPPOSITES: Final[frozenset[frozenset[str]]] = frozenset(
    frozenset(one.split("/"))
    for one in (
        *("enable/disable", "enabled/disabled", "enables/disables", "on/off", "open/closed"),
        *("allowed/forbidden", "allowed/denied", "allowed/blocked", "active/inactive", "up/down"),
        *("true/false", "yes/no", "online/offline", "public/private", "locked/unlocked"),
        *("mandatory/optional", "required/optional", "available/unavailable", "safe/unsafe"),
        *("before/after", "above/below", "increase/decrease", "start/end", "import/export"),
        *("upload/download", "lock/unlock", "attach/detach", "include/exclude", "accept/reject"),
        *("accept/except", "expect/except", "inside/outside", "first/last", "always/never"),
        *("internal/external", "ascending/descending", "encrypt/decrypt", "encode/decode"),
        *("connected/disconnected", "installed/uninstalled", "visible/hidden", "manual/automatic"),
        *("affect/effect", "manager/manger", "staging/stating", "singing/signing", "trial/trail"),
    )
)
"""Pairs of words that are told apart however alike they look."""

SLIGHT: Final = listed(
    "a an the please do does also just really now currently presently nowadays then so that"
)
"""Words without which a text says the same."""
SLIGHT_PHRASES: Final = frozenset(
    tuple(one.split()) for one in ("these days", "as of now", "at present", "at the moment")
)

MOVABLE: Final = listed(
    "about above after at because before below between by during each every for from if in into"
    " near often on over per since through to under unless until upon usually when whenever where"
    " while with within without yesterday today tomorrow daily weekly monthly yearly always"
)
"""A phrase that begins with one of these can stand elsewhere in the sentence."""

BE: Final = listed("is are am be")
NEGATIONS: Final = listed("not no never nor neither none nobody nothing without hardly")

_SMALL = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty
"""
_TENS = "ten twenty thirty forty fifty sixty seventy eighty ninety"
NUMBERS: Final = {
    word: str(number * step)
    for words, step, first in ((_SMALL, 1, 0), (_TENS, 10, 1))
    for number, word in enumerate(words.split(), first)
    if word != "one"
}
"""Not "one": it is a pronoun as often."""


def _units(**dimensions: Iterable[tuple[str, float]]) -> dict[str, tuple[str, float]]:
    return {
        name: (dimension, factor)
        for dimension, units in dimensions.items()
        for names, factor in units
        for name in names.split()
    }


UNITS: Final = _units(
    time=(
        ("ms millisecond milliseconds", 0.001),
        ("s sec secs second seconds", 1.0),
        ("min mins minute minutes", 60.0),
        ("h hr hrs hour hours", 3_600.0),
        ("d day days", 86_400.0),
        ("week weeks", 604_800.0),
    ),
    bytes=(
        ("b byte bytes", 1.0),
        ("kb kilobyte kilobytes", 1e3),
        ("mb megabyte megabytes", 1e6),
        ("gb gigabyte gigabytes", 1e9),
        ("tb terabyte terabytes", 1e12),
        ("kib", 1024.0),
        ("mib", 1024.0**2),
        ("gib", 1024.0**3),
    ),
    share=(("% percent", 1.0),),
)
"""What a unit measures, and how much of it. Months and currencies are compared as words."""

_DAYS: Final = listed("monday tuesday wednesday thursday friday saturday sunday")
WEEKDAYS: Final = _DAYS | {f"{one}s" for one in _DAYS}
MONTHS: Final = listed(
    "january february march april may june july august september october november december"
)
FIRST_PERSON: Final = listed("i me my mine we us our ours")
COLOURS: Final = listed(
    "black white red green blue yellow orange purple violet pink brown grey gray turquoise beige"
    " gold silver cyan magenta indigo"
)
PRODUCTS: Final = {
    name: kind
    for kind, names in {
        "database": "postgres postgresql mysql mariadb sqlite oracle mongodb cassandra db2",
        "language": "python java node nodejs node.js ruby go php rust perl kotlin scala elixir",
        "system": "ubuntu debian linux windows macos fedora alpine rhel centos freebsd",
        "broker": "kafka rabbitmq nats pulsar activemq",
        "cloud": "aws azure gcp hetzner",
    }.items()
    for name in names.split()
}
"""Of one kind, a thing runs on one at a time."""
