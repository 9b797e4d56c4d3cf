"""The sentences around what matters: how generated people and assistants talk."""

from __future__ import annotations

from typing import Final

HELLOS: Final = ("", "", "", "Hi! ", "Quick question. ", "Hello again. ", "Okay, next topic. ")
CHATTER: Final = (
    "I have been putting this off for weeks and would like to get it right this time.",
    "My schedule is rather full at the moment, so something simple would be great.",
    "I read a few articles, but they all contradict each other and left me confused.",
    "A friend gave me some advice on it, though I am not sure it applies to me.",
    "I don't want to spend too much money or time on it if I can avoid it.",
    "Please be specific, because general advice has never helped me much.",
    "I tried something like that last year and gave up after a few days.",
    "I'm a complete beginner, so please explain it as you would to a child.",
    "I'd like to make real progress before the end of the month.",
)
SLIPS: Final = (
    "By the way, {x}.",
    "For context, {x}.",
    "{x}, in case that matters.",
    "I should add that {x}.",
    "{x}.",
    "Oh, and {x}.",
    "I'm asking because {x}.",
)
FOLLOW_UPS: Final = (
    "That makes sense. What about the point on how to {tip}?",
    "Thanks, that helps a lot. Could you go into more detail on this: {tip}?",
    "Good to know. And what if I don't manage to {tip}?",
    "I'll try to {tip}. Is there anything else that people usually get wrong?",
    "Great list. Which of these would you do first, and how long does it take?",
    "I see. How would you explain that to somebody who has never done it?",
)
INTROS: Final = (
    "Great question! When it comes to {topic}, a few principles make a big difference.",
    "I'd be happy to help you with {topic}. Here are some suggestions to consider:",
    "That's a common concern in {topic}, and there are several things you can do.",
    "Absolutely! Here is a step-by-step approach to {topic} that works for most people.",
    "Thanks for sharing the details. With {topic}, it pays to start small.",
)
REASONS: Final = (
    "This may feel slow at first, but it prevents most of the problems people run into later.",
    "Many people skip this step and regret it afterwards.",
    "It costs little and gives you a clear sense of what works in your situation.",
    "You can adjust it to your own schedule, preferences and budget.",
    "Doing so regularly matters more than doing it perfectly.",
    "If you are unsure, start with a small experiment and look at the result.",
    "Experts agree that this is one of the most effective habits you can build.",
    "It also makes the whole experience more enjoyable for you and for everyone around you.",
    "Take notes, so that you can compare what happened from one week to the next.",
)
CLOSINGS: Final = (
    "Let me know if you would like more details on any of these points!",
    "I hope this helps. Is there anything else you'd like to know about {topic}?",
    "Remember that everyone is different, so listen to yourself and be patient. Good luck!",
    "Would you like me to turn this into a checklist for your {topic} plans?",
)
RECOMMENDS: Final = (
    "If you want something concrete, take a look at {pick}; it is a favourite for good reason.",
    "For your case I would go with {pick}, which many people are happy with.",
    "One option that stands out is {pick}.",
)
AGO: Final = {
    "yesterday": 1,
    "last weekend": 3,
    "this morning": 0,
    "two days ago": 2,
    "last Friday": 4,
    "a week ago": 7,
    "two weeks ago": 14,
    "today": 0,
    "last month": 30,
    "the other day": 3,
    "recently": 5,
}
ON_DATE: Final = (
    "in {d:%B}",
    "in {d:%B %Y}",
    "around {d.day} {d:%B}",
    "on {d:%B} {d.day}",
    "at the time of {d:%B}",
)
WHEN_ASKED: Final = (
    "When did {i} {x}?",
    "What date did {i} {x}?",
    "How long ago did {i} {x}?",
    "How many weeks ago did {i} {x}?",
)
ECHOES: Final = (
    "Since {x}, that is worth taking into account.",
    "It is good to hear that {x}.",
    "Given that {x}, I'd adapt the plan a little.",
)
PICK_HINTS: Final = (
    "What was the thing for {topic} again that many people are happy with?",
    "Which option for my {topic} stood out as a favourite?",
    "I want to look into {pick} for {topic}. Why was it good for me?",
    "I'm still thinking about {topic}. What was that concrete option I should look at?",
)
REMINDERS: Final = (
    "Can you remind me? ",
    "I told you this in an earlier conversation. ",
    "We talked about this, remind me: ",
)
RECALLING: Final = (
    "",
    "",
    "I was looking back at our previous conversation about {topic}. ",
    "Remind me, please: ",
    "Earlier we talked about {topic}. ",
)
NAMES: Final = (
    ("Dora", "her"),
    ("Felix", "his"),
    ("Amara", "her"),
    ("Ruben", "his"),
    ("Ingrid", "her"),
    ("Kenji", "his"),
    ("Paloma", "her"),
    ("Oskar", "his"),
)
OPENERS: Final = (
    "Hey {other}! How have you been?",
    "Hi {other}, long time no see! What's new?",
    "{other}! I was just thinking of you.",
    "Good to see you, {other}. How was your week?",
)
REPLIES: Final = (
    "Pretty good, thanks! Busy as always.",
    "Can't complain. I finally have some time to myself.",
    "It's been a rough week, but I'm fine.",
    "So much has happened, I don't know where to start!",
)
PROMPTS: Final = (
    "How is the {topic} going?",
    "Are you still into {topic}?",
    "Tell me more about your {topic}!",
    "I keep hearing about {topic} these days. What about you?",
    "That reminds me: anything new with {topic}?",
)
REACTIONS: Final = (
    "Wow, that's amazing, {other}!",
    "Oh no, really?",
    "Haha, I love that.",
    "That sounds wonderful. You must be proud.",
    "I'd never have guessed!",
    "Good for you! Keep it up.",
)
MUSINGS: Final = (
    "Yeah, it means a lot to me.",
    "Thanks! I learned to {tip}, and it changed everything.",
    "They told me to {tip}, so that's my plan.",
    "True. Next I want to {tip}.",
    "Thanks, {other}, your support helps.",
    "It's all about taking it one step at a time.",
)
RELATIVES: Final = ("My sister", "My colleague Ben", "My neighbour", "My cousin Ada", "My boss")
