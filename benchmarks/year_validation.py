"""The phrases that showed what the rules had missed: none is like those of `year_tune`."""

from __future__ import annotations

from benchmarks.year_phrases import Fact, Many, Phrases, Saying

SAYINGS = (
    Saying(
        (
            "The certificates of {svc} have to be renewed by {p} in {city}",
            "In {city}, the certificates of {svc} have to be renewed by {p}",
        ),
        negated="The certificates of {svc} do not have to be renewed by {p} in {city}",
        narrower="The wildcard certificates of {svc} have to be renewed by {p} in {city}",
    ),
    Saying(
        (
            "{p} picks up {q} from school at {time} on {day}s",
            "On {day}s {p} picks up {q} from school at {time}",
        ),
        negated="{p} doesn't pick up {q} from school at {time} on {day}s",
    ),
    Saying(
        ("Clear the cache of {svc} before you start the import",),
        negated="Never clear the cache of {svc} before you start the import",
        opposite="Clear the cache of {svc} after you start the import",
    ),
    Saying(
        (
            "Uploads to {svc} above {n} MB fail with error {id}",
            "With error {id}, uploads to {svc} above {n} MB fail",
        ),
        negated="Uploads to {svc} above {n} MB don't fail with error {id}",
        opposite="Uploads to {svc} below {n} MB fail with error {id}",
        narrower="Uploads to {svc} above {n} MB fail with error {id} except for admins",
    ),
    Saying(
        ("{p} wants quick summaries of the meetings with {q}",),
        negated="{p} does not want quick summaries of the meetings with {q}",
    ),
    Saying(
        ("{p} taught {q} how to configure {tool} for {svc}",),
        negated="{p} never taught {q} how to configure {tool} for {svc}",
    ),
    Saying(
        (
            "After {n} failed attempts {svc} locks the account for {time} hours",
            "{svc} locks the account for {time} hours after {n} failed attempts",
        ),
        negated="After {n} failed attempts {svc} does not lock the account for {time} hours",
        opposite="After {n} failed attempts {svc} unlocks the account for {time} hours",
    ),
    Saying(
        (
            "Customers in {city} often ask about the delivery from {svc}",
            "Often customers in {city} ask about the delivery from {svc}",
        ),
        negated="Customers in {city} rarely ask about the delivery from {svc}",
        narrower="Customers in {city} often ask about the late delivery from {svc}",
    ),
    Saying(
        (
            "If the build of {svc} hangs, remove the folder {id} and begin again",
            "Remove the folder {id} and begin again if the build of {svc} hangs",
        ),
        negated="If the build of {svc} hangs, do not remove the folder {id} and begin again",
        narrower="If the nightly build of {svc} hangs, remove the folder {id} and begin again",
    ),
    Saying(
        ("The contract with {p} ends in {n} weeks and needs a signature from {q}",),
        negated="The contract with {p} ends in {n} weeks and needs no signature from {q}",
        opposite="The contract with {p} begins in {n} weeks and needs a signature from {q}",
    ),
    Saying(
        (
            "{tool} sends the alerts of {svc} to {p}",
            "The alerts of {svc} are sent to {p} by {tool}",
        ),
        negated="{tool} no longer sends the alerts of {svc} to {p}",
    ),
    Saying(
        (
            "Big tables in {svc} are split into {n} partitions with {tool}",
            "With {tool}, big tables in {svc} are split into {n} partitions",
        ),
        negated="Big tables in {svc} are never split into {n} partitions with {tool}",
        opposite="Small tables in {svc} are split into {n} partitions with {tool}",
    ),
)

