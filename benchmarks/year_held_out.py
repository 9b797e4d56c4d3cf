"""The phrases that the rules of consolidation are reported on: none is of another set's."""

from __future__ import annotations

from benchmarks.year_phrases import Fact, Many, Phrases, Saying

SAYINGS = (
    Saying(
        (
            "{p} waters the plants in the {city} office on {day}s",
            "On {day}s {p} waters the plants in the {city} office",
        ),
        negated="{p} doesn't water the plants in the {city} office on {day}s",
        narrower="{p} waters the tall plants in the {city} office on {day}s",
    ),
    Saying(
        (
            "To reset {svc}, hold the button for {n} seconds and wait for code {id}",
            "Hold the button for {n} seconds and wait for code {id} to reset {svc}",
        ),
        negated="To reset {svc}, do not hold the button for {n} seconds and wait for code {id}",
    ),
    Saying(
        (
            "{p} introduced {q} to the surgeons of {city} at the annual congress",
            "At the annual congress {p} introduced {q} to the surgeons of {city}",
        ),
        negated="{p} never introduced {q} to the surgeons of {city} at the annual congress",
    ),
    Saying(
        (
            "Orders placed in {svc} after {time} are shipped the following {day}",
            "After {time}, orders placed in {svc} are shipped the following {day}",
        ),
        negated="Orders placed in {svc} after {time} are not shipped the following {day}",
        opposite="Orders placed in {svc} before {time} are shipped the following {day}",
        narrower="Paid orders placed in {svc} after {time} are shipped the following {day}",
    ),
    Saying(
        (
            "Parcel {id} was delivered to {p} by {q}",
            "{q} delivered parcel {id} to {p}",
        ),
        negated="Parcel {id} was not delivered to {p} by {q}",
    ),
    Saying(
        (
            "The display of {svc} shows an error when {n} guests check in together",
            "When {n} guests check in together, the display of {svc} shows an error",
        ),
        negated="The display of {svc} shows no error when {n} guests check in together",
    ),
    Saying(
        ("It is safe to unplug {svc} during a firmware update from {tool}",),
        negated="It is not safe to unplug {svc} during a firmware update from {tool}",
        opposite="It is unsafe to unplug {svc} during a firmware update from {tool}",
    ),
    Saying(
        (
            "{p} and {q} share the large apartment near the station in {city}",
            "{q} and {p} share the large apartment near the station in {city}",
        ),
        negated="{p} and {q} don't share the large apartment near the station in {city}",
        symmetric=True,
    ),
    Saying(
        (
            "Ask {p} for help whenever {svc} prints the message {id}",
            "Whenever {svc} prints the message {id}, ask {p} for help",
        ),
        negated="Don't ask {p} for help whenever {svc} prints the message {id}",
        narrower="Ask {p} for help whenever {svc} prints the message {id} twice",
    ),
    Saying(
        ("{p} earns {n} points more than {q} with {tool}",),
        negated="{p} does not earn {n} points more than {q} with {tool}",
        opposite="{p} earns {n} points less than {q} with {tool}",
    ),
    Saying(
        (
            "We typically buy {n} boxes of paper for {svc} from {tool}",
            "From {tool} we typically buy {n} boxes of paper for {svc}",
        ),
        negated="We typically don't buy {n} boxes of paper for {svc} from {tool}",
        opposite="We typically sell {n} boxes of paper for {svc} from {tool}",
    ),
)

