"""What people say without telling anything, in some twenty languages."""

from __future__ import annotations

from typing import Final

from langmem_tiers.core.reading import words

GREETING: Final = """
hi|hello|hey|hiya|howdy|yo|greetings|welcome|welcome back|good morning|good afternoon|good evening
|good day|morning|afternoon|evening|how are you|how are you doing|how's it going|how is it going
|how are things|how do you do|how have you been|what's up|whats up|sup|what's new
|nice to meet you|pleased to meet you|good to see you|nice to see you|long time no see
|hope you are well|hope you're well|hope you are doing well|is anybody there|anyone there
|are you there|can you hear me
|hallo|moin|servus|grüß gott|grüß dich|guten morgen|guten tag|guten abend|wie geht's|wie geht es dir
|hola|buenos días|buenas tardes|buenas noches|qué tal|cómo estás
|bonjour|bonsoir|salut|coucou|ça va|comment ça va
|ciao|buongiorno|buonasera|come stai|olá|oi|bom dia|boa tarde|boa noite|tudo bem
|hej|hei|god morgon|god morgen|goddag|hoi|goedemorgen|goedemiddag|goedenavond
|cześć|dzień dobry|dobry wieczór|ahoj|dobrý den|szia|jó napot|bună|bună ziua
|привет|здравствуйте|здравствуй|доброе утро|добрый день|добрый вечер|как дела
|привіт|добрий день|merhaba|selam|günaydın|iyi günler|nasılsın|γεια|γεια σας|καλημέρα
|مرحبا|أهلا|أهلا وسهلا|السلام عليكم|صباح الخير|مساء الخير|كيف حالك|سلام|درود|שלום|בוקר טוב
|नमस्ते|नमस्कार|你好|您好|你好吗|大家好|早上好|早安|下午好|晚上好|早|嗨|哈喽
|こんにちは|こんばんは|おはよう|おはようございます|はじめまして|안녕|안녕하세요|สวัสดี|สวัสดีครับ|สวัสดีค่ะ
|xin chào|halo|selamat pagi|habari|jambo
"""

FAREWELL: Final = """
bye|bye bye|goodbye|good bye|good night|night|see you|see you later|see you soon|see you tomorrow
|see ya|cya|later|talk to you later|talk to you soon|talk soon|ttyl|take care|have a nice day
|have a good day|have a great day|have a good one|have a nice weekend|have a good weekend|cheerio
|farewell|until next time|catch you later|gotta go|i have to go|brb|be right back
|tschüss|auf wiedersehen|bis später|bis bald|bis dann|bis morgen|gute nacht|schönen tag noch
|adiós|hasta luego|hasta mañana|au revoir|à bientôt|à demain|bonne journée|bonne nuit
|arrivederci|a presto|tchau|até logo|hej då|ha det|doei|tot ziens|do widzenia|na razie
|пока|до свидания|до встречи|güle güle|görüşürüz|مع السلامة|إلى اللقاء|להתראות|再见|拜拜|晚安|明天见
|さようなら|またね|おやすみ|안녕히 가세요|잘 가
"""

THANKS: Final = """
thanks|thank you|thank you so much|thank you very much|thanks a lot|thanks so much|many thanks
|thanks a million|thanks a bunch|thanks in advance|thx|ty|tysm|tnx|cheers|much appreciated
|i appreciate it|appreciate it|appreciated|you're welcome|you are welcome|my pleasure|no problem
|no worries|no prob|np|anytime|any time|don't mention it|not at all|glad to help|happy to help
|glad i could help|that helps|that helped|that was helpful|very helpful|so helpful|helpful
|please|pls|plz|sorry|my bad|excuse me|pardon|apologies|i'm sorry|oops
|danke|danke schön|danke sehr|vielen dank|besten dank|tausend dank|bitte|bitte schön|gern geschehen
|kein problem|entschuldigung|gracias|muchas gracias|de nada|perdón|merci|merci beaucoup|de rien
|s'il te plaît|s'il vous plaît|grazie|grazie mille|prego|obrigado|obrigada|muito obrigado
|tack|tack så mycket|takk|tak|dank je|dank je wel|bedankt|dziękuję|dzięki|dziękuję bardzo|proszę
|děkuji|köszönöm|mulțumesc|спасибо|спасибо большое|большое спасибо|пожалуйста|дякую
|teşekkürler|teşekkür ederim|sağ ol|ευχαριστώ|شكرا|شكرا جزيلا|شكراً|عفوا|ممنون|متشکرم|תודה|תודה רבה
|धन्यवाद|शुक्रिया|谢谢|谢谢你|谢谢您|多谢|非常感谢|不客气|没关系|对不起|抱歉
|ありがとう|ありがとうございます|どうも|どういたしまして|すみません|ごめん|감사합니다|고마워|고맙습니다|고마워요|천만에요
|ขอบคุณ|ขอบคุณครับ|ขอบคุณค่ะ|cảm ơn|terima kasih|asante
"""

