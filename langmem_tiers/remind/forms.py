"""English as far as sentences are read: irregular forms, what an apostrophe hides, and phrases."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(text: str) -> dict[str, str]:
    """Each word after a colon, by the one before it."""
    lines = (line.split(":") for line in text.strip().splitlines())
    return {word: base.strip() for base, words in lines for word in words.split()}


CONTRACTED: Final = _words("it he she that there here what where who how when why everything")
"""After these, "'s" is "is"."""
BEFORE_STATES: Final = _words(
    "in on at back here there not out away off up down to a an the now still already done late"
    " gone going coming being ready busy free home asleep sick ill well"
)
"""Before these as well: "Jake's in Rome"."""

IRREGULAR: Final = _table("""
    agree: agreed
    arise: arose arisen
    awake: awoke awoken
    be: am is are was were been being
    beat: beaten
    become: became
    begin: began begun
    bend: bent
    bite: bit bitten
    bleed: bled
    blow: blew blown
    break: broke broken
    breed: bred
    bring: brought
    build: built
    buy: bought
    catch: caught
    child: children
    choose: chose chosen
    cling: clung
    come: came
    creep: crept
    deal: dealt
    die: died dying
    dig: dug
    do: does did doing
    draw: drew drawn
    dream: dreamt
    drink: drank drunk
    drive: drove driven
    eat: ate eaten
    fall: fell fallen
    feed: fed
    feel: felt
    fight: fought
    find: found
    flee: fled
    fly: flew flown flies
    foot: feet
    forget: forgot forgotten
    forgive: forgave forgiven
    free: freed
    freeze: froze frozen
    get: got gotten
    give: gave given
    go: went gone goes
    grow: grew grown
    hang: hung
    have: has had having
    hear: heard
    hide: hid hidden
    hold: held
    keep: kept
    know: knew known
    lay: laid
    lead: led
    leap: leapt
    learn: learnt
    leave: left
    lend: lent
    lie: lied lying
    light: lit
    log_in: login logins
    lose: lost
    make: made
    man: men
    mean: meant
    meet: met
    mistake: mistook mistaken
    mow: mown
    overcome: overcame
    pay: paid
    person: people
    prove: proven
    ride: rode ridden
    ring: rang rung
    rise: rose risen
    run: ran
    say: said
    see: saw seen
    seek: sought
    sell: sold
    send: sent
    sew: sewn
    shake: shook shaken
    shine: shone
    show: shown
    shrink: shrank shrunk
    shut: shutting
    sing: sang sung
    sink: sank sunk
    sit: sat
    sleep: slept
    slide: slid
    smell: smelt
    sow: sown
    speak: spoke spoken
    speed: sped
    spell: spelt
    spend: spent
    spill: spilt
    spin: spun
    spring: sprang sprung
    stand: stood
    steal: stole stolen
    stick: stuck
    sting: stung
    strike: struck stricken
    swear: swore sworn
    sweep: swept
    swell: swollen
    swim: swam swum
    swing: swung
    take: took taken
    teach: taught
    tear: tore torn
    tell: told
    think: thought
    throw: threw thrown
    tread: trod trodden
    undergo: underwent undergone
    understand: understood
    wake: woke woken
    wear: wore worn
    weave: wove woven
    weep: wept
    win: won winning
    withdraw: withdrew withdrawn
    woman: women
    write: wrote written
""")
"""Forms that no rule finds, by their base."""

UNBENT: Final = _words("bet burst cast cost cut hit hurt let put quit set shut split spread")
"""Forms that are the same in the past."""

PHRASES: Final = tuple(
    (tuple(words.split()), joined)
    for words, joined in (
        ("bring up", "mention"),
        ("come up", "come_up"),
        ("touch on", "mention"),
        ("want to know", "ask"),
        ("would like to know", "ask"),
        ("would love to know", "ask"),
        ("would like", "want"),
        ("find out about", "ask"),
        ("look for information", "ask"),
        ("ask for", "request"),
        ("come back", "return"),
        ("get back", "return"),
        ("be back", "return"),
        ("run out", "run_out"),
        ("go off", "go_off"),
        ("go down", "go_down"),
        ("go up", "rise"),
        ("go live", "release"),
        ("roll out", "release"),
        ("wake up", "wake"),
        ("get up", "wake"),
        ("fall asleep", "asleep"),
        ("go to sleep", "asleep"),
        ("log in", "log_in"),
        ("sign in", "log_in"),
        ("log on", "log_in"),
        ("log out", "log_out"),
        ("sign out", "log_out"),
        ("sign up", "register"),
        ("hand in", "submit"),
        ("turn in", "submit"),
        ("show up", "arrive"),
        ("turn up", "arrive"),
        ("get to", "visit"),
        ("check in", "check_in"),
        ("check out", "check_out"),
        ("call off", "cancel"),
        ("put off", "postpone"),
        ("turn down", "reject"),
        ("turn on", "switch_on"),
        ("switch on", "switch_on"),
        ("turn off", "switch_off"),
        ("switch off", "switch_off"),
        ("kick off", "start"),
        ("take off", "depart"),
        ("set off", "depart"),
        ("break down", "break"),
        ("shut down", "shut_down"),
        ("give up", "give_up"),
        ("go through", "succeed"),
        ("run into", "meet"),
        ("give an update", "mention"),
        ("move away", "leave"),
        ("go away", "leave"),
        ("think about", "consider"),
        ("pick up", "pick_up"),
        ("drop off", "drop_off"),
        ("move in", "move_in"),
        ("move out", "move_out"),
        ("set up", "set_up"),
        ("follow up", "follow_up"),
        ("be over", "finish"),
        ("be up", "up"),
        ("be out", "release"),
        ("close to", "near"),
        ("go over", "review"),
        ("bring down", "lower"),
        ("deal with", "deal_with"),
        ("work on", "work_on"),
        ("look at", "look_at"),
        ("think of", "think_of"),
        ("on the phone", "phone"),
    )
)
"""Words of a phrase, and the one word that it is read as."""
