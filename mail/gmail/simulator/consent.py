"""The page on which a person lets an application into a mailbox, or refuses."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Gmail simulator: consent</title>
<style>body{{font:16px system-ui;max-width:32rem;margin:4rem auto;padding:0 1rem}}
label{{display:block;margin:.5rem 0}}button{{font:inherit;padding:.5rem 1.5rem;margin:1rem .5rem 0 0}}
</style></head><body>
<h1>An application asks for access</h1>
<p>This is the local Gmail simulator, not Google.</p>
<form method="post">
<label>Account <select name="account">{accounts}</select></label>
<fieldset><legend>It would be able to use</legend>{scopes}</fieldset>
<button name="answer" value="allow">Allow</button>
<button name="answer" value="deny">Cancel</button>
</form></body></html>
"""


def consent_page(addresses: Iterable[str], scopes: Iterable[str], preselected: str) -> str:
    """Return the page: the mailboxes to choose from, and the scopes to untick."""
    accounts = "".join(
        f"<option{' selected' if address == preselected else ''}>{escape(address)}</option>"
        for address in addresses
    )
    boxes = "".join(
        f'<label><input type="checkbox" name="{escape(scope)}" checked> {escape(scope)}</label>'
        for scope in scopes
    )
    return _PAGE.format(accounts=accounts, scopes=boxes)
