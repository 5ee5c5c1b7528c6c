"""Czech phrases, most of which Slovak shares."""

from __future__ import annotations

from typing import Final

from mail.llm.vocabulary.concepts import Concept, Phrases

PHRASES: Final[Phrases] = {
    Concept.DIRECT_QUESTION: (
        "můžete", "mohl byste", "mohla byste", "mohli byste", "můžeš", "mohl bys", "mohla bys",
        "máte", "máš", "bylo by možné", "je možné", "co si myslíte", "co myslíš", "jak to vypadá",
        "chtěl jsem se zeptat", "chtěla jsem se zeptat", "chci se zeptat", "ráda bych se zeptala",
        "rád bych se zeptal", "nevíte", "nevíš", "kdy bude", "kdy můžeme", "kolik stojí", "kolik by",
        "mám dotaz", "mám otázku", "dotaz",
    ),
    Concept.REQUEST: (
        "prosím o", "prosíme o", "prosím pošlete", "pošlete", "pošli mi", "zašlete", "dejte mi vědět",
        "dej mi vědět", "dejte vědět", "dej vědět", "dejte nám vědět", "ozvěte se", "ozvi se",
        "odpovězte", "budu čekat na", "čekám na vaši", "čekáme na vaše", "těším se na odpověď",
        "těším se na vaši odpověď", "těšíme se na vaši", "potřebuji od vás", "potřebujeme od vás",
        "potřeboval bych", "potřebovala bych", "mohu vás poprosit", "poprosil bych", "poprosila bych",
        "chtěl bych vás požádat", "žádám o", "žádáme o", "sdělte", "napište mi", "zavolejte",
        "mám prosbu", "o vyjádření", "o vaše vyjádření", "o informaci", "o zaslání",
    ),
    Concept.DEADLINE: (
        "nejpozději", "termín odevzdání", "do konce týdne", "do konce měsíce", "do pátku", "do pondělí",
        "do úterý", "do středy", "do čtvrtka", "do zítra", "do zítřka", "co nejdříve", "urgentní",
        "spěchá", "naléhav*", "uzávěrka", "poslední výzva", "je nutné", "platnost končí", "vyprší",
    ),
    Concept.MEETING: (
        "schůzka", "schůzku", "schůzky", "schůzce", "porada", "poradu", "porady", "pohovor", "pohovoru",
        "jednání", "setkání", "videohovor", "telefonát", "pozvánka", "pozvánku",
    ),
    Concept.PROPOSAL: (
        "můžeme se sejít", "mohli bychom se sejít", "sejdeme se", "sejít se", "hodí se vám", "hodí se ti",
        "hodilo by se", "vyhovuje vám", "vyhovuje ti", "vyhovoval by", "máte čas", "máš čas",
        "navrhuji termín", "navrhuji schůzku", "domluvit schůzku", "domluvit termín", "zveme vás",
        "zvu vás", "přesunout schůzku", "přeložit schůzku", "naplánovat", "zavolat si", "termín schůzky",
    ),
    Concept.DAY: ("pondělí", "úterý", "středu", "čtvrtek", "pátek", "zítra", "příští týden", "hodin", "tento týden"),
    Concept.SIGNATURE: (
        "k podpisu", "podepište", "podepsat", "podepsanou", "podepsaný", "podepsané", "váš podpis",
        "vašeho podpisu", "podpis smlouvy", "o podpis", "o podepsání",
    ),
    Concept.APPROVAL: (
        "ke schválení", "schvalte", "schvalte prosím", "o schválení", "potřebuji schválit",
        "potřebujeme schválit", "schválit", "váš souhlas", "odsouhlas*", "čeká na schválení",
        "vašeho schválení", "o souhlas",
    ),
    Concept.CONFIRMATION: (
        "potvrďte", "potvrďte prosím", "prosím potvrďte", "o potvrzení", "prosíme o potvrzení",
        "potvrď", "potvrdit", "vyplňte", "doplňte", "ověřte", "zkontrolujte",
    ),
    Concept.INVOICE: ("faktura", "faktury", "fakturu", "faktuře", "fakturou", "faktur", "vyúčtování", "zálohov*"),
    Concept.INVOICE_SENT: (
        "v příloze zasíláme fakturu", "zasíláme fakturu", "posílám fakturu", "posíláme fakturu",
        "zasílám fakturu", "fakturu v příloze", "faktura v příloze", "v příloze naleznete fakturu",
        "vám fakturu", "vaše faktura", "vystavili jsme", "fakturu za", "faktura za",
    ),
    Concept.DUE: (
        "splatnost", "splatnosti", "splatná", "splatné", "splatný", "k úhradě", "k zaplacení", "uhraďte",
        "prosíme o úhradu", "prosím o úhradu", "o úhradu", "úhradu faktury", "zaplaťte", "uhradit",
        "proplacení", "výzva k platbě", "výzva k úhradě",
    ),
    Concept.OVERDUE: (
        "po splatnosti", "neuhrazen*", "nezaplacen*", "upomínka", "upomínku", "dlužná částka",
        "nedoplatek", "dosud neeviduje*", "neobdrželi úhradu", "platba se nezdařila",
    ),
    Concept.BANK_DETAILS: ("variabilní symbol", "číslo účtu", "bankovní spojení", "na účet", "qr platba"),
    Concept.PAID: (
        "přijali jsme vaši platbu", "platba přijata", "platba byla přijata", "potvrzení o platbě",
        "potvrzení platby", "děkujeme za platbu", "děkujeme za úhradu", "byla uhrazena", "byla zaplacena",
        "bylo zaplaceno", "bylo uhrazeno", "platba proběhla", "je uhrazena", "zaplaceno", "uhrazeno",
        "jsme uhradili", "jsme zaplatili", "platba úspěšná", "dobropis", "neplaťte", "obdrželi jsme platbu",
        "obdrželi jsme vaši platbu",
    ),
    Concept.NO_ACTION: (
        "není třeba odpovídat", "neodpovídejte", "automatická zpráva", "automaticky generovan*",
        "automaticky vygenerovan*", "není potřeba reagovat", "nemusíte nic", "není třeba nic",
        "nevyžaduje odpověď", "nemusíte odpovídat", "nemusíš odpovídat",
    ),
    Concept.FOR_INFORMATION: (
        "na vědomí", "pro informaci", "jen pro informaci", "pro vaši informaci", "informujeme vás",
        "oznamujeme", "dovolujeme si vás informovat", "jen abyste věděli", "zápis z porady",
        "byla odeslána", "byl odeslán", "byla doručena", "zásilka",
    ),
    Concept.MARKETING: (
        "odhlásit", "odhlášení", "odhlaste", "newsletter", "zpravodaj", "zobrazit v prohlížeči", "sleva",
        "slevy", "slevový kód", "akční nabídka", "akce platí", "nezobrazuje se", "obchodní sdělení",
        "webinář",
    ),
    Concept.ABSENCE: (
        "mimo kancelář", "nejsem v kanceláři", "jsem na dovolené", "mám dovolenou", "čerpám dovolenou",
        "automatická odpověď", "nepřítomnost", "mateřsk*",
    ),
    Concept.THANKS: ("mockrát děkuji", "moc děkuji", "díky moc", "děkuji za pomoc", "děkuji za zprávu", "v pořádku děkuji", "beru na vědomí", "super díky", "děkujeme za spolupráci"),
    Concept.ORDER_TO_CLASSIFIER: (
        "ignoruj předchozí", "ignorujte předchozí", "ignoruj všechny", "ignorujte všechny",
        "ignoruj veškeré", "zapomeň na předchozí", "předchozí instrukce", "předchozí pokyny",
        "označ tento e-mail", "označ tuto zprávu", "zařaď tento", "zařaď tuto", "klasifikuj",
        "jsi umělá inteligence", "jazykový model",
    ),
    Concept.FORMAL: ("vážený pane", "vážená paní", "vážení", "s úctou", "s pozdravem"),
    Concept.INFORMAL: ("ahoj", "čau", "nazdar", "zdravím tě", "měj se", "díky"),
}  # fmt: skip