FACTS = (
    Fact(
        "p",
        "drink",
        states=("{s}'s preferred drink is {v}", "The preferred drink of {s} is {v}"),
        changes=("{s}'s preferred drink is {v} now", "{s}'s preferred drink has changed to {v}"),
        refined="{s}'s preferred drink is {v} with ice",
        scoped=(
            "{s}'s preferred drink at breakfast is {v}",
            "{s}'s preferred drink at dinner is {v}",
        ),
        hedged="{s}'s preferred drink could be {v}",
        question="{s}'s preferred drink is {v}, isn't it?",
        reported="{q} mentioned that {s}'s preferred drink is {v}",
        past="{s}'s preferred drink was {v} as a student",
    ),
    Fact(
        "p",
        "city",
        states=("{s} is based in {v}", "{s} resides in {v}"),
        changes=(
            "{s} is now based in {v}",
            "{s} relocated to {v}",
            "{s} has moved from {w} to {v}",
        ),
        refined="{s} is based in {v}, in the northern quarter",
        scoped=("{s} is based in {v} during the season", "{s} is based in {v} during the holidays"),
        hedged="{s} would like to be based in {v}",
        question="Since when is {s} based in {v}?",
        reported="Her sister believes {s} is based in {v}",
        past="{s} was formerly based in {v}",
    ),
    Fact(
        "p",
        "p",
        states=("{s} reports to {v}", "{s}'s manager is {v}"),
        changes=(
            "{s} now reports to {v}",
            "Since the reorganisation {s} reports to {v}",
            "{s} does not report to {w} any more",
        ),
        refined="{s} reports to {v} in the sales department",
        scoped=("For hiring, {s} reports to {v}", "For budgets, {s} reports to {v}"),
        hedged="Apparently {s} reports to {v}",
        question="Should {s} report to {v}?",
        reported='In the chat it says "{s} reports to {v}"',
        past="{s} had reported to {v} before",
    ),
    Fact(
        "svc",
        "day",
        states=("The backup of {s} starts on {v}s", "The backup of {s} runs on {v}s"),
        changes=(
            "The backup of {s} starts on {v}s from now on",
            "The backup of {s} was moved to {v}s",
            "The backup of {s} was shifted from {w}s to {v}s",
        ),
        refined="The backup of {s} starts on {v}s after lunch",
        scoped=(
            "The weekly backup of {s} starts on {v}s",
            "The hourly backup of {s} starts on {v}s",
        ),
        hedged="The backup of {s} possibly starts on {v}s",
        question="Could the backup of {s} start on {v}s?",
        reported="They told us the backup of {s} starts on {v}s",
        past="In the past the backup of {s} started on {v}s",
    ),
    Fact(
        "svc",
        "megabytes",
        states=("The upload limit of {s} is {v}", "{s}'s upload limit is {v}"),
        changes=(
            "As of today the upload limit of {s} is {v}",
            "The upload limit of {s} was increased to {v}",
            "The upload limit of {s} went from {w} to {v}",
        ),
        refined="The upload limit of {s} is {v} per file",
        scoped=(
            "For free users the upload limit of {s} is {v}",
            "For paying users the upload limit of {s} is {v}",
        ),
        hedged="The upload limit of {s} is about {v}",
        question="Can the upload limit of {s} be {v}?",
        reported="Support assumes the upload limit of {s} is {v}",
        past="Originally the upload limit of {s} was {v}",
    ),
    Fact(
        "svc",
        "runtime",
        states=("{s} runs on {v}", "{s} is running on {v}"),
        changes=(
            "{s} runs on {v} now",
            "{s} was updated from {w} to {v}",
            "{s} has been upgraded to {v}",
        ),
        refined="{s} runs on {v} in a container",
        scoped=(
            "In the test environment {s} runs on {v}",
            "In the live environment {s} runs on {v}",
        ),
        hedged="{s} is planned to run on {v}",
        question="How fast is {s} when it runs on {v}?",
        reported="The vendor states that {s} runs on {v}",
        past="{s} ran on {v} back then",
    ),
    Fact(
        "svc",
        "p",
        states=("{s} is maintained by {v}", "The maintainer of {s} is {v}"),
        changes=(
            "{s} is maintained by {v} from now on",
            "The maintainer of {s} changed to {v}",
            "The maintainer of {s} is {v} now",
        ),
        refined="{s} is maintained by {v} with two helpers",
        scoped=("At night {s} is maintained by {v}", "At daytime {s} is maintained by {v}"),
        hedged="{s} is likely maintained by {v}",
        question="Do you know if {s} is maintained by {v}?",
        reported="It is said that {s} is maintained by {v}",
        past="{s} was maintained by {v} earlier",
    ),
    Fact(
        "svc",
        "gate",
        states=("Public access to {s} is {v}",),
        changes=("Public access to {s} is {v} now", "Public access to {s} is {v} as of this week"),
        refined="Public access to {s} is {v} for the whole company",
        scoped=(
            "On weekdays public access to {s} is {v}",
            "On weekends public access to {s} is {v}",
        ),
        hedged="Unless we hear otherwise, public access to {s} is {v}",
        question="Is public access to {s} {v}?",
        reported="{q} asked whether public access to {s} is {v}",
        past="Public access to {s} was {v} at the time",
    ),
    Fact(
        "svc",
        "port",
        states=("{s} listens on port {v}", "The port of {s} is {v}"),
        changes=(
            "{s} now listens on port {v}",
            "The port of {s} was changed from {w} to {v}",
            "The port of {s} is {v} these days",
        ),
        refined="The port of {s} is {v}, behind the firewall",
        scoped=("The port of {s} on Linux is {v}", "The port of {s} on Windows is {v}"),
        hedged="It seems that the port of {s} is {v}",
        question="Was the port of {s} ever {v}?",
        reported="The handbook says the port of {s} is {v}",
        past="The old port of {s} is {v}",
    ),
)

