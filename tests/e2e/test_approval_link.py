"""The approval page's buttons in a real browser, which sends the Origin header with a form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model

from mail.models import ActionType, Approval
from mail.services.actions.actions import request_action
from mail.services.approvals.tokens import link_token
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.e2e.conftest import LONGEST_MS
from tests.factories.mail import MessageFactory
from tests.mail.approval_kit import reread
from tests.mail.mail_kit import stored

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("button", "status"), [("Approve", "approved"), ("Reject", "rejected")])
def test_a_button_decides(
    live_server: Any, browser: Browser, firm: Firm, operator: str, button: str, status: str
) -> None:
    message = MessageFactory(account__firm=firm, account__shared=True)
    with firm_scope(firm):
        request_action(message, ActionType.DELETE, needs_approval=True)
    (approval,) = stored(Approval)
    user = get_user_model().objects.get(username=operator)
    page = browser.new_page()
    page.set_default_timeout(LONGEST_MS)
    page.goto(f"{live_server.url}/approvals/{link_token(approval, user)}/")
    with page.expect_navigation() as pressed:
        page.get_by_role("button", name=button).click()
    answered = pressed.value.status
    page.close()
    assert (answered, reread(approval).status) == (200, status)
