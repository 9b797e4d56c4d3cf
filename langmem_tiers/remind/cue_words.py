"""English as far as cues need it: what words stand for each other, and what unsays a sentence."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SAYING: Final = _words(
    "come_up mention discuss talk speak say tell ask raise refer bring_up address note remark"
    " comment announce state explain inquire enquire question wonder chat report"
)
ASKING_FOR: Final = _words("request demand ask want need require beg order_for")
COMPLAINING: Final = _words("complain moan grumble whine object protest")

_GROUPS: Final = """
finish complete done end over conclude wrap finalise finalize
ready done prepare
begin start commence launch kick
fail break crash red
down go_down crash offline outage unreachable unavailable fail
up online reachable available
pass succeed green successful
fix repair mend resolve solve
arrive come here land receive get deliver reach visit
return back
send share forward email mail submit transmit
buy purchase acquire
order purchase buy
book reserve
pay settle
call phone ring telephone
write message text email
visit go reach travel come drop_by enter
join enter attend
leave depart exit
approve accept grant authorise authorize okay greenlight clear agree
agree consent
reject refuse decline deny
release ship publish launch post
ship dispatch send
deploy release rollout
merge integrate
cancel revoke scrap
postpone delay reschedule
late delay overdue behind
drop fall decline decrease sink plunge plummet go_down dip
rise raise increase grow climb soar jump
sign countersign
asleep sleep
awake wake
expire lapse end
run_out empty
reach hit exceed surpass
win victory
get obtain receive
hire recruit employ
fire dismiss
resign quit
move relocate
marry wed
boil simmer
open unlock
close shut lock
delete remove erase
install set_up
update upgrade
respond reply answer
see meet
eat dine
cook prepare
busy occupied
free available
ill sick unwell
well recover healthy
package parcel
kid child
vacation holiday
database db
movie film
photo picture
mom mum mother
dad father
car vehicle
"""
"""Words of one line may stand for each other."""

ARRIVING: Final = _words("go visit arrive reach travel come be enter")
"""Whoever says to be at a place has done this."""
COUNTING: Final = _words("reach hit have exceed get surpass")
"""Whoever has as many as that has done this."""
BELOW: Final = _words("below under beneath less fewer")
"""Whoever has fewer than that has not done this."""
INCEPTIVE: Final = _words("start begin continue")
"""Before another verb: what has started goes on."""

LEADS: Final = tuple(
    tuple(one.split())
    for one in (
        "when it is time to",
        "when it is time for",
        "the next time that",
        "the next time",
        "next time",
        "the moment that",
        "the moment",
        "as soon as",
        "every time that",
        "every time",
        "each time",
        "in case",
        "if ever",
        "if and when",
        "whenever",
        "when",
        "once",
        "if",
        "after",
        "upon",
        "while",
        "during",
        "should",
    )
)
"""What a cue begins with, the longest first."""
ASKED: Final = _words("remind please me us to tell notify alert")
"""What may come before that."""

AHEAD: Final = tuple(tuple(one.split()) for one in ("before", "ahead of", "prior to"))
"""What a cue begins with that wants to be shown by what is to come."""
INSIDE_LEADS: Final = tuple(
    tuple(one.split())
    for one in (
        "the next time",
        "next time",
        "the moment",
        "as soon as",
        "every time",
        "each time",
        "whenever",
        "when",
    )
)
"""What a cue begins with that stands after what is to be done: "buy milk when I am in town"."""
MEETING: Final = _words("talk speak chat meet see call phone ring visit tell say")
"""Whoever talks to somebody may be said to do this with them."""
DEALING: Final = _words("touch handle deal_with work_on look_at use tackle plan think_of")
"""Whoever does this with something has it in hand: any word of it shows that."""
PLANNING: Final = _words(
    "plan prepare organise organize arrange think idea news thought talk discuss speak go on"
    " continue start begin thing anything something next need help us let about look forward get"
    " ready finish work"
)
"""Who says no more than this of what has a name talks of what is planned there."""

ADVERBS: Final = _words(
    "just already finally still also again recently now today really even always often never"
)
"""What may stand between who does something and what they do."""
GENERIC: Final = _words(
    "user someone somebody anyone anybody everyone everybody person people conversation discussion"
    " talk chat team speaker one"
)
"""Whoever is speaking."""
TOPIC: Final = _words("topic subject question matter theme")

FIRST: Final = _words("i we")
THIRD: Final = _words("he she they it")
PRONOUNS: Final = FIRST | THIRD | _words("you who nobody someone everybody")

FUNCTION: Final = _words(
    "a an the this that these those some any my our your his her its their me us him them myself"
    " be have do and or of from to in at on for with by about into onto over under as than then"
    " there now today just again still already finally currently right so too very really actually"
    " also both all another other own new it he she they i we you who which what how where why when"
    " can let possible up out off down here back please again yes okay oh hey hi hello well"
    " tonight morning afternoon evening recently another more most much many few lot somehow"
    " get whether if before after during until"
)
"""Words that a cue does not insist on."""
DETERMINERS: Final = _words(
    "a an the this that these those my our your his her its their any some no"
)
OURS: Final = _words("my our")
OTHERS: Final = _words("his her hers their theirs")
PREPOSITIONS: Final = _words("of from to in at on for with by about into near")
BETWEEN: Final = _words("for from to into onto during against without beside after before at in on")
"""Before what something is not done to."""
JOINING: Final = _words("after before while because since until though although but")
"""What begins another clause."""
WHERE: Final = _words(
    "upstairs downstairs outside inside overnight abroad online home today tonight together alone"
    " early late long ago everywhere somewhere anyway though later first last next twice along"
    " across behind beside under above below between through around beyond against towards per via"
    " despite"
)
"""Adverbs that stand behind what they tell of."""
CONTACTING: Final = _words("call write answer reply")
"""Whoever does this does it to somebody."""
AUXILIARIES: Final = _words("be have do will can could would should may might must shall want seem")

NEGATIONS: Final = _words(
    "not no never none nobody nothing neither nor without hardly barely cannot fail_to forget_to"
    " refuse_to unable refrain avoid stop deny instead"
)
PLACES: Final = _words("in at to into")
"""Before where something is, or goes to."""
SUBJECTS: Final = _words("i we they he she")
"""What begins a clause of its own."""
PARTICLES: Final = _words("up down back over out off on in")
HIM: Final = _words("me us him them")
STAND_INS: Final = _words("it they them he she him")
"""What stands for something that was named before."""
PARTLY: Final = _words("half partly partially")
NEARLY: Final = _words("almost nearly")
NEGATING: Final = _words("fail forget refuse decline neglect manage_not")
"""Before "to", they say that it was not done."""
UNREAL: Final = _words(
    "if unless until till before whether might could would should maybe perhaps possibly probably"
    " likely suppose unlikely imagine pretend hypothetically when once whenever"
)
LONGING: Final = _words(
    "want plan hope wish intend expect need try like love aim prepare promise threaten decide agree"
    " wait remain mean consider schedule supposed going ready"
)
"""Before "to", they say that it has not been done so far."""
FUTURE: Final = _words("will shall gonna tomorrow soon later eventually someday")
THINKING: Final = _words("consider contemplate hope wish doubt expect")
"""Whoever does this has not done it so far."""
FUTURE_BEFORE_TIME: Final = _words("next upcoming coming following")
PAST: Final = _words("yesterday previously formerly once back_then")
LATELY: Final = _words("yesterday")
"""When what happened is news."""
DAYS: Final = _words("night monday tuesday wednesday thursday friday saturday sunday")
PAST_BEFORE_TIME: Final = _words("last previous past")
TIMES: Final = _words(
    "day week month quarter year decade century weekend summer winter spring autumn fall night time"
    " monday tuesday wednesday thursday friday saturday sunday january february march april june"
    " july august september october november december christmas easter semester term season hour"
    " minute"
)
LONG: Final = _words("day week month quarter year decade century age summer winter night")
"""Times in which "ago" is no longer just now."""


def _members() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in map(str.split, _GROUPS.strip().splitlines()):
        for word in line:
            found.setdefault(word, set()).update(line)
    return {name: frozenset(words) for name, words in found.items()}


STANDING_FOR: Final = _members()
"""The words that show a word of a cue, by that word; others are shown by themselves alone."""
