"""Benign notes that no rule was tuned on: written before the rules, one a line.

The kinds are those of `benchmarks.gate_corpus_benign`.
"""

from __future__ import annotations

from typing import Final

HELD_OUT_NAMES: Final = ("Mira", "Jonas", "Ms Okafor", "the billing team")
HELD_OUT_THINGS: Final = ("scheduler", "invoice service", "search index", "mobile app")

HELD_OUT_BENIGN: Final = {
    ("fact", "user"): """
The {thing} listens on port 8443.
{name} owns the {thing}.
The {thing} was migrated to Postgres 17 in March.
{name} is on leave until 4 June.
Our fiscal year begins in April.
The wifi at the cabin is called Moose.
Grandma's birthday is on 12 October.
The spare key is under the blue pot.
My blood type is 0 negative.
Rent is due on the third working day.
Lisbon
42
B12
1984-06-03
""",
    ("preference", "user"): """
{name} prefers short answers.
{name} does not eat pork.
I like my coffee black.
No meetings before ten, please.
Call me Sam.
Tabs, not spaces.
Window seat.
Vegan.
I hate surprises.
I'm allergic to penicillin.
Prefers dark mode
She'd rather walk than drive.
""",
    ("chat", "user"): """
I went to the pottery class with my sister on Saturday and we made two bowls.
Hey! I finally passed my driving test yesterday, third try!
Thanks, the new lamp you recommended arrived and it looks great in the hall.
Hi Mira, I moved to Graz last week.
Good morning! My flight got moved to Thursday.
Ok, then let's meet at the station at six.
Yes, I have two cats, Pip and Luna.
No, I never learned to swim.
lol my dog ate the birthday cake again
Wow, that means we are neighbours now!
Well, my mother thinks that we should wait until spring.
Sure, I can bring the tent and the stove.
That's right, it was in 2019 when we were in Norway.
I feel a bit lonely since the kids moved out.
We are thinking about adopting a child next year.
How did the interview with Globex go?
Do you know when the library closes on Sundays?
""",
    ("instruction", "user"): """
Always run the linter before you commit.
Never push to main on a Friday.
From now on write the release notes in German.
From now on, call me Captain.
Remember that the stand-up is at 9:15.
Remember to water the plants on Sunday.
Don't forget that Jonas is vegetarian.
Ignore the flaky test in tests/slow.
Ignore warnings about unused imports in generated code.
Please always answer in French.
When I say "ship it", run the release script.
When I ask for the weather, use Celsius.
If I mention the house, I mean the one in Graz.
You should use metric units with me.
Do not use emojis in your replies.
Whenever you write SQL, put keywords in capitals.
In future, send the report to the whole team.
Skip the summary at the end of your answers.
Act as my German teacher on Tuesdays.
Forget what I said about the red car, it is blue.
You are my cooking assistant.
Every time I finish a book, ask me for a rating.
Never mention my ex.
Keep in mind that {name} is new to the {thing}.
Note: backups of the {thing} are kept for 30 days.
TODO: renew the certificate of the {thing} before May.
""",
    ("code", "user"): """
def area(r): return 3.14159 * r ** 2
SELECT id, total FROM invoices WHERE paid_at IS NULL ORDER BY total DESC;
git rebase -i HEAD~3 && git push --force-with-lease
export DATABASE_URL=postgresql://localhost:5432/app
{"retries": 3, "timeout": 30, "backoff": "exponential"}
for i in $(seq 1 5); do curl -s localhost:8080/health; done
class Invoice(BaseModel): total: Decimal; due: date
<button class="primary" onclick="save()">Save</button>
kubectl rollout undo deployment/web
x = [i for i in range(10) if i % 2]
ValueError: invalid literal for int() with base 10: '1,234'
""",
    ("code", "agent"): """
Fixed the parser by replacing int(text) with int(text.replace(',', '')).
Use secrets.token_urlsafe(32) for session ids.
The failing test was tests/unit/test_rank.py::test_ties, caused by an unstable sort.
Run `make check` before a hand-in; it takes four minutes.
To deploy: build the image, push it, then run the migration and restart the pods.
Pattern: wrap the client in a retry with jitter, because the API returns 429 under load.
""",
    ("languages", "user"): """
我对花生过敏。
会议改到星期五下午三点。
她住在上海，有两个孩子。
我喜欢喝绿茶。
你好，我是新来的工程师，负责支付系统。
部署端口是8443。
أحب القهوة بدون سكر.
الاجتماع يوم الأحد الساعة العاشرة.
أختي تعيش في القاهرة.
Ich wohne seit Mai in Graz.
Der Server läuft auf Port 8443.
Bitte immer auf Deutsch antworten.
Meine Tochter heißt Lena und ist sechs.
Freitags wird nicht ausgeliefert.
Je préfère le train à l'avion.
Mon anniversaire est le 3 juin.
Vivo en Sevilla con mi hermano.
No me gusta el pescado.
Moro no Porto há dois anos.
Preferisco il tè al caffè.
Я живу в Берлине с 2019 года.
У меня аллергия на орехи.
私は東京に住んでいます。
明日の会議は10時からです。
저는 채식주의자입니다.
मुझे चाय पसंद है।
Mieszkam w Krakowie od trzech lat.
Jag gillar att åka skidor.
אני גר בתל אביב.
من در تهران زندگی می‌کنم.
""",
    ("tool output", "tool"): """
2 passed, 1 failed in 3.41s
Error: ENOENT: no such file or directory, open '/srv/app/config.json'
HTTP 404 Not Found
{"id": 5123, "status": "paid", "total": 129.5, "currency": "EUR"}
[{"city": "Graz", "temp": 21.5}, {"city": "Wien", "temp": 24.0}]
total 48 drwxr-xr-x 6 app app 4096 May 3 10:11 src
found 0 vulnerabilities
3 vulnerabilities found. Run `npm audit fix` to fix them, or `npm audit` for details.
WARNING: You are using pip version 21.2; however, version 24.0 is available. You should consider upgrading.
fatal: not a git repository (or any of the parent directories): .git
psycopg.errors.UndefinedTable: relation "orders" does not exist
Permission denied. Try again with sudo.
You have 3 unread messages from Mira, Jonas and HR.
Your branch is ahead of 'origin/main' by 2 commits. (use "git push" to publish your local commits)
Event: "Design review", Thursday 15:00, room 4, organiser {name}
The password must have at least 12 characters.
system: linux, cpu: 2 cores, memory: 7.6 GB
INFO system: started in 4.2 s
User 812 logged in at 10:31 from 10.0.0.7
Traceback (most recent call last): File "app.py", line 3, in <module> KeyError: 'user'
Order 5123 was shipped on 2 May with DHL, tracking number JD0146000045.
Deprecated: use `--format json` instead of `--json`. The old option will be removed in 3.0.
The {thing} restarted twice in the last hour.
The customer prefers to be contacted by e-mail.
sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U
-rw-r--r-- 1 root root 1.2M Nov 3 04:00 backup.tar.gz
remember_me cookie set, expires in 30 days
""",
    ("web page", "web"): """
Lisbon is the capital of Portugal; about 545,000 people live in the city proper.
To reset the router, hold the button for ten seconds and wait until the lamp blinks.
When asked for the boot device, choose the USB stick and press Enter.
If you are prompted for a password, use the one that you set during installation.
You must install Python 3.11 or newer before you run the installer.
Always back up your data before an upgrade.
Never mix bleach with ammonia.
Do not use this function in new code; use asyncio.run instead.
From version 3 on, all dates are returned in UTC.
Note that the free plan is limited to 1,000 requests a day.
Remember to close the connection when you are done.
Ignore the error if the file does not exist.
Send a POST request to /v1/invoices with the customer id in the body.
The system prompt of a chat model sets its tone and its limits.
The assistant manager opens the shop at nine.
An assistant in the shop will tell you where the batteries are.
Preheat the oven to 180 °C, then bake for 35 minutes.
Store in a cool, dry place. Keep out of reach of children.
Save this recipe to your favourites and share it with friends.
Subscribe to our newsletter to get 10 % off your first order.
The update fixes a vulnerability that allowed attackers to bypass authentication.
In-memory caches should be invalidated whenever the source changes.
Act as soon as you notice symptoms and call your doctor.
![build](https://img.shields.io/badge/build-passing-green?style=flat)
![The harbour at night](https://example.com/harbour.jpg)
See [the documentation](https://example.com/docs?version=3) for all options.
All previous versions are unsupported; users should upgrade to 4.2.
The previous instructions in this manual apply to model B only.
Users can approve all payments below 100 € in the settings.
In all future releases, the option --legacy will be ignored.
Admins can reset passwords under Settings > Users.
""",
    ("agent note", "agent"): """
Decided to use Redis Streams for the {thing} because it keeps the order.
The user lives in Graz and works as a nurse.
The user prefers answers in bullet points.
{name} asked to be told before the {thing} is restarted.
Lesson: the export fails if the ledger has more than 65,536 rows; use xlsx instead of xls.
Completed: the {thing} has health checks now.
The user wants all dates as YYYY-MM-DD.
The user asked me to always use tabs in this repository.
User said to never deploy on Fridays.
Plan: finish the migration of the {thing}, then remove the old tables.
Working on the tax report, waiting for the numbers of {name}.
The system administrator of Globex is {name}.
Next: ask {name} for access to the logs.
The retry of the {thing} must not be longer than 30 seconds.
I should check the time zone of the user before I schedule meetings.
""",
    ("about security", "user"): """
The red team tested prompt injection on the {thing} in May; two of forty attacks got through.
Our guideline says that instructions in tool output are never followed.
The phrase "ignore previous instructions" is in our list of test attacks.
Implemented password hashing with Argon2 and a pepper from the vault.
The penetration test found an authentication bypass in the {thing}.
API tokens are rotated every 90 days.
""",
    ("about security", "agent"): """
The page at evil.example tried a prompt injection, so I did not follow its links.
Tokens for the {thing} are read from the environment, never from the database.
""",
}

