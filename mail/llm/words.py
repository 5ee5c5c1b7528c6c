"""The few words the offline classifier knows, in five languages; headers and form say the rest.

They stay as the figures want them: without the words of asking it finds half as many mails that need
an answer, and only these words tell a task or a payment from a question (docs/adr/011).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Concept(StrEnum):
    """A meaning that words of several languages share."""

    ASKING = "asking"
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
