"""Random histories of actions and undos in one mailbox, which its owner uses meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mail.errors import ActionWaits, NotUndoable, RowGone
from mail.gmail.errors import GmailError
from mail.gmail.simulator.faults import LOST_ANSWER, LOST_REQUEST, Fault
from mail.gmail.simulator.ids import message_id
from tenants.scope import firm_scope
from tests.mail.action_kit import ask, ask_undo
from tests.mail.action_model import (
    ACTIONS,
    OWNER,
    PROJECTS,
    SNOOZED,
    WAKE,
    Asked,
    Model,
)
from tests.mail.mail_kit import Mailbox, letter
from tests.mail.mirror_machine import check_equal, delete

if TYPE_CHECKING:
    from mail.models import Action
    from tenants.models import Firm

Step = tuple[Any, ...]
PARAMETERS: dict[str, dict[str, Any]] = {
    "apply_label": {"label": PROJECTS},
    "remove_label": {"label": PROJECTS},
    "snooze": {"amount": 1, "units": "hours"},
}
OWNERS_LABELS = ("INBOX", "UNREAD", "STARRED", PROJECTS, "TRASH", SNOOZED)
UNFINISHED = ("queued", "executing")
FAULTS = {
    "none": None,
    "lost answer": LOST_ANSWER,
    "lost request": LOST_REQUEST,
    "503": Fault(503),
    "429": Fault(429, retry_after=1),
}
# After the others nobody can tell who put the message into the inbox, if the owner did meanwhile.
WAKE_FAULTS = ("none", "lost answer", "429")


@dataclass
class World:
    """A mailbox and its model; `ids` are Gmail's ids of people's and Mailroom's labels, by name."""

    mailbox: Mailbox
    model: Model = field(default_factory=Model)
    ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, firm: Firm, mailbox: Mailbox) -> World:
        """Return a new mailbox of the firm's with a few stored messages, two in one thread."""
        from mail.services.mailboxes.accounts import open_account

        account = open_account(firm, f"{uuid4().hex}@acme.example")
        world = cls(Mailbox(firm, account, mailbox.simulator))
        gmail = world.mailbox.gmail
        world.ids = {name: gmail.create_label(name)["id"] for name in (PROJECTS, SNOOZED)}
        root = f"<{uuid4().hex}@customer.example>"
        raws = [
            letter("Plan", message_id=root),
            letter("Re: Plan", reply_to_id=root),
            letter("Another"),
        ]
        for raw in raws:
            arrived = world.mailbox.receive(raw, labels=("INBOX", "UNREAD"))
            world.model.add(arrived, {"INBOX", "UNREAD"})
        _sync(world.mailbox)
        return world

    def play(self, step: Step) -> None:
        """Do what the step says; then the mailbox must equal the model."""
        match step:
            case "ask", which, kind, fault:
                if message := self._chosen(which):
                    action = ask(self.mailbox, message, kind, **PARAMETERS.get(kind, {}))
                    known = self.model.synced.get(message, 0)
                    self.model.asked.append(Asked(action.pk, message, kind, known=known))
                    self._run(self.model.asked[-1], fault)
            case "undo", which, fault:
                self._undo(which, fault)
            case "retry", fault:
                self._retry(fault)
            case "wake", which, fault:
                self._wake(which, fault)
            case ("sync",):
                _sync(self.mailbox)
                self.model.sync()
                # The actions on a deleted message are deleted with it.
                self._read_statuses()
            case _:
                self._owner_does(step)
        self.check()

    def check(self) -> None:
        """Check that the mailbox equals the model."""
        assert self._in_gmail() == self.model.labels

    def settle(self) -> None:
        """Finish what is unfinished, and sync; the stored labels must equal the mailbox's, too."""
        for _ in range(2):
            self.play(("retry", "none"))
        _sync(self.mailbox)
        check_equal(self.mailbox)
        assert {one.status for one in self.model.asked} <= {
            "completed",
            "canceled",
            "failed",
            "gone",
        }

    # The owner

    def _owner_does(self, step: Step) -> None:
        message = self._chosen(step[1])
        if message is None:
            return
        if step[0] == "vanish":
            delete(self.mailbox, message)
            del self.model.labels[message]
            return
        what, _, name = step
        before = set(self.model.labels[message])
        if name == "TRASH":
            gmail = self.mailbox.gmail
            (gmail.trash if what == "add" else gmail.untrash)(message)
            changed = {"TRASH": what == "add"} | ({"INBOX": False} if what == "add" else {})
        else:
            self.mailbox.gmail.modify_message(message, **{what: [self.ids.get(name, name)]})
            changed = {name: what == "add"}
        self.model.note(message, changed, OWNER, before)

    # Mailroom

    def _retry(self, fault: str) -> None:
        for one in self.model.asked:
            if one.status in UNFINISHED:
                self._run(one, fault)

    def _run(self, asked: Asked, fault: str = "none") -> None:
        """Make one attempt at an action or undo, with those that are executed together with it."""
        if asked.message not in self.model.labels:
            self._attempt(asked, fault)
            self._read_statuses()
            return
        before, logs = self._in_gmail(), {one: len(log) for one, log in self.model.log.items()}
        waited = self._attempt(asked, fault)
        ran = self._read_statuses()
        if not waited and asked not in ran:
            ran.append(asked)
        after = self._in_gmail()
        for one in ran if not waited else []:
            if one.message in self.model.labels:
                refused = fault == "429" and one.message == asked.message
                self.model.judge(
                    one, before[one.message], after[one.message], logs[one.message], refused
                )
        for message, labels in after.items():
            found = self.model.labels[message]
            assert labels == found, (asked, labels, found)

    def _attempt(self, asked: Asked, fault: str) -> bool:
        """Make one attempt; say whether the action had to wait for others."""
        from mail.services.actions.perform import perform_action
        from mail.services.actions.perform_undo import perform_undo

        account, gmail = self.mailbox.account, self.mailbox.gmail
        self._order(fault)
        try:
            job_id = self._row(asked).job_id
            if asked.undo_of is None:
                perform_action(account, gmail, asked.pk, job_id=job_id)
            else:
                perform_undo(account, gmail, asked.undo_of.pk, job_id=job_id)
        except ActionWaits:
            return True
        except (GmailError, RowGone, ValueError):
            # As the queue does, a later step tries a failed action again; a message that is gone
            # stays gone.
            pass
        finally:
            self.mailbox.simulator.clear_faults()
        return False

    def _order(self, fault: str) -> None:
        """Let the next writes of Mailroom's to this mailbox meet the fault."""
        ordered = FAULTS[fault]
        for method in ("messages.modify", "messages.trash", "messages.untrash"):
            if ordered is not None:
                address = self.mailbox.account.address
                self.mailbox.simulator.order_fault(ordered, method=method, address=address)

    def _undo(self, which: int, fault: str) -> None:
        done = [
            one for one in self.model.asked if one.status == "completed" and one.undo_of is None
        ]
        done = [one for one in done if one.message in self.model.labels]
        if not done:
            return
        original = done[which % len(done)]
        with suppress(NotUndoable):
            undo = ask_undo(self.mailbox, self._row(original))
            asked = Asked(undo.pk, original.message, "undo", original, undo.status)
            self.model.asked.append(asked)
            if undo.status == "queued":
                self._run(asked, fault)

    def _wake(self, which: int, fault: str) -> None:
        from mail.services.actions.wake import wake

        snoozes = [
            one for one in self.model.asked if one.kind == "snooze" and one.status == "completed"
        ]
        due = [
            one for one in snoozes if one.message in self.model.labels and self._row(one).wake_at
        ]
        if not due:
            return
        snooze = due[which % len(due)]
        before = set(self.model.labels[snooze.message])
        changed = {SNOOZED: False}
        if "TRASH" not in before and not self.model.changed_since(snooze, "INBOX"):
            changed["INBOX"] = True
        account, gmail = self.mailbox.account, self.mailbox.gmail
        self._order(fault)
        try:
            wake(account, gmail, snooze.pk, label_id=self.ids[SNOOZED])
        except GmailError:
            # Whether it took effect is seen in the mailbox; a later step may try it again.
            after = self._in_gmail()[snooze.message]
            changed = {one: on for one, on in changed.items() if (one in after) is on}
        finally:
            self.mailbox.simulator.clear_faults()
        self.model.note(snooze.message, changed, WAKE, before)

    # Reading

    def _read_statuses(self) -> list[Asked]:
        """Take over the actions' states; return those that were executed just now."""
        from mail.models import Action

        with firm_scope(self.mailbox.firm):
            rows = Action.objects.filter(account=self.mailbox.account)
            statuses = dict(rows.values_list("pk", "status"))
        changed = []
        for one in self.model.asked:
            status = statuses.get(one.pk, "gone")
            if status != one.status:
                one.status = status
                changed.append(one)
        return changed

    def _in_gmail(self) -> dict[str, set[str]]:
        """Return each message's label names from the simulator's store: faster than by its API."""
        names = {label_id: name for name, label_id in self.ids.items()}
        found: dict[str, set[str]] = {}
        with self.mailbox.simulator._store.read() as connection:
            rows = connection.execute(
                "SELECT m.pk, l.label FROM message m JOIN mailbox b ON b.pk = m.mailbox"
                " LEFT JOIN message_label l ON l.message = m.pk WHERE b.address = ?",
                (self.mailbox.account.address,),
            ).fetchall()
        for pk, label in rows:
            labels = found.setdefault(message_id(pk), set())
            labels |= {names.get(label, label)} if label else set()
        return found

    def _row(self, asked: Asked) -> Action:
        from mail.models import Action

        with firm_scope(self.mailbox.firm):
            found: Action = Action.objects.select_related("account", "message").get(pk=asked.pk)
        return found

    def _chosen(self, which: int) -> str | None:
        there = sorted(self.model.labels)
        return there[which % len(there)] if there else None


def _sync(mailbox: Mailbox) -> None:
    from mail.services.syncing.sync import sync_mailbox
    from tests.mail.mirror_machine import run_ingests

    sync_mailbox(mailbox.account, mailbox.gmail)
    run_ingests(mailbox)


def random_steps(random: Random, count: int) -> Iterator[Step]:
    """Return random steps; changes of labels, by people and by Mailroom, are the most frequent."""
    for _ in range(count):
        which, fault = random.randrange(100), random.choice([*FAULTS, "none", "none"])
        kind = random.randrange(20)
        if kind < 6:
            yield "ask", which, random.choice(sorted(ACTIONS)), fault
        elif kind < 10:
            yield "undo", which, fault
        elif kind < 16:
            yield random.choice(("add", "remove")), which, random.choice(OWNERS_LABELS)
        else:
            wake = ("wake", which, random.choice(WAKE_FAULTS))
            choices: list[Step] = [("retry", fault), wake, ("sync",)]
            yield random.choice([*choices, ("retry", "none")])
