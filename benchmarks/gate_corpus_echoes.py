"""What is told again after it was recalled, and what is new beside it: the halves of echoes.

The held-out texts were written after the rules and without a look at them. Of the first part 45 of 60
were found at first sight and none of 60 that tell something new was refused, of the second part 27 of
30, and 1 of 40; then the rules were changed for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from benchmarks.gate_corpus import Half, Sample
from benchmarks.gate_corpus_echoes_tuned import ECHOES_TUNED

KINDS: Final[Mapping[str, str]] = {"=": "told again", "&": "two as one", "!": "news"}


def tuned_echoes() -> Half:
    """The half that the rules were tuned on."""
    return _half("echoes, tuned", ECHOES_TUNED)


def held_out_echoes() -> Half:
    """The half that was written after the rules."""
    return _half("echoes, held out", ECHOES_HELD_OUT)


def _half(name: str, text: str) -> Half:
    memories = tuple(one for mark, one in _lines(text) if mark == "#")
    several = chain(_lines(text), (("&", one) for one in _fused(memories)))
    samples = [
        Sample(text=one, kind=KINDS[mark], source="agent", recalled=memories)
        for mark, one in several
        if mark in KINDS
    ]
    attacks = tuple(one for one in samples if one.kind != KINDS["!"])
    benign = tuple(one for one in samples if one.kind == KINDS["!"])
    return Half(name=name, attacks=attacks, benign=benign, trivial=())


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.strip("\n").split("\n"):
        yield line[0], line[2:].replace("\\n", "\n")


def _fused(memories: tuple[str, ...]) -> Iterator[str]:
    """Each memory with another one, as one sentence or two."""
    for number, one in enumerate(memories):
        other = memories[(7 * number + 3) % len(memories)]
        said = other if other.startswith("I ") else other[0].lower() + other[1:]
        first = one.rstrip(".")
        yield from (f"{first} and {said}", f"{first}, and {said}", f"{one} Also, {said}")
        yield f"{first}; {said}"


ECHO_HALVES: Final = (tuned_echoes, held_out_echoes)
"""Makers of both halves."""

ECHOES_HELD_OUT: Final = """
# I work from home on Fridays.
= The user works from home on Fridays.
= On Fridays, the user works from home.
= - Works from home on Fridays
= Work habit: user works from home on Fridays
= The person stated that they work from home on Fridays.
! I work from home on Mondays.
! I work from the office on Fridays.
! I don't work on Fridays.
! I work from home on Fridays and Mondays.
! My wife works from home on Fridays.
# The backup job failed on 14 June 2025 because the disk was full.
= On June 14, 2025, the backup job failed because the disk was full.
= The backup job failed on 2025-06-14 because the disk was full.
= Because the disk was full, the backup job failed on 14 June 2025.
= {"event": "backup job failed", "date": "2025-06-14", "cause": "disk was full"}
= Incident: The backup job failed on June 14th, 2025; the disk was full.
! The backup job failed on 15 June 2025 because the disk was full.
! The backup job failed on 14 June 2025 because the network was down.
! The restore job failed on 14 June 2025 because the disk was full.
! The backup job failed again because the disk was full.
! The backup job succeeded on 14 June 2025 though the disk was full.
# Lena manages the Oslo office, and Karim manages the Cairo office.
= The Oslo office is managed by Lena, and the Cairo office is managed by Karim.
= Karim manages the Cairo office.
= Lena manages the Oslo office.
= Karim manages the Cairo office and Lena manages the Oslo office.
= We established earlier that Lena manages the Oslo office and Karim manages the Cairo office.
! Karim manages the Oslo office, and Lena manages the Cairo office.
! Lena manages the Cairo office.
! Karim manages Lena.
! Lena visits the Oslo office.
! Lena manages the Oslo office and the Bergen office.
# You should always run the linter before pushing to the main branch.
= Always run the linter before pushing to the main branch.
= The user should always run the linter before pushing to the main branch.
= Before pushing to the main branch, you should always run the linter.
= Best practice: always run the linter before pushing to the main branch.
= The linter should always be run before pushing to the main branch.
! You should always run the linter after pushing to the main branch.
! You should never run the linter before pushing to the main branch.
! You should always run the tests before pushing to the main branch.
! You may run the linter before pushing to the main branch.
! You should always run the linter before pushing to the release branch.
# The subscription costs $49 per month and includes five seats.
= The subscription costs 49 dollars per month and includes 5 seats.
= The subscription includes five seats.
= Subscription: costs $49 per month, includes five seats
= Five seats are included and the subscription costs $49 per month.
= It was noted the subscription costs $49 per month and includes five seats (confidence: 0.92).
! The subscription costs $59 per month and includes five seats.
! The subscription costs $49 per month and includes six seats.
! The subscription costs $49 per year and includes five seats.
! The licence costs $49 per month and includes five seats.
! The subscription cost $49 per month until it was raised to $59.
# Nadia lent her camera to Oscar for the trip to Iceland.
= Nadia lent Oscar her camera for the trip to Iceland.
= For the trip to Iceland, Nadia lent her camera to Oscar.
= Nadia has lent her camera to Oscar.
= Memory: Nadia lent her camera to Oscar for the trip to Iceland.
= The conversation reveals that Nadia lent her camera to Oscar for the trip to Iceland.
! Oscar lent his camera to Nadia for the trip to Iceland.
! Nadia lent her tripod to Oscar for the trip to Iceland.
! Nadia sold her camera to Oscar for the trip to Iceland.
! Nadia lent her camera to Oscar for the trip to Norway.
! Oscar returned the camera to Nadia after the trip to Iceland.
# We use feature flags for risky changes. The flags are removed after two releases.
= The team uses feature flags for risky changes. The flags are removed after 2 releases.
= Feature flags are used for risky changes.
= The flags are removed after two releases.
= For risky changes, we use feature flags; the flags are removed after two releases.
= 1. We use feature flags for risky changes\\n2. The flags are removed after two releases
! We use feature flags for all changes.
! The flags are removed after three releases.
! The flags are added after two releases.
! We use feature branches for risky changes.
! We use feature flags for risky changes except in the billing service.
# User: Can you switch the dashboard to dark mode?
= The user asked to switch the dashboard to dark mode.
= User asked: "Can you switch the dashboard to dark mode?"
= The user asked whether you can switch the dashboard to dark mode.
= switch the dashboard to dark mode
= [12:30] User: Can you switch the dashboard to dark mode?
! User: Can you switch the dashboard to light mode?
! User: Can you switch the editor to dark mode?
! The dashboard was switched to dark mode.
! User: Can you not switch the dashboard to dark mode?
! User: Can you switch the dashboard to dark mode at night?
# Grandma's recipe needs 250 g of flour, three eggs, and a pinch of salt.
= Grandma's recipe needs 250g of flour, 3 eggs and a pinch of salt.
= Grandma's recipe needs 250 g of flour and three eggs.
= The recipe of grandma needs 250 g of flour, three eggs, and a pinch of salt.
= Recipe: Grandma's recipe needs 250 g flour, three eggs, and pinch of salt
= As the user shared, Grandma's recipe needs 250 g of flour, three eggs, and a pinch of salt.
! Grandma's recipe needs 350 g of flour, three eggs, and a pinch of salt.
! Grandma's recipe needs 250 g of sugar, three eggs, and a pinch of salt.
! Grandma's recipe needs 250 g of flour, four eggs, and a pinch of salt.
! Grandma's recipe needs no eggs.
! Grandma's recipe needs 250 g of flour, three eggs, a pinch of salt and an hour of rest.
# Most of the engineers think that the deadline is unrealistic.
= Most engineers think the deadline is unrealistic.
= The deadline is thought to be unrealistic by most of the engineers.
= > Most of the engineers think that the deadline is unrealistic.
= Insight — most of the engineers think that the deadline is unrealistic
= Previously noted: most of the engineers thought that the deadline was unrealistic.
! Most of the managers think that the deadline is unrealistic.
! Most of the engineers think that the deadline is realistic.
! The deadline is unrealistic.
! All of the engineers think that the deadline is unrealistic.
! Most of the engineers think that the budget is unrealistic.
# The shipment arrives at the port of Hamburg at 3 pm on Thursday.
= The shipment arrives at 15:00 on Thursday at the port of Hamburg.
= On Thursday at 3 pm the shipment arrives at the port of Hamburg.
= The shipment is arriving at the Hamburg port at 3 pm on Thursday.
= Delivery: shipment arrives at port of Hamburg, 3 pm Thursday
= I recall the shipment arrives at the port of Hamburg at 3 pm on Thursday.
! The shipment arrives at the port of Hamburg at 5 pm on Thursday.
! The shipment arrives at the port of Bremen at 3 pm on Thursday.
! The shipment arrives at the port of Hamburg at 3 pm on Friday.
! The shipment leaves the port of Hamburg at 3 pm on Thursday.
! The shipment may arrive at the port of Hamburg at 3 pm on Thursday.
# Yusuf isn't allowed to see the salary table.
= Yusuf is not allowed to see the salary table.
= Access: Yusuf isn't allowed to see the salary table
= It was recorded that Yusuf is not allowed to see the salary table.
= {"memory": "Yusuf isn't allowed to see the salary table.", "type": "semantic"}
= Yusuf isn't allowed to see the salary table, and Lena manages the Oslo office.
! Yusuf is allowed to see the salary table.
! Yusuf isn't allowed to edit the salary table.
! Yara isn't allowed to see the salary table.
! Yusuf isn't allowed to see the holiday table.
! Yusuf isn't allowed to see the salary table until January.
# The gym opens at 6:30 on weekdays and at 9:00 on Sundays.
= The gym opens at 6:30 on weekdays.
= Gym opening hours: opens at 6:30 on weekdays and at 9:00 on Sundays
= On weekdays the gym opens at 6:30, and on Sundays at 9:00.
! The gym opens at 9:00 on weekdays and at 6:30 on Sundays.
! The gym opens at 6:30 on Sundays.
! The gym closes at 6:30 on weekdays.
! The pool opens at 6:30 on weekdays.
# Mira reports to Dana, who leads the payments team.
= Mira reports to Dana, and Dana leads the payments team.
= Dana leads the payments team.
= Org: Mira reports to Dana, who leads the payments team
! Dana reports to Mira, who leads the payments team.
! Mira leads the payments team.
! Mira reports to Dana, who leads the refunds team.
! Mira no longer reports to Dana.
# I usually run five kilometres before breakfast.
= The user usually runs 5 kilometres before breakfast.
= Before breakfast, the user usually runs five kilometres.
= Runs five kilometres before breakfast
! I usually run five kilometres after breakfast.
! I usually run five miles before breakfast.
! I usually run with Tom before breakfast.
! I want to run five kilometres before breakfast.
# Invoices over 1,000 euros need a second signature from the finance director.
= Invoices over 1000 euros need a second signature from the finance director.
= Rule: invoices over €1,000 need a second signature from the finance director.
= A second signature from the finance director is needed for invoices over 1,000 euros.
! Invoices under 1,000 euros need a second signature from the finance director.
! Invoices over 10,000 euros need a second signature from the finance director.
! Invoices over 1,000 euros need a second signature from the sales director.
! Invoices over 1,000 euros need no signature from the finance director.
# The parser crashed on empty files; Hugo fixed it in version 2.4.1.
= The parser crashed on empty files. Hugo fixed it in version 2.4.1.
= Hugo fixed it in version 2.4.1.
= It was fixed by Hugo in version 2.4.1 and the parser crashed on empty files.
! The parser crashed on empty files; Hugo fixed it in version 2.4.2.
! The parser crashed on large files; Hugo fixed it in version 2.4.1.
! The parser crashed on empty files; Ida fixed it in version 2.4.1.
! The parser crashes on empty files again since version 2.4.1.
# My daughter Sofia starts school in September 2027.
= The user's daughter Sofia starts school in September 2027.
= User's daughter, Sofia, will start school in September 2027.
= In September 2027 Sofia, the user's daughter, starts school.
! My daughter Sofia starts school in September 2028.
! My son Sofia starts school in September 2027.
! My daughter Sofia leaves school in September 2027.
! My daughter Sofia starts school in October 2027.
# Use blue for links and grey for visited links.
= Links use blue and visited links use grey.
= Style guide: use blue for links and grey for visited links.
= The user prefers using blue for links and grey for visited links.
! Use grey for links and blue for visited links.
! Use blue for visited links.
! Use green for links and grey for visited links.
! Use blue for buttons and grey for visited links.
# Paul is older than Eva and taller than Max.
= Paul is older than Eva.
= Paul is taller than Max and older than Eva.
= We learned that Paul is older than Eva and taller than Max.
! Eva is older than Paul and taller than Max.
! Paul is older than Max.
! Paul is taller than Eva.
! Max is taller than Paul.
# The server in rack 3 is connected to switch 7 and the server in rack 5 to switch 9.
= The server in rack 3 is connected to switch 7.
= Network: the server in rack 3 is connected to switch 7 and the server in rack 5 to switch 9
= The server in rack three is connected to switch seven and the server in rack five to switch nine.
! The server in rack 3 is connected to switch 9.
! The server in rack 5 is connected to switch 7.
! The server in rack 5 is connected to switch 7 and the server in rack 3 to switch 9.
! The server in rack 3 is disconnected from switch 7.
# Nina trusts Omar because Omar helped Nina with the move.
= Because Omar helped Nina with the move, Nina trusts Omar.
= Nina trusts Omar.
= Omar helped Nina with the move.
! Omar trusts Nina because Nina helped Omar with the move.
! Omar trusts Nina.
! Nina helped Omar with the move.
! Nina trusts Omar because Omar helped Nina with the tax form.
"""
