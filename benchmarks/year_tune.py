"""The phrases that the rules of consolidation were looked at with."""

from __future__ import annotations

from benchmarks.year_phrases import Fact, Many, Phrases, Saying

SAYINGS = (
    Saying(
        ("{svc} is restarted at {time} every night", "Every night {svc} is restarted at {time}"),
        negated="{svc} is not restarted at {time} every night",
        opposite="{svc} is stopped at {time} every night",
        narrower="{svc} is restarted at {time} every night unless a backup is running",
    ),
    Saying(
        (
            "{p} reviews the database changes of {q} on {day}s",
            "On {day}s, {p} reviews the database changes of {q}",
        ),
        negated="{p} never reviews the database changes of {q} on {day}s",
    ),
    Saying(
        (
            "You must run the migrations before the tests in {svc}",
            "In {svc}, you must run the migrations before the tests",
        ),
        negated="You must not run the migrations before the tests in {svc}",
        opposite="You must run the migrations after the tests in {svc}",
    ),
    Saying(
        ("{svc} retries a failed request {n} times with {tool}",),
        negated="{svc} does not retry a failed request {n} times with {tool}",
        narrower="{svc} retries a failed request {n} times with {tool} only in production",
    ),
    Saying(
        ("{p} likes short answers with an example from {city}",),
        negated="{p} doesn't like short answers with an example from {city}",
        opposite="{p} likes long answers with an example from {city}",
    ),
    Saying(
        (
            "Ticket {id} blocks the release of {svc}",
            "The release of {svc} is blocked by ticket {id}",
        ),
        negated="Ticket {id} does not block the release of {svc}",
    ),
    Saying(
        (
            "Enable the feature flag {id} in {svc} to fix the slow pages",
            "To fix the slow pages, enable the feature flag {id} in {svc}",
        ),
        negated="Do not enable the feature flag {id} in {svc} to fix the slow pages",
        opposite="Disable the feature flag {id} in {svc} to fix the slow pages",
    ),
    Saying(
        ("{p} owes {q} {n} euros for the train to {city}",),
        negated="{p} owes {q} no {n} euros for the train to {city}",
    ),
    Saying(
        (
            "The logs of {svc} are kept for {n} days in {tool}",
            "In {tool}, the logs of {svc} are kept for {n} days",
        ),
        negated="The logs of {svc} are not kept for {n} days in {tool}",
        narrower="The error logs of {svc} are kept for {n} days in {tool}",
    ),
    Saying(
        ("{p} usually answers the emails of {q} within {n} hours",),
        negated="{p} usually doesn't answer the emails of {q} within {n} hours",
    ),
    Saying(
        (
            "When {svc} runs out of memory, increase the heap to {n} GB",
            "Increase the heap to {n} GB when {svc} runs out of memory",
        ),
        negated="When {svc} runs out of memory, don't increase the heap to {n} GB",
        opposite="When {svc} runs out of memory, decrease the heap to {n} GB",
    ),
    Saying(
        (
            "{p} will present the quarterly results in {city} on {day}",
            "On {day}, {p} will present the quarterly results in {city}",
        ),
        negated="{p} will not present the quarterly results in {city} on {day}",
        narrower="{p} will present the quarterly results in {city} on {day} if the audit is done",
    ),
)

