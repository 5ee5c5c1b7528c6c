"""The language of a text is told where the text gives enough to go by."""

from __future__ import annotations

import pytest

from mail.text.language import detect_language

pytestmark = pytest.mark.req("M-06")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Please let us know if you can come to the meeting on Friday.", "en"),
        ("Dobrý den, prosím o zaslání faktury za říjen, děkuji.", "cs"),
        ("Sehr geehrte Frau Kos, bitte senden Sie uns die Rechnung für den Oktober.", "de"),
        ("Bonjour, merci de nous envoyer la facture pour le mois d'octobre.", "fr"),
        ("Hola, gracias por la factura del mes de octubre, está todo bien.", "es"),
        ("Здравствуйте, пожалуйста пришлите счёт", "ru"),
        ("お世話になっております。請求書を送ってください", "ja"),
        ("请把发票发给我", "zh"),
        ("1234 5678", None),
        ("", None),
    ],
)
def test_language(text, language):
    assert detect_language(text) == language
