"""What the offline classifier learns from its person.

Run by `python -m tests.benchmarks.learning [FOLDER]`.

Made-up people get the mails of the sample, dealt to senders, in several rounds. Each mail is judged
with what the person has done by then, and without it. The person corrects half of the wrong
verdicts, and answers four of five mails that need an answer. There are three worlds: each sender
wants always the same; each sender wants anything; and as the first, but to three of ten senders the
person reacts in one way, whatever their mails say. The prior was trained on the sample, too, so
that without learning it is right about most mails. Therefore the second world shows the harm of
learning, and the others its gain. The figures say in which direction the signals push, and how far;
they do not measure people.

Real people are measured if a FOLDER has the mail of mailing lists, as raw messages like those of
the SpamAssassin corpus. The persons are those who write most. For each message of somebody else
that a person could see, the question is whether the person's answers before it predict an answer.
The result is that of a ranking, in which 0.5 is chance.
"""

from __future__ import annotations

import email.policy
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.utils import parseaddr, parsedate_to_datetime
from pathlib import Path
from random import Random
from typing import Any

from mail.gmail.simulator.messages import message_part
from mail.gmail.simulator.mime import parse
from mail.llm.base import Category, MailContext, SenderHistory
from mail.llm.offline import OfflineClassifier, answer_weight
from mail.text.parse import parse_message
from tests.benchmarks.offline_mail import context_of
from tests.mail.sample.samples import OWNER, expected, inbox

ROUNDS, SENDERS, RUNS = 6, 40, 10
CORRECTED, ANSWERED = 0.5, 0.8
# The share of a sender's mail that is of the sender's own category, and the share of senders whose
# category counts whatever their mails say.
WORLDS = {"alike": (1.0, 0.0), "anything": (0.0, 0.0), "own will": (1.0, 0.3)}
PERSONS, FEWEST_ANSWERS = 20, 10
TEXT_LIMIT = 200_000


@dataclass(frozen=True)
class Letter:
    """A mail of the sample, and the categories that a person would accept, best first."""

    context: MailContext
    accepted: tuple[Category, ...]


@dataclass
class Sender:
    """A made-up sender, and what the person did with the sender's mails so far."""

    wants: Category
    regardless: bool
    said: list[Category] = field(default_factory=list)
    answered: int = 0
    unanswered: int = 0

    @property
    def history(self) -> SenderHistory:
        """Return the history that the classifier gets."""
        return SenderHistory(tuple(self.said), self.answered, self.unanswered)


@dataclass
class Score:
    """The verdicts of one round."""

    judged: int = 0
    right: int = 0
    claimed: int = 0
    true_claims: int = 0

    def add(self, verdict: Category, accepted: tuple[Category, ...]) -> None:
        """Count one verdict."""
        self.judged += 1
        self.right += verdict in accepted
        self.claimed += verdict is Category.NEEDS_RESPONSE
        self.true_claims += verdict is Category.NEEDS_RESPONSE and verdict in accepted


def letters() -> list[Letter]:
    """Return the sample's mails whose category depends on the mail alone."""
    found = []
    for sample in inbox():
        accepted = tuple(Category(one) for one in expected()[sample.name].categories)
        mail = parse_message({"payload": message_part(parse(sample.raw))})
        context = context_of(mail, frozenset({OWNER}))
        if Category.WAITING not in accepted:
            found.append(Letter(context, accepted))
    return found


def play(world: str, seed: int, pool: list[Letter], *, learns: bool) -> list[Score]:
    """Play one world to its end; return the score of each round."""
    alike, regardless = WORLDS[world]
    rng = Random(seed)
    by_category: dict[Category, list[Letter]] = defaultdict(list)
    for letter in pool:
        by_category[letter.accepted[0]].append(letter)
    senders = [
        Sender(rng.choice(pool).accepted[0], rng.random() < regardless) for _ in range(SENDERS)
    ]
    classifier, scores = OfflineClassifier(), [Score() for _ in range(ROUNDS)]
    for score in scores:
        for sender in senders:
            own = rng.random() < alike and not sender.regardless
            letter = rng.choice(by_category[sender.wants] if own else pool)
            accepted = (sender.wants,) if sender.regardless else letter.accepted
            told = replace(letter.context, history=sender.history) if learns else letter.context
            verdict = classifier.classify(told).category
            score.add(verdict, accepted)
            _react(sender, accepted, verdict, rng)
    return scores


def _react(sender: Sender, accepted: tuple[Category, ...], verdict: Category, rng: Random) -> None:
    """Let the person correct and answer; both numbers are drawn, whatever the verdict is."""
    corrects, answers = rng.random() < CORRECTED, rng.random() < ANSWERED
    if verdict not in accepted and corrects:
        sender.said.append(accepted[0])
    if accepted[0] is Category.NEEDS_RESPONSE and answers:
        sender.answered += 1
    else:
        sender.unanswered += 1