FACTS = (
    Fact(
        "p",
        "colour",
        states=("The main colour of {s}'s brand is {v}", "{s}'s brand's main colour is {v}"),
        changes=(
            "The main colour of {s}'s brand is now {v}",
            "The main colour of {s}'s brand switched from {w} to {v}",
            "Since last spring, the main colour of {s}'s brand is {v}",
        ),
        refined="The main colour of {s}'s brand is {v} with a hint of silver",
        scoped=(
            "The main colour of {s}'s brand on posters is {v}",
            "The main colour of {s}'s brand on bags is {v}",
        ),
        hedged="The main colour of {s}'s brand will be {v}, we hope",
        question="Isn't the main colour of {s}'s brand {v}?",
        reported="A customer claimed the main colour of {s}'s brand is {v}",
        past="The main colour of {s}'s brand was {v} in the nineties",
    ),
    Fact(
        "p",
        "city",
        states=("{s} lives at the moment in {v}", "{s}'s hometown is {v}"),
        changes=(
            "{s} moved over to {v}",
            "{s} has relocated to {v}",
            "{s} no longer lives in {w}",
            "As of March {s} lives in {v}",
        ),
        refined="{s} lives in {v} with two cats",
        scoped=("{s} lives in {v} before exams", "{s} lives in {v} after exams"),
        hedged="{s} perhaps lives in {v}",
        question="Do you think {s} lives in {v}?",
        reported='The postcard reads "{s} lives in {v}"',
        past="As a child {s} lived in {v}",
    ),
    Fact(
        "p",
        "company",
        states=("{s} is employed by {v}", "{s}'s employer is {v}"),
        changes=(
            "{s} left {w}",
            "{s} works for {v} these days",
            "{s} is now employed at {v}",
            "{s}'s employer has changed to {v}",
        ),
        refined="{s} is employed by {v} as a night guard",
        scoped=("{s} works for {v} during term", "{s} works for {v} during the vacation"),
        hedged="{s} would rather work for {v}",
        question="For how long has {s} been employed by {v}?",
        reported="{q} suspects that {s} is employed by {v}",
        past="{s} was employed by {v} until spring",
    ),
    Fact(
        "svc",
        "time",
        states=("{s} opens at {v}", "The opening time of {s} is {v}"),
        changes=(
            "{s} now opens at {v}",
            "From now on {s} opens at {v}",
            "The opening time of {s} was changed from {w} to {v}",
        ),
        refined="{s} opens at {v} sharp",
        scoped=("{s} opens at {v} on Mondays", "{s} opens at {v} on Sundays"),
        hedged="{s} often opens at {v}",
        question="Does {s} open at {v}?",
        reported="The leaflet said {s} opens at {v}",
        past="{s} opened at {v} last year",
    ),
    Fact(
        "svc",
        "day",
        states=("The review of {s} takes place on {v}s", "The review of {s} is on {v}s"),
        changes=(
            "The review of {s} is now held on {v}s",
            "The review of {s} was rescheduled from {w}s to {v}s",
            "The review of {s} has been moved to {v}s",
        ),
        refined="The review of {s} takes place on {v}s in the blue room",
        scoped=(
            "The monthly review of {s} takes place on {v}s",
            "The yearly review of {s} takes place on {v}s",
        ),
        hedged="The review of {s} may be on {v}s",
        question="Is the review of {s} on {v}s or later?",
        reported="Someone mentioned the review of {s} is on {v}s",
        past="The review of {s} used to take place on {v}s",
    ),
    Fact(
        "svc",
        "minutes",
        states=("The warm-up of {s} takes {v}", "The warm-up of {s} lasts {v}"),
        changes=(
            "The warm-up of {s} now takes {v}",
            "The warm-up of {s} takes {v} these days",
            "The warm-up of {s} was shortened from {w} to {v}",
        ),
        refined="The warm-up of {s} takes {v} at low power",
        scoped=(
            "In summer the warm-up of {s} takes {v}",
            "In winter the warm-up of {s} takes {v}",
        ),
        hedged="The warm-up of {s} takes around {v}",
        question="Does the warm-up of {s} take {v}?",
        reported="The manual states that the warm-up of {s} takes {v}",
        past="The warm-up of {s} took {v} in the first year",
    ),
    Fact(
        "svc",
        "system",
        states=("{s} runs {v}", "The operating system of {s} is {v}"),
        changes=(
            "{s} was upgraded to {v}",
            "{s} was migrated from {w} to {v}",
            "{s} is running {v} now",
        ),
        refined="{s} runs {v} on an old board",
        scoped=("In the lab {s} runs {v}", "In the field {s} runs {v}"),
        hedged="{s} could run {v}",
        question="Why does {s} run {v}?",
        reported="The seller told us {s} runs {v}",
        past="{s} formerly ran {v}",
    ),
    Fact(
        "svc",
        "p",
        states=("{v} leads the team of {s}", "The team of {s} is led by {v}"),
        changes=(
            "The team of {s} is now led by {v}",
            "{v} now leads the team of {s}",
            "The lead of the team of {s} is {v} now",
        ),
        refined="The team of {s} is led by {v} from abroad",
        scoped=(
            "On weekdays the team of {s} is led by {v}",
            "On holidays the team of {s} is led by {v}",
        ),
        hedged="The team of {s} seems to be led by {v}",
        question="Should the team of {s} be led by {v}?",
        reported="{q} wonders whether the team of {s} is led by {v}",
        past="The team of {s} was led by {v} before the merger",
    ),
    Fact(
        "svc",
        "door",
        states=("The side door of {s} is {v}",),
        changes=(
            "The side door of {s} is now {v}",
            "As of Monday the side door of {s} is {v}",
            "The side door of {s} is {v} again",
        ),
        refined="The side door of {s} is {v} for deliveries",
        scoped=(
            "At night the side door of {s} is {v}",
            "By day the side door of {s} is {v}",
        ),
        hedged="The side door of {s} is usually {v}",
        question="Is the side door of {s} {v} yet?",
        reported="{q} thought the side door of {s} is {v}",
        past="The side door of {s} was {v} all night",
    ),
)

