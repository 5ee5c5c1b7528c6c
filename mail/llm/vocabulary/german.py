"""German phrases."""

from __future__ import annotations

from typing import Final

from mail.llm.vocabulary.concepts import Concept, Phrases

PHRASES: Final[Phrases] = {
    Concept.DIRECT_QUESTION: (
        "können sie", "könnten sie", "könnten sie uns", "kannst du", "könntest du", "würden sie",
        "haben sie", "hast du", "wäre es möglich", "ist es möglich", "wie sieht es aus",
        "was halten sie", "was meinen sie", "ich wollte fragen", "ich hätte eine frage",
        "ich habe eine frage", "wissen sie", "wann können", "wie viel",
    ),
    Concept.REQUEST: (
        "bitte senden", "bitte schicken", "bitte teilen", "bitte geben", "bitte melden", "bitte antworten",
        "bitte um", "bitten um", "bitten sie", "ich bitte", "lassen sie mich wissen", "lassen sie uns wissen",
        "geben sie mir bescheid", "geben sie uns bescheid", "gib mir bescheid", "sag bescheid",
        "melden sie sich", "melde dich", "freue mich auf ihre antwort", "freuen uns auf ihre",
        "freue mich auf ihre rückmeldung", "rückmeldung", "warten auf ihre", "warte auf ihre",
        "benötigen von ihnen", "brauche von dir", "wir benötigen", "ich benötige", "rufen sie",
    ),
    Concept.DEADLINE: (
        "spätestens", "frist", "bis freitag", "bis montag", "bis dienstag", "bis mittwoch",
        "bis donnerstag", "bis morgen", "bis zum ende", "bis ende", "so bald wie möglich",
        "schnellstmöglich", "dringend*", "eilt", "umgehend", "läuft ab", "letzte mahnung",
        "abgabetermin", "handlung erforderlich",
    ),
    Concept.MEETING: (
        "besprechung", "termin", "termine", "treffen", "meeting", "telefonat", "videokonferenz",
        "vorstellungsgespräch", "einladung", "sitzung", "telko",
    ),
    Concept.PROPOSAL: (
        "können wir uns treffen", "wollen wir uns treffen", "passt ihnen", "passt dir", "passt es ihnen",
        "hätten sie zeit", "haben sie zeit", "hast du zeit", "einen termin vereinbaren",
        "termin vereinbaren", "terminvorschlag", "terminvorschläge", "schlage vor", "laden sie ein",
        "laden wir sie", "wir laden", "verschieben", "verfügbar", "telefonieren",
    ),
    Concept.DAY: ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "morgen", "nächste woche", "uhr"),
    Concept.SIGNATURE: (
        "zur unterschrift", "bitte unterschreiben", "unterschreiben", "unterzeichnen", "unterschrieben zurück",
        "unterzeichnet zurück", "ihre unterschrift", "unterschriebene*", "gegenzeichn*",
    ),
    Concept.APPROVAL: (
        "zur freigabe", "zur genehmigung", "bitte genehmigen", "freigeben", "ihre freigabe",
        "ihre zustimmung", "ihre genehmigung", "um freigabe", "um genehmigung", "freigabe erforderlich",
    ),
    Concept.CONFIRMATION: (
        "bitte bestätigen", "bestätigen sie", "bestätige bitte", "um bestätigung", "bitte prüfen",
        "bitte ausfüllen", "füllen sie",
    ),
    Concept.INVOICE: ("rechnung", "rechnungen", "rechnungsnummer", "abschlagsrechnung", "rechnungs"),
    Concept.INVOICE_SENT: (
        "anbei unsere rechnung", "anbei die rechnung", "rechnung im anhang", "beiliegende rechnung",
        "anbei erhalten sie", "unsere rechnung", "ihre rechnung", "rechnung für", "beigefügte rechnung",
    ),
    Concept.DUE: (
        "fällig", "fällig am", "zahlbar", "zahlungsziel", "bitte überweisen", "zu zahlen",
        "zahlbetrag", "bitte begleichen", "zahlungsfrist", "rechnungsbetrag", "überweisen sie",
        "offener betrag", "fälligkeit",
    ),
    Concept.OVERDUE: (
        "überfällig", "unbezahlt*", "zahlungserinnerung", "mahnung", "ausstehend*", "noch offen",
        "keinen zahlungseingang", "zahlung fehlgeschlagen", "nicht beglichen",
    ),
    Concept.BANK_DETAILS: ("kontonummer", "bankverbindung", "verwendungszweck", "überweisung"),
    Concept.PAID: (
        "zahlung erhalten", "zahlungseingang bestätigt", "danke für ihre zahlung",
        "dank für ihre zahlung", "zahlungsbestätigung", "wurde bezahlt", "wurde beglichen",
        "bereits bezahlt", "bereits beglichen", "ihre zahlung ist eingegangen", "ist eingegangen",
        "haben wir überwiesen", "gutschrift", "quittung", "erfolgreich bezahlt",
    ),
    Concept.NO_ACTION: (
        "keine antwort erforderlich", "nicht antworten", "antworten sie nicht", "automatisch generiert*",
        "automatisch erzeugt*", "automatisch erstellt*", "automatische nachricht", "keine aktion erforderlich",
        "nichts weiter zu tun", "müssen nichts",
    ),
    Concept.FOR_INFORMATION: (
        "zur kenntnis", "zur information", "zu ihrer information", "zu deiner information", "zur info",
        "nur zur info", "wir informieren sie", "wir möchten sie informieren", "wurde versandt",
        "wurde zugestellt", "protokoll der",
    ),
    Concept.MARKETING: (
        "abmelden", "abbestellen", "newsletter", "im browser ansehen", "im browser anzeigen", "rabatt",
        "gutschein", "sonderangebot", "webinar", "abmeldelink", "aktionscode",
    ),
    Concept.ABSENCE: (
        "nicht im büro", "abwesenheitsnotiz", "abwesenheit", "automatische antwort", "im urlaub",
        "bin derzeit nicht", "elternzeit",
    ),
    Concept.THANKS: ("vielen dank für ihre hilfe", "vielen dank für die info", "danke dir", "danke für die rückmeldung", "passt danke", "alles klar", "herzlichen dank"),
    Concept.ORDER_TO_CLASSIFIER: (
        "ignoriere alle", "ignoriere die vorherigen", "ignorieren sie alle", "ignoriere vorherige",
        "vorherige anweisungen", "vorherigen anweisungen", "bisherigen anweisungen", "klassifiziere",
        "markiere diese nachricht als", "markiere diese e-mail als", "sprachmodell",
    ),
    Concept.FORMAL: ("sehr geehrte", "sehr geehrter", "hochachtungsvoll", "mit freundlichen grüßen"),
    Concept.INFORMAL: ("hallo", "hi", "liebe grüße", "lg", "servus", "moin"),
}  # fmt: skip
