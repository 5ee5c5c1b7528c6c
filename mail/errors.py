"""What can go wrong in the mail app, as one tree.

MailError
  AppendOnly         an event was to be changed or removed, but events are only added
  MailboxGone        no such mailbox in this firm
  MailboxInactive    the mailbox is switched off
  MailboxDisconnected  nobody permits Mailroom to use the mailbox any more
  MailboxWaits       the mailbox must be connected again, or Gmail asked for fewer requests
    ActionWaits      an earlier action on the same message is not finished
    OrderChanged     the person has changed the order for a rework before it was carried out
  ConsentUnusable    a person's consent does not cover what Mailroom needs
    WrongMailbox     the consent is for another mailbox
  WrongState         the state of a mailbox or an action does not allow the operation
    NotUndoable      the action cannot be undone
  AgentUnusable      there is no such profile, or no language model to run it
  RowGone            a message, thread or action that a job names no longer exists
  ReasonMissing      the operation needs a reason
  FaultyInput        the input cannot be used
    ConditionsInvalid  a rule's conditions
    RuleInvalid      another part of a rule
    RoutingInvalid     a routing rule
    ActionInvalid    an action's parameters
    OutboundInvalid    a message to be sent
    ProfileInvalid     an agent's profile
    ReplyInvalid       a style, template, contact or setting of answers
    AgentScheduleInvalid  an agent schedule
    ReminderInvalid    a reminder
    PreferenceInvalid  a notification preference
  AutomaticRefused   an automatic message could begin a loop, or there were too many
  TopicRefused       Gmail cannot publish to the topic that the settings name

Gmail's own failures have their tree in mail/gmail/errors.py.
"""

from __future__ import annotations

from dataclasses import asdict

from jobs.errors import Fault


class MailError(Exception):
    """Something went wrong with mail."""

    code = "mail_error"


class AppendOnly(MailError):
    """Events can be added, but not changed or removed."""

    code = "append_only"

    def __init__(self) -> None:
        super().__init__(self.__doc__)


class MailboxGone(MailError):
    """No such mailbox in this firm."""

    code = "mailbox_gone"


class MailboxInactive(MailError):
    """The mailbox is switched off; activate it and retry the job."""

    code = "mailbox_inactive"


class MailboxDisconnected(MailError):
    """Nobody permits Mailroom to use the mailbox any more; connect it, then retry the job."""

    code = "mailbox_disconnected"


class MailboxWaits(MailError):
    """No job of the mailbox may call Gmail for now; `seconds` says for how long at least."""

    code = "mailbox_waits"

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class ConsentUnusable(MailError):
    """The person's consent does not cover what Mailroom needs."""

    code = "consent_unusable"


class WrongMailbox(ConsentUnusable):
    """The consent is for another mailbox than the one to be connected."""

    code = "wrong_mailbox"


class ActionWaits(MailboxWaits):
    """An earlier action on the same message is not finished."""

    code = "action_waits"


class OrderChanged(MailboxWaits):
    """The person has changed the order for a rework meanwhile, so the job reads it again."""

    code = "order_changed"


class WrongState(MailError):
    """The state of the mailbox or action does not allow the operation."""

    code = "wrong_state"


class NotUndoable(WrongState):
    """The action cannot be undone; the message says why."""

    code = "not_undoable"


class AgentUnusable(MailError):
    """There is no such profile, or no language model to run it."""

    code = "agent_unusable"


class RowGone(MailError):
    """A message, thread or action that the job names no longer exists."""

    code = "row_gone"


class ReasonMissing(MailError):
    """The operation needs a reason."""

    code = "reason_missing"


class FaultyInput(MailError):
    """The input cannot be used; `errors` lists its faults, each {field, code, message}."""

    code = "invalid"

    def __init__(self, errors: list[dict[str, str]]) -> None:
        super().__init__("; ".join(f"{one['field']} {one['message']}" for one in errors))
        self.errors = errors


class ConditionsInvalid(FaultyInput):
    """A rule's conditions cannot be used; `errors` says where and why."""

    code = "conditions_invalid"


class RuleInvalid(FaultyInput):
    """A rule cannot be used as it is; `errors` says why."""

    code = "rule_invalid"


class RoutingInvalid(FaultyInput):
    """A routing rule cannot be used as it is; `errors` says where and why."""

    code = "routing_invalid"


class ActionInvalid(FaultyInput):
    """The action cannot be executed as asked for; `faults` names each parameter and its fault."""

    code = "action_invalid"

    def __init__(self, action_type: str, faults: list[Fault]) -> None:
        super().__init__([asdict(fault) for fault in faults])
        self.faults = faults
        self.action_type = action_type


class ProfileInvalid(FaultyInput):
    """An agent's profile cannot be used as it is; `errors` says where and why."""

    code = "profile_invalid"


class ReplyInvalid(FaultyInput):
    """A style, template, contact or setting of answers cannot be used; `errors` says why."""

    code = "reply_invalid"


class AgentScheduleInvalid(FaultyInput):
    """An agent schedule cannot be used as it is; `errors` says where and why."""

    code = "agent_schedule_invalid"


class ReminderInvalid(FaultyInput):
    """A reminder cannot be used as it is; `errors` says where and why."""

    code = "reminder_invalid"


class PreferenceInvalid(FaultyInput):
    """A notification preference cannot be used as it is; `errors` says where and why."""

    code = "preference_invalid"


class OutboundInvalid(FaultyInput):
    """The message cannot be sent as it is; `errors` names each field and its fault."""

    code = "outbound_invalid"

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__([asdict(fault) for fault in faults])


class AutomaticRefused(MailError):
    """An automatic message could begin a loop, or exceeds the limit of such messages."""

    code = "automatic_refused"


class TopicRefused(MailError):
    """Gmail cannot publish to the topic GMAIL_PUBSUB_TOPIC; the text says why, and what to do."""

    code = "topic_refused"