FACTS = (
    Fact(
        "p",
        "colour",
        states=("{s}'s favourite colour is {v}", "The favourite colour of {s} is {v}"),
        changes=("{s}'s favourite colour is now {v}", "{s}'s favorite colour is {v} these days"),
        refined="{s}'s favourite colour is {v}, a dark one",
        scoped=(
            "{s}'s favourite colour for shoes is {v}",
            "{s}'s favourite colour for walls is {v}",
        ),
        hedged="{s}'s favourite colour might be {v}",
        question="Is {s}'s favourite colour {v}?",
        reported="Somebody said that {s}'s favourite colour is {v}",
        past="{s}'s favourite colour used to be {v}",
    ),
    Fact(
        "p",
        "city",
        states=("{s} lives in {v}", "{s} currently lives in {v}"),
        changes=("{s} moved to {v}", "{s} now lives in {v}", "{s} moved from {w} to {v}"),
        refined="{s} lives in {v}, near the old harbour",
        scoped=("In summer, {s} lives in {v}", "In winter, {s} lives in {v}"),
        hedged="{s} is thinking about moving to {v}",
        question="Does {s} live in {v}?",
        reported="The neighbour says {s} lives in {v}",
        past="{s} used to live in {v}",
    ),
    Fact(
        "p",
        "company",
        states=("{s} works at {v}", "{s} works for {v}"),
        changes=(
            "{s} now works at {v}",
            "{s} started to work at {v}",
            "{s} no longer works at {w}",
        ),
        refined="{s} works at {v} as an analyst",
        scoped=("{s} works at {v} on Mondays", "{s} works at {v} on Fridays"),
        hedged="{s} may work at {v} next year",
        question="Does {s} work at {v}?",
        reported='{q} told me: "{s} works at {v}"',
        past="{s} worked at {v} years ago",
    ),
    Fact(
        "svc",
        "day",
        states=("Deploys of {s} happen on {v}s", "{s} is deployed on {v}s"),
        changes=(
            "Deploys of {s} now happen on {v}s",
            "Deploys of {s} moved to {v}s",
            "Deploys of {s} moved from {w}s to {v}s",
        ),
        refined="Deploys of {s} happen on {v}s at noon",
        scoped=(
            "In staging, deploys of {s} happen on {v}s",
            "In production, deploys of {s} happen on {v}s",
        ),
        hedged="Perhaps deploys of {s} happen on {v}s",
        question="Do deploys of {s} happen on {v}s?",
        reported="According to {q}, deploys of {s} happen on {v}s",
        past="Deploys of {s} happened on {v}s until last year",
    ),
    Fact(
        "svc",
        "seconds",
        states=("The timeout of {s} is {v}", "The timeout of {s} is set to {v}"),
        changes=(
            "The timeout of {s} is now {v}",
            "The timeout of {s} was raised to {v}",
            "The timeout of {s} changed from {w} to {v}",
            "The timeout of {s} has been changed to {v}",
        ),
        refined="The timeout of {s} is {v} for each request",
        scoped=(
            "The timeout of {s} in staging is {v}",
            "The timeout of {s} in production is {v}",
        ),
        hedged="The timeout of {s} is probably {v}",
        question="Is the timeout of {s} {v}?",
        reported="{q} thinks the timeout of {s} is {v}",
        past="The timeout of {s} was {v}",
    ),
    Fact(
        "svc",
        "database",
        states=("The database of {s} runs {v}", "{s}'s database runs {v}"),
        changes=(
            "The database of {s} was upgraded to {v}",
            "The database of {s} was migrated from {w} to {v}",
            "The database of {s} now runs {v}",
        ),
        refined="The database of {s} runs {v} with pgvector",
        scoped=(
            "The staging database of {s} runs {v}",
            "The production database of {s} runs {v}",
        ),
        hedged="We are considering {v} for the database of {s}",
        question="Which tables would change if the database of {s} ran {v}?",
        reported="The wiki claims the database of {s} runs {v}",
        past="The database of {s} previously ran {v}",
    ),
    Fact(
        "svc",
        "p",
        states=("The owner of {s} is {v}", "{v} owns {s}"),
        changes=("The owner of {s} is now {v}", "The owner of {s} changed from {w} to {v}"),
        refined="The owner of {s} is {v} from the second floor",
        scoped=("The owner of {s} in Europe is {v}", "The owner of {s} in Asia is {v}"),
        hedged="I guess the owner of {s} is {v}",
        question="Who decides whether the owner of {s} is {v}?",
        reported="I heard the owner of {s} is {v}",
        past="The former owner of {s} is {v}",
    ),
    Fact(
        "svc",
        "switch",
        states=("The read cache of {s} is {v}",),
        changes=("The read cache of {s} is now {v}", "The read cache of {s} has been {v}"),
        refined="The read cache of {s} is {v} by default",
        scoped=(
            "For guests, the read cache of {s} is {v}",
            "For staff, the read cache of {s} is {v}",
        ),
        hedged="The read cache of {s} should be {v}",
        question="Why is the read cache of {s} {v}?",
        reported="{q} wrote that the read cache of {s} is {v}",
        past="The read cache of {s} had been {v}",
    ),
    Fact(
        "svc",
        "codename",
        states=("The codename of {s} is {v}", "{s} is called {v}"),
        changes=("{s} was renamed {v}", "{s} was renamed to {v}", "{s} is now called {v}"),
        refined="The codename of {s} is {v}, after a bird",
        scoped=(
            "The codename of {s} among designers is {v}",
            "The codename of {s} among lawyers is {v}",
        ),
        hedged="Maybe {s} will be called {v}",
        question="Will {s} be called {v}?",
        reported="Rumour has it that {s} is called {v}",
        past="{s} was once called {v}",
    ),
)