MANY = (
    Many("p", "instrument", "{s} plays the {v}", "{s} no longer plays the {v}"),
    Many("p", "city", "{s} knows {v} well", "{s} does not know {v} well"),
    Many("svc", "tool", "{s} works with {v}", "{s} doesn't work with {v} anymore"),
    Many("svc", "tool", "{s} accepts cards from {v}", "{s} never accepts cards from {v}"),
)

PREFIXES = (
    "Please note that {it}",
    "Heads up: {it}",
    "For reference: {it}",
    "Bear in mind that {it}",
    "By the way, {it}",
)
SYNONYMS = {
    "large": "big",
    "buy": "purchase",
    "shows": "displays",
    "typically": "usually",
    "help": "assistance",
    "apartment": "flat",
    "following": "next",
    "delivered": "handed over",
    "together": "at once",
    "safe": "secure",
    "whenever": "every time",
    "annual": "yearly",
    "wait for": "await",
}
POOLS = {
    "first": (
        *("Alba", "Bruno", "Cleo", "Dario", "Esra", "Felix", "Gilda", "Henk", "Ilse", "Jorge"),
        *("Kasia", "Leon", "Mina", "Noor", "Otto", "Paula", "Rolf", "Saskia", "Theo", "Wanda"),
    ),
    "last": (
        *("Acosta", "Becker", "Conti", "Dietz", "Egger", "Fiala", "Grant", "Hoxha", "Imhof"),
        *("Juarez", "Klein", "Lopez", "Mertens", "Neri", "Osman", "Perez", "Roth", "Sato"),
        *("Thoma", "Ulrich", "Vidal", "Wolf", "Yamada", "Zorn"),
    ),
    "service": (
        *("north", "south", "garden", "river", "harbour", "museum", "library", "campus"),
        *("airport", "market", "forest", "castle", "stadium", "village", "theatre", "chapel"),
    ),
    "kind": ("printer", "kiosk", "terminal", "scanner", "heater", "lift", "camera", "cafeteria"),
    "city": ("Basel", "Turin", "Bergen", "Leeds", "Malmo", "Nice", "Seville", "Tallinn", "Vilnius"),
    "colour": ("blue", "red", "green", "beige", "violet", "brown", "turquoise"),
    "company": ("Nordwind", "Bluestone", "Vertigo Labs", "Quantis", "Halden", "Orbitec"),
    "tool": ("Visa", "Mistral", "Lumen", "Pioneer", "Zephyr", "Atlas"),
    "system": ("Ubuntu 22.04", "Ubuntu 24.04", "Debian 12", "Debian 11", "Windows 11"),
    "instrument": ("piano", "cello", "flute", "harp", "trumpet"),
    "door": ("open", "closed"),
    "id": ("K-{n}", "msg.{n}", "X{n}Z", "P{n}"),
}

HELD_OUT = Phrases(SAYINGS, FACTS, MANY, PREFIXES, SYNONYMS, POOLS)
