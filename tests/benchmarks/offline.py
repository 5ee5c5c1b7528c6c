"""How good the offline classifier is on real mail.

Run by `python -m tests.benchmarks.offline --data FOLDER`. FOLDER has the unpacked mail for
development (see docs/adr/011), which is third parties' mail and not in the repository. The mail of
each folder is judged by a prior that was trained on the other folders and on the sample mailbox.
The same mail is judged by the rule of two lines, and by the answer that everything is for
information. `--write` trains the prior on all mail and writes it to mail/llm/prior.py.

Two numbers, which are fitted on the answers for the held-out folders, determine how sure the prior
is.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from mail.gmail.simulator.messages import message_part
from mail.gmail.simulator.mime import parse
from mail.llm import prior
from mail.llm.base import Category, MailContext
from mail.llm.features import features
from mail.llm.offline import OfflineClassifier
from mail.llm.reading import read
from mail.llm.signals import Prior
from mail.rules.automated import automated_signal
from mail.text.parse import parse_message
from tests.benchmarks.offline_mail import Mail, context_of, ids, labels, load
from tests.benchmarks.offline_training import Example, calibrate, fit, scaled
from tests.mail.sample.samples import OWNER, expected, inbox

PULL = 10.0
UNREAD_WEIGHT = 0.3
# There is little mail of the kind that people get today; debates on mailing lists are not of it.
WRITTEN_WEIGHT = 3.0
COPY_WEIGHT = 0.3
REPLY, FYI = Category.NEEDS_RESPONSE, Category.FYI
ASKING = (Category.NEEDS_RESPONSE, Category.ACTION_REQUIRED)
BINS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.01)


@dataclass(frozen=True)
class Lesson:
    """A mail to learn from: its folder, whether it needs an answer, and how much it counts."""

    folder: str
    example: Example


@dataclass(frozen=True)
class Answer:
    """The verdict on a labelled mail; None if the classifier labels nothing."""

    mail: Mail
    label: Category
    verdict: Category | None
    confidence: float = 1.0


def lessons(data: Path, read_mails: Sequence[tuple[Mail, Category]]) -> list[Lesson]:
    """Return the mails to learn from, without those of machines, which never need an answer.

    Nobody has read the other advertisements and newsletters. They count less, as mail that needs no
    answer.
    """
    known = {mail.id for mail, _ in read_mails}
    found = [
        (mail.folder, mail.context, label is REPLY, _weight(mail)) for mail, label in read_mails
    ]
    for mail_id in ids(data):
        if mail_id.startswith(("spam/", "hard-ham/")) and mail_id not in known:
            unread = load(data, mail_id)
            found.append((unread.folder, unread.context, False, UNREAD_WEIGHT))
    for sample in inbox():
        best = Category(expected()[sample.name].categories[0])
        if best not in (Category.WAITING, Category.PAYMENT_REQUEST):
            mail = parse_message({"payload": message_part(parse(sample.raw))})
            context = context_of(mail, frozenset({OWNER}))
            found.append(("sample", context, best in ASKING, 1.0))
    return [
        Lesson(folder, Example(features(context, read(context)), wanted, weight))
        for folder, context, wanted, weight in found
        if automated_signal(context.sender, context.headers) is None
    ]


def _weight(mail: Mail) -> float:
    if mail.is_written:
        return WRITTEN_WEIGHT
    return COPY_WEIGHT if mail.is_copy else 1.0


def held_out(
    read_mails: Sequence[tuple[Mail, Category]], taught: Sequence[Lesson]
) -> tuple[dict[str, Prior], tuple[float, float]]:
    """Return each folder's prior, trained on the others, and the two numbers of their sureness."""
    folders = sorted({mail.folder for mail, _ in read_mails})
    priors = {
        folder: fit([one.example for one in taught if one.folder != folder], PULL)
        for folder in folders
    }
    odds, wanted = [], []
    for mail, label in read_mails:
        context = mail.context
        # Nobody gets the debates of a list as direct mail, so they do not count for the sureness.
        if automated_signal(context.sender, context.headers) is None and not mail.is_copy:
            odds.append(priors[mail.folder].odds(features(context, read(context))))
            wanted.append(label is REPLY)
    slope, shift = calibrate(odds, wanted)
    return {name: scaled(one, slope, shift) for name, one in priors.items()}, (slope, shift)


def two_lines(mail: MailContext) -> Category:
    """Judge a mail by the rule of two lines."""
    if automated_signal(mail.sender, mail.headers) is not None:
        return FYI
    return REPLY if {one.key for one in mail.to} & mail.own_addresses else FYI


def judge(read_mails: Sequence[tuple[Mail, Category]], priors: dict[str, Prior]) -> list[Answer]:
    """Judge each mail by the prior of its folder."""
    found = []
    for mail, label in read_mails:
        verdict = OfflineClassifier(priors[mail.folder]).classify(mail.context)
        shown = verdict.category if verdict.labelled else None
        found.append(Answer(mail, label, shown, verdict.confidence))
    return found