def made_up() -> list[str]:
    """Return the table of the made-up worlds."""
    pool = letters()
    lines = [
        f"made-up people: {RUNS} runs, {SENDERS} senders",
        "",
        "accuracy (precision of needs_response)",
    ]
    for world in WORLDS:
        lines.append(f"{world:<10}{'without':>16}{'with':>16}")
        totals = [[Score(), Score()] for _ in range(ROUNDS)]
        for seed in range(RUNS):
            for column in (0, 1):
                for total, score in zip(
                    totals, play(world, seed, pool, learns=bool(column)), strict=True
                ):
                    vars(total[column]).update(Counter(vars(total[column])) + Counter(vars(score)))
        for number, row in enumerate(totals, 1):
            cells = [
                f"{one.right / one.judged:.3f} ({one.true_claims / max(1, one.claimed):.2f})"
                for one in row
            ]
            lines.append(f"round {number:<4}{cells[0]:>16}{cells[1]:>16}")
    return lines


@dataclass(frozen=True)
class Post:
    """A message to a list."""

    id: str
    author: str
    at: float
    answers: str


def posts(folder: Path) -> list[Post]:
    """Return the messages of a folder in the order of their dates, each once."""
    found: dict[str, Post] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            post = _post(path.read_bytes()[:TEXT_LIMIT])
            if post is not None:
                found.setdefault(post.id, post)
    return sorted(found.values(), key=lambda post: post.at)


def _post(raw: bytes) -> Post | None:
    message: Any = message_from_bytes(raw, policy=email.policy.compat32)
    try:
        at = parsedate_to_datetime(str(message["Date"])).timestamp()
    except (TypeError, ValueError):
        return None
    named = [str(message[name] or "").split() for name in ("In-Reply-To", "References")]
    direct = [one for one in named[0] if one.startswith("<")][:1] or named[1][-1:]
    author = parseaddr(str(message["From"]))[1].lower()
    own = str(message["Message-ID"] or "").strip()
    return Post(own, author, at, direct[0] if direct else "") if own and author else None


def foretold(all_posts: list[Post]) -> list[tuple[str, int, int, float, float]]:
    """Return for each person: messages, answers, and how well two rankings predict an answer.

    One is that of the history, the other that of how many messages the sender has sent, which does
    not know any answers.
    """
    by_id = {post.id: post for post in all_posts}
    answered: dict[str, set[str]] = defaultdict(set)
    for post in all_posts:
        asked = by_id.get(post.answers)
        if asked is not None and asked.author != post.author:
            answered[post.author].add(asked.id)
    busiest = sorted(answered, key=lambda one: (-len(answered[one]), one))[:PERSONS]
    found = []
    for person in busiest:
        if len(answered[person]) < FEWEST_ANSWERS:
            continue
        times = [by_id[one].at for one in answered[person]]
        seen = [
            post
            for post in all_posts
            if post.author != person and min(times) <= post.at <= max(times)
        ]
        found.append((person, *_of_person(seen, answered[person])))
    return found


def _of_person(seen: list[Post], answered: set[str]) -> tuple[int, int, float, float]:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    ranked: list[tuple[float, float, bool]] = []
    for post in seen:
        yes, no = counts[post.author]
        is_answered = post.id in answered
        ranked.append((answer_weight(SenderHistory((), yes, no)), float(yes + no), is_answered))
        counts[post.author][0 if is_answered else 1] += 1
    return (
        len(seen),
        sum(one[2] for one in ranked),
        _area([(one[0], one[2]) for one in ranked]),
        _area([(one[1], one[2]) for one in ranked]),
    )


def _area(ranked: list[tuple[float, bool]]) -> float:
    """Return how often an answered message ranks above an unanswered one; ties count half."""
    yes = sorted(score for score, is_answered in ranked if is_answered)
    no = sorted(score for score, is_answered in ranked if not is_answered)
    if not yes or not no:
        return 0.5
    wins = sum((one > other) + 0.5 * (one == other) for one in yes for other in no)
    return wins / (len(yes) * len(no))


def real(folder: Path) -> list[str]:
    """Return the table of the real people, who have numbers instead of names."""
    rows = foretold(posts(folder))
    lines = ["", "real writers   messages  answered   history   number of messages"]
    for number, (_, messages, answers, history, volume) in enumerate(rows, 1):
        lines.append(f"{number:<15}{messages:>8}{answers:>10}{history:>10.2f}{volume:>21.2f}")
    if rows:
        middle = [sum(row[place] for row in rows) / len(rows) for place in (3, 4)]
        lines.append(f"{'mean':<33}{middle[0]:>10.2f}{middle[1]:>21.2f}")
    return lines


def main(arguments: list[str]) -> int:
    """Print the tables; return 0."""
    lines = made_up()
    for folder in arguments:
        lines += real(Path(folder))
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