MANY = (
    Many("p", "sport", "{s} enjoys {v}", "{s} doesn't enjoy {v} anymore"),
    Many("p", "language", "{s} speaks {v}", "{s} does not speak {v}"),
    Many("svc", "browser", "{s} supports {v}", "{s} no longer supports {v}"),
    Many("svc", "browser", "{s} is tested with {v}", "{s} is not tested with {v}"),
)

PREFIXES = (
    "Keep in mind that {it}",
    "Reminder: {it}",
    "Just so you know, {it}",
    "For the record: {it}",
    "Don't forget: {it}",
)
SYNONYMS = {
    "have to": "need to",
    "quick": "fast",
    "before": "prior to",
    "start": "launch",
    "picks up": "collects",
    "often": "frequently",
    "remove": "delete",
    "begin": "start",
    "big": "large",
    "ends": "finishes",
    "preferred": "favourite",
    "customers": "clients",
    "resides": "lives",
    "folder": "directory",
}
POOLS = {
    "first": (
        *("Amir", "Beatriz", "Chen", "Dora", "Emil", "Fatima", "Goran", "Hana", "Ivo", "Jasmin"),
        *("Kenji", "Lotte", "Mehmet", "Nadia", "Oscar", "Priya", "Ravi", "Selma", "Tomas", "Vera"),
    ),
    "last": (
        *("Abbott", "Bauer", "Cohen", "Duarte", "Engel", "Ferrari", "Gruber", "Haas", "Ito"),
        *("Jansen", "Keller", "Larsen", "Maier", "Nguyen", "Ortiz", "Pires", "Quist", "Reyes"),
        *("Silva", "Torres", "Urban", "Vogel", "Winter", "Zhang"),
    ),
    "service": (
        *("booking", "ticket", "coupon", "voucher", "loyalty", "address", "stock", "returns"),
        *("calendar", "photo", "rating", "basket", "tax", "route", "fraud", "survey"),
    ),
    "kind": ("portal", "backend", "app", "API", "crawler", "website", "broker", "archive"),
    "city": ("Lyon", "Ghent", "Porto", "Kyoto", "Boston", "Cairo", "Lima", "Riga", "Zagreb"),
    "drink": ("coffee", "lemonade", "water", "cocoa", "cider", "tea", "milk"),
    "tool": ("Jenkins", "Ansible", "Splunk", "Nomad", "Vault", "Consul", "Prometheus"),
    "runtime": ("Python 3.10", "Python 3.11", "Python 3.12", "Python 3.13", "Java 21"),
    "sport": ("tennis", "rowing", "judo", "climbing", "sailing", "fencing"),
    "language": ("French", "Turkish", "Korean", "Swahili", "Danish", "Greek"),
    "browser": ("Firefox", "Safari", "Chrome", "Opera", "Edge"),
    "gate": ("allowed", "forbidden"),
    "id": ("E{n}", "tmp-{n}", "ERR_{n}", "a{n}f"),
}

VALIDATION = Phrases(SAYINGS, FACTS, MANY, PREFIXES, SYNONYMS, POOLS)
