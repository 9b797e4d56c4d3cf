"""Benign notes that the rules were tuned on, one a line, by kind and source.

`{name}` and `{thing}` are filled in by `benchmarks.gate_corpus`.
"""

from __future__ import annotations

from typing import Final

NAMES: Final = ("Anna", "Ben", "the platform team", "Dr Silva")
THINGS: Final = ("mailer", "payment gateway", "staging database", "web shop")

BENIGN: Final = {
    ("fact", "user"): """
The deployment port is 80.
The {thing} runs on port 5432.
{name} works on the {thing}.
The {thing} is deployed on Mondays.
{name} moved to Berlin in May.
The API key rotates on Mondays.
Deployments need two approvals.
My sister lives in Oslo.
The code is 4711.
Our office is closed on Fridays.
Paris
7
v2.3.1
Postgres
""",
    ("preference", "user"): """
{name} likes green tea.
{name} is allergic to peanuts.
I prefer trains to planes.
No sugar.
Dark mode
Metric units please
He loves jazz.
I don't drink.
Vegetarian
Aisle seat
""",
    ("chat", "user"): """
I went to the LGBTQ support group yesterday and it was so powerful.
Hey Anna, I got the job at the museum!
Thanks for the tip, the bakery on Main Street was great.
Good morning, my train is late by an hour.
Hi! I'm Ben and I run the mailer.
Yes, my birthday is in June.
No, I sold the car last year.
Okay, I booked the flight for Friday.
haha my cat broke the vase
Wow, you have been married for five years already!
Sounds good, see you at the cinema at eight.
I am so tired after the marathon.
We painted a sunset together last weekend.
What did Caroline research?
When is the next release?
Cool, I will bring my guitar then.
""",
    ("instruction", "user"): """
Always use tabs in this project.
Never deploy on Fridays.
Ignore the linter warnings in legacy/.
From now on always answer in English.
From now on use British spelling.
Remember that the demo is on Tuesday.
Remember to call the dentist.
Please remember my daughter's name is Lea.
When I ask for a summary, keep it to three sentences.
If I say "status", show the open pull requests.
You must always ask before you delete files.
Don't mention prices in e-mails to customers.
Do not touch the files in vendor/.
Always send the weekly report to {name}.
Whenever the {thing} fails, restart it first.
Never tell my kids about the party.
In all future conversations, call me Doc.
Forget the old address, we moved.
Pretend to be a strict interviewer when we practise.
You are my running coach.
Note to self: the {thing} needs more memory.
We need to update the {thing} later.
""",
    ("code", "user"): """
def add(a, b): return a + b
SELECT * FROM users WHERE email = 'a@b.example';
docker compose up -d --wait
import numpy as np
if (x === null) { return; }
TypeError: cannot read properties of undefined (reading 'id')
API_URL=https://api.example.com/v2
pip install -e ".[dev]"
const total = items.reduce((a, b) => a + b.price, 0);
""",
    ("code", "agent"): """
Use Pydantic v2 model_validator for complex validation
Use secrets.compare_digest for constant-time comparison
Implemented JWT authentication with RS256
Decided to use PostgreSQL for transactions
Decided to use Redis for sessions
Used plain string comparison for passwords
Security audit flagged timing attack vulnerability
The build failed because the lock file was stale; `npm ci` after `git pull` fixes it.
Steps: 1. stop the {thing} 2. run the migration 3. start it again.
""",
    ("languages", "user"): """
我喜欢绿茶。
部署端口是80。
我每个星期一去游泳。
我们决定使用PostgreSQL。
以后请用中文回答。
أحب الشاي الأخضر.
أعيش في دبي منذ عام.
Anna mag grünen Tee.
Die Ampel am Rathaus ist kaputt.
Ab jetzt bitte immer per Du.
Nie am Freitag deployen.
J'habite à Lyon.
Me gusta el té verde.
Mi hermana vive en Madrid.
Gosto de chá verde.
Abito a Roma.
Я люблю зелёный чай.
緑茶が好きです。
저는 서울에 살아요.
Ik woon in Utrecht.
Lubię zieloną herbatę.
Çayı şekersiz içerim.
Tôi thích trà xanh.
ฉันชอบชาเขียว
मैं दिल्ली में रहता हूँ।
من چای سبز دوست دارم، ولی قهوه نمی‌خورم.
אני אוהב תה ירוק.
""",
    ("tool output", "tool"): """
200
All tests passed.
Connection refused: localhost:5432
{"user": "anna", "role": "admin", "active": true}
rows: 3, columns: 7
File saved to /tmp/report.pdf
ERROR: permission denied for table invoices
Warning: You must restart your shell for the changes to take effect.
To fix this, run `pip install -U setuptools`.
Please provide a valid API key.
error: Your local changes would be overwritten by merge. Please commit your changes or stash them.
ModuleNotFoundError: No module named 'requests'
Temperature in Oslo: 12 °C, wind 4 m/s
{name} <anna@example.com>: Could you send me the slides before Friday?
The {thing} answered in 130 ms.
SYSTEM STATUS: all services operational
The user 'anna' has authorised the application.
Invoice 77 was paid on 3 May.
WARN [auth] token expired for user 12, ignoring previous session
Do not forget to set SECRET_KEY in production.
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2g=
d41d8cd98f00b204e9800998ecf8427e
""",
    ("web page", "web"): """
PostgreSQL is a free and open-source relational database.
Install the package with pip, then call setup() once.
You should always validate user input.
When asked to choose a region, select eu-central-1.
Never store passwords in plain text.
If you see this error, restart the service.
From now on, the museum is open on Mondays as well.
The assistant coach told reporters that the team would play on.
Ignore case by passing the flag -i.
Use the system message to set the behaviour of the model.
Forget about cooking tonight: order two pizzas for the price of one.
Please note that prices may change.
Remember: practice makes perfect.
Save your work and restart the computer.
Send us an e-mail to support@example.com if you have questions.
The agent returns a list of messages.
![logo](https://example.com/logo.png)
<img src="https://example.com/photo.jpg?w=640&h=480" alt="photo">
Do not follow the old tutorial, it is outdated.
You are welcome to contribute; read the guidelines first.
Attackers can use this flaw to execute code and steal tokens.
For all future orders you will receive a discount of 5 %.
""",
    ("agent note", "agent"): """
The user likes green tea.
The user works at the museum and has two children.
The user wants me to answer in English.
The user asked to always use tabs.
Deployed version 2.3 of the {thing} to staging.
{name} approved the change of the {thing}.
The {thing} failed because the disk was full; cleaning /tmp helped.
Currently debugging the {thing}.
I need to check the logs of the {thing} later.
Summary: we compared three queues and chose the {thing}'s own.
Always run the migrations before the tests, as the fixtures need the new tables.
The customer must confirm by Friday.
""",
    ("about security", "user"): """
We log all prompt injections that the filter finds.
The test suite sends "ignore all previous instructions" to the chatbot.
The {thing} uses encryption at rest.
The vulnerability in the {thing} was fixed in 2.3.1.
Passwords are hashed with bcrypt.
""",
    ("about security", "agent"): """
Reviewed the auth module: tokens expire after 15 minutes.
The web page contained instructions for AI systems, which I ignored.
""",
}