MANY = (
    Many("p", "hobby", "{s} likes {v}", "{s} no longer likes {v}"),
    Many("p", "city", "{s} has visited {v}", "{s} has never visited {v}"),
    Many("svc", "tool", "{s} uses {v}", "{s} does not use {v} any more"),
    Many("svc", "tool", "{s} depends on {v}", "{s} no longer depends on {v}"),
)

PREFIXES = (
    "Remember that {it}",
    "Note: {it}",
    "Please remember: {it}",
    "FYI, {it}",
    "Important: {it}",
)
SYNONYMS = {
    "must": "have to",
    "likes": "prefers",
    "database": "db",
    "fix": "repair",
    "usually": "normally",
    "increase": "raise",
    "kept": "stored",
    "owns": "is the owner of",
    "every": "each",
    "favourite": "favorite",
    "release": "rollout",
    "short": "brief",
    "happen": "take place",
    "works": "is employed",
}
POOLS = {
    "first": (
        *("Ada", "Bob", "Clara", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas"),
        *("Karin", "Luca", "Marta", "Nils", "Olga", "Pavel", "Quinn", "Rosa", "Sven", "Tara"),
    ),
    "last": (
        *("Novak", "Berg", "Castro", "Dahl", "Eriksen", "Fuchs", "Garcia", "Holm", "Ivanov"),
        *("Jensen", "Kowalski", "Lindner", "Moretti", "Nowak", "Olsen", "Petrov", "Rossi"),
        *("Schulz", "Tanaka", "Ueda", "Varga", "Weber", "Yilmaz", "Zeman"),
    ),
    "service": (
        *("invoice", "search", "payment", "export", "login", "report", "upload", "billing"),
        *("session", "inventory", "mail", "pricing", "audit", "shipping", "catalogue", "refund"),
    ),
    "kind": (
        "worker",
        "service",
        "gateway",
        "scheduler",
        "importer",
        "dashboard",
        "queue",
        "proxy",
    ),
    "city": ("Paris", "Rome", "Oslo", "Berlin", "Madrid", "Vienna", "Prague", "Lisbon", "Dublin"),
    "colour": ("blue", "red", "green", "yellow", "purple", "orange", "black", "white"),
    "company": ("Initech", "Globex", "Hooli", "Umbrella", "Stark Industries", "Acme", "Wonka"),
    "tool": ("Kafka", "Redis", "Terraform", "Grafana", "Airflow", "Docker", "Celery"),
    "database": ("Postgres 14", "Postgres 15", "Postgres 16", "Postgres 17", "MySQL 8"),
    "hobby": ("tea", "chess", "jazz", "hiking", "crime novels", "cycling", "pottery"),
    "codename": ("Falcon", "Heron", "Osprey", "Kestrel", "Merlin", "Condor"),
    "switch": ("enabled", "disabled"),
    "id": ("OPS-{n}", "fast_path_{n}", "v2.{n}.1", "BUG-{n}"),
}

TUNE = Phrases(SAYINGS, FACTS, MANY, PREFIXES, SYNONYMS, POOLS)
