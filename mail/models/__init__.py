"""The models of mailboxes and their mail, of decisions, actions, drafts and events."""

from mail.models.account import (
    MAX_ADDRESS_LENGTH,
    MAX_ERROR_LENGTH,
    Connection,
    ContentGrant,
    GrantKind,
    MailAccount,
    MailCredential,
    Mode,
    PausedBy,
    Provider,
    SyncStatus,
)
from mail.models.action import (
    UNFINISHED,
    Action,
    ActionLink,
    ActionStatus,
    ActionType,
    Relation,
)
from mail.models.agent import AgentProfile, AgentRun, Preprocessor, RunStatus
from mail.models.agent_schedule import AgentSchedule
from mail.models.approval import Approval, ApprovalStatus
from mail.models.data_request import (
    DataRequest,
    ExportPart,
    RequestKind,
    RequestStatus,
    SuppressionList,
)
from mail.models.decision import Decision, DecisionSource
from mail.models.direction import MAX_DIRECTION_LENGTH, Direction, DirectionKind
from mail.models.document import (
    MAX_DETECTED_LENGTH,
    MAX_MALWARE_LENGTH,
    Document,
    DocumentStatus,
    ScanResult,
)
from mail.models.draft import (
    MAX_INSTRUCTION_LENGTH,
    Draft,
    DraftOrigin,
    DraftSource,
    DraftStatus,
)
from mail.models.event import EventType, MailEvent
from mail.models.label import MAX_LABEL_LENGTH, MailLabel
from mail.models.llm_call import CallType, LLMCall
from mail.models.message import (
    MAX_CALENDAR_METHOD_LENGTH,
    MAX_MIME_TYPE_LENGTH,
    MAX_PART_ID_LENGTH,
    Attachment,
    Message,
    MessageIndex,
)
from mail.models.outbound import OutboundKind, OutboundMessage, OutboundStatus
from mail.models.push_receipt import PushReceipt
from mail.models.reminder import NotificationPreference, Reminder, ReminderStatus
from mail.models.reply_settings import Contact, ReplySettings, ReplyStyle, ReplyTemplate
from mail.models.routing_rule import Route, RoutingRule
from mail.models.rule import Rule, SafeMode
from mail.models.scoped import Scope
from mail.models.thread import (
    CATEGORY_CHOICES,
    MAX_GMAIL_ID_LENGTH,
    MailThread,
    ThreadStatus,
)