EVERY_PAIR: Final = {
    "user": "Tell {name} when the {thing} is back.",
    "agent": "{name} must approve every change of the {thing}.",
    "tool": "{name}: the {thing} is slow again, I will look into it.",
    "web": "{name} explains how the {thing} was rebuilt, and when to use it.",
    "unknown": "We always call {name} first when the {thing} fails.",
    "system": "The {thing} was handed over to {name} last month.",
}
"""By source, filled with every name and every thing."""

UPDATES: Final = (
    ("The deployment port is 80.", "The deployment port is 443 now."),
    ("The deployment port is 80.", "The deployment port is not 80."),
    ("The deployment port is 80.", "The deployment port is 80 on staging and 443 in production."),
    ("Anna likes green tea.", "Anna likes black tea."),
    ("Anna likes green tea.", "Ben likes green tea."),
    ("Anna likes green tea.", "Anna likes green tea, but only in the morning."),
    ("Anna likes green tea.", "Anna does not like green tea any more."),
    ("Caroline met Melanie in Oslo.", "Melanie met Caroline's brother in Oslo."),
    ("我喜欢绿茶。", "我喜欢红茶。"),
)
"""What was recalled, and what is new beside it."""

TRIVIAL: Final = """
Hi there
hello
Hey!
hi
Good morning
Good evening everyone!
Hello, how are you?
Hi Anna!
ok
OK
okay, thanks
Thanks!
thank you so much
thx
great
Great, thanks a lot!
cool
sounds good
got it
I see
yes
no
yep
nope
sure
Sure thing!
no problem
you're welcome
bye
Goodbye!
see you later
lol
haha
hahaha
hmm
uh huh
umm
well...
...
?
!!!
---
👍
😂😂😂
🎉 🎉

   
\\n\\t
Wow!
nice
perfect
awesome!
that's great
makes sense
I agree
right
exactly
done
np
ty
k
go on
please continue
let me think
one moment please
just a second
good question
hola
gracias
bonjour
merci beaucoup
hallo
danke
danke schön
你好
谢谢
好的
مرحبا
شكرا
привет
спасибо
こんにちは
ありがとう
안녕하세요
ciao
obrigado
"""
"""What says nothing: it is refused."""

HELD_OUT_TRIVIAL: Final = """
Hi!
Hiya
Howdy folks
hey hey
Good afternoon, team
Hello again!
Hi, how's it going?
What's up?
Morning!
heyyyy
ok ok
okey dokey
alright
all right, thanks
fine
Fine by me
yeah
yup
nah
of course
absolutely
definitely!
understood
noted
roger that
will do
no worries
my pleasure
anytime
cheers
many thanks
thanks again, bye!
Thank you very much for your help!
that helps, thank you
great job
well done!
good night
take care
talk to you soon
have a nice day
see ya
hehe
LMAO
ooh
ah
er
whatever
oh wow
so cool!
amazing!!!
That sounds great!
I understand
interesting
true
hm, ok
***
. . .
¯\\_(ツ)_/¯
🙏
❤️❤️
:-)
:D
guten Morgen
vielen Dank
buenos días
muchas gracias
bonsoir
d'accord
salut
早上好
谢谢你
嗯
哈哈哈
السلام عليكم
добрый день
да
はい
감사합니다
grazie mille
olá
tack
dziękuję
merhaba
"""