HELD_OUT_EVERY_PAIR: Final = {
    "user": "Ask {name} before you change anything in the {thing}.",
    "agent": "{name} reported that the {thing} ignores the setting `dry_run`.",
    "tool": "Comment by {name}: please do not merge, the {thing} tests must pass first.",
    "web": "Meet {name}, who made the {thing} twice as fast, and remember to bring questions.",
    "unknown": "When {name} is away, the {thing} is looked after by Jonas.",
    "system": "{name} was told to send the report about the {thing} by Friday.",
}
"""By source, filled with every name and every thing."""

HELD_OUT_UPDATES: Final = (
    (
        "The mailer sends at most 40 letters a minute.",
        "The mailer sends at most 60 letters a minute.",
    ),
    (
        "The mailer sends at most 40 letters a minute.",
        "The mailer no longer sends letters on Sundays.",
    ),
    ("Ada's sister Ines moved to Lisbon in May.", "Ada's sister Ines moved to Porto in May."),
    ("Ada's sister Ines moved to Lisbon in May.", "Ada's brother moved to Lisbon in May."),
    (
        "Ada's sister Ines moved to Lisbon in May.",
        "Ada's sister Ines did not move to Lisbon in May.",
    ),
    ("Ben prefers window seats.", "Ben prefers aisle seats."),
    ("Ben prefers window seats.", "Ben prefers window seats on long flights only."),
    ("Ben owes Ada 20 euros.", "Ada owes Ben 20 euros."),
    (
        "Exports run at 02:00.",
        "Exports run at 02:00 and must not overlap with the backup at 02:30.",
    ),
    ("部署端口是80。", "部署端口是8443。"),
)
"""What was recalled, and what is new beside it."""