def table(answers: Sequence[Answer], group: Callable[[Mail], str]) -> list[str]:
    """Return the table of a way to judge: a line for each group, and one for all."""
    groups: dict[str, list[Answer]] = defaultdict(list)
    for one in answers:
        groups[group(one.mail)].append(one)
    lines = [_line(name, found) for name, found in sorted(groups.items())]
    return [*lines, _line("all", answers)] if len(groups) > 1 else lines


def _line(name: str, answers: Sequence[Answer]) -> str:
    wanted = sum(one.label is REPLY for one in answers)
    claimed = sum(one.verdict is REPLY for one in answers)
    true = sum(one.label is one.verdict is REPLY for one in answers)
    right = sum(one.label is one.verdict for one in answers)
    open_ = sum(one.verdict is None for one in answers)
    baselines = [
        sum(two_lines(one.mail.context) is one.label for one in answers) / len(answers),
        sum(one.label is FYI for one in answers) / len(answers),
    ]
    return (
        f"{name:<22}{len(answers):>6}{wanted:>8}{claimed:>9}{_share(true, claimed):>11}"
        f"{_share(true, wanted):>8}{open_:>6}{right / len(answers):>10.3f}"
        f"{baselines[0]:>11.3f}{baselines[1]:>9.3f}"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def reliability(answers: Sequence[Answer]) -> list[str]:
    """Return how often the classifier is right, for each range of how sure it says it is."""
    lines = [f"{'says':<14}{'mails':>7}{'mean':>8}{'right':>8}"]
    for low, high in pairwise(BINS):
        found = [one for one in answers if low <= one.confidence < high]
        if found:
            guesses = [one.verdict or FYI for one in found]
            right = sum(guess is one.label for guess, one in zip(guesses, found, strict=True))
            mean = sum(one.confidence for one in found) / len(found)
            lines.append(
                f"{low:.2f}-{min(high, 1):.2f}{len(found):>11}{mean:>8.2f}{right / len(found):>8.2f}"
            )
    return lines


def report(answers: Sequence[Answer]) -> list[str]:
    """Return all tables."""
    head = (
        f"{'held out':<22}{'mails':>6}{'wanted':>8}{'claimed':>9}{'precision':>11}{'recall':>8}"
        f"{'open':>6}{'accuracy':>10}{'two lines':>11}{'all fyi':>9}"
    )
    written = [one for one in answers if one.mail.is_written]
    lying = [one for one in answers if not (one.mail.is_copy or one.mail.is_written)]
    copies = [one for one in answers if one.mail.is_copy]
    return [
        "mail as it lies in the folders", head, *table(lying, lambda mail: mail.folder), "",
        "messages of lists as the copies that their addressees got", head,
        *table(copies, lambda mail: mail.folder), "",
        "mail that was written for this", head, *table(written, lambda mail: mail.folder), "",
        "all", head, *table(answers, lambda mail: mail.folder), "",
        "reliability", *reliability(answers),
    ]  # fmt: skip


def crowds(data: Path, priors: dict[str, Prior]) -> list[str]:
    """Return how many mails of kinds that nobody answers would get a draft."""
    judged: Counter[str] = Counter()
    claimed: Counter[str] = Counter()
    for mail_id in ids(data):
        mail = load(data, mail_id)
        name = {"hard-ham": "newsletters", "spam": "advertisements"}.get(mail.folder, "")
        if mail.folder == "easy-ham":
            automated = automated_signal(mail.context.sender, mail.context.headers)
            name = "lists and machines" if automated is not None else ""
        if name:
            judged[name] += 1
            verdict = OfflineClassifier(priors[mail.folder]).classify(mail.context)
            claimed[name] += verdict.labelled and verdict.category is REPLY
    return [f"{name}: {claimed[name]} of {judged[name]}" for name in sorted(judged)]


def write(prior_: Prior) -> None:
    """Write the prior to the file from which the classifier reads it."""
    path = Path(str(prior.__file__))
    head = path.read_text(encoding="utf-8").partition("BIAS: Final")[0]
    rows = "".join(f'    "{name}": {weight:.3f},\n' for name, weight in prior_.weights.items())
    text = (
        f"{head}BIAS: Final = {prior_.bias:.3f}\nWEIGHTS: Final[Mapping[str, float]] = {{\n{rows}}}\n"
        '"""The weight of each feature, in log odds of an answer."""\n'
    )
    path.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Print the tables; return 0, even if there is no mail."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.offline")
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--write", action="store_true", help="train on all, and write the prior")
    options = parser.parse_args(arguments)
    if not (options.data / "spamassassin").is_dir():
        sys.stdout.write(f"skipped: {options.data} holds no mail for development\n")
        return 0
    read_mails = [(load(options.data, name), label) for name, label in labels().items()]
    taught = lessons(options.data, read_mails)
    priors, sureness = held_out(read_mails, taught)
    counts = Counter(mail.is_copy for mail, _ in read_mails)
    lines = [f"{counts[False]} mails and {counts[True]} copies; {len(taught)} lessons", ""]
    lines += report(judge(read_mails, priors))
    lines += ["", "said to need a response", *crowds(options.data, priors)]
    if options.write:
        write(scaled(fit([one.example for one in taught], PULL), *sureness))
        lines += ["", f"wrote {Path(str(prior.__file__)).name}"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