ACKNOWLEDGEMENT: Final = """
ok|okay|okey|okey dokey|k|kk|okie|alright|all right|right|yes|yeah|yep|yup|ya|yea|aye|no|nope|nah
|nay|sure|sure thing|of course|certainly|absolutely|definitely|indeed|exactly|precisely|correct
|true|agreed|i agree|i think so|i guess|i guess so|i suppose|i suppose so|fine|fine by me
|that's fine|that is fine|works for me|sounds good|sounds great|sounds like a plan|sounds fine
|that sounds good|that sounds great|good|great|cool|nice|awesome|perfect|excellent|amazing
|wonderful|fantastic|brilliant|super|lovely|neat|sweet|wow|whoa|good job|great job|nice work
|good work|well done|way to go|congrats|congratulations|bravo|got it|gotcha|i got it|i see|i get it
|i understand|understood|noted|roger|roger that|copy that|will do|done|makes sense
|that makes sense|fair enough|fair|good point|good idea|great idea|good question|no doubt|same here
|me too|likewise|same|interesting|very interesting|that's great|that is great|that's nice
|that's good|that's cool|that's awesome|that's right|that is right|that's correct|that's true
|that's it|that's all|that is all|nothing else|never mind|nevermind|whatever|maybe|perhaps|possibly
|not really|not sure|i don't know|idk|no idea|dunno|who knows|really|is that so|you bet|for sure
|very well|very good|as you wish|if you say so|deal|go ahead|go on|please continue|continue
|carry on|please go on|proceed|next|yes please|no thanks|no thank you|looks good|lgtm|ship it|ack
|good to know|that's good to know|good for you|happy for you|glad to hear it|glad to hear that
|ja|jawohl|nein|klar|genau|gut|sehr gut|alles klar|verstanden|in ordnung|passt|stimmt|richtig
|sí|vale|claro|de acuerdo|bueno|entendido|está bien|oui|non|d'accord|bien sûr|très bien|parfait|bien
|sì|va bene|certo|capito|perfetto|sim|não|tá bom|claro que sim|entendi|beleza
|javisst|okej|visst|jo|nej|nei|goed|prima|nee|tak jest|dobrze|nie|jasne|ano|igen|nem|da|nu|bine
|да|нет|хорошо|ладно|понятно|ясно|конечно|так|добре|evet|hayır|tamam|anladım|ναι|όχι|εντάξει
|نعم|لا|حسنا|تمام|طيب|أوافق|بله|نه|باشه|כן|לא|בסדר|हाँ|नहीं|ठीक है|अच्छा
|好|好的|好吧|是|是的|不|不是|对|对的|没问题|知道了|明白了|明白|了解|可以|行|嗯|嗯嗯|哦|当然|收到
|はい|いいえ|うん|うーん|そうです|そうですね|了解です|わかりました|なるほど|大丈夫|大丈夫です|네|예|아니요|응|알겠습니다|알았어|좋아요|좋아|그래|그래요
|ครับ|ค่ะ|ใช่|ไม่|โอเค|vâng|không|baik|tidak|ndiyo|hapana
"""

FILLER: Final = """
hm|hmm|mhm|mm|mmm|um|umm|uh|uhm|er|erm|eh|ah|aha|aah|oh|ooh|oh no|oh yes|uh huh|huh|ugh|meh|phew|wow
|yay|woohoo|hurray|hooray|ouch|oops|whoops|gosh|omg|omfg|wtf|lol|lmao|rofl|xd|haha|hehe|hihi|hah
|heh|jaja|jeje|kkk|hahah|well|so|anyway|anyways|like|you know|i mean|basically|literally|honestly
|let me think|let me see|let's see|one moment|one second|one sec|just a moment|just a second
|just a sec|wait|wait a moment|wait a second|hold on|hang on|a moment|blah|blah blah|bla|bla bla
|etc|and so on|so what|what|ok so|now what|asdf|asdfasdf|asdfgh|qwerty|foo bar baz|lorem ipsum
|ähm|äh|hmm ja|na ja|naja|also|tja|euh|ben|bah|pues|eh|este|boh|beh|вот|ну|эээ|ха-ха|хаха|хахаха
|呵呵|哈哈|哈哈哈|嘿嘿|唉|啊|えーと|あの|ㅋㅋ|ㅋㅋㅋ|ㅎㅎ|هه|هههه|555|5555
"""

COMPANIONS: Final = """
there|everyone|everybody|all|team|folks|guys|friend|friends|my friend|dear|buddy|mate|pal|man|dude
|sir|madam|again|then|now|too|also|much|so much|very much|a lot|very|so|really|just|and|but|for|you
|to you|to all|for that|for this|for it|for now|for your help|for the help|for helping
|for your time|for your answer|for the info|for the information|for the update|for letting me know
|for all|for everything|today|with me|by me|that|this|it|is|that is|that's|it's|i|we|oh|ah|well|yes
|no|ok|please|indeed|quite|pretty|super|absolutely|totally|zusammen|alle|allerseits|dir|ihnen
|auch|noch|sehr|mal|euch|a todos|amigo|à tous|mon ami|a tutti|всем|大家|们|吧|啊|呀|哦|了|の|ね|よ|です
"""
"""What may stand beside any of these, and says nothing either."""


def phrases(listed: str) -> frozenset[tuple[str, ...]]:
    """The phrases of a list that are divided by bars, each as its words."""
    return frozenset(tuple(words(one)) for one in listed.replace("\n", " ").split("|"))


KINDS: Final = {
    "a greeting": phrases(GREETING),
    "a farewell": phrases(FAREWELL),
    "thanks or a courtesy": phrases(THANKS),
    "an acknowledgement": phrases(ACKNOWLEDGEMENT),
    "filler": phrases(FILLER),
}
BESIDE: Final = phrases(COMPANIONS)
LONGEST: Final = max(len(one) for some in (*KINDS.values(), BESIDE) for one in some)
