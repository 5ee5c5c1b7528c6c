"""settings.sendAs: the addresses under which the owner of a mailbox writes."""

from __future__ import annotations

from mail.gmail.simulator.answer import not_found
from mail.gmail.simulator.call import Call, Handler, Json
from mail.gmail.simulator.mailbox import Mailbox


def add_alias(mailbox: Mailbox, alias: str, *, verified: bool) -> None:
    """Add an address of the owner's; one that is not verified cannot be used yet."""
    mailbox.connection.execute(
        "INSERT OR REPLACE INTO send_as VALUES (?, ?, ?)",
        (mailbox.pk, alias.lower(), "accepted" if verified else "pending"),
    )


def own_aliases(mailbox: Mailbox) -> set[str]:
    """Return the owner's other verified addresses."""
    rows = mailbox.connection.execute(
        "SELECT address FROM send_as WHERE mailbox = ? AND verification = 'accepted'",
        (mailbox.pk,),
    )
    return {row["address"] for row in rows}


def _list(mailbox: Mailbox, _call: Call) -> Json:
    rows = mailbox.connection.execute(
        "SELECT address, verification FROM send_as WHERE mailbox = ? ORDER BY address",
        (mailbox.pk,),
    )
    # Like Gmail, leave out the verification of the primary address.
    primary = _describe(mailbox.address) | {"isPrimary": True, "isDefault": True}
    return {
        "sendAs": [
            primary,
            *(
                _describe(row["address"]) | {"verificationStatus": row["verification"]}
                for row in rows
            ),
        ]
    }


def _get(mailbox: Mailbox, call: Call) -> Json:
    wanted = call.path["sendAsEmail"].lower()
    for entry in _list(mailbox, call)["sendAs"]:
        if entry["sendAsEmail"] == wanted:
            found: Json = entry
            return found
    raise not_found()


def _describe(address: str) -> Json:
    return {"sendAsEmail": address, "displayName": "", "replyToAddress": "", "signature": ""}


READERS: dict[str, Handler] = {"settings.sendAs.list": _list, "settings.sendAs.get": _get}
