"""Bytes become the text that was meant, whatever the label says."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mail.text.charsets import codec_for, decode_body, decode_bytes, html_charset

pytestmark = pytest.mark.req("M-06")

CZECH = "Dobrý den, prosím o zaslání faktury za říjen. Děkuji, Jiří Šťastný."
WESTERN = "Müller schläft für den Überblick … à bientôt, élève"
RUSSIAN = "Здравствуйте, пожалуйста пришлите счёт за октябрь"
JAPANESE = "お世話になっております。請求書を送ってください"
GREEK = "Καλημέρα σας, παρακαλώ στείλτε μου το τιμολόγιο του Οκτωβρίου"
TURKISH = "Siparişiniz hazır, faturayı yarın göndereceğim. İyi çalışmalar"
UKRAINIAN = "Добрий день, надішліть рахунок за жовтень. Дякую, до зустрічі"
KOREAN = "안녕하세요. 10월분 청구서를 보내 주시기 바랍니다."
CHINESE = "您好，请把十月份的发票发给我，谢谢。"
TAIWANESE = "您好，請把十月份的發票寄給我，謝謝。"
HEBREW = "שלום רב, אנא שלחו לי את החשבונית לחודש אוקטובר"
ARABIC = "السلام عليكم، أرجو إرسال الفاتورة لشهر أكتوبر"
THAI = "สวัสดีครับ กรุณาส่งใบแจ้งหนี้ให้ผมด้วย"
HUNGARIAN = "Köszönöm szépen a gyors választ, üdvözlettel Gergő Szűcs"


@pytest.mark.parametrize(
    ("text", "codec", "label"),
    [
        (CZECH, "utf-8", "utf-8"),
        (CZECH, "cp1250", "windows-1250"),
        (CZECH, "iso8859_2", "ISO-8859-2"),
        (WESTERN, "cp1252", "iso-8859-1"),
        (RUSSIAN, "koi8_r", "koi8-r"),
        (JAPANESE, "iso2022_jp", "ISO-2022-JP"),
        (JAPANESE, "cp932", "x-sjis"),
        (WESTERN, "utf-16", "utf-16"),
        ("한국어 메일", "cp949", "ks_c_5601-1987"),
        ("简体中文", "gb18030", "gb2312"),
    ],
)
def test_an_honest_label_is_believed(text, codec, label):
    assert decode_bytes(text.encode(codec), label) == text


@pytest.mark.parametrize("label", ["utf-8", "us-ascii", "x-unknown", "zlib", "", None])
@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (CZECH, "utf-8"),
        (CZECH, "cp1250"),
        (CZECH, "iso8859_2"),
        (WESTERN, "cp1252"),
        (RUSSIAN, "koi8_r"),
        (RUSSIAN, "cp1251"),
        (JAPANESE, "iso2022_jp"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (GREEK, "cp1253"),
        (GREEK, "iso8859_7"),
        (TURKISH, "cp1254"),
        (UKRAINIAN, "cp1251"),
        (UKRAINIAN, "koi8_u"),
        (KOREAN, "euc_kr"),
        (CHINESE, "gb2312"),
        (TAIWANESE, "big5"),
        (HEBREW, "cp1255"),
        (ARABIC, "cp1256"),
        (THAI, "cp874"),
        (HUNGARIAN, "iso8859_2"),
    ],
)
def test_a_wrong_or_missing_label_is_made_good_by_the_bytes(text, codec, label):
    assert decode_bytes(text.encode(codec), label) == text


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (CZECH, "windows-1250"),
        (CZECH, "iso-8859-2"),
        (WESTERN, "iso-8859-1"),
        ("Kommst Du ins Caf\u00e9?", "iso-8859-1"),
        ("It\u2019s fine.", "windows-1252"),
        (RUSSIAN, "koi8-r"),
        ("\u041d\u0435\u0442.", "windows-1251"),
        (GREEK, "iso-8859-7"),
        (TURKISH, "iso-8859-9"),
        (HEBREW, "iso-8859-8-i"),
        (ARABIC, "windows-1256"),
        (THAI, "tis-620"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "iso-2022-jp"),
        (CHINESE, "gb2312"),
        (TAIWANESE, "big5"),
        (KOREAN, "ks_c_5601-1987"),
    ],
)
def test_utf_8_is_told_under_any_label_as_gmail_gives_it(text, label):
    assert decode_body(text.encode(), label) == text


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (CZECH, "cp1250"),
        (CZECH, "iso8859_2"),
        (WESTERN, "cp1252"),
        ("MARCH\u00c9\u00a0! \u00abCAF\u00c9\u00bb", "cp1252"),
        (RUSSIAN, "koi8_r"),
        (UKRAINIAN, "cp1251"),
        (UKRAINIAN, "koi8_u"),
        (GREEK, "iso8859_7"),
        (HEBREW, "cp1255"),
        (ARABIC, "cp1256"),
        (THAI, "cp874"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (CHINESE, "gb2312"),
        (TAIWANESE, "big5"),
        (KOREAN, "euc_kr"),
    ],
)
def test_some_letters_that_are_utf_8_by_chance_stay_what_the_label_says(text, codec):
    pieces = [text[start:end] for start in range(len(text)) for end in range(start + 1, start + 8)]
    assert [decode_body(piece.encode(codec), codec) for piece in pieces] == pieces


@given(
    text=st.sampled_from([CZECH, GREEK, RUSSIAN, KOREAN, JAPANESE, WESTERN]),
    damage=st.dictionaries(st.integers(0, 2_000), st.integers(0, 255), min_size=1, max_size=9),
    label=st.sampled_from(["utf-8", "", None]),
)
@example(text=CZECH, damage={14: 0xFF}, label="utf-8")
def test_a_damaged_byte_of_utf_8_costs_three_letters_at_most(text, damage, label):
    text = "\n".join([text] * 5)
    data = bytearray(text.encode())
    for place, byte in damage.items():
        data[place % len(data)] = byte
    assert differing(text, decode_bytes(bytes(data), label)) <= 3 * len(damage)


@pytest.mark.parametrize("label", ["utf-8", None])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.3, 0.5])
@pytest.mark.parametrize(
    "text",
    [CZECH, GREEK, RUSSIAN, UKRAINIAN, HEBREW, ARABIC, THAI, CHINESE, TAIWANESE, KOREAN, JAPANESE],
    ids=lambda text: text[:8],
)
def test_utf_8_of_which_much_is_damaged_costs_three_letters_a_byte_at_most(text, share, label):
    text = "\n".join([text] * 3)
    for seed in range(3):
        random, data = Random(seed), bytearray(text.encode())
        places = random.sample(range(len(data)), int(len(data) * share))
        for place in places:
            data[place] = random.randrange(32, 256)
        assert differing(text, decode_bytes(bytes(data), label)) <= 3 * len(places)


def test_some_words_of_thai_are_no_damaged_utf_8():
    notes = [THAI[start : start + 14] for start in range(0, len(THAI) - 14, 3)]
    read = [decode_bytes(note.encode("cp874")) for note in notes]
    assert read == notes


def differing(one: str, other: str) -> int:
    """Return the edit distance."""
    before = list(range(len(other) + 1))
    for number, left in enumerate(one, 1):
        now = [number]
        for place, right in enumerate(other, 1):
            now.append(min(before[place] + 1, now[-1] + 1, before[place - 1] + (left != right)))
        before = now
    return before[-1]


def test_ascii_labelled_utf_16_stays_ascii():
    assert decode_bytes(b"plain ascii", "utf-16") == "plain ascii"


def test_a_byte_order_mark_outweighs_the_label():
    assert decode_bytes(WESTERN.encode("utf-8-sig"), "windows-1250") == WESTERN
    assert decode_bytes(WESTERN.encode("utf-16"), "utf-8") == WESTERN


def test_damage_shows_but_does_not_hurt():
    assert decode_bytes(b"ok \xff\xfe", "shift_jis").startswith("ok ")


@pytest.mark.parametrize("label", ["zlib", "rot13", "hex", "unicode_escape", "punycode", "idna"])
def test_codecs_that_are_no_charsets_are_refused(label):
    assert codec_for(label) is None


def test_the_charset_of_an_html_head_is_found():
    head = b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1250">'
    assert html_charset(head) == "windows-1250"
    assert html_charset(b"<p>none") is None


def test_letters_that_were_lost_before_are_no_damage():
    before = "Mr \ufffdlek and Mrs \ufffdern\ufffd met in Caf\ufffd Slavia, where the caf\u00e9 is."
    data = before.encode().replace("\u00e9".encode(), b"\xc3")
    assert decode_bytes(data) == before.replace("\u00e9", "\ufffd")
