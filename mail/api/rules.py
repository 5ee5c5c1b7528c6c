"""`rules/`: rules, and trying, enabling, disabling, applying and deleting one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.views import example, list_operation, show_operation
from jobs.queries.lists import Page
from mail.api.base import ScopedView, scoped_operation
from mail.api.rule_serializers import (
    ApplyRuleBody,
    ChangeRuleBody,
    CreateRuleBody,
    RuleJobsSerializer,
    RuleSerializer,
    TrialSerializer,
)
from mail.api.serializers import SwitchBody
from mail.models import Rule
from mail.services.rules import operations as rule_operations
from mail.services.rules.reach import Limits
from tenants.models import Role

_RULE = OpenApiResponse(RuleSerializer, "The rule as it is now.")
_WHO = "Only for the mailbox's owner, and for admins who may read the mailbox."
_INVOICES = {"type": "subject_contains", "value": "invoice"}


class Rules(ScopedView):
    """The rules of the caller's firms."""

    resource = tag = "rules"
    model, serializer = Rule, RuleSerializer

    list = list_operation(
        "List rules",
        "The newest first. A rule with `corrections` is a proposal of Mailroom that nobody has "
        "enabled or changed yet.",
        serializer=RuleSerializer,
        rows="rules",
    )
    show = show_operation("Show a rule", "With its conditions as data and in words.", answer=_RULE)

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the rules, with who enabled them."""
        return super().get_rows(**filters).select_related("enabled_by", "account__owner")

    def get_context(self, page: Page[Any]) -> dict[str, Any]:
        """Share one `Limits` between the rules of a page."""
        return {**super().get_context(page), "limits": Limits()}

    @operation(
        "Create a rule",
        f"The rule does nothing until it has been tried and enabled. {_WHO}",
        body=CreateRuleBody,
        answers={HTTPStatus.CREATED: _RULE},
        example=example(
            "Invoices",
            name="Invoices",
            conditions=_INVOICES,
            category="payment_request",
            actions=[{"action": "star", "parameters": {}}],
        ),
    )
    def create(self, _: Request) -> Response:
        body = self.get_body(CreateRuleBody)
        firm = self.firm_named(body.pop("firm", None), Role.VIEWER)
        self.check_may_change(firm.pk, body.get("account_id"))
        rule = rule_operations.create_rule(firm.pk, by=self.actor, **body)
        return Response(self.represent(self.get_rows().get(pk=rule.pk)), HTTPStatus.CREATED)

    change = scoped_operation(
        rule_operations.change_rule,
        "Change a rule",
        "If the change affects what the rule does, the rule is disabled and has to be tried "
        f"again. {_WHO}",
        body=ChangeRuleBody,
        answer=_RULE,
        example=example("Earlier", priority=10, reason="Before the newsletters"),
    )

    @operation(
        "Try a rule",
        "The rule's conditions are checked against the newest mail that the caller may read. No "
        f"mail is changed. {_WHO}",
        body=SwitchBody,
        answers={HTTPStatus.OK: OpenApiResponse(TrialSerializer, "The matches.")},
        example=example("Try", reason="Before enabling it"),
    )
    def try_out(self, request: Request, **__: UUID) -> Response:
        rule = self.get_changeable()
        trial = rule_operations.try_rule(
            rule, user_id=request.user.pk, by=self.actor, **self.get_body(SwitchBody)
        )
        return Response(TrialSerializer(trial).data)

    enable = scoped_operation(
        rule_operations.enable_rule,
        "Enable a rule",
        "The rule applies to mail that arrives from now on. In a private mailbox whose mail the "
        "caller may not read, the rule checks senders and recipients only, and dangerous "
        f"actions wait for approval. {_WHO} 409 if the rule was not tried in its present form.",
        body=SwitchBody,
        answer=_RULE,
        example=example("Enable", reason="It matched what it should"),
    )

    disable = scoped_operation(
        rule_operations.switch_off_rule,
        "Disable a rule",
        f"The rule no longer applies to new mail. What it has already done stays. {_WHO} 409 if "
        "the rule is not enabled.",
        body=SwitchBody,
        answer=_RULE,
        example=example("Disable", reason="Too eager"),
    )

    @operation(
        "Apply a rule to old mail",
        "One job for each mailbox performs the rule's actions on the stored mail of the last "
        f"days. {_WHO} 409 if the rule is not enabled, or has no actions.",
        body=ApplyRuleBody,
        answers={HTTPStatus.ACCEPTED: OpenApiResponse(RuleJobsSerializer, "The jobs.")},
        example=example("A month", days=30, reason="Tidy up"),
    )
    def apply(self, _: Request, **__: UUID) -> Response:
        rule = self.get_changeable()
        results = rule_operations.apply_to_old_mail(
            rule, by=self.actor, **self.get_body(ApplyRuleBody)
        )
        return Response(
            {"job_ids": [str(result.job.pk) for result in results]}, HTTPStatus.ACCEPTED
        )

    delete_rule = scoped_operation(
        rule_operations.delete_rule,
        "Delete a rule",
        f"What the rule has already decided and done stays. {_WHO}",
        body=SwitchBody,
        answer=OpenApiResponse(RuleSerializer, "The rule as it was."),
        example=example("Delete", reason="Not needed any more"),
    )
