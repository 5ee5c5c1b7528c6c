"""The words the offline classifier knows, in ten languages at most; headers and form say the rest.

Measurements justify these words: without those of asking the classifier finds half as many mails
that need an answer, and only these words tell a task or a payment from a question (docs/adr/011).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Concept(StrEnum):
    """A meaning that words of several languages share."""

    ASKING = "asking"
    WANTING = "wanting"
    SETTLING = "settling"
    COURTESY = "courtesy"
    SELLING = "selling"
    TASK = "task"
    DATE = "date"
    INVOICE = "invoice"
    DUE = "due"
    PAID = "paid"


WORDS: Final[Mapping[Concept, tuple[str, ...]]] = {
    Concept.ASKING: (
        "please", "pls", "kindly", "appreciate*", "wondering", "advise", "let me know",
        "let us know", "lemme know", "get back to me", "get back to us", "bitte", "prosím", "mohl",
        "mohla", "mohli", "můžete", "dejte mi vědět", "dejte nám vědět", "veuillez", "merci de", "pourriez",
        "pouvez", "svp", "s il vous plaît", "s il te plaît", "por favor", "podría", "podrías",
        "puede", "puedes", "déjame saber", "per favore", "proszę", "пожалуйста",
        "can you", "could you", "would you", "will you", "can we", "could we", "could i", "can i", "may i ask",
        "do you", "are you able", "have you", "did you", "any chance", "any news", "any thoughts",
        "what do you think", "your thoughts", "your view", "your opinion", "tell me", "send me", "give me", "give us",
        "email me", "text me", "can that", "can this", "can it", "wanted to ask", "drop me", "ring me", "call me", "remind me", "shout", "rsvp", "fancy", "up for it",
        "můžeš", "mohl bys", "mohla bys", "mohli byste", "mohl byste", "mohla byste", "dej vědět", "dejte vědět",
        "dej mi", "pošli", "pošlete", "ozvi", "ozvěte", "napiš", "napište", "zavolej", "zavolejte", "co myslíš",
        "co myslíte", "co říkáš", "co říkáte", "nevíš", "nevíte", "kannst du", "wollte fragen", "wollten fragen", "könntest du", "können sie",
        "könnten sie", "könnt ihr", "könnten wir", "magst du", "habt ihr", "hast du", "haben sie zeit", "sag mir", "sagt mir",
        "sagen sie", "gib mir", "geben sie", "gib mir bescheid", "bescheid geben", "bescheid sagen", "kurz bescheid", "melde dich", "melden sie", "schick mir", "schicken sie",
        "rückmeldung", "was meinst du", "was meinen sie", "um antwort", "tu me dis", "vous me dites", "je voulais savoir", "tu peux", "peux tu", "pourrais tu",
        "pouvez vous", "pourriez vous", "dis moi", "dites moi", "tiens moi", "tenez moi", "envoie moi", "envoyez moi",
        "qu en penses", "qu en pensez", "podrías", "podéis", "me puedes", "dime", "dígame",
        "avísame", "avisadme", "me avisas", "mándame", "envíame", "porfa", "qué te parece", "qué opinas", "sabes si",
        "puoi", "potresti", "può", "potrebbe mandarmi", "fammi sapere", "mi faccia sapere", "mi fai", "dimmi", "mandami",
        "mi mandi", "che ne pensi", "che ne dici", "ti va", "możesz", "mógłbyś", "mogłabyś", "może pan", "może pani",
        "mógłby pan", "mogłaby pani", "daj znać", "proszę o", "prosił*", "wyślij", "co sądzisz", "kun je", "kunt u",
        "zou je", "zou u", "laat me weten", "laat het", "hoor graag", "wil je", "wilt u", "wat vind je",
        "pode me", "podes", "poderia", "podia", "podias", "diz me", "diga me", "manda me", "avisa", "o que achas",
        "kan du", "skulle du", "säg till", "hör av dig", "vad tycker du",
    ),
    Concept.WANTING: (
        "would be lovely if", "would be lovely to", "until you", "heard nothing", "not heard", "hear from you", "hear back",
        "am i right", "hold the", "ich wäre", "wir wären", "lust auf", "lust zu", "interesse an", "würde gern", "würden gern",
        "dans l attente", "dans l espoir", "revenir vers vous", "je me permets", "in attesa", "en espera", "w oczekiwaniu",
        "in afwachting", "budu čekat", "rád bych", "ráda bych", "rádi bychom", "ob du", "ob sie", "ob ihr",
        "wondering if", "wondering whether", "if you could",
        "let us have",
        "i need", "we need", "we would need", "i would need", "i d need", "we d need", "would be grateful",
        "be grateful", "would be great if", "would be good to", "would help if", "i d like", "i would like", "we d like",
        "we would like", "i was hoping", "we were hoping", "we hope you", "hoping you", "hoping that you", "still waiting",
        "waiting for you*", "waiting on you*", "forward them", "forward it", "quedamos a la espera", "zeg maar", "haría ilusión", "look forward to your", "looking forward to your", "by return",
        "up to you", "your decision", "need your", "want your", "like your", "love your", "without your",
        "haven t heard", "have not heard", "not sure if you", "not sure whether you", "potřebuj*", "potřeboval*",
        "čekám na", "čekáme na", "čekat", "chybí", "byl bych rád", "byla bych ráda", "uvítal*", "rád* bych", "ráda bych",
        "zajímalo by", "ocenil*", "záleží na", "ich brauche", "brauchen wir", "wir brauchen", "bräuchte", "bräuchten",
        "wäre ich", "wäre dankbar", "wären wir", "wäre schön", "wäre super", "wäre toll", "würde mich freuen",
        "würden uns freuen", "freue mich auf", "warte auf", "warten auf", "es fehlt", "fehlt noch", "j ai besoin", "nous avons besoin", "on a besoin", "aurais besoin", "aurions besoin", "il me faut",
        "il nous faut", "il me manque", "il manque", "j attends", "nous attendons", "j aimerais", "nous aimerions",
        "je voudrais", "nous souhait*", "ton avis", "votre avis", "necesito", "necesitamos", "nos falta", "me falta",
        "quisiera", "quería saber", "me gustaría", "agradecería", "espero tu", "espero su", "quedo a la espera",
        "ho bisogno", "abbiamo bisogno", "mi serve", "mi servirebbe", "ci servirebbe", "vorrei", "vorremmo",
        "attendo", "potrzebuj*", "chciałbym", "chciałabym", "byłbym", "byłabym", "czekam*", "brakuje",
        "heb ik nodig", "hebben we nodig", "we nodig hebben", "ik nodig heb", "ik wacht", "ik zou graag", "benieuwd", "preciso", "precisamos", "gostava", "gostaria", "aguardo",
        "falta me", "jag behöver", "vi behöver", "väntar på", "vore tacksam",
    ),
    # Phrases that end a letter and ask for nothing.
    Concept.COURTESY: (
        "any questions", "any further questions", "any queries", "hesitate", "anything else", "bei fragen",
        "bei rückfragen", "sollten sie fragen", "v případě dotazů", "v případě nejasností", "kdybyste cokoli", "neváhejte",
        "pour toute question", "n hésite*", "à votre disposition", "cualquier duda", "cualquier consulta", "no dude*",
        "qualsiasi domanda", "qualsiasi dubbio", "resto a disposizione", "restiamo a disposizione", "non esit*",
        "w razie pytań", "bij vragen", "mocht u vragen", "qualquer dúvida", "qualquer questão", "vid frågor",
        "masz pytania", "máte otázky", "haben sie fragen", "consider the environment", "excuse typos", "excuse the typos",
    ),
    # Phrases of people who write to strangers for their money.
    Concept.SELLING: (
        "quick question", "came across", "impressed by", "i noticed", "bumping this", "bump this", "my last note", "my last email",
        "my previous email", "my last message", "following up on my", "floating this", "15 minutes", "15 minute", "15 mins",
        "15 min", "quick call", "quick chat", "short call", "book a", "on your calendar", "in your calendar", "right person",
        "we help", "we ve helped", "we helped", "our clients", "our platform", "our solution", "our services", "our team of",
        "case study", "free trial", "free audit", "no obligation", "special offer", "boost your", "grow your",
        "increase your", "seo", "backlinks", "guest post", "ranking", "lead generation",
        "million*", "beneficiary", "inheritance", "widow", "donate", "trustworthy", "gift card*", "discreetly",
        "nezávazn*", "nabízíme", "unverbindlich", "wir bieten", "unser angebot", "sans engagement", "nous proposons",
        "notre solution", "sin compromiso", "ofrecemos", "nuestra solución", "senza impegno", "offriamo", "oferujemy",
        "bez zobowiązań", "vrijblijvend", "wij bieden", "sem compromisso", "oferecemos",
    ),
    Concept.SETTLING: (
        "thanks for the", "thank you for the", "thanks for sending", "thanks again", "many thanks for", "thanks so much",
        "thank you so much", "got it", "all good", "all sorted", "sorted", "no need", "no rush", "no action",
        "nothing for you", "nothing needed", "don t worry", "not to worry", "fyi", "for information", "for your records",
        "for your information", "just to let you know", "just letting you know", "to confirm", "i confirm", "confirmed",
        "is fine", "works for me", "as promised", "as discussed", "as agreed", "as requested", "here is", "here are",
        "here s", "attached is", "attached are", "please find attached", "find attached", "hesitate", "has been done",
        "is done", "went well", "congratulations", "well done", "happy birthday", "see you", "v příloze", "posílám",
        "zasílám", "děkuji za", "děkujeme za", "díky za", "moc díky", "potvrzuji", "potvrzujeme", "není třeba", "netřeba",
        "není potřeba", "nemusíš", "nemusíte", "neváhejte", "jen pro info", "na vědomí", "jak jsme se domluvili",
        "hotovo", "v pořádku", "vyřízeno", "gratuluj*", "těším se", "anbei", "im anhang", "danke für", "vielen dank für",
        "herzlichen dank", "hiermit bestätige", "bestätige", "zur info", "zur information", "zur kenntnis", "wie besprochen",
        "wie vereinbart", "wie versprochen", "nicht nötig", "keine antwort", "erledigt", "passt", "ci joint", "ci jointe",
        "en pièce jointe", "merci pour", "merci beaucoup pour", "je confirme", "nous confirmons", "bien reçu", "pour info",
        "pas besoin", "comme convenu", "c est fait", "félicitations", "adjunto", "adjunta", "gracias por", "muchas gracias por",
        "confirmo", "confirmado", "recibido", "no hace falta", "como quedamos", "para tu información", "enhorabuena",
        "in allegato", "allego", "grazie per", "grazie mille per", "confermo", "ricevuto", "non serve", "non c è bisogno",
        "come d accordo", "per conoscenza", "complimenti", "w załączniku", "przesyłam", "dziękuję za", "dziękujemy za",
        "dzięki za", "potwierdzam", "nie trzeba", "nie ma potrzeby", "do wiadomości", "zgodnie z ustaleniami", "bijgevoegd",
        "in de bijlage", "bedankt voor", "dank je voor", "dank u voor", "ter info", "ter informatie", "hoeft niet", "zoals afgesproken",
        "in orde", "em anexo", "segue", "obrigado pel*", "obrigada pel*", "não é preciso", "bifogat", "tack för", "behöver inte",
    ),
    Concept.TASK: (
        "sign", "signed", "signature*", "countersign*", "approve", "approval", "confirm by",
        "fill in", "podpis*", "podepi*", "schvál*", "schval*", "potvr*", "vyplň*",
        "unterschr*", "unterzeichn*", "freigabe", "genehmig*", "bestätig*", "ausfüll*", "signer",
        "signez", "valider", "votre accord", "confirmer", "remplir", "firme", "firmar", "su firma",
        "aprobar", "confirmar", "meet", "meeting", "appointment", "schůzk*", "termin", "besprechung",
        "réunion", "rendez vous", "reunión", "cita",
    ),
    Concept.DATE: (
        "monday", "tuesday", "wednesday", "thursday", "friday", "tomorrow", "deadline",
        "at the latest", "pondělí", "úterý", "středu", "čtvrtek", "pátek", "zítra",
        "nejpozději", "montag", "dienstag", "mittwoch", "donnerstag", "freitag", "morgen",
        "spätestens", "lundi", "mardi", "mercredi", "jeudi", "vendredi", "demain", "au plus tard",
        "lunes", "martes", "miércoles", "jueves", "viernes", "mañana", "a más tardar",
    ),
    Concept.INVOICE: ("invoice*", "proforma", "pro forma", "faktur*", "rechnung*", "factur*", "fattur*"),
    Concept.DUE: (
        "amount due", "due date", "due on", "due by", "is due", "unpaid", "overdue", "payable", "splatn*", "neuhrazen*", "po splatnosti", "zahlbar",
        "fällig*", "überfällig*", "à régler", "impayé*", "échéance", "vencid*", "importe total",
        "pendiente de pago", "please pay",
    ),
    Concept.PAID: (
        "paid", "payment received", "your payment", "payment of", "zaplacen*", "uhrazen*", "za platbu",
        "přijali platbu", "bezahlt", "beglichen", "zahlung ist eingegangen", "votre paiement",
        "réglée", "su pago", "pagad*",
    ),
}  # fmt: skip
"""Phrases by meaning. A word ending in ``*`` stands for every word that starts so; case, accents and
punctuation do not count."""
