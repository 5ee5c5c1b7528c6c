"""A reply's own text is separated from what it quotes and from its signature."""

from __future__ import annotations

import time

import pytest

from mail.text.quotes import newest_text, split_reply

pytestmark = pytest.mark.req("M-06", "M-09")


@pytest.mark.parametrize(
    "history",
    [
        "On Mon, 2 Nov 2026 at 10:00, Ann <ann@x.example> wrote:\n> old",
        "On Mon, 2 Nov 2026 at 10:00, Ann Somebody-Longname\n<ann@x.example> wrote:\n\n> old",
        "On 2 Nov 2026, at 10:00, Ann wrote:\n\nold",
        "Dne po 2. 11. 2026 v 10:00 Anna Nová <a@x.example> napsala:\n> old",
        "po 2. 11. 2026 v 10:00 odesílatel Anna Nová <a@x.example> napsal:\n> old",
        "Am 02.11.2026 um 10:00 schrieb Anna Neu <a@x.example>:\n> old",
        "Am Mo., 2. Nov. 2026 um 10:00 Uhr schrieb Anna:\n> old",
        "Le lun. 2 nov. 2026 à 10:00, Anne <a@x.example> a écrit :\n> old",
        "El lun, 2 nov 2026 a las 10:00, Ana (<a@x.example>) escribió:\n> old",
        "-----Original Message-----\nFrom: Ann\nold",
        "-----Původní zpráva-----\nold",
        "-----Ursprüngliche Nachricht-----\nold",
        "-----Message d'origine-----\nold",
        "________________________________\nFrom: Ann\nSent: Monday\nTo: Bob\nSubject: x\n\nold",
        "From: Ann\nSent: Monday\nTo: Bob\nSubject: x\n\nold",
        "Od: Anna\nOdesláno: pondělí\nKomu: Bob\nPředmět: x\n\nold",
        "Von: Anna\nGesendet: Montag\nAn: Bob\nBetreff: x\n\nold",
        "De : Anne\nEnvoyé : lundi\nÀ : Bob\nObjet : x\n\nold",
        "*From:* Ann\n*Sent:* Monday\n*To:* Bob\n\nold",
        "\n".join(["От: Анна", "Отправлено: понедельник", "Кому: Боб", "Тема: x", "", "old"]),
        "On Mon, 2 Nov 2026 at 10:00, Ann Brown wrote:\nAB> old\nAB> older",
        "> old",
        "Le lun. 2 nov. 2026 à 10:00, Anne Longue-Nomdefamille <a@x.example> a\nécrit :\n\n> old",
        "Il giorno lun 2 nov 2026 alle ore 10:00 Anna <a@x.example> ha\nscritto:\n\n> old",
        "man. 2. nov. 2026 kl. 10:00 skrev Anna Ny <a@x.example>:\n\n> old",
        "пн, 2 нояб. 2026 в 10:00, Анна <a@x.example>:\n\n> old",
        "пн, 2 нояб. 2026 в 10:00, Анна Длинная-Фамилия\n<a@x.example>:\n\n> old",
        "Anna <a@x.example> ezt írta (időpont: 2026. nov. 2., H, 10:00):\n\n> old",
        "Anna <a@x.example> 于2026年11月2日周一 10:00写道\uff1a\n\n> old",
        "Van: Anna\nVerzonden: maandag\nAan: Bob\nOnderwerp: x\n\nold",
        "Od: Anna\nWysłano: poniedziałek\nDo: Bob\nTemat: x\n\nold",
        "Från: Anna\nSkickat: måndag\nTill: Bob\nÄmne: x\n\nold",
        "Fra: Anna\nSendt: mandag\nTil: Bob\nEmne: x\n\nold",
    ],
)
def test_history_is_cut_off(history):
    split = split_reply(f"Yes, gladly.\n\n{history}")
    assert split.reply == "Yes, gladly."
    assert "old" in split.quoted


@pytest.mark.parametrize(
    "signature",
    ["-- \nAnn\nHarbour Ltd", "--\nAnn", "Sent from my iPhone", "Odesláno z iPhonu", "Von meinem iPhone gesendet"],
)  # fmt: skip
def test_signatures_are_cut_off(signature):
    split = split_reply(f"Yes.\n\n{signature}")
    assert (split.reply, split.signature) == ("Yes.", signature)


def test_answers_between_quoted_lines_all_count():
    split = split_reply("On Monday Ann wrote:\n> one?\nfirst\n> two?\nsecond")
    assert split.reply == "first\nsecond"
    assert split.quoted == "On Monday Ann wrote:\n> one?\n> two?"


def test_an_answer_that_names_an_address_before_a_quoted_line_counts():
    split = split_reply("> one?\nSend these 2 to ann@x.example:\n> two?\nNo.")
    assert split.reply == "Send these 2 to ann@x.example:\nNo."


@pytest.mark.parametrize(
    "text",
    [
        "On Monday we can start.\nAll the rest is said.",
        "From: here to there it is far.\nWe walk.",
        "And here is -- not a signature -- more.",
        "On 2 November write to these, please:\nann@x.example",
        "Please write to these 2 by Monday, ann@x.example too:\nfirst Bob, then Ann",
        "First.\n--\nSecond.\n--\nThird.",
    ],
)
def test_ordinary_text_is_left_whole(text):
    assert split_reply(text).reply == text


def test_a_forward_without_a_word_is_read_whole():
    text = "---------- Forwarded message ---------\nFrom: Ann\nPlease pay."
    assert newest_text(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        *("on ", "On a\n", "a@", "> ", "-", "_\n", "From:\n", "Sent: wrote:"),
        pytest.param(f"1<{'a@' * 198}:\n", id="names of writers"),
    ],
)
def test_a_hostile_megabyte_is_split_in_seconds(piece):
    text = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    started = time.process_time()
    split_reply(text)
    assert time.process_time() - started < 10
