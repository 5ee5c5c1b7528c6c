"""The language of a text is recognised if the text is long enough to tell."""

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
        # Short texts, because replies are often short.
        ("Díky, ozvu se zítra.", "cs"),
        ("Ďakujem, ozvem sa zajtra.", "sk"),
        ("Können Sie mir helfen?", "de"),
        ("Merci beaucoup", "fr"),
        ("See you tomorrow", "en"),
        ("Obrigado, até amanhã", "pt"),
        ("Grazie mille", "it"),
        ("Gracias, nos vemos mañana", "es"),
        ("Bedankt, tot morgen", "nl"),
        ("Dziękuję bardzo", "pl"),
        ("Köszönöm szépen", "hu"),
        ("Teşekkürler, yarın görüşürüz", "tr"),
        ("Дякую, до завтра", "uk"),
        ("ευχαριστώ πολύ", "el"),
        ("감사합니다", "ko"),
        ("ok", None),
        ("https://example.org/de/was/ist/das?und=nicht", None),
        ("1234 5678", None),
        ("", None),
    ],
)
def test_language(text, language):
    assert detect_language(text) == language
